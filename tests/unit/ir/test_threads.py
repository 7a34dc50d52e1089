"""Threads of a GPU block: what they share, where they must meet, and what is undefined."""

import numpy as np
import pytest

from minitensor.errors import ExecutionError
from minitensor.ir import (
    NOTHING,
    Alloc,
    Barrier,
    Const,
    If,
    Program,
    Scope,
    Select,
    Seq,
    Stmt,
    Var,
    equal,
    less,
)
from tests.unit.ir.build import (
    add_to,
    block,
    buffer,
    i,
    j,
    k,
    load,
    loop,
    number,
    plus,
    program,
    reduced,
    run,
    run_counted,
    spatial,
    store,
    t,
    v,
)

A, C = buffer("A", 8), buffer("C", 8)
S = buffer("S", 8, scope=Scope.SHARED)
DATA = np.arange(8, dtype=np.float32)
THREADS = ["threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread"]
threads = pytest.mark.parametrize("kind", THREADS)
u = Var("u")


def barrier_if(wanted: bool) -> Stmt:
    return Barrier() if wanted else NOTHING


def reverse(kind="threadIdx.x", barrier=True) -> Program:
    """C = A reversed through shared memory, by 8 threads."""
    fetch = block("S", [spatial("v", 8, t)], store("S", v, load("A", v)))
    give = block("C", [spatial("v", 8, t)], store("C", v, load("S", 7 - v)))
    return program(loop("t", 8, fetch, barrier_if(barrier), give, kind=kind), [A, C], [S])


def refused(p, kind, *messages):
    with pytest.raises(ExecutionError) as caught:
        run(p, *[DATA] * len(p.inputs))
    assert caught.value.kind == kind, caught.value.message
    for message in messages:
        assert message in caught.value.message
    return caught.value


# ---- one loop over threads


@threads
def test_threads_communicate_through_shared_memory_across_a_barrier(kind):
    np.testing.assert_array_equal(run(reverse(kind), DATA), DATA[::-1])


@threads
def test_without_the_barrier_thread_0_reads_what_nobody_wrote_yet(kind):
    """Which is what the interpreter sees first: it runs the threads in turn."""
    refused(reverse(kind, barrier=False), "uninitialised", "S[7] is read before written")


def initialised_reverse(barrier: bool) -> Program:
    """As `reverse`, but shared memory holds something already."""
    fill = loop("f", 8, store("S", Var("f"), 0.0), kind="threadIdx.x")
    p = reverse(barrier=barrier)
    return p.replace(body=Seq((fill, p.body)))


def test_a_missing_barrier_is_a_race():
    np.testing.assert_array_equal(run(initialised_reverse(True), DATA), DATA[::-1])
    error = refused(
        initialised_reverse(False), "race", "of the threadIdx.x loop t both touch S[", "writes"
    )
    assert "# <- race" in str(error)


def rotating(after_write: bool, after_read: bool) -> Program:
    """For each k: S[t] = A[t]; C[t] += S[(t + 1) % 8]."""
    body = loop(
        "t",
        8,
        store("C", t, 0.0),
        loop(
            "k",
            3,
            store("S", t, load("A", t)),
            barrier_if(after_write),
            add_to("C", t, load("S", (t + 1) % 8)),
            barrier_if(after_read),
        ),
        kind="threadIdx.x",
    )
    return program(body, [A, C], [S])


def test_a_buffer_that_is_used_again_needs_a_second_barrier():
    np.testing.assert_array_equal(run(rotating(True, True), DATA), 3 * np.roll(DATA, -1))
    refused(rotating(True, False), "race", "both touch S[")


def test_a_barrier_after_the_read_alone_is_not_enough():
    refused(rotating(False, True), "uninitialised", "S[1] is read before written")


def test_barriers_order_global_memory_too():
    body = loop(
        "t",
        8,
        store("C", t, load("A", t)),
        Barrier(),
        If(equal(t, 7), store("C", 0, load("C", 7))),
        kind="threadIdx.x",
    )
    assert run(program(body, [A, C]), DATA)[0] == 7


def test_a_barrier_does_not_order_blocks():
    inner = loop(
        "t",
        2,
        store("C", t, 1.0),
        Barrier(),
        store("C", t + 2, load("C", 1 - t)),
        kind="threadIdx.x",
    )
    p = program(loop("b", 2, inner, kind="blockIdx.x"), [buffer("C", 4)])
    refused(p, "race", "iterations 0 and 1 of the blockIdx.x loop b both touch C[0]")


def test_each_block_has_its_own_shared_memory():
    fetch = block("S", [spatial("v", 8, j * 4 + t)], store("S", t_of(v), load("A", v)))
    give = block("C", [spatial("v", 8, j * 4 + t)], store("C", v, load("S", 3 - t_of(v))))
    inner = loop("t", 4, fetch, Barrier(), give, kind="threadIdx.x")
    p = program(
        loop("j", 2, inner, kind="blockIdx.x"), [A, C], [buffer("S", 4, scope=Scope.SHARED)]
    )
    np.testing.assert_array_equal(run(p, DATA), DATA.reshape(2, 4)[:, ::-1].ravel())


def t_of(index):
    return index % 4


def test_shared_memory_that_lives_in_a_serial_loop_is_fresh_in_every_iteration():
    fetch = block("S", [spatial("v", 8, t)], store("S", v, 1.0), predicate=equal(k, 0))
    give = block("C", [spatial("v", 8, t)], store("C", v, load("S", 7 - v)))
    p = program(loop("k", 2, loop("t", 8, fetch, Barrier(), give, kind="threadIdx.x")), [C], [S])
    refused(p, "uninitialised", "S[7] is read before written")


def test_local_memory_is_private_to_a_thread():
    for scope in (Scope.LOCAL, Scope.REGISTER):
        fetch = block("L", [spatial("v", 8, t)], store("L", 0, load("A", v)))
        give = block("C", [spatial("v", 8, t)], store("C", v, load("L", 0)))
        body = loop("t", 8, fetch, Barrier(), give, kind="threadIdx.x")
        p = program(body, [A, C], [buffer("L", 1, scope=scope)])
        np.testing.assert_array_equal(run(p, DATA), DATA)


def test_an_allocation_in_a_thread_survives_its_barriers_and_is_its_own():
    inner = Alloc(
        buffer("L", 1, scope=Scope.LOCAL),
        Seq((store("L", 0, load("A", t)), Barrier(), store("C", t, load("L", 0)))),
    )
    p = program(loop("t", 8, inner, kind="threadIdx.x"), [A, C])
    np.testing.assert_array_equal(run(p, DATA), DATA)


def test_the_variables_of_a_thread_survive_its_barriers():
    body = loop(
        "t",
        4,
        loop("i", 2, Barrier(), store("D", (t, i), load("A", t * 2 + i)), Barrier()),
        kind="threadIdx.x",
    )
    p = program(body, [A, buffer("D", 4, 2)])
    np.testing.assert_array_equal(run(p, DATA), DATA.reshape(4, 2))


@pytest.mark.parametrize("extent", [0, 1])
def test_no_thread_or_one(extent):
    body = loop("t", extent, store("C", t, 1.0), Barrier(), store("C", t, 2.0), kind="threadIdx.x")
    p = program(body, [buffer("C", extent)])
    np.testing.assert_array_equal(run(p), np.full(extent, 2.0))


# ---- two loops over threads


def transpose(barrier=True, kinds=("threadIdx.y", "threadIdx.x")) -> Program:
    """D = transposed A through shared memory, by 2 x 4 threads with one barrier."""
    fetch = store("S", (i, j), load("A", i, j))
    give = store("D", (i, j), load("S", (i * 4 + j) % 2, (i * 4 + j) // 2))
    body = loop(
        "i", 2, loop("j", 4, fetch, barrier_if(barrier), give, kind=kinds[1]), kind=kinds[0]
    )
    return program(
        body, [buffer("A", 2, 4), buffer("D", 2, 4)], [buffer("S", 2, 4, scope=Scope.SHARED)]
    )


@pytest.mark.parametrize(
    "kinds",
    [("threadIdx.y", "threadIdx.x"), ("threadIdx.x", "threadIdx.y"), ("vthread", "vthread")],
)
def test_one_barrier_in_two_nested_thread_loops_holds_all_threads(kinds):
    a = DATA.reshape(2, 4)
    outputs, counts = run_counted(transpose(kinds=kinds), a)
    np.testing.assert_array_equal(outputs[0], a.T.reshape(2, 4))
    assert counts.loads == {"A": 8, "D": 0, "S": 8}


def test_without_it_the_outer_threads_race():
    p = transpose(barrier=False)
    fill = loop("f", 2, loop("g", 4, store("S", (Var("f"), Var("g")), 0.0)))
    p = p.replace(body=Seq((fill, p.body)))
    with pytest.raises(ExecutionError) as caught:
        run(p, DATA.reshape(2, 4))
    assert caught.value.kind == "race"


def test_a_barrier_between_the_outer_threads_only():
    """For y: {for x: S = ..}; barrier; {for x: .. = S}: the inner loops end before the barrier."""
    fetch = loop("i", 4, store("S", (t, i), load("A", t, i)), kind="threadIdx.x")
    give = loop("j", 4, store("D", (t, j), load("S", 1 - t, 3 - j)), kind="threadIdx.x")
    for barrier in (True, False):
        p = program(
            loop("t", 2, fetch, barrier_if(barrier), give, kind="threadIdx.y"),
            [buffer("A", 2, 4), buffer("D", 2, 4)],
            [buffer("S", 2, 4, scope=Scope.SHARED)],
        )
        a = DATA.reshape(2, 4)
        if barrier:
            np.testing.assert_array_equal(run(p, a), a[::-1, ::-1])
        else:
            with pytest.raises(ExecutionError) as caught:
                run(p, a)
            assert caught.value.kind == "uninitialised"


def test_races_between_outer_threads_after_the_barrier_are_found():
    body = loop(
        "i", 2, loop("j", 4, Barrier(), store("C", j, 1.0), kind="threadIdx.x"), kind="threadIdx.y"
    )
    refused(program(body, [buffer("C", 4)]), "race", "iterations 0 and 1 of the threadIdx.y loop i")


def test_races_between_inner_threads_after_the_barrier_are_found():
    body = loop(
        "i", 2, loop("j", 4, Barrier(), store("C", i, 1.0), kind="threadIdx.x"), kind="threadIdx.y"
    )
    refused(program(body, [buffer("C", 2)]), "race", "iterations 0 and 1 of the threadIdx.x loop j")


def test_races_before_the_first_barrier_are_found():
    body = loop("t", 8, store("C", 0, 1.0), Barrier(), kind="threadIdx.x")
    refused(program(body, [buffer("C", 1)]), "race", "iterations 0 and 1 of the threadIdx.x loop t")


@pytest.mark.parametrize("kind", ["vectorize", "parallel", "vthread", "blockIdx.y"])
def test_races_in_a_concurrent_loop_that_holds_a_barrier_are_found(kind):
    body = loop("t", 2, loop("i", 4, store("C", t, 1.0), Barrier(), kind=kind), kind="threadIdx.x")
    refused(program(body, [buffer("C", 2)]), "race", f"of the {kind} loop i both touch C[0]")


def test_a_reduction_tree():
    """The sum of 8 numbers in 3 steps with a barrier after each."""
    steps: list[Stmt] = [block("S", [spatial("v", 8, t)], store("S", v, load("A", v))), Barrier()]
    for width in (4, 2, 1):
        steps.append(If(less(t, width), store("S", t, plus(load("S", t), load("S", t + width)))))
        steps.append(Barrier())
    steps.append(If(equal(t, 0), store("C", 0, load("S", 0))))
    p = program(loop("t", 8, *steps, kind="threadIdx.x"), [A, buffer("C", 1)], [S])
    assert run(p, DATA) == [28]
    without = [s for n, s in enumerate(steps) if n != 3]
    p = program(loop("t", 8, *without, kind="threadIdx.x"), [A, buffer("C", 1)], [S])
    refused(p, "race", "both touch S[")


def test_a_matmul_tile_in_shared_memory():
    """Two barriers in a serial loop inside two thread loops: the shape of every GPU matmul."""
    n, tile = 4, 2
    si, sk = Var("si"), Var("sk")
    fetch = block(
        "SA",
        [spatial("si", n, u * tile + i), spatial("sk", n, k * tile + j)],
        store("SA", (si % tile, sk % tile), load("A", si, sk)),
    )
    vi, vj, vk = Var("vi"), Var("vj"), Var("vk")
    step = block(
        "C",
        [
            spatial("vi", n, u * tile + i),
            spatial("vj", tile, j),
            reduced("vk", n, k * tile + Var("q")),
        ],
        add_to("C", (vi, vj), load("SA", vi % tile, vk % tile)),
        init=store("C", (vi, vj), 0.0),
    )

    def built(first=True, second=True):
        body = loop(
            "k",
            n // tile,
            fetch,
            barrier_if(first),
            loop("q", tile, step),
            barrier_if(second),
        )
        nest = loop("i", tile, loop("j", tile, body, kind="threadIdx.x"), kind="threadIdx.y")
        return program(
            loop("u", n // tile, nest, kind="blockIdx.x"),
            [buffer("A", n, n), buffer("C", n, tile)],
            [buffer("SA", tile, tile, scope=Scope.SHARED)],
        )

    a = np.arange(16, dtype=np.float32).reshape(n, n)
    np.testing.assert_array_equal(run(built(), a), np.repeat(a.sum(1)[:, None], tile, 1))
    for missing in ({"first": False}, {"second": False}):
        with pytest.raises(ExecutionError) as caught:
            run(built(**missing), a)
        assert caught.value.kind in ("race", "uninitialised")


# ---- barriers that not all threads reach


@threads
def test_a_divergent_barrier(kind):
    p = program(loop("t", 4, If(less(t, 2), Barrier()), kind=kind), [])
    error = refused(p, "barrier", "thread t = 2 does not reach a barrier where t = 0 waits")
    assert "# <- barrier" in str(error)


def test_a_divergent_barrier_in_the_else_branch():
    p = program(loop("t", 4, If(less(t, 2), Seq(()), Barrier()), kind="threadIdx.x"), [])
    refused(p, "barrier", "thread t = 0 does not reach a barrier where t = 2 waits")


def test_a_divergent_second_barrier():
    p = program(loop("t", 4, Barrier(), If(equal(t, 3), Barrier()), kind="threadIdx.x"), [])
    refused(p, "barrier", "thread t = 0 does not reach a barrier where t = 3 waits")


def test_divergence_between_outer_threads():
    inner = loop("j", 2, If(equal(i, 0), Barrier()), kind="threadIdx.x")
    p = program(loop("i", 2, inner, kind="threadIdx.y"), [])
    refused(p, "barrier", "thread i = 1 does not reach a barrier where i = 0 waits")


def test_divergence_between_inner_threads():
    inner = loop("j", 2, If(equal(j, 0), Barrier()), kind="threadIdx.x")
    p = program(loop("i", 2, inner, kind="threadIdx.y"), [])
    refused(p, "barrier", "thread j = 1 does not reach a barrier where j = 0 waits")


def test_a_condition_that_is_the_same_for_all_threads_may_hold_a_barrier():
    body = loop(
        "b",
        2,
        loop(
            "t",
            4,
            If(equal(Var("b"), 0), Barrier()),
            store("D", (Var("b"), t), 1.0),
            kind="threadIdx.x",
        ),
        kind="blockIdx.x",
    )
    np.testing.assert_array_equal(run(program(body, [buffer("D", 2, 4)])), np.ones((2, 4)))


def test_threads_that_wait_at_different_barriers():
    """Each thread reaches a barrier, but not all reach the same one."""
    body = If(
        less(t, 2), Seq((store("C", t, 1.0), Barrier())), Seq((store("C", t, 2.0), Barrier()))
    )
    p = program(loop("t", 4, body, kind="threadIdx.x"), [buffer("C", 4)])
    refused(p, "barrier")


def test_threads_that_wait_in_different_iterations():
    body = loop("k", 2, If(equal(k, t), Barrier()))
    p = program(loop("t", 2, body, kind="threadIdx.x"), [])
    refused(p, "barrier")


def test_a_barrier_where_the_inner_threads_are_as_many_but_others():
    """`Select` and data make conditions vary as well as variables do."""
    value = Select(equal(load("A", t), number(3.0)), Const(1), Const(0))
    p = program(
        loop("t", 8, If(equal(value, 1), Barrier()), store("C", t, 1.0), kind="threadIdx.x"), [A, C]
    )
    refused(p, "barrier", "t = 3 waits")
