"""Primitives of one's own: a declared one, and plain functions."""

import minitensor as mt
from minitensor import ir
from minitensor.schedule import LoopName


@mt.primitive(rules={"R1": "the loop has an even extent"})
def halve(program: ir.Program, loop: LoopName, *, inner: bool = True):
    """Split a loop in two halves.

    halve("i")
        for i in range(8):             =>     for i_0 in range(4): for i_1 in range(2):

    Returns    the names of the new loops.
    """
    extent = ir.loop_sites(program)[loop].loop.extent
    if extent % 2:
        mt.refuse("R1", f"{extent} iterations", marks=ir.Marks(loops={loop: "odd"}))
    return mt.schedule.REGISTRY["split"](program, loop, [None, 2] if inner else [2, None])


def renamed(program, old, new):
    """A plain function that returns a program alone."""
    node = ir.loop_sites(program)[old].loop

    def one(stmt):
        if isinstance(stmt, ir.For):
            is_it = stmt.var == old
            return ir.For(new if is_it else stmt.var, stmt.extent, one(stmt.body), stmt.kind)
        if isinstance(stmt, ir.Block):
            return ir.substitute(stmt, {old: ir.Var(new)})
        return ir.map_stmts(stmt, one)

    return program.replace(body=one(program.body)) if node else program


def wrong(program):
    """A function that forgets what to return."""


def malformed(program):
    """A function that returns a program that does not verify."""
    return program.replace(body=ir.For("i", 4, program.body)), None
