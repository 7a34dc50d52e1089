"""Pass: small arrays with constant indices become variables, one for each vector or number.

    before  T = empty(float32[2, 32])  # local;   T[1, ramp(16, 1, 16)] = …
    after   T_1_16 = empty(float32x16[])  # register;   T_1_16 = …

Where elements of a vector are used by themselves, as what remains of a row is, they are in an array
just there:

    before  T[1, 17] = f(T[1, 17])
    after   part = empty(float32[16])  # local
            part[ramp(0, 1, 16)] = T_1_16;  part[1] = f(part[1]);  T_1_16 = part[ramp(0, 1, 16)]

The compiler would find most of them itself; written so, the text shows what is in registers, and
code that is not optimised, or too large for that part of the optimiser, has them there as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeAlias, TypeVar

from minitensor import ir
from minitensor.codegen.remarks import missed, stands_for, stored
from minitensor.codegen.target import Target

MOST: Final = 64
"""The most variables that one array may become."""
IN_SCOPE: Final = 256
"""The most variables that there may be at one place."""

Part: TypeAlias = tuple[tuple[int, ...], int]
"""Constant indices of the first element, and how many elements follow each other from there."""
Variables: TypeAlias = dict[Part, ir.Buffer]
"""The variables that an array becomes."""
Known: TypeAlias = Mapping[str, Variables]
N = TypeVar("N", bound=ir.Node)


def name_registers(program: ir.Program, target: Target) -> ir.Program:
    """The program with its small arrays as variables, where all indices are constants."""
    return program.replace(body=_Namer(ir.names_in(program)).statement(program.body, {}))


@dataclass(slots=True)
class _Namer:
    """Replaces accesses of arrays by variables; names: all that are taken."""

    names: set[str]
    in_scope: int = 0

    def statement(self, stmt: ir.Stmt, known: Known) -> ir.Stmt:
        """The statement where `known` arrays have become variables."""
        if _split_vectors(stmt, known):
            return self.in_parts([stmt], known)
        return self.whole(stmt, known)

    def whole(self, stmt: ir.Stmt, known: Known) -> ir.Stmt:
        """The same of one that splits no vector itself."""
        match stmt:
            case ir.Seq(stmts):
                runs = groupby(stmts, key=lambda child: bool(_split_vectors(child, known)))
                return ir.sequence(
                    *[
                        self.in_parts(list(run), known)
                        if split
                        else ir.sequence(*[self.whole(child, known) for child in run])
                        for split, run in runs
                    ]
                )
            case ir.Alloc(buffer, body) if buffer.shape:
                return self.allocation(buffer, body, known)
            case ir.Alloc(buffer, body):
                return ir.Alloc(buffer, self.statement(body, known))
            case ir.Store():
                return self.renamed(stmt, known)
            case ir.If(condition, then, otherwise):
                no = None if otherwise is None else self.statement(otherwise, known)
                return ir.If(self.renamed(condition, known), self.statement(then, known), no)
            case ir.Tensorized(intrinsic, operands, axes, body):
                first = tuple(self.renamed(operand, known) for operand in operands)
                return ir.Tensorized(intrinsic, first, axes, self.statement(body, known))
            case ir.Prefetch(buffer) if buffer in known:
                missed("prefetch", buffer, "is in registers, and not prefetched")
                return ir.NOTHING
            case _:
                return ir.map_stmts(stmt, lambda child: self.statement(child, known))

    def allocation(self, buffer: ir.Buffer, body: ir.Stmt, known: Known) -> ir.Stmt:
        parts = _whole_parts(buffer, body)
        if parts is None or self.in_scope + len(parts) > IN_SCOPE:
            _record_array(buffer)
            others = {name: variables for name, variables in known.items() if name != buffer.name}
            return ir.Alloc(buffer, self.statement(body, others))
        variables: Variables = {}
        for start, lanes in sorted(parts):
            place = map(str, start if len(parts) > 1 else ())
            name = ir.fresh_name("_".join([buffer.name, *place]), self.names)
            dtype = buffer.dtype.with_lanes(lanes) if lanes > 1 else buffer.dtype
            stands_for(name, buffer.name)
            variables[start, lanes] = ir.Buffer(name, (), dtype, ir.Scope.REGISTER)
        size = sum(b.dtype.bits * b.dtype.lanes for b in variables.values()) // 8
        stored(buffer.name, "registers", size)
        self.in_scope += len(parts)
        whole = self.statement(body, {**known, buffer.name: variables})
        self.in_scope -= len(parts)
        return ir.allocated(variables.values(), whole)

    def in_parts(self, stmts: Sequence[ir.Stmt], known: Known) -> ir.Stmt:
        """Straight-line statements, with the vectors of which they use elements in arrays."""
        arrays: dict[tuple[str, Part], ir.Buffer] = {}
        for stmt in stmts:
            for one_of_them in _split_vectors(stmt, known):
                if one_of_them not in arrays:
                    buffer, whole = one_of_them
                    vector = known[buffer][whole]
                    name = ir.fresh_name(f"{vector.name}_part", self.names)
                    dtype = vector.dtype.with_lanes(1)
                    arrays[one_of_them] = ir.Buffer(name, whole[1:], dtype, ir.Scope.LOCAL)

        def one(node: Any) -> Any:
            if not isinstance(node, (ir.Load, ir.Store)) or node.buffer not in known:
                return node
            start, lanes = part = _known_part(node.indices)
            whole = _whole(part, known[node.buffer])
            if (node.buffer, whole) not in arrays:
                return node
            array = arrays[node.buffer, whole]
            first = ir.Const(start[-1] - whole[0][-1])
            at = (ir.Ramp(first, 1, lanes),) if lanes > 1 else (first,)
            if isinstance(node, ir.Load):
                return ir.Load(array.name, at, node.dtype)
            return ir.Store(array.name, at, node.value)

        body = ir.rewrite(ir.sequence(*stmts), one)
        written = {node.buffer for node in ir.walk(body) if isinstance(node, ir.Store)}
        head, tail = [], []
        for (buffer, whole), array in arrays.items():
            vector, all_of_it = known[buffer][whole], (ir.Ramp(ir.Const(0), 1, whole[1]),)
            head.append(ir.Store(array.name, all_of_it, ir.Load(vector.name, (), vector.dtype)))
            if array.name in written:
                back = ir.Load(array.name, all_of_it, vector.dtype)
                tail.append(ir.Store(vector.name, (), back))
        inner = ir.sequence(*head, self.statement(body, known), *tail)
        return ir.allocated(arrays.values(), inner)

    def renamed(self, node: N, known: Known) -> N:
        """A statement or an expression with variables for the elements of arrays."""

        def one(node: Any) -> Any:
            if not isinstance(node, (ir.Load, ir.Store)) or node.buffer not in known:
                return node
            new = known[node.buffer][_known_part(node.indices)]
            if isinstance(node, ir.Load):
                return ir.Load(new.name, (), new.dtype)
            return ir.Store(new.name, (), node.value)

        return ir.rewrite(node, one) if known else node


def _record_array(buffer: ir.Buffer) -> None:
    """Say that an array meant for registers stays one."""
    if buffer.scope is ir.Scope.REGISTER:
        text = (
            f"is an array in memory: it is not indexed by constants, has more than {MOST} parts, "
            f"or would make more than {IN_SCOPE} variables with others"
        )
        missed("registers", buffer.name, text, "unroll the loops that index it, or make it smaller")


def _split_vectors(stmt: ir.Stmt, known: Known) -> list[tuple[str, Part]]:
    """The vectors of `known` arrays of which a straight-line statement uses elements alone; what an
    intrinsic does is one statement.
    """
    found: dict[tuple[str, Part], None] = {}
    for node in ir.walk(stmt) if known else ():
        if isinstance(node, (ir.For, ir.Seq)) and not isinstance(stmt, ir.Tensorized):
            return []
        if isinstance(node, (ir.Load, ir.Store)) and node.buffer in known:
            part, variables = _known_part(node.indices), known[node.buffer]
            if part not in variables:
                found[node.buffer, _whole(part, variables)] = None
    return list(found)


def _whole_parts(buffer: ir.Buffer, body: ir.Stmt) -> set[Part] | None:
    """The parts of the buffer that accesses touch, without those within others; None if they depend
    on loops, or overlap otherwise, or if a part within another is touched before that is stored.
    """
    if buffer.scope is ir.Scope.SHARED or buffer.dtype.lanes > 1:
        return None
    parts: dict[Part, None] = {}
    stored: set[Part] = set()
    for access in ir.accesses(body, buffer.name):
        part = _part(access.indices)
        if part is None:
            return None
        if isinstance(access, ir.Store) and part not in parts:
            stored.add(part)
        parts[part] = None
    whole: set[Part] = set()
    taken: set[tuple[int, ...]] = set()
    order = {part: n for n, part in enumerate(parts)}
    for part in sorted(parts, key=lambda part: -part[1]):
        elements = _elements(part)
        if taken.isdisjoint(elements):
            whole.add(part)
            taken |= elements
            continue
        try:
            around = _whole(part, whole)
        except KeyError:
            return None
        if around not in stored or order[around] > order[part]:
            return None
    return whole if 0 < len(whole) <= MOST else None


def _elements(part: Part) -> set[tuple[int, ...]]:
    (*outer, last), lanes = part
    return {(*outer, last + lane) for lane in range(lanes)}


def _whole(part: Part, parts: Iterable[Part]) -> Part:
    """The one of some parts that holds another, or is it. Raises KeyError if there is none."""
    (*outer, first), lanes = part
    for (*around, start), count in parts:
        if around == outer and start <= first and first + lanes <= start + count:
            return (*around, start), count
    raise KeyError(part)


def _known_part(indices: tuple[ir.Expr, ...]) -> Part:
    part = _part(indices)
    assert part is not None
    return part


def _part(indices: tuple[ir.Expr, ...]) -> Part | None:
    last, lanes = indices[-1], 1
    if isinstance(last, ir.Ramp):
        if last.stride != 1:
            return None
        lanes, last = last.lanes, last.base
    start: list[int] = []
    for index in (*indices[:-1], last):
        if not isinstance(index, ir.Const):
            return None
        start.append(int(index.value))
    return tuple(start), lanes
