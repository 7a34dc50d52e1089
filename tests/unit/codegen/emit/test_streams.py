"""Streaming stores in the text: which outputs get them, in which loops, and the fence."""

import pytest

import minitensor as mt
from minitensor.codegen import Target, generate
from minitensor.codegen.emit.streams import SHORTEST, SMALLEST
from minitensor.codegen.remarks import recording

ROW = SHORTEST // 4
ROWS = SMALLEST // SHORTEST


def added(rows=ROWS, row=ROW, dtype="float32"):
    """C = A + B, whose rows are vectorized."""
    A, B = (mt.placeholder((rows, row), dtype, name=name) for name in "AB")
    C = mt.compute((rows, row), lambda i, j: A[i, j] + B[i, j], name="C")
    s = mt.Schedule(mt.lower([A, B, C]))
    s.vectorize("j")
    return s


def source(s, bits=256, threads=2, hooks=False):
    return generate(s.program, Target("c", threads, bits), hooks=hooks).source


def is_streamed(s, **options):
    """Tell whether some store streams; where one does there is a fence."""
    text = source(s, **options)
    assert ("stream_fence();" in text) == (" stream_float" in text)
    return "stream_fence" in text


def test_the_fence_stands_behind_the_loop_in_the_thread_that_ran_it():
    s = added()
    s.parallel("i")
    assert source(s).partition("#pragma omp")[2] == (
        " parallel for num_threads(2) schedule(static)\n"
        f"    for (int64_t i = 0; i < {ROWS}; ++i) {{\n"
        f"        for (int64_t j = 0; j < {ROW // 8}; ++j) {{\n"
        f"            stream_float32x8(&C[i * {ROW} + j * 8],\n"
        f"                load_float32x8(&A[i * {ROW} + j * 8]) "
        f"+ load_float32x8(&B[i * {ROW} + j * 8]));\n"
        "        }\n"
        "        stream_fence();\n"
        "    }\n"
        "    return 0;\n"
        "}\n"
    )


@pytest.mark.parametrize(
    ("bits", "dtype", "macro", "name"),
    [
        (128, "float32", "__SSE2__", "movntps"),
        (256, "float32", "__AVX__", "movntps256"),
        (512, "float32", "__AVX512F__", "movntps512"),
        (128, "float64", "__SSE2__", "movntpd"),
        (256, "float64", "__AVX__", "movntpd256"),
        (512, "float64", "__AVX512F__", "movntpd512"),
    ],
)
def test_each_width_has_its_instruction(bits, dtype, macro, name):
    text = source(added(dtype=dtype), bits)
    assert f"#if defined({macro}) && !defined(__clang__)" in text
    assert (
        f"    if ((uintptr_t)p % {bits // 8} == 0) {{\n        __builtin_ia32_{name}(p, x);" in text
    )


def test_several_vectors_of_an_iteration():
    A = mt.placeholder((ROWS * ROW,), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((ROWS * ROW,), lambda i: A[i] * 2, name="C")]))
    s.vectorize(s.split("i", [None, 64])[1])
    assert source(s).count(" stream_float32x8(&") + source(s).count(" stream_float32x8(C_row") == 8
    assert is_streamed(s)


def test_it_is_remarked():
    with recording() as found:
        source(added())
    assert ("j", "stores C past the caches") in found.outcomes


def read_back():
    """C is read by the next stage."""
    A = mt.placeholder((ROWS, ROW), name="A")
    C = mt.compute((ROWS, ROW), lambda i, j: A[i, j] + 1, name="C")
    D = mt.compute((ROWS,), lambda x: C[x, 0] * 2, name="D")
    s = mt.Schedule(mt.lower([A, C, D]))
    s.vectorize("j")
    return s


def in_scalars():
    s = added()
    s.serial("j")
    return s


def in_columns():
    """Vectors next to each other are written in different iterations of the outer loop."""
    s = added()
    s.serial("j")
    outer, inner = s.split("j", [None, 8])
    s.reorder(outer, "i", inner)
    s.vectorize(inner)
    return s


def a_vector_for_each_thread():
    """The loop is that of the threads, and a fence behind it would not be theirs."""
    A = mt.placeholder((ROWS * ROW,), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((ROWS * ROW,), lambda i: A[i] * 2, name="C")]))
    outer, inner = s.split("i", [None, 8])
    s.vectorize(inner)
    s.parallel(outer)
    return s


def with_gaps():
    """Every other vector of an output is written by a loop of its own."""
    A = mt.placeholder((2 * ROWS, ROW // 8, 8), name="A")
    C = mt.compute((2 * ROWS, ROW // 8, 8), lambda i, j, k: A[i, j, k] * 2, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    even, odd = s.split("j", [None, 2])
    s.reorder(odd, even, "k")
    s.vectorize("k")
    return s


def in_vectors_of_two_lengths():
    """Of those the second is not aligned where the first is."""
    A = mt.placeholder((ROWS * ROW // 8, 12), name="A")
    C = mt.compute((ROWS * ROW // 8, 12), lambda i, j: A[i, j] * 2, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.vectorize("j")
    return s


ORDINARY = {
    "an output that caches hold": lambda: added(ROWS - 1),
    "short rows": lambda: added(2 * ROWS, ROW - 8),
    "whole numbers": lambda: added(dtype="int32"),
    "an output that is read": read_back,
    "scalars": in_scalars,
    "columns": in_columns,
    "a vector for each thread": a_vector_for_each_thread,
    "gaps": with_gaps,
    "vectors of two lengths": in_vectors_of_two_lengths,
}


@pytest.mark.parametrize("made", ORDINARY.values(), ids=ORDINARY)
def test_other_stores_are_ordinary(made):
    assert is_streamed(added())
    assert not is_streamed(made())


def test_hooks_see_every_store():
    assert not is_streamed(added(), hooks=True)


def test_vectors_that_no_instruction_has_are_stored():
    s = added()
    text = source(s, bits=1024)
    assert "static inline void stream_float32x32(float *p, float32x32 x) {\n    store_" in text
