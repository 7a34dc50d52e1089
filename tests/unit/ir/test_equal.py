import os
import subprocess
import sys

import pytest

from minitensor.ir import (
    FLOAT32,
    Alloc,
    Barrier,
    Binary,
    Block,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    DType,
    For,
    If,
    IterKind,
    Lanes,
    LoopKind,
    Program,
    Ramp,
    Reducer,
    Scope,
    Select,
    Seq,
    Unary,
    Var,
    less,
    structural_equal,
    structural_hash,
)
from tests.unit.ir.build import (
    add_to,
    block,
    buffer,
    i,
    j,
    load,
    loop,
    matmul,
    number,
    plus,
    program,
    reduced,
    spatial,
    store,
    v,
    w,
)


def same(a: Program, b: Program) -> bool:
    """Equality and hashes must agree before either is trusted."""
    equal = structural_equal(a, b)
    assert equal == structural_equal(b, a)
    assert equal == (structural_hash(a) == structural_hash(b))
    return equal


def two_stages(
    *,
    name="p",
    loops=("i", "j"),
    iters=("v", "w"),
    blocks=("T", "C"),
    temporary="T",
    params=("A", "C"),
    **changes,
) -> Program:
    """T = A + 1 in one nest, C = sum of T and T in the other; each part can be changed."""
    a, c = params
    first, second = (Var(n) for n in loops)
    v, w = (Var(n) for n in iters)
    extent = changes.get("extent", 4)
    one = changes.get("constant", number(1.0))
    nest = loop(
        loops[0],
        extent,
        block(
            blocks[0],
            [spatial(iters[0], extent, first)],
            store(temporary, v, Binary(changes.get("op", "+"), load(a, v), one)),
            predicate=changes.get("predicate", less(first, 3)),
            annotations=changes.get("annotations", ()),
        ),
        kind=changes.get("kind", LoopKind.SERIAL),
    )
    other = loop(
        loops[1],
        extent,
        block(
            blocks[1],
            [reduced(iters[1], extent, second)],
            add_to(c, Const(0), plus(load(temporary, w), load(changes.get("read", temporary), w))),
            init=store(c, Const(0), 0.0),
        ),
    )
    return program(
        Seq((nest, other)),
        [buffer(a, extent), buffer(c, 1)],
        [buffer(temporary, extent, scope=changes.get("scope", Scope.GLOBAL))],
        name=name,
    )


REFERENCE = two_stages()


@pytest.mark.parametrize(
    "renamed",
    [
        {"name": "something else"},
        {"loops": ("x", "y")},
        {"loops": ("j", "i")},
        {"iters": ("i", "j")},
        {"iters": ("v", "v")},
        {"blocks": ("first", "second")},
        {"blocks": ("C", "T")},
        {"temporary": "buffer"},
        {"params": ("C", "A")},
        {"params": ("in", "out"), "temporary": "A", "loops": ("C", "T")},
    ],
    ids=str,
)
def test_renaming_keeps_equality(renamed):
    other = two_stages(**renamed)
    assert other != REFERENCE
    assert same(other, REFERENCE)


@pytest.mark.parametrize(
    "change",
    [
        {"extent": 5},
        {"constant": number(2.0)},
        {"constant": number(-1.0)},
        {"op": "*"},
        {"op": "-"},
        {"read": "A"},
        {"predicate": less(i, 2)},
        {"predicate": less(Const(3), i)},
        {"annotations": (("unroll", 2),)},
        {"kind": LoopKind.PARALLEL},
        {"kind": LoopKind.UNROLL},
        {"scope": Scope.LOCAL},
    ],
    ids=str,
)
def test_any_other_change_breaks_equality(change):
    assert not same(two_stages(**change), REFERENCE)


def test_what_is_retired_does_not_count():
    assert same(REFERENCE.replace(retired=frozenset({"i_0"})), REFERENCE)


def one(body, *extra: Buffer) -> Program:
    return program(body, [buffer("A", 8), buffer("B", 8), buffer("C", 8), *extra])


x = load("A", i)
DIFFERENT = {
    "constants": [store("C", 0, number(z)) for z in (0.0, -0.0, 1.0, float("nan"), float("inf"))],
    "constants of other types": [
        store("C", 0, Cast(FLOAT32, number(1, dtype))) for dtype in ("int8", "int64", "bool")
    ],
    "operators": [store("C", 0, Binary(op, x, load("A", j))) for op in ("+", "-", "min", "max")],
    "sides": [store("C", 0, Binary("-", load("A", a), load("A", b))) for a, b in [(0, 1), (1, 0)]],
    "functions": [store("C", 0, Call(f, (x,), FLOAT32)) for f in ("exp", "log", "sqrt")],
    "casts": [store("C", 0, Cast(FLOAT32, Cast(DType.of(d), x))) for d in ("int8", "uint8")],
    "laziness": [store("C", 0, Select(less(i, 1), x, x, lazy)) for lazy in (False, True)],
    "minus": [store("C", 0, x), store("C", 0, Unary("-", x))],
    "buffers": [store("C", 0, load(name, 0)) for name in "AB"],
    "targets": [store(name, 0, number(1.0)) for name in "ABC"],
    "indices": [store("C", index, 1.0) for index in (0, 1, i, i + 1, i * 2)],
    "extents": [loop("i", n, store("C", i, 1.0)) for n in (0, 1, 8)],
    "loop kinds": [loop("i", 8, store("C", i, 1.0), kind=kind) for kind in LoopKind],
    "annotations": [
        For("i", 8, store("C", i, 1.0), annotations=a)
        for a in ((), (("a", 1),), (("a", 2),), (("b", 1),), (("a", "1"),), (("a", 1), ("b", 1)))
    ],
    "loop order": [
        loop(a, 8, loop(b, 8, store("C", i, load("A", j)))) for a, b in [("i", "j"), ("j", "i")]
    ],
    "which loop": [loop("i", 8, loop("j", 8, store("C", n, 1.0))) for n in (i, j)],
    "order of statements": [
        Seq((store("C", 0, 1.0), store("C", 1, 1.0))),
        Seq((store("C", 1, 1.0), store("C", 0, 1.0))),
        Seq((store("C", 0, 1.0),)),
    ],
    "iter kinds": [
        loop("i", 8, Block("C", (type(spatial("v", 8, i))("v", 8, kind, i),), store("C", v, 1.0)))
        for kind in IterKind
    ],
    "iter extents": [
        loop("i", 8, block("C", [spatial("v", n, i)], store("C", v, 1.0))) for n in (8, 9)
    ],
    "bindings": [
        loop("i", 8, block("C", [spatial("v", 8, b)], store("C", v, 1.0))) for b in (i, 7 - i)
    ],
    "which iter": [
        loop(
            "i",
            8,
            loop("j", 8, block("C", [spatial("v", 8, i), spatial("w", 8, j)], store("C", n, 1.0))),
        )
        for n in (v, w)
    ],
    "init": [
        loop("i", 8, block("C", [reduced("v", 8, i)], add_to("C", 0, number(1.0)), init=init))
        for init in (None, store("C", 0, 0.0), store("C", 0, 1.0))
    ],
    "if": [
        If(less(i, 1), store("C", 0, 1.0)),
        If(less(i, 2), store("C", 0, 1.0)),
        If(less(i, 1), store("C", 0, 1.0), store("C", 0, 1.0)),
    ],
    "barrier": [Seq((Barrier(), store("C", 0, 1.0))), Seq((store("C", 0, 1.0), Barrier()))],
    "alloc": [
        Alloc(buffer("T", *shape, scope=scope), store("C", 0, 1.0))
        for shape in ((2,), (3,), (2, 2))
        for scope in (Scope.LOCAL, Scope.SHARED)
    ],
    "lanes": [
        store("C", Ramp(Const(0), 1, 4), Lanes("l", 4, load("A", index)))
        for index in (Var("l"), Const(0))
    ],
    "ramps": [
        store("C", Ramp(Const(0), stride, lanes), Broadcast(number(1.0), lanes))
        for stride, lanes in [(1, 4), (2, 4), (1, 2)]
    ],
}


@pytest.mark.parametrize("group", DIFFERENT.values(), ids=DIFFERENT)
def test_different_programs_are_different(group):
    programs = [one(body) for body in group]
    assert len({structural_hash(p) for p in programs}) == len(programs)
    assert all(same(p, one(body)) for p, body in zip(programs, group))


@pytest.mark.parametrize(
    "changed",
    [
        buffer("A", 9),
        buffer("A", 8, 1),
        buffer("A", 8, dtype="int32"),
        buffer("A", 8, alignment=((0, 8, 1),)),
    ],
    ids=str,
)
def test_parameters_count(changed):
    body = store("C", 0, 1.0)
    a, c = buffer("A", 8), buffer("C", 8)
    assert not same(program(body, [a, c]), program(body, [changed, c]))


def test_a_parameter_is_not_a_temporary():
    body = store("C", 0, 1.0)
    a, c = buffer("A", 8), buffer("C", 8)
    assert not same(program(body, [c, a]), program(body, [c], [a]))


def test_parameters_are_compared_by_position():
    a, b, c = buffer("A", 8), buffer("B", 8), buffer("C", 8)
    body = store("C", 0, load("A", 0))
    assert not same(program(body, [a, b, c]), program(body, [b, a, c]))


def custom(names, results) -> Program:
    x, y = (Var(n, FLOAT32) for n in names)
    reducer = Reducer("r", (x,), (y,), (results(x, y),), (number(0.0),))
    reduce = add_to("C", 0, number(1.0))
    body = block(
        "C",
        [reduced("v", 8, i)],
        type(reduce)(reducer, ("C",), reduce.indices, reduce.values),
        init=store("C", 0, 0.0),
    )
    return one(loop("i", 8, body))


def test_reducers_are_compared_by_what_they_do():
    plain = custom("xy", lambda x, y: Binary("+", x, y))
    assert same(plain, custom("ab", lambda x, y: Binary("+", x, y)))
    assert same(plain, custom("yx", lambda x, y: Binary("+", x, y)))
    assert not same(plain, custom("xy", lambda x, y: Binary("+", y, x)))
    assert not same(plain, custom("xy", lambda x, y: Binary("max", x, y)))


def test_a_free_variable_keeps_its_name():
    assert not same(one(store("C", i, 1.0)), one(store("C", j, 1.0)))
    assert not same(one(loop("i", 8, store("C", i, 1.0))), one(loop("i", 8, store("C", j, 1.0))))


@pytest.mark.parametrize("spoof", ["v0:index", "0", "b0", ") (", "' '"])
def test_names_cannot_spoof_structure(spoof):
    nest = loop("i", 8, store("C", Var(spoof), 1.0))
    assert not same(one(nest), one(loop("i", 8, store("C", i, 1.0))))
    assert same(
        one(loop(spoof, 8, store("C", Var(spoof), 1.0))), one(loop("i", 8, store("C", i, 1.0)))
    )


HASH_IN_A_PROCESS = """
from minitensor.ir import structural_hash
from tests.unit.ir.build import matmul
from tests.unit.ir.test_equal import REFERENCE
print(structural_hash(REFERENCE), structural_hash(matmul(3, 4, 5)))
"""


@pytest.mark.slow
def test_the_hash_is_the_same_in_every_process():
    here = f"{structural_hash(REFERENCE)} {structural_hash(matmul(3, 4, 5))}"
    root = os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root}
        done = subprocess.run(
            [sys.executable, "-c", HASH_IN_A_PROCESS],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == here


def test_the_hash_is_hexadecimal_of_one_length():
    assert int(structural_hash(REFERENCE), 16) >= 0
    assert len(structural_hash(REFERENCE)) == 64
