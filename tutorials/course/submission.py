"""The process that a student's answer to one task runs in; it judges nothing.

    python -m minitensor_course.course.submission

A worker (see `runtime.Worker`). It replies to {"file": …, "lesson": …, "task": …, "seed": …,
"hidden": …} with {"at": n} before each case, with -1 when it is ready; and at the end with
{"answers": […]}, or {"raised": text} for what an answer raised. Limits and an audit hook (PEP 578)
keep accidents and pranks inside: memory, output, files outside the temporary folder, forks, imports
of the judges. They are no wall against an attacker: strangers' code belongs into a container.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import minitensor
from minitensor.errors import ArgumentError, kind_of, printable
from minitensor.runtime import Parent, cache_folder, confine
from minitensor.userfile import failure_in, run_file

from .lessons import tasks_in, tasks_of
from .place import INSTALLED, PACKAGE, ROOT
from .tasks import Task
from .wire import MOST_SHOWN, encode

MEMORY: Final = 4 << 30
"""Bytes of addresses beyond those of the process at its start."""
LARGEST_FILE: Final = 64 << 20
MOST_PRINTED: Final = 100_000
"""Characters that an answer may print."""
MOST_RETURNED: Final = 16 << 20
"""Characters that all answers of a task may take, as they are sent."""
HIDDEN: Final = (f"{PACKAGE}.judges", "tests", *{INSTALLED, "tutorials"} - {PACKAGE})
"""Modules that an answer may not import: other copies of the course have the same judges."""
_HINTS: Final = ("legal:", "instead:")
"""The beginnings of the lines of a refusal that help."""
_PACKAGE: Final = "minitensor."
_COURSE: Final = "course."
"""The beginning of names of the course among those that tasks withhold."""
_COMPILERS: Final = ("cc", "gcc", "clang", "g++", "c++", "nvcc", "ld", "as", "objdump", "lscpu")
_STARTS: Final = ("os.fork", "os.forkpty", "os.system", "os.exec", "os.posix_spawn", "os.spawn")
_CHANGES: Final = (
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink"),
    *("os.chmod", "os.chown", "shutil.rmtree", "shutil.move"),
)
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class OverstepError(PermissionError):
    """An answer does what a task need not do."""


class Printed(io.StringIO):
    """The text that an answer prints, up to a limit."""

    def write(self, text: str) -> int:
        """Keep it. Raises OverstepError."""
        if self.tell() + len(text) > MOST_PRINTED:
            raise OverstepError(f"it prints more than {MOST_PRINTED:,} characters")
        return super().write(text)


def main() -> None:
    """Answer one request."""
    with Parent.connected() as parent:
        for request in parent.requests():
            parent.send(_reply(parent, request))


def _reply(parent: Parent, request: dict[str, str]) -> dict[str, Any]:
    hidden = request["hidden"]  # a lecturer's file
    tasks = tasks_in(hidden) if hidden else tasks_of(request["lesson"])
    task = next(t for t in tasks if t.name == request["task"])
    cases = task.cases(random.Random(request["seed"]))
    _hide(task)
    confine(MEMORY, LARGEST_FILE)
    sys.path.append(str(Path(request["file"]).parent))  # for what functions import when called
    sys.dont_write_bytecode = True  # beside the student's file
    sys.addaudithook(partial(_audit, _folders()))
    parent.send({"at": -1})
    printed = Printed()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        found = answers(request["file"], task, cases, lambda n: parent.send({"at": n}))
    return {**found, "printed": printable(printed.getvalue()[:MOST_SHOWN])}


def _hide(task: Task) -> None:
    """Take the judges out of the process: their modules, and right values of the task."""
    for name in [n for n in sys.modules if _is_hidden(n)]:
        owner, _, last = name.rpartition(".")
        if owner in sys.modules and last in vars(sys.modules[owner]):
            delattr(sys.modules[owner], last)
        del sys.modules[name]
    for cls in type(task).__mro__:
        for name in {"expected", "judge", "judge_all"} & vars(cls).keys():
            delattr(cls, name)


def _is_hidden(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in HIDDEN)


def answers(file: str, task: Task, cases: Any, before: Any = lambda n: None) -> dict[str, Any]:
    """The encoded answers of a student's file to all cases, or what it raised.

    before  called with the number of each case
    """
    found: list[Any] = []
    size = 0
    with withheld(task):  # also from what the file imports by name
        try:
            with contextlib.redirect_stderr(sys.stdout):
                module = run_file(file)
        except ArgumentError as failure:
            if isinstance(failure.__cause__, OverstepError):
                return {"failed": str(failure.__cause__)}
            return {"failed": failure.message.removeprefix(f"{Path(file).parent}{os.sep}")}
        except BaseException as failure:
            return {"failed": _told(file, failure)}
        if not hasattr(module, task.name):
            return {"failed": f"{printable(Path(file).name)} does not define {task.name}"}
        for number, case in enumerate(cases):
            before(number)
            try:
                found.append(encode(task.ask(getattr(module, task.name), case)))
                size += len(json.dumps(found[-1]))
                if size > MOST_RETURNED:
                    raise OverstepError(f"it returns more than {MOST_RETURNED:,} characters")
            except NotImplementedError:
                return {"failed": "it is not written yet"}
            except OverstepError as failure:  # no script shows it: there nothing is withheld
                return {"failed": str(failure)}
            except BaseException as failure:
                return {"answers": found, "raised": _told(file, failure)}
    return {"answers": found}


def _told(file: str, failure: BaseException) -> str:
    """The exception of an answer and its line, as one line of text."""
    if isinstance(failure, SystemExit):
        return "it ends the process (SystemExit)"
    if isinstance(failure, (OverstepError, MemoryError)):
        return str(failure) or "it needs more memory than there is"
    try:
        text = failure_in(file, failure)
    except Exception:  # an exception of a user's whose text raises
        text = kind_of(failure)
    first, *others = text.removeprefix(f"{file}, ").splitlines()
    hints = [line.strip() for line in others if line.strip().startswith(_HINTS)]
    return printable("; ".join([first, *hints])[:400])


@contextlib.contextmanager
def withheld(task: Task) -> Any:
    """Take away what the answer has to do without."""
    kept = []
    for name in task.without:
        ours = name.startswith(_COURSE)
        owner: Any = sys.modules[PACKAGE] if ours else minitensor
        *path, last = name.removeprefix(_COURSE).split(".")
        for part in path:
            owner = getattr(owner, part)
        value = getattr(owner, last)
        kept.append((owner, last, value))
        setattr(owner, last, _refused(name))
        for other, called in _also_at(value):
            kept.append((other, called, value))
            setattr(other, called, _refused(name, value))
    try:
        yield
    finally:
        for owner, last, value in kept:
            setattr(owner, last, value)


def _also_at(value: Any) -> list[tuple[ModuleType, str]]:
    """The modules of minitensor and the course, and the names in them, that have a function too."""
    if isinstance(value, type):
        return []
    prefixes = (_PACKAGE, f"{PACKAGE}.")
    ours = [m for n, m in list(sys.modules.items()) if n.startswith(prefixes) and not _is_hidden(n)]
    return [(m, name) for m in ours for name, v in list(vars(m).items()) if v is value]


def _refused(name: str, value: Any = None) -> Any:
    """A function that raises; with a value, it is that for minitensor's own modules."""

    def refuse(*given: Any, **named: Any) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        if value is not None and caller.startswith(_PACKAGE):
            return value(*given, **named)
        called = name if name.startswith(_COURSE) else f"mt.{name}"
        raise OverstepError(f"it calls {called}, and is to do without")

    return refuse


def _folders() -> tuple[Path, ...]:
    """The folders that an answer may write to; finding them writes, so it comes before the hook."""
    allowed = (tempfile.gettempdir(), cache_folder(), "/dev")
    return tuple(Path(os.path.realpath(folder)) for folder in allowed)


def _audit(folders: Sequence[Path], event: str, given: tuple[Any, ...]) -> None:
    """Refuse what no task needs."""
    if event == "import" and _is_hidden(str(given[0])):
        raise OverstepError(f"it imports {given[0]}; an answer is written, not imported")
    if event in _STARTS or (event == "subprocess.Popen" and not _is_compiler(given[0])):
        raise OverstepError("it starts another process")
    if event == "open" and isinstance(given[2], int) and given[2] & _WRITING:
        _may_change(folders, given[0])
    if event in _CHANGES:
        _may_change(folders, given[0])


def _may_change(folders: Sequence[Path], path: Any) -> None:
    if isinstance(path, int) or path is None:
        return
    wanted = Path(os.path.realpath(os.fsdecode(path)))
    inside = any(folder in (wanted, *wanted.parents) for folder in folders)
    if not inside or any(folder in wanted.parents for folder in _OURS):
        raise OverstepError(f"it writes to {wanted.name}: a task writes temporary files only")


_OURS: Final = (Path(minitensor.__file__).resolve().parent, ROOT.resolve())


def _is_compiler(program: Any) -> bool:
    name = os.path.basename(os.fsdecode(program)).split("-")[0]
    return name in _COMPILERS


if __name__ == "__main__":
    main()
