"""All pictures of a program, and of a refusal, and what is left out of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from minitensor import ir
from minitensor.errors import MinitensorError
from minitensor.pictures.conflict import conflict_picture
from minitensor.pictures.footprint import footprint_picture
from minitensor.pictures.nest import nest_picture
from minitensor.pictures.order import order_pictures
from minitensor.pictures.svg import Picture, fitted

BUFFERS: Final = 6
"""The most buffers whose visits are drawn: those of the call, then temporaries."""


def program_pictures(
    program: ir.Program,
    caches: Mapping[str, int] | None = None,
    lanes: Callable[[ir.Program], list[Picture]] | None = None,
) -> tuple[list[Picture], list[str]]:
    """The pictures of a program: its nest, its footprints, the order of visits of each buffer, the
    lanes of a GPU if there are loops that are bound to one; and sentences on what is left out.

    caches  sizes in bytes by level
    lanes   draws the accesses of a program for a GPU
    """
    found = [nest_picture(program)]
    footprint = footprint_picture(program, caches=caches)
    if footprint is not None:
        found.append(footprint)
    notes = []
    names = list(program.buffers)
    unknown = []
    for name in names[:BUFFERS]:
        drawn = order_pictures(program, name)
        found += drawn
        if not drawn:
            unknown.append(fitted(ir.print_name(name), 40))
    if unknown:
        notes.append(
            f"The visits of {', '.join(unknown)} are not drawn: none is made, an index depends on "
            "data, or the expression is too large."
        )
    if len(names) > BUFFERS:
        notes.append(f"The visits of {len(names) - BUFFERS:,} more buffers are not drawn.")
    if lanes is not None and any(loop.kind.is_bound for loop in ir.loops_of(program.body)):
        try:
            found += lanes(program)
        except MinitensorError as problem:
            notes.append(f"The lanes of warps are not drawn: {problem.message}")
    return found, notes


def refusal_pictures(program: ir.Program, marks: ir.Marks) -> list[Picture]:
    """The pictures of a refused step: two iterations that conflict where the culprit is a loop with
    such, and the nest with the culprits marked.
    """
    loops = [name for name in marks.loops if name in ir.loop_sites(program)]
    found = [nest_picture(program, marks)]
    if loops and marks.blocks:  # blocks are named where their accesses are at fault
        found.insert(0, conflict_picture(program, loops[0]))
    return found
