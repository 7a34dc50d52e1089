"""Programs that answers define: their parameters, and their results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from minitensor import ir
from minitensor.errors import MinitensorError, kind_of

from ..course.tasks import LackingError, as_python
from .values import brief

MOST_STEPS: Final = 200_000
"""Iterations of all loops of a program that is run, and elements of its buffers."""


def require_parameters(got: Any, wanted: Sequence[tuple[str, tuple[int, ...], str]]) -> None:
    """Raises LackingError for what is no program, and for other inputs or outputs.

    wanted  name, shape and dtype of each: the inputs first, in call order
    """
    if not isinstance(got, ir.Program):
        text = f"a program is wanted, as mt.lower returns it, not {brief(got)}"
        raise LackingError(text, ("got.inputs",))
    try:
        ir.verify(got)
        found = [(b.name, b.shape, str(b.dtype)) for b in (*got.inputs, *got.outputs)]
        steps = _iterations(got.body) + sum(math.prod(b.shape) for b in got.buffers.values())
    except MinitensorError:
        raise
    except Exception as failure:  # fields of any type
        raise LackingError(f"the program is malformed ({kind_of(failure)})") from None
    if found != list(wanted):
        text = ", ".join(f"{name} {list(shape)} {dtype}" for name, shape, dtype in found)
        right = ", ".join(f"{name} {list(shape)} {dtype}" for name, shape, dtype in wanted)
        lines = [
            "found = [(b.name, b.shape, str(b.dtype)) for b in (*got.inputs, *got.outputs)]",
            f"assert found == {list(wanted)!r}, found",
        ]
        text = f"the inputs and outputs are {text or 'none'}; wanted are {right}"
        raise LackingError(text, lines)
    if steps > MOST_STEPS:
        raise LackingError(f"it takes {steps:,} steps, which is too many to try")


def require_results(got: ir.Program, arrays: Sequence[np.ndarray], want: Sequence[Any]) -> None:
    """Raises LackingError for other results, in the interpreter. The parameters are right."""
    results, _ = ir.interpret(got, arrays, [b.name for b in got.outputs])
    for buffer, found, right in zip(got.outputs, results, want):
        if np.array_equal(found, right, equal_nan=True):
            continue
        at = tuple(np.argwhere(np.atleast_1d(found != right))[0].tolist())
        place = f"[{', '.join(map(str, at))}]"
        text = f"{buffer.name}{place} is {np.atleast_1d(found)[at]}, not {np.atleast_1d(right)[at]}"
        number = [b.name for b in got.outputs].index(buffer.name)
        lines = [
            f"arrays = [{', '.join(as_python(a) for a in arrays)}]",
            "results = mt.interpret(got, *arrays)",
            f"found = {f'results[{number}]' if len(got.outputs) > 1 else 'results'}",
            f"want = {as_python(np.asarray(right))}",
            "np.testing.assert_array_equal(found, want)",
        ]
        raise LackingError(f"for inputs {[a.tolist() for a in arrays]} {text}", lines)


def _iterations(stmt: ir.Stmt) -> int:
    """The iterations of all loops of a statement, those in blocks too."""
    inside = sum(_iterations(s) for s in ir.children(stmt) if isinstance(s, ir.Stmt))
    return stmt.extent * (1 + inside) if isinstance(stmt, ir.For) else inside
