"""The primitive that initialises a reduction in a nest of its own: decompose_reduction."""

from __future__ import annotations

from minitensor import arith, ir
from minitensor.arith import comes_late, init_nest, mixes, repeats
from minitensor.schedule import edit
from minitensor.schedule.arguments import BlockName, LoopName
from minitensor.schedule.batch import Batch, Effect, StepView
from minitensor.schedule.dependence import driven
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene

CARRIED = (ir.IterKind.REDUCE, ir.IterKind.ORDERED)


@primitive(
    rules={
        "R1": (
            "the block has an init, and alone writes its buffers",
            "decompose it once, and before a loop is cut in two",
        ),
        "R2": ("the loop is around the block", "name a loop around the block"),
        "R3": (
            "no loop outside it is part of the reduction",
            "name the outermost loop of the reduction, or one outside it",
        ),
        "R4": (
            "no loop from it inwards is part of the reduction and of another axis at once",
            "split or reorder so that the reduction has loops of its own",
        ),
        "R5": ("the loops from it inwards compute each element once", "name a loop further inside"),
        "R6": (
            "what the init reads has been computed before the loop",
            "compute_at further outside, or name a loop further inside",
        ),
    },
    alternatives="loop",
)
def decompose_reduction(program: ir.Program, block: BlockName, loop: LoopName) -> Rewritten[str]:
    """Initialise a reduction in a nest of its own, before a loop.

    decompose_reduction("C", "k")
        for i in range(8):                    for i in range(8):
            for k in range(64):                   C[i] = 0.0
                if k == 0:             =>         for k in range(64):
                    C[i] = 0.0                        C[i] += A[i, k]
                C[i] += A[i, k]

    Preserves  every output.
    Returns    the name of the new block, <block>_init; the old name stays with the update.
    """
    found = program.blocks[block]
    _require_init_and_only_writer(program, found)
    loops = edit.loops_around(program, block)
    names = [around.var for around in loops]

    if loop not in names:
        marks = ir.Marks(loops={loop: "not around it"}, blocks={block: "the block"})
        refuse("R2", marks=marks)
    depth = names.index(loop)
    for outer in loops[:depth]:
        if driven(found, outer.var, CARRIED):
            marks = ir.Marks(loops={outer.var: "part of the reduction", loop: "the loop"})
            refuse("R3", f"{ir.print_name(outer.var)} is", marks=marks)
    for inner in loops[depth:]:
        if mixes(found, inner.var):
            refuse(
                "R4", f"{ir.print_name(inner.var)} is", marks=ir.Marks(loops={inner.var: "both"})
            )
    again = repeats(found, loops, depth)
    if again is not None:
        marks = ir.Marks(loops={again: "repeats elements"})
        refuse("R5", f"{ir.print_name(again)} repeats elements", marks=marks)
    if late := comes_late(found, loops[depth]):
        marks = ir.Marks(blocks={b.name: "computes it" for b in ir.writers(program, late)})
        refuse("R6", f"{ir.print_name(late)} has not", marks=marks)
    fresh = edit.Fresh(program)
    name = fresh.block(f"{block}_init")
    own, init = init_nest(found, loops, depth, name, fresh.loop)
    target = ir.loop_sites(program)[loop].loop
    after = edit.spliced(
        program.replace(body=target), {id(found): edit.with_block(found, init=None)}
    ).body
    return edit.spliced(program, {id(target): ir.sequence(ir.nest(own, init), after)}), name


def _require_init_and_only_writer(program: ir.Program, block: ir.Block) -> None:
    """Rule R1."""
    others = [
        other.name
        for buffer in sorted(ir.stored_buffers(block.body))
        for other in ir.writers(program, buffer)
        if other.name != block.name
    ]
    if block.init is None or others:
        detail = f"{ir.print_name(others[0])} writes it too" if others else "it has no init"
        refuse("R1", detail, marks=ir.Marks(blocks=dict.fromkeys([block.name, *others], "here")))


@decompose_reduction.on_batch
def _decompose_batch(view: StepView) -> Effect:
    block, init = view.before.blocks[view.argument("block")], view.after.blocks[view.result]
    path = view.loops(block.name)
    depth = path.index(view.argument("loop"))
    own = view.loops_after(init.name)[depth:]
    axes = edit.spatial_iters(block)
    view.follow()

    def effect(batch: Batch) -> None:
        bound = batch.bound[block.name]
        reduced = [i.var for i in block.iters if i.var not in axes]
        carrying = {name for axis in reduced for name in arith.variables(bound[axis])}
        copied = [name for name in path[depth:] if name not in carrying]
        if len(copied) != len(own):
            raise arith.BatchError("which loops are part of a reduction depends on the numbers")
        values = {name: arith.Linear({}) for name in path[depth:]}
        for old, new in zip(copied, own):
            batch.extents[new] = batch.extents[old]
            values[old] = arith.variable(new)
        batch.bound[init.name] = {axis: arith.replaced(bound[axis], values) for axis in axes}
        sizes = batch.sizes[block.name]
        batch.sizes[init.name] = {axis: sizes[axis] for axis in axes}

    return effect


@decompose_reduction.random_call(often=2)
def _call_decompose_reduction(scene: Scene) -> None:
    block = scene.block()
    scene.do("decompose_reduction", block, scene.pick(scene.loops(block)))


class DecompositionPrimitives:
    """The primitives of this file, as methods of a Schedule."""

    decompose_reduction = decompose_reduction
