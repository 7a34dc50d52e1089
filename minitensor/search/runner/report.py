"""The error of a search in which no candidate works: the first reason, its schedule, and a command
that reproduces it.
"""

from __future__ import annotations

import contextlib
import hashlib
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
from minitensor.runtime import SOURCE, cache_folder, scratch_folder
from minitensor.schedule import Schedule
from minitensor.search.runner.build import WORKER, Candidate
from minitensor.search.runner.results import Result, failures_of
from minitensor.search.runner.runner import Runner
from minitensor.search.runner.task import Task

_FOLDER: Final = "failed"
_KEPT: Final = 8
"""Folders of failures; older ones are removed."""


def nothing_works(
    task: Task | str, candidates: Sequence[Candidate], results: Sequence[Result]
) -> TuningError:
    """The error for a search in which every candidate failed; the caller raises it.

    task  or the name of the program, where no task can reproduce a failure

    Its message counts the failures by kind and has the first one's; the text below has what the
    compiler printed, the schedule as Python, and a command that builds and measures it again, from
    a folder of the cache in which it is saved.
    Raises ArgumentError if there is no candidate, or one that worked.
    """
    if not results or len(results) != len(candidates) or any(r.ok for r in results):
        raise ArgumentError("expected candidates and their results, all of them failures")
    first, candidate = results[0], candidates[0]
    kinds = ", ".join(f"{f.count} {f.status.value}" for f in failures_of(results))
    name = print_name(task if isinstance(task, str) else task.name)
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
    if isinstance(task, Task) and (emitted := _emitted(task, candidate)) is not None:
        command = [sys.executable, "-m", WORKER, "reproduce", str(_saved(task, emitted))]
        lines += ["", "to reproduce it:", *_indented(shlex.join(command))]
    picture = "\n".join(lines)
    return TuningError(text, lambda: picture)


def reproduce(folder: Path) -> int:
    """Build and measure a candidate that `nothing_works` saved, and print its result.

    Returns an exit status: 0 if it works, 1 if it fails.
    """
    task, emitted = Task.load(folder)
    with Runner(task) as runner:
        (result,) = runner.measure([emitted])
    print(f"the text: {folder / SOURCE}")
    if result.details:
        print(result.details.rstrip())
    if result.ok:
        print(f"ok: {result.median:.3g} s a call, noise {result.noise:.1%}")
        return 0
    print(f"{result.status.value}: {result.message}")
    return 1


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
    """The folder that `reproduce` takes."""
    cache = cache_folder()
    key = hashlib.sha256(f"{task.name}\n{emitted.entry}\n{emitted.source}".encode())
    folder = cache / _FOLDER / key.hexdigest()[:16]
    with scratch_folder(cache) as scratch:
        made = scratch / folder.name
        made.mkdir()
        task.save(made, emitted)
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(made, folder)
        others = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)
        for old in others[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)
    return folder
