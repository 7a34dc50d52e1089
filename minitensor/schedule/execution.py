"""Primitives that say how a loop is executed, and annotations."""

from __future__ import annotations

import math

from minitensor import arith, ir
from minitensor.schedule.arguments import (
    AnnotationKey,
    AnnotationValue,
    LoopName,
    LoopOrBlockName,
    ThreadName,
)
from minitensor.schedule.batch import Effect, StepView, unchanged
from minitensor.schedule.dependence import combines, conflict, driven, refuse_kind, require_serial
from minitensor.schedule.edit import spliced, with_block
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import RefusedError, refuse
from minitensor.schedule.rfactor import factored, rfactor
from minitensor.schedule.scene import Scene

LONGEST_UNROLL = 1024
"""The most copies of a loop's body that unrolling makes, with those of unrolled loops inside."""

_CONCURRENT_RULES = {
    "R1": (
        "the loop is serial",
        "make it serial again first, or split it before and decide for a part",
    ),
    "R2": (
        "the loop drives no reduction",
        "rfactor the loop first: its iterations then have elements of their own",
    ),
    "R3": ("the loop drives no ordered update", "choose a loop that the update does not carry"),
    "R4": (
        "no two iterations touch the same element, one of them writing",
        "choose a loop whose iterations write different elements",
    ),
}


_OF_A_FUSED_LOOP = "split the fused loop so that the reduction has loops of its own"


def _with_kind(program: ir.Program, loop: str, kind: ir.LoopKind) -> ir.Program:
    old = ir.loop_sites(program)[loop].loop
    return spliced(program, {id(old): ir.For(old.var, old.extent, old.body, kind, old.annotations)})


def _require_independent(
    program: ir.Program, name: str, kind: ir.LoopKind = ir.LoopKind.PARALLEL
) -> None:
    """Rules R2, R3, R4 of loops whose iterations run at the same time."""
    may_combine = kind is ir.LoopKind.THREAD_IDX_X
    for rule, driver, word, advice in (
        ("R2", ir.IterKind.REDUCE, "reduction", f'rfactor("{name}", axis=-1) first'),
        ("R3", ir.IterKind.ORDERED, "ordered update", ""),
    ):
        for block in ir.blocks_of(ir.loop_sites(program)[name].loop):
            if driven(block, name, (driver,)):
                if rule == "R2" and may_combine and combines(program, block, name):
                    continue
                marks = ir.Marks({name: f"drives the {word}"}, {block.name: word})
                fact = f"{ir.print_name(name)} drives the {word} of {ir.print_name(block.name)}"
                mixed = advice and arith.mixes(block, name)  # which rfactor refuses
                refuse(rule, fact, marks=marks, advice=_OF_A_FUSED_LOOP if mixed else advice)
    found = conflict(program, name, reductions=not may_combine)
    if found is not None:
        marks = found.marks(name, "iterations conflict")
        refuse("R4", found.describe(name), marks=marks)


@primitive(
    rules={
        **_CONCURRENT_RULES,
        "R5": (
            "the loop is not inside a parallel, vectorized or bound loop",
            "fuse it with the outer loop before deciding how that runs",
        ),
        "R6": (
            "no parallel or bound loop is inside the loop",
            "fuse the two before deciding how they run",
        ),
    },
    alternatives="loop",
)
def parallel(program: ir.Program, loop: LoopName) -> Rewritten[None]:
    """Run the iterations of a loop on the threads of the CPU.

    parallel("i")
        for i in range(64):            =>     for i in parallel(64):
            C[i] = f(i)                           C[i] = f(i)

    Preserves  every output.
    """
    found = require_serial(ir.loop_sites(program)[loop].loop)
    for outer in ir.loop_sites(program)[loop].outer:
        if outer.kind.is_concurrent:
            refuse_kind("R5", outer)
    for inner in ir.loops_of(found.body):
        if inner.kind.is_concurrent and inner.kind is not ir.LoopKind.VECTORIZE:
            refuse_kind("R6", inner)
    _require_independent(program, loop)
    return _with_kind(program, loop, ir.LoopKind.PARALLEL), None


parallel.on_batch(unchanged)


@parallel.random_call(often=2)
def _call_parallel(scene: Scene) -> None:
    scene.do("parallel", scene.loop())


@primitive(
    rules={
        **_CONCURRENT_RULES,
        "R2": (
            "the loop drives no reduction, or one that rfactor gives partial results",
            "choose a loop of one reduction, or vectorize the loop of an output's axis",
        ),
        "R5": (
            "the loop is not inside a vectorized loop",
            "fuse it with the vectorized loop, before that is vectorized",
        ),
        "R6": (
            "no parallel, vectorized or bound loop is inside the loop",
            "vectorize an inner loop",
        ),
    },
    alternatives="loop",
)
def vectorize(program: ir.Program, loop: LoopName) -> Rewritten[str | None]:
    """Run the iterations of a loop in the lanes of vector instructions.

    vectorize("j")
        for j in range(16):            =>     for j in vectorize(16):
            C[i, j] = A[i, j] + b[j]              C[i, j] = A[i, j] + b[j]

    The extent need not be that of a vector register: longer loops take several, and what remains
    is done with shorter vectors or one by one. The loop of a reduction is an `rfactor` first: each
    lane has a partial result, and they are combined at the end.

    Preserves  every output (floating point: up to rounding, if the loop drives a reduction).
    Returns    the name of the block of the partial results; None if the loop drives no reduction.
    """
    found = require_serial(ir.loop_sites(program)[loop].loop)
    for outer in ir.loop_sites(program)[loop].outer:
        if outer.kind is ir.LoopKind.VECTORIZE:
            refuse_kind("R5", outer)
    for inner in ir.loops_of(found.body):
        if inner.kind.is_concurrent:
            refuse_kind("R6", inner)
    program, partial = _with_partial_results(program, loop)
    _require_independent(program, loop)
    return _with_kind(program, loop, ir.LoopKind.VECTORIZE), partial


def _with_partial_results(program: ir.Program, loop: str) -> Rewritten[str | None]:
    """The program after `rfactor`, if the loop drives one reduction, and the new block's name."""
    blocks = ir.blocks_of(ir.loop_sites(program)[loop].loop)
    summed = [b.name for b in blocks if driven(b, loop, (ir.IterKind.REDUCE,))]
    if len(summed) != 1:
        return program, None
    try:
        return rfactor.function(program, loop, axis=-1)
    except RefusedError as refused:
        condition = f"{rfactor.rules[refused.rule]}: {refused.detail}"
        fact = (
            f"of {ir.print_name(summed[0])} it does not: its {refused.rule} asks that {condition}"
        )
        refuse("R2", fact, marks=refused.marks)


@vectorize.on_batch
def _vectorize_batch(view: StepView) -> Effect | None:
    if view.result is not None:
        return factored(view, axis=-1)
    unchanged(view)
    return None


@vectorize.random_call(often=2)
def _call_vectorize(scene: Scene) -> None:
    scene.do("vectorize", scene.loop())


@primitive(
    rules={
        "R1": (
            "the loop is serial",
            "make it serial again first, or split it before and unroll a part",
        ),
        "R2": (
            f"the body is repeated at most {LONGEST_UNROLL} times",
            "split it and unroll the inner part",
        ),
    },
    alternatives="loop",
)
def unroll(program: ir.Program, loop: LoopName) -> Rewritten[None]:
    """Write the iterations of a loop out, one after the other.

    unroll("i")
        for i in range(2):             =>     C[0] = f(0)
            C[i] = f(i)                       C[1] = f(1)

    (The printed program keeps the loop, as `unroll(2)`; code generation writes it out.)
    At most 1024 copies of a statement come of it, unrolled loops around and inside included. Around
    a tile that fills the vector registers the loop stays one, and `mt.explain` says so.

    Preserves  the order of iterations, every output.
    """
    found = require_serial(ir.loop_sites(program)[loop].loop)
    site = ir.loop_sites(program)[loop]
    copies = found.extent * _copies(found.body)
    for outer in site.outer:
        if outer.kind is ir.LoopKind.UNROLL:
            copies *= outer.extent
    if copies > LONGEST_UNROLL:
        refuse("R2", f"{copies} copies", marks=ir.Marks(loops={loop: "too long to unroll"}))
    return _with_kind(program, loop, ir.LoopKind.UNROLL), None


def _copies(stmt: ir.Stmt) -> int:
    """The number of copies of a statement that the unrolled loops inside make."""
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
        "R2": (
            "the loop drives no reduction, or it is bound to threadIdx.x and that combines what "
            "rfactor left",
            "rfactor the loop first: its iterations then have elements of their own",
        ),
        "R5": (
            "no loop around or inside it is parallel or bound to the same index, none around it "
            "vectorized",
            "bind each index once in a kernel: fuse the loops first",
        ),
        "R6": (
            "a blockIdx loop is not inside a threadIdx or vthread loop",
            "bind blocks outside threads: reorder the loops first",
        ),
        "R7": (
            f"a block has at most {ir.MOST_THREADS:,} threads, 64 along z, and a grid at most "
            "2**31 - 1 blocks along x, 65,535 along y and z",
            "split the loop and bind a part of it",
        ),
    },
    alternatives="loop",
)
def bind(program: ir.Program, loop: LoopName, thread: ThreadName) -> Rewritten[None]:
    """Bind a loop to an index of the GPU's grid: "blockIdx.x", "threadIdx.x", "vthread", …

    bind("i", "blockIdx.x")
        for i in range(64):            =>     for i in bind(64, "blockIdx.x"):
            C[i] = f(i)                           C[i] = f(i)

    Threads may combine the partial results of an `rfactor`: the loop that is left of the reduction
    is bound to "threadIdx.x".

    Preserves  every output (floating point: up to rounding, if the loop drives a reduction).
    """
    found = require_serial(ir.loop_sites(program)[loop].loop)
    site = ir.loop_sites(program)[loop]
    kind = ir.LoopKind(thread)
    for other in (*site.outer, *ir.loops_of(found.body)):
        same = other.kind is kind and kind is not ir.LoopKind.VTHREAD
        around = other in site.outer and other.kind is ir.LoopKind.VECTORIZE
        if same or around or other.kind is ir.LoopKind.PARALLEL:
            refuse_kind("R5", other)
    for other in ir.loops_of(found.body) if kind.is_thread else site.outer:
        if other.kind.is_bound and other.kind.is_thread != kind.is_thread:
            refuse_kind("R6", other)
    if found.extent > ir.MOST_ALONG.get(kind, found.extent):
        fact = f"{ir.print_name(loop)} has {found.extent:,} iterations"
        refuse("R7", fact, marks=ir.Marks({loop: "too long"}))
    _require_independent(program, loop, kind)
    bound = _with_kind(program, loop, kind)
    for nest in _thread_nests(bound, loop):
        if math.prod(one.extent for one in nest) > ir.MOST_THREADS:
            marks = ir.Marks({one.var: "threads" for one in nest})
            refuse("R7", " * ".join(f"{one.extent:,}" for one in nest), marks=marks)
    return bound, None


def _thread_nests(program: ir.Program, loop: str) -> list[list[ir.For]]:
    """For each block under a loop, the threadIdx loops around it."""
    blocks = ir.blocks_of(ir.loop_sites(program)[loop].loop)
    paths = [ir.paths(program)[block.name] for block in blocks]
    return [
        [one for one in path if one.kind.is_thread and one.kind in ir.MOST_ALONG] for path in paths
    ]


bind.on_batch(unchanged)


@bind.random_call()
def _call_bind(scene: Scene) -> None:
    scene.do("bind", scene.loop(), scene.pick(["blockIdx.x", "threadIdx.x", "vthread"]))


@primitive(
    rules={
        "R1": ("the loop is parallel, vectorized, unrolled or bound", "leave this step out"),
    },
    alternatives="loop",
)
def serial(program: ir.Program, loop: LoopName) -> Rewritten[None]:
    """Run the iterations of a loop one after the other again, as before it was made parallel,
    vectorized, unrolled or bound: the way back from those steps.

    serial("i")
        for i in parallel(64):         =>     for i in range(64):
            C[i] = f(i)                           C[i] = f(i)

    Preserves  every output.
    """
    found = ir.loop_sites(program)[loop].loop
    if found.kind in (ir.LoopKind.SERIAL, ir.LoopKind.TENSORIZE):
        refuse_kind("R1", found)
    return _with_kind(program, loop, ir.LoopKind.SERIAL), None


serial.on_batch(unchanged)


@serial.random_call()
def _call_serial(scene: Scene) -> None:
    """Mostly a loop that runs in another way."""
    others = [n.var for n in ir.loops_of(scene.program.body) if n.kind is not ir.LoopKind.SERIAL]
    scene.do("serial", scene.pick(others) if others and not scene.chance(10) else scene.loop())


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
    key = "" if scene.chance(10) else "note"
    scene.do("annotate", scene.pick([scene.loop(), scene.block()]), key, 1)


@primitive(rules={"R1": ("there is such an annotation", "name one that is there")})
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
        has = f"none called {key!r}" if present else "no annotation"
        refuse("R1", f"{ir.print_name(target)} has {has}", choices=sorted(present))
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
    serial = serial
    annotate = annotate
    unannotate = unannotate
