"""From a scheduled program to text: the passes, in order.

A pass takes a program that verifies and gives one that verifies and means the same; with `check`
on, that is tested after each. `lowered` is the program that is emitted. All passes but those of
REQUIRED only make it faster and can be left out, to find the one that a fault comes from.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol, TypeAlias

from minitensor import ir
from minitensor.codegen.emit.c import emit_c
from minitensor.codegen.emit.cuda import emit_cuda
from minitensor.codegen.emit.emitter import Part
from minitensor.codegen.gpu.limits import check_kernels
from minitensor.codegen.passes.carry_scans import carry_scans
from minitensor.codegen.passes.check_bounds import check_bounds
from minitensor.codegen.passes.erase_blocks import erase_blocks
from minitensor.codegen.passes.fill_tiles import fill_tiles
from minitensor.codegen.passes.hoist_guards import hoist_guards
from minitensor.codegen.passes.hoist_values import hoist_values
from minitensor.codegen.passes.insert_prefetches import insert_prefetches
from minitensor.codegen.passes.map_threads import map_threads
from minitensor.codegen.passes.name_registers import name_registers
from minitensor.codegen.passes.name_values import name_values
from minitensor.codegen.passes.narrow_positions import narrow_positions
from minitensor.codegen.passes.partition_loops import partition_loops
from minitensor.codegen.passes.pipeline_copies import pipeline_copies
from minitensor.codegen.passes.promote_accumulators import promote_accumulators
from minitensor.codegen.passes.shrink_storage import shrink_storage
from minitensor.codegen.passes.simplify import simplify_program
from minitensor.codegen.passes.skip_terms import skip_terms
from minitensor.codegen.passes.unroll_loops import unroll_loops
from minitensor.codegen.passes.unroll_registers import unroll_registers
from minitensor.codegen.passes.vectorize_loops import vectorize_loops
from minitensor.codegen.passes.wide_copies import wide_copies
from minitensor.codegen.passes.write_in_place import write_in_place
from minitensor.codegen.target import Emitted, Target, unsupported
from minitensor.errors import ArgumentError, MinitensorError, unexpected


class Pass(Protocol):
    """A function from a program to one that means the same; the target has nothing left open."""

    def __call__(self, program: ir.Program, target: Target, /) -> ir.Program:
        """Run the pass."""


Passes: TypeAlias = Sequence[tuple[str, Pass]]
"""Passes with their names, in the order in which they run."""
Dump: TypeAlias = Callable[[str], object]
"""A function that is given the difference that each pass makes, as text."""

PASSES: Final[tuple[tuple[str, Pass], ...]] = (
    ("check_bounds", check_bounds),
    ("erase_blocks", erase_blocks),
    ("shrink_storage", shrink_storage),
    ("simplify", simplify_program),
    ("write_in_place", write_in_place),
    ("insert_prefetches", insert_prefetches),
    ("partition_loops", partition_loops),
    ("carry_scans", carry_scans),
    ("promote_accumulators", promote_accumulators),
    ("skip_terms", skip_terms),
    ("narrow_positions", narrow_positions),
    ("vectorize_loops", vectorize_loops),
    ("unroll_loops", unroll_loops),
    ("simplify again", simplify_program),
    ("hoist_guards", hoist_guards),
    ("hoist_values", hoist_values),
    ("name_registers", name_registers),
    ("name_values", name_values),
)
"""The passes of `build` for a CPU."""
CUDA_PASSES: Final[tuple[tuple[str, Pass], ...]] = (
    ("check_bounds", check_bounds),
    ("erase_blocks", erase_blocks),
    ("shrink_storage", shrink_storage),
    ("simplify", simplify_program),
    ("map_threads", map_threads),
    ("shrink_storage again", shrink_storage),
    ("simplify again", simplify_program),
    ("fill_tiles", fill_tiles),
    ("pipeline_copies", pipeline_copies),
    ("wide_copies", wide_copies),
    ("unroll_registers", unroll_registers),
    ("hoist_guards", hoist_guards),
    ("check_kernels", check_kernels),
)
"""The passes of `build` for a GPU, or for the emulator of one."""
REQUIRED: Final = ("check_bounds", "erase_blocks")
"""The passes that no program goes without: one makes it safe, one leaves plain statements."""
LONGEST_HEADER: Final = 500  # lines of a header that are put in front, at most


def passes_of(target: Target) -> tuple[tuple[str, Pass], ...]:
    """The passes of `build` for a target."""
    return CUDA_PASSES if target.is_gpu else PASSES


def passes_without(
    names: Collection[str], target: Target | None = None
) -> tuple[tuple[str, Pass], ...]:
    """The passes of a target (None: of a CPU) but for those called `names`.

    Raises ArgumentError for a name that is no pass, or a pass that no program goes without.
    """
    own = PASSES if target is None else passes_of(target)
    optional = [name for name, _ in own if name not in (*REQUIRED, "map_threads")]
    for name in names:
        if name not in optional:
            raise unexpected("one of " + ", ".join(map(repr, optional)), "without", name)
    return tuple((name, run) for name, run in own if name not in names)


def checked_passes(passes: object, target: Target) -> tuple[tuple[str, Pass], ...]:
    """Passes given by a user. Raises ArgumentError for what is none, or if those of the target
    stand in another order, twice, or lack one that no program goes without.
    """
    if not isinstance(passes, Sequence) or not all(map(_is_pass, passes)):
        raise unexpected("pairs of a name and a function of a program", "passes", passes)
    found = tuple((str(name), run) for name, run in passes)
    own = passes_of(target)
    listed = f"mt.codegen.{'CUDA_PASSES' if target.is_gpu else 'PASSES'}"
    for name, run in own:
        if name in (*REQUIRED, "map_threads") and run not in [other for _, other in found]:
            raise ArgumentError(
                f"passes lacks {name!r}, which no program goes without; begin with {listed}"
            )
    known = iter(own)
    for one in found:
        if one in own and one not in known:  # which goes on behind the one before
            raise ArgumentError(
                f"passes has {one[0]!r} twice, or in another order than {listed}; "
                "keep that order, and put passes of your own between them"
            )
    return found


def _is_pass(item: object) -> bool:
    match item:
        case (str(), run) if isinstance(item, tuple):
            return callable(run)
    return False


def lowered(
    program: ir.Program,
    target: Target,
    passes: Passes | None = None,
    check: bool = False,
    dump: Dump | None = None,
) -> ir.Program:
    """The program after all passes.

    passes  in their order; None for those of the target
    check  verify the program after each pass, and not only after those of a user
    dump   is given the difference that each pass makes

    Raises ArgumentError for a program that is too large, and for a pass of a user that raises, or
    gives no program, or one with other parameters; VerifyError if what it gives is malformed.
    """
    ir.make_room(program.body, around=len(program.temporaries))
    own = passes_of(target)
    for name, run in own if passes is None else passes:
        before = program
        if (name, run) in own:
            program = run(program, target)
        else:
            program = _result(name, run, program, target)
        if check or (name, run) not in own:
            ir.verify(program)
        if dump is not None:
            dump(_difference(name, before, program))
    return program


def _result(name: str, run: Pass, before: ir.Program, target: Target) -> ir.Program:
    """The program after a pass of a user. Raises ArgumentError if there is none that will do."""
    try:
        after = run(before, target)
    except MinitensorError:
        raise
    except Exception as failure:
        text = f"the pass {name!r} raises {type(failure).__name__}: {failure}"
        raise ArgumentError(text) from failure
    if not isinstance(after, ir.Program):
        raise unexpected("a program", f"the result of the pass {name!r}", after)
    if after.params != before.params:
        raise ArgumentError(f"the pass {name!r} changes the parameters of the program")
    lost = [b.name for b in before.outputs if b not in after.outputs]
    if lost or len(after.outputs) != len(before.outputs):
        names = ", ".join(map(ir.print_name, lost)) or "an input"
        done = "no longer stores to" if lost else "stores to"
        raise ArgumentError(f"the pass {name!r} {done} {names}")
    return after


def _difference(name: str, before: ir.Program, after: ir.Program) -> str:
    """The lines that a pass took away and put in, as a unified diff."""
    old, new = str(before).splitlines(), str(after).splitlines()
    lines = list(difflib.unified_diff(old, new, "before", name, lineterm=""))
    return "\n".join(lines) if lines else f"--- {name}: no difference"


def generate(
    program: ir.Program,
    target: Target,
    header: str = "",
    *,
    passes: Passes | None = None,
    check: bool = False,
    dump: Dump | None = None,
    hooks: bool = False,
) -> Emitted:
    """The text of a kernel.

    target  with nothing left open (see `Target.resolved`)
    header  put in front as a comment: usually the schedule as Python
    passes, check, dump  see `lowered`
    hooks   whether the function reports events as it runs (see `codegen.emit.hooks`)
    """
    after = lowered(_emittable(program, target), target, passes, check, dump)
    part = Part(after, program, target)
    if target.is_gpu:
        return emit_cuda([part], _cut(header))[0]
    return emit_c([part], _cut(header), hooks)[0]


def generate_together(
    wanted: Sequence[tuple[ir.Program, Target]], hooks: bool = False
) -> tuple[Emitted, ...]:
    """One text with a kernel for each program: what takes a compiler longest is to start.

    wanted  programs, each with its target (nothing left open), all of a CPU or all of a GPU
    hooks   see `generate`
    """
    parts = [Part(lowered(_emittable(p, target), target), p, target) for p, target in wanted]
    if any(part.target.is_gpu for part in parts):
        return emit_cuda(parts)
    return emit_c(parts, hooks=hooks)


def _emittable(program: ir.Program, target: Target) -> ir.Program:
    if target.kind != "c" and not target.is_gpu:
        raise unsupported(target)
    return program


def _cut(header: str) -> str:
    lines = header.splitlines()
    left = len(lines) - LONGEST_HEADER
    shown = [*lines[:LONGEST_HEADER], f"... and {left} more lines"]
    return "\n".join(shown) if left > 0 else header
