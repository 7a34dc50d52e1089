"""Loops whose next tile is copied while threads compute: the interpreter, the emulator, nvcc."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import ir
from minitensor.codegen import Target, lowered
from minitensor.codegen.passes.map_threads import map_threads
from minitensor.codegen.passes.pipeline_copies import pipeline_copies
from minitensor.codegen.remarks import recording
from tests.unit.ir import build
from tests.unit.ir.build import buffer, load, program, store

TARGET = Target("cuda", 1, 0, "a100")


def product(m, n, k, vector=4, repeats=False, tile=16):
    """A product of matrices through shared memory, and the loop over its tiles."""
    a = mt.placeholder((m, k), name="A")
    b = mt.placeholder((k, n), name="B")
    r = mt.reduce_axis(k, name="k")
    c = mt.compute((m, n), lambda i, j: mt.sum(a[i, r] * b[r, j], axis=r), name="C")
    s = mt.Schedule(mt.lower([a, b, c], name="product"))
    out = s.cache_write("C", "local")
    i, j, r = s.get_loops("C")
    i_0, i_1, i_2 = s.split(i, [None, tile // 4, 4])
    j_0, j_1, j_2 = s.split(j, [None, tile // 4, 4])
    k_0, k_1 = s.split(r, [None, 8])
    order = (j_0, i_0) if repeats else (i_0, j_0)
    s.reorder(*order, k_0, i_1, j_1, k_1, i_2, j_2)
    s.reverse_compute_at(out, order[1])
    for name in ("A", "B"):
        fetch = s.cache_read("C", name, "shared")
        s.compute_at(fetch, k_0)
        fused = s.fuse(*s.get_loops(fetch)[-2:])
        _, y, x, v = s.split(fused, [None, tile // 4, tile // 4, vector])
        s.bind(y, "threadIdx.y")
        s.bind(x, "threadIdx.x")
        if vector > 1:
            s.vectorize(v)
    rows, columns = s.get_loops(out)[-2:]
    o_1, o_2 = s.split(rows, [None, 4])
    p_1, p_2 = s.split(columns, [None, 4])
    s.reorder(o_1, p_1, o_2, p_2)
    for row, column in ((i_1, j_1), (o_1, p_1)):
        s.bind(row, "threadIdx.y")
        s.bind(column, "threadIdx.x")
    if not repeats:
        s.bind(i_0, "blockIdx.y")
    s.bind(j_0, "blockIdx.x")
    return s, k_0


def given(m, n, k):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    return (a, b), a @ b


SIZES = [
    (32, 32, 32, 4, False),
    (29, 35, 21, 1, False),
    (32, 32, 32, 1, False),
    (32, 34, 32, 2, False),
    (33, 32, 40, 4, True),
    (16, 16, 8, 4, False),
]


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_a_pipelined_product_is_the_same_with_a_barrier_less(size):
    m, n, k, vector, repeats = size
    s, loop = product(m, n, k, vector, repeats)
    plain = lowered(s.program, TARGET)
    s.annotate(loop, "pipeline", 2)
    after = lowered(s.program, TARGET, check=True)
    arrays, expected = given(m, n, k)
    (result,), _ = ir.interpret(after, arrays)
    np.testing.assert_array_equal(result, expected)
    if k > 8:
        count = [sum(isinstance(x, ir.Barrier) for x in ir.walk(p.body)) for p in (plain, after)]
        assert count == [2, 2 if repeats else 1]
    kernel = mt.build(s, target="cuda-emulator", check=True)
    assert kernel.faults(*arrays) == []
    np.testing.assert_array_equal(kernel(*arrays), expected)


def test_a_tile_that_comes_from_shared_memory_is_copied_behind_a_barrier():
    """Other threads put there what the first copy reads."""
    s, loop = product(16, 16, 24, vector=1)
    whole = s.cache_read("A_shared", "A", "shared")
    s.bind(s.compute_at(whole, "j_0")[-1], "threadIdx.x")
    s.annotate(loop, "pipeline", 2)
    with recording() as recorder:
        after = lowered(s.program, TARGET, check=True)
    assert "copies the next tile while it computes" in str(recorder.outcomes)
    arrays, expected = given(16, 16, 24)
    np.testing.assert_array_equal(ir.interpret(after, arrays)[0][0], expected)
    assert mt.build(s, target="cuda-emulator", check=True).faults(*arrays) == []


@pytest.mark.slow
def test_what_is_copied_in_vectors_is_copied_asynchronously(installed):
    s, loop = product(32, 32, 32)
    assert "copy_async16" not in mt.build(s, target="cuda-emulator").source
    s.annotate(loop, "pipeline", 2)
    kernel = mt.build(s, target="cuda")
    assert kernel.source.count("copy_async16(") == 4
    assert "cp.async.cg.shared.global" in kernel.ptx


@pytest.mark.slow
@pytest.mark.parametrize("vector", [1, 2])
def test_so_is_what_is_copied_in_words_of_4_or_8_bytes(installed, vector):
    s, loop = product(32, 32, 32, vector)
    s.annotate(loop, "pipeline", 2)
    kernel = mt.build(s, target="cuda")
    assert kernel.source.count(f"copy_async{4 * vector}(") == 4
    assert "cp.async.ca.shared.global" in kernel.ptx


@pytest.mark.slow
def test_gpus_that_cannot_copy_asynchronously_load_and_store(installed):
    s, loop = product(32, 32, 32)
    s.annotate(loop, "pipeline", 2)
    kernel = mt.build(s, target=Target("cuda", device="t4"))
    assert "copy_async" not in kernel.source and "A_shared[256]" in kernel.source
    arrays, expected = given(32, 32, 32)
    emulated = mt.build(s, target=Target("cuda-emulator", device="t4"), check=True)
    np.testing.assert_array_equal(emulated(*arrays), expected)


def test_the_first_tile_asks_only_what_it_must():
    """Of the terms of a sum, 8 of 21 are in it."""
    s, loop = product(29, 35, 21, vector=1)
    s.annotate(loop, "pipeline", 2)
    first = str(lowered(s.program, TARGET)).partition("barrier()")[0]
    assert "< 29" in first and "< 35" in first and "< 21" not in first and "0*8" not in first


def remark(s):
    with recording() as recorder:
        after = lowered(s.program, TARGET)
    arrays, expected = given(32, 32, 32)
    (result,), _ = ir.interpret(after, arrays)
    np.testing.assert_array_equal(result, expected)
    return [r.text for r in recorder.remarks if r.kind == "pipeline"]


def test_a_note_of_a_user_makes_no_copy_asynchronous():
    """Nothing would wait for it: each thread reads what it copied itself, without a barrier."""
    a = mt.placeholder((8, 16), name="A")
    b = mt.compute((8, 16), lambda i, j: a[i, j] + 1, name="B")
    s = mt.Schedule(mt.lower([a, b]))
    s.bind("i", "threadIdx.x")
    s.compute_at(s.cache_read("B", "A", "shared"), "i")
    s.annotate("j", "copies 0", "A_shared")
    kernel = mt.build(s, target="cuda-emulator", check=True)
    given = np.arange(128, dtype=np.float32).reshape(8, 16)
    np.testing.assert_array_equal(kernel(given), given + 1)
    assert "copy_async" not in kernel.source


def test_a_tile_is_not_copied_ahead_from_what_is_stored_to():
    """D[k + 1] = D[k] + 1 by way of S: iteration k stores what k + 1 copies."""
    k, t, u, v = map(ir.Var, "ktuv")
    stores = {
        "t": build.store("S", t, build.load("D", k, t)),
        "u": build.store("D", (k + 1, u), build.plus(build.load("S", 3 - u), build.number(1))),
        "v": build.store("D", (0, v), build.load("A", v)),
    }
    copy, use, first = (
        build.loop(name, 4, store, kind="threadIdx.x") for name, store in stores.items()
    )
    steps = ir.For("k", 3, ir.Seq((copy, use)), annotations=(("pipeline", 2),))
    S = build.buffer("S", 4, scope=ir.Scope.SHARED)
    body = build.loop("b", 1, ir.Alloc(S, ir.Seq((first, steps))), kind="blockIdx.x")
    p = build.program(body, [build.buffer("A", 4), build.buffer("D", 4, 4)])
    with recording() as recorder:
        after = pipeline_copies(map_threads(p, TARGET), TARGET)
    given = np.arange(4, dtype=np.float32)
    (result,), _ = ir.interpret(after, [given])
    np.testing.assert_array_equal(result, ir.interpret(p, [given])[0][0])
    assert [r.text for r in recorder.remarks if r.kind == "pipeline"] == [
        "the next tile is copied from what the use of this one stores to"
    ]


@pytest.mark.slow
def test_a_loop_that_is_none_of_copies_and_uses_stays_and_says_why():
    s, loop = product(32, 32, 32)
    s.annotate(loop, "pipeline", 3)
    assert remark(s) == ["a pipeline has 2 tiles: one that is copied, one that is computed with"]
    s, _ = product(32, 32, 32)
    s.annotate("k_1", "pipeline", 2)
    (text,) = remark(s)
    assert text.startswith("its body is not one group of copies")


def test_a_tile_that_is_made_of_what_is_computed_with_the_last_one_waits_for_it():
    tx, k = ir.Var("tx"), ir.Var("k")
    one, two = buffer("S", 8, scope=ir.Scope.SHARED), buffer("T", 8, scope=ir.Scope.SHARED)
    body = ir.Seq(
        (
            ir.Barrier(),
            store("S", tx, load("T", 7 - tx)),
            ir.Barrier(),
            store("T", tx, load("S", (tx + k) % 8)),
        )
    )
    steps = ir.For("k", 3, body, ir.LoopKind.SERIAL, (("pipeline", 2),))
    threads = ir.For(
        "tx",
        8,
        ir.Seq((store("T", tx, load("A", tx)), steps, store("C", tx, load("T", tx)))),
        ir.LoopKind.THREAD_IDX_X,
    )
    p = program(ir.allocated([one, two], threads), [buffer("A", 8), buffer("C", 8)])
    with recording() as recorder:
        assert pipeline_copies(p, TARGET) == p
    (found,) = recorder.remarks
    assert found.text.startswith("the next tile is copied from what the use")
