"""Definitions as the Python that makes them."""

import textwrap

import numpy as np
import pytest

import minitensor as mt
from minitensor.errors import ArgumentError
from minitensor.lang import definition_as_python, intrinsic_as_python, program_from_python
from minitensor.lang.workloads.registry import WORKLOADS
from minitensor.testing import drawn, evaluate_by_numpy, programs, small_arrays
from tests.parts import times
from tests.sent import imported
from tests.unit.schedule import intrinsics


def again(programs):
    """The programs that the texts of some programs make."""
    parts = ["import minitensor as mt\n"]
    for n, program in enumerate(programs):
        body = textwrap.indent(definition_as_python(program), "    ")
        parts.append(f"def make_{n}():\n{body}\n    return program\n")
    module = imported("\n".join(parts))
    return [getattr(module, f"make_{n}")() for n in range(len(programs))]


def test_a_matrix_product_with_a_bias():
    A, B = mt.placeholder((4, 6), name="A"), mt.placeholder((6, 5), name="B")
    k = mt.reduce_axis(6, name="k")
    C = mt.compute((4, 5), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = mt.compute((4, 5), lambda i, j: mt.maximum(C[i, j] + 1.5, 0.0), name="D")
    assert definition_as_python(mt.lower([A, B, D], name="dense")) == textwrap.dedent(
        """\
        A = mt.placeholder((4, 6), 'float32', name='A')
        B = mt.placeholder((6, 5), 'float32', name='B')
        k = mt.reduce_axis(6, name='k')
        C = mt.compute((4, 5), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name='C')
        D = mt.compute((4, 5), lambda i, j: mt.maximum(C[i, j] + 1.5, 0.0), name='D')
        program = mt.lower([A, B, D], name='dense')"""
    )


def test_names_that_python_cannot_say():
    A = mt.placeholder((3,), "bool", name="lambda")
    B = mt.compute((3,), lambda i: mt.logical_not(A[i]), name="a b")
    program = mt.lower([A, B], name="mt")
    assert again([program]) == [program]


def test_constants():
    A, B = mt.placeholder((4,), name="A"), mt.placeholder((4,), name="the weights")
    C = mt.compute((4,), lambda i: A[i] * B[i], name="C")
    program = mt.lower([A, B, C], name="p", constants=[B])
    assert definition_as_python(program).endswith("name='p', constants=[t])")
    assert again([program]) == [program]
    simple = mt.lower([A, B, C], name="p", constants=[A])
    assert program_from_python(definition_as_python(simple)) == simple


def test_operators():
    programs = [mt.lower(w.function(**w.small), name=w.name) for w in WORKLOADS.values()]
    for made, program in zip(again(programs), programs):
        assert made == program


@pytest.mark.slow
def test_drawn_programs():
    """Nearly all are equal; where a constant took the place of a read, a stage may go or move."""
    found = [drawn(programs(), f"text {n}") for n in range(times(100, 200))]
    made = again(found)
    assert sum(a == b for a, b in zip(found, made)) >= 0.95 * len(found)
    for a, b in zip(found, made):
        assert [p.shape for p in a.params] == [p.shape for p in b.params]
        if a != b:
            arrays = small_arrays(a, 0)
            for mine, other in zip(evaluate_by_numpy(a, arrays), evaluate_by_numpy(b, arrays)):
                np.testing.assert_array_equal(mine, other)


def test_intrinsics():
    for made in (intrinsics.product(), intrinsics.twice(), intrinsics.row(strides={"x": [8, 1]})):
        module = imported("import minitensor as mt\n" + intrinsic_as_python(made))
        assert module.intrinsic.key == made.key


def test_a_schedule_is_written_by_its_trace():
    A = mt.placeholder((4,), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((4,), lambda i: A[i] + 1, name="B")]))
    s.split("i", [2, 2])
    with pytest.raises(ArgumentError, match="only a definition"):
        definition_as_python(s.program)


def test_bits_of_integers_are_written_with_the_parentheses_that_they_need():
    A, B = (mt.placeholder((8,), "int16", name=n) for n in "AB")
    value = lambda i: (A[i] ^ B[i] & 7 | 9) + (A[i] + 1 << (B[i] >> B[i]) << (3 >> B[i] - 1))
    text = definition_as_python(mt.lower([A, B, mt.compute((8,), value, name="C")]))
    shifted = "(A[i] + 1 << (B[i] >> B[i]) << (mt.const(3, 'int16') >> B[i] - 1))"
    assert f"lambda i: (A[i] ^ B[i] & 7 | 9) + {shifted}, name" in text
