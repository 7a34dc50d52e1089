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

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

from minitensor import arith, ir
from minitensor.accelerator.interleave import interleaved, is_operation
from minitensor.accelerator.machine import Machine
from minitensor.accelerator.product import product
from minitensor.codegen import PASSES, Target, lowered
from minitensor.errors import LoweringError

QUEUES: Final = ("load", "execute", "store")
_PASSES: Final = ("check_bounds", "erase_blocks", "shrink_storage", "simplify")
_COMPUTED: Final = frozenset(("+", "-", "*", "min", "max", "<<", ">>", "&", "|", "^"))
_ASKED: Final = frozenset(("<", "<=", "==", "!=", "and", "or"))
Access: TypeAlias = tuple[str, tuple[ir.Expr, ...]]
"""A buffer and the indices at which it is accessed."""


@dataclass(frozen=True, eq=False)
class Operation:
    """A statement of the program: one instruction for each iteration of the loops around.

    queue    "load", "execute" or "store"
    kind     "load", "store", "product", "fill" or "vector"
    loops    those around, outermost first
    inner    those within
    store    what is done in an iteration of them
    guard    the condition under which it is done
    reads    the accesses of memory, without those of a product to its sums
    steps    cycles of an instruction, but for its issue and for what DRAM takes
    """

    queue: str
    kind: str
    loops: tuple[ir.For, ...]
    inner: tuple[ir.For, ...]
    store: ir.Store
    guard: ir.Expr
    reads: tuple[Access, ...]
    steps: int

    @property
    def multiply_adds(self) -> int:
        """Of one instruction."""
        return math.prod(loop.extent for loop in self.inner) if self.kind == "product" else 0

    @property
    def writes(self) -> Access:
        """The access that it stores by."""
        return self.store.buffer, self.store.indices


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
    plain = lowered(program, Target("c", num_cores=1, vector_bits=0), passes)
    body = interleaved(plain.body)
    buffers = {b.name: b for b in program.params}
    buffers |= {n.buffer.name: n.buffer for n in ir.stmts_of(body) if isinstance(n, ir.Alloc)}
    found = _Former(program, machine, buffers)
    held = found.held()
    made = tuple(found.body(body, ()))
    found.check_memories(held)
    return Operations(program, made, buffers)


# ---- operations


class _Former:
    def __init__(
        self, program: ir.Program, machine: Machine, buffers: Mapping[str, ir.Buffer]
    ) -> None:
        self.program, self.machine, self.buffers = program, machine, buffers

    def fail(self, message: str, *, loop: str | None = None, label: str = "") -> NoReturn:
        marks = ir.Marks({} if loop is None else {loop: label})
        raise LoweringError(
            f"{ir.print_name(self.program.name)}: {message}",
            lambda: ir.print_program(self.program, marks),
        )

    def held(self) -> dict[ir.Scope, list[ir.Buffer]]:
        """The buffers of each memory. Refuses those in scopes that are none."""
        held: dict[ir.Scope, list[ir.Buffer]] = {}
        for buffer in self.buffers.values():
            if buffer.scope in self.machine.memories:
                held.setdefault(buffer.scope, []).append(buffer)
            elif buffer.scope is not ir.Scope.GLOBAL:
                self.fail(
                    f"{ir.print_name(buffer.name)} is in scope {buffer.scope.value!r}, which the "
                    f'accelerator lacks; set_scope("{buffer.name}", …) to "global" (DRAM), '
                    '"acc.input", "acc.weight" or "acc.accumulator"'
                )
        return held

    def check_memories(self, held: Mapping[ir.Scope, Sequence[ir.Buffer]]) -> None:
        """Refuse buffers that no memory holds."""
        for scope, capacity in self.machine.memories.items():
            needed = sum(buffer.nbytes for buffer in held.get(scope, ()))
            if needed > capacity:
                parts = ", ".join(
                    f"{ir.print_name(b.name)} {ir.print_type(b)} takes {b.nbytes:,}"
                    for b in sorted(held[scope], key=lambda b: -b.nbytes)
                )
                self.fail(
                    f"{scope.value} has {capacity:,} bytes, and {needed:,} are needed: {parts}. "
                    "Make the tiles smaller, compute_at a copy in a deeper loop, or use fewer "
                    "virtual threads, each of which has a tile of its own"
                )

    def body(self, stmt: ir.Stmt, around: tuple[ir.For, ...]) -> Iterator[Repeated | Operation]:
        if is_operation(stmt):
            yield from self.operation(stmt, around)
            return
        match stmt:
            case ir.Seq(stmts):
                for child in stmts:
                    yield from self.body(child, around)
            case ir.Alloc(_, inner):
                yield from self.body(inner, around)
            case ir.For(_, _, inner):
                if stmt.kind not in _SERIAL:
                    name = ir.print_name(stmt.var)
                    self.fail(
                        f"the loop {name} is {stmt.kind.value}, which the accelerator lacks; "
                        'make it serial again, or bind it to "vthread"',
                        loop=stmt.var,
                        label=stmt.kind.value,
                    )
                yield Repeated(stmt, tuple(self.body(inner, (*around, stmt))))
            case _:
                self.fail(
                    "a condition stands around several statements, or an index depends on data: "
                    "the accelerator has neither; split evenly, or pad (mt.accelerator.matmul)"
                )

    def operation(
        self, stmt: ir.Stmt, around: tuple[ir.For, ...]
    ) -> Iterator[Repeated | Operation]:
        inner: list[ir.For] = []
        guards: list[ir.Expr] = []
        leaf: ir.Stmt | None = stmt
        done: ir.Tensorized | None = None
        while not isinstance(leaf, ir.Store):
            match leaf:
                case ir.For():
                    inner.append(leaf)
                    leaf = leaf.body
                case ir.If(condition, then):
                    guards.append(condition)
                    leaf = then
                case ir.Tensorized():
                    done, leaf = leaf, leaf.body
                case _:
                    raise AssertionError(leaf)
        kind = self.kind(leaf, done)
        if guards and kind == "product":
            self.fail(
                f"the product into {ir.print_name(leaf.buffer)} runs under a condition; split its "
                "loops evenly, or pad them (mt.accelerator.matmul, mt.accelerator.conv2d)"
            )
        guard = ir.conjunction(guards)
        loops = tuple(inner)
        for loop in (*around, *loops):
            if loop.kind not in _SERIAL:
                self.fail(
                    f"the loop {ir.print_name(loop.var)} is {loop.kind.value}, which the "
                    'accelerator lacks; make it serial again, or bind it to "vthread"',
                    loop=loop.var,
                    label=loop.kind.value,
                )
        if kind in ("load", "store"):
            outside, within, steps = self.transfer(leaf, loops)
        else:
            outside, within, steps = self.executed(leaf, kind, loops)
        queue = kind if kind in QUEUES else "execute"
        reads = tuple(
            (load.buffer, load.indices)
            for load in ir.loads(leaf.value)
            if not (kind == "product" and load.buffer == leaf.buffer)
        )
        one = Operation(queue, kind, (*around, *outside), within, leaf, guard, reads, steps)
        yield _nested(outside, one)

    def kind(self, store: ir.Store, done: ir.Tensorized | None) -> str:
        """The kind of an operation, by the memories that it touches."""
        name = ir.print_name(store.buffer)
        target = self.buffers[store.buffer].scope
        is_on_chip = target in self.machine.memories
        sources = {self.buffers[load.buffer].scope for load in ir.loads(store.value)}
        if done is not None:
            return self.product(done)
        if is_on_chip and sources == {ir.Scope.GLOBAL}:
            if not _is_copy(store.value, padded=True):
                self.fail(
                    f"{name} is computed while it is loaded from DRAM, and a load only copies, "
                    "with zeros around; cache_read what it reads to acc.accumulator first"
                )
            return "load"
        if not is_on_chip and sources and all(scope in self.machine.memories for scope in sources):
            if sources != {ir.Scope.ACC_ACCUMULATOR} or not _is_copy(store.value, padded=False):
                self.fail(
                    f"{name} is computed while it is stored to DRAM, and a store only copies what "
                    f'acc.accumulator holds: cache_write("{store.buffer}", "acc.accumulator") '
                    "first, and compute_at what it reads"
                )
            return "store"
        if target is not ir.Scope.ACC_ACCUMULATOR:
            if is_on_chip:
                self.fail(
                    f"{name} in {target.value} is computed on chip, but only loads write there; "
                    f'set_scope("{store.buffer}", "acc.accumulator")'
                )
            self.fail(
                f"{name} is computed from DRAM to DRAM, and the accelerator computes on chip: "
                f'cache_write("{store.buffer}", "acc.accumulator"), and cache_read what it reads'
            )
        if not sources <= {ir.Scope.ACC_ACCUMULATOR}:
            self.no_product(store)
        self.vector(store)
        return "vector" if sources else "fill"

    def product(self, done: ir.Tensorized) -> str:
        """A product of the array: its operands are where it finds them."""
        wanted = product(self.machine)
        if done.intrinsic != wanted.key:
            given = ir.print_name(done.intrinsic.partition(ir.SEPARATOR)[0])
            self.fail(
                f"loops are tensorized with {given}, and this accelerator has products of "
                f"{self.machine.rows} x {self.machine.columns}: tensorize with "
                "mt.accelerator.product(machine)"
            )
        for operand, scope in zip(done.operands, self.machine.memories):
            name, found = operand.buffer, self.buffers[operand.buffer].scope
            if found is not scope:
                self.fail(
                    f"the array has {ir.print_name(name)} in {scope.value}, and it is in "
                    f'{found.value}; cache_read, cache_write or set_scope it to "{scope.value}"'
                )
        return "product"

    def no_product(self, store: ir.Store) -> NoReturn:
        name = ir.print_name(store.buffer)
        dtypes = {str(self.buffers[load.buffer].dtype) for load in ir.loads(store.value)}
        dtypes |= {str(self.buffers[store.buffer].dtype)}
        if not dtypes <= {"int8", "int32"}:
            self.fail(
                f"{name} is computed in {', '.join(sorted(dtypes))}, and the array multiplies int8 "
                "by int8 into int32: quantise in the definition"
            )
        self.fail(
            f"{name} is computed from several memories, and only a product is: split the loops to "
            f"{self.machine.rows} outputs by {self.machine.columns} terms, innermost, "
            "and tensorize them with mt.accelerator.product(); what else is computed reads "
            "acc.accumulator"
        )

    def vector(self, store: ir.Store) -> None:
        """Refuse what the vector unit does not compute."""
        name = ir.print_name(store.buffer)
        for node in ir.walk(store.value):
            if isinstance(node, ir.Load) and not _is_integer(node.dtype):
                self.fail(
                    f"{name} is computed in {node.dtype}, and the vector unit has integers only: "
                    "quantise in the definition"
                )
            odd = isinstance(node, ir.Binary) and node.op not in _COMPUTED | _ASKED
            if odd or isinstance(node, ir.Call):
                text = node.op if isinstance(node, ir.Binary) else node.function  # type: ignore[union-attr]
                self.fail(
                    f"{name} is computed with {text}, and the vector unit has "
                    f"{' '.join(sorted(_COMPUTED))} and comparisons"
                )

    # ---- the loops of an instruction

    def executed(
        self, store: ir.Store, kind: str, loops: tuple[ir.For, ...]
    ) -> tuple[tuple[ir.For, ...], tuple[ir.For, ...], int]:
        """The loops outside of an instruction of the execute queue, those inside, and its cycles.

        Two loops of any length are part of the instruction; what the others are is written out in
        micro-operations, of which there is room for so many.
        """
        start = 0
        while True:
            outer = [loop.extent for loop in loops[start:] if loop.kind not in _TENSORIZED]
            repeated = math.prod(sorted(outer)[-2:])
            if kind != "product":
                per = -(-math.prod(outer) // self.machine.rows)
                steps, uses = per * max(1, _computed(store.value)), -(-per // max(1, repeated))
            else:
                steps, uses = math.prod(outer), math.prod(outer) // max(1, repeated)
            if uses <= self.machine.micro_ops or start == len(loops):
                return loops[:start], loops[start:], steps
            start += 1

    def transfer(
        self, store: ir.Store, loops: tuple[ir.For, ...]
    ) -> tuple[tuple[ir.For, ...], tuple[ir.For, ...], int]:
        """The loops outside of a transfer and those inside: rows of elements that lie side by side
        both in DRAM and on chip, in two dimensions.
        """
        (load,) = ir.loads(store.value)
        strides = [
            _strides_along(self.buffers[name], indices, loops)
            for name, indices in ((store.buffer, store.indices), (load.buffer, load.indices))
        ]
        row, count = set(), 1
        for loop in reversed(loops):  # grow the row from the innermost loop outwards
            steps = [along.get(loop.var) for along in strides]
            if loop.extent == 1 or steps == [count, count]:
                row.add(loop.var)
                count *= loop.extent
        others = [loop for loop in loops if loop.var not in row and strides[0].get(loop.var)]
        others = [loop for loop in others if strides[1].get(loop.var)]
        second = max(others, key=lambda loop: loop.extent, default=None)
        within = row | ({second.var} if second is not None else set())
        outside = tuple(loop for loop in loops if loop.var not in within)
        return outside, tuple(loop for loop in loops if loop.var in within), 0


_SERIAL: Final = (
    ir.LoopKind.SERIAL, ir.LoopKind.UNROLL, ir.LoopKind.TENSORIZE, ir.LoopKind.VTHREAD,
)  # fmt: skip
_TENSORIZED: Final = (ir.LoopKind.TENSORIZE,)


def _nested(loops: Sequence[ir.For], one: Operation) -> Repeated | Operation:
    found: Repeated | Operation = one
    for loop in reversed(loops):
        found = Repeated(loop, (found,))
    return found


def _is_integer(dtype: ir.DType) -> bool:
    return str(dtype).startswith(("int", "uint", "bool", "index"))


def _is_copy(value: ir.Expr, *, padded: bool) -> bool:
    """Tell whether a value is an element, converted to fewer bits or not, or else 0."""
    match value:
        case ir.Load():
            return True
        case ir.Cast(_, inner) if not padded:
            return _is_copy(inner, padded=False)
        case ir.Select(_, ir.Load(), ir.Const(zero)) if padded:
            return zero == 0
    return False


def _computed(value: ir.Expr) -> int:
    """The operations of the vector unit in a value: those of the places are not its."""
    match value:
        case ir.Load() | ir.Const() | ir.Var():
            return 0
    here = isinstance(value, (ir.Unary, ir.Select)) or (
        isinstance(value, ir.Binary) and value.op in _COMPUTED | _ASKED
    )
    return int(here) + sum(
        _computed(part) for part in ir.children(value) if isinstance(part, ir.Expr)
    )


def _strides_along(
    buffer: ir.Buffer, indices: Sequence[ir.Expr], loops: Sequence[ir.For]
) -> dict[str, int]:
    """By loop, how many elements further an access goes; without loops that do not go evenly."""
    found: dict[str, int] = {}
    for index, stride in zip(indices, ir.strides_of(buffer)):
        for atom, factor in arith.linear_of(index).terms.items():
            if isinstance(atom, ir.Var):
                found[atom.name] = found.get(atom.name, 0) + int(factor) * stride
            else:
                for name in ir.free_vars(atom):
                    found[name] = 0
    return {loop.var: found.get(loop.var, 0) for loop in loops}
