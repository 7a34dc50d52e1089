"""The judging process: it has a student's answers given by others, and judges them.

    verdict = check_task(find("03"), task, "03_tasks.py", seed="secret")

A wrong answer comes with a script that shows it. A loop without end, a crash, too much output cost
the task they are in, and nothing else. Files of minitensor and of the course that an answer changed
are put back.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import minitensor
from minitensor.errors import MinitensorError, kind_of, printable
from minitensor.runtime import Worker, WorkerError

from .lessons import Lesson
from .place import PACKAGE, ROOT, path_lines
from .tasks import Case, LackingError, Task
from .wire import MOST_SHOWN, decode

SEED: Final = "course"
"""The usual seed of hidden cases; a teacher takes one that is secret."""
_STARTING: Final = 20.0
"""Seconds for a process to begin."""
_SLOWER: Final = 3.0
"""Parts of a task's time that all cases may take together, on a machine that does other things."""
_SAFE: Final = {"PYTHONSAFEPATH": "1"}
"""A student's random.py is no module of that process (from Python 3.11 on)."""
_OURS: Final = (Path(minitensor.__file__).parent, ROOT)
"""Folders that no answer may change."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on an answer.

    lesson, task  their number and name
    points        what the task counts
    lacking       the property that is lacking, as a sentence; "" for a right answer
    script        Python that shows it, and fails; "" where there is nothing to run
    printed       what the answer printed, as far as it is kept
    seconds       that it took
    hidden        True for a task of a lecturer's file: a student should not see the verdict
    """

    lesson: str
    task: str
    points: int
    lacking: str = ""
    script: str = ""
    printed: str = ""
    seconds: float = 0.0
    hidden: bool = False

    @property
    def passed(self) -> bool:
        """True for a right answer."""
        return not self.lacking


def check_task(
    lesson: Lesson, task: Task, file: Path, seed: str = SEED, hidden: Path | None = None
) -> Verdict:
    """The verdict on a student's file, which runs in a process of its own.

    hidden  the file that the task is from (see `tasks_in`); None if it is the lesson's
    """
    began = time.monotonic()
    if not _is_file(file):
        lacking = (
            f"there is no file {printable(str(file)[:200])}; go to the folder of the course (cd), "
        )
        lacking, script, printed = lacking + "or name it with --dir", "", ""
    else:
        drawn = f"{seed}:{lesson.number}:{task.name}"
        with unchanged() as changed:
            reply = _replied(lesson, task, file, drawn, hidden)
        lacking, script = judged(task, task.cases(random.Random(drawn)), reply, lesson.number, file)
        printed = str(reply.get("printed", ""))[:MOST_SHOWN]
        if changed:
            lacking, script = f"it wrote over {changed[0]}, which is as it was again", ""
    spent = time.monotonic() - began
    found = lesson.number, task.name, task.points, lacking, script, printed, spent
    return Verdict(*found, hidden is not None)


def _is_file(path: Path) -> bool:
    with suppress(OSError, ValueError):  # no file can have that name
        return path.is_file()
    return False


def _replied(
    lesson: Lesson, task: Task, file: Path, seed: str, hidden: Path | None
) -> Mapping[str, Any]:
    """The last reply of the student's process; "stopped" in it says why there was none."""
    at: dict[str, Any] = {}
    folder = tempfile.mkdtemp(prefix="minitensor-course-")
    try:
        with Worker.start(f"{PACKAGE}.course.submission", variables=_variables(folder)) as worker:
            request = {"lesson": lesson.number, "task": task.name, "seed": seed}
            request["hidden"] = str(hidden.resolve()) if hidden is not None else ""
            worker.send({**request, "file": str(file.resolve())})
            at = worker.receive(_STARTING)
            until = time.monotonic() + _SLOWER * task.seconds
            while "at" in at:
                left = until - time.monotonic()
                at = worker.receive(max(0.1, min(task.seconds, left)))
            return at
    except WorkerError as failure:
        text = failure.message.splitlines()[0]
        return {"stopped": printable(text[:300])}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _variables(temporary: str) -> dict[str, str | None]:
    """The environment of a student's process, in which this copy of the course is found."""
    paths = [*(folder.parent for folder in _OURS), os.environ.get("PYTHONPATH")]
    path = os.pathsep.join(dict.fromkeys(str(one) for one in paths if one))
    return {**_SAFE, "PYTHONPATH": path, "TMPDIR": temporary}


def judged(
    task: Task, cases: Sequence[Case], reply: Mapping[str, Any], lesson: str, file: Path
) -> tuple[str, str]:
    """The property that is lacking, and a script; both "" for a right answer.

    reply  untrusted: what `submission.answers` gives, or anything
    """
    if "failed" in reply:
        return str(reply["failed"]), ""
    try:
        got = [decode(data) for data in reply.get("answers", [])]
    except (MinitensorError, TypeError) as failure:
        return str(failure), ""
    at: Case | None = None
    try:
        for case, answer in zip(cases, got):
            at = case
            task.judge(case, answer)
        if "stopped" in reply:
            return f"it {reply['stopped']}", ""
        if len(got) < len(cases):
            at = cases[len(got)]
            raise LackingError(f"it raises {reply.get('raised', 'nothing, and ends')}")
        at = None
        task.judge_all(cases, got)
    except LackingError as lacking:
        written = "" if at is None else script_of(task, at, lacking, lesson, file)
        return lacking.what, written
    except MinitensorError as failure:  # a program that is malformed, where a judge runs it
        return f"what it returns is refused: {failure.message}", ""
    except Exception as failure:  # the value is of a form that no judge expects
        return f"what it returns cannot be judged ({kind_of(failure)})", ""
    return "", ""


def script_of(task: Task, case: Case, lacking: LackingError, lesson: str, file: Path) -> str:
    """A script that runs an answer on one case, and fails."""
    what = printable(lacking.what).replace("\\", "/").replace('"""', "'''")
    lines = [
        f'"""Lesson {lesson}, {task.name}: {what}"""',
        "import numpy as np",
        "",
        "import minitensor as mt",
        "from minitensor import ir",
        "from minitensor.userfile import run_file",
        "",
        *path_lines(),
        f"answer = run_file({str(file.absolute())!r}).{task.name}",
        *task.script(case),
        *lacking.lines,
    ]
    return "\n".join(lines) + "\n"


@contextmanager
def unchanged() -> Iterator[list[str]]:
    """Put files of minitensor and the course back that are others afterwards; their names are in
    the list then.
    """
    kept = {
        (root, path): path.read_bytes() for root in _OURS for path in sorted(root.rglob("*.py"))
    }
    changed: list[str] = []
    try:
        yield changed
    finally:
        for (root, path), data in kept.items():
            if not path.is_file() or path.read_bytes() != data:
                path.write_bytes(data)
                changed.append(path.relative_to(root.parent).as_posix())
