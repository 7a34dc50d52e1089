"""Faults planted into primitives and passes, for what is to find them.

Each takes a step that was right and makes it wrong in the way of a common mistake.
"""

import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from unittest.mock import patch

from minitensor.codegen import pipeline
from minitensor.codegen.gpu import barriers, frame, owners
from minitensor.ir import (
    TRUE,
    Binary,
    Block,
    Const,
    For,
    LoopKind,
    Ramp,
    Store,
    Var,
    conjunction,
    conjuncts,
    rewrite,
)
from minitensor.schedule import REGISTRY, invariants
from minitensor.testing import FailedError, check_pair, pair_of

Change = Callable[[object], object]
PAIRS = 400


def found(check, name):
    """The number of the first pair with which a check fails, and how it fails."""
    for n in range(PAIRS):
        try:
            check(pair_of(name, n))
        except FailedError as failed:
            return n, failed
    raise AssertionError(f"no pair of {PAIRS} shows {name}")


@contextmanager
def after(primitive, change):
    """A primitive whose program is changed after it has been made."""
    found = REGISTRY[primitive]
    right = found.function

    def wrong(program, *args, **kwargs):
        rewritten, result = right(program, *args, **kwargs)
        return change(program, rewritten, result), result

    object.__setattr__(found, "function", wrong)
    try:
        yield
    finally:
        object.__setattr__(found, "function", right)


@contextmanager
def instead(primitive, function):
    """A primitive that does something else."""
    found = REGISTRY[primitive]
    right = found.function
    object.__setattr__(found, "function", lambda *args, **kwargs: function(right, *args, **kwargs))
    try:
        yield
    finally:
        object.__setattr__(found, "function", right)


@contextmanager
def after_pass(name, change):
    """A pass of code generation whose program is changed after it has been made."""
    right = pipeline.PASSES

    def wrong(run):
        return lambda program, target: change(run(program, target))

    pipeline.PASSES = tuple((n, wrong(run) if n == name else run) for n, run in right)
    try:
        yield
    finally:
        pipeline.PASSES = right


def each(kind, change):
    """A change of a program: all its nodes of a kind."""
    return lambda program: program.replace(
        body=rewrite(program.body, lambda node: change(node) if isinstance(node, kind) else node)
    )


def without_last_guard(before, program, result):
    """The last of several conditions is forgotten, or the only one."""
    known = {name: block.predicate for name, block in before.blocks.items()}

    def change(block):
        new = [c for c in conjuncts(block.predicate) if c not in conjuncts(known[block.name])]
        kept = [c for c in conjuncts(block.predicate) if c not in new[-1:]]
        return replace(block, predicate=conjunction(kept) if kept else TRUE)

    return each(Block, change)(program)


def without_inits(before, program, result):
    """A reduction starts from what was there."""
    return each(Block, lambda block: replace(block, init=None))(program)


def starting_from_one(before, program, result):
    """Partial results start from 1: right for products only."""
    known = set(before.blocks)

    def change(block):
        if block.name in known or not isinstance(block.init, Store):
            return block
        value = block.init.value
        return replace(
            block, init=replace(block.init, value=Const(type(value.value)(1), value.dtype))
        )

    return each(Block, change)(program)


def one_short(before, program, result):
    """New loops miss their last iteration."""
    known = set(_loops(before))

    def change(loop):
        new = loop.var not in known and loop.extent > 1
        return replace(loop, extent=loop.extent - 1) if new else loop

    return each(For, change)(program)


def _loops(program):
    found = []
    each(For, lambda loop: found.append(loop.var) or loop)(program)
    return found


def swapped_digits(before, program, result):
    """// and % of the fused loop change places."""

    def change(node):
        if node.a == Var(result) and node.op in ("//", "%"):
            return Binary({"//": "%", "%": "//"}[node.op], node.a, node.b)
        return node

    return each(Binary, change)(program)


@contextmanager
def no_conflict():
    """A loop is made parallel whatever it carries, and this is not checked again."""

    def whatever(right, program, loop):
        def change(node):
            return replace(node, kind=LoopKind.PARALLEL) if node.var == loop else node

        return each(For, change)(program), None

    right = invariants.conflict
    invariants.conflict = lambda *args, **kwargs: None
    try:
        with instead("parallel", whatever):
            yield
    finally:
        invariants.conflict = right


def swapping(right, program, *args, **kwargs):
    """Inlines, and forgets that the block was needed elsewhere."""
    rewritten, result = right(program, *args, **kwargs)
    change = lambda node: Binary("-", node.b, node.a) if node.op == "-" else node
    return each(Binary, change)(rewritten), result


def raising(right, program, *args, **kwargs):
    """A bare exception from the inside, where the loop nest is deep."""
    if len(_loops(program)) > 3:
        raise KeyError("axes0")
    return right(program, *args, **kwargs)


def unrolled_without_last(program):
    """Loops of four end one early."""

    def change(loop):
        return replace(loop, extent=3) if loop.extent == 4 else loop

    return each(For, change)(program)


def strides_doubled(program):
    """Vectors of indices run twice as fast."""
    return each(Ramp, lambda ramp: Ramp(ramp.base, ramp.stride * 2, ramp.lanes))(program)


PRIMITIVES = {
    "split without its guard": lambda: after("split", without_last_guard),
    "fuse with its digits swapped": lambda: after("fuse", swapped_digits),
    "compute_at that is one short": lambda: after("compute_at", one_short),
    "cache_read that is one short": lambda: after("cache_read", one_short),
    "rfactor that starts from 1": lambda: after("rfactor", starting_from_one),
    "decompose_reduction that never starts": lambda: after("decompose_reduction", without_inits),
    "parallel whatever the loop carries": no_conflict,
    "compute_inline that swaps differences": lambda: instead("compute_inline", swapping),
    "reorder that raises KeyError": lambda: instead("reorder", raising),
}
"""Found by drawing a pair and running it in the interpreter."""

PASSES = {
    "loops of 4 that end early": lambda: after_pass("simplify", unrolled_without_last),
    "vectors at twice their stride": lambda: after_pass("vectorize_loops", strides_doubled),
}
"""Found by running the C."""

map_threads = import_module("minitensor.codegen.passes.map_threads")


def without_back_edges(placer, loop, path):
    """Accesses pending at the end of an iteration are dropped in the next one."""
    body = placer.after({}, loop.body, (*path, loop))
    return body._replace(stmt=replace(loop, body=body.stmt))


CUDA = {
    "no barriers": lambda: patch.object(map_threads, "with_barriers", lambda stmt, *rest: stmt),
    "no barriers between iterations": lambda: patch.object(
        barriers._Placer, "serial", without_back_edges
    ),
    "smaller nests without a guard": lambda: patch.object(
        frame._Flattener, "unit", lambda self, unit, path: (frame.of_thread_0(unit, path)[0], TRUE)
    ),
    "whatever others read is each thread's own": lambda: patch.object(
        owners, "is_owned", lambda *args: True
    ),
}
"""Found in kernels for a GPU."""


if __name__ == "__main__":  # the fault of a pass: how it fails
    with PASSES[sys.argv[1]]():
        print(found(check_pair, sys.argv[1])[1].failure.kind, end="")
