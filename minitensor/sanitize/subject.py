"""What can be checked: a program, or a schedule, which has one."""

from __future__ import annotations

from typing import Any

from minitensor.errors import unexpected
from minitensor.ir import Program


def program_of(what: Any) -> Program:
    """The program itself, or that of a schedule. Raises ArgumentError for anything else."""
    program = getattr(what, "program", what)
    if not isinstance(program, Program):
        raise unexpected("a schedule or a program", "what", what)
    return program
