"""Structural equality on random programs: blind to names, and to nothing else."""

import dataclasses
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from minitensor.ir import (
    FLOAT32,
    Binary,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Iter,
    IterKind,
    Lanes,
    Load,
    LoopKind,
    Program,
    Ramp,
    Reduce,
    Reducer,
    Stmt,
    Store,
    Unary,
    Var,
    sequence,
    structural_equal,
    structural_hash,
    verify,
    walk,
)

X, Y = Var("x", FLOAT32), Var("y", FLOAT32)
SUM = Reducer("sum", (X,), (Y,), (Binary("+", X, Y),), (Const(0.0, FLOAT32),))
quick = settings(max_examples=300, deadline=None, derandomize=True)


def random_data(rng: random.Random, names: list[str], depth: int) -> Expr:
    kind = rng.randrange(6) if depth else rng.randrange(2)
    if kind == 0:
        return Const(float(rng.randint(-2, 2)), FLOAT32)
    if kind == 1:
        return Load(rng.choice("ABT"), (random_index(rng, names),), FLOAT32)
    if kind == 2:
        return Unary("-", random_data(rng, names, depth - 1))
    op = rng.choice(["+", "-", "*", "min"])
    return Binary(op, random_data(rng, names, depth - 1), random_data(rng, names, depth - 1))


def random_index(rng: random.Random, names: list[str]) -> Expr:
    expr: Expr = Const(rng.randrange(3))
    for name in names:
        if rng.random() < 0.6:
            expr = expr + Var(name) * rng.randint(1, 3)
    return expr


class Generator:
    """A random well-formed program (it need not run)."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.number = 0

    def fresh(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}{self.number}"

    def statement(self, loops: list[str], depth: int) -> Stmt:
        rng = self.rng
        kind = rng.randrange(4) if depth else 3
        if kind <= 1:
            name = self.fresh("loop")
            body = self.statement([*loops, name], depth - 1)
            return For(name, rng.randint(1, 3), body, rng.choice([*LoopKind][:4]))
        if kind == 2:
            parts = [self.statement(loops, depth - 1) for _ in range(rng.randint(1, 3))]
            return sequence(*parts)
        return self.block(loops)

    def block(self, loops: list[str]) -> Block:
        rng = self.rng
        names = [self.fresh("v") for _ in range(rng.randint(0, 2))]
        carries = rng.random() < 0.4 and bool(names)
        iters = tuple(
            Iter(
                name,
                9,
                IterKind.REDUCE if carries and name == names[-1] else IterKind.SPATIAL,
                random_index(rng, loops),
            )
            for name in names
        )
        target = rng.choice("CT")
        index = (random_index(rng, names),)
        value = random_data(rng, names, 2)
        body: Stmt
        if carries:
            body = Reduce(SUM, (target,), index, (value,))
        elif rng.random() < 0.2:
            lanes = Lanes("lane", 4, random_data(rng, [*names, "lane"], 1))
            body = Store(target, (Ramp(index[0], 1, 4),), lanes)
        else:
            body = Store(target, index, value)
        return Block(
            self.fresh("block"),
            iters,
            body,
            Store(target, index, Const(0.0, FLOAT32)) if carries else None,
            Binary("<", random_index(rng, loops), Const(rng.randint(1, 9))),
        )

    def program(self) -> Program:
        body = sequence(*[self.statement([], 3) for _ in range(self.rng.randint(1, 2))])
        params = tuple(Buffer(n, (16,), FLOAT32) for n in "ABC")
        return Program("p", params, (Buffer("T", (16,), FLOAT32),), body)


def renamed(program: Program, rng: random.Random) -> Program:
    """The same program under other names, permuted among each other as well."""
    used = sorted({n.var for n in walk(program.body) if isinstance(n, (For, Iter))})
    used += [*sorted({n.name for n in walk(program.body) if isinstance(n, Block)}), "lane", "x"]
    fresh = (
        [f"n{n}" for n in range(len(used))] if rng.random() < 0.5 else rng.sample(used, len(used))
    )
    names = dict(zip(used, fresh))
    buffers = {"A": "in1", "B": "in2", "C": "T", "T": "C"}

    def rename(node: object) -> object:
        if isinstance(node, tuple):
            return tuple(rename(n) for n in node)
        if not dataclasses.is_dataclass(node):
            return node
        changes = {}
        for field in dataclasses.fields(node):
            if not field.init:
                continue
            value = getattr(node, field.name)
            if isinstance(node, Buffer) or (field.name == "buffer" and isinstance(value, str)):
                changes[field.name] = buffers[value] if field.name in ("name", "buffer") else value
            elif field.name == "buffers":
                changes[field.name] = tuple(buffers[b] for b in value)
            elif field.name in ("name", "var") and isinstance(value, str):
                changes[field.name] = names.get(value, value)
            else:
                changes[field.name] = rename(value)
        return type(node)(**changes)

    return Program(
        "q",
        tuple(rename(b) for b in program.params),
        tuple(rename(b) for b in program.temporaries),
        rename(program.body),
    )


@given(st.randoms(use_true_random=False))
@quick
def test_renaming_keeps_equality_and_hash(rng):
    program = Generator(rng).program()
    verify(program)
    other = renamed(program, rng)
    verify(other)
    assert structural_equal(program, other), f"{program}\n{other}"
    assert structural_hash(program) == structural_hash(other)


def mutants(node: object):
    """Every node with one field of one node below it changed, names aside."""
    if isinstance(node, tuple):
        for position, child in enumerate(node):
            for changed in mutants(child):
                yield (*node[:position], changed, *node[position + 1 :])
        return
    match node:
        case Const(value, dtype):
            yield Const(value + 1, dtype)
        case For(var, extent, body, kind):
            yield For(var, extent + 1, body, kind)
            other = LoopKind.UNROLL if kind is not LoopKind.UNROLL else LoopKind.SERIAL
            yield For(var, extent, body, other)
            yield For(var, extent, body, kind, (("note", 1),))
        case Iter(var, extent, kind, binding):
            yield Iter(var, extent + 1, kind, binding)
            yield Iter(var, extent, IterKind.ORDERED, binding)
        case Load(buffer, indices, dtype):
            yield Load("A" if buffer != "A" else "B", indices, dtype)
        case Binary(op, a, b) if a != b:
            yield Binary(op, b, a)
            if op in ("+", "-", "*", "min"):
                yield Binary("max", a, b)
        case Store(buffer, indices, value):
            yield Store("C" if buffer != "C" else "T", indices, value)
        case Ramp(base, stride, lanes):
            yield Ramp(base, stride + 1, lanes)
    if dataclasses.is_dataclass(node) and not isinstance(node, (Reducer, Buffer)):
        for field in dataclasses.fields(node):
            if field.init and field.name not in ("dtype", "reducer", "kind"):
                value = getattr(node, field.name)
                if isinstance(value, tuple) or dataclasses.is_dataclass(value):
                    for changed in mutants(value):
                        yield dataclasses.replace(node, **{field.name: changed})


@given(st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_change_but_a_name_is_seen(rng):
    program = Generator(rng).program()
    own = structural_hash(program)
    tried = 0
    for body in mutants(program.body):
        other = program.replace(body=body)
        assert structural_hash(other) != own, f"{program}\n{other}"
        tried += 1
        if tried == 60:
            break
    assert tried > 0
