"""A definition computed as one would write it with numpy: whole arrays, reductions, einsum.

A baseline for `minitensor bench`, not a reference for results: `evaluate_by_numpy` is that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from minitensor import arith, ir
from minitensor.cli.errors import CommandError

LARGEST: Final = 1 << 27
"""Elements of an array that is made on the way."""

_REDUCTIONS: Final[Mapping[str, np.ufunc]] = {
    "+": np.add,
    "*": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


class ByNumpy:
    """A call that computes the outputs of a definition from some inputs, into arrays it keeps."""

    def __init__(self, program: ir.Program, inputs: Sequence[np.ndarray]) -> None:
        self._blocks = tuple(program.blocks.values())
        held = [*program.params, *program.temporaries]
        if lacking := ir.lacking_in_numpy(b.dtype for b in held):
            raise CommandError(f"numpy has no {lacking}")
        self._memory = {b.name: np.zeros(b.shape, ir.numpy_dtype(b.dtype)) for b in held}
        self._memory |= {b.name: a for b, a in zip(program.inputs, inputs)}
        self.outputs = [self._memory[b.name] for b in program.outputs]

    def __call__(self) -> None:
        """Compute. Raises CommandError for a stage that is no expression of whole arrays."""
        with np.errstate(all="ignore"):
            for block in self._blocks:
                self._stage(block)

    def _stage(self, block: ir.Block) -> None:
        free = [i for i in block.iters if i.kind is ir.IterKind.SPATIAL]
        summed = [i for i in block.iters if i.kind is ir.IterKind.REDUCE]
        axes = {i.var: i.extent for i in (*free, *summed)}
        own = tuple(ir.Var(i.var) for i in free)
        match block.body:
            case ir.Store(buffer, indices, value) if indices == own and len(axes) == len(free):
                self._memory[buffer][...] = self._value(value, axes)
            case ir.Reduce(reducer, (buffer,), indices, (value,)) if (
                indices == own and (operator := ir.operator_of(reducer)) in _REDUCTIONS
            ):
                out = self._memory[buffer]
                found = self._contracted(value, axes, len(free)) if operator == "+" else None
                if found is None:
                    shape = tuple(axes.values())
                    if math.prod(shape) > LARGEST:
                        raise CommandError(f"{block.name} would take an array of {shape}")
                    whole = np.broadcast_to(self._value(value, axes), shape)
                    over = tuple(range(len(free), len(axes)))
                    found = _REDUCTIONS[operator].reduce(whole, axis=over, dtype=out.dtype)
                out[...] = found
            case _:
                raise CommandError(f"{block.name} is no expression of whole arrays")

    def _contracted(self, value: ir.Expr, axes: Mapping[str, int], free: int) -> Any:
        """A sum of products by einsum; None if it is none."""
        operands: list[tuple[Any, list[int]]] = []
        for factor in _factors(value):
            if not isinstance(factor.a if isinstance(factor, ir.Cast) else factor, ir.Load):
                return None
            array = self._value(factor, axes)
            labels = [n for n, extent in enumerate(array.shape) if extent > 1]
            operands.append((np.squeeze(array), labels))
        seen = {n for _, labels in operands for n in labels}
        extents = list(axes.values())
        if any(extent > 1 and n not in seen for n, extent in enumerate(extents)):
            return None
        kept = [n for n in range(free) if n in seen]
        found = _batched(operands[0], operands[1], kept) if len(operands) == 2 else None
        if found is None:
            pairs = [part for operand in operands for part in operand]
            found = np.einsum(*pairs, kept, optimize=True)
        return found.reshape(extents[:free])

    def _value(self, expr: ir.Expr, axes: Mapping[str, int]) -> Any:
        """The value for all axes; an axis that it does not depend on has one element."""
        match expr:
            case ir.Var(name):
                position = list(axes).index(name)
                shape = [-1 if n == position else 1 for n in range(len(axes))]
                return np.arange(axes[name]).reshape(shape)
            case ir.Const(value, dtype):
                return np.asarray(value, ir.numpy_dtype(dtype))
            case ir.Load(buffer, indices):
                return self._load(self._memory[buffer], indices, axes)
        parts: Any = ir.children(expr)
        return ir.apply_by_numpy(expr, [self._value(part, axes) for part in parts])

    def _load(self, array: Any, indices: Sequence[ir.Expr], axes: Mapping[str, int]) -> Any:
        """A view with strides where indices are sums that stay inside; else a gathered copy."""
        forms = [arith.linear_of(index) for index in indices]
        ranges = {name: arith.extent_range(extent) for name, extent in axes.items()}
        inside = all(
            form.interval(ranges).lo >= 0 and form.interval(ranges).hi < extent
            for form, extent in zip(forms, array.shape)
        )
        if inside and all(isinstance(atom, ir.Var) for form in forms for atom in form.terms):
            start = array[tuple(slice(int(form.constant), None) for form in forms)]
            steps = [
                sum(int(f.coefficient(name)) * s for f, s in zip(forms, array.strides))
                for name in axes
            ]
            shape = [extent if step else 1 for extent, step in zip(axes.values(), steps)]
            return np.lib.stride_tricks.as_strided(start, shape, steps, writeable=False)
        places = [self._value(index, axes) for index in indices]
        clipped = [np.clip(at, 0, extent - 1) for at, extent in zip(places, array.shape)]
        return array[tuple(clipped)]


def _batched(one: tuple[Any, list[int]], other: tuple[Any, list[int]], kept: list[int]) -> Any:
    """A batch of products of matrices by matmul, which einsum is slow at; None if it is none."""
    (a, first), (b, second) = one, other
    batch = [n for n in first if n in second and n in kept]
    rows = [n for n in first if n not in second]
    columns = [n for n in second if n not in first]
    inner = [n for n in first if n in second and n not in kept]
    if not (batch and rows and columns and inner) or {*rows, *columns} - set(kept):
        return None
    a = a.transpose([first.index(n) for n in (*batch, *rows, *inner)])
    b = b.transpose([second.index(n) for n in (*batch, *inner, *columns)])
    groups, outer = a.shape[: len(batch)], a.shape[len(batch) : len(batch) + len(rows)]
    size = math.prod(a.shape[len(batch) + len(rows) :])
    ends = b.shape[len(batch) + len(inner) :]
    product = a.reshape(*groups, -1, size) @ b.reshape(*groups, size, -1)
    order = [*batch, *rows, *columns]
    return product.reshape(*groups, *outer, *ends).transpose([order.index(n) for n in kept])


def _factors(value: ir.Expr) -> list[ir.Expr]:
    if isinstance(value, ir.Binary) and value.op == "*":
        return [*_factors(value.a), *_factors(value.b)]
    return [value]
