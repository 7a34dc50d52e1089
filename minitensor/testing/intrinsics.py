"""Testing the C bodies of an intrinsic against its meaning.

Each body is compiled once, into a kernel that calls it at positions and with strides that are given
at run time. Everything around the elements that it may write is filled with noise and must stay as
it was. The meaning is run by the interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minitensor import ir
from minitensor.codegen import Target, emit_alone
from minitensor.errors import is_integer, is_real, unexpected
from minitensor.runtime import find_toolchain, load, native_target
from minitensor.testing.oracle import small_values

MARGIN = 40
"""Elements before and after an operand, in which nothing may be touched."""
FARTHEST = 17
"""The most elements by which an operand is moved, so that its address is unaligned."""
WIDEST_GAP = 3
"""The most elements that a stride leaves free."""
PORTABLE = "portable"
BEFORE = "_before"


def check_intrinsic(
    intrinsic: ir.Intrinsic, *, max_examples: int = 30, rtol: float = 0.0
) -> dict[str, bool]:
    """Assert that each C body of an intrinsic computes its meaning, whatever the operands.

    Drawn are values (small integers, and for integer types all there are), strides where the
    declaration leaves them open, and addresses aligned to nothing but the element. What lies
    around the output must stay as it was. Hypothesis shrinks a failure to simple operands.

    max_examples  operands drawn for each body
    rtol          how far floats may be off, as a fraction; 0 for equality, which sums of small
                  integers allow in any order

    Returns for each body, named by its condition ("portable" for the last), whether this machine
    could run it. A body that writes far outside may end the process, as it would in a kernel.
    Raises AssertionError that names the body, the operands and the first element that differs;
    CompileError for a body that does not compile; ArgumentError for arguments that are none.
    """
    if not isinstance(intrinsic, ir.Intrinsic):
        raise unexpected("what mt.intrinsic returned", "intrinsic", intrinsic)
    if not is_integer(max_examples, 1):
        raise unexpected("an integer of at least 1", "max_examples", max_examples)
    if not is_real(rtol, 0):
        raise unexpected("a finite number of at least 0", "rtol", rtol)
    return {
        body.condition or PORTABLE: _check_body(intrinsic, body, int(max_examples), float(rtol))
        for body in intrinsic.bodies
    }


def _check_body(intrinsic: ir.Intrinsic, body: ir.Body, max_examples: int, rtol: float) -> bool:
    """Check one body; whether this machine can run it."""
    sizes = {b.name: _size(b, w) for b, w in zip(intrinsic.operands, intrinsic.strides)}
    emitted = emit_alone(intrinsic, body, sizes, native_target(Target("c")))
    kernel = load(emitted, find_toolchain())
    meaning = _updating(intrinsic)

    def run(operands: Sequence[_Operand]) -> tuple[np.ndarray, bool]:
        """The output's array afterwards, and whether the condition holds."""
        where = np.array([n for o in operands for n in (o.first, *o.strides)], np.int64)
        ran = np.zeros(1, np.int32)
        arrays = [o.array.copy() for o in operands]
        kernel(*arrays, where, ran)
        names = [o.buffer.name for o in operands]
        return arrays[names.index(intrinsic.output)], bool(ran[0])

    smallest = [
        _Operand(b, FARTHEST, _strides(b, w, [0] * len(w)), sizes[b.name], 0, False)
        for b, w in zip(intrinsic.operands, intrinsic.strides)
    ]
    if not run(smallest)[1]:
        return False

    @settings(
        max_examples=max_examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(_operands(intrinsic, sizes))
    def agrees(operands: list[_Operand]) -> None:
        _compare(intrinsic, body, operands, run(operands)[0], _expected(meaning, operands), rtol)

    agrees()
    return True


# ---- operands


@dataclass(frozen=True)
class _Operand:
    """An operand somewhere in an array.

    first    the position of its first element
    strides  of its axes, in elements
    size     of the array
    seed     of the values
    full     whether integers are any of their type, or small
    """

    buffer: ir.Buffer
    first: int
    strides: tuple[int, ...]
    size: int
    seed: int
    full: bool

    @cached_property
    def array(self) -> np.ndarray:
        """The whole array."""
        dtype = self.buffer.dtype
        rng = np.random.default_rng([self.seed, *self.buffer.name.encode()])
        if self.full and dtype.is_integer:
            low, high = dtype.min_value, dtype.max_value
            return rng.integers(low, high, self.size, ir.numpy_dtype(dtype), endpoint=True)
        return small_values(rng, dtype, (self.size,))

    def view(self, array: np.ndarray) -> np.ndarray:
        """The operand in such an array."""
        steps = [array.itemsize * stride for stride in self.strides]
        return np.lib.stride_tricks.as_strided(array[self.first :], self.buffer.shape, steps)

    def __repr__(self) -> str:
        kind = "any" if self.full else "small"
        return (
            f"{self.buffer.name}(first={self.first}, strides={list(self.strides)}, {kind} values "
            f"of seed {self.seed})"
        )


def _strides(
    buffer: ir.Buffer, relied: Sequence[int | None], gaps: Sequence[int]
) -> tuple[int, ...]:
    """Strides with which no two elements coincide: those relied on, and others with gaps.

    An axis that is open lies dense within the outer ones that are relied on if it fits there, and
    around all others if it does not: relied on [1, None], the columns of a (4, 8) lie in a row.
    """
    shape = buffer.shape
    found = {axis: stride for axis, stride in enumerate(relied) if stride is not None}
    for axis in reversed(range(len(shape))):
        if relied[axis] is not None:
            continue
        inside = max((found[a] * shape[a] for a in found if a > axis), default=1)
        bounds = [found[a] for a in found if a < axis]
        if bounds and inside * shape[axis] <= min(bounds):
            found[axis] = inside  # a gap might not fit
        else:
            found[axis] = max((found[a] * shape[a] for a in found), default=1) + gaps[axis]
    return tuple(found[axis] for axis in range(len(shape)))


def _size(buffer: ir.Buffer, relied: Sequence[int | None]) -> int:
    """Elements enough for all positions and strides that are drawn."""
    widest = _strides(buffer, relied, [WIDEST_GAP] * len(relied))
    reach = sum((n - 1) * stride for n, stride in zip(buffer.shape, widest)) + 1
    return MARGIN + FARTHEST + reach + MARGIN


@st.composite
def _operands(draw: DrawFn, intrinsic: ir.Intrinsic, sizes: dict[str, int]) -> list[_Operand]:
    found = []
    full = draw(st.booleans())
    seed = draw(st.integers(0, 2**16 - 1))
    for buffer, relied in zip(intrinsic.operands, intrinsic.strides):
        gaps = [draw(st.integers(0, WIDEST_GAP)) for _ in relied]
        first = MARGIN + draw(st.integers(0, FARTHEST))
        strides = _strides(buffer, relied, gaps)
        found.append(_Operand(buffer, first, strides, sizes[buffer.name], seed, full))
    return found


# ---- what is expected


def _updating(intrinsic: ir.Intrinsic) -> ir.Program:
    """The meaning as a program that starts from what the output holds: one more input, the last."""
    block, meaning = intrinsic.block, intrinsic.meaning
    output = next(b for b in intrinsic.operands if b.name == intrinsic.output)
    taken = {*meaning.buffers, *(i.var for i in block.iters), block.name}
    before = ir.Buffer(ir.fresh_name(output.name + BEFORE, taken), output.shape, output.dtype)
    if not isinstance(block.body, ir.Reduce):
        return meaning.replace(params=(*meaning.params, before))
    names = [ir.fresh_name(f"{before.name}{axis}", taken) for axis in range(len(output.shape))]
    iters = tuple(
        ir.Iter(name, extent, ir.IterKind.SPATIAL, ir.Var(name))
        for name, extent in zip(names, output.shape)
    )
    where = tuple(ir.Var(name) for name in names)
    copy: ir.Stmt = ir.Block(
        before.name, iters, ir.Store(output.name, where, ir.Load(before.name, where, output.dtype))
    )
    for name, extent in reversed(list(zip(names, output.shape))):
        copy = ir.For(name, extent, copy)
    update = ir.rewrite(
        meaning.body,
        lambda node: (
            ir.Block(node.name, node.iters, node.body) if isinstance(node, ir.Block) else node
        ),
    )
    program = meaning.replace(
        params=(*meaning.params, before), body=ir.sequence(copy, update), temporaries=()
    )
    ir.verify(program)
    return program


def _expected(meaning: ir.Program, operands: Sequence[_Operand]) -> np.ndarray:
    """The content of the output afterwards."""
    by_name = {o.buffer.name: o.view(o.array).copy() for o in operands}
    (output,) = meaning.outputs
    by_name[meaning.inputs[-1].name] = by_name[output.name]
    (result,), _ = ir.interpret(meaning, [by_name[b.name] for b in meaning.inputs])
    return result


def _compare(
    intrinsic: ir.Intrinsic,
    body: ir.Body,
    operands: Sequence[_Operand],
    got: np.ndarray,
    expected: np.ndarray,
    rtol: float,
) -> None:
    """Raise AssertionError for an element that is wrong, or one outside that has changed."""
    output = next(o for o in operands if o.buffer.name == intrinsic.output)
    name = f"the body of {intrinsic.name} for {body.condition or PORTABLE}"
    there = f"with {', '.join(map(repr, operands))}"
    mine = output.view(got)
    dtype = output.buffer.dtype
    found, wanted = ir.unpack(mine, dtype), ir.unpack(expected, dtype)
    wrong = found != wanted
    if dtype.is_float:
        wrong = ~np.isclose(found, wanted, rtol=rtol, atol=0.0, equal_nan=True)
    if wrong.any():
        index = tuple(int(n) for n in np.argwhere(wrong)[0])
        at = ", ".join(map(str, index))
        raise AssertionError(
            f"{name} gives {output.buffer.name}[{at}] = {found[index]}, where its meaning gives "
            f"{wanted[index]}, {there}"
        )
    untouched = output.array.copy()
    output.view(untouched)[...] = mine
    outside = np.flatnonzero(untouched.view(np.uint8) != got.view(np.uint8))
    if outside.size:
        position = int(outside[0]) // got.itemsize - output.first
        raise AssertionError(
            f"{name} writes outside {output.buffer.name}, {position} elements from its first, "
            f"{there}"
        )
