"""From fork-join to one frame of threads: barriers, owners of temporaries, guards, kernels."""

import re

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import Target
from minitensor.codegen.gpu.kernels import is_host, kernel_of, kernels_in
from minitensor.codegen.gpu.limits import check_kernels
from minitensor.codegen.passes.map_threads import map_threads
from minitensor.codegen.passes.shrink_storage import shrink_storage
from minitensor.codegen.passes.simplify import simplify_program
from minitensor.codegen.pipeline import passes_of
from minitensor.codegen.remarks import recording
from minitensor.errors import ExecutionError
from minitensor.ir import (
    INDEX,
    Alloc,
    Barrier,
    Cast,
    For,
    If,
    LoopKind,
    Scope,
    Seq,
    Store,
    ThreadReduce,
    Var,
    interpret,
    map_stmts,
    print_stmt,
    stmts_of,
    substitute,
    verify,
)
from tests.unit.ir.build import adder, buffer, load, loop, plus, program, store

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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n", "k"), [(13, 9, 7), (8, 8, 5), (5, 17, 16)])
def test_a_matmul_of_odd_sizes(m, n, k):
    assert len(barriers(mapped(matmul(m, n, k)))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("shared", ["", "A", "B"])
def test_a_matmul_that_shares_less(shared):
    assert len(barriers(mapped(matmul(shared=shared)))) == 2 * len(shared)


def chain(n=24, shift=0):
    """T = A + 1, C[i] = T[(i + shift) % n] * 2"""
    A = mt.placeholder((n,), name="A")
    T = mt.compute((n,), lambda i: A[i] + 1.0, name="T")
    C = mt.compute((n,), lambda i: T[(i + shift) % n] * 2.0, name="C")
    return mt.Schedule(mt.lower([A, C], name="chain"))


def rows(m=4, n=32):
    """S[i] = sum over k of A[i, k]; C[i, j] = A[i, j] + S[i]"""
    A = mt.placeholder((m, n), name="A")
    k = mt.reduce_axis(n, name="k")
    S = mt.compute((m,), lambda i: mt.sum(A[i, k], axis=k), name="S")
    C = mt.compute((m, n), lambda i, j: A[i, j] + S[i], name="C")
    return mt.Schedule(mt.lower([A, C], name="rows"))


def test_elementwise_kernels_have_no_barrier():
    s = chain()
    s.compute_inline("T")
    b, t = s.split(s.get_loops("C")[0], [None, 8])
    s.bind(b, "blockIdx.x")
    s.bind(t, "threadIdx.x")
    p = mapped(s)
    assert (barriers(p), shape_of(p)) == ([], ((3, 1, 1), (8, 1, 1)))


def test_nests_at_the_top_are_kernels_and_share_device_memory():
    s = chain(24, 1)
    s.set_scope("T", "shared")
    for name in ("T", "C"):
        (loop,) = s.get_loops(name)
        s.bind(loop, "threadIdx.x")
    with pytest.raises(mt.LoweringError, match="T is in shared memory, which lives in one block"):
        mapped(s)
    s.set_scope("T", "local")
    with recording() as recorder:
        p = mapped(s)
    assert len(list(kernels_in(p.body))) == 2
    assert allocated(p) == {"T": ("global", (24,))}
    assert "T: is in device memory: several kernels use it" in str(*recorder.remarks)


def shared_rows(shift, m=3, n=16, threads=(16, 16), scope="shared"):
    """T[i, j] = A[i, j] + 1 by some threads, C[i, j] = T[i, (j + shift) % n] by others."""
    A = mt.placeholder((m, n), name="A")
    T = mt.compute((m, n), lambda i, j: A[i, j] + 1.0, name="T")
    C = mt.compute((m, n), lambda i, j: T[i, (j + shift) % n] * 2.0, name="C")
    s = mt.Schedule(mt.lower([A, C], name="shared_rows"))
    row = s.get_loops("C")[0]
    s.compute_at("T", row)
    s.set_scope("T", scope)
    s.bind(row, "blockIdx.x")
    for name, count in zip(("T", "C"), threads):
        *_, last = s.get_loops(name)
        s.bind(s.split(last, [None, count])[1], "threadIdx.x")
    return s


@pytest.mark.parametrize(("shift", "count"), [(0, 0), (1, 1), (8, 1)])
def test_shared_memory_needs_a_barrier_where_another_thread_reads(shift, count):
    assert len(barriers(mapped(shared_rows(shift)))) == count


@pytest.mark.parametrize("scope", ["local", "register", "global"])
def test_what_each_thread_reads_itself_is_its_own(scope):
    own = "local" if scope == "global" else scope
    assert allocated(mapped(shared_rows(0, scope=scope))) == {"T": (own, ())}
    p = mapped(shared_rows(0, threads=(4, 4), scope=scope))
    assert (allocated(p), barriers(p)) == ({"T": (own, (4,))}, [])


@pytest.mark.parametrize("scope", ["local", "register", "global"])
def test_what_others_read_is_in_shared_memory(scope):
    with recording() as recorder:
        p = mapped(shared_rows(3, scope=scope))
    assert allocated(p) == {"T": ("shared", (16,))}
    assert len(barriers(p)) == 1
    (remark,) = recorder.remarks
    assert str(remark).startswith("T: is in shared memory: threads read what others wrote; let")


def test_what_has_no_room_in_shared_memory_is_in_device_memory():
    p = shared_rows(3, 2, 1 << 16, (16, 16), "local").program
    for _, step in passes_of(TARGET)[:6]:
        p = step(p, TARGET)
        verify(p)
    assert allocated(p) == {"T": ("global", (2, 1 << 16))}
    (kernel,) = kernels_in(p.body)
    assert kernel_of(kernel).shared == ()
    assert len(barriers(p)) == 1


@pytest.mark.parametrize("threads", [(16, 4), (4, 16), (5, 7)])
def test_two_extents_in_a_kernel(threads):
    """The smaller nest is guarded; no barrier is."""
    p = mapped(shared_rows(3, threads=threads))
    assert shape_of(p)[1] == (max(threads), 1, 1)
    assert f"if tx < {min(threads)}:" in print_stmt(p.body)
    (frame,) = [n for n in stmts_of(p.body) if isinstance(n, For) and n.var == "tx"]
    assert any(isinstance(stmt, Barrier) for stmt in frame.body.stmts)


def test_a_buffer_that_is_used_twice():
    """T, then C from T, then T again: a read is in front of a write of other threads."""
    n = 8
    A = mt.placeholder((4, n), name="A")
    T = mt.compute((4, n), lambda i, j: A[i, j] + 1.0, name="T")
    C = mt.compute((4, n), lambda i, j: T[i, n - 1 - j] * 2.0, name="C")
    s = mt.Schedule(mt.lower([A, C], name="twice"))
    row, j = s.get_loops("C")
    s.compute_at("T", row)
    s.set_scope("T", "shared")
    s.bind(j, "threadIdx.x")
    s.bind(s.get_loops("T")[-1], "threadIdx.x")
    outer, inner = s.split(row, [2, None])
    s.bind(outer, "blockIdx.x")
    p = mapped(s)
    (loop,) = [x for x in stmts_of(p.body) if isinstance(x, For) and x.var == inner]
    assert [type(stmt) for stmt in loop.body.stmts] == [Barrier, Store, Barrier, Store]


def by_hand(*stmts, shape=(8,), scope=Scope.SHARED):
    """A kernel that is written by hand, with S in front of it."""
    S = buffer("S", *shape, scope=scope)
    body = loop("b", 2, Alloc(S, Seq(stmts)), kind="blockIdx.x")
    p = program(body, [buffer("A", 2, 3, 8), buffer("C", 2, 3, 8)])
    arrays = [np.arange(48, dtype=np.float32).reshape(2, 3, 8)]
    q = map_threads(p, TARGET)
    verify(q)
    if scope is not Scope.SHARED:  # what S is in the program is each thread's own then
        return q
    np.testing.assert_array_equal(interpret(p, arrays)[0][0], interpret(q, arrays)[0][0])
    without_a_barrier(q, arrays, ["C"])
    return q


def threads(var, *stmts, extent=8, kind="threadIdx.x"):
    return loop(var, extent, *stmts, kind=kind)


b, k, t, u = (Var(name) for name in "bktu")


def test_a_barrier_for_the_next_iteration_only():
    """An iteration reads what the same thread wrote; the next one writes there by another."""
    write = threads("t", store("S", t + k, load("A", b, k, t)))
    read = threads("u", store("C", (b, k, u), load("S", u + k)))
    q = by_hand(loop("k", 3, write, read), shape=(10,))
    (inner,) = [x for x in stmts_of(q.body) if isinstance(x, For) and x.var == "k"]
    assert [type(stmt) for stmt in inner.body.stmts] == [Barrier, Store, Store]


def test_a_barrier_at_the_end_of_a_loop_counts_for_what_follows():
    """The loop ends with a barrier that its next iteration needs as well."""
    write = threads("t", store("S", t, load("A", b, k, t)))
    read = threads("u", store("C", (b, k, u), load("S", 7 - u)))
    last = threads("w", store("S", Var("w"), 1.0))
    q = by_hand(loop("k", 3, write, read), last)
    assert len(barriers(q)) == 3


def test_nests_inside_of_a_loop_of_another_index():
    """Rows of threads: the barrier is one of the whole block, so nothing guards it."""
    y = Var("y")
    write = threads("t", store("S", (y, t), load("A", b, y, t)))
    read = threads("u", store("C", (b, y, u), load("S", y, 3 - u)), extent=4)
    rest = threads("v", store("C", (b, y, Var("v") + 4), 0.0), extent=4)
    q = by_hand(threads("y", write, read, rest, extent=3, kind="threadIdx.y"), shape=(3, 8))
    kernel = kernel_of(q.body)
    assert kernel.block == (8, 3, 1)
    assert [type(stmt) for stmt in kernel.body.stmts] == [Store, Barrier, If, If]
    assert len(barriers(q)) == 1


def test_a_write_after_a_write():
    one = threads("t", store("S", t, 1.0))
    two = threads("u", store("S", 7 - u, load("A", b, 0, u)))
    show = [threads(f"w{n}", store("C", (b, n, w), load("S", w)))
            for n, w in enumerate(map(Var, ("w0", "w1", "w2")))]  # fmt: skip
    assert len(barriers(by_hand(one, two, *show))) == 2


@pytest.mark.parametrize(("first", "count"), [(0, 0), (3, 1)])
def test_thread_0_and_all_threads(first, count):
    """An element that is thread 0's in both nests needs no barrier."""
    start = store("S", first, 1.0)
    more = threads("t", store("S", t, plus(load("A", b, 0, t), load("A", b, 1, t))))
    show = threads("u", loop("k", 3, store("C", (b, k, u), load("S", u))))
    assert len(barriers(by_hand(start, more, show))) == count


def test_an_index_that_is_data():
    """Which element a thread touches is not known: any may be another's."""
    fill = threads("t", store("S", t, load("A", b, 0, t)))
    where = Cast(INDEX, load("S", u)) % 8
    read = threads("u", loop("k", 3, store("C", (b, k, u), load("A", b, k, where))))
    assert barriers(by_hand(fill, read)) == []
    shuffled = threads("u", loop("k", 3, store("C", (b, k, u), load("S", 7 - where))))
    assert len(barriers(by_hand(fill, shuffled))) == 1


def test_one_barrier_serves_two_buffers():
    A, B = mt.placeholder((4, 8), name="A"), mt.placeholder((4, 8), name="B")
    C = mt.compute((4, 8), lambda i, j: A[i, 7 - j] + B[i, (j + 1) % 8], name="C")
    s = mt.Schedule(mt.lower([A, B, C], name="two"))
    i, j = s.get_loops("C")
    for name in "AB":
        copy = s.cache_read("C", name, "shared")
        s.compute_at(copy, i)
        s.bind(s.get_loops(copy)[-1], "threadIdx.x")
    s.bind(i, "blockIdx.x")
    s.bind(j, "threadIdx.x")
    assert len(barriers(mapped(s))) == 1


def test_a_barrier_in_front_of_a_loop_and_not_in_each_iteration():
    """Each thread reads in a loop what all have written in front of it."""
    A = mt.placeholder((2, 8), name="A")
    k = mt.reduce_axis(8, name="k")
    C = mt.compute((2, 8), lambda i, j: mt.sum(A[i, (j + k) % 8], axis=k), name="C")
    s = mt.Schedule(mt.lower([A, C], name="loop"))
    i, j, k = s.get_loops("C")
    copy = s.cache_read("C", "A", "shared")
    s.compute_at(copy, i)
    s.bind(s.get_loops(copy)[-1], "threadIdx.x")
    s.reorder(k, j)
    s.bind(i, "blockIdx.x")
    s.bind(j, "threadIdx.x")
    p = mapped(s)
    (loop,) = [x for x in stmts_of(p.body) if isinstance(x, For) and x.var == "k"]
    assert len(barriers(p)) == 1
    assert not any(isinstance(x, Barrier) for x in stmts_of(loop))


# ---- thread 0, and what threads combine


def test_thread_0_does_what_stands_in_no_loop_of_threads():
    s = rows()
    row, last = s.get_loops("C")
    s.compute_at("S", row)
    s.bind(row, "blockIdx.x")
    s.bind(last, "threadIdx.x")
    p = mapped(s)
    assert "if tx == 0:" in print_stmt(p.body)
    assert allocated(p) == {"S": ("shared", ())}
    assert len(barriers(p)) == 1


@pytest.mark.parametrize(("n", "threads"), [(32, 8), (33, 8), (5, 8), (32, 32)])
def test_threads_combine_the_sum_of_a_row(n, threads):
    s = rows(3, n)
    row = s.get_loops("C")[0]
    s.compute_at("S", row)
    *_, k = s.get_loops("S")
    _, inner = s.split(k, [None, threads])
    partial = s.rfactor(inner, axis=-1)
    *_, last = s.get_loops("S")
    s.reorder(s.get_loops(partial)[-1], s.get_loops(partial)[-2])
    s.set_scope(partial, "local")
    s.bind(row, "blockIdx.x")
    s.bind(last, "threadIdx.x")
    s.bind(s.get_loops(partial)[-2], "threadIdx.x")
    s.bind(s.split(s.get_loops("C")[-1], [None, threads])[1], "threadIdx.x")
    p = mapped(s)
    reduced = [x for x in stmts_of(p.body) if isinstance(x, ThreadReduce)]
    assert [(x.thread, x.reducer.name) for x in reduced] == [(LoopKind.THREAD_IDX_X, "sum")]
    assert len(barriers(p)) == 1, str(p)
    assert allocated(p)[partial] == ("local", ())


# ---- owners


def test_a_tile_in_strides_of_threads_is_compact():
    """A thread has the elements v*4 + t*2 + i: four of the six in a box around them."""
    v, i = Var("v"), Var("i")
    place = v * 4 + t * 2 + i
    write = threads("t", loop("v", 2, loop("i", 2, store("S", place, 1.0))), extent=2)
    again = {"t": u, "v": Var("w"), "i": Var("j")}
    read = threads(
        "u",
        loop("w", 2, loop("j", 2, store("C", (b, 0, substitute(place, again)),
                                        load("S", substitute(place, again))))),
        extent=2,
    )  # fmt: skip
    q = by_hand(write, read, scope=Scope.LOCAL)
    q = simplify_program(shrink_storage(q, TARGET), TARGET)
    assert allocated(q) == {"S": ("local", (2, 2))}
    assert "C[b, 0, v" not in print_stmt(q.body)
    assert "= S[w, j]" in print_stmt(q.body)


# ---- virtual threads


@pytest.mark.slow
def test_virtual_threads_are_written_out():
    s = matmul(16, 16, 8, tile=8, per=4, step=4)
    i_2 = "i_2"
    s.bind(s.split(i_2, [2, None])[0], "vthread")
    p = mapped(s)
    assert len(barriers(p)) == 2
    kinds = {x.kind for x in stmts_of(p.body) if isinstance(x, For)}
    assert LoopKind.VTHREAD not in kinds and LoopKind.UNROLL in kinds


def test_virtual_threads_around_nests_share_their_barrier():
    """Both do the first nest, then both the second one; what lives in one gets an axis."""
    v = Var("v")
    own = buffer("L", 8, scope=Scope.LOCAL)
    write = threads("t", store("S", (v, t), load("A", b, v, t)), store("L", t, 1.0))
    read = threads("u", store("C", (b, v, u), plus(load("S", v, 7 - u), load("L", u))))
    nests = loop("v", 3, Alloc(own, Seq((write, read))), kind="vthread")
    q = by_hand(nests, shape=(3, 8))
    assert len(barriers(q)) == 1
    q = simplify_program(shrink_storage(q, TARGET), TARGET)
    assert allocated(q) == {"S": ("shared", (3, 8)), "L": ("local", (3,))}


# ---- the host, and what no kernel can do


def test_a_loop_around_grids_is_the_hosts():
    s = chain()
    s.compute_inline("T")
    _, j = s.split(s.get_loops("C")[0], [3, 8])
    s.bind(j, "blockIdx.x")
    p = mapped(s)
    assert is_host(p.body) and p.body.kind is LoopKind.SERIAL
    (kernel,) = kernels_in(p.body)
    assert kernel_of(kernel).grid == (8, 1, 1)


def test_an_unscheduled_program_is_a_kernel_of_one_thread():
    p = mapped(rows())
    assert shape_of(p) == ((1, 1, 1), (1, 1, 1))
    assert allocated(p) == {"S": ("local", (4,))}


def test_a_parallel_loop_is_the_cpus():
    s = chain()
    s.parallel(s.get_loops("C")[0])
    with pytest.raises(mt.LoweringError, match=r"chain: the loop \w+ is parallel, which a kernel"):
        mapped(s)


def test_blocks_are_a_chain_at_the_top():
    A = mt.placeholder((4, 8), name="A")
    T = mt.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="T")
    C = mt.compute((4, 8), lambda i, j: T[i, j] * 2.0, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    i, j = s.get_loops("C")
    s.compute_at("T", i)
    s.bind(i, "blockIdx.y")
    s.bind(j, "blockIdx.x")
    with pytest.raises(mt.LoweringError, match="are a chain at its top: compute_at or reorder"):
        mapped(s)


def test_threads_of_several_nests_are_too_many():
    """Each nest has as many as there may be, and the kernel the most of each index."""
    nests = [threads("t", store("C", t, load("A", t)), extent=1024),
             threads("u", store("D", u, load("A", u)), extent=2, kind="threadIdx.y")]  # fmt: skip
    p = program(loop("b", 1, Seq(tuple(nests)), kind="blockIdx.x"),
                [buffer(name, 1024) for name in "ACD"])  # fmt: skip
    with pytest.raises(mt.LoweringError, match=r"1,024 \* 2 = 2,048 threads a block"):
        check_kernels(map_threads(p, TARGET), TARGET)


def test_too_much_shared_memory():
    S = buffer("S", 1 << 18, scope=Scope.SHARED)
    p = program(Alloc(S, threads("t", store("S", t, 1.0))), [])
    match = r"p: 1,048,576 bytes of shared memory \(S 1,048,576\), but a block of a100 has at most"
    with pytest.raises(mt.LoweringError, match=match):
        check_kernels(map_threads(p, TARGET), TARGET)


@pytest.mark.parametrize(
    ("threads", "needed", "message"),
    [(32, 0, ""), (64, 16, ""), (64, 12, "of shared memory (S 166,900, reductions across threads")],
)
def test_shared_memory_of_reductions_is_a_part_of_a_block_s(threads, needed, message):
    """An A100's block has 166,912 bytes; two warps hand over 8 of them, in a piece of 16."""
    t, mine = Var("t"), buffer("mine", scope=Scope.REGISTER)
    S = buffer("S", (166912 - needed) // 4, scope=Scope.SHARED)
    combined = ThreadReduce(adder(), LoopKind.THREAD_IDX_X, ("mine",))
    body = Alloc(mine, Seq((store("mine", (), load("S", t)), combined)))
    p = program(Alloc(S, loop("t", threads, body, kind="threadIdx.x")), [])
    if not message:
        assert check_kernels(p, TARGET) is p
        return
    with pytest.raises(mt.LoweringError, match=re.escape(message)):
        check_kernels(p, TARGET)


def test_too_much_for_each_thread():
    L = buffer("L", 1 << 18, scope=Scope.LOCAL)
    p = program(threads("t", Alloc(L, loop("k", 1 << 18, store("L", k, 1.0)))), [])
    with pytest.raises(mt.LoweringError, match="L has 1,048,576 bytes for each thread, but at"):
        check_kernels(map_threads(p, TARGET), TARGET)


def fused_tile(m, n, rows, threads=16):
    """Accumulators of threads that are a number of two digits, of rows a few apart."""
    A, B = mt.placeholder((m, 6), name="A"), mt.placeholder((6, n), name="B")
    r = mt.reduce_axis(6, name="k")
    C = mt.compute((m, n), lambda i, j: mt.sum(A[i, r] * B[r, j], axis=r), name="C")
    s = mt.Schedule(mt.lower([A, B, C]))
    out = s.cache_write("C", "local")
    i, j, k = s.get_loops("C")
    i_0, i_v, i_t, i_r = s.split(i, [None, 2, 4, rows])
    j_0, j_t = s.split(j, [None, threads // 4])
    k_0, k_1 = s.split(k, [None, 2])
    s.reorder(i_0, j_0, k_0, i_t, j_t, k_1, i_v, i_r)
    block = s.fuse(i_0, j_0)
    x, y = s.reverse_compute_at(out, block)
    x_v, x_t, x_r = s.split(x, [2, 4, rows])
    (y,) = s.split(y, [threads // 4])
    s.reorder(x_t, y, x_v, x_r)
    s.bind(s.fuse(x_t, y), "threadIdx.x")
    first = s.decompose_reduction("C", k_0)
    _, a, b, *_ = s.get_loops(first)
    s.bind(s.fuse(a, b), "threadIdx.x")
    s.bind(s.fuse(i_t, j_t), "threadIdx.x")
    s.bind(block, "blockIdx.x")
    return s


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n"), [(32, 8), (32, 4), (64, 16)])
def test_a_thread_owns_what_the_digits_of_its_index_count(m, n):
    assert allocated(mapped(fused_tile(m, n, 2)))["C_local"] == ("local", (2, 2))
    assert allocated(mapped(fused_tile(m - 3, n - 1, 2)))["C_local"][0] == "local"
