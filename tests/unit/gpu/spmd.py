"""SPMD programs for tests: a copy of one array, kernels of a matrix product."""

from minitensor import ir
from minitensor.ir import Scope

X, Y, Z = (ir.LoopKind(f"threadIdx.{axis}") for axis in "xyz")
BX, BY = ir.LoopKind("blockIdx.x"), ir.LoopKind("blockIdx.y")
UNROLL, SERIAL = ir.LoopKind.UNROLL, ir.LoopKind.SERIAL
FLOAT = ir.FLOAT32
tx, ty, bx, by, k, u, w = map(ir.Var, ("tx", "ty", "bx", "by", "k", "u", "w"))
ONE = ir.Const(1.0, FLOAT)


def buffer(name, *shape, scope=Scope.GLOBAL, dtype=FLOAT, alignment=()):
    return ir.Buffer(name, shape, dtype, scope, alignment)


def load(array, *indices):
    return ir.Load(array.name, tuple(map(ir.as_expr, indices)), array.dtype)


def store(array, *indices, value=ONE):
    return ir.Store(array.name, tuple(map(ir.as_expr, indices)), value)


def loops(body, *around):
    """Statements in loops, given as (name, extent, kind) from outside."""
    for name, extent, kind in reversed(around):
        body = ir.For(name, extent, body, kind)
    return body


def program(body, *params, name="test"):
    found = ir.Program(name, params, (), body)
    ir.verify(found)
    return found


def copied(index, lanes=32, size=4096, dtype=FLOAT, **more):
    """A block of threads in a row, each reading one element into register r, and storing that."""
    A = buffer("A", size, dtype=dtype)
    r = buffer("r", scope=Scope.REGISTER, dtype=dtype)
    body = ir.Alloc(r, store(r, value=load(A, index)))
    around = [("bx", more["grid"], BX)] if "grid" in more else []
    return program(loops(body, *around, ("tx", lanes, X)), A)


def staged(index, rows=64, columns=33, lanes=32, dtype=FLOAT, alignment=()):
    """A block of threads in a row, each reading one element of a shared array."""
    S = buffer("S", rows, columns, scope=Scope.SHARED, dtype=dtype, alignment=alignment)
    r = buffer("r", scope=Scope.REGISTER, dtype=dtype)
    body = ir.Alloc(r, store(r, value=load(S, *index)))
    return program(ir.Alloc(S, loops(body, ("tx", lanes, X))))


def matmul(n=64, tile=16, inner=4, step=8):
    """A product with tiles in shared memory, and a tile of each thread in registers."""
    A, B, C = (buffer(name, n, n) for name in "ABC")
    wide = tile * inner
    S = buffer("A_shared", wide, step, scope=Scope.SHARED)
    T = buffer("B_shared", step, wide, scope=Scope.SHARED)
    L = buffer("C_local", inner, inner, scope=Scope.LOCAL)
    i, j, f, g = map(ir.Var, "ijfg")
    own = load(L, i, j)
    row, column = by * wide + ty * inner + i, bx * wide + tx * inner + j
    zero = loops(
        store(L, i, j, value=ir.Const(0.0, FLOAT)), ("i", inner, UNROLL), ("j", inner, UNROLL)
    )
    flat = f * (tile * tile) + ty * tile + tx
    copies = wide * step // (tile * tile)
    fetch = ir.sequence(
        loops(
            store(S, flat // step, flat % step,
                  value=load(A, by * wide + flat // step, k * step + flat % step)),
            ("f", copies, UNROLL),
        ),
        loops(
            store(T, flat // wide, flat % wide,
                  value=load(B, k * step + flat // wide, bx * wide + flat % wide)),
            ("f", copies, UNROLL),
        ),
    )  # fmt: skip
    product = ir.Binary("*", load(S, ty * inner + i, g), load(T, g, tx * inner + j))
    update = loops(
        store(L, i, j, value=ir.Binary("+", own, product)),
        ("g", step, UNROLL), ("i", inner, UNROLL), ("j", inner, UNROLL),
    )  # fmt: skip
    step_of = ir.sequence(fetch, ir.Barrier(), update, ir.Barrier())
    last = loops(store(C, row, column, value=own), ("i", inner, UNROLL), ("j", inner, UNROLL))
    body = ir.Alloc(L, ir.sequence(zero, loops(step_of, ("k", n // step, SERIAL)), last))
    body = loops(body, ("ty", tile, Y), ("tx", tile, X))
    blocks = (("by", n // wide, BY), ("bx", n // wide, BX))
    return program(loops(ir.Alloc(S, ir.Alloc(T, body)), *blocks), A, B, C, name="matmul")
