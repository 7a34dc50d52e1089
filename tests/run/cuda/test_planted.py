"""Planted bugs: each is found in each order of threads, with its place in memory and the text."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import minitensor as mt
from minitensor.errors import ExecutionError
from minitensor.runtime import ORDERS
from tests.run.cuda.conftest import random
from tests.run.cuda.texts import (
    COPIES,
    CORRECT,
    DYNAMIC,
    HISTOGRAM,
    MATMUL,
    MMA,
    SHUFFLES,
    TREE,
    TWO,
    VECTORS,
    WARP,
    buffer,
    marked,
    text,
)

TWO_BARRIERS = "if (tx < 64)\n __syncthreads();\n else\n __syncthreads();"
NO_BARRIER = ("__syncthreads();", ";")


def without(barrier):
    return (f"__syncthreads(); // {barrier}", f"; // {barrier}")


MUTANTS = {
    # text, changes; kind, buffer, the mark of a line that is named
    "matmul_first": (MATMUL, [without("first")], "race", "A_shared", 2),
    "matmul_second": (MATMUL, [without("second")], "race", "A_shared", 2),
    "matmul_guard_of_rows": (
        MATMUL,
        [("if (i < 37 && j < 29)", "if (j < 29)")],
        "out of bounds",
        "C",
        None,
    ),
    "matmul_guard_of_columns": (
        MATMUL,
        [("if (i < 37 && j < 29)", "if (i < 37)")],
        "race, or out of bounds",
        "C",
        None,
    ),
    "matmul_guard_of_fetch": (MATMUL, [("i < 37 && k + tx", "k + tx")], "out of bounds", "A", 1),
    "matmul_swapped": (
        MATMUL,
        [("A_shared[ty * 16 + tx] =", "A_shared[tx * 16 + tx] =")],
        "race",
        "A_shared",
        1,
    ),
    "matmul_past_the_tile": (
        MATMUL,
        [("k_1 * 16 + tx]", "k_1 * 16 + tx + 1]")],
        "out of bounds",
        "B_shared",
        2,
    ),
    "matmul_one_block": (MATMUL, [("i_0 * 16 + ty", "ty")], "race", "C", None),
    "matmul_divergent": (
        MATMUL,
        [("__syncthreads(); // first", "if (i < 37) __syncthreads();")],
        "barrier",
        "",
        None,
    ),
    "tree_first": (TREE, [without("first")], "race", "held", 2),
    "tree_second": (TREE, [without("second")], "race", "held", 2),
    "tree_guard": (TREE, [("if (tx < half)", "")], "out of bounds", "held", 2),
    "tree_all_write": (TREE, [("if (tx == 0)", "")], "race", "S", None),
    "tree_few_write": (TREE, [("if (tx == 0)", "if (tx == 0 && i < 4)")], "unwritten", "S", None),
    "tree_unfilled": (
        TREE,
        [("held[tx] = A", "if (tx < 127) held[tx] = A")],
        "uninitialised",
        "held",
        2,
    ),
    "tree_divergent": (
        TREE,
        [("__syncthreads(); // second", "if (tx < 64) __syncthreads();")],
        "barrier",
        "",
        None,
    ),
    "tree_two_barriers": (TREE, [("__syncthreads(); // first", TWO_BARRIERS)], "barrier", "", None),
    "shuffles_divergent": (
        SHUFFLES,
        [("const float other = __shfl", "const float other = tx < 7 ? 0.0f : __shfl")],
        "barrier",
        "",
        1,
    ),
    "shuffles_first": (SHUFFLES, [NO_BARRIER], "race", "parts", None),
    "shuffles_owner": (SHUFFLES, [("% 32 == 0) parts", "% 32 < 2) parts")], "race", "parts", None),
    "warp_barrier": (WARP, [("__syncwarp();", ";")], "race", "held", 2),
    "warp_only_shuffles": (
        WARP,
        [("__syncwarp();", "__shfl_xor_sync(0xffffffffu, tx, 1);")],
        "race",
        "held",
        2,
    ),
    "warp_other": (WARP, [("tx ^ 31", "tx ^ 32")], "race", "held", 2),
    "dynamic_first": (DYNAMIC, [without("first")], "race", "A_shared", 2),
    "dynamic_past_the_end": (
        DYNAMIC,
        [("if (tx < 120)", "if (tx < 121)")],
        "out of bounds",
        "A_shared",
        2,
    ),
    "vectors_first": (VECTORS, [without("first")], "race", "A_shared", 2),
    "vectors_misaligned": (
        VECTORS,
        [("A[i * 96 + tx * 4]", "A[i * 95 + tx * 4]")],
        "misaligned",
        "A",
        1,
    ),
    "vectors_past_the_end": (
        VECTORS,
        [("if (tx < 24)", "if (tx < 25)")],
        "out of bounds",
        "A_shared",
        1,
    ),
    "vectors_overlap": (
        VECTORS,
        [("B[i * 96 + tx * 3] =", "B[i * 96 + tx * 3 + 1] =")],
        "unwritten",
        "B",
        None,
    ),
    "copies_unawaited": (COPIES, [("wait_async<1>();", "wait_async<2>();")], "race", "A_shared", 2),
    "copies_first": (COPIES, [without("first")], "race", "A_shared", 2),
    "copies_second": (COPIES, [without("second")], "race", "A_shared", 2),
    "mma_first": (MMA, [without("first")], "race", "A_shared", 2),
    "mma_divergent": (
        MMA,
        [("mma_m16n8k16_f16(d, a, b);", "if (tx > 0) mma_m16n8k16_f16(d, a, b);")],
        "barrier",
        "",
        None,
    ),
    "mma_misaligned": (
        MMA,
        [("tx / 16 * 8]); //2", "tx / 16 * 7]); //2")],
        "misaligned",
        "A_shared",
        2,
    ),
    "histogram_plain": (
        HISTOGRAM,
        [("atomicAdd(&bins[A[i * 64 + tx]], 1);", "bins[A[i * 64 + tx]] += 1;")],
        "race",
        "bins",
        1,
    ),
    "histogram_first": (HISTOGRAM, [without("first")], "race", "bins", 1),
    "histogram_blocks": (
        HISTOGRAM,
        [("atomicAdd(&H[tx], bins[tx]);", "H[tx] += bins[tx];")],
        "race",
        "H",
        2,
    ),
    "two_unwritten": (
        TWO,
        [("held[i] =", "if (threadIdx.x) held[i] =")],
        "uninitialised",
        "workspace",
        2,
    ),
    "two_one_block": (TWO, [("held[i] =", "held[threadIdx.x] =")], "race", "workspace", 1),
}


@pytest.fixture(scope="module")
def mutants(loaded):
    changed = [t.changed(name, *changes) for name, (t, changes, *_) in MUTANTS.items()]
    return loaded(changed, check=True)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found(mutants, name, order):
    _, _, kind, where, mark = MUTANTS[name]
    kernel = mutants[name]
    found = kernel.faults(*random(kernel), orders=[order])
    matching = [f for f in found if f.kind in kind and f.buffer == where]
    assert matching, [str(f) for f in found]
    if mark is not None:
        line = marked(str(kernel.source), name, mark)
        assert line in {n for f in matching for n in [f.line, *(a.line for a in f.actors)]}


def test_every_barrier_of_the_correct_kernels_is_needed():
    """The kernels above have no barrier whose removal is no mutant, but those of `after`."""
    kept = sum(
        str(t.launches).count("// first") + str(t.launches).count("// second") for t in CORRECT
    )
    removed = sum(name.endswith(("_first", "_second")) for name in MUTANTS)
    assert removed >= kept - 1  # mma_columns is mma


def test_a_race_says_who_where_and_when(mutants):
    kernel = mutants["matmul_second"]
    found = kernel.faults(*random(kernel), orders=["forward"])
    race = next(f for f in found if f.kind == "race" and f.buffer == "A_shared")
    reader, writer = race.actors
    fetch, use = (marked(str(kernel.source), "matmul_second", mark) for mark in (1, 2))
    assert (writer.does, writer.line, reader.does, reader.line) == ("writes", fetch, "reads", use)
    assert writer.block == reader.block and writer.epoch == reader.epoch == 1
    assert race.index == (writer.thread[1] * 16 + writer.thread[0],)
    assert race.kernel == "matmul_second_kernel"
    assert str(race) == (
        f"matmul_second: thread {reader.thread} of block (0, 0, 0) reads A_shared"
        f"[{race.index[0]}], which thread {writer.thread} of the same block writes: no barrier is "
        f"between (after 1 barrier, lines {use} and {fetch})"
    )


def test_elements_of_buffers_have_all_their_indices(mutants):
    kernel = mutants["histogram_blocks"]
    race = next(f for f in kernel.faults(*random(kernel)) if f.kind == "race")
    assert race.buffer == "H" and len(race.index) == 1
    first, second = race.actors
    assert first.block != second.block and "blocks run in any order" in str(race)
    kernel = mutants["vectors_misaligned"]
    (fault,) = kernel.faults(*random(kernel), orders=["forward"])
    assert fault.index == (0, 95) and fault.actors[0].block == (1, 0, 0)
    assert "reads 16 bytes at A[0, 95], which does not start at a multiple of 16" in str(fault)


def test_an_access_outside_is_told_by_the_byte(mutants):
    kernel = mutants["matmul_guard_of_fetch"]
    (fault,) = kernel.faults(*random(kernel), orders=["forward"])
    assert "reads 4 bytes outside A: float32[37, 41], 0 bytes after its end" in str(fault)
    kernel = mutants["vectors_past_the_end"]
    found = [str(f) for f in kernel.faults(*random(kernel), orders=["forward"])]
    assert any("writes 16 bytes outside A_shared[96], 0 bytes after its end" in f for f in found)
    kernel = mutants["dynamic_past_the_end"]
    found = [str(f) for f in kernel.faults(*random(kernel), orders=["forward"])]
    assert any("reads 4 bytes outside A_shared[13320], 0 bytes after its end" in f for f in found)


def test_a_divergent_barrier_names_both_threads(mutants):
    kernel = mutants["tree_divergent"]
    (fault,) = kernel.faults(*random(kernel), orders=["forward"])
    line = fault.line
    assert "if (tx < 64) __syncthreads();" in str(kernel.source).splitlines()[line - 1]
    assert str(fault) == (
        f"tree_divergent: thread (0, 0, 0) of block (0, 0, 0) waits at the barrier of line {line}, "
        "but thread (64, 0, 0) has ended"
    )
    kernel = mutants["tree_two_barriers"]
    (fault,) = kernel.faults(*random(kernel), orders=["forward"])
    assert str(fault).endswith(f"waits at the barrier of line {fault.line + 2}")
    kernel = mutants["shuffles_divergent"]
    (fault,) = kernel.faults(*random(kernel), orders=["forward"])
    line = marked(str(kernel.source), "shuffles_divergent", 1)
    assert f"waits for its warp in line {line}, but thread (0, 0, 0) waits at the barrier" in str(
        fault
    )


def test_a_call_of_a_checked_kernel_raises(mutants):
    kernel = mutants["tree_first"]
    with pytest.raises(ExecutionError, match=r"tree_first: thread .* held\[\d+\]") as caught:
        kernel(*random(kernel))
    assert caught.value.kind == "race"


def test_threads_that_wait_in_vain_are_no_deadlock_without_checks(loaded):
    """Nor is a warp of which a lane names others than those that come."""
    changes = [("__syncthreads(); // second", "if (tx < 64) __syncthreads();")]
    masks = [("0xffffffffu, v, lanes", "tx < 16 ? 0xffffu : 0xffffffffu, v, lanes")]
    kernels = loaded([TREE.changed("vain", *changes), SHUFFLES.changed("masks", *masks)])
    for name, reason in [("vain", "has ended"), ("masks", "waits for its warp in line")]:
        with pytest.raises(ExecutionError, match=reason) as caught:
            kernels[name](*random(kernels[name]))
        assert caught.value.kind == "barrier"


# ---- to the byte, and to the reader

BYTES = {
    # the body for each thread of 64; whether it races
    "neighbours": ("((uint8_t *)B)[tx] = 1;", False),
    "words": ("((uint16_t *)B)[tx] = 1; B[32 + tx] = 2.0f;", False),
    "byte_of_a_word": ("if (tx == 0) B[0] = 1.0f; if (tx == 3) ((uint8_t *)B)[2] = 1;", True),
    "byte_beside": ("if (tx == 0) B[0] = 1.0f; if (tx == 3) ((uint8_t *)B)[4] = 1;", False),
    "vector_and_word": (
        "if (tx == 0) *(int4 *)&B[4] = make_int4(1, 2, 3, 4); if (tx == 40) B[7] = 1.0f;",
        True,
    ),
    "vector_beside": (
        "if (tx == 0) *(int4 *)&B[4] = make_int4(1, 2, 3, 4); if (tx == 40) B[8] = 1.0f;",
        False,
    ),
    "one_reader_is_the_writer": ("float x = B2[0]; if (tx == 5) B2[0] = x;", True),
    "same_thread_twice": ("B[tx] = 1.0f; B[tx] += 1.0f;", False),
    "reader_before_others": ("float x = tx == 2 ? B2[0] : 0.0f; if (tx == 2) B2[0] = x;", False),
    "two_readers_of_a_warp": (
        "float x = tx < 2 ? B2[0] : 0.0f; __syncwarp(); if (tx == 1) B2[0] = x;",
        False,
    ),
    "readers_of_two_warps": (
        "float x = tx % 32 == 1 ? B2[0] : 0.0f; __syncwarp(); if (tx == 1) B2[0] = x;",
        True,
    ),
    "reader_after_warp_barrier": (
        "float x = tx == 1 ? B2[0] : 0.0f; __syncwarp(); x += tx == 2 ? B2[0] : 0.0f;"
        " if (tx == 1) B2[0] = x;",
        True,
    ),
    "atomic_and_plain": ("atomicAdd(&B2[0], 1.0f); if (tx == 9) B2[0] = 2.0f;", True),
    "plain_barrier_atomic": (
        "if (tx == 9) B2[0] = 2.0f; __syncthreads(); atomicAdd(&B2[0], 1.0f);",
        False,
    ),
    "atomic_and_read": ("atomicExch(&B2[0], 1.0f); float x = B2[0]; B[tx] = x;", True),
    "atomics_barrier_read": ("atomicMax(&B2[0], 1.0f); __syncthreads(); B[tx] = B2[0];", False),
}


@pytest.fixture(scope="module")
def bytewise(loaded):
    body = """
    __shared__ float B2[4];
    const int tx = threadIdx.x;
    if (tx < 4) B2[tx] = 0.0f;
    B[tx] = 0.0f;
    B[64 + tx] = 0.0f;
    __syncthreads();
    %s
"""
    made = [
        text(name, [buffer("B", 128)], "B", body % line, block=(64, 1, 1))
        for name, (line, _) in BYTES.items()
    ]
    return loaded(made, check=True)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", BYTES)
def test_races_are_exact_to_the_byte_and_the_reader(bytewise, name, order):
    found = bytewise[name].faults(orders=[order])
    assert [f.kind for f in found] in ([["race"], ["race"] * 2] if BYTES[name][1] else [[]])


def test_blocks_that_read_what_another_writes(loaded):
    """The reader of an earlier block is remembered where later ones read as well."""
    body = """
    if (blockIdx.x == 5) A[0] = 1.0f;
    if (blockIdx.x == %s) B[0] = A[0];
    B[1 + blockIdx.x] = blockIdx.x == 5 || blockIdx.x == 6 ? 0.0f : A[1 + blockIdx.x %% 2];
"""
    parameters = [buffer("A", 3), buffer("B", 8)]
    fill = "    A[threadIdx.x] = 0.0f;"
    made = []
    for block in (0, 5, 6):
        one = text(
            f"block_{block}", parameters, "A B", body % block, grid=(7, 1, 1), block=(1, 1, 1)
        )
        first = text("fill", parameters, "A B", fill, block=(3, 1, 1)).launches
        made.append(one.__class__(one.name, one.params, one.outputs, (*first, *one.launches)))
    kernels = loaded(made, check=True)
    for order in ORDERS:
        kinds = {n: [f.kind for f in k.faults(orders=[order])] for n, k in kernels.items()}
        assert kinds == {"block_0": ["race"], "block_5": [], "block_6": ["race"]}


def test_inputs_that_are_written(loaded):
    body = "    ((float *)A)[threadIdx.x] = 1.0f;\n    B[threadIdx.x] = 1.0f;"
    kernel = loaded([text("ruin", [buffer("A", 32), buffer("B", 32)], "B", body)], check=True)[
        "ruin"
    ]
    a = np.zeros(32, np.float32)
    assert [(f.kind, f.buffer) for f in kernel.faults(a)] == [("input changed", "A")]
    assert not a.any()


def test_memory_far_outside_is_reported_and_not_touched(loaded):
    body = "    B[threadIdx.x] = A[1 << 28];"
    kernel = loaded([text("far", [buffer("A", 32), buffer("B", 32)], "B", body)], check=True)["far"]
    (fault,) = kernel.faults(np.zeros(32, np.float32), orders=["forward"])
    assert fault.kind == "out of bounds" and "memory that belongs to no buffer" in str(fault)


def start_threads_of_openmp():
    given = mt.placeholder((64,), name="A")
    s = mt.Schedule(mt.lower([given, mt.compute((64,), lambda i: given[i] + 1.0, name="B")]))
    s.parallel("i")
    mt.build(s, target=mt.Target("c", num_cores=2))(np.zeros(64, np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_user_can_interrupt(loaded, elsewhere):
    """Also where a thread gets the signal that is none of Python's."""
    body = "    while (B[0] != 1.0f) B[1] = 0.0f;"
    kernel = loaded([text("endless", [buffer("B", 2)], "B", body, block=(1, 1, 1))], check=True)
    if elsewhere:
        start_threads_of_openmp()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT] if elsewhere else [])
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            kernel["endless"].faults(orders=["forward"])
    finally:
        signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert time.monotonic() - begun < 10
