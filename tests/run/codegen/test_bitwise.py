"""The bits of integers in C, on scalars and vectors: those of the interpreter and of numpy."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.testing.reference import evaluate_by_numpy
from tests.run.together import built_together

TARGET = mt.Target("c", num_cores=1)
INTEGERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
TERMS = {
    "and, or": lambda a, b: (a & b) | (a & 3) + (b | a),
    "exclusive or": lambda a, b: a ^ b ^ 5,
    "left": lambda a, b: (a << b) + (1 << b),
    "right": lambda a, b: a >> b,
    "of results": lambda a, b: (a * b >> (b - a)) << (a ^ b),
    "by numbers": lambda a, b: ((a >> 3) ^ (b << 2)) + (b >> 7) + a // 4 + a // 64,
    "counted": lambda a, b: mt.popcount(a ^ b) - mt.popcount(a),
    "compared": lambda a, b: mt.select((a & b) < (a >> b), a << b, ~b),
}


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits_of_integers(dtype):
    info = np.iinfo(dtype)
    some = [info.min, info.max, info.max // 3, 0, 1, 5, info.bits - 1, info.bits, info.max - 7]
    a, b = (side.ravel() for side in np.meshgrid(*[np.array(some, dtype)] * 2))
    A, B = (mt.placeholder((a.size,), dtype, name=n) for n in "AB")
    wanted, schedules = {}, {}
    for name, term in TERMS.items():
        C = mt.compute((a.size,), lambda i: term(A[i], B[i]), name="C")
        program = mt.lower([A, B, C])
        wanted[name] = mt.interpret(program, a, b).tobytes()
        assert wanted[name] == evaluate_by_numpy(program, [a, b])[0].tobytes(), name
        for lanes in (1, 8, 16 if info.bits < 64 else 4, 64):
            s = schedules[name, lanes] = mt.Schedule(program)
            if lanes > 1:
                s.vectorize(s.split("i", [None, lanes])[1])
    kernels = built_together({case: (s, TARGET) for case, s in schedules.items()})
    assert len(kernels) == 4 * len(TERMS)
    for (name, lanes), kernel in kernels.items():
        assert kernel(a, b).tobytes() == wanted[name], (name, lanes)


@pytest.mark.parametrize("places", [3, 40, -1])
def test_places_that_become_a_constant_count_modulo_the_width(places):
    A = mt.placeholder((5,), "int32", name="A")
    N = mt.compute((5,), lambda i: mt.const(places, "int32"), name="N")
    program = mt.lower([A, mt.compute((5,), lambda i: A[i] << N[i], name="B")])
    s = mt.Schedule(program)
    s.compute_inline("N")
    a = np.arange(-2, 3, dtype=np.int32)
    np.testing.assert_array_equal(mt.build(s.program)(a), a << (places % 32))
    np.testing.assert_array_equal(mt.interpret(program, a), a << (places % 32))


CHOSEN = {
    "right, below 0": lambda a, b: (a - b) >> 1,
    "right, negated": lambda a, b: -b >> (a + 1),
    "right, far": lambda a, b: (a + 5) >> (b + 7) * 5,
    "divided": lambda a, b: (a - b) // 3,
    "by a power of two": lambda a, b: (a - b) // 64,
    "remainder": lambda a, b: (a - b) % 3,
    "product": lambda a, b: ((a - b) * 127) * 127,
    "compared": lambda a, b: mt.select(a - b < 2, a, b),
    "least": lambda a, b: mt.minimum(a - b, 3),
    "converted": lambda a, b: (a - b).astype("float64"),
    "wider": lambda a, b: (a - b).astype("int64"),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", INTEGERS)
def test_operations_on_constants_are_those_of_their_type(dtype):
    N = mt.placeholder((8,), "int32", name="N")

    def program_of(term):
        def value(i):
            a = mt.if_then_else(N[i] > 3, mt.const(0, dtype), mt.const(1, dtype))
            b = mt.if_then_else(N[i] > 3, mt.const(1, dtype), mt.const(0, dtype))
            return term(a, b)

        return mt.lower([N, mt.compute((8,), value, name="C")])

    programs = {name: program_of(term) for name, term in CHOSEN.items()}
    n = np.arange(8, dtype=np.int32)
    for name, kernel in built_together({k: (p, TARGET) for k, p in programs.items()}).items():
        wanted = mt.interpret(programs[name], n).tobytes()
        assert wanted == evaluate_by_numpy(programs[name], [n])[0].tobytes(), name
        assert kernel(n).tobytes() == wanted, name
