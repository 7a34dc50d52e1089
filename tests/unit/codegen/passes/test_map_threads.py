"""From fork-join to one frame of threads: barriers, owners of temporaries, guards, kernels."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import Target
from minitensor.codegen.gpu.kernels import kernel_of, kernels_in
from minitensor.codegen.pipeline import passes_of
from minitensor.errors import ExecutionError
from minitensor.ir import (
    Alloc,
    Barrier,
    For,
    Seq,
    interpret,
    map_stmts,
    stmts_of,
    verify,
)

TARGET = Target("cuda", num_cores=1, vector_bits=0)


def mapped(schedule, target=TARGET):
    """The program after all passes, each checked against the program as it was defined."""
    program = getattr(schedule, "program", schedule)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, b.shape).astype(b.dtype) for b in program.inputs]
    names = [b.name for b in program.outputs]
    expected, _ = interpret(program, arrays)
    for name, step in passes_of(target):
        program = step(program, target)
        verify(program)
        for a, b in zip(expected, interpret(program, arrays, names)[0]):
            assert np.array_equal(a, b), name
    without_a_barrier(program, arrays, names)
    return program


def without_a_barrier(program, arrays, names):
    """Each barrier is needed: without it the interpreter finds a race, or what is unwritten."""
    for number in range(len(barriers(program))):
        found = -1

        def kept(stmt, number=number):
            nonlocal found
            if isinstance(stmt, Barrier):
                found += 1
                return Seq(()) if found == number else stmt
            return map_stmts(stmt, kept)

        with pytest.raises(ExecutionError) as caught:
            interpret(program.replace(body=kept(program.body)), arrays, names)
        assert caught.value.kind in ("race", "uninitialised")


def barriers(program):
    return [node for node in stmts_of(program.body) if isinstance(node, Barrier)]


def allocated(program):
    """The scope and shape of each temporary."""
    found = [node.buffer for node in stmts_of(program.body) if isinstance(node, Alloc)]
    return {b.name: (b.scope.value, b.shape) for b in found}


def shape_of(program):
    (kernel,) = map(kernel_of, kernels_in(program.body))
    return kernel.grid, kernel.block


def matmul(m=16, n=16, k=16, tile=8, per=2, step=4, shared="AB"):
    """A tile of C for each block, fetched in common; per x per elements for each thread."""
    A, B = mt.placeholder((m, k), name="A"), mt.placeholder((k, n), name="B")
    r = mt.reduce_axis(k, name="k")
    C = mt.compute((m, n), lambda i, j: mt.sum(A[i, r] * B[r, j], axis=r), name="C")
    s = mt.Schedule(mt.lower([A, B, C], name="matmul"))
    out = s.cache_write("C", "local")
    i, j, k = s.get_loops("C")
    i_0, i_1, i_2 = s.split(i, [None, tile // per, per])
    j_0, j_1, j_2 = s.split(j, [None, tile // per, per])
    k_0, k_1 = s.split(k, [None, step])
    s.reorder(i_0, j_0, k_0, i_1, j_1, k_1, i_2, j_2)
    s.bind(i_0, "blockIdx.y")
    s.bind(j_0, "blockIdx.x")
    for name in shared:
        copy = s.cache_read("C", name, "shared")
        s.compute_at(copy, k_0)
        *_, a, b = s.get_loops(copy)
        _, y, x = s.split(s.fuse(a, b), [None, tile // per, tile // per])
        s.bind(y, "threadIdx.y")
        s.bind(x, "threadIdx.x")
    s.bind(i_1, "threadIdx.y")
    s.bind(j_1, "threadIdx.x")
    s.reverse_compute_at(out, j_0)
    *_, a, b = s.get_loops(out)
    a_0, a_1 = s.split(a, [None, per])
    b_0, b_1 = s.split(b, [None, per])
    s.reorder(a_0, b_0, a_1, b_1)
    s.bind(a_0, "threadIdx.y")
    s.bind(b_0, "threadIdx.x")
    return s


# ---- barriers


def test_a_matmul_through_shared_memory():
    """Two barriers for each step along k, and accumulators of each thread."""
    p = mapped(matmul())
    assert len(barriers(p)) == 2
    assert shape_of(p) == ((2, 2, 1), (4, 4, 1))
    assert allocated(p) == {
        "A_shared": ("shared", (8, 4)),
        "B_shared": ("shared", (4, 8)),
        "C_local": ("local", (2, 2)),
    }
    (loop,) = [n for n in stmts_of(p.body) if isinstance(n, For) and n.var == "k_0"]
    assert [type(stmt) for stmt in loop.body.stmts] == [Barrier, For, For, Barrier, For]


@pytest.mark.parametrize(("m", "n", "k"), [(13, 9, 7), (8, 8, 5), (5, 17, 16)])
def test_a_matmul_of_odd_sizes(m, n, k):
    assert len(barriers(mapped(matmul(m, n, k)))) == 2


@pytest.mark.parametrize("shared", ["", "A", "B"])
def test_a_matmul_that_shares_less(shared):
    assert len(barriers(mapped(matmul(shared=shared)))) == 2 * len(shared)


def chain(n=24, scope="global"):
    """T = A + 1, C = T * 2: the threads in the loop around both."""
    A = mt.placeholder((n,), name="A")
    T = mt.compute((n,), lambda i: A[i] + 1.0, name="T")
    C = mt.compute((n,), lambda i: T[i] * 2.0, name="C")
    return mt.Schedule(mt.lower([A, C], name="chain"))


def test_elementwise_kernels_have_no_barrier():
    s = chain()
    s.compute_inline("T")
    b, t = s.split("i" if "i" in s.get_loops("C") else s.get_loops("C")[0], [None, 8])
    s.bind(b, "blockIdx.x")
    s.bind(t, "threadIdx.x")
    p = mapped(s)
    assert (barriers(p), shape_of(p)) == ([], ((3, 1, 1), (8, 1, 1)))
