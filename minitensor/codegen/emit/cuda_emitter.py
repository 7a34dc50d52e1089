"""The emitter of CUDA: the function of one kernel, from its parts after `map_threads`.

A thread's own arrays are declared in the function, and end in registers where nvcc writes out the
loops that index them; those of a block are in shared memory. An index is an int where the ranges of
the loops prove that 32 bits hold every step of its computation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from minitensor import arith, ir
from minitensor.codegen.emit.c_types import elements_of
from minitensor.codegen.emit.cuda_names import CudaNames
from minitensor.codegen.emit.emitter import Emitter
from minitensor.codegen.emit.helpers import Helpers
from minitensor.codegen.emit.intrinsics import cuda_definition
from minitensor.codegen.emit.lines import INDENT, WIDTH
from minitensor.codegen.emit.variables import starts_with_store, stores
from minitensor.codegen.emit.widths import fits_int, wide_buffers
from minitensor.codegen.gpu.devices import MOST_STATIC_SHARED
from minitensor.codegen.gpu.kernels import SHARED_ALIGNMENT, Kernel, shared_offsets
from minitensor.codegen.intrinsics import (
    declared,
    fragments_in,
    holds_intrinsic,
    operand_strides,
)
from minitensor.codegen.passes.pipeline_copies import COPIES
from minitensor.errors import LoweringError

_RAW: Final = {4: "int", 8: "int2", 16: "int4"}
"""By its bytes, the type that copies a vector as it is."""


class CudaEmitter(Emitter):
    """Emits the function of one kernel.

    checks  the messages of the checks that fail as it runs, those of kernels before it first
    """

    status = "status"

    def __init__(
        self,
        helpers: Helpers,
        kernel: Kernel,
        visible: Sequence[ir.Buffer],
        host: Mapping[str, int],
        checks: list[str],
    ) -> None:
        """Prepare for a kernel.

        visible  the parameters of the program, then the device memory in scope
        host     the host's loops around the kernel, and their extents
        """
        used, written = _accessed(kernel.body)
        self.params = [buffer for buffer in visible if buffer.name in used]
        super().__init__(helpers, self.params, frozenset(written - _loaded(kernel.body)))
        self.names = CudaNames()
        self.kernel, self.written, self.checks = kernel, written, checks
        free = ir.free_vars(kernel.stmt)
        self.host = {var: extent for var, extent in host.items() if var in free}
        for buffer in kernel.shared:
            self.buffers[buffer.name] = buffer
        ranges = {var: arith.extent_range(extent) for var, extent in self.host.items()}
        self.index = "int" if fits_int(kernel.stmt, ranges, self.buffers) else "int64_t"
        self.wide = wide_buffers(kernel.body)
        self.fragments = fragments_in(kernel.body)
        self.asynchronous = {
            str(value)
            for loop in ir.loops_of(kernel.body)
            for key, value in loop.annotations
            if key.startswith(COPIES)
        }
        """The buffers in shared memory that are copied to while threads compute."""
        self.offsets, size = shared_offsets(kernel)
        fits = size + kernel.combined_bytes <= MOST_STATIC_SHARED
        self.dynamic = 0 if fits else size
        """The bytes of shared memory that the launch asks for."""
        self.shared = size - self.dynamic + kernel.combined_bytes
        """The bytes that the text declares."""

    @property
    def aligned(self) -> set[str]:
        """The parameters of which vectors are copied."""
        return self.wide & {buffer.name for buffer in self.params}

    def function(self, name: str) -> list[str]:
        """The lines of the function."""
        parameters = []
        for buffer in self.params:
            const = "" if buffer.name in self.written else "const "
            kind, own = self.storage_type(buffer.dtype), self.names.buffer(buffer.name)
            parameters.append(f"{const}{kind} *__restrict__ {own}")
        before = len(self.checks)
        self._shared_arrays()
        for var, extent in self.host.items():
            self.ranges[var] = arith.extent_range(extent)
            parameters.append(f"{self.index} {self.names.push(var)}")
        for loop in (*self.kernel.blocks, *self.kernel.threads):
            self.ranges[loop.var] = arith.extent_range(loop.extent)
            self.line(f"const {self.index} {self.names.push(loop.var)} = {loop.kind.value};")
        self.statement(self.kernel.body, alone=True)
        if len(self.checks) > before:
            parameters.append("int *status")
        x, y, z = self.kernel.block
        head = f'extern "C" __global__ void __launch_bounds__({x * y * z}) {name}('
        return [*signature(head, parameters), *self.lines, "}"]

    def _shared_arrays(self) -> None:
        if self.dynamic:
            self.line("DYNAMIC_SHARED(shared_memory);")
        for buffer in self.kernel.shared:
            name = self.names.push(buffer.name, buffer=True)
            kind = self.storage_type(buffer.dtype)
            if not self.dynamic:
                count = elements_of(buffer)
                self.line(f"__shared__ __align__({SHARED_ALIGNMENT}) {kind} {name}[{count}];")
            else:
                place = f"shared_memory + {self.offsets[buffer.name]}"
                self.line(f"{kind} *{name} = ({kind} *)({place});")

    # ---- statements

    def statement(self, stmt: ir.Stmt, alone: bool = False) -> None:
        """Emit a statement; `alone`: nothing else stands in the braces around it."""
        match stmt:
            case ir.Barrier():
                if self.asynchronous:
                    self.line("commit_async();")
                    self.line("wait_async<0>();")
                self.line("__syncthreads();")
            case ir.ThreadReduce():
                self._thread_reduce(stmt)
            case ir.If(condition, then, None) if holds_intrinsic(then):
                self._of_warp(condition, then)
            case ir.Tensorized():
                self._intrinsic(stmt)
            case _:
                super().statement(stmt, alone)

    def is_variable(self, name: str) -> bool:
        """Tell whether a buffer is a variable of the text, and no array."""
        shared = self.buffers[name].scope is ir.Scope.SHARED
        return super().is_variable(name) and not shared

    def _loop(self, loop: ir.For) -> None:
        if loop.kind in (ir.LoopKind.UNROLL, ir.LoopKind.VECTORIZE):
            self.lines.append("#pragma unroll")
        elif loop.kind is not ir.LoopKind.SERIAL:
            fact = f"the loop {ir.print_name(loop.var)} is {loop.kind.value}"
            raise LoweringError(f"{fact}, and stands inside the threads of a kernel")
        with self.looping(loop.var, loop.extent) as name:
            self.line(f"for ({self.index} {name} = 0; {name} < {loop.extent}; ++{name}) {{")
            self._block(loop.body)
        self.line("}")

    def _declared(self, stmt: ir.Alloc, name: str, alone: bool) -> None:
        buffer = stmt.buffer
        kind = self.storage_type(buffer.dtype)
        if buffer.name in self.fragments:
            self.line(f"{kind} {name}[{elements_of(buffer) // ir.WARP}];")
        elif buffer.shape:
            align = f"__align__({SHARED_ALIGNMENT}) " if buffer.name in self.wide else ""
            self.line(f"{align}{kind} {name}[{elements_of(buffer)}];")
        elif starts_with_store(stmt.body, buffer.name):
            self.undeclared[buffer.name] = stores(stmt.body)[buffer.name] == 1
        else:
            self.line(f"{kind} {name};")
        self.statement(stmt.body, alone)

    def _store(self, stmt: ir.Store) -> None:
        value = stmt.value
        size = value.dtype.lanes * value.dtype.bits // 8
        if self._is_asynchronous(stmt.buffer, value, size):
            assert isinstance(value, ir.Load)
            pointers = self.address(stmt.buffer, stmt.indices), self.address(*_place(value))
            self.line(f"copy_async{size}({', '.join(pointers)});")
            return
        if value.dtype.lanes == 1:
            super()._store(stmt)
            return
        if not isinstance(value, ir.Load):
            raise LoweringError(f"a vector of {ir.print_expr(value)} is no copy")
        raw = _RAW[size]
        to, source = self.address(stmt.buffer, stmt.indices), self.address(*_place(value))
        self.line(f"*({raw} *){_parenthesized(to)} = *(const {raw} *){_parenthesized(source)};")

    def _is_asynchronous(self, buffer: str, value: ir.Expr, size: int) -> bool:
        """Tell whether a value is copied from device memory while threads compute."""
        if buffer not in self.asynchronous or size not in _RAW or not isinstance(value, ir.Load):
            return False
        return self.buffers[value.buffer].scope is ir.Scope.GLOBAL

    # ---- intrinsics of warps

    def _of_warp(self, condition: ir.Expr, stmt: ir.Stmt) -> None:
        """Emit statements of thread 0 of a warp, of which the whole warp does the intrinsics."""
        if isinstance(stmt, ir.Seq):
            for child in stmt.stmts:
                self._of_warp(condition, child)
        elif not holds_intrinsic(stmt):
            self.statement(ir.If(condition, stmt))
        elif isinstance(stmt, ir.For):
            with_guard = ir.with_body(stmt, ir.If(condition, stmt.body))
            self.statement(with_guard)
        elif isinstance(stmt, ir.If):
            self.statement(ir.If(ir.conjunction((condition, stmt.condition)), stmt.then))
        elif isinstance(stmt, ir.Alloc):
            self.statement(ir.Alloc(stmt.buffer, ir.If(condition, stmt.body)))
        else:
            first = ir.equal(ir.Var(self._lane()), 0)
            rest = ir.conjunction(c for c in ir.conjuncts(condition) if c != first)
            self.statement(stmt if rest == ir.TRUE else ir.If(rest, ir.sequence(stmt)))

    def _lane(self) -> str:
        """The variable of threadIdx.x."""
        threads = [t.var for t in self.kernel.threads if t.kind is ir.LoopKind.THREAD_IDX_X]
        return threads[0] if threads else ""

    def _intrinsic(self, stmt: ir.Tensorized) -> None:
        """The call of an intrinsic by a warp instead of its loops."""
        intrinsic = declared(stmt.intrinsic)
        shown = ir.print_name(intrinsic.name)
        if not intrinsic.cuda:
            raise LoweringError(
                f"the intrinsic {shown} is one of a CPU, and stands in a kernel of a GPU; declare "
                "it with a body in CUDA (mt.intrinsic(…, cuda=…)), or leave tensorize out"
            )
        if self.kernel.block[0] != ir.WARP:
            raise LoweringError(
                f"the intrinsic {shown} is done by the {ir.WARP} threads of a warp, but blocks "
                f"have {self.kernel.block[0]} threads along x; bind loops of {ir.WARP} iterations "
                "to threadIdx.x in the kernel's other nests"
            )
        name = self.helpers.need_text(*cuda_definition(intrinsic))
        arguments = []
        for number, (meant, operand) in enumerate(zip(intrinsic.operands, stmt.operands)):
            buffer = self.buffers[operand.buffer]
            if meant.name in intrinsic.fragments:
                arguments.append(self._fragment(operand, meant))
                continue
            arguments.append(self.address(operand.buffer, operand.indices))
            arguments.extend(map(str, operand_strides(stmt, number, buffer)))
        self.line(f"{name}({', '.join(arguments)});")

    def _fragment(self, operand: ir.Load, meant: ir.Buffer) -> str:
        """The elements of this thread of an operand in the registers of a warp."""
        buffer = self.buffers[operand.buffer]
        if buffer.shape[-len(meant.shape) :] != meant.shape:
            raise LoweringError(
                f"{ir.print_name(buffer.name)} has the shape {list(buffer.shape)}, but is divided "
                f"among the threads of a warp in parts of {list(meant.shape)}, which must be its "
                "last axes: transform_layout it so"
            )
        count = math.prod(meant.shape) // ir.WARP
        place = self.position(operand.buffer, operand.indices).times(1).expr()
        size = math.prod(meant.shape)
        exact = arith.Simplifier(self.ranges).expr(place // size * count)
        return f"&{self.names.buffer(buffer.name)}[{self.expr(exact)}]"

    # ---- reductions across threads

    def _thread_reduce(self, stmt: ir.ThreadReduce) -> None:
        """Combine the values of the threads of a row: with shuffles in a warp, and by way of shared
        memory where a row is longer, or its threads are no aligned part of a warp.
        """
        x, y, z = self.kernel.block
        if x == 1:
            return
        self.line("{")
        self.depth += 1
        others = [self._register(buffer, "other") for buffer in stmt.buffers]
        if x % ir.WARP == 0 or ir.WARP % x == 0:
            lanes = min(x, ir.WARP)
            self.lines.append("#pragma unroll")
            self.line(f"for (int lanes = {lanes // 2}; lanes > 0; lanes /= 2) {{")
            self.depth += 1
            for buffer, other in zip(stmt.buffers, others):
                kind = self.storage_type(self.buffers[buffer].dtype)
                widened = "(int)" if self.buffers[buffer].dtype.bits < 32 else ""
                mine = self.names.buffer(buffer)
                value = f"__shfl_xor_sync(0xffffffffu, {widened}{mine}, lanes)"
                self.line(f"const {kind} {self.names.buffer(other)} = {value};")
            self._combine(stmt, others)
            self.depth -= 1
            self.line("}")
            if x > ir.WARP:
                self._across(stmt, others, x // ir.WARP, y * z, by_warp=True)
        else:
            self._across(stmt, others, x, y * z, by_warp=False)
        for other in others:
            self.names.pop(other, buffer=True)
        self.depth -= 1
        self.line("}")

    def _register(self, buffer: str, word: str) -> str:
        """A variable like another, in scope."""
        like = self.buffers[buffer]
        name = f"{buffer}_{word}"
        self.buffers[name] = ir.Buffer(name, (), like.dtype, ir.Scope.REGISTER)
        self.names.push(name, buffer=True)
        return name

    def _combine(self, stmt: ir.ThreadReduce, others: Sequence[str]) -> None:
        """Combine each variable with the other one."""

        def load(name: str) -> ir.Load:
            return ir.Load(name, (), self.buffers[name].dtype)

        old, new = tuple(map(load, stmt.buffers)), tuple(map(load, others))
        results = ir.apply_reducer(stmt.reducer, old, new)
        if len(results) == 1:
            self.statement(ir.Store(stmt.buffers[0], (), results[0]))
            return
        held = [self._register(buffer, "next") for buffer in stmt.buffers]
        for name, result in zip(held, results):
            self.undeclared[name] = True
            self.statement(ir.Store(name, (), result))
        for buffer, name in zip(stmt.buffers, held):
            self.statement(ir.Store(buffer, (), load(name)))
            self.names.pop(name, buffer=True)

    def _across(
        self, stmt: ir.ThreadReduce, others: Sequence[str], parts: int, rows: int, by_warp: bool
    ) -> None:
        """Combine what the parts of a row have, one after the other, in every thread."""
        _, y, _ = self.kernel.block
        row = " + ".join(["threadIdx.y"] * (y > 1) + [f"threadIdx.z * {y}"] * (rows > y))
        start = f"({row}) * {parts} + " if " + " in row else f"{row} * {parts} + " if row else ""
        arrays = []
        for buffer in stmt.buffers:
            kind = self.storage_type(self.buffers[buffer].dtype)
            arrays.append(self.names.fresh(f"{buffer}_parts"))
            self.line(f"__shared__ {kind} {arrays[-1]}[{rows * parts}];")
        mine = f"{start}threadIdx.x / {ir.WARP}" if by_warp else f"{start}threadIdx.x"
        only = f"if (threadIdx.x % {ir.WARP} == 0) " if by_warp else ""
        for buffer, array in zip(stmt.buffers, arrays):
            self.line(f"{only}{array}[{mine}] = {self.names.buffer(buffer)};")
        self.line("__syncthreads();")
        for buffer, array in zip(stmt.buffers, arrays):
            self.line(f"{self.names.buffer(buffer)} = {array}[{start}0];")
        self.line(f"for (int part = 1; part < {parts}; ++part) {{")
        self.depth += 1
        for buffer, array, other in zip(stmt.buffers, arrays, others):
            kind = self.storage_type(self.buffers[buffer].dtype)
            self.line(f"const {kind} {self.names.buffer(other)} = {array}[{start}part];")
        self._combine(stmt, others)
        self.depth -= 1
        self.line("}")
        self.line("__syncthreads();")
        for array in arrays:
            self.names.release(array)


def signature(head: str, parameters: Sequence[str]) -> list[str]:
    """The lines that open a function; `head` ends with a parenthesis."""
    line = f"{head}{', '.join(parameters)}) {{"
    if len(line) <= WIDTH or not parameters:
        return [line]
    *first, last = parameters
    return [head, *(f"{INDENT}{p}," for p in first), f"{INDENT}{last}) {{"]


def _place(load: ir.Load) -> tuple[str, tuple[ir.Expr, ...]]:
    return load.buffer, load.indices


def _parenthesized(address: str) -> str:
    return address if address[0] == "&" or address.isidentifier() else f"({address})"


def _accessed(stmt: ir.Stmt) -> tuple[set[str], set[str]]:
    """The buffers that a statement accesses, and those that it stores to."""
    written = ir.stored_buffers(stmt)
    return _loaded(stmt) | written, written


def _loaded(stmt: ir.Stmt) -> set[str]:
    return {load.buffer for load in ir.loads(stmt)}
