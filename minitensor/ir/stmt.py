"""Statements, and the records they are made of: buffers, block iters, reducers.

Stmt = For(var, extent, body, kind)   var = 0 … extent-1
     | Seq(stmts)                     one after the other
     | Block(name, iters, predicate, init, body)
     | Store(buffer, indices, value)
     | Reduce(reducer, buffers, indices, values)
     | If(condition, then, otherwise)
     | Alloc(buffer, body)            } only made
     | Barrier()                      } by code
     | ThreadReduce(reducer, …)       } generation
     | Prefetch(buffer, indices)      }
     | Tensorized(intrinsic, …, body) }

A **block** is the unit of scheduling. It has a domain of its own, the product of its iters; each
iter is bound to an expression of the loops around it, and inside the block only the iters are
visible. One execution of the block with all iters bound is an *instance*. An instance whose
predicate is false does nothing. `init` runs before `body` in the instances whose REDUCE and ORDERED
iters are all 0. So loop transformations rewrite bindings and predicates and never look inside.

A **reduction** is the statement Reduce: it combines `values` into the elements at `indices`, one of
each buffer, by a reducer that is associative and commutative. Iterations of REDUCE iters may
therefore run in any order, those of ORDERED iters may not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, TypeAlias

from minitensor.ir.dtype import DType
from minitensor.ir.expr import TRUE, Const, Expr, Load, Var
from minitensor.ir.facts import Subject

Annotation: TypeAlias = str | int | float | bool
Annotations: TypeAlias = tuple[tuple[str, Annotation], ...]


class Scope(str, Enum):
    """The memory that holds a buffer."""

    GLOBAL = "global"
    """Main memory. Parameters are always here; any size."""
    LOCAL = "local"
    """Private to a thread: the stack on a CPU, local memory on a GPU. For small tiles."""
    REGISTER = "register"
    """As LOCAL, and meant to end in registers: for accumulator tiles whose loops are unrolled."""
    SHARED = "shared"
    """Shared by the threads of a GPU block; one instance a block."""
    ACC_INPUT, ACC_WEIGHT, ACC_ACCUMULATOR = "acc.input", "acc.weight", "acc.accumulator"
    """The memories of an accelerator (see `accelerator.Machine`); elsewhere as LOCAL."""


class LoopKind(str, Enum):
    """The way in which the iterations of a loop are executed."""

    SERIAL = "serial"
    """One after the other. Always legal; required by every primitive that restructures loops."""
    PARALLEL = "parallel"
    """On the threads of a CPU. For an outer loop whose iterations are independent."""
    VECTORIZE = "vectorize"
    """In the lanes of vector instructions. For an inner loop with unit-stride access."""
    UNROLL = "unroll"
    """Written out. Always legal; for short inner loops, so that their arrays become registers."""
    BLOCK_IDX_X = "blockIdx.x"
    """A GPU block index. Independent iterations that share nothing."""
    BLOCK_IDX_Y = "blockIdx.y"
    """As blockIdx.x."""
    BLOCK_IDX_Z = "blockIdx.z"
    """As blockIdx.x."""
    THREAD_IDX_X = "threadIdx.x"
    """A GPU thread index: iterations share SHARED buffers and meet at barriers."""
    THREAD_IDX_Y = "threadIdx.y"
    """As threadIdx.x."""
    THREAD_IDX_Z = "threadIdx.z"
    """As threadIdx.x."""
    VTHREAD = "vthread"
    """A virtual thread: unrolled inside one GPU thread, striding over its tile."""
    TENSORIZE = "tensorize"
    """All of them at once, by an intrinsic that the outermost such loop names (see `intrinsic`)."""

    @property
    def is_concurrent(self) -> bool:
        """Tell whether two iterations may run at the same time, so that they must not conflict."""
        return self not in (LoopKind.SERIAL, LoopKind.UNROLL, LoopKind.TENSORIZE)

    @property
    def is_thread(self) -> bool:
        """Tell whether iterations are threads of one GPU block (they share SHARED buffers)."""
        return self.value.startswith("threadIdx") or self is LoopKind.VTHREAD

    @property
    def is_bound(self) -> bool:
        """Tell whether the loop is bound to a GPU index."""
        return self.is_thread or self.value.startswith("blockIdx")


WARP: Final = 32
"""Threads of a GPU block that execute together."""
MOST_THREADS: Final = 1024
"""The most threads of a GPU block."""
MOST_ALONG: Final[Mapping[LoopKind, int]] = {
    LoopKind.BLOCK_IDX_X: 2**31 - 1,
    LoopKind.BLOCK_IDX_Y: 65535,
    LoopKind.BLOCK_IDX_Z: 65535,
    LoopKind.THREAD_IDX_X: 1024,
    LoopKind.THREAD_IDX_Y: 1024,
    LoopKind.THREAD_IDX_Z: 64,
}
"""The most blocks of a grid, and threads of a block, along each index: those of all GPUs since 2012
(CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")."""


class IterKind(str, Enum):
    """The dependence between iterations along one axis of a block's domain."""

    SPATIAL = "spatial"
    """Each writes its own element: any order, at the same time, or more than once."""
    REDUCE = "reduce"
    """All combine into the same element by a commutative reducer: any order, each exactly once."""
    ORDERED = "ordered"
    """Each may read what the one before wrote: in order, each exactly once."""


@dataclass(frozen=True, slots=True)
class Buffer(Subject):
    """A dense array.

    alignment: (axis, factor, offset) triples; the stride of `axis` is padded to be `offset` more
    than a multiple of `factor` elements (see storage_align).
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    scope: Scope = Scope.GLOBAL
    alignment: tuple[tuple[int, int, int], ...] = ()

    @property
    def nbytes(self) -> int:
        """The bytes of all elements, without what an alignment leaves free."""
        return math.prod(self.shape) * self.dtype.lanes * self.dtype.bits // 8


def strides_of(buffer: Buffer) -> tuple[int, ...]:
    """The stride of each axis in elements, those with an alignment enlarged to have it."""
    wanted = {axis: (factor, offset) for axis, factor, offset in buffer.alignment}
    strides: list[int] = []
    stride = 1
    for axis in reversed(range(len(buffer.shape))):
        factor, offset = wanted.get(axis, (1, 0))
        stride += (offset - stride) % factor
        strides.append(stride)
        stride *= buffer.shape[axis]
    return tuple(reversed(strides))


@dataclass(frozen=True, slots=True)
class Reducer:
    """An associative and commutative combination of tuples, with its identity.

    `results` are expressions of the variables `lhs` (accumulated) and `rhs` (new); combining any
    value with the identity gives that value.
    """

    name: str
    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    results: tuple[Expr, ...]
    identity: tuple[Const, ...]


@dataclass(frozen=True, slots=True)
class Iter(Subject):
    """One axis of a block's domain, 0 … extent-1, and the expression of the loops that it takes."""

    var: str
    extent: int
    kind: IterKind
    binding: Expr


@dataclass(frozen=True, slots=True)
class For(Subject):
    """A loop from 0 to extent-1."""

    var: str
    extent: int
    body: Stmt
    kind: LoopKind = LoopKind.SERIAL
    annotations: Annotations = ()


@dataclass(frozen=True, slots=True)
class Seq(Subject):
    """Statements in order; the empty one does nothing."""

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Block(Subject):
    """The unit of scheduling; see the module's text."""

    READING_ORDER: ClassVar[Any] = ("name", "iters", "predicate", "init", "body", "annotations")
    name: str
    iters: tuple[Iter, ...]
    body: Stmt
    init: Stmt | None = None
    predicate: Expr = TRUE
    annotations: Annotations = ()


@dataclass(frozen=True, slots=True)
class Store(Subject):
    """buffer[indices] = value."""

    buffer: str
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Reduce(Subject):
    """(buffers[indices]) = reducer((buffers[indices]), values), all of the tuple at once."""

    reducer: Reducer
    buffers: tuple[str, ...]
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class If(Subject):
    """`then` where the condition holds, else `otherwise`."""

    condition: Expr
    then: Stmt
    otherwise: Stmt | None = None


@dataclass(frozen=True, slots=True)
class Alloc(Subject):
    """A buffer that exists, uninitialised at first, while `body` runs."""

    buffer: Buffer
    body: Stmt


@dataclass(frozen=True, slots=True)
class Barrier(Subject):
    """All threads of the block wait for each other; what they wrote is then visible to all."""


@dataclass(frozen=True, slots=True)
class ThreadReduce(Subject):
    """The threads of a block that differ only in `thread` combine what each holds in the buffers,
    and each then holds the result. All threads of the block must reach it, as a barrier; unlike
    one it makes nothing else visible.

    buffers  of a single element, one for each value of the reducer's tuple; each thread's own
    """

    reducer: Reducer
    thread: LoopKind
    buffers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prefetch(Subject):
    """A hint to load the cache line of an element, which exists; its value is not asked for."""

    buffer: str
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Tensorized(Subject):
    """`body`, done by an intrinsic.

    intrinsic  its key (see `intrinsic`)
    operands   for each operand the first element that it touches
    axes       for each operand and axis the axis of the buffer along which it runs; None for an
               axis of which only the first element is touched
    body       the loops that say what is done: what is executed by the interpreter and seen by
               every pass; only the emitter writes a call instead
    """

    intrinsic: str
    operands: tuple[Load, ...]
    axes: tuple[tuple[int | None, ...], ...]
    body: Stmt


Stmt: TypeAlias = (
    For | Seq | Block | Store | Reduce | If | Alloc | Barrier | ThreadReduce | Prefetch | Tensorized
)
Node: TypeAlias = Expr | Stmt | Iter

NOTHING: Final = Seq(())


def with_body(loop: For, body: Stmt) -> For:
    """The same loop around something else."""
    return For(loop.var, loop.extent, body, loop.kind, loop.annotations)


def nest(loops: Iterable[For], body: Stmt) -> Stmt:
    """The loops, outermost first, around a statement; their own bodies do not matter."""
    for loop in reversed(tuple(loops)):
        body = with_body(loop, body)
    return body


def allocated(buffers: Iterable[Buffer], body: Stmt) -> Stmt:
    """A statement inside of the allocations of buffers, the first outermost."""
    for buffer in reversed(tuple(buffers)):
        body = Alloc(buffer, body)
    return body


def sequence(*stmts: Stmt) -> Stmt:
    """The statements in order: nested sequences opened, a single one as itself."""
    flat: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, Seq):
            flat.extend(stmt.stmts)
        else:
            flat.append(stmt)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))
