"""What the threads of a block combine: `ThreadReduce`, and reductions over their loop."""

import numpy as np
import pytest

from minitensor.errors import ExecutionError, VerifyError
from minitensor.ir import (
    FLOAT32,
    Alloc,
    Barrier,
    If,
    LoopKind,
    Reduce,
    Reducer,
    Scope,
    Select,
    Seq,
    ThreadReduce,
    Var,
    equal,
    less,
    structural_equal,
    verify,
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
    spatial,
    store,
    t,
    v,
)

X = LoopKind.THREAD_IDX_X
a, b = Var("a", FLOAT32), Var("b", FLOAT32)
SUM = Reducer("sum", (a,), (b,), (plus(a, b),), (number(0.0),))
A, C = buffer("A", 8), buffer("C", 8)
R = buffer("R", scope=Scope.REGISTER)
DATA = np.arange(8, dtype=np.float32)


def held(*stmts):
    return Alloc(R, Seq((store("R", (), load("A", t)), *stmts)))


def refused(p, kind, message):
    with pytest.raises(ExecutionError) as caught:
        run(p, *[DATA] * len(p.inputs))
    assert caught.value.kind == kind
    assert message in caught.value.message


# ---- the statement


def test_each_thread_has_the_sum_of_all():
    body = held(ThreadReduce(SUM, X, ("R",)), store("C", t, load("R")))
    p = program(loop("t", 8, body, kind="threadIdx.x"), [A, C])
    np.testing.assert_array_equal(run(p, DATA), np.full(8, 28))
    assert "R = thread_reduce(sum, R)  # threadIdx.x" in str(p)
    assert p.outputs == (C,)


@pytest.mark.parametrize("order", ["yx", "xy"])
def test_threads_combine_along_one_axis(order):
    """Rows of 4 threads, in either order of the loops."""
    own = Alloc(R, Seq((store("R", (), load("A", i * 4 + j)), ThreadReduce(SUM, X, ("R",)),
                        store("C", i * 4 + j, load("R")))))  # fmt: skip
    y, x = ("i", 2, "threadIdx.y"), ("j", 4, "threadIdx.x")
    outer, inner = (y, x) if order == "yx" else (x, y)
    nest = loop(*outer[:2], loop(*inner[:2], own, kind=inner[2]), kind=outer[2])
    result = run(program(nest, [A, C]), DATA)
    np.testing.assert_array_equal(result, np.repeat([6.0, 22.0], 4))


def test_a_tuple_is_combined_at_once():
    p, q = Var("p", FLOAT32), Var("q", FLOAT32)
    wins = less(a, b)
    largest = Reducer(
        "argmax", (a, p), (b, q), (Select(wins, b, a), Select(wins, q, p)),
        (number(-1.0), number(-1.0)),
    )  # fmt: skip
    place = buffer("P", scope=Scope.REGISTER)
    own = Seq((store("R", (), load("A", t)), store("P", (), load("A", 7 - t)),
               ThreadReduce(largest, X, ("R", "P")), store("C", t, load("P"))))  # fmt: skip
    p = program(loop("t", 8, Alloc(R, Alloc(place, own)), kind="threadIdx.x"), [A, C])
    np.testing.assert_array_equal(run(p, DATA), np.zeros(8))


def test_it_is_no_barrier():
    """What was written before is not visible behind it."""
    meet = (store("C", t, 1.0), ThreadReduce(SUM, X, ("R",)), store("R", (), load("C", 7 - t)))
    p = program(loop("t", 8, held(*meet), kind="threadIdx.x"), [A, C])
    refused(p, "race", "both touch C[")
    fenced = (*meet[:2], Barrier(), meet[2])
    run(program(loop("t", 8, held(*fenced), kind="threadIdx.x"), [A, C]), DATA)


def test_all_threads_of_the_block_must_reach_it():
    some = held(If(less(t, 4), ThreadReduce(SUM, X, ("R",))))
    p = program(loop("t", 8, some, kind="threadIdx.x"), [A])
    refused(p, "barrier", "thread t = 4 does not reach a reduction where t = 0 waits")
    rows = loop("t", 4, held(If(equal(i, 0), ThreadReduce(SUM, X, ("R",)))), kind="threadIdx.x")
    p = program(loop("i", 2, rows, kind="threadIdx.y"), [A])
    refused(p, "barrier", "thread i = 1 does not reach a reduction where i = 0 waits")


def test_it_stands_in_a_loop_of_its_threads():
    for kind in ("threadIdx.y", "serial", "vthread"):
        p = program(loop("t", 8, held(ThreadReduce(SUM, X, ("R",))), kind=kind), [A])
        with pytest.raises(VerifyError, match=r"V7: threadIdx.x threads combine R in a block, or"):
            verify(p)
    inside = block("B", [spatial("t", 8, t)], ThreadReduce(SUM, X, ("C",)))
    p = program(loop("t", 8, inside, kind="threadIdx.x"), [buffer("C")])
    with pytest.raises(VerifyError, match="V7"):
        verify(p)


@pytest.mark.parametrize(
    ("buffers", "message"),
    [
        (("C",), "V2: C has 1 axes, but is accessed with 0 indices"),
        (("N",), "V4: float32 is reduced into N"),
        (("R", "R"), "V4: reducer sum does not combine 1 values"),
        ((), "V4: reducer sum does not combine 1 values"),
        (("missing",), "V2: buffer missing is not declared"),
    ],
)
def test_it_combines_single_elements_of_its_type(buffers, message):
    n = buffer("N", dtype="int32", scope=Scope.REGISTER)
    body = Alloc(n, held(ThreadReduce(SUM, X, buffers)))
    with pytest.raises(VerifyError, match=message):
        verify(program(loop("t", 8, body, kind="threadIdx.x"), [A, C]))


def test_programs_that_combine_alike_are_equal_but_for_names():
    def made(name, reducer=SUM):
        own = buffer(name, scope=Scope.REGISTER)
        body = Seq((store(name, (), load("A", t)), ThreadReduce(reducer, X, (name,))))
        return program(loop("t", 8, Alloc(own, body), kind="threadIdx.x"), [A])

    other = Reducer("sum", (a,), (b,), (plus(b, a),), (number(0.0),))
    assert structural_equal(made("R"), made("Q"))
    assert not structural_equal(made("R"), made("R", other))


# ---- a reduction whose loop is bound


def total(*after, kind="threadIdx.x", init=True, before=()):
    step = block(
        "S", [reduced("r", 8, k)], Reduce(SUM, ("S",), (), (load("A", Var("r")),)),
        init=store("S", (), 0.0),
    )  # fmt: skip
    nest = loop("k", 8, *before, step, *after, kind=kind)
    return program(nest, [A, buffer("S")])


def test_threads_may_combine_into_one_element():
    assert run(total(), DATA) == 28


def test_nothing_else_may_touch_it():
    reads = block("C", [spatial("v", 8, k)], store("C", v, load("S")))
    p = total(reads).replace(params=(A, buffer("S"), C))
    refused(p, "race", "iterations of block S and 0 of the threadIdx.x loop k both touch S[]")
    writes = block("W", [spatial("v", 8, k)], store("S", (), load("A", v)))
    refused(total(before=[writes]), "race", "both touch S[]")


def test_what_is_combined_is_no_exception_for_what_is_read():
    """S is combined from elements that other threads write."""
    shift = block("T", [spatial("v", 8, k)], store("T", (v + 1) % 8, load("A", v)))
    fill = loop("f", 8, store("T", Var("f"), 0.0))
    p = total(before=[shift])
    body = p.body
    step = body.body.stmts[1]
    reduce = Reduce(SUM, ("S",), (), (load("T", Var("r")),))
    changed = block("S", step.iters, reduce, init=step.init)
    nest = loop("k", 8, shift, changed, kind="threadIdx.x")
    p = p.replace(body=Seq((fill, nest)), params=(A, buffer("S"), buffer("T", 8)))
    refused(p, "race", "both touch T[1]")


def test_other_loops_race_on_what_threads_combine():
    step = block(
        "S", [spatial("v", 2, i), reduced("r", 8, k)], add_to("S", 0, load("A", Var("r"))),
        init=store("S", 0, 0.0),
    )  # fmt: skip
    nest = loop("i", 2, loop("k", 8, step, kind="threadIdx.x"), kind="threadIdx.y")
    refused(program(nest, [A, buffer("S", 1)]), "race", "of the threadIdx.y loop i both touch S[0]")
