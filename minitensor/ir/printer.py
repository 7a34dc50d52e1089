"""Programs as Python-like text, with room for marks where an error points.

A block is shown as the statements it executes, its iters replaced by what they are bound to:

    for i_0 in range(8):
        for k in range(64):
            for i_1 in vectorize(8):
                if k == 0:                                     # the block's init
                    C[i_0*8 + i_1] = 0.0
                C[i_0*8 + i_1] += A[i_0*8 + i_1, k] * x[k]     # its body

A loop of one iteration is printed on the line of the loop inside it, unless one of them has
annotations or an error points at it: `for u, i in grid(1, 8):`, `for u, j in grid(1, unroll(8)):`.

A block whose name is not that of the buffer it writes says so in a comment. Indices are simplified
for the reader, by what `arith` gives to `simplify_indices_by`; the program keeps them as they are.
Not here: parsing. Programs are exchanged as traces, not as text.
"""

from __future__ import annotations

import keyword
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from minitensor.errors import shown
from minitensor.ir.dtype import INDEX
from minitensor.ir.expr import (
    COMPARISONS,
    TRUE,
    Binary,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Lanes,
    Load,
    Ramp,
    Select,
    Unary,
    Var,
)
from minitensor.ir.extrema import operator_of
from minitensor.ir.stmt import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    For,
    If,
    IterKind,
    LoopKind,
    Prefetch,
    Reduce,
    Scope,
    Seq,
    Stmt,
    Store,
    Tensorized,
    ThreadReduce,
)
from minitensor.ir.visit import N, map_children, measured, substitute

INDENT: Final = "    "
LONGEST_NAME: Final = 40

_PRECEDENCE: Final = {
    "or": 1, "and": 2, "not": 3, "<": 4, "<=": 4, "==": 4, "!=": 4,
    "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10,
}  # fmt: skip
_NEGATION: Final = 11
_ATOM: Final = 12
_TIGHT: Final = frozenset(("*", "//", "%"))
"""Operators printed without spaces on indices: `i*8 + j`."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The culprits of an error: labels for loops and blocks, and parts of blocks to underline.

    loops, blocks  label by name, shown at the end of the line as `# <- label`
    parts          (block name, expression inside it, label): underlined with carets
    """

    loops: Mapping[str, str] = field(default_factory=dict)
    blocks: Mapping[str, str] = field(default_factory=dict)
    parts: Sequence[tuple[str, Expr, str]] = ()


NO_MARKS: Final = Marks()


def print_name(name: str) -> str:
    """A name as text: an identifier as it is; anything else quoted, cut, without control codes."""
    if len(name) <= LONGEST_NAME and name.isidentifier() and not keyword.iskeyword(name):
        return name
    cut = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return repr(cut)


def _notes(annotations: Sequence[tuple[str, object]]) -> list[str]:
    """Annotations as comments."""
    return [f"{print_name(key)} = {shown(value)}" for key, value in annotations]


MOST_PRINTED: Final = 5000
"""The most operations of an expression that are printed for a user."""
MOST_PRINTED_LEVELS: Final = 150
"""The greatest depth of such an expression: printing is recursive."""


def print_expr(expr: Expr) -> str:
    """An expression as Python-like text."""
    return _text(expr)


def summary_if_large(expr: Expr) -> str | None:
    """A summary of an expression that is too large or too deep to be read, or to be printed: one
    may use its parts again and again, and be small in memory only. None for any other.
    """
    depth, size = measured(expr, _depth_and_size)
    if depth <= MOST_PRINTED_LEVELS and size <= MOST_PRINTED:
        return None
    about = f"{size}" if size < 10**9 else f"about 10**{len(str(size)) - 1}"
    return f"<{expr.dtype} expression of {about} operations, {depth} deep>"


def _depth_and_size(_: object, below: list[tuple[int, int]]) -> tuple[int, int]:
    return 1 + max((d for d, _ in below), default=0), 1 + sum(size for _, size in below)


def _text(expr: Expr, outer: int = 0) -> str:
    """`expr` as an operand of something of precedence `outer`."""
    match expr:
        case Var(name):
            return print_name(name)
        case Const(value, dtype):
            text = repr(value) if dtype.kind != "bool" else str(bool(value))
            return f"({text})" if text.startswith("-") and outer >= _PRECEDENCE["*"] else text
        case Binary(op, a, b):
            if op in ("min", "max"):
                return f"{op}({_text(a)}, {_text(b)})"
            mine = _PRECEDENCE[op]
            tight = expr.dtype == INDEX and op in _TIGHT
            sign = op if tight else f" {op} "
            if op == "+" and isinstance(b, Const) and b.dtype.kind != "bool" and b.value < 0:
                sign, b = " - ", Const(-b.value, b.dtype)
            left = mine + 1 if op in COMPARISONS else mine  # comparisons do not chain
            text = f"{_text(a, left)}{sign}{_text(b, mine + 1)}"
            return f"({text})" if mine < outer else text
        case Unary("not", a):
            text = f"not {_text(a, _PRECEDENCE['not'])}"
            return f"({text})" if _PRECEDENCE["not"] < outer else text
        case Unary(_, a):
            return f"-{_text(a, _NEGATION)}"
        case Select(condition, a, b, lazy):
            function = "if_then_else" if lazy else "select"
            return f"{function}({_list((condition, a, b))})"
        case Cast(dtype, a):
            return f"{dtype}({_text(a)})"
        case Load(buffer, indices):
            return f"{print_name(buffer)}[{print_indices(indices)}]"
        case Call("reinterpret", args, dtype):
            return f"reinterpret_{dtype}({_list(args)})"
        case Call(function, args):
            return f"{function}({_list(args)})"
        case Ramp(base, stride, lanes):
            return f"ramp({_text(base)}, {stride}, {lanes})"
        case Broadcast(a, lanes):
            return f"broadcast({_text(a)}, {lanes})"
        case Lanes(var, lanes, a):
            return f"lanes({_text(a)} for {print_name(var)} in range({lanes}))"


def _list(args: Sequence[Expr]) -> str:
    return ", ".join(_text(a) for a in args)


def print_indices(indices: Sequence[Expr]) -> str:
    """The text between the brackets of an access."""
    return ", ".join(_text(i) for i in indices) if indices else "()"


def print_stmt(stmt: Stmt, marks: Marks = NO_MARKS) -> str:
    """A statement as Python-like text."""
    printer = _Printer(marks)
    printer.statement(stmt, 0)
    return "\n".join(printer.lines)


def print_function(
    name: str,
    params: Sequence[Buffer],
    temporaries: Sequence[Buffer],
    body: Stmt,
    marks: Marks,
    most: int = sys.maxsize,
) -> str:
    """A whole program as Python-like text (see `print_program`)."""
    printer = _Printer(marks, most)
    given = ", ".join(f"{print_name(b.name)}: {print_type(b)}" for b in params)
    printer.lines.append(f"def {print_name(name)}({given}):")
    for buffer in temporaries[:most]:
        printer.lines.append(INDENT + print_declaration(buffer))
    printer.statement(body, 1)
    if len(printer.lines) > most:
        printer.lines[most:] = ["…"]
    return "\n".join(printer.lines)


def print_type(buffer: Buffer) -> str:
    """The type of a buffer, such as float32[64, 128]."""
    return f"{buffer.dtype}[{', '.join(map(str, buffer.shape))}]"


def print_declaration(buffer: Buffer) -> str:
    """The line that declares a temporary."""
    text = f"{print_name(buffer.name)} = empty({print_type(buffer)})"
    notes = [] if buffer.scope is Scope.GLOBAL else [buffer.scope.value]
    notes += [f"stride of axis {a} aligned to {f} + {o}" for a, f, o in buffer.alignment]
    return f"{text}  # {', '.join(notes)}" if notes else text


Shorten: TypeAlias = Callable[[Expr], Expr]
_SIMPLIFIERS: Final[list[Callable[[Mapping[str, int]], Shorten]]] = []


def simplify_indices_by(make: Callable[[Mapping[str, int]], Shorten]) -> None:
    """Have indices simplified before they are printed.

    make  from the extents of the loops around, a function that simplifies an index expression or a
          comparison of two
    """
    _SIMPLIFIERS[:] = [make]


class _Printer:
    """Collects lines; one method for each kind of statement."""

    def __init__(self, marks: Marks, most: int = sys.maxsize) -> None:
        self.most = most
        self.lines: list[str] = []
        self.marks = marks
        self.extents: dict[str, int] = {}

    def line(self, depth: int, text: str, comments: Sequence[str] = ()) -> None:
        comment = "  # " + "; ".join(comments) if comments else ""
        self.lines.append(INDENT * depth + text + comment)

    def statement(self, stmt: Stmt, depth: int) -> None:
        if len(self.lines) > self.most:
            return
        match stmt:
            case For():
                self.loop(stmt, depth)
            case Seq(stmts):
                for child in stmts:
                    self.statement(child, depth)
                if not stmts:
                    self.line(depth, "pass")
            case Block():
                self.block(stmt, depth)
            case Store(buffer, indices, value):
                target = f"{print_name(buffer)}[{print_indices(indices)}]"
                self.line(depth, f"{target} = {print_expr(value)}")
            case Reduce():
                self.line(depth, print_reduce(stmt))
            case If(condition, then, otherwise):
                self.line(depth, f"if {print_expr(condition)}:")
                self.statement(then, depth + 1)
                if otherwise is not None:
                    self.line(depth, "else:")
                    self.statement(otherwise, depth + 1)
            case Alloc(buffer, body):
                self.line(depth, print_declaration(buffer))
                self.statement(body, depth)
            case Barrier():
                self.line(depth, "barrier()")
            case ThreadReduce(reducer, thread, buffers):
                held = ", ".join(map(print_name, buffers))
                reduced = f"thread_reduce({print_name(reducer.name)}, {held})"
                self.line(depth, f"{held} = {reduced}", [thread.value])
            case Prefetch(buffer, indices):
                self.line(depth, f"prefetch({print_name(buffer)}[{print_indices(indices)}])")
            case Tensorized(intrinsic, operands, _, body):
                self.line(depth, f"with {print_name(intrinsic)}({_list(operands)}):")
                self.statement(body, depth + 1)

    def loop(self, loop: For, depth: int) -> None:
        """A loop; one of a single iteration shares its line with the one inside it, as a grid."""
        run = [loop]
        while self.shares_line(run[-1]):
            run.append(run[-1].body)  # type: ignore[arg-type]
        names = ", ".join(print_name(one.var) for one in run)
        counts = [_count(one, one.kind is LoopKind.SERIAL and len(run) > 1) for one in run]
        count = counts[0] if len(run) == 1 else f"grid({', '.join(counts)})"
        comments = _notes(loop.annotations)
        if loop.var in self.marks.loops:
            comments.append(f"<- {self.marks.loops[loop.var]}")
        self.line(depth, f"for {names} in {count}:", comments)
        self.extents |= {one.var: one.extent for one in run}
        self.statement(run[-1].body, depth + 1)

    def shares_line(self, outer: For) -> bool:
        """Tell whether the loop right inside another is printed on the line of that one."""
        inner = outer.body
        if not isinstance(inner, For) or outer.extent != 1:
            return False
        return not any(x.annotations or x.var in self.marks.loops for x in (outer, inner))

    def block(self, block: Block, depth: int) -> None:
        bindings = {i.var: i.binding for i in block.iters}
        shorten = _SIMPLIFIERS[0](self.extents) if _SIMPLIFIERS else lambda expr: expr
        start = len(self.lines)
        if block.predicate != TRUE:
            self.line(depth, f"if {print_expr(block.predicate)}:")
            depth += 1
        if block.init is not None:
            first = print_first_instance(block)
            self.line(depth, f"if {first}:" if first else "if True:")
            self.statement(_shortened(substitute(block.init, bindings), shorten), depth + 1)
        body_start = len(self.lines)
        self.statement(_shortened(substitute(block.body, bindings), shorten), depth)
        for name, part, label in self.marks.parts:
            if name == block.name:
                shown = _shortened(substitute(part, bindings), shorten)
                self.underline(body_start, print_expr(shown), label)
        comments = _notes(block.annotations)
        if block.name not in _written(block.body):
            comments.insert(0, f"block {print_name(block.name)}")
        if block.name in self.marks.blocks:
            comments.append(f"<- {self.marks.blocks[block.name]}")
        if comments:
            self.lines[start] += "  # " + "; ".join(comments)

    def underline(self, start: int, text: str, label: str) -> None:
        for position in range(start, len(self.lines)):
            column = self.lines[position].find(text)
            if column >= 0:
                self.lines.insert(position + 1, " " * column + "^" * len(text) + " " + label)
                return


def _count(loop: For, bare: bool) -> str:
    """The values of a loop's variable: range(8), vectorize(8); `bare` leaves only the 8."""
    if bare:
        return str(loop.extent)
    if loop.kind.is_bound:
        return f'bind({loop.extent}, "{loop.kind.value}")'
    word = "range" if loop.kind is LoopKind.SERIAL else loop.kind.value
    return f"{word}({loop.extent})"


def _shortened(node: N, shorten: Shorten) -> N:
    """A statement or an expression with the indices in it simplified."""
    operand = node.a if isinstance(node, Binary) and node.op in COMPARISONS else node
    if getattr(operand, "dtype", None) == INDEX:
        return shorten(node)  # type: ignore[arg-type, return-value]
    return map_children(node, lambda child: _shortened(child, shorten))


def _written(stmt: Stmt) -> tuple[str, ...]:
    match stmt:
        case Store(buffer):
            return (buffer,)
        case Reduce(_, buffers):
            return buffers
        case If(_, then):
            return _written(then)
        case For(_, _, body) | Alloc(_, body):
            return _written(body)
        case Seq(stmts):
            return tuple(name for child in stmts for name in _written(child))
        case _:
            return ()


def print_first_instance(block: Block) -> str:
    """The condition under which the block's init runs: its non-spatial iters are all 0."""
    conditions: list[str] = []
    for i in block.iters:
        if i.kind is not IterKind.SPATIAL:
            terms = _plain_sum(i.binding)
            for term in terms if terms is not None else [print_expr(i.binding)]:
                if f"{term} == 0" not in conditions:
                    conditions.append(f"{term} == 0")
    return " and ".join(conditions)


def _plain_sum(expr: Expr) -> list[str] | None:
    """The variables of a sum of positive multiples of variables; None for anything else."""
    match expr:
        case Var(name):
            return [print_name(name)]
        case Binary("*", Var(name), Const(value)) if value > 0:
            return [print_name(name)]
        case Binary("+", a, b):
            left, right = _plain_sum(a), _plain_sum(b)
            return None if left is None or right is None else left + right
        case _:
            return None


_IN_PLACE: Final = {"+": "+=", "*": "*="}


def print_reduce(stmt: Reduce) -> str:
    """A reduction as an assignment: `C[i] += x`, `C[i] = max(C[i], x)`."""
    where = print_indices(stmt.indices)
    targets = [f"{print_name(b)}[{where}]" for b in stmt.buffers]
    values = [print_expr(v) for v in stmt.values]
    if (operator := operator_of(stmt.reducer)) in _IN_PLACE:
        return f"{targets[0]} {_IN_PLACE[operator]} {values[0]}"
    name = print_name(stmt.reducer.name)
    if len(targets) == 1:
        return f"{targets[0]} = {name}({targets[0]}, {values[0]})"
    old = ", ".join(targets)
    return f"({old}) = {name}(({old}), ({', '.join(values)}))"
