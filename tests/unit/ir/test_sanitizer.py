"""The interpreter refuses what a program may not do: one handwritten program for each."""

import numpy as np
import pytest

from minitensor.errors import ExecutionError, VerifyError
from minitensor.ir import (
    INDEX,
    Alloc,
    Barrier,
    Call,
    Cast,
    Const,
    If,
    LoopKind,
    Prefetch,
    Ramp,
    Scope,
    Select,
    Seq,
    Var,
    equal,
    interpret,
    less,
)
from tests.unit.ir.build import (
    add_to,
    block,
    buffer,
    filled,
    i,
    j,
    k,
    load,
    loop,
    number,
    ordered,
    program,
    reduced,
    run,
    spatial,
    store,
    t,
    v,
)

A, B, C, D = buffer("A", 4), buffer("B", 4, dtype="int32"), buffer("C", 4), buffer("D", 4, 4)
CONCURRENT = [kind.value for kind in LoopKind if kind.is_concurrent]
concurrent = pytest.mark.parametrize("kind", CONCURRENT)
ONES = np.ones(4, np.float32)


def refused(p, kind, message, *arrays):
    """The program must raise an ExecutionError of this kind; gives the error."""
    with pytest.raises(ExecutionError) as caught:
        run(p, *arrays)
    assert caught.value.kind == kind, caught.value.message
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert "def p(" in str(caught.value)
    return caught.value


# ---- out of bounds


@pytest.mark.parametrize(
    ("index", "shown"), [(i - 1, "-1"), (i + 1, "4"), (i * 2, "4"), (3 - i * 2, "-1")]
)
def test_a_load_out_of_bounds(index, shown):
    p = program(loop("i", 4, store("C", i, load("A", index))), [A, C])
    refused(p, "out of bounds", f"p: A[{shown}] is outside A: axis 0 has extent 4", ONES)


def test_a_store_out_of_bounds():
    low = program(loop("i", 4, store("C", i - 1, 1.0)), [C])
    refused(low, "out of bounds", "p: C[-1] is outside C: axis 0 has extent 4")
    high = program(loop("i", 5, store("C", i, 1.0)), [C])
    refused(high, "out of bounds", "p: C[4] is outside C: axis 0 has extent 4")


def test_the_axis_is_named():
    p = program(loop("i", 4, loop("j", 5, store("D", (i, j), 1.0))), [D])
    refused(p, "out of bounds", "D[0, 4] is outside D: axis 1 has extent 4")


def test_a_reduction_out_of_bounds():
    p = program(Seq((filled("C", 4), loop("i", 5, add_to("C", i, number(1.0))))), [C])
    refused(p, "out of bounds", "C[4] is outside C")


def test_an_empty_buffer_has_no_elements():
    p = program(store("E", 0, 1.0), [buffer("E", 0)])
    refused(p, "out of bounds", "E[0] is outside E: axis 0 has extent 0")


def test_indices_from_data_are_checked():
    index = Cast(INDEX, load("B", i, dtype="int32"))
    p = program(loop("i", 4, store("C", i, load("A", index))), [A, B, C])
    np.testing.assert_array_equal(run(p, ONES, np.array([3, 2, 1, 0], np.int32)), ONES)
    for bad in (-1, 4, -(2**31)):
        indices = np.array([0, 1, bad, 0], np.int32)
        refused(p, "out of bounds", f"A[{bad}] is outside A", ONES, indices)


def test_a_prefetch_reads_nothing_but_is_checked():
    fill = filled("C", 4)
    inside = program(Seq((loop("i", 4, Prefetch("A", (i,))), fill)), [A, C])
    _, counts = interpret(inside, [ONES])
    assert counts.loads["A"] == 0
    outside = program(Seq((loop("i", 4, Prefetch("A", (i + 1,))), fill)), [A, C])
    refused(outside, "out of bounds", "p: A[4] is outside A", ONES)
    uninitialised = program(Seq((Prefetch("C", (Const(0),)), fill)), [C])
    run(uninitialised)


def test_each_lane_is_checked():
    p = program(store("C", Ramp(Const(1), 1, 4), 1.0), [C])
    refused(p, "out of bounds", "axis 0 has extent 4")
    p = program(store("C", Ramp(Const(2), -1, 4), 1.0), [C])
    refused(p, "out of bounds", "axis 0 has extent 4")


def test_in_bounds_says_where_it_was():
    index = Call("in_bounds", (i * 2, Const(4)), INDEX)
    p = program(loop("i", 4, store("C", index, 1.0)), [C])
    with pytest.raises(ExecutionError, match=r"i\*2 = 4 is outside \[0, 4\)") as caught:
        run(p)
    assert caught.value.kind == "out of bounds"


# ---- uninitialised


def test_reading_an_output_before_it_is_written():
    p = program(loop("i", 4, store("C", i, load("C", i))), [C])
    refused(p, "uninitialised", "p: C[0] is read before written")


def test_a_reduction_without_init():
    body = block("C", [reduced("r", 4, i)], add_to("C", 0, number(1.0)))
    refused(program(loop("i", 4, body), [C]), "uninitialised", "C[0] is read before written")


def test_an_output_that_is_not_written_fully():
    p = program(loop("i", 3, store("C", i, 1.0)), [C])
    with pytest.raises(ExecutionError, match=r"the output C was never written at \[3\]") as caught:
        run(p)
    assert caught.value.kind == "uninitialised"


def test_an_output_that_is_not_written_in_two_dimensions():
    body = loop("i", 4, loop("j", 4, If(less(0, i + j), store("D", (i, j), 1.0))))
    with pytest.raises(ExecutionError, match=r"the output D was never written at \[0, 0\]"):
        run(program(body, [D]))


def test_a_zero_dimensional_output_that_is_not_written():
    p = program(If(less(1, 0), store("S", (), 1.0)), [buffer("S")])
    with pytest.raises(ExecutionError, match="the output S was never written"):
        run(p)


def test_an_empty_output_counts_as_written():
    p = program(loop("i", 0, store("E", i, 1.0)), [buffer("E", 0)])
    assert run(p).shape == (0,)


def test_a_temporary_that_lives_in_a_loop_is_fresh_in_every_iteration():
    """Only the first iteration writes T; were it one buffer, the others would see it."""
    first = block("T", [spatial("v", 4, i)], store("T", 0, 1.0), predicate=equal(i, 0))
    user = block("C", [spatial("v", 4, i)], store("C", v, load("T", 0)))
    p = program(loop("i", 4, first, user), [C], [buffer("T", 1)])
    refused(p, "uninitialised", "T[0] is read before written")


def test_a_temporary_is_fresh_in_a_serial_loop_inside_threads():
    first = block("T", [spatial("v", 4, i)], store("T", 0, 1.0), predicate=equal(i, 0))
    user = block("C", [spatial("v", 4, i)], store("C", 0, load("T", 0)))
    nest = loop("t", 1, loop("i", 4, first, user, Barrier()), kind="threadIdx.x")
    p = program(nest, [buffer("C", 1)], [buffer("T", 1, scope=Scope.LOCAL)])
    refused(p, "uninitialised", "T[0] is read before written")


def test_a_sliding_window_is_not_kept_from_one_iteration_to_the_next():
    producer = block("T", [spatial("v", 4, i)], store("T", v, 1.0))
    user = block(
        "C",
        [spatial("v", 4, i)],
        store("C", v, Select(less(0, v), load("T", v - 1), number(0.0), lazy=True)),
    )
    p = program(loop("i", 4, producer, user), [C], [buffer("T", 4)])
    refused(p, "uninitialised", "T[0] is read before written")


def test_a_read_in_the_untaken_side_is_no_read():
    value = Select(less(i, 0), load("C", i), number(1.0), lazy=True)
    np.testing.assert_array_equal(run(program(loop("i", 4, store("C", i, value)), [C])), ONES)


# ---- races


@concurrent
def test_two_iterations_write_one_element(kind):
    p = program(loop("i", 4, store("C", 0, 1.0), kind=kind), [buffer("C", 1)])
    error = refused(
        p,
        "race",
        f"p: iterations 0 and 1 of the {kind} loop i both touch C[0], and one of them writes",
    )
    assert "# <- race" in str(error)


@concurrent
def test_a_read_after_another_iterations_write(kind):
    body = loop("i", 4, store("C", i, load("C", Select(less(0, i), i - 1, i))), kind=kind)
    p = program(Seq((filled("C", 4), body)), [C])
    refused(p, "race", f"iterations 0 and 1 of the {kind} loop i both touch C[0]")


@concurrent
def test_a_write_after_another_iterations_read(kind):
    body = loop("i", 4, store("C", i, load("C", Select(less(i, 3), i + 1, i))), kind=kind)
    p = program(Seq((filled("C", 4), body)), [C])
    refused(p, "race", f"iterations 0 and 1 of the {kind} loop i both touch C[1]")


@pytest.mark.parametrize("kind", [kind for kind in CONCURRENT if kind != "threadIdx.x"])
def test_a_reduction_over_a_concurrent_loop(kind):
    body = block(
        "C", [reduced("r", 4, k)], add_to("C", 0, load("A", Var("r"))), init=store("C", 0, 0.0)
    )
    p = program(loop("k", 4, body, kind=kind), [A, buffer("C", 1)])
    refused(p, "race", f"iterations 0 and 1 of the {kind} loop k both touch C[0]", ONES)


@concurrent
def test_a_scan_over_a_concurrent_loop(kind):
    step = block("C", [ordered("v", 4, i)], store("C", v, load("C", Select(less(0, v), v - 1, v))))
    p = program(Seq((filled("C", 4), loop("i", 4, step, kind=kind))), [C])
    refused(p, "race", f"of the {kind} loop i both touch C[0]")


@concurrent
def test_distant_iterations_race_too(kind):
    index = Select(equal(i, 3), Const(0), i)
    p = program(loop("i", 4, store("C", index, 1.0), kind=kind), [C])
    refused(p, "race", f"iterations 0 and 3 of the {kind} loop i both touch C[0]")


def test_the_outer_of_two_parallel_loops_races():
    p = program(
        loop("i", 4, loop("j", 4, store("C", j, 1.0), kind="parallel"), kind="parallel"), [C]
    )
    refused(p, "race", "iterations 0 and 1 of the parallel loop i both touch C[0]")


def test_the_inner_of_two_parallel_loops_races():
    p = program(
        loop("i", 4, loop("j", 4, store("C", i, 1.0), kind="parallel"), kind="parallel"), [C]
    )
    refused(p, "race", "iterations 0 and 1 of the parallel loop j both touch C[0]")


def test_a_diagonal_races_between_neither_loop_alone():
    body = loop("j", 4, store("E", i + j, 1.0), kind="vectorize")
    p = program(loop("i", 4, body, kind="parallel"), [buffer("E", 7)])
    refused(p, "race", "of the parallel loop i both touch E[1]")


def test_a_serial_loop_around_a_parallel_one_does_not_race():
    body = loop("i", 3, loop("j", 4, store("C", j, 1.0), kind="parallel"))
    np.testing.assert_array_equal(run(program(body, [C])), ONES)


def test_a_parallel_loop_around_a_serial_one_races():
    body = loop("i", 3, loop("j", 4, store("C", j, 1.0)), kind="parallel")
    refused(program(body, [C]), "race", "iterations 0 and 1 of the parallel loop i")


def test_two_parallel_loops_one_after_the_other_do_not_race():
    body = Seq(
        (
            loop("i", 4, store("T", i, 1.0), kind="parallel"),
            loop("j", 4, store("C", j, load("T", 3 - j)), kind="parallel"),
        )
    )
    np.testing.assert_array_equal(run(program(body, [C], [buffer("T", 4)])), ONES)


def test_a_write_through_data_races():
    index = Cast(INDEX, load("B", i, dtype="int32"))
    p = program(
        Seq((filled("C", 4), loop("i", 4, store("C", index, 1.0), kind="parallel"))), [B, C]
    )
    np.testing.assert_array_equal(run(p, np.array([3, 1, 0, 2], np.int32)), ONES)
    refused(p, "race", "iterations 1 and 2", np.array([3, 1, 1, 2], np.int32))


@concurrent
def test_disjoint_writes_are_no_race(kind):
    p = program(loop("i", 4, store("C", 3 - i, load("A", i)), kind=kind), [A, C])
    np.testing.assert_array_equal(run(p, np.arange(4, dtype=np.float32)), [3, 2, 1, 0])


@concurrent
def test_reading_the_same_element_is_no_race(kind):
    p = program(loop("i", 4, store("C", i, load("A", 0)), kind=kind), [A, C])
    np.testing.assert_array_equal(run(p, ONES), ONES)


@concurrent
def test_one_iteration_may_read_and_write_its_element(kind):
    body = loop("i", 4, store("C", i, 1.0), add_to("C", i, load("C", i)), kind=kind)
    np.testing.assert_array_equal(run(program(body, [C])), ONES * 2)


@concurrent
def test_a_private_temporary_is_no_race(kind):
    producer = block("T", [spatial("v", 4, i)], store("T", 0, load("A", v)))
    user = block("C", [spatial("v", 4, i)], store("C", v, load("T", 0)))
    p = program(loop("i", 4, producer, user, kind=kind), [A, C], [buffer("T", 1)])
    np.testing.assert_array_equal(run(p, np.arange(4, dtype=np.float32)), [0, 1, 2, 3])


@concurrent
def test_a_temporary_of_an_inner_loop_is_private_to_the_outer_too(kind):
    producer = block("T", [spatial("v", 4, j)], store("T", 0, load("A", v)))
    user = block(
        "D", [spatial("v", 4, i), spatial("w", 4, j)], store("D", (v, Var("w")), load("T", 0))
    )
    p = program(loop("i", 4, loop("j", 4, producer, user), kind=kind), [A, D], [buffer("T", 1)])
    np.testing.assert_array_equal(run(p, ONES), np.ones((4, 4)))


@concurrent
def test_a_temporary_of_an_outer_loop_is_not_private(kind):
    producer = block("T", [spatial("v", 4, j)], store("T", 0, 1.0))
    user = block("D", [spatial("v", 4, i)], store("D", (v, v), load("T", 0)))
    nest = loop("i", 4, loop("j", 4, producer, kind=kind), user)
    p = program(nest, [D], [buffer("T", 1)])
    refused(p, "race", f"iterations 0 and 1 of the {kind} loop j both touch T[0]")


@concurrent
def test_an_allocation_inside_is_private(kind):
    inner = Alloc(buffer("T", 1), Seq((store("T", 0, load("A", i)), store("C", i, load("T", 0)))))
    p = program(loop("i", 4, inner, kind=kind), [A, C])
    np.testing.assert_array_equal(run(p, ONES), ONES)


@concurrent
def test_an_allocation_outside_is_not(kind):
    inner = loop("i", 4, store("T", 0, 1.0), kind=kind)
    p = program(Alloc(buffer("T", 1), Seq((inner, store("C", 0, 1.0)))), [buffer("C", 1)])
    refused(p, "race", "both touch T[0]")


@concurrent
def test_shared_memory_is_shared_by_threads_and_private_to_blocks(kind):
    producer = block("T", [spatial("v", 4, i)], store("T", 0, 1.0))
    user = block("C", [spatial("v", 4, i)], store("C", v, load("T", 0)))
    p = program(loop("i", 4, producer, user, kind=kind), [C], [buffer("T", 1, scope=Scope.SHARED)])
    if LoopKind(kind).is_thread:
        refused(p, "race", "both touch T[0]")
    else:
        np.testing.assert_array_equal(run(p), ONES)


@pytest.mark.parametrize("kind", ["serial", "unroll"])
def test_loops_that_are_not_concurrent_never_race(kind):
    p = program(loop("i", 4, store("C", 0, 1.0), kind=kind), [buffer("C", 1)])
    assert run(p) == [1]


def test_an_empty_or_single_parallel_loop_never_races():
    for extent in (0, 1):
        body = Seq((filled("C", 1), loop("i", extent, store("C", 0, 1.0), kind="parallel")))
        assert run(program(body, [buffer("C", 1)])) == [extent]


# ---- domain


def test_a_binding_outside_its_domain():
    step = block("C", [spatial("v", 4, i * 3)], store("C", v, 1.0))
    refused(
        program(loop("i", 4, step), [C]),
        "domain",
        "p: block C: iter v is bound to 6, outside [0, 4)",
    )
    step = block("C", [spatial("v", 4, i - 1)], store("C", v, 1.0))
    refused(program(loop("i", 4, step), [C]), "domain", "iter v is bound to -1, outside [0, 4)")


def test_a_missing_guard_of_a_reduction():
    step = block(
        "C",
        [reduced("r", 6, k * 4 + t)],
        add_to("C", 0, number(1.0)),
        init=store("C", 0, 0.0),
    )
    p = program(loop("k", 2, loop("t", 4, step)), [buffer("C", 1)])
    refused(p, "domain", "iter r is bound to 6, outside [0, 6)")


def test_a_guard_protects_the_domain():
    step = block(
        "C", [spatial("v", 4, i * 3 + j)], store("C", v, 1.0), predicate=less(i * 3 + j, 4)
    )
    p = program(loop("i", 2, loop("j", 3, step)), [C])
    np.testing.assert_array_equal(run(p), ONES)


# ---- messages


def test_weird_names_are_quoted_and_cut_in_messages():
    for name in ('a"; system("x', "\n", "x" * 5000):
        p = program(
            loop(name, 2, store(name, 0, 1.0), kind="parallel"), [buffer(name, 1)], name="p"
        )
        error = refused(p, "race", "iterations 0 and 1")
        assert len(error.message) < 300


def test_the_name_of_the_program_is_quoted_and_cut_in_messages():
    for name in ("\n", "x" * 5000):
        with pytest.raises(ExecutionError) as caught:
            run(program(store("C", 4, 1.0), [C], name=name))
        assert "\n" not in caught.value.message
        assert len(caught.value.message) < 300


def test_a_barrier_outside_of_threads_is_refused_even_unverified():
    with pytest.raises(VerifyError, match="a barrier stands outside every loop over threads"):
        interpret(program(loop("i", 2, Barrier()), []), [])
