"""The emitter of C: functions with OpenMP, vectors, streaming stores, row pointers and hooks."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import Final

from minitensor import arith, ir
from minitensor.codegen.emit import first_lanes, scalars, streams, transposes, vectors
from minitensor.codegen.emit.c_types import element_type, elements_of, whole
from minitensor.codegen.emit.emitter import Emitter
from minitensor.codegen.emit.guarded import KEEP_SCALAR, MASKED_LOADS, why_scalar
from minitensor.codegen.emit.helpers import Helpers
from minitensor.codegen.emit.hooks import GAP, Hooks, declarations, is_observed
from minitensor.codegen.emit.intrinsics import definition
from minitensor.codegen.emit.lines import broken, indented, signature
from minitensor.codegen.emit.rows import Access, shared_rows
from minitensor.codegen.emit.variables import below_allocations, starts_with_store, stores
from minitensor.codegen.emit.vector_expressions import VectorExpressions
from minitensor.codegen.intrinsics import declared, operand_strides
from minitensor.codegen.remarks import became, missed, stored
from minitensor.codegen.target import UNEVEN, Target

STACK_LIMIT: Final = 1 << 16
"""The largest small-scope array that is kept on the stack, in bytes."""
SMALL_ARRAY: Final = 1 << 12
"""The largest array of any scope that is kept on the stack, in bytes."""
STACK_TOTAL: Final = 1 << 18
"""The most that arrays take of the stack at once, in bytes: a thread may have half a megabyte."""
ALIGNMENT: Final = 64


class CEmitter(VectorExpressions, Emitter):
    """Emits one function of C."""

    def __init__(
        self,
        program: ir.Program,
        outputs: frozenset[str],
        target: Target,
        helpers: Helpers,
        hooks: bool = False,
    ) -> None:
        unread = outputs - {load.buffer for load in ir.loads(program.body)}
        super().__init__(helpers, program.params, unread)
        self.program = program
        self.outputs = outputs
        self.threads = target.num_cores or 1
        self.vector_bits = target.vector_bits or 0
        self.has_masks = self.vector_bits >= MASKED_LOADS
        self.hooks = Hooks(len(program.params)) if hooks else None
        if hooks:
            helpers.need(declarations)
        streamable = [b for b in program.params if b.name in unread and not hooks]
        self.large = tuple(filter(streams.may_be_streamed, streamable))
        """The outputs that may be written past the caches."""
        self.streamed: frozenset[str] = frozenset()
        """Those of them that are, where the walk stands."""
        self.offset = 0
        """Bytes in use where the walk stands: of a thread's slice of the workspace inside a
        parallel loop, of the workspace elsewhere."""
        self.shared, self.slice = 0, 0
        """In a parallel loop, the bytes before the slices, and the most in use of one."""
        self.workspace = 0
        """The most bytes of workspace in use anywhere."""
        self.on_stack = 0
        """Bytes of arrays on the stack where the walk stands."""
        self.in_parallel = False
        self.is_parallel = False
        """True if the function starts threads."""

    def function(self, entry: str) -> list[str]:
        """The lines of the function."""
        parameters = []
        for buffer in self.program.params:
            const = "" if buffer.name in self.outputs else "const "
            kind = element_type(buffer.dtype)
            name = self.names.buffer(buffer.name)
            parameters.append(f"{const}{kind} *restrict {name}")
        parameters.append("unsigned char *restrict workspace")
        self.statement(self.program.body, alone=True)
        body, self.lines = self.lines, []
        checked = bool(self.checks)
        if checked:
            self.line("int status = 0;")
        self.lines.extend(body)
        self.line(f"return {'status' if checked else '0'};")
        return [*signature(entry, parameters), *self.lines, "}"]

    # ---- statements

    def statement(self, stmt: ir.Stmt, alone: bool = False) -> None:
        """Emit a statement; `alone`: nothing else stands in the braces around it."""
        match stmt:
            case ir.Seq(stmts):
                for is_parallel, group in groupby(stmts, self._forks):
                    children = list(group)
                    if is_parallel and len(children) > 1:
                        self._team(children)
                        continue
                    for _, line in groupby(children, lambda child: isinstance(child, ir.Store)):
                        self._line(list(line))
            case ir.For() if self._forks(stmt):
                self._parallel(stmt, f"#pragma omp parallel for num_threads({self.threads})")
            case ir.Tensorized():
                self._intrinsic(stmt)
            case ir.Alloc() if self.hooks is None and (uses := first_lanes.in_registers(stmt)):
                self.statement(uses)
            case ir.Prefetch(buffer, indices):
                name = self.helpers.need(scalars.prefetch)
                self.line(f"{name}({self.address(buffer, indices)});")
            case _:
                super().statement(stmt, alone)

    def _line(self, stmts: list[ir.Stmt]) -> None:
        """Emit statements that follow each other; stores with pointers to the rows they share."""
        outside = self.rows
        self.rows = dict(outside)
        stores = [stmt for stmt in stmts if isinstance(stmt, ir.Store)]
        for row in shared_rows(stores, self._position, self.vector_bits):
            kind = self.storage_type(self.buffers[row.start.buffer].dtype)
            address = self.address(row.start.buffer, row.start.indices)
            name = self.names.fresh(f"{row.start.buffer}_row")
            self.scopes[-1].append(partial(self.names.release, name))
            for line in row.declaration(kind, name, address):
                self.line(line)
            self.rows[row.key] = name, row.offset
        for stmt in stmts:
            self.statement(stmt)
        self.rows = outside

    def _position(self, access: Access) -> arith.Linear | None:
        """The place of an access in its buffer; None for variables, and for lanes that are apart:
        GCC merges the stores of those only as they are.
        """
        name, indices = access.buffer, access.indices
        if self.is_variable(name) or self.distance(self.buffers[name], indices) not in (0, 1):
            return None
        return self.position(name, indices)

    def _forks(self, stmt: ir.Stmt) -> bool:
        """Tell whether the statement is a loop that threads share."""
        parallel = isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.PARALLEL
        return parallel and self.threads > 1 and not self.in_parallel

    def _team(self, loops: list[ir.Stmt]) -> None:
        """Parallel loops that follow each other: threads are started once, and wait in between."""
        self.lines.append(f"#pragma omp parallel num_threads({self.threads})")
        self.line("{")
        self.depth += 1
        for loop in loops:
            assert isinstance(loop, ir.For)
            self._parallel(loop, "#pragma omp for")
        self.depth -= 1
        self.line("}")

    def _parallel(self, loop: ir.For, pragma: str) -> None:
        if self.hooks is not None:
            self.line(self.hooks.loop(loop))
        share = "static, 1" if UNEVEN in dict(loop.annotations) else "static"
        self.lines.append(f"{pragma} schedule({share})")
        before, self.offset, self.slice = self.offset, 0, 0
        self.shared, self.in_parallel, self.is_parallel = before, True, True
        self._loop(loop, parallel=True)
        self.offset, self.in_parallel = before, False
        if self.hooks is not None:
            self.line(self.hooks.end())

    def _loop(self, loop: ir.For, parallel: bool = False) -> None:
        self._record_threads(loop, parallel)
        if loop.kind is ir.LoopKind.UNROLL:
            self.lines.append(f"#pragma GCC unroll {loop.extent}")
        with self.looping(loop.var, loop.extent) as name:
            start = 0 if parallel or self.hooks is not None else self._squares(loop, name)
            if start == loop.extent:
                return
            self.line(f"for (int64_t {name} = {start}; {name} < {loop.extent}; ++{name}) {{")
            self.depth += 1
            if parallel and self.hooks is not None:
                self.line(self.hooks.iteration(name))
            reason = why_scalar(
                loop, self.vector_bits, self.position, self.buffers, self.parameters
            )
            if reason:
                self.line(f"// no vectors here: {reason}")
                self.line(KEEP_SCALAR)
            self.depth -= 1
            begin = len(self.lines)
            if not parallel:
                self.streamed = streams.streamed(loop, self.large, self._vector_position)
                for buffer in sorted(self.streamed):
                    became(loop.var, f"stores {ir.print_name(buffer)} past the caches")
            self._block(loop.body)
            if parallel:
                self._divide_workspace(begin)
        self.line("}")
        if self.streamed:
            self.line(f"{self.helpers.need(streams.fence)}();")
            self.streamed = frozenset()

    def _squares(self, loop: ir.For, name: str) -> int:
        """Copy square by square what a loop transposes; the first iteration that is left."""
        copy = transposes.transposed(loop, self.position, self._array_distance)
        if copy is None or streams.streamed(loop, self.large, self._vector_position):
            return 0
        became(loop.var, f"transposes squares of {copy.size} x {copy.size}")
        self.line(f"for (int64_t {name} = 0; {name} < {copy.end}; {name} += {copy.size}) {{")
        self.depth += 1
        to, source = (self.address(one.buffer, one.indices) for one in (copy.to, copy.source))
        for call in transposes.calls(copy, self.helpers, to, source):
            self.line(call)
        self.depth -= 1
        self.line("}")
        return copy.end

    def _array_distance(self, buffer: str, indices: tuple[ir.Expr, ...]) -> int:
        return 0 if self.is_variable(buffer) else self.distance(self.buffers[buffer], indices)

    def _vector_position(self, store: ir.Store) -> arith.Linear | None:
        """The place where a whole vector of neighbours is stored; None for any other store."""
        if not 1 < store.value.dtype.lanes == whole(store.value.dtype).lanes:
            return None
        near = self._array_distance(store.buffer, store.indices) == 1
        return self.position(store.buffer, store.indices) if near else None

    def _record_threads(self, loop: ir.For, parallel: bool) -> None:
        if parallel:
            became(loop.var, f"on {min(self.threads, loop.extent)} threads")
            if loop.extent < self.threads:
                text = f"{loop.extent} iterations keep {loop.extent} of {self.threads} threads busy"
                missed("parallel", loop.var, text, "fuse it with the loop inside it")
        elif loop.kind is ir.LoopKind.PARALLEL:
            why = "it stands inside a parallel loop" if self.in_parallel else "the target has one"
            missed("parallel", loop.var, f"runs on one thread: {why}")
        elif loop.kind.is_bound:
            missed("parallel", loop.var, f"runs on one thread: {loop.kind.value} is of a GPU")

    def _declared(self, stmt: ir.Alloc, name: str, alone: bool) -> None:
        buffer = stmt.buffer
        kind = self.storage_type(buffer.dtype)
        count = elements_of(buffer)
        size = count * buffer.dtype.bits // 8 * whole(buffer.dtype).lanes
        before = (self.offset, self.on_stack)
        hooks = self.hooks
        if hooks is not None and not buffer.shape and not is_observed(stmt):
            hooks = None
        number = hooks.number(buffer) if hooks is not None else 0
        address, in_workspace = name, False
        if not buffer.shape:
            address = f"&{name}"
            if hooks is None and starts_with_store(stmt.body, buffer.name):
                self.undeclared[buffer.name] = stores(below_allocations(stmt))[buffer.name] == 1
            else:
                self.line(f"{kind} {name};")
        elif self._fits_stack(buffer.scope, size):
            self.on_stack += size
            stored(buffer.name, "stack", size)
            self.line(f"{kind} {name}[{count}] __attribute__((aligned({ALIGNMENT})));")
        else:
            in_workspace = True
            self.line(f"{kind} *restrict {name} = ({kind} *){self._reserve(buffer.name, size)};")
        if hooks is not None:
            self.line(hooks.begins(number, address, size))
        self.statement(stmt.body, alone)
        if hooks is not None and in_workspace:
            self.line(hooks.ends(number, address, size))
        self.offset, self.on_stack = before

    def _intrinsic(self, stmt: ir.Tensorized) -> None:
        """The call of an intrinsic instead of its loops."""
        intrinsic = declared(stmt.intrinsic)
        name = self.helpers.need_text(*definition(intrinsic))
        arguments = []
        for position, operand in enumerate(stmt.operands):
            arguments.append(self.address(operand.buffer, operand.indices))
            strides = operand_strides(stmt, position, self.buffers[operand.buffer])
            arguments.extend(map(str, strides))
        self.line(f"{name}({', '.join(arguments)});")

    def _fits_stack(self, scope: ir.Scope, size: int) -> bool:
        largest = SMALL_ARRAY if scope is ir.Scope.GLOBAL else STACK_LIMIT
        return size <= largest and self.on_stack + size <= STACK_TOTAL

    def _reserve(self, buffer: str, size: int) -> str:
        """The address of `size` bytes of workspace, each thread's own inside a parallel loop."""
        size = -(-size // ALIGNMENT) * ALIGNMENT + (GAP if self.hooks is not None else 0)
        start = self.offset
        self.offset += size
        if self.in_parallel:
            self.slice = max(self.slice, self.offset)
        else:
            self.workspace = max(self.workspace, self.offset)
        stored(buffer, "workspace", size, self.threads if self.in_parallel else 1)
        place = "slice" if self.in_parallel else "workspace"
        return f"({place} + {start})" if start else place

    def _divide_workspace(self, begin: int) -> None:
        """Declare a thread's slice of the workspace at the begin of a parallel loop's body, if that
        uses any: how long slices are is known at its end.
        """
        if not self.slice:
            return
        self.workspace = max(self.workspace, self.shared + self.slice * self.threads)
        first = f"workspace + {self.shared}" if self.shared else "workspace"
        number = f"(size_t){self.helpers.need(scalars.thread_number)}()"
        text = f"unsigned char *slice = {first} + {number} * {self.slice};"
        self.lines[begin:begin] = broken(indented(text, self.depth + 1))

    def _store(self, stmt: ir.Store) -> None:
        buffer, lanes = self.buffers[stmt.buffer], stmt.value.dtype.lanes
        if 1 < lanes < buffer.dtype.lanes:
            name = self.helpers.need(first_lanes.first, buffer.dtype, lanes)
            target = self.element(stmt.buffer, ())
            self.line(f"{target} = {name}({self.stored(stmt.value)}, {target});")
            return
        if lanes == 1 or buffer.dtype.lanes > 1:
            super()._store(stmt)
            return
        step = self.step(buffer, stmt.indices)
        dtype = buffer.dtype.with_lanes(lanes)
        streamed = stmt.buffer in self.streamed
        wanted = (streams.stream, dtype) if streamed else vectors.storing(dtype, step)
        name = self.helpers.need(*wanted)
        where = self.address(stmt.buffer, stmt.indices) + ("" if step == 1 else f", {step}")
        self.line(f"{name}({where}, {self.stored(stmt.value)});")
