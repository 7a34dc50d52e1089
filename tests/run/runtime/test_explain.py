"""Explanations of kernels that were built: remarks beside right answers, spills in real code."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import Target
from minitensor.runtime import find_toolchain
from minitensor.runtime.cache import compile_assembly

pytestmark = pytest.mark.slow  # make quick leaves it out


def product(m, n, k, rows, columns, in_registers=False):
    s = mt.Schedule(mt.lower(mt.workloads.matmul(m=m, n=n, k=k), name="matmul"))
    i, j, k = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, rows])
    j_0, j_1 = s.split(j, [None, columns])
    s.reorder(i_0, j_0, k, i_1, j_1)
    s.unroll(i_1)
    s.vectorize(j_1)
    if in_registers:
        copy = s.cache_write("C", "register")
        s.reverse_compute_at(copy, j_0)
        *_, row, column = s.get_loops(copy)
        s.unroll(row)
        s.vectorize(column)
    return s


def lanes():
    """Elements of float32 in a vector of this machine."""
    return find_toolchain().vector_bits // 32


needs_x86 = pytest.mark.skipif(
    not find_toolchain().triple.startswith("x86_64"), reason="counts are those of x86-64"
)
needs_avx512 = pytest.mark.skipif(
    find_toolchain().vector_bits < 512, reason="the machine has no AVX-512"
)


# ---- odd sizes are right, and told


def elementwise(n):
    A = mt.placeholder((n,), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((n,), lambda i: A[i] * 2.0 + 1.0, name="B")]))
    s.vectorize("i")
    return s, lambda a: a * 2 + 1


def matmul(n):
    s = mt.Schedule(mt.lower(mt.workloads.matmul(m=3, n=n, k=5), name="matmul"))
    i, j, k = s.get_loops("C")
    s.reorder(i, k, j)
    s.vectorize(j)
    return s, lambda a, b: a @ b


def row_sum(n):
    """The rows are the lanes: there are `n` of them."""
    A = mt.placeholder((4, n), name="A")
    k = mt.reduce_axis(4, name="k")
    s = mt.Schedule(mt.lower([A, mt.compute((n,), lambda i: mt.sum(A[k, i], axis=k), name="R")]))
    s.reorder("k", "i")
    s.vectorize("i")
    return s, lambda a: a.sum(axis=0)


@pytest.mark.many
@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 13, 17, 31, 61, 97])
@pytest.mark.parametrize("workload", [elementwise, matmul, row_sum])
def test_odd_sizes_give_the_right_answer_and_a_note(workload, n):
    s, expected = workload(n)
    kernel = mt.build(s)
    rng = np.random.default_rng(n)
    arrays = [rng.integers(-4, 5, b.shape).astype("f") for b in s.program.inputs]
    assert np.array_equal(kernel(*arrays), expected(*arrays))
    found = [remark for remark in kernel.remarks if remark.kind == "vector"]
    assert [remark.where for remark in found] == [s.get_loops(s.get_blocks()[-1])[-1]]
    assert found[0].text


@pytest.mark.parametrize("workload", [elementwise, matmul, row_sum])
def test_whole_vectors_give_none(workload):
    s, _ = workload(64)
    assert mt.build(s).remarks == ()


# ---- spills


def test_a_tile_that_fits_does_not_spill():
    kernel = mt.build(product(64, 8 * lanes(), 64, 4, 2 * lanes()))
    assert kernel.explanation.spills == ()
    assert kernel.remarks == ()
    assert "no spills in the compiler's assembly" in kernel.explain()


@needs_avx512
def test_a_tile_of_8_by_2_vectors_fits():
    assert mt.build(product(64, 128, 64, 8, 32)).remarks == ()


@needs_avx512
def test_a_tile_of_16_by_4_vectors_spills():
    s = product(64, 128, 64, 16, 64, in_registers=True)
    kernel = mt.build(s)
    inner = kernel.explanation.spills[0]
    assert (inner.loop, inner.innermost, inner.bits) == ("k", True, 512)
    assert inner.loads >= 32 and inner.stores >= 32
    registers, spills = kernel.remarks
    assert (registers.kind, registers.where) == ("registers", "C_register")
    assert (spills.kind, spills.where) == ("spills", "k")
    assert "the tile of C_register needs 69 registers, and the machine has 32" in spills.text
    assert spills.advice == "smaller tile: split i_1 by 4"
    smaller = mt.build(product(64, 128, 64, 4, 64, in_registers=True))
    assert smaller.remarks == ()


@needs_x86
def test_more_vectors_than_any_machine_has_spill():
    kernel = mt.build(product(48, 8 * lanes(), 64, 12, 4 * lanes(), in_registers=True))
    assert {remark.kind for remark in kernel.remarks} == {"registers", "spills"}


@needs_x86
def test_parallel_loops_are_looked_into():
    s = product(48, 8 * lanes(), 64, 12, 4 * lanes(), in_registers=True)
    s.parallel("i_0")
    kernel = mt.build(s, Target("c", 2, find_toolchain().vector_bits))
    assert kernel.explanation.spills[0].loop == "k"


def test_the_code_that_is_looked_at_is_that_of_the_kernel():
    """Lines and comments change nothing else in the assembly."""
    source = mt.build(product(48, 8 * lanes(), 16, 4, 2 * lanes())).source
    toolchain = find_toolchain()
    texts = [compile_assembly(source, toolchain, origins=told) for told in (False, True)]
    plain, told = (
        [
            line.split("#")[0].split("//")[0].split()
            for line in text.splitlines()
            if line.startswith("\t") and not line.startswith("\t.")
        ]
        for text in texts
    )
    assert plain == told


# ---- kernels and calls


def test_explain_is_the_same_with_and_without_a_kernel():
    s = product(61, 46, 7, 8, 23)
    text = mt.explain(s)
    assert mt.build(s).explain() == text
    for part in ("for i_0 in range(8):", "cut: guards hold", "remarks", "vector: j_1: "):
        assert part in text


def test_a_program_and_another_target():
    s = product(16, 16, 16, 4, 16)
    assert "1 thread, vectors of 128 bits" in mt.explain(s.program, Target("c", 1, 128))
    assert "__global__" in mt.explain(s.program, "cuda-emulator")
    with pytest.raises(mt.ArgumentError, match="a schedule or a program"):
        mt.explain("matmul")


def test_the_interpreter():
    s = product(16, 16, 16, 4, 16)
    kernel = mt.build(s, target="interpreter")
    assert kernel.remarks == ()
    assert "runs in the interpreter, as it is" in kernel.explain()
    assert mt.explain(s, "interpreter") == kernel.explain()


def test_a_bound_kernel_explains_its_calls():
    s = product(16, 7, 16, 4, 7)
    bound = mt.build(s).bind(B=np.zeros((16, 7), "f"))
    assert [remark.where for remark in bound.remarks if remark.kind == "vector"] == ["j_1"]
    assert bound.explain().startswith("matmul for 'c'")
