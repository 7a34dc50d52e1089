"""Padding: computed where it is read, so that no padded copy is needed."""

from __future__ import annotations

from typing import Final

from minitensor import ir
from minitensor.errors import ScheduleError
from minitensor.search.sketch.predicates import is_output
from minitensor.search.sketch.rules import Rule, Verdict
from minitensor.search.sketch.state import State


def is_padding(program: ir.Program, block: ir.Block) -> bool:
    """Whether it is a value under a condition and a number otherwise, read by one other block."""
    body = block.body
    if not isinstance(body, ir.Store) or block.init is not None or is_output(program, block):
        return False
    if any(i.kind is not ir.IterKind.SPATIAL for i in block.iters):
        return False
    branch = isinstance(body.value, ir.Select) and ir.Const in map(
        type, (body.value.a, body.value.b)
    )
    calls = any(isinstance(node, ir.Call) for node in ir.walk(body.value))
    return branch and not calls and len(readers(program, body.buffer)) == 1


def readers(program: ir.Program, buffer: str) -> list[str]:
    """The blocks that read a buffer."""
    return [b.name for b in program.blocks.values() if buffer in ir.accessed_buffers(b)[0]]


def _judge(state: State, cores: int) -> Verdict:
    return Verdict.APPLY if is_padding(state.program, state.block) else Verdict.SKIP


def _apply(state: State, cores: int) -> list[State]:
    schedule = state.schedule.copy()
    try:
        schedule.compute_inline(state.name)
    except ScheduleError:
        return []
    return [state.after("inline padding", "decided where it is read", schedule)]


PADDING: Final = Rule("inline padding", _judge, _apply)
