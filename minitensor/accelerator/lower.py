"""From a scheduled program to the operations of an accelerator.

    for v in bind(2, "vthread"):                  for k in range(n):
        for k in range(n):                            for v in range(2):
            S = empty(...)                   =>           load     S[v] = A[v, k]
            S[...] = A[v, k]                              execute  C[v] += S[v] * W
            C[...] += S * W

The passes that every target begins with leave plain statements and buffers as small as one
iteration. Then virtual threads go inwards, to the innermost loop that has several operations: each
has buffers of its own, so any order of their operations is right, and this one lets one thread load
while another multiplies. What a statement is follows from the memories that it touches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from minitensor import arith, ir
from minitensor.accelerator.definitions import product
from minitensor.accelerator.machine import Machine
from minitensor.codegen import PASSES, Target, lowered, without_vthreads
from minitensor.errors import LoweringError

QUEUES: Final = ("load", "execute", "store")
_PASSES: Final = ("check_bounds", "erase_blocks", "shrink_storage", "simplify")
_OPERATORS: Final = frozenset(
    ("+", "-", "*", "min", "max", "<<", ">>", "&", "|", "^", "<", "<=", "==", "!=", "and", "or")
)
_KINDS: Final = (
    ir.LoopKind.SERIAL, ir.LoopKind.UNROLL, ir.LoopKind.TENSORIZE, ir.LoopKind.VTHREAD,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Operation:
    """A statement of the program: one instruction for each iteration of the loops around.

    queue    "load", "execute" or "store"
    kind     "load", "store", "product", "fill" or "vector"
    loops    those around, outermost first
    inner    those within
    store    what is done in an iteration of them
    guard    the condition under which it is done
    reads    what it reads of memories; a product also reads what it adds to
    steps    cycles of an instruction, but for its issue and for what DRAM takes
    """

    queue: str
    kind: str
    loops: tuple[ir.For, ...]
    inner: tuple[ir.For, ...]
    store: ir.Store
    guard: ir.Expr
    reads: tuple[ir.Load, ...]
    steps: int

    @property
    def multiply_adds(self) -> int:
        """Of one instruction."""
        return math.prod(loop.extent for loop in self.inner) if self.kind == "product" else 0


@dataclass(frozen=True)
class Repeated:
    """A loop around operations: they are done in order, for each iteration."""

    loop: ir.For
    body: tuple[Repeated | Operation, ...]


@dataclass(frozen=True)
class Operations:
    """A program as operations, in order.

    buffers  all, by name; those on chip with an axis for each virtual thread
    """

    program: ir.Program
    body: tuple[Repeated | Operation, ...]
    buffers: Mapping[str, ir.Buffer]


def operations(program: ir.Program, machine: Machine) -> Operations:
    """The operations of a program. Raises LoweringError for what the machine does not do, with what
    to do about it.
    """
    passes = [one for one in PASSES if one[0] in _PASSES]
    plain = lowered(program, Target("c", num_cores=1, vector_bits=0), passes).body
    body = without_vthreads(plain, _is_together, _together, ir.LoopKind.VTHREAD)
    buffers = {b.name: b for b in program.params}
    buffers |= {n.buffer.name: n.buffer for n in ir.stmts_of(body) if isinstance(n, ir.Alloc)}
    former = _Former(program, machine, buffers)
    former.check_loops(body)
    former.check_scopes()
    made = tuple(former.body(body, ()))
    former.check_room()
    return Operations(program, made, buffers)


# ---- statements that are operations


def _parts(stmt: ir.Stmt) -> tuple[list[ir.For], list[ir.Expr], ir.Tensorized | None, ir.Store]:
    """The loops of an operation, its conditions, its intrinsic and its store. Raises ValueError for
    a statement that is none.
    """
    loops: list[ir.For] = []
    guards: list[ir.Expr] = []
    done: ir.Tensorized | None = None
    while not isinstance(stmt, ir.Store):
        match stmt:
            case ir.For(body=body) if stmt.kind is not ir.LoopKind.VTHREAD:
                loops.append(stmt)
                stmt = body
            case ir.If(condition, then, None):
                guards.append(condition)
                stmt = then
            case ir.Tensorized(body=body):
                done, stmt = stmt, body
            case _:
                raise ValueError
    return loops, guards, done, stmt


def _is_operation(stmt: ir.Stmt) -> bool:
    try:
        _parts(stmt)
    except ValueError:
        return False
    return True


def _is_together(stmt: ir.Stmt) -> bool:
    """Tell whether virtual threads alternate around a statement as a whole."""
    return all(map(_is_operation, stmt.stmts if isinstance(stmt, ir.Seq) else (stmt,)))


def _together(stmts: Sequence[ir.Stmt]) -> Iterator[ir.Stmt]:
    """Statements in order, neighbours that are operations as one."""
    for is_operation, group in itertools.groupby(stmts, _is_operation):
        several = tuple(group)
        yield from (ir.sequence(*several),) if is_operation else several


class _Former:
    """Makes the operations of a program, or refuses them."""

    def __init__(
        self, program: ir.Program, machine: Machine, buffers: Mapping[str, ir.Buffer]
    ) -> None:
        self.program, self.machine, self.buffers = program, machine, buffers
        self.key = product(machine).key

    def fail(self, message: str, marks: Mapping[str, str] | None = None) -> NoReturn:
        raise LoweringError(
            f"{ir.print_name(self.program.name)}: {message}",
            lambda: ir.print_program(self.program, ir.Marks(marks or {})),
        )

    def check_loops(self, body: ir.Stmt) -> None:
        for loop in ir.stmts_of(body):
            if isinstance(loop, ir.For) and loop.kind not in _KINDS:
                self.fail(
                    f"the loop {ir.print_name(loop.var)} is {loop.kind.value}, which the "
                    'accelerator lacks; make it serial again, or bind it to "vthread"',
                    {loop.var: loop.kind.value},
                )

    def check_scopes(self) -> None:
        for buffer in self.buffers.values():
            if buffer.scope not in (ir.Scope.GLOBAL, *self.machine.memories):
                self.fail(
                    f"{ir.print_name(buffer.name)} is in scope {buffer.scope.value!r}, which the "
                    f'accelerator lacks; set_scope("{buffer.name}", …) to "global" (DRAM), '
                    '"acc.input", "acc.weight" or "acc.accumulator"'
                )

    def check_room(self) -> None:
        for scope, capacity in self.machine.memories.items():
            held = [b for b in self.buffers.values() if b.scope is scope]
            needed = sum(b.nbytes for b in held)
            if needed > capacity:
                parts = ", ".join(
                    f"{ir.print_name(b.name)} {ir.print_type(b)} takes {b.nbytes:,}"
                    for b in sorted(held, key=lambda b: -b.nbytes)
                )
                self.fail(
                    f"{scope.value} has {capacity:,} bytes, and {needed:,} are needed: {parts}. "
                    "Make the tiles smaller, compute_at a copy in a deeper loop, or use fewer "
                    "virtual threads, each of which has a tile of its own"
                )

    def body(self, stmt: ir.Stmt, around: tuple[ir.For, ...]) -> Iterator[Repeated | Operation]:
        match stmt:
            case _ if _is_operation(stmt):
                yield self.operation(stmt, around)
            case ir.Seq(stmts):
                for child in stmts:
                    yield from self.body(child, around)
            case ir.Alloc(body=inner):
                yield from self.body(inner, around)
            case ir.For(body=inner):
                yield Repeated(stmt, tuple(self.body(inner, (*around, stmt))))
            case _:
                self.fail(
                    "a condition stands around several statements, or an index depends on data: "
                    "the accelerator has neither; split evenly, or pad (mt.accelerator.matmul)"
                )

    def operation(self, stmt: ir.Stmt, around: tuple[ir.For, ...]) -> Repeated | Operation:
        loops, guards, done, store = _parts(stmt)
        kind = self.kind(store, done)
        if guards and kind == "product":
            self.fail(
                f"the product into {ir.print_name(store.buffer)} runs under a condition; split its "
                "loops evenly, or pad them (mt.accelerator.matmul, mt.accelerator.conv2d)"
            )
        form = self.transfer if kind in QUEUES else self.executed
        outside, inner, steps = form(store, kind, loops)
        reads = tuple(
            load
            for load in ir.loads(store.value)
            if not (kind == "product" and load.buffer == store.buffer)
        )
        queue = kind if kind in QUEUES else "execute"
        made: Repeated | Operation = Operation(
            queue, kind, (*around, *outside), tuple(inner), store, ir.conjunction(guards), reads,
            steps,
        )  # fmt: skip
        for loop in reversed(outside):
            made = Repeated(loop, (made,))
        return made

    # ---- what a statement is, by the memories that it touches

    def kind(self, store: ir.Store, done: ir.Tensorized | None) -> str:
        if done is not None:
            self.check_product(done)
            return "product"
        name = ir.print_name(store.buffer)
        target = self.buffers[store.buffer].scope
        sources = {self.buffers[load.buffer].scope for load in ir.loads(store.value)}
        if target is not ir.Scope.GLOBAL and sources == {ir.Scope.GLOBAL}:
            if not _is_copy(store.value, is_load=True):
                self.fail(
                    f"{name} is computed while it is loaded from DRAM, and a load only copies, "
                    "with zeros around; cache_read what it reads to acc.accumulator first"
                )
            return "load"
        if target is ir.Scope.GLOBAL and sources and ir.Scope.GLOBAL not in sources:
            if sources != {ir.Scope.ACC_ACCUMULATOR} or not _is_copy(store.value, is_load=False):
                self.fail(
                    f"{name} is computed while it is stored to DRAM, and a store only copies what "
                    f'acc.accumulator holds: cache_write("{store.buffer}", "acc.accumulator") '
                    "first, and compute_at what it reads"
                )
            return "store"
        if target is ir.Scope.GLOBAL:
            self.fail(
                f"{name} is computed from DRAM to DRAM, and the accelerator computes on chip: "
                f'cache_write("{store.buffer}", "acc.accumulator"), and cache_read what it reads'
            )
        if target is not ir.Scope.ACC_ACCUMULATOR:
            self.fail(
                f"{name} in {target.value} is computed on chip, but only loads write there; "
                f'set_scope("{store.buffer}", "acc.accumulator")'
            )
        self.check_vector(store, name, sources)
        return "vector" if sources else "fill"

    def check_product(self, done: ir.Tensorized) -> None:
        """Refuse a product that is not the array's, and operands where it does not find them."""
        if done.intrinsic != self.key:
            self.fail(
                f"loops are tensorized with {ir.print_name(done.intrinsic.split(ir.SEPARATOR)[0])},"
                f" and this accelerator has products of {self.machine.columns} terms for "
                f"{self.machine.rows} outputs: tensorize with mt.accelerator.product(machine)"
            )
        for operand, scope in zip(done.operands, self.machine.memories):
            found = self.buffers[operand.buffer].scope
            if found is not scope:
                self.fail(
                    f"the array has {ir.print_name(operand.buffer)} in {scope.value}, and it is in "
                    f'{found.value}; cache_read, cache_write or set_scope it to "{scope.value}"'
                )

    def check_vector(self, store: ir.Store, name: str, sources: set[ir.Scope]) -> None:
        """Refuse what the vector unit does not compute: it has integers, and only its memory."""
        dtypes = sorted({str(self.buffers[load.buffer].dtype) for load in ir.loads(store)})
        odd = [t for t in dtypes if not t.startswith(("int", "uint", "bool"))]
        if odd:
            self.fail(
                f"{name} is computed in {', '.join(dtypes)}, and the array multiplies int8 by int8 "
                "into int32, the vector unit has integers only: quantise in the definition"
            )
        if not sources <= {ir.Scope.ACC_ACCUMULATOR}:
            self.fail(
                f"{name} is computed from several memories, and only a product is: split the loops "
                f"to {self.machine.rows} outputs by {self.machine.columns} terms, innermost, "
                "and tensorize them with mt.accelerator.product(); what else is computed reads "
                "acc.accumulator"
            )
        for node in ir.walk(store.value):
            called = getattr(node, "op", None) or getattr(node, "function", None)
            if isinstance(node, (ir.Binary, ir.Call)) and called not in _OPERATORS:
                self.fail(
                    f"{name} is computed with {called}, and the vector unit has "
                    f"{' '.join(sorted(_OPERATORS))}"
                )

    # ---- the loops outside of an instruction, those inside, and its cycles

    def executed(
        self, store: ir.Store, kind: str, loops: list[ir.For]
    ) -> tuple[list[ir.For], list[ir.For], int]:
        """Of the execute queue: two loops of any length are part of the instruction; the others are
        written out in micro-operations, of which there is room for so many.
        """
        for start in range(len(loops) + 1):
            extents = sorted(n.extent for n in loops[start:] if n.kind is not _KINDS[2])
            steps = math.prod(extents)
            if kind != "product":
                steps = -(-steps // self.machine.rows)
            if -(-steps // math.prod(extents[-2:])) <= self.machine.micro_ops:
                break
        each = max(1, _computed(store.value)) if kind != "product" else 1
        return loops[:start], loops[start:], steps * each

    def transfer(
        self, store: ir.Store, kind: str, loops: list[ir.For]
    ) -> tuple[list[ir.For], list[ir.For], int]:
        """Of a load or a store: rows of elements that lie side by side both in DRAM and on chip, in
        two dimensions.
        """
        (load,) = ir.loads(store.value)
        here, there = (
            _strides_along(self.buffers[one.buffer], one.indices) for one in (store, load)
        )
        row, count = set(), 1
        for loop in reversed(loops):  # grow the row from the innermost loop outwards
            if loop.extent == 1 or here.get(loop.var) == there.get(loop.var) == count:
                row.add(loop.var)
                count *= loop.extent
        others = [n for n in loops if n.var not in row and here.get(n.var) and there.get(n.var)]
        if others:
            row.add(max(others, key=lambda loop: loop.extent).var)
        outside = [loop for loop in loops if loop.var not in row]
        return outside, [loop for loop in loops if loop.var in row], 0


def _is_copy(value: ir.Expr, *, is_load: bool) -> bool:
    """Tell whether a value is an element; of a load also 0 instead, of a store also converted."""
    match value:
        case ir.Load():
            return True
        case ir.Cast(_, inner) if not is_load:
            return _is_copy(inner, is_load=False)
        case ir.Select(_, ir.Load(), ir.Const(zero)) if is_load:
            return zero == 0
    return False


def _computed(value: ir.Expr) -> int:
    """The operations of the vector unit in a value: those of the places are not its."""
    if isinstance(value, ir.Load):
        return 0
    below = sum(_computed(part) for part in ir.children(value) if isinstance(part, ir.Expr))
    return below + isinstance(value, (ir.Unary, ir.Select, ir.Binary))


def _strides_along(buffer: ir.Buffer, indices: Sequence[ir.Expr]) -> dict[str, int]:
    """By loop, how many elements further an access goes; 0 for one that does not go evenly."""
    found: dict[str, int] = {}
    for index, stride in zip(indices, ir.strides_of(buffer)):
        for atom, factor in arith.linear_of(index).terms.items():
            for name in ir.free_vars(atom):
                even = found.get(name, 0) + int(factor) * stride
                found[name] = even if isinstance(atom, ir.Var) else 0
    return found
