"""A reduction over the threads of a block: they combine what each holds, and thread 0 combines that
into the element.

    for t in bind(32, "threadIdx.x"):           v = 0.0
        C[i] += C_rf[i, t]               =>     v = C_rf[i, t]
                                                v = thread_reduce(sum, v)
                                                if t == 0:
                                                    C[i] = C[i] + v
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minitensor import arith, ir


def combining_thread(block: ir.Block, loops: Sequence[ir.For]) -> ir.For | None:
    """The loop whose threads combine into the elements of a block; None if there is none."""
    for loop in loops:
        is_thread = loop.kind is ir.LoopKind.THREAD_IDX_X and loop.extent > 1
        if is_thread and arith.carries(block, loop.var):
            return loop
    return None


def over_threads(
    block: ir.Block,
    loop: ir.For,
    names: set[str],
    init: ir.Stmt,
    reduction: Callable[[ir.Reduce], ir.Stmt],
) -> ir.Stmt:
    """The plain statements of a block over the threads of a loop.

    names      those that are taken
    init       what starts the elements, if it stands here
    reduction  writes out what combines into the elements
    """
    body: ir.Stmt = ir.substitute(block.body, {i.var: i.binding for i in block.iters})
    given = block.predicate
    if isinstance(body, ir.If):
        given = ir.conjunction((given, body.condition))
        body = body.then
    assert isinstance(body, ir.Reduce)
    held = [
        ir.Buffer(ir.fresh_name(f"{name}_thread", names), (), value.dtype, ir.Scope.REGISTER)
        for name, value in zip(body.buffers, body.values)
    ]
    nothing = [ir.Store(b.name, (), one) for b, one in zip(held, body.reducer.identity)]
    something = [ir.Store(b.name, (), value) for b, value in zip(held, body.values)]
    combined = tuple(ir.Load(b.name, (), b.dtype) for b in held)
    elements = reduction(ir.Reduce(body.reducer, body.buffers, body.indices, combined))
    always = [part for part in ir.conjuncts(given) if not _varies(part, loop.var)]
    alone = guarded(ir.conjunction(always), ir.sequence(init, elements))
    return ir.allocated(
        held,
        ir.sequence(
            *nothing,
            guarded(given, ir.sequence(*something)),
            ir.ThreadReduce(body.reducer, loop.kind, tuple(b.name for b in held)),
            ir.If(ir.equal(ir.Var(loop.var), 0), alone),
        ),
    )


def guarded(condition: ir.Expr, stmt: ir.Stmt) -> ir.Stmt:
    """The statement, executed where the condition holds."""
    return stmt if condition == ir.TRUE or stmt == ir.NOTHING else ir.If(condition, stmt)


def _varies(condition: ir.Expr, loop: str) -> bool:
    """Tell whether a condition may differ between the iterations of a loop."""
    return ir.mentions(condition, loop) or bool(ir.loads(condition))
