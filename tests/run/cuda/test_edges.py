"""Odd types, outputs of no axis and of no element, ties, scans, data that is no index: the emulator
has the bits of C and of the interpreter.
"""

import numpy as np
import pytest

import minitensor as mt
from minitensor import ir
from minitensor.codegen import generate_together
from minitensor.errors import CompileError, ExecutionError
from minitensor.runtime import ORDERS, find_toolchain, load_emulated, native_target
from minitensor.testing import compare
from tests.run.cuda.cooperating import bound, combined, rows_read, staged
from tests.run.gpu.kernels import of, tensor
from tests.run.together import built_together

TARGET = native_target(mt.Target("cuda-emulator"))
TYPES = ("float16", "bfloat16", "float64", "int8", "uint8", "uint32", "int64", "bool")


def total(reduce, n=50, threads=40):
    """A reduction without an axis that stays, by threads."""
    A = tensor(n)
    k = mt.reduce_axis(n, name="k")
    s = of((), lambda: reduce(A[k], k), A)
    part = s.rfactor(s.split(s.get_loops("C")[0], [None, threads])[1])
    (k,) = s.get_loops("C")
    s.bind(k, "threadIdx.x")
    s.compute_at(part, k)
    return s


def empty(*shape, terms=None):
    A = tensor(4, 8)
    k = mt.reduce_axis(0, name="k")
    s = of(shape, lambda *i: A[0, 1] + 1.0 if terms is None else mt.sum(A[0, k], axis=k), A)
    kinds = ("blockIdx.x", "threadIdx.x")
    return bound(s, s.get_loops("C")[: len(shape)], kinds)


def scan(dtype):
    """Rows of prefix sums, each by a thread; all threads read them from shared memory."""
    A = tensor(6, 20, dtype=dtype)
    zero = mt.const(0, dtype)

    def step(P, i, j):
        before = mt.if_then_else(j > 0, P[i, j - 1], zero)
        return mt.logical_or(before, A[i, j]) if dtype == "bool" else before + A[i, j]

    P = mt.update((6, 20), step, dtype=dtype, name="P")
    C = mt.compute((6, 20), lambda i, j: P[5 - i, 19 - j], name="C")
    s = mt.Schedule(mt.lower([A, C], name="test"))
    u = s.add_unit_loop(s.get_loops("C")[0])
    *_, i, _ = s.compute_at("P", u)
    s.set_scope("P", "shared")
    i_c, j_c = s.get_loops("C")[1:]
    return bound(s, (u, i, i_c, j_c), ("blockIdx.x", "threadIdx.x", "threadIdx.y", "threadIdx.x"))


def typed(dtype, reduce):
    s = combined(70, 40, 3, reduce)
    A = tensor(3, 70, dtype=dtype)
    r = mt.reduce_axis(70, name="k")
    program = mt.lower([A, mt.compute((3,), lambda i: reduce(A[i, r], r), name="C")], name="test")
    return mt.Schedule(program).replay(s.trace)


CASES = {
    **{f"rows of {t}": lambda t=t: rows_read(3, dtype=t) for t in TYPES if t != "bool"},
    **{f"scan of {t}": lambda t=t: scan(t) for t in TYPES},
    **{f"places of the largest {t}": lambda t=t: typed(t, mt.argmax) for t in TYPES},
    **{f"largest {t}": lambda t=t: typed(t, mt.max) for t in TYPES if t != "bool"},
    "any": lambda: typed("bool", mt.any),
    **{
        f"places of the smallest of {n} by {t}": lambda n=n, t=t: combined(n, t, 3, mt.argmin)
        for n, t in ((64, 64), (33, 32), (7, 16), (200, 96), (31, 31))
    },
    **{f"total {f.__name__}": lambda f=f: total(f) for f in (mt.max, mt.argmax)},
    "no rows": lambda: empty(0, 4),
    "rows of nothing": lambda: empty(4, 0),
    "sums of nothing": lambda: empty(4, 5, terms=0),
}


def arrays_of(program, seed=0):
    """Arrays with ties; floats have infinities, zeros of both signs and numbers of all sizes."""
    rng = np.random.default_rng(seed)
    made = []
    for b in program.inputs:
        if b.dtype.is_float:
            values = rng.normal(size=b.shape) * 10.0 ** rng.integers(-3, 4, b.shape)
            special = rng.choice([0.0, -0.0, np.inf, 1.5, -1.5], b.shape)
            values = np.where(rng.random(b.shape) < 0.3, special, values)
        else:
            values = rng.integers(*((0, 2) if b.dtype.kind == "bool" else (0, 100)), b.shape)
        made.append(ir.pack(values, b.dtype))
    return made


def listed(results):
    return results if isinstance(results, tuple) else (results,)


@pytest.fixture(scope="module")
def built():
    """For each case its schedule, its kernel for each order of threads, and one in C."""
    schedules = {name: make() for name, make in CASES.items()}
    text = generate_together([(s.program, TARGET) for s in schedules.values()])
    try:
        orders = [load_emulated(text, find_toolchain(), check=True, order=o) for o in ORDERS]
    except CompileError as failure:
        if "compiles no C++" in failure.message:
            pytest.skip(failure.message)
        raise
    one = mt.Target("c", num_cores=1)
    in_c = built_together({name: (s.history[0], one) for name, s in schedules.items()})
    rows = zip(schedules, schedules.values(), zip(*orders))
    return {name: (s, kernels, in_c[name]) for name, s, kernels in rows}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_bits_are_those_of_c_and_of_the_interpreter(built, name):
    schedule, kernels, in_c = built[name]
    program = schedule.program
    arrays = arrays_of(program)
    expected = listed(in_c(*arrays))
    interpreted, _ = ir.interpret(program, arrays)
    compare(program.outputs, expected, interpreted, "in the interpreter", program)
    for kernel in kernels:
        compare(program.outputs, expected, listed(kernel(*arrays)), kernel.order, program)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
def test_data_that_is_no_index_is_an_error_and_no_crash(dtype, shared):
    A, places = tensor(10), mt.placeholder((40,), dtype, name="I")
    s = of((40,), lambda i: A[places[i]] + 1.0, A, places)
    b, t = s.split(s.get_loops("C")[0], [None, 8])
    if shared:
        staged(s, "C", "A", b, counts=(8,))
    bound(s, (b, t), ("blockIdx.x", "threadIdx.x"))
    a, index = np.arange(10, dtype=np.float32), (np.arange(40) % 10).astype(dtype)
    limits = np.iinfo(dtype)
    for check in (True, False):
        kernel = mt.build(s, target="cuda-emulator", check=check)
        for wrong in (10, -1, limits.min, limits.max):
            index[33] = wrong
            with pytest.raises(ExecutionError, match=r"index.* is outside \[0, 10\)"):
                kernel(a, index)
        index[33] = 3
        np.testing.assert_array_equal(kernel(a, index), a[index] + 1)
