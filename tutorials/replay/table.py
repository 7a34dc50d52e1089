"""A table of measured costs: a part of a workload's space, every program of it measured once.

A file is JSON, compressed. The definition of the workload is in it as Python text, and is read as a
small language: nothing of a file is run.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minitensor.codegen import Target
from minitensor.errors import ArgumentError, printable, reason_of
from minitensor.ir import Program
from minitensor.lang import definition_as_python, program_from_python
from minitensor.schedule import Trace
from minitensor.search.sketch import Derived, Sketch
from minitensor.search.space import Value
from minitensor.search.workload import workload_key


@dataclass(frozen=True)
class Table:
    """A part of the space of a workload, and what its programs cost.

    name      of the workload
    about     the machine, and when it was measured
    target    what programs were built for
    sketches  their traces, and the rules that led to them
    allowed   the values of each decision of each sketch
    programs  for each candidate, in the order of `TableSpace.names`, the number of its program; -1
              if it is refused
    seconds   of a call of each program; NaN while it is not measured, infinity for a failure
    """

    name: str
    about: str
    target: Target
    sketches: tuple[Sketch, ...]
    allowed: tuple[tuple[tuple[Value, ...], ...], ...]
    programs: Sequence[int]
    seconds: np.ndarray

    @property
    def program(self) -> Program:
        """The definition of the workload."""
        return self.sketches[0].program

    @property
    def best(self) -> float:
        """Seconds of the fastest program."""
        return float(np.nanmin(self.seconds))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file: the same table gives the same bytes. Raises OSError."""
        values = {
            "name": self.name,
            "about": self.about,
            "workload": workload_key(self.program),
            "definition": definition_as_python(self.program),
            "target": self.target.as_dict(),
            "sketches": [
                {"trace": s.to_json(), "history": [[d.block, d.rule, d.what] for d in s.history]}
                for s in self.sketches
            ],
            "allowed": self.allowed,
            "programs": list(self.programs),
            "seconds": [_as_json(s) for s in self.seconds],
        }
        text = json.dumps(values, separators=(",", ":"))
        Path(path).write_bytes(gzip.compress(text.encode("ascii"), mtime=0))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Table:
        """The table of a file that `save` wrote. Raises ArgumentError for another, OSError."""
        data = Path(path).read_bytes()
        try:
            return _table(json.loads(gzip.decompress(data)))
        except (LookupError, TypeError, ValueError, OSError, EOFError, zlib.error) as failure:
            raise ArgumentError(f"{path} is no table: {printable(reason_of(failure))}") from None


def _table(found: dict[str, Any]) -> Table:
    program = program_from_python(found["definition"])
    if workload_key(program) != found["workload"]:
        raise ValueError("its definition is of another workload")
    if not found["sketches"]:
        raise ValueError("it has no sketch")
    sketches = tuple(
        Sketch(program, Trace.from_json(s["trace"]), tuple(Derived(*d) for d in s["history"]))
        for s in found["sketches"]
    )
    allowed = tuple(
        tuple(tuple(tuple(v) if isinstance(v, list) else v for v in knob) for knob in knobs)
        for knobs in found["allowed"]
    )
    seconds = np.array([_from_json(s) for s in found["seconds"]], np.float64)
    target, name, about = Target(**found["target"]), found["name"], found["about"]
    return Table(name, about, target, sketches, allowed, found["programs"], seconds)


def _as_json(seconds: float) -> float | str | None:
    if math.isnan(seconds):
        return None
    return "failed" if math.isinf(seconds) else float(f"{seconds:.6g}")


def _from_json(value: float | str | None) -> float:
    return {None: math.nan, "failed": math.inf}.get(value, value)  # type: ignore[arg-type,return-value]
