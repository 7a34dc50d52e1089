"""Layouts: where the channels of values between kernels lie, chosen for the whole graph.

    fused.lay_out("NHWC")            # all channels side by side, wherever that is possible
    fused.lay_out("NCHW16c")         # in blocks of 16
    fused.lay_out({"conv1": 16})     # one by one; 0 is the order of the axes
    default_layouts(fused)           # those of an untuned graph

A kernel reads each input in its layout and writes its result in its own, so a change of layout is
no kernel: it is a part of the one that reads. `cheapest` chooses by the times of kernels, exactly,
by dynamic programming over the groups in their order. Source: Liu et al., Optimizing CNN Model
Inference on CPUs, USENIX ATC 2019, §3.3.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from minitensor.errors import ArgumentError, is_integer, unexpected
from minitensor.graph.classes import Kind, kind_of_node
from minitensor.graph.nodes import Nodes
from minitensor.ir import print_name
from minitensor.lang import fits

WINDOWS: Final = re.compile(r"conv\dd|conv_transpose\dd|conv_integer|qlinear_conv|(max|avg)_pool")
"""Operators on images, whose values have channels."""
SMALLEST: Final = 4
"""The fewest channels of a block."""
FULL: Final = 8
"""By default channels lie last if they are a multiple of so many: then each pixel begins at a
vector (32 bytes of float32), and no vector holds channels of two pixels.
"""
MOST_STATES: Final = 4096
"""Beyond so many layouts of the values that are alive at once, the cheapest go on."""
_NAME: Final = re.compile(r"NCD?H?W(?P<block>\d*)(?P<blocked>c?)|(?P<last>ND?H?WC)")

Layouts: TypeAlias = Mapping[str, int]
"""The channels side by side by value."""
Cost: TypeAlias = Callable[[Sequence[str], Layouts], float]
"""Seconds of a group whose inputs and results lie so; infinity if they cannot."""


def images(graph: Nodes) -> tuple[str, ...]:
    """The values between kernels that are images with channels: those that windows slide over, and
    what is connected to them with as many axes. Raises ArgumentError for what is no graph.
    """
    if not isinstance(graph, Nodes):
        raise unexpected("a graph", "graph", graph)
    near: dict[str, set[str]] = {}
    found: list[str] = []
    for group in graph.kernels:
        ranks = {len(graph.values[name].shape) for name in group}
        touched = [n for n in touched_by(graph, group) if len(graph.values[n].shape) in ranks]
        for name in touched:
            near.setdefault(name, set()).update(touched)
        if any(WINDOWS.fullmatch(graph.by_name[name].operator) for name in group):
            found += touched
    known = set(found)
    while found:
        new = near[found.pop()] - known
        known |= new
        found += new
    return tuple(node.name for node in graph.nodes if node.name in known)


def touched_by(graph: Nodes, group: Sequence[str]) -> tuple[str, ...]:
    """The values that a kernel reads or writes and that may have a layout."""
    inside = set(group)
    read = dict.fromkeys(name for node in group for name in graph.by_name[node].inputs)
    between = [name for name in read if name in graph.by_name and name not in inside]
    return tuple(name for name in (*between, *results_of(graph, group)) if _may(graph, name))


def results_of(graph: Nodes, group: Sequence[str]) -> list[str]:
    """The values of a group that others read."""
    inside = set(group)
    return [name for name in group if any(user not in inside for user in graph.users[name])]


def _may(graph: Nodes, name: str) -> bool:
    """Tell whether a value may have a layout of its own: not an output, and more than a pixel."""
    shape = graph.values[name].shape
    return (
        name not in graph.outputs
        and fits(shape, 1)
        and math.prod(shape[2:]) > 1
        and kind_of_node(graph, graph.by_name[name]) is not Kind.OPAQUE
    )


def block_in(shape: Sequence[int], wanted: int) -> int:
    """The largest block of channels that divides them, of `wanted` and its halves; 0 for none."""
    while wanted >= SMALLEST:
        if shape[1] % wanted == 0:
            return wanted
        wanted //= 2
    return 0


def uniform(graph: Nodes, name: str) -> dict[str, int]:
    """One layout for all images, by its usual name. Raises ArgumentError for a name of none."""
    found = _NAME.fullmatch(name)
    if found is None or bool(found["block"]) != bool(found["blocked"]):
        raise unexpected('"NCHW", "NHWC", or "NCHW16c" with any number', "layouts", name)
    if not found["last"] and not found["block"]:
        return {}
    if found["block"] and int(found["block"]) < SMALLEST:
        raise unexpected(f"blocks of at least {SMALLEST} channels", "layouts", name)
    shapes = {one: graph.values[one].shape for one in images(graph)}
    if found["last"]:
        return {one: shape[1] for one, shape in shapes.items() if shape[1] > 1}
    blocks = {one: block_in(shape, int(found["block"])) for one, shape in shapes.items()}
    return {one: block for one, block in blocks.items() if block}


def default_layouts(graph: Nodes) -> dict[str, int]:
    """The layouts of an untuned graph: channels last for each image whose channels are a multiple
    of 8, and the order of the axes for all others.

    With channels last a 1x1 convolution is a product of matrices, and rows of 7 or 27 pixels
    leave no lanes idle.

    Returns the channels side by side by value, as `lay_out` takes them. Raises ArgumentError for
    what is no graph.
    """
    return {
        name: channels for name, channels in uniform(graph, "NHWC").items() if channels % FULL == 0
    }


def checked_layouts(graph: Nodes, layouts: object) -> dict[str, int]:
    """Layouts by a name or by value, as a graph holds them. Raises ArgumentError."""
    if isinstance(layouts, str):
        return uniform(graph, layouts)
    if not isinstance(layouts, Mapping):
        raise unexpected("the name of a layout, or blocks by value", "layouts", layouts)
    for name, block in layouts.items():
        graph.node(name)
        shape = graph.values[name].shape
        if not is_integer(block, 0) or not fits(shape, block):
            raise ArgumentError(
                f"layouts: {print_name(name)} is {graph.values[name]}; expected 0 or a divisor of "
                f"its channels (axis 1 of at least 3), but got {block!r}"
            )
        if block and (name not in _between(graph) or not _may(graph, name)):
            raise ArgumentError(
                f"layouts: {print_name(name)} is no image between kernels, whose layout is free"
            )
    return {name: int(block) for name, block in layouts.items() if block}


def _between(graph: Nodes) -> set[str]:
    return {name for group in graph.kernels for name in results_of(graph, group)}


def cheapest(graph: Nodes, choices: Mapping[str, Sequence[int]], cost: Cost) -> dict[str, int]:
    """The layouts with the least time of all kernels together.

    choices  those of each value; of equally fast ones the first is taken
    """
    last = {
        name: number
        for number, group in enumerate(graph.kernels)
        for name in touched_by(graph, group)
    }
    # by the layouts of the values that later kernels read: seconds, and all choices until now
    states: dict[tuple[tuple[str, int], ...], tuple[float, Any]] = {(): (0.0, None)}
    for number, group in enumerate(graph.kernels):
        touched = [name for name in touched_by(graph, group) if name in choices]
        made = [name for name in results_of(graph, group) if name in touched]
        found: dict[tuple[tuple[str, int], ...], tuple[float, Any]] = {}
        for (state, (seconds, past)), picked in itertools.product(
            states.items(), itertools.product(*(choices[name] for name in made))
        ):
            new = tuple(zip(made, picked))
            known = dict((*state, *new))
            total = seconds + cost(group, {name: known[name] for name in touched})
            kept = tuple((name, block) for name, block in known.items() if last[name] > number)
            if total < math.inf and (kept not in found or total < found[kept][0]):
                found[kept] = (total, (past, new))
        ordered = sorted(found.items(), key=lambda one: one[1][0])
        states = dict(ordered[:MOST_STATES])
    chosen: dict[str, int] = {}
    past = min(states.values(), key=lambda one: one[0])[1] if states else None
    while past is not None:
        past, new = past
        chosen.update(new)
    return {name: block for name, block in chosen.items() if block}
