"""Handles that do not exist any more, and the steps that consumed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import ir
from minitensor.errors import shown
from minitensor.schedule.step import Step, resolved
from minitensor.schedule.trace import primitive_of


def consumed(
    name: str, history: Sequence[ir.Program], steps: Sequence[Step], results: Sequence[Any]
) -> str | None:
    """The step that replaced a name that was a loop or a block once, and the new names; None if
    there is no such step.

    history, steps, results  of a schedule
    """
    for number in range(len(steps) - 1, -1, -1):
        before, after = history[number], history[number + 1]
        if name in _names(before) and name not in _names(after):
            call = primitive_of(steps, number).call_text(
                {n: resolved(v, results) for n, v in steps[number].arguments.items()}
            )
            new = [n for n in _names(after) if n not in _names(before)]
            instead = "; it made " + ", ".join(map(shown, new[:6])) if new else ""
            return (
                f"{shown(name)} does not exist any more: step {number + 1}, {call}, "
                f"consumed it{instead}"
            )
    return None


def _names(program: ir.Program) -> dict[str, None]:
    return dict.fromkeys([*ir.loop_sites(program), *program.blocks])
