"""Intrinsics for generated programs: what some loops do, as a meaning, with a plain C body.

The strategies for schedules draw from these, so that the properties hold tensorize to what it says
for any block. The C is written here from the meaning, on its own: it shares nothing with the
emitter that it is tested with.
"""

from __future__ import annotations

from collections.abc import Sequence

from minitensor import ir
from minitensor.arith import Linear, Simplifier, extent_range
from minitensor.lang import compute, intrinsic, placeholder

_TYPES = {
    "float64": "double",
    "float32": "float",
    **{f"{u}int{n}": f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)},
}


def example_intrinsic() -> ir.Intrinsic:
    """y[i] = x[i] * 2, for 4 elements: one that a generated program rarely means."""
    x = placeholder((4,), name="x")
    y = compute((4,), lambda i: x[i] * 2, name="y")
    return intrinsic(
        "example", [x, y], "for (int i = 0; i < 4; ++i) y[i * y_stride0] = 2 * x[i * x_stride0];"
    )


def matching_intrinsic(
    program: ir.Program, block: str, loops: Sequence[str], fixed: bool = False
) -> ir.Intrinsic | None:
    """An intrinsic that means what these loops, the innermost around a block, do; None if that
    cannot be said, or not in plain C.

    fixed  whether it relies on the strides that it finds
    """
    found = program.blocks.get(block)
    if found is None or found.init is not None or not isinstance(found.body, (ir.Store, ir.Reduce)):
        return None
    path = [loop for loop in ir.paths(program)[block] if loop.var in loops]
    try:
        return _Meaning(program, found, path, fixed).intrinsic()
    except _NotSayableError:
        return None


class _NotSayableError(Exception):
    """Operations that no intrinsic means, or that are not written as plain C here."""


class _Meaning:
    def __init__(
        self, program: ir.Program, block: ir.Block, path: Sequence[ir.For], fixed: bool
    ) -> None:
        self.program = program
        self.block = block
        self.fixed = fixed
        self.loops = [loop for loop in path if loop.extent != 1]
        self.axes = {loop.var: f"a{n}" for n, loop in enumerate(self.loops)}
        self.extents = {f"a{n}": loop.extent for n, loop in enumerate(self.loops)}
        ranges = {loop.var: extent_range(loop.extent) for loop in ir.paths(program)[block.name]}
        bindings = {i.var: Simplifier(ranges).linear(i.binding) for i in block.iters}
        self.simplifier = Simplifier(ranges, bindings)
        self.known: dict[object, ir.Load] = {}
        self.operands: list[ir.Buffer] = []
        self.strides: list[tuple[int | None, ...]] = []

    def intrinsic(self) -> ir.Intrinsic:
        """The intrinsic, declared."""
        body = self.block.body
        assert isinstance(body, (ir.Store, ir.Reduce))
        if any(extent == 0 for extent in self.extents.values()) or not self.loops:
            raise _NotSayableError
        name = body.buffers[0] if isinstance(body, ir.Reduce) else body.buffer
        held = self.program.buffers[name].dtype
        if isinstance(body, ir.Reduce) and len(body.buffers) > 1:
            raise _NotSayableError
        target = self.load(ir.Load(name, body.indices, held))
        spatial = [index.name for index in target.indices if isinstance(index, ir.Var)]
        if len(spatial) != len(target.indices) or len(set(spatial)) != len(spatial):
            raise _NotSayableError
        (value,) = body.values if isinstance(body, ir.Reduce) else (body.value,)
        if any(load.buffer == name for load in ir.loads(value)):
            raise _NotSayableError
        value = self.moved(value)
        reduced = [axis for axis in self.extents if axis not in spatial]
        statement: ir.Stmt
        if isinstance(body, ir.Reduce):
            statement = ir.Reduce(body.reducer, (target.buffer,), target.indices, (value,))
            (result,) = ir.apply_reducer(body.reducer, (target,), (value,))
            init = ir.Store(target.buffer, target.indices, body.reducer.identity[0])
        elif reduced:
            raise _NotSayableError
        else:
            statement, result, init = ir.Store(target.buffer, target.indices, value), value, None
        iters = (
            *(ir.Iter(a, self.extents[a], ir.IterKind.SPATIAL, ir.Var(a)) for a in spatial),
            *(ir.Iter(a, self.extents[a], ir.IterKind.REDUCE, ir.Var(a)) for a in reduced),
        )
        nest: ir.Stmt = ir.Block(target.buffer, iters, statement, init if reduced else None)
        text = f"{self.c(target)} =\n    {self.c(result)};"
        for axis in reversed([i.var for i in iters]):
            nest = ir.For(axis, self.extents[axis], nest)
            text = f"for (int {axis} = 0; {axis} < {self.extents[axis]}; ++{axis})\n{text}"
        made = ir.Intrinsic(
            "drawn",
            ir.Program("drawn", tuple(self.operands), (), nest),
            (ir.Body(None, text),),
            tuple(self.strides),
        )
        return ir.DECLARED.setdefault(made.key, made)

    def moved(self, expr: ir.Expr) -> ir.Expr:
        """An expression of the block, with its loads from operands."""
        if isinstance(expr, ir.Var):
            raise _NotSayableError
        if isinstance(expr, ir.Load):
            return self.load(expr)
        return ir.map_children(expr, self.moved)

    def load(self, load: ir.Load) -> ir.Load:
        """An access of the block as one of an operand."""
        if any(ir.loads(index) for index in load.indices):
            raise _NotSayableError
        forms = [self.simplifier.linear(index) for index in load.indices]
        key = (load.buffer, tuple(form.expr() for form in forms))
        if key in self.known:
            return self.known[key]
        name = f"x{len(self.operands)}"
        indices, shape, strides = [], [], []
        there = ir.strides_of(self.program.buffers[load.buffer])
        for axis, form in enumerate(forms):
            part, last = Linear({}), 0
            for atom, step in form.terms.items():
                if isinstance(atom, ir.Var) and atom.name in self.axes:
                    own = self.axes[atom.name]
                    part = part.plus(Linear({ir.Var(own): step}))
                    last += step * (self.extents[own] - 1)
                    if step < 0:
                        raise _NotSayableError
                elif not isinstance(atom, ir.Var) and not set(self.axes).isdisjoint(
                    ir.free_vars(atom)
                ):
                    raise _NotSayableError
            if part.terms:
                indices.append(part.expr())
                shape.append(last + 1)
                strides.append(there[axis] if self.fixed else None)
        self.operands.append(ir.Buffer(name, tuple(shape), load.dtype, ir.Scope.GLOBAL))
        self.strides.append(tuple(strides))
        self.known[key] = ir.Load(name, tuple(indices), load.dtype)
        return self.known[key]

    # ---- plain C

    def c(self, expr: ir.Expr) -> str:
        """An expression, each operation brought back to its type."""
        kind = _TYPES.get(expr.dtype, "int" if expr.dtype.kind == "bool" else None)
        if kind is None:
            raise _NotSayableError
        match expr:
            case ir.Const(value, dtype) if dtype.is_integer and abs(int(value)) < 1 << 31:
                return f"(({kind}){int(value)}ll)"
            case ir.Const(value) if abs(value) < 1 << 20:
                return f"(({kind}){float(value)!r})"
            case ir.Load(buffer, indices):
                terms = [f"({_c_index(i)}) * {buffer}_stride{n}" for n, i in enumerate(indices)]
                return f"{buffer}[{' + '.join(terms) or 0}]"
            case ir.Unary("-", a):
                return f"(({kind})-{self.c(a)})"
            case ir.Cast(_, a) if expr.dtype.is_float or a.dtype.is_integer:
                return f"(({kind}){self.c(a)})"
            case ir.Select(condition, a, b):
                return f"({self.c(condition)} ? {self.c(a)} : {self.c(b)})"
            case ir.Binary("+" | "-" | "*" as op, a, b):
                return f"(({kind})({self.c(a)} {op} {self.c(b)}))"
            case ir.Binary("<" | "<=" | "==" | "!=" as op, a, b):
                return f"({self.c(a)} {op} {self.c(b)})"
            case ir.Binary("min" | "max" as op, a, b):
                sign = "<" if op == "min" else ">"
                given = f"{kind} p = {self.c(a)}, q = {self.c(b)};"
                return f"({{ {given} p != p ? p : q != q ? q : p {sign} q ? p : q; }})"
        raise _NotSayableError


def _c_index(index: ir.Expr) -> str:
    match index:
        case ir.Var(name):
            return name
        case ir.Const(value):
            return str(value)
        case ir.Binary("+" | "*" as op, a, b):
            return f"({_c_index(a)} {op} {_c_index(b)})"
    raise _NotSayableError
