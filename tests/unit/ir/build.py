"""Short forms with which the tests of this folder write programs by hand."""

import signal

import numpy as np

from minitensor.ir import (
    FLOAT32,
    INDEX,
    TRUE,
    USER_DTYPES,
    Binary,
    Block,
    Buffer,
    Const,
    Counts,
    DType,
    Expr,
    For,
    Iter,
    IterKind,
    Load,
    LoopKind,
    Program,
    Reduce,
    Reducer,
    Scope,
    Stmt,
    Store,
    Var,
    as_expr,
    const,
    interpret,
    sequence,
    verify,
)

i, j, k, t, v, w = (Var(name) for name in "ijktvw")


def typed(dtype) -> DType:
    """The type of this name; vectors and `index`, which users cannot name, as they are."""
    return dtype if isinstance(dtype, DType) else DType.of(dtype)


def buffer(name, *shape, dtype=FLOAT32, scope=Scope.GLOBAL, alignment=()):
    return Buffer(name, shape, typed(dtype), scope, alignment)


def number(value, dtype=FLOAT32) -> Const:
    return const(value, typed(dtype))


def load(name, *indices, dtype=FLOAT32) -> Load:
    return Load(name, tuple(as_expr(i) for i in indices), typed(dtype))


def store(name, indices, value) -> Store:
    """A store to one index or to a tuple of them; a Python number is taken as a float32."""
    where = indices if isinstance(indices, tuple) else (indices,)
    what = number(value) if isinstance(value, (int, float)) else value
    return Store(name, tuple(as_expr(i) for i in where), what)


def plus(a: Expr, b: Expr) -> Expr:
    return Binary("+", a, b)


def loop(var, extent, *body: Stmt, kind=LoopKind.SERIAL) -> For:
    return For(var, extent, sequence(*body), LoopKind(kind))


def spatial(var, extent, binding) -> Iter:
    return Iter(var, extent, IterKind.SPATIAL, as_expr(binding))


def reduced(var, extent, binding) -> Iter:
    return Iter(var, extent, IterKind.REDUCE, as_expr(binding))


def ordered(var, extent, binding) -> Iter:
    return Iter(var, extent, IterKind.ORDERED, as_expr(binding))


def block(name, iters, *body: Stmt, init=None, predicate=TRUE, annotations=()) -> Block:
    return Block(name, tuple(iters), sequence(*body), init, predicate, annotations)


def adder(dtype=FLOAT32) -> Reducer:
    x, y = Var("x", typed(dtype)), Var("y", typed(dtype))
    return Reducer("sum", (x,), (y,), (Binary("+", x, y),), (number(0, dtype),))


def add_to(name, indices, value) -> Reduce:
    where = indices if isinstance(indices, tuple) else (indices,)
    return Reduce(adder(value.dtype), (name,), tuple(as_expr(i) for i in where), (value,))


def program(body: Stmt, params=(), temporaries=(), name="p") -> Program:
    return Program(name, tuple(params), tuple(temporaries), body)


def run_counted(p: Program, *arrays) -> tuple[list[np.ndarray], Counts]:
    """The outputs and the counts of a program that must be well-formed."""
    verify(p)
    return interpret(p, [np.asarray(a) for a in arrays])


def run(p: Program, *arrays):
    """The output, or the list of them if there are several."""
    outputs, _ = run_counted(p, *arrays)
    return outputs[0] if len(outputs) == 1 else outputs


def filled(name, extent, value=0.0) -> For:
    """A nest of its own that writes every element of a one-dimensional buffer."""
    return loop(f"fill_{name}", extent, store(name, Var(f"fill_{name}"), value))


def copy_nest(target, source, extent, kind=LoopKind.SERIAL, var="i") -> For:
    """target[v] = source[v] as a block in one loop."""
    return loop(
        var,
        extent,
        block(target, [spatial("v", extent, Var(var))], store(target, v, load(source, v))),
        kind=kind,
    )


def matmul(m, n, depth) -> Program:
    """C = A @ B as lowering makes it."""
    a, b, c = buffer("A", m, depth), buffer("B", depth, n), buffer("C", m, n)
    product = Binary("*", load("A", Var("vi"), Var("vk")), load("B", Var("vk"), Var("vj")))
    where = (Var("vi"), Var("vj"))
    body = block(
        "C",
        [spatial("vi", m, i), spatial("vj", n, j), reduced("vk", depth, k)],
        add_to("C", where, product),
        init=store("C", where, 0.0),
    )
    return program(loop("i", m, loop("j", n, loop("k", depth, body))), [a, b, c], name="matmul")


def ends_within(seconds: float, action) -> bool:
    """Whether the action ends in time, be it with an error of its own; it is broken off if not."""

    class TooSlowError(BaseException):
        """Not caught by what catches Exception."""

    def stop(*_):
        raise TooSlowError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        action()
    except TooSlowError:
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return True


def every_dtype(kinds=("float", "int", "uint", "bool")) -> list[DType]:
    return [d for d in USER_DTYPES.values() if d.kind in kinds]


def index_vector(lanes) -> DType:
    return INDEX.with_lanes(lanes)
