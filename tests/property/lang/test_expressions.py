"""Random elementwise expressions over all dtypes: lowered and interpreted, and numpy on arrays."""

import random
from collections.abc import Callable

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

import minitensor.lang as mt
from minitensor.ir import USER_DTYPES, DType, from_bfloat16, interpret, numpy_dtype, to_bfloat16

N = 12
FLOATS = ("float64", "float32", "float16", "bfloat16")


class Pair:
    """A symbolic value for index i, and the array of what it is for all of them."""

    def __init__(self, build: Callable, array: np.ndarray, dtype: str) -> None:
        self.build, self.array, self.dtype = build, array, dtype

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS


def host(dtype: str) -> str:
    """The dtype in which numpy computes such values."""
    return "float32" if dtype == "bfloat16" else dtype


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    return from_bfloat16(to_bfloat16(array)) if dtype == "bfloat16" else array


def cast(array: np.ndarray, dtype: str) -> np.ndarray:
    return rounded(array.astype(host(dtype)), dtype)


def common(a: str, b: str) -> str | None:
    """bool < integer < float; the wider one; None for uint64 with a signed type."""
    if a == b:
        return a
    floats = [d for d in (a, b) if d in FLOATS]
    if len(floats) == 1:
        return floats[0]
    if floats:
        if set(floats) == {"float16", "bfloat16"}:
            return "float32"
        return max(floats, key=lambda d: DType.of(d).bits)
    promoted = np.promote_types(a, b).name
    return None if promoted.startswith("float") else promoted


class Generator:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        data = np.random.default_rng(rng.randrange(1 << 30))
        self.tensors = []
        self.arrays = []
        self.leaves = []
        for dtype in rng.sample(list(USER_DTYPES), 4):
            tensor = mt.placeholder((N,), dtype, name=f"{dtype}_in")
            array = self.random_array(data, dtype)
            self.tensors.append(tensor)
            self.arrays.append(to_bfloat16(array) if dtype == "bfloat16" else array)
            self.leaves.append(Pair(lambda i, t=tensor: t[i], array, dtype))

    def random_array(self, data: np.random.Generator, dtype: str) -> np.ndarray:
        if dtype == "bool":
            return data.integers(0, 2, N).astype(bool)
        if dtype in FLOATS:
            return data.integers(-8, 9, N).astype(host(dtype))
        info = np.iinfo(dtype)
        if self.rng.random() < 0.5:
            return data.integers(info.min, info.max, N, dtype, endpoint=True)
        return data.integers(0 if info.min == 0 else -4, 5, N).astype(dtype)

    def value(self, depth: int) -> Pair:
        rng = self.rng
        if depth == 0 or rng.random() < 0.1:
            return self.leaf()
        kind = rng.randrange(8)
        a = self.value(depth - 1)
        if kind == 0:
            return self.unary(a)
        if kind == 1:
            return self.conversion(a)
        if kind == 2:
            return self.with_number(a)
        a, b = self.together(a, self.value(depth - 1))
        if kind == 3:
            return self.comparison(a, b)
        if kind == 4:
            return self.selection(a, b, depth)
        return self.arithmetic(a, b)

    def leaf(self) -> Pair:
        if self.rng.random() < 0.15:
            return Pair(lambda i: i.astype("int64"), np.arange(N), "int64")
        return self.rng.choice(self.leaves)

    def together(self, a: Pair, b: Pair) -> tuple[Pair, Pair]:
        """The two, the second one converted if they have no common type."""
        if common(a.dtype, b.dtype) is None:
            array = cast(b.array, a.dtype)
            b = Pair(lambda i, b=b: b.build(i).astype(a.dtype), array, a.dtype)
        return a, b

    def unary(self, a: Pair) -> Pair:
        if a.dtype == "bool":
            return Pair(lambda i: mt.logical_not(a.build(i)), ~a.array, "bool")
        if a.is_float:
            function, reference = self.rng.choice(
                [
                    (mt.abs_, np.abs),
                    (mt.floor, np.floor),
                    (mt.ceil, np.ceil),
                    (mt.round_, np.rint),
                    (mt.sqrt, np.sqrt),
                ]
            )
            return Pair(
                lambda i: function(a.build(i)), rounded(reference(a.array), a.dtype), a.dtype
            )
        if self.rng.random() < 0.3:
            return Pair(lambda i: abs(a.build(i)), np.abs(a.array), a.dtype)
        return Pair(lambda i: -a.build(i), np.negative(a.array), a.dtype)

    def conversion(self, a: Pair) -> Pair:
        """To any type, but from floats only to floats and bool: the rest may be out of range."""
        targets = [*FLOATS, "bool"] if a.is_float else list(USER_DTYPES)
        if a.dtype in ("float64", "int64", "uint64", "int32", "uint32"):
            targets.remove("bfloat16")  # see the unit tests of how often that is rounded
        target = self.rng.choice(targets)
        array = a.array != 0 if target == "bool" else cast(a.array, target)
        return Pair(lambda i: a.build(i).astype(target), array, target)

    def with_number(self, a: Pair) -> Pair:
        rng = self.rng
        number = rng.randint(1, 5)
        op = rng.choice(["+", "-", "*", "min", "max"] + ([] if a.is_float else ["//", "%"]))
        dtype = "int64" if a.dtype == "bool" else a.dtype
        b = Pair(lambda i: number, np.full(N, number, host(dtype)), dtype)
        if rng.random() < 0.5 and op in ("+", "-", "*"):
            a, b = b, a
        return self.apply(op, a, b, dtype)

    def comparison(self, a: Pair, b: Pair) -> Pair:
        dtype = common(a.dtype, b.dtype)
        op = self.rng.choice(["<", "<=", ">", ">=", "==", "!="])
        symbolic = {
            "<": lambda x, y: x < y, "<=": lambda x, y: x <= y, ">": lambda x, y: x > y,
            ">=": lambda x, y: x >= y, "==": lambda x, y: x == y, "!=": lambda x, y: x != y,
        }[op]  # fmt: skip
        array = symbolic(cast(a.array, dtype), cast(b.array, dtype))
        return Pair(lambda i: symbolic(a.build(i), b.build(i)), array, "bool")

    def selection(self, a: Pair, b: Pair, depth: int) -> Pair:
        dtype = common(a.dtype, b.dtype)
        test = self.value(depth - 1)
        choose = self.rng.choice([mt.select, mt.if_then_else])
        array = np.where(test.array != 0, cast(a.array, dtype), cast(b.array, dtype))
        return Pair(lambda i: choose(test.build(i), a.build(i), b.build(i)), array, dtype)

    def arithmetic(self, a: Pair, b: Pair) -> Pair:
        dtype = common(a.dtype, b.dtype)
        ops = ["+", "-", "*", "min", "max"]
        if dtype == "bool":
            op = self.rng.choice([*ops, "and", "or"])
            dtype = "bool" if op in ("min", "max", "and", "or") else "int64"
            return self.apply(op, a, b, dtype)
        ops += ["/"] if dtype in FLOATS else ["//", "%"]
        return self.apply(self.rng.choice(ops), a, b, dtype)

    def apply(self, op: str, a: Pair, b: Pair, dtype: str) -> Pair:
        symbolic, reference = {
            "+": (lambda x, y: x + y, np.add),
            "-": (lambda x, y: x - y, np.subtract),
            "*": (lambda x, y: x * y, np.multiply),
            "/": (lambda x, y: x / y, np.divide),
            "//": (lambda x, y: x // y, np.floor_divide),
            "%": (lambda x, y: x % y, np.remainder),
            "min": (mt.minimum, np.minimum),
            "max": (mt.maximum, np.maximum),
            "and": (mt.logical_and, np.logical_and),
            "or": (mt.logical_or, np.logical_or),
        }[op]
        array = rounded(reference(cast(a.array, dtype), cast(b.array, dtype)), dtype)
        return Pair(lambda i: symbolic(a.build(i), b.build(i)), array, dtype)


@given(st.randoms(use_true_random=False))
@settings(max_examples=500, deadline=None, derandomize=True)
def test_expressions_are_what_numpy_computes(rng):
    with np.errstate(all="ignore"):
        generator = Generator(rng)
        pair = generator.value(rng.randint(0, 5))
    event(pair.dtype)
    C = mt.compute((N,), pair.build, name="C")
    assert C.dtype == pair.dtype
    program = mt.lower([*generator.tensors, C])
    (got,), _ = interpret(program, generator.arrays)
    assert got.dtype == numpy_dtype(C.dtype)
    values = from_bfloat16(got) if pair.dtype == "bfloat16" else got
    np.testing.assert_array_equal(values, pair.array, err_msg=str(program))


@given(st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_stages_compute_what_one_expression_does(rng):
    """The value through a tensor of its own in between is the same to the last bit."""
    with np.errstate(all="ignore"):
        generator = Generator(rng)
        inner = generator.value(2)
        T = mt.compute((N,), inner.build, name="T")
        generator.leaves.append(Pair(lambda i: T[i], inner.array, inner.dtype))
        generator.leaves = generator.leaves[-1:] + rng.sample(generator.leaves, 2)
        pair = generator.value(3)
    C = mt.compute((N,), pair.build, name="C")
    program = mt.lower([*generator.tensors, C])
    (got,), _ = interpret(program, generator.arrays)
    values = from_bfloat16(got) if pair.dtype == "bfloat16" else got
    np.testing.assert_array_equal(values, pair.array, err_msg=str(program))
