"""Primitives that say how a loop is executed, and annotations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from minitensor import ir
from minitensor.schedule.arguments import (
    AnnotationKey,
    AnnotationValue,
    LoopName,
    LoopOrBlockName,
    ThreadName,
)
from minitensor.schedule.batch import unchanged
from minitensor.schedule.dependence import driven, refuse_conflict
from minitensor.schedule.edit import spliced, with_block
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import accepted, refuse
from minitensor.schedule.scene import Scene

LONGEST_UNROLL = 1024
"""How many copies of a loop's body unrolling may make, together with the unrolled loops inside."""

_CONCURRENT_RULES = {
    "R1": "the loop is serial",
    "R2": "the loop drives no reduction",
    "R3": "the loop drives no ordered update",
    "R4": "no two iterations touch the same element, one of them writing",
}


def _with_kind(program: ir.Program, loop: str, kind: ir.LoopKind) -> ir.Program:
    old = ir.loop_sites(program)[loop].loop
    return spliced(program, {id(old): ir.For(old.var, old.extent, old.body, kind, old.annotations)})


def _require_serial(program: ir.Program, name: str) -> ir.For:
    loop = ir.loop_sites(program)[name].loop
    if loop.kind is not ir.LoopKind.SERIAL:
        marks = ir.Marks(loops={name: f"is {loop.kind.value}"})
        refuse("R1", f"{ir.print_name(name)} is {loop.kind.value} already", marks=marks)
    return loop


def _require_independent(program: ir.Program, name: str, step: Callable[[str], object]) -> None:
    """Rules R2, R3, R4 of what makes iterations concurrent, listing the loops that would do.

    step  the primitive for a loop of that name
    """
    loop = ir.loop_sites(program)[name].loop
    for rule, kind, word in (
        ("R2", ir.IterKind.REDUCE, "reduction"),
        ("R3", ir.IterKind.ORDERED, "ordered update"),
    ):
        for block in ir.blocks_of(loop):
            if driven(block, name, (kind,)):
                marks = ir.Marks({name: f"drives the {word}"}, {block.name: word})
                refuse(
                    rule,
                    f"{ir.print_name(name)} drives the {word} of {ir.print_name(block.name)}",
                    marks=marks,
                    choices=partial(_spatial_loops, program, block, step),
                )
    refuse_conflict(program, name, "R4", "iterations conflict")


def _spatial_loops(
    program: ir.Program, block: ir.Block, step: Callable[[str], object]
) -> list[str]:
    """The loops that drive spatial iters of a block, and that the step accepts."""
    spatial = [
        name for name in ir.loop_sites(program) if driven(block, name, (ir.IterKind.SPATIAL,))
    ]
    return accepted(spatial, step)


@primitive(
    rules={
        **_CONCURRENT_RULES,
        "R5": "the loop is not inside a parallel, vectorized or bound loop",
        "R6": "no parallel or bound loop is inside the loop",
    }
)
def parallel(program: ir.Program, loop: LoopName) -> Rewritten[None]:
    """Run the iterations of a loop on the threads of the CPU.

    parallel("i")
        for i in range(64):            =>     for i in parallel(64):
            C[i] = f(i)                           C[i] = f(i)

    Preserves  every output.
    """
    found = _require_serial(program, loop)
    for outer in ir.loop_sites(program)[loop].outer:
        if outer.kind.is_concurrent:
            marks = ir.Marks(loops={outer.var: f"is {outer.kind.value}", loop: "inside it"})
            refuse("R5", f"it is inside the {outer.kind.value} loop {outer.var}", marks=marks)
    for inner in ir.loops_of(found.body):
        if inner.kind.is_concurrent and inner.kind is not ir.LoopKind.VECTORIZE:
            marks = ir.Marks(loops={inner.var: f"is {inner.kind.value}"})
            refuse("R6", f"{ir.print_name(inner.var)} is {inner.kind.value}", marks=marks)
    _require_independent(program, loop, lambda name: parallel(program, name))
    return _with_kind(program, loop, ir.LoopKind.PARALLEL), None


parallel.on_batch(unchanged)


@parallel.random_call(often=2)
def _call_parallel(scene: Scene) -> None:
    scene.do("parallel", scene.loop())


@primitive(
    rules={
        **_CONCURRENT_RULES,
        "R5": "the loop is not inside a vectorized loop",
        "R6": "no parallel, vectorized or bound loop is inside the loop",
    }
)
def vectorize(program: ir.Program, loop: LoopName) -> Rewritten[None]:
    """Run the iterations of a loop in the lanes of vector instructions.

    vectorize("j")
        for j in range(16):            =>     for j in vectorize(16):
            C[i, j] = A[i, j] + b[j]              C[i, j] = A[i, j] + b[j]

    The extent need not be that of a vector register: longer loops take several, and what remains
    is done with shorter vectors or one by one.

    Preserves  every output.
    """
    found = _require_serial(program, loop)
    for outer in ir.loop_sites(program)[loop].outer:
        if outer.kind is ir.LoopKind.VECTORIZE:
            marks = ir.Marks(loops={outer.var: "is vectorized", loop: "inside it"})
            refuse("R5", f"it is inside {ir.print_name(outer.var)}", marks=marks)
    for inner in ir.loops_of(found.body):
        if inner.kind.is_concurrent:
            marks = ir.Marks(loops={inner.var: f"is {inner.kind.value}"})
            refuse("R6", f"{ir.print_name(inner.var)} is {inner.kind.value}", marks=marks)
    _require_independent(program, loop, lambda name: vectorize(program, name))
    return _with_kind(program, loop, ir.LoopKind.VECTORIZE), None


vectorize.on_batch(unchanged)


@vectorize.random_call(often=2)
def _call_vectorize(scene: Scene) -> None:
    scene.do("vectorize", scene.loop())


@primitive(
    rules={
        "R1": "the loop is serial",
        "R2": f"the body is repeated at most {LONGEST_UNROLL} times",
    }
)
def unroll(program: ir.Program, loop: LoopName) -> Rewritten[None]:
    """Write the iterations of a loop out, one after the other.

    unroll("i")
        for i in range(2):             =>     C[0] = f(0)
            C[i] = f(i)                       C[1] = f(1)

    (The printed program keeps the loop, as `unroll(2)`; code generation writes it out.)
    At most 1024 copies of a statement come of it, unrolled loops around and inside included.

    Preserves  the order of iterations, every output.
    """
    found = _require_serial(program, loop)
    site = ir.loop_sites(program)[loop]
    copies = found.extent * _copies(found.body)
    for outer in site.outer:
        if outer.kind is ir.LoopKind.UNROLL:
            copies *= outer.extent
    if copies > LONGEST_UNROLL:
        refuse("R2", f"{copies} copies", marks=ir.Marks(loops={loop: "too long to unroll"}))
    return _with_kind(program, loop, ir.LoopKind.UNROLL), None


def _copies(stmt: ir.Stmt) -> int:
    """How many copies of a statement inside the unrolled loops below make."""
    if isinstance(stmt, ir.For):
        here = stmt.extent if stmt.kind is ir.LoopKind.UNROLL else 1
        return max(1, here) * _copies(stmt.body)
    return max([1, *(_copies(child) for child in getattr(stmt, "stmts", ()))])


unroll.on_batch(unchanged)


@unroll.random_call(often=2)
def _call_unroll(scene: Scene) -> None:
    scene.do("unroll", scene.loop())


@primitive(
    rules={
        **_CONCURRENT_RULES,
        "R5": "no loop around or inside it is parallel or bound to the same index, none around it "
        "vectorized",
        "R6": "a blockIdx loop is not inside a threadIdx or vthread loop",
    }
)
def bind(program: ir.Program, loop: LoopName, thread: ThreadName) -> Rewritten[None]:
    """Bind a loop to an index of the GPU's grid: "blockIdx.x", "threadIdx.x", "vthread", …

    bind("i", "blockIdx.x")
        for i in range(64):            =>     for i in bind(64, "blockIdx.x"):
            C[i] = f(i)                           C[i] = f(i)

    Preserves  every output.
    """
    found = _require_serial(program, loop)
    site = ir.loop_sites(program)[loop]
    kind = ir.LoopKind(thread)
    for other in (*site.outer, *ir.loops_of(found.body)):
        same = other.kind is kind and kind is not ir.LoopKind.VTHREAD
        around = other in site.outer and other.kind is ir.LoopKind.VECTORIZE
        if same or around or other.kind is ir.LoopKind.PARALLEL:
            marks = ir.Marks(loops={other.var: f"is {other.kind.value}"})
            refuse("R5", f"{ir.print_name(other.var)} is {other.kind.value}", marks=marks)
    for other in ir.loops_of(found.body) if kind.is_thread else site.outer:
        if other.kind.is_bound and other.kind.is_thread != kind.is_thread:
            marks = ir.Marks(loops={other.var: f"is {other.kind.value}"})
            refuse("R6", f"{ir.print_name(other.var)} is {other.kind.value}", marks=marks)
    _require_independent(program, loop, lambda name: bind(program, name, thread))
    return _with_kind(program, loop, kind), None


bind.on_batch(unchanged)


@bind.random_call()
def _call_bind(scene: Scene) -> None:
    scene.do("bind", scene.loop(), scene.pick(["blockIdx.x", "threadIdx.x", "vthread"]))


@primitive(rules={})
def annotate(
    program: ir.Program, target: LoopOrBlockName, key: AnnotationKey, value: AnnotationValue
) -> Rewritten[None]:
    """Attach a note to a loop or a block; a second note under the same key replaces the first.

    annotate("i", "note", "hot")
        for i in range(64):            =>     for i in range(64):  # note = 'hot'

    Preserves  every output.
    """
    return _annotated(program, target, lambda notes: {**notes, key: value}), None


annotate.on_batch(unchanged)


@annotate.random_call()
def _call_annotate(scene: Scene) -> None:
    scene.do("annotate", scene.pick([scene.loop(), scene.block()]), "note", 1)


@primitive(rules={"R1": "there is such an annotation"})
def unannotate(program: ir.Program, target: LoopOrBlockName, key: AnnotationKey) -> Rewritten[None]:
    """Remove a note from a loop or a block.

    unannotate("i", "note")
        for i in range(64):  # note = 'hot'     =>     for i in range(64):

    Preserves  every output.
    """
    sites = ir.loop_sites(program)
    noted = sites[target].loop if target in sites else program.blocks[target]
    present = dict(noted.annotations)
    if key not in present:
        refuse("R1", f"{ir.print_name(target)} has none called {key!r}", choices=sorted(present))
    rest = {k: v for k, v in present.items() if k != key}
    return _annotated(program, target, lambda notes: rest), None


def _annotated(program: ir.Program, target: str, change) -> ir.Program:  # type: ignore[no-untyped-def]
    sites = ir.loop_sites(program)
    if target in sites:
        loop = sites[target].loop
        notes = tuple(change(dict(loop.annotations)).items())
        new: ir.Stmt = ir.For(loop.var, loop.extent, loop.body, loop.kind, notes)
        return spliced(program, {id(loop): new})
    block = program.blocks[target]
    notes = tuple(change(dict(block.annotations)).items())
    return spliced(program, {id(block): with_block(block, annotations=notes)})


unannotate.on_batch(unchanged)


@unannotate.random_call()
def _call_unannotate(scene: Scene) -> None:
    """Mostly something that has the annotation."""
    program = scene.program
    nodes: dict[str, ir.For | ir.Block] = {loop.var: loop for loop in ir.loops_of(program.body)}
    nodes |= program.blocks
    noted = [name for name, node in nodes.items() if "note" in dict(node.annotations)]
    name = scene.pick(noted) if noted and not scene.chance(20) else scene.loop()
    scene.do("unannotate", name, "note")


class ExecutionPrimitives:
    """The primitives of this file, as methods of a Schedule."""

    parallel = parallel
    vectorize = vectorize
    unroll = unroll
    bind = bind
    annotate = annotate
    unannotate = unannotate
