"""Tensors laid out anew: the same elements, in another order of axes.

A layout of (n, c, spatial…) is named by the channels that lie side by side: 0 for the order as it
is written, the number of all channels for (n, spatial…, c), "channels last", and a divisor b of it
for (n, c/b, spatial…, b). The definition of each stage changes with the tensors that it reads and
computes, so a layout costs no copy. Source: Liu et al., Optimizing CNN Model Inference on CPUs,
USENIX ATC 2019, §3.2, whose kernels are blocked by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from minitensor import arith, ir
from minitensor.lang.lower import stages_in_order
from minitensor.lang.scalar import Label
from minitensor.lang.tensor import Axis, Stage, Tensor

FEWEST_AXES: Final = 3
"""The axes of a tensor that can have a layout: n, c, and at least one more."""


def fits(shape: Sequence[int], block: int) -> bool:
    """Tell whether a tensor can have this layout."""
    return block == 0 or (len(shape) >= FEWEST_AXES and shape[1] % block == 0)


def relaid_shape(shape: Sequence[int], block: int) -> tuple[int, ...]:
    """The shape of an array in this layout."""
    if not block:
        return tuple(shape)
    n, channels, *spatial = shape
    outer = [] if block == channels else [channels // block]
    return (n, *outer, *spatial, block)


def relaid(
    tensors: Sequence[Tensor], blocks: Mapping[Tensor, int], constants: Sequence[Tensor] = ()
) -> list[Tensor]:
    """Placeholders and results in their layouts; what lies between is laid out as it is read.

    blocks     the layouts of some of them, which fit; others are as they are written
    constants  those that are weights: a stage reads them from a copy in which the
               channels that lie side by side in images do so too

    Stages of several tensors, and ordered updates, keep their order of axes.
    """
    chosen = dict.fromkeys(tensors, 0) | dict(blocks)
    work = _Relaying(chosen, frozenset(t for t in constants if len(t.shape) > 1))
    stages = stages_in_order(tuple(tensors))
    for tensor in reversed(stages):
        work.choose_inside(tensor)
    for tensor in tensors:
        if tensor.stage is None:
            work.made[tensor] = work.renewed(tensor)
    for tensor in stages:
        work.stage(tensor)
    return [work.made[tensor] for tensor in tensors]


class _Relaying:
    """The tensors made so far, by those that they stand for.

    blocks     the layouts that are chosen
    constants  tensors that are copied where channels are read side by side
    """

    def __init__(self, blocks: dict[Tensor, int], constants: frozenset[Tensor]) -> None:
        self.blocks, self.constants = blocks, constants
        self.made: dict[Tensor, Tensor] = {}

    def choose_inside(self, tensor: Tensor) -> None:
        """Give a layout to what a stage reads at its own channel; and to the stage, if it has none,
        that of what it reads so, as padding does.
        """
        stage = tensor.stage
        assert stage is not None
        if len(tensor.shape) < FEWEST_AXES:
            return
        read = [
            source
            for source, load in _reads(stage)
            if len(load.indices) >= FEWEST_AXES and _is_axis(load.indices[1], stage.axes[1])
        ]
        for source in read:
            if tensor not in self.blocks and source in self.blocks:
                self.give(tensor, self.blocks[source])
        for source in read:
            if source.stage is not None and source not in self.blocks and tensor in self.blocks:
                self.give(source, self.blocks[tensor])

    def give(self, tensor: Tensor, block: int) -> None:
        """Choose a layout for a stage, if it can have it."""
        stage = tensor.stage
        assert stage is not None
        ordered = any(a.kind is ir.IterKind.ORDERED for a in (*stage.axes, *stage.reduced))
        if fits(tensor.shape, block) and len(tensor.siblings) == 1 and not (stage.init or ordered):
            self.blocks[tensor] = block

    def renewed(self, tensor: Tensor) -> Tensor:
        """A tensor of the shape that the layout gives, without a stage."""
        shape = relaid_shape(tensor.shape, self.blocks.get(tensor, 0))
        return Tensor(tensor.name, shape, tensor.dtype)

    def stage(self, first: Tensor) -> None:
        """The tensors of a stage, computed of those that were made."""
        stage = first.stage
        assert stage is not None
        group = tuple(self.renewed(tensor) for tensor in first.siblings)
        self.made.update(zip(first.siblings, group))
        parts: dict[str, _Parts] = {
            axis.var: _Parts.of(axis, self.block_along(stage, axis)) for axis in stage.reduced
        }
        reduced = [one for part in parts.values() for one in part.outer]
        reduced += [one for part in parts.values() for one in part.inner]
        axes = list(stage.axes)
        block = self.blocks.get(first, 0)
        if block:
            n, channel, *spatial = stage.axes
            own = parts[channel.var] = _Parts.of(channel, block)
            axes = [n, *own.outer, *spatial, *own.inner]
        values = {name: part.value for name, part in parts.items()}
        ranges: dict[str, arith.Interval] = {
            axis.var: arith.extent_range(axis.extent) for axis in (*axes, *reduced)
        }

        def moved(node: ir.Node) -> ir.Node:
            if not isinstance(node, ir.Load):
                return node
            source: Tensor = node.buffer.tensor  # type: ignore[attr-defined]
            indices = _indices(node.indices, source.shape, self.blocks.get(source, 0), ranges)
            return ir.Load(self.made[source].reference, indices, node.dtype)

        def changed(value: ir.Expr) -> ir.Expr:
            packed = ir.rewrite(value, lambda node: self.packed(node, parts))
            return ir.rewrite(ir.substitute(packed, values), moved)

        new = Stage(
            tuple(axes),
            tuple(reduced),
            tuple(map(changed, stage.values)),
            stage.reducer,
            tuple(map(changed, stage.init)),
        )
        for tensor in group:
            tensor.stage, tensor.siblings = new, group

    def block_along(self, stage: Stage, axis: Axis) -> int:
        """The channels side by side in what a reduction reads along an axis; 0 for none."""
        for source, load in _reads(stage):
            block = self.blocks.get(source, 0)
            if block and _is_axis(load.indices[1], axis) and axis.extent % block == 0:
                return block
        return 0

    def packed(self, node: ir.Node, parts: Mapping[str, _Parts]) -> ir.Node:
        """The load of a weight, from a copy with channels innermost: those that are summed over
        before those of the result.
        """
        if not isinstance(node, ir.Load):
            return node
        source: Tensor = node.buffer.tensor  # type: ignore[attr-defined]
        split = {
            place: index.name
            for place, index in enumerate(node.indices)
            if isinstance(index, ir.Var) and index.name in parts and parts[index.name].inner
        }
        if source not in self.constants or not split:
            return node
        axes: list[Axis] = []  # of the copy
        places: list[ir.Expr] = []  # where the stage reads it
        named: dict[str, ir.Expr] = {}  # axes of the stage by those of the copy
        wholes: dict[int, ir.Expr] = {}

        def along(given: Sequence[Axis]) -> None:
            for axis in given:
                axes.append(Axis(Label.fresh(axis.var.label), axis.extent))
                places.append(ir.Var(axis.var))
                named[axis.var] = ir.Var(axes[-1].var)

        for place, index in enumerate(node.indices):
            if place in split:
                along(parts[split[place]].outer)
                continue
            axes.append(Axis(Label.fresh(f"d{place}"), source.shape[place]))
            places.append(index)
            wholes[place] = ir.Var(axes[-1].var)
        for name in sorted(split.values(), key=list(parts).index):
            along(parts[name].inner)
        copy = Tensor(f"{source.name}_packed", tuple(axis.extent for axis in axes), source.dtype)
        element = [
            wholes[n] if n in wholes else ir.substitute(parts[split[n]].value, named)
            for n in range(len(node.indices))
        ]
        load = ir.Load(self.made[source].reference, tuple(element), source.dtype)
        copy.stage = Stage(tuple(axes), (), (load,))
        self.made[copy] = copy
        return ir.Load(copy.reference, tuple(places), node.dtype)


@dataclass(frozen=True, slots=True)
class _Parts:
    """An axis as the axes that it is made of; `inner` is that of channels side by side.

    value  what it was
    """

    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    value: ir.Expr

    @staticmethod
    def of(axis: Axis, block: int) -> _Parts:
        """The parts of an axis of channels with a layout; 0 for another axis."""
        if block in (0, axis.extent):
            return _Parts(() if block else (axis,), (axis,) if block else (), ir.Var(axis.var))
        outer = Axis(Label.fresh(f"{axis.var.label}o"), axis.extent // block, axis.kind)
        inner = Axis(Label.fresh(f"{axis.var.label}i"), block, axis.kind)
        return _Parts((outer,), (inner,), ir.Var(outer.var) * block + ir.Var(inner.var))


def _reads(stage: Stage) -> list[tuple[Tensor, ir.Load]]:
    """The loads of a stage, each with the tensor that it reads."""
    return [
        (load.buffer.tensor, load)  # type: ignore[attr-defined]
        for value in stage.values
        for load in ir.loads(value)
    ]


def _is_axis(index: ir.Expr, axis: Axis) -> bool:
    return isinstance(index, ir.Var) and index.name == axis.var


def _indices(
    indices: Sequence[ir.Expr], shape: Sequence[int], block: int, ranges: arith.Ranges
) -> tuple[ir.Expr, ...]:
    """The place of an element of a tensor in a layout."""
    if not block:
        return tuple(indices)
    n, channel, *spatial = indices
    if block == shape[1]:
        return (n, *spatial, channel)
    outer, inner = (arith.simplify(e, ranges) for e in (channel // block, channel % block))
    return (n, outer, *spatial, inner)
