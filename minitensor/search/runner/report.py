"""When no candidate works: the first reason, its schedule, and a command that shows it again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from minitensor.codegen import Emitted, generate_together
from minitensor.errors import ArgumentError, TuningError
from minitensor.ir import Program, print_name
from minitensor.runtime import cache_folder, scratch_folder
from minitensor.schedule import Schedule
from minitensor.search.runner.candidate import Candidate
from minitensor.search.runner.results import Result, failures_of
from minitensor.search.runner.task import Task

MODULE: Final = "minitensor.search.runner.again"
_FOLDER: Final = "failed"
_KEPT: Final = 8
"""Folders of failures; older ones are removed."""
_CANDIDATE: Final = "candidate.json"
_SOURCE: Final = "kernel.c"


def nothing_works(
    task: Task, candidates: Sequence[Candidate], results: Sequence[Result]
) -> TuningError:
    """The error for a search in which every candidate failed; the caller raises it.

    Its message counts the failures by kind and has the first one's; the text below has what the
    compiler printed, the schedule as Python, and a command that builds and measures it again, from
    a folder of the cache in which it is saved.
    Raises ArgumentError if there is no candidate, or one that worked.
    """
    if not results or len(results) != len(candidates) or any(r.ok for r in results):
        raise ArgumentError("expected candidates and their results, all of them failures")
    first, candidate = results[0], candidates[0]
    kinds = ", ".join(f"{f.count} {f.status.value}" for f in failures_of(results))
    name = print_name(task.name)
    count = f"none of {len(results)} candidates" if len(results) > 1 else "the only candidate"
    does = "works" if len(results) > 1 else "does not work"
    text = f"{count} of {name} {does} ({kinds}); the first: {first.status.value}: {first.message}"
    lines = []
    if first.details:
        lines += ["", "the compiler:", *_indented(first.details)]
    if first.command:
        lines += ["", "compiled by:", *_indented(shlex.join(first.command))]
    if isinstance(candidate, Schedule):
        lines += ["", "its schedule:", *_indented(candidate.trace.as_python() or "no steps")]
    emitted = _emitted(task, candidate)
    if emitted is not None:
        command = [sys.executable, "-m", MODULE, str(_saved(task, emitted))]
        lines += ["", "to see it again:", *_indented(shlex.join(command))]
    picture = "\n".join(lines)
    return TuningError(text, lambda: picture)


def load_saved(folder: Path) -> tuple[Task, Emitted]:
    """What `nothing_works` has saved."""
    task = Task.load(folder)
    told = json.loads((folder / _CANDIDATE).read_text(encoding="utf-8"))
    source = (folder / _SOURCE).read_text(encoding="utf-8")
    emitted = Emitted.restored(told, source, task.params, task.outputs, task.target)
    return task, emitted


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in text.rstrip().splitlines()]


def _emitted(task: Task, candidate: Candidate) -> Emitted | None:
    """The text of a candidate alone; None if code generation is what fails."""
    if isinstance(candidate, Emitted):
        return candidate
    program: Program = candidate.program if isinstance(candidate, Schedule) else candidate
    with contextlib.suppress(Exception):
        return generate_together([(program, task.target)])[0]
    return None


def _saved(task: Task, emitted: Emitted) -> Path:
    """The folder that `again` takes."""
    told = emitted.facts()
    facts = json.dumps([task.name, emitted.source, told]).encode()
    cache = cache_folder()
    folder = cache / _FOLDER / hashlib.sha256(facts).hexdigest()[:16]
    with scratch_folder(cache) as scratch:
        made = scratch / folder.name
        made.mkdir()
        task.save(made)
        (made / _SOURCE).write_text(emitted.source, encoding="utf-8")
        (made / _CANDIDATE).write_text(json.dumps(told), encoding="utf-8")
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(made, folder)
        others = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)
        for old in others[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)
    return folder
