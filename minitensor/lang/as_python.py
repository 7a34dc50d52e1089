"""A definition as the Python that makes it: what `lower` did, backwards.

It shows a program in a form that can be run: in a reproduction script, a record of a search.
"""

from __future__ import annotations

import itertools
import keyword
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from minitensor import ir
from minitensor.errors import ArgumentError

_NAMED: Final = {"+": "sum", "*": "prod", "max": "max", "min": "min", "and": "all", "or": "any"}
_RESERVED: Final = ("mt", "program", "s", "intrinsic", "float")
_PRECEDENCE: Final = {
    "<": 1, "<=": 1, "==": 1, "!=": 1, "|": 2, "^": 3, "&": 4, "<<": 5, ">>": 5,
    "+": 6, "-": 6, "*": 7, "/": 7, "//": 7, "%": 7,
}  # fmt: skip
_ANY: Final = 0
_NEGATION: Final = 8
_ATOM: Final = 9


def definition_as_python(program: ir.Program, result: str = "program") -> str:
    """Python text that defines a program with `mt.placeholder`, `mt.compute` and so on.

    result  the variable that it is assigned to

    The text expects `import minitensor as mt`. What it makes has the names of the program, and is
    equal to it if that came from `mt.lower` with indices named as Python names variables.
    Raises ArgumentError for a program that has been scheduled.
    """
    writer = _Writer(program)
    lines = writer.tensors()
    params = ", ".join(writer.variable[b.name] for b in program.params)
    known = [writer.variable[b.name] for b in program.params if b.name in program.constants]
    constants = f", constants=[{', '.join(known)}]" if known else ""
    lines.append(f"{result} = mt.lower([{params}], name={program.name!r}{constants})")
    return "\n".join(lines)


def intrinsic_as_python(intrinsic: ir.Intrinsic, result: str = "intrinsic") -> str:
    """Python text that declares an intrinsic, as `definition_as_python` for its meaning."""
    writer = _Writer(intrinsic.meaning)
    lines = writer.tensors()
    tensors = ", ".join(writer.variable[b.name] for b in intrinsic.operands)
    bodies: object = intrinsic.bodies[0].text
    if len(intrinsic.bodies) > 1:
        bodies = [(b.condition, b.text) if b.condition else b.text for b in intrinsic.bodies]
    relied = {
        b.name: list(strides)
        for b, strides in zip(intrinsic.operands, intrinsic.strides)
        if any(stride is not None for stride in strides)
    }
    options = f", strides={relied!r}" if relied else ""
    options += f", includes={list(intrinsic.includes)!r}" if intrinsic.includes else ""
    lines.append(f"{result} = mt.intrinsic({intrinsic.name!r}, [{tensors}], {bodies!r}{options})")
    return "\n".join(lines)


@dataclass(frozen=True)
class _Nest:
    """One nest of a definition."""

    block: ir.Block

    @property
    def writes(self) -> tuple[str, ...]:
        body = self.block.body
        return body.buffers if isinstance(body, ir.Reduce) else tuple(_stored(body))


class _Writer:
    """The lines that make the tensors of a program."""

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.buffers: Mapping[str, ir.Buffer] = program.buffers
        taken = set(_RESERVED)
        self.variable = {name: _variable(name, taken) for name in self.buffers}
        self.taken = taken
        self.loop: dict[str, str] = {}
        """The Python variable of each iter of the block that is being written."""

    def tensors(self) -> list[str]:
        """The lines, inputs first."""
        lines = [
            f"{self.variable[b.name]} = mt.placeholder({b.shape}, {str(b.dtype)!r}, "
            f"name={b.name!r})"
            for b in self.program.inputs
        ]
        body = self.program.body
        nests = [_nest(stmt) for stmt in (body.stmts if isinstance(body, ir.Seq) else (body,))]
        inits = {}
        for nest, later in itertools.pairwise(nests):
            if nest.writes and nest.writes == later.writes:
                inits[later.block.name] = nest.block
        skipped = {id(block) for block in inits.values()}
        for nest in nests:
            if id(nest.block) not in skipped:
                lines += self.stage(nest, inits.get(nest.block.name))
        return lines

    def stage(self, nest: _Nest, before: ir.Block | None) -> list[str]:
        block = nest.block
        names: set[str] = set()
        self.loop = {i.var: _variable(i.var, names) for i in block.iters}
        for old, new in self.loop.items():
            if new in self.taken:  # a tensor has this name in Python
                self.loop[old] = ir.fresh_name(new, {*self.taken, *names})
        match block.body:
            case ir.Reduce():
                return self.reduction(block, block.body)
            case ir.Store() if before is None and not self.is_update(block, block.body):
                return [self.compute(block, block.body)]
            case ir.Store() | ir.Seq():
                return self.update(block, before)
        raise _scheduled(self.program)

    def is_update(self, block: ir.Block, body: ir.Store) -> bool:
        ordered = any(i.kind is ir.IterKind.ORDERED for i in block.iters)
        own = any(load.buffer == body.buffer for load in ir.loads(body.value))
        return ordered or own or block.init is not None

    def compute(self, block: ir.Block, store: ir.Store) -> str:
        axes = [i for i in block.iters if ir.Var(i.var) in store.indices]
        function = self.function([i.var for i in axes], self.value(store.value))
        return self.made("compute", [store.buffer], axes, function)

    def made(self, how: str, buffers: Sequence[str], axes: Sequence[ir.Iter], rest: str) -> str:
        shape = tuple(i.extent for i in axes)
        variables = ", ".join(self.variable[b] for b in buffers)
        return f"{variables} = mt.{how}({shape}, {rest}, name={_one_or_all(buffers)!r})"

    def function(self, axes: Sequence[str], value: str, first: Sequence[str] = ()) -> str:
        names = [*first, *(self.loop[axis] for axis in axes)]
        return f"lambda {', '.join(names)}: {value}" if names else f"lambda: {value}"

    def reduction(self, block: ir.Block, body: ir.Reduce) -> list[str]:
        free = [i for i in block.iters if i.kind is ir.IterKind.SPATIAL]
        over = [i for i in block.iters if i.kind is ir.IterKind.REDUCE]
        lines = [self.reduce_axis(i) for i in over]
        axis = ", ".join(self.loop[i.var] for i in over)
        axis = f"[{axis}]" if len(over) > 1 else axis
        name = body.reducer.name
        values = [self.value(v) for v in body.values]
        is_place = ir.in_order(body.reducer) is not None
        if is_place:
            text = f"mt.{name}({values[1]}, axis={axis})"
        elif _NAMED.get(ir.operator_of(body.reducer)) == name:
            text = f"mt.{name}({values[0]}, axis={axis})"
        else:
            lines.append(f"combine = {self.reducer(body)}")
            given = values[0] if len(values) == 1 else f"({', '.join(values)})"
            text = f"combine({given}, axis={axis})"
        function = self.function([i.var for i in free], text)
        made = body.buffers[:1] if is_place else body.buffers
        lines.append(self.made("compute", made, free, function))
        return lines

    def reducer(self, body: ir.Reduce) -> str:
        reducer = body.reducer
        several = len(reducer.lhs) > 1
        self.loop |= {v.name: f"x[{n}]" if several else "x" for n, v in enumerate(reducer.lhs)}
        self.loop |= {v.name: f"y[{n}]" if several else "y" for n, v in enumerate(reducer.rhs)}
        results = [self.value(r) for r in reducer.results]
        identity = [_number(c.value) for c in reducer.identity]
        result, start = (results[0], identity[0])
        if several:
            result, start = f"({', '.join(results)})", f"({', '.join(identity)})"
        return f"mt.comm_reducer(lambda x, y: {result}, {start}, {reducer.name!r})"

    def reduce_axis(self, axis: ir.Iter) -> str:
        return f"{self.loop[axis.var]} = mt.reduce_axis({axis.extent}, name={axis.var!r})"

    def update(self, block: ir.Block, before: ir.Block | None) -> list[str]:
        stores = _stored(block.body)
        target = next(n.indices for n in ir.walk(block.body) if isinstance(n, ir.Store))
        own = [i for index in target for i in block.iters if ir.Var(i.var) == index]
        over = [i for i in block.iters if i not in own]
        lines = [self.reduce_axis(i) for i in over]
        options = ""
        if over:
            options += f", axis=[{', '.join(self.loop[i.var] for i in over)}]"
        names = [i.var for i in own]
        init = block.init
        if before is not None:
            renamed = dict(zip([i.var for i in before.iters], [self.loop[n] for n in names]))
            init, self.loop = before.body, {**self.loop, **renamed}
        if init is not None:
            options += f", init={self.function(names, self.values(_stored(init)))}"
        options += f", dtype={_one_or_all([str(self.buffers[b].dtype) for b in stores])!r}"
        variables = [self.variable[b] for b in stores]
        function = self.function(names, self.values(stores), first=variables)
        lines.append(self.made("update", list(stores), own, function + options))
        return lines

    def values(self, stores: Mapping[str, ir.Expr]) -> str:
        """The result of a function for the tensors that are updated together."""
        texts = [self.value(value) for value in stores.values()]
        return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"

    # ---- expressions

    def value(self, expr: ir.Expr, outer: int = _ANY) -> str:
        """An expression where nothing else gives the type of a constant."""
        if isinstance(expr, ir.Const):
            dtype = ir.INT64 if expr.dtype == ir.INDEX else expr.dtype
            return f"mt.const({_number(expr.value)}, {str(dtype)!r})"
        return self.expr(expr, outer)

    def expr(self, expr: ir.Expr, outer: int = _ANY) -> str:
        """An expression as an operand of something of precedence `outer`."""
        match expr:
            case ir.Var(name):
                return self.loop[name]
            case ir.Const(value, dtype):
                return _number(value, outer) if dtype == ir.INDEX else self.value(expr)
            case ir.Unary("-", a):
                return _wrapped(f"-{self.value(a, _NEGATION)}", _NEGATION, outer)
            case ir.Binary("<<" | ">>" as op, a, b):
                own = _PRECEDENCE[op]
                return _wrapped(f"{self.value(a, own)} {op} {self.value(b, own + 1)}", own, outer)
            case ir.Binary(op, a, b) if op in _PRECEDENCE:
                own = _PRECEDENCE[op]
                left = self.operand(a, b, own + (op in ir.COMPARISONS))  # they do not chain
                return _wrapped(f"{left} {op} {self.operand(b, a, own + 1)}", own, outer)
            case ir.Cast(dtype, a) if dtype == ir.INDEX:
                return self.expr(a, outer)
            case ir.Cast(dtype, a):
                return f"{self.side(a, _ATOM)}.astype({str(dtype)!r})"
            case ir.Load(buffer, indices):
                return f"{self.variable[buffer]}[{', '.join(map(self.expr, indices)) or '()'}]"
        function, args = self.call(expr)
        return f"mt.{function}({', '.join(args)})"

    def call(self, expr: ir.Expr) -> tuple[str, list[str]]:
        """The name and the arguments of the function that makes an expression."""
        match expr:
            case ir.Unary("not", a):
                return "logical_not", [self.value(a)]
            case ir.Binary("min" | "max" as op, a, b):
                return f"{op}imum", [self.operand(a, b), self.operand(b, a)]
            case ir.Binary("and" | "or" as op, a, b):
                return f"logical_{op}", [self.value(a), self.value(b)]
            case ir.Select(condition, a, b, lazy):
                name = "if_then_else" if lazy else "select"
                return name, [self.value(condition), self.side(a), self.side(b)]
            case ir.Call(function, args):
                return function.removesuffix("_nonpositive"), [self.value(a) for a in args]
        raise ArgumentError(f"{ir.print_expr(expr)} is not of the language of definitions")

    def side(self, expr: ir.Expr, outer: int = _ANY) -> str:
        """A side of a selection, or what is converted: an index constant is an index there."""
        if isinstance(expr, ir.Const) and expr.dtype == ir.INDEX and self.loop:
            text = f"{next(iter(self.loop.values()))} * 0 + {_number(expr.value, _PRECEDENCE['*'])}"
            return _wrapped(text, _PRECEDENCE["+"], outer)
        return self.value(expr, outer)

    def operand(self, expr: ir.Expr, other: ir.Expr, outer: int = _ANY) -> str:
        """A side of an operation, whose other side gives the type of a constant."""
        if isinstance(expr, ir.Const) and not isinstance(other, ir.Const) and _is_plain(expr):
            return _number(expr.value, outer)
        return self.expr(expr, outer)


def _stored(stmt: ir.Stmt) -> dict[str, ir.Expr]:
    """The values that a step stores, by buffer: one held until the end where it was computed."""
    found: dict[str, tuple[str, ir.Expr]] = {}
    for store in stmt.stmts if isinstance(stmt, ir.Seq) else (stmt,):
        match store:
            case ir.Store(buffer, indices, ir.Load(held, same)) if held in found and (
                indices == same
            ):
                found[held] = (buffer, found[held][1])
            case ir.Store(buffer, _, value):
                found[buffer] = (buffer, value)
    return dict(found.values())


def _one_or_all(parts: Sequence[str]) -> str | tuple[str, ...]:
    return parts[0] if len(parts) == 1 else tuple(parts)


def _is_plain(const: ir.Const) -> bool:
    """Tell whether Python's number becomes this constant beside an operand of its type."""
    return const.dtype.kind in ("index", "int", "uint") or const.dtype in ("float32", "float64")


def _number(value: float, outer: int = _ANY) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    text = repr(value)
    return _wrapped(text, _PRECEDENCE["+"], outer) if text.startswith("-") else text


def _wrapped(text: str, own: int, outer: int) -> str:
    """Text of precedence `own`, in parentheses where it is an operand of something tighter."""
    return f"({text})" if own < outer else text


def _variable(name: str, taken: set[str]) -> str:
    plain = name if name.isidentifier() and name.isascii() else "t"
    if keyword.iskeyword(plain):
        plain += "_"
    return ir.fresh_name(plain, taken)


def _nest(stmt: ir.Stmt) -> _Nest:
    bound = []
    while isinstance(stmt, ir.For):
        bound.append((ir.Var(stmt.var), stmt.extent))
        stmt = stmt.body
    if isinstance(stmt, ir.Block) and [(i.binding, i.extent) for i in stmt.iters] == bound:
        return _Nest(stmt)
    raise ArgumentError("only a definition, before any schedule, can be written as one")


def _scheduled(program: ir.Program) -> ArgumentError:
    return ArgumentError(
        f"{ir.print_name(program.name)} is not a definition as mt.lower makes it: write its trace"
    )
