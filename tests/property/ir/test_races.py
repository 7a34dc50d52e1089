"""The interpreter's verdict on random programs against trying all pairs of iterations."""

import itertools
from random import Random

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from minitensor.errors import ExecutionError
from minitensor.ir import (
    FLOAT32,
    INDEX,
    INT64,
    Barrier,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    If,
    Load,
    LoopKind,
    Program,
    Scope,
    Store,
    Var,
    evaluate,
    interpret,
    less,
    sequence,
    verify,
)

SIZE = 12
CONCURRENT = [kind for kind in LoopKind if kind.is_concurrent]
quick = settings(max_examples=400, deadline=None, derandomize=True)


def random_index(rng: Random, names: str) -> Expr:
    """An index in [0, SIZE) for variables below 4."""
    expr: Expr = Const(rng.randrange(SIZE))
    for name in names:
        expr = expr + Var(name) * rng.choice([0, 1, 1, 2, 3, 4])
    if rng.random() < 0.2:
        expr = expr // 2
    return expr % SIZE


def filled(body) -> Program:
    """C holds zeros before the body runs."""
    start = For("f", SIZE, Store("C", (Var("f"),), Const(0.0, FLOAT32)))
    return Program("p", (Buffer("C", (SIZE,), FLOAT32),), (), sequence(start, body))


def verdict(program: Program) -> str:
    verify(program)
    try:
        interpret(program, [])
    except ExecutionError as error:
        return error.kind
    return "fine"


@given(st.randoms(use_true_random=False))
@quick
def test_races_of_two_loops(rng):
    """for i: for j: C[w] = C[r] + 1, either loop concurrent or not."""
    extents = {"i": rng.randint(0, 4), "j": rng.randint(0, 4)}
    kinds = [rng.choice([*CONCURRENT[:2], LoopKind.SERIAL, LoopKind.THREAD_IDX_X]) for _ in "ij"]
    if kinds[0] is kinds[1] is LoopKind.THREAD_IDX_X:
        kinds[1] = LoopKind.THREAD_IDX_Y
    write, read = random_index(rng, "ij"), random_index(rng, "ij")
    guard = less(random_index(rng, "ij"), rng.choice([SIZE, SIZE, 6]))
    value = Binary("+", Load("C", (read,), FLOAT32), Const(1.0, FLOAT32))
    body = If(guard, Store("C", (write,), value))
    for name, kind in zip("ji", reversed(kinds)):
        body = For(name, extents[name], body, kind)
    touched = []
    for i, j in itertools.product(range(extents["i"]), range(extents["j"])):
        at = {"i": i, "j": j}
        if evaluate(guard, at):
            touched.append((i, j, evaluate(read, at), evaluate(write, at)))
    racing = False
    for (i, j, r, w), (i2, j2, r2, w2) in itertools.combinations(touched, 2):
        conflict = w in (w2, r2) or w2 == r
        outer = i != i2 and kinds[0] is not LoopKind.SERIAL
        inner = i == i2 and j != j2 and kinds[1] is not LoopKind.SERIAL
        racing |= conflict and (outer or inner)
    event("race" if racing else "fine")
    assert verdict(filled(body)) == ("race" if racing else "fine")


@given(st.randoms(use_true_random=False))
@quick
def test_races_of_threads_with_barriers(rng):
    """Phases of loads and stores, some separated by barriers."""
    threads = rng.randint(1, 4)
    steps: list[tuple[str, Expr]] = []
    for _ in range(rng.randint(1, 5)):
        steps.append((rng.choice(["load", "store", "barrier"]), random_index(rng, "t")))
    statements = [
        Barrier()
        if kind == "barrier"
        else Store("C", (index,), Const(1.0, FLOAT32))
        if kind == "store"
        else Store("D", (Var("t"),), Load("C", (index,), FLOAT32))
        for kind, index in steps
    ]
    body = For("t", threads, sequence(*statements), LoopKind.THREAD_IDX_X)
    program = filled(body)
    fill = For("g", 4, Store("D", (Var("g"),), Const(0.0, FLOAT32)))
    program = program.replace(
        params=(*program.params, Buffer("D", (4,), FLOAT32)), body=sequence(fill, program.body)
    )
    racing = False
    phase: list[tuple[int, str, int]] = []
    for kind, index in [*steps, ("barrier", Const(0))]:
        if kind != "barrier":
            phase += [(t, kind, evaluate(index, {"t": t})) for t in range(threads)]
            continue
        for (t, kind1, a), (t2, kind2, b) in itertools.combinations(phase, 2):
            racing |= t != t2 and a == b and "store" in (kind1, kind2)
        phase = []
    event("race" if racing else "fine")
    assert verdict(program) == ("race" if racing else "fine")


@given(st.randoms(use_true_random=False))
@quick
def test_what_lies_in_bounds_and_is_written(rng):
    """T is written where `guard` holds; a read of anything else is an error of the right kind."""
    extent, size = rng.randint(1, 6), rng.randint(1, 8)
    write = Var("i") * rng.choice([1, 1, 2]) + rng.choice([-1, 0, 0, 1])
    read = Var("i") * rng.choice([0, 1, 1, 2]) + rng.choice([-1, 0, 0, 1])
    guard = less(Var("i"), rng.choice([0, 3, 9]))
    body = For(
        "i",
        extent,
        sequence(
            If(guard, Store("T", (write,), Const(1.0, FLOAT32))),
            Store("C", (Var("i"),), Load("T", (read,), FLOAT32)),
        ),
    )
    program = Program(
        "p", (Buffer("C", (extent,), FLOAT32),), (Buffer("T", (size,), FLOAT32),), body
    )
    wanted, written = "fine", set()
    for i in range(extent):
        at = {"i": i}
        if evaluate(guard, at):
            w = evaluate(write, at)
            if not 0 <= w < size:
                wanted = "out of bounds"
                break
            written.add(w)
        r = evaluate(read, at)
        if not 0 <= r < size:
            wanted = "out of bounds"
            break
        if r not in written:
            wanted = "uninitialised"
            break
    event(wanted)
    assert verdict(program) == wanted


@given(st.randoms(use_true_random=False))
@quick
def test_divergent_barriers(rng):
    """A barrier under a condition is refused unless all threads, or none, reach it."""
    threads = rng.randint(1, 4)
    guards = [
        less(Var("t") * rng.choice([0, 1, -1]) + rng.randint(-3, 3), 0)
        for _ in range(rng.randint(1, 3))
    ]
    body = For("t", threads, sequence(*[If(g, Barrier()) for g in guards]), LoopKind.THREAD_IDX_X)
    program = Program("p", (), (), body)
    reached = [[bool(evaluate(g, {"t": t})) for t in range(threads)] for g in guards]
    uniform = all(len(set(row)) == 1 for row in reached)
    event("uniform" if uniform else "divergent")
    assert verdict(program) == ("fine" if uniform else "barrier")


@given(st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_threads_compute_what_their_phases_compute_one_after_the_other(rng):
    """Stores of a permutation, a barrier, loads of another: as numpy does it on whole arrays."""
    n = rng.randint(1, 6)
    p, q = (rng.sample(range(n), n) for _ in "pq")

    def place(table: str) -> Expr:
        return Cast(INDEX, Load(table, (Var("t"),), INT64))

    shared = Buffer("S", (n,), FLOAT32, Scope.SHARED)
    body = For(
        "t",
        n,
        sequence(
            Store("S", (place("p"),), Load("A", (Var("t"),), FLOAT32)),
            Barrier(),
            Store("C", (Var("t"),), Load("S", (place("q"),), FLOAT32)),
        ),
        LoopKind.THREAD_IDX_X,
    )
    params = (
        Buffer("A", (n,), FLOAT32),
        Buffer("p", (n,), INT64),
        Buffer("q", (n,), INT64),
        Buffer("C", (n,), FLOAT32),
    )
    program = Program("p", params, (shared,), body)
    verify(program)
    a = np.arange(n, dtype=np.float32)
    outputs, _ = interpret(program, [a, np.array(p), np.array(q)])
    held = np.empty(n, np.float32)
    held[p] = a
    np.testing.assert_array_equal(outputs[0], held[q])
