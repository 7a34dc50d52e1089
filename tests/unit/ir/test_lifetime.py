"""Where a temporary lives: the innermost loop around all its accesses that carries no values."""

import numpy as np
import pytest

from minitensor.ir import (
    FLOAT32,
    INDEX,
    Alloc,
    Binary,
    Call,
    Cast,
    Const,
    If,
    Program,
    Scope,
    Seq,
    Var,
    accessed_buffers,
    less,
    lifetimes,
    paths,
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
    ordered,
    plus,
    program,
    reduced,
    run,
    spatial,
    store,
    t,
    v,
    w,
)

A, C, D = buffer("A", 4), buffer("C", 4), buffer("D", 4, 4)


def write(name="T", at=i, value=None):
    return block(name, [spatial("v", 4, at)], store("T", v, value or number(1.0)))


def read(at=i, name="C", index=v):
    return block(name, [spatial("v", 4, at)], store("C", v, load("T", index)))


def with_t(body, *shape, scope=Scope.GLOBAL) -> Program:
    return program(body, [A, C, D], [buffer("T", *(shape or (4,)), scope=scope)])


def test_in_two_nests_it_lives_in_the_program():
    p = with_t(Seq((loop("i", 4, write()), loop("j", 4, read(j)))))
    assert lifetimes(p) == {"T": None}
    assert (run(program(p.body, [C], p.temporaries)) == 1).all()


def test_in_one_loop_it_lives_there():
    assert lifetimes(with_t(loop("i", 4, write(), read()))) == {"T": "i"}


def test_it_lives_in_the_innermost_common_loop():
    body = loop("i", 4, loop("j", 4, write("P", j), loop("k", 2, read(j))), loop("t", 4, Seq(())))
    assert lifetimes(with_t(body)) == {"T": "j"}
    body = loop("i", 4, loop("j", 4, write("P", j)), loop("t", 4, read(t)))
    assert lifetimes(with_t(body)) == {"T": "i"}


def test_what_is_never_accessed_lives_in_the_program():
    assert lifetimes(with_t(Seq(()))) == {"T": None}


def test_only_temporaries_have_homes():
    assert list(lifetimes(with_t(loop("i", 4, write(), read())))) == ["T"]


def test_writers_alone_count_too():
    assert lifetimes(with_t(loop("i", 4, loop("j", 4, write("T", j))))) == {"T": "j"}


@pytest.mark.parametrize("kind", ["parallel", "vectorize", "unroll", "blockIdx.x", "threadIdx.x"])
def test_the_kind_of_the_loop_does_not_matter(kind):
    assert lifetimes(with_t(loop("i", 4, write(), read(), kind=kind))) == {"T": "i"}


# ---- loops that carry values


def total(axis, at=i, iters=reduced):
    """T[i] = sum over the axis."""
    return block(
        "T",
        [spatial("v", 4, at), iters("r", 4, axis)],
        add_to("T", v, load("D", v, Var("r"))),
        init=store("T", v, 0.0),
    )


def test_a_reduction_loop_is_no_home():
    body = loop("i", 4, loop("k", 4, total(k)), loop("j", 1, read(i)))
    assert lifetimes(with_t(body)) == {"T": "i"}
    fused = loop("i", 4, loop("k", 4, total(k), block("C", [], store("C", i, load("T", Const(0))))))
    assert lifetimes(with_t(fused)) == {"T": "i"}


def test_nothing_inside_a_reduction_loop_is_a_home():
    body = loop("k", 4, loop("i", 4, total(k)))
    assert lifetimes(with_t(body)) == {"T": None}


def test_both_halves_of_a_split_reduction_are_no_homes():
    body = loop("k", 2, loop("i", 4, loop("t", 2, total(k * 2 + t))))
    assert lifetimes(with_t(body)) == {"T": None}
    body = loop("i", 4, loop("k", 2, loop("t", 2, total(k * 2 + t))))
    assert lifetimes(with_t(body)) == {"T": "i"}


def test_an_ordered_loop_is_no_home():
    body = loop("j", 4, loop("k", 4, total(k, j, ordered)))
    assert lifetimes(with_t(body)) == {"T": "j"}


def test_a_reduction_loop_is_a_home_for_what_is_only_read_there():
    """The producer of a value that one step of a reduction consumes."""
    step = block(
        "C",
        [spatial("v", 4, i), reduced("r", 4, k)],
        add_to("C", v, load("T", Var("r"))),
        init=store("C", v, 0.0),
    )
    producer = block("T", [spatial("w", 4, k)], store("T", w, load("D", w, w)))
    assert lifetimes(with_t(loop("i", 4, loop("k", 4, producer, step)))) == {"T": "k"}


def test_a_scan_beside_its_consumer_keeps_its_values():
    body = loop(
        "i",
        4,
        block(
            "T",
            [ordered("v", 4, i)],
            store("T", v, plus(load("A", v), load("T", v - 1))),
            init=None,
            predicate=less(0, i),
        ),
        block("C", [spatial("v", 4, i)], store("C", v, load("T", v)), predicate=less(0, i)),
    )
    start = block("T0", [], store("T", 0, 0.0))
    first = block("C0", [], store("C", 0, 0.0))
    p = program(Seq((start, first, body)), [A, C], [buffer("T", 4)])
    assert lifetimes(p) == {"T": None}
    np.testing.assert_array_equal(run(p, np.arange(4, dtype=np.float32)), [0, 1, 3, 6])


def test_a_scan_inside_one_loop_is_not_private_to_its_steps():
    step = block("T", [ordered("v", 4, i)], store("T", v, load("A", v)))
    assert lifetimes(with_t(loop("i", 4, step, read()))) == {"T": None}


# ---- scopes


@pytest.mark.parametrize("kind", ["threadIdx.x", "threadIdx.y", "vthread"])
def test_shared_memory_is_not_private_to_a_thread(kind):
    body = loop("j", 4, loop("i", 4, write(), read(), kind=kind), kind="blockIdx.x")
    assert lifetimes(with_t(body, scope=Scope.SHARED)) == {"T": "j"}
    assert lifetimes(with_t(body, scope=Scope.LOCAL)) == {"T": "i"}
    assert lifetimes(with_t(body, scope=Scope.REGISTER)) == {"T": "i"}


def test_shared_memory_is_cut_at_the_first_thread_loop():
    nest = loop("t", 2, loop("k", 2, loop("i", 4, write(), read())), kind="threadIdx.x")
    assert lifetimes(with_t(nest, scope=Scope.SHARED)) == {"T": None}
    assert lifetimes(with_t(loop("j", 2, nest), scope=Scope.SHARED)) == {"T": "j"}


def test_shared_memory_may_live_in_a_serial_loop_around_the_threads():
    nest = loop("k", 2, loop("i", 4, write(), read(), kind="threadIdx.x"), kind="serial")
    p = with_t(loop("j", 2, nest, kind="blockIdx.x"), scope=Scope.SHARED)
    assert lifetimes(p) == {"T": "k"}


# ---- every access counts


def condition_on_t(at):
    return Binary("<", load("T", at), number(3.0))


def test_an_access_in_an_init_counts():
    body = block(
        "C",
        [spatial("v", 4, j), reduced("r", 4, k)],
        add_to("C", v, number(1.0)),
        init=store("C", v, load("T", v)),
    )
    p = with_t(Seq((loop("i", 4, write()), loop("j", 4, loop("k", 4, body)))))
    assert lifetimes(p) == {"T": None}


def test_an_access_in_an_index_of_a_load_counts():
    index = Cast(INDEX, load("T", v))
    body = block("C", [spatial("v", 4, j)], store("C", v, load("A", index)))
    p = with_t(Seq((loop("i", 4, write()), loop("j", 4, body))))
    assert lifetimes(p) == {"T": None}


@pytest.mark.parametrize(
    "around",
    [lambda s: If(less(i, 4), s), lambda s: Alloc(buffer("U", 2), s)],
    ids=["If", "Alloc"],
)
def test_blocks_under_conditions_and_allocations_have_paths(around):
    p = with_t(loop("i", 4, around(Seq((write(), read())))))
    assert [loop.var for loop in paths(p)["C"]] == ["i"]
    assert lifetimes(p) == {"T": "i"}
    np.testing.assert_array_equal(run(program(p.body, [C], p.temporaries)), [1, 1, 1, 1])


def test_accessed_buffers():
    body = block(
        "C",
        [spatial("v", 4, i), reduced("r", 4, k)],
        add_to("C", v, plus(load("A", v), Call("exp", (load("B", v),), FLOAT32))),
        init=store("C", v, load("Z", v)),
    )
    assert accessed_buffers(body) == ({"A", "B", "Z"}, {"C"})
