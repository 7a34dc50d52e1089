"""Tensors with fewer axes: neighbours that always come together are one, and those of extent 1 go.

    y[n, f, y, x] = sum(w[f, c, ry, rx] * x[n, c, y + ry, x + rx])      with n, ry, rx below 1

is a product of matrices, y[f, p] = sum(w[f, c] * x[c, p]), whose rows are as long as an image and
not as a line of it. Memory holds the same elements in the same order, so nothing is copied. Two
neighbouring axes of a stage become one if all that has either is read at both, side by side and in
their order; two dimensions of a tensor, if that holds wherever it is read or computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

from minitensor import arith, ir
from minitensor.lang.lower import stages_in_order
from minitensor.lang.scalar import Label
from minitensor.lang.tensor import Axis, Stage, Tensor

_Pair: TypeAlias = tuple[int, int] | tuple[str, str]
"""The dimensions n and n + 1 of a tensor, by its id; or two axes of a stage, by their variables."""
_Read: TypeAlias = tuple[Tensor, tuple[ir.Expr, ...]]
"""A tensor and the place at which it is read, without dimensions that are left out."""


def merged(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Placeholders and results with as few axes as their elements need.

    Ordered updates, and what they read, keep all of theirs.
    """
    work = _Merging(stages_in_order(tuple(tensors)))
    for tensor in tensors:
        if tensor.stage is None:
            work.made[tensor] = work.renewed(tensor)
    for first in work.stages:
        work.stage(first)
    return [work.made[tensor] for tensor in tensors]


class _Merging:
    """The tensors made so far, by those that they stand for; and the pairs that become one."""

    def __init__(self, stages: Sequence[Tensor]) -> None:
        self.stages = stages
        self.made: dict[Tensor, Tensor] = {}
        self.whole = {t for first in stages if _is_ordered(first) for t in _around(first)}
        self.root: dict[_Pair, _Pair] = {}
        self.apart: set[_Pair] = set()
        for first in stages:
            self.look_at(first)
        self.apart = {self.find(pair) for pair in self.apart}

    def find(self, pair: _Pair) -> _Pair:
        """The pair that stands for all that become one with this one."""
        while (above := self.root.get(pair, pair)) != pair:
            pair = above
        return pair

    def together(self, one: _Pair, other: _Pair) -> None:
        """Note that two pairs become one only both."""
        self.root[self.find(one)] = self.find(other)

    def look_at(self, first: Tensor) -> None:
        """Note what a stage asks of its axes and of what it reads."""
        stage = first.stage
        assert stage is not None
        axes, reduced = self.kept_axes(first)
        pairs = [*pairwise(axes), *pairwise(reduced)]
        follows: dict[str, str] = {a.var: b.var for a, b in pairs}
        precedes = {b: a for a, b in follows.items()}
        for tensor in first.siblings:
            for n, (a, b) in enumerate(pairwise(axes)):
                self.together((id(tensor), n), (a.var, b.var))
        if first in self.whole:
            self.apart |= {(a.var, b.var) for a, b in pairs}
        reads, bare = self.reads(stage)
        extents: dict[str, int] = {axis.var: axis.extent for axis in (*axes, *reduced)}
        for name in bare:
            self.apart |= set(_of_axis(name, follows, precedes))
        for tensor, place in reads:
            shape = self.kept_shape(tensor)
            names = [index.name if isinstance(index, ir.Var) else "" for index in place]
            joined = {
                n: (a, b)
                for n, (a, b) in enumerate(pairwise(names))
                if a and follows.get(a) == b and shape[n + 1] == extents[b]
            }
            for n in range(len(place) - 1):
                if n in joined:
                    self.together((id(tensor), n), joined[n])
                else:
                    self.apart.add((id(tensor), n))
            for n, index in enumerate(place):
                for name in ir.free_vars(index):
                    held = {joined.get(n - 1), joined.get(n)}
                    self.apart |= set(_of_axis(name, follows, precedes)) - held

    def reads(self, stage: Stage) -> tuple[list[_Read], set[str]]:
        """The places that a stage reads, and the axes that it uses elsewhere."""
        found: list[_Read] = []
        bare: set[str] = set()
        for value in self.settled(stage):
            bare |= {node.name for node in _outside_of_places(value) if isinstance(node, ir.Var)}
            for load in ir.loads(value):
                tensor: Tensor = load.buffer.tensor  # type: ignore[attr-defined]
                kept = self.kept(tensor)
                found.append((tensor, tuple(load.indices[n] for n in kept)))
        return found, bare

    def settled(self, stage: Stage) -> tuple[ir.Expr, ...]:
        """The values of a stage, then those of its init, with 0 for axes that are left out."""
        axes = (*stage.axes, *stage.reduced)
        if all(axis.extent > 1 for axis in axes):
            return (*stage.values, *stage.init)
        zero: Mapping[str, ir.Expr] = {a.var: ir.const(0) for a in axes if a.extent == 1}
        ranges: dict[str, arith.Interval] = {a.var: arith.extent_range(a.extent) for a in axes}

        def plain(node: ir.Node) -> ir.Node:
            if not isinstance(node, ir.Load):
                return node
            places = (arith.simplify(ir.substitute(i, zero), ranges) for i in node.indices)
            return replace(node, indices=tuple(places))

        values = (*stage.values, *stage.init)
        return tuple(ir.substitute(ir.rewrite(value, plain), zero) for value in values)

    def kept(self, tensor: Tensor) -> list[int]:
        """The dimensions of a tensor that stay: those above 1, or all, or at least the last."""
        if tensor in self.whole:
            return list(range(len(tensor.shape)))
        long = [n for n, extent in enumerate(tensor.shape) if extent != 1]
        return long or list(range(len(tensor.shape)))[-1:]

    def kept_shape(self, tensor: Tensor) -> list[int]:
        """The extents of the dimensions that stay."""
        return [tensor.shape[n] for n in self.kept(tensor)]

    def kept_axes(self, first: Tensor) -> tuple[list[Axis], list[Axis]]:
        """The axes of a stage that stay, and those of its reduction: one of these at least."""
        stage = first.stage
        assert stage is not None
        long = [axis for axis in stage.reduced if axis.extent != 1 or first in self.whole]
        return [stage.axes[n] for n in self.kept(first)], long or list(stage.reduced[-1:])

    def groups(self, tensor: Tensor) -> Iterator[list[int]]:
        """The dimensions of a tensor that become one, by their numbers among those that stay."""
        group: list[int] = []
        for n in range(len(self.kept(tensor))):
            if group and self.find((id(tensor), n - 1)) in self.apart:
                yield group
                group = []
            group.append(n)
        if group:
            yield group

    def renewed(self, tensor: Tensor) -> Tensor:
        """A tensor of fewer dimensions, without a stage."""
        kept = self.kept_shape(tensor)
        shape = tuple(math.prod(kept[n] for n in group) for group in self.groups(tensor))
        return Tensor(tensor.name, shape, tensor.dtype)

    def stage(self, first: Tensor) -> None:
        """The tensors of a stage, computed of those that were made."""
        stage = first.stage
        assert stage is not None
        group = tuple(map(self.renewed, first.siblings))
        self.made.update(zip(first.siblings, group))
        axes, reduced = (self.joined(one) for one in self.kept_axes(first))
        named = {old: axis for axis, olds in (*axes, *reduced) for old in olds}

        def moved(node: ir.Node) -> ir.Node:
            if isinstance(node, ir.Var) and node.name in named:
                return replace(node, name=named[node.name].var)
            if not isinstance(node, ir.Load):
                return node
            tensor: Tensor = node.buffer.tensor  # type: ignore[attr-defined]
            kept = [node.indices[n] for n in self.kept(tensor)]
            indices = tuple(kept[group[0]] for group in self.groups(tensor))
            return ir.Load(self.made[tensor].reference, indices, node.dtype)

        values = [ir.rewrite(value, moved) for value in self.settled(stage)]
        count = len(stage.values)
        new = Stage(
            tuple(axis for axis, _ in axes),
            tuple(axis for axis, _ in reduced),
            tuple(values[:count]),
            stage.reducer,
            tuple(values[count:]),
        )
        for tensor in group:
            tensor.stage, tensor.siblings = new, group

    def joined(self, axes: Sequence[Axis]) -> list[tuple[Axis, list[str]]]:
        """The axes that some become, each with those that it is made of."""
        groups: list[list[Axis]] = []
        for n, axis in enumerate(axes):
            if n and self.find((axes[n - 1].var, axis.var)) not in self.apart:
                groups[-1].append(axis)
            else:
                groups.append([axis])
        found: list[tuple[Axis, list[str]]] = []
        for group in groups:
            label = Label.fresh("_".join(axis.var.label for axis in group))
            extent = math.prod(axis.extent for axis in group)
            found.append((Axis(label, extent, group[0].kind), [axis.var for axis in group]))
        return found


def _is_ordered(first: Tensor) -> bool:
    """Return whether a tensor is updated in an order."""
    stage = first.stage
    assert stage is not None
    ordered = any(a.kind is ir.IterKind.ORDERED for a in (*stage.axes, *stage.reduced))
    return ordered or bool(stage.init)


def _around(first: Tensor) -> Iterator[Tensor]:
    """The tensors of a stage, and those that it reads."""
    yield from first.siblings
    stage = first.stage
    assert stage is not None
    for value in (*stage.values, *stage.init):
        for load in ir.loads(value):
            yield load.buffer.tensor  # type: ignore[attr-defined]


def _of_axis(
    name: str, follows: Mapping[str, str], precedes: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """The pairs that an axis is in."""
    if name in follows:
        yield name, follows[name]
    if name in precedes:
        yield precedes[name], name


def _outside_of_places(value: ir.Node) -> Iterator[ir.Node]:
    """The nodes of an expression that are in no place of a load."""
    pending = [value]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ir.Load):
            pending += ir.children(node)
