"""`minitensor course`: lessons to start, tasks to check, quizzes.

minitensor's command line finds this module by its entry point (`minitensor.commands`); the same
words follow `python -m NAME`, where NAME is a copy of the course.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from minitensor.cli.console import Console, aligned, counted
from minitensor.cli.errors import CommandError, UsageError
from minitensor.cli.files import check_writable, write_text
from minitensor.errors import ArgumentError, printable
from minitensor.runtime import cache_folder

from ..web.pages import write_site
from ..web.serve import HOST, PORT, serve
from ..web.slides import write_slides
from . import folder as folders
from . import reports
from .check import SEED, Verdict, check_task
from .lessons import Lesson, find, languages, lessons, tasks_in
from .place import COMMAND, INSTALLED, PACKAGE
from .tasks import Task

TEXT: Final = "lessons from an expression to an auto-scheduler, with tasks that are judged"
EPILOG: Final = f"""\
examples:
  {COMMAND} start my_course            lessons, and files to fill in
  {COMMAND} start --web                lessons that run in a browser, on this machine
  {COMMAND} list --dir my_course       what there is, and what is done
  {COMMAND} check 01                   judge 01_tasks.py of this folder
  {COMMAND} check --dir my_course      all of a folder
  {COMMAND} check 07 --file answer.py --seed SECRET --json
  {COMMAND} quiz 07                    questions without end, marked at once

`{COMMAND} COMMAND --help` says more.
"""
_QUIZZES: Final = ("03", "04", "07")
_MOST: Final = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The commands below, and their arguments."""
    below = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, act: Callable[..., int], text: str) -> argparse.ArgumentParser:
        added = below.add_parser(name, help=text, description=text)
        added.add_argument("--json", action="store_true", help="print JSON")
        added.set_defaults(act=act, parser=added)
        return added

    start = command(
        "start", _start, "write the lessons and the files to fill in; keep what is there"
    )
    start.add_argument(
        "folder", metavar="DIR", nargs="?", help="where they go; made if it is missing"
    )
    known = ", ".join(languages())
    start.add_argument("--language", metavar="CODE", default="en", help=f"one of {known} (en)")
    start.add_argument("--notebooks", action="store_true", help="lessons as notebooks too")
    start.add_argument(
        "--web",
        action="store_true",
        help="write pages whose cells run in a browser, and serve them",
    )
    start.add_argument("--host", default=HOST, metavar="NAME", help=f"for --web ({HOST})")
    start.add_argument("--port", type=int, default=PORT, metavar="N", help=f"for --web ({PORT})")
    slides = command("slides", _slides, "write a lesson's slides as HTML, and as PDF by Chromium")
    slides.add_argument("lessons", nargs="*", metavar="LESSON", help="numbers, as 07; else all")
    slides.add_argument("--out", metavar="DIR", default="slides", help="where they go (slides)")
    listing = command("list", _list, "list the lessons, and what is done")
    check = command("check", _check, "judge answers; status 1 if one is not right")
    check.add_argument("lessons", nargs="*", metavar="LESSON", help="numbers, as 07; else all")
    check.add_argument("--file", metavar="FILE", help="the answers of one lesson, in another file")
    check.add_argument("--task", metavar="NAME", help="only this task")
    text = "tasks of your own for one lesson, which the student does not see: a file with TASKS"
    check.add_argument("--hidden", metavar="FILE", help=text)
    check.add_argument("--seed", default=SEED, metavar="TEXT", help="for other hidden cases")
    check.add_argument(
        "--gradescope", metavar="FILE", help="write results as Gradescope reads them"
    )
    check.add_argument("--nbgrader", metavar="FILE", help="write grades as nbgrader exports them")
    check.add_argument("--student", metavar="ID", default="", help="for --nbgrader")
    for one in (listing, check):
        one.add_argument("--dir", metavar="DIR", default=".", help="the student's folder (.)")
    quiz = command("quiz", _quiz, "ask questions drawn at random, and mark the answers")
    quiz.add_argument("lesson", metavar="LESSON", help=f"one of {', '.join(_QUIZZES)}")
    quiz.add_argument("--seed", type=int, default=None, metavar="N", help="for the same ones again")
    quiz.add_argument("--count", type=int, default=5, metavar="N", help="how many (5)")
    text = "the letters chosen, as abdca: marked without asking"
    quiz.add_argument("--answers", metavar="LETTERS", help=text)


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Do what the words below `course` say."""
    act: Callable[[argparse.Namespace, Console], int] = arguments.act
    try:
        return act(arguments, console)
    except ArgumentError as failure:
        raise CommandError(failure.message) from failure


# ---- start and list


def _start(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.web:
        return _start_web(arguments, console)
    if arguments.folder is None:
        raise UsageError(f"name the folder to write to: {COMMAND} start my_course")
    folder = Path(arguments.folder)
    started = folders.start(folder, arguments.language, arguments.notebooks)
    if arguments.json:
        lists = {"written": started.written, "kept": started.kept}
        console.json({kind: [str(path) for path in paths] for kind, paths in lists.items()})
        return 0
    where = printable(str(folder))
    judging = f"{COMMAND} check 01"
    if PACKAGE != INSTALLED:  # a copy is found from the folder around it
        judging += f" --dir {where}, from here"
    console.print(f"{counted(len(started.written), 'file')} written to {where}")
    if started.kept:
        names = ", ".join(path.name for path in started.kept[:3])
        more = ", …" if len(started.kept) > 3 else ""
        text = f"{counted(len(started.kept), 'file')} there already stay as they are: {names}{more}"
        console.paragraph(text)
    console.paragraph(
        f"Go there (cd {where}). Read and run 01_first_kernel.py, write the functions of "
        f"01_tasks.py beside it, and have them judged: {judging}"
    )
    return 0


def _start_web(arguments: argparse.Namespace, console: Console) -> int:
    """Pages in a folder, or in the cache, and a server of them until Ctrl-C."""
    if arguments.notebooks or arguments.language != "en":
        raise UsageError("--web has the English lessons, and goes without --notebooks")
    kept = cache_folder() / "web"
    folder = Path(arguments.folder) if arguments.folder else kept / "pages"
    console.paragraph("What cells need to run is fetched, some 40 MB, if it is not here yet.")
    try:
        lacking = write_site(folder, kept / "files")
    except OSError as failure:
        raise CommandError(
            f"cannot write pages to {printable(str(folder))}: {failure.strerror}"
        ) from failure
    if lacking:
        console.paragraph(lacking)
    serve(folder, arguments.host, arguments.port, lambda at: _served(console, folder, at))
    return 0


def _served(console: Console, folder: Path, address: str) -> None:
    """Say where the pages are."""
    where = printable(str(folder))
    console.paragraph(
        f"The lessons are at {address} until Ctrl-C. Any web server can hand out {where}. A page "
        f"keeps what a student writes; Download makes the file that `{COMMAND} check` judges."
    )


def _slides(arguments: argparse.Namespace, console: Console) -> int:
    wanted = [find(number) for number in arguments.lessons] or list(lessons())
    written = []
    for lesson in wanted:
        try:
            written += write_slides(lesson, Path(arguments.out))
        except OSError as failure:
            where = printable(arguments.out)
            raise CommandError(f"cannot write to {where}: {failure.strerror}") from failure
        if not arguments.json:
            console.print(f"{printable(str(written[-1]))}")
    if arguments.json:
        console.json([str(path) for path in written])
    return 0


def _list(arguments: argparse.Namespace, console: Console) -> int:
    done = folders.progress(_folder(arguments.dir))
    rows = []
    for lesson in lessons():
        names = [task.name for task in lesson.tasks]
        right = [name for name in names if name in done.get(lesson.number, [])]
        rows.append((lesson, names, right))
    if arguments.json:
        console.json(
            [
                {"lesson": one.number, "title": one.title, "minutes": one.minutes}
                | {"tasks": names, "done": right}
                for one, names, right in rows
            ]
        )
        return 0
    lines = [
        (one.number, one.title, f"{one.minutes} min", f"{len(right)} of {len(names)} done")
        for one, names, right in rows
    ]
    for line in aligned([("", "lesson", "about", "tasks"), *lines]):
        console.print(line)
    return 0


def _folder(name: str) -> Path:
    with contextlib.suppress(OSError, ValueError):  # no folder can have that name
        if Path(name).is_dir():
            return Path(name)
    raise CommandError(f"there is no folder {printable(name)}")


# ---- check


def _check(arguments: argparse.Namespace, console: Console) -> int:
    folder = _folder(arguments.dir)
    for option in ("file", "hidden"):
        if getattr(arguments, option) and len(arguments.lessons) != 1:
            raise UsageError(f"--{option} is for one lesson: check 07 --{option} FILE.py")
    for written in filter(None, (arguments.gradescope, arguments.nbgrader)):
        check_writable(written)
    wanted = folders.lessons_in(folder, arguments.lessons)
    hidden = Path(arguments.hidden) if arguments.hidden else None
    secret = _hidden_tasks(hidden, wanted[0]) if hidden else ()
    if arguments.task:
        _known_task(arguments.task, wanted, secret)
    verdicts: list[Verdict] = []
    for lesson in wanted:
        file = Path(arguments.file) if arguments.file else folder / lesson.stubs.name
        if not arguments.json:
            console.print(console.styled(f"{lesson.number} {lesson.title}", "bold"))
        for task in (*lesson.tasks, *secret):
            if arguments.task in (None, task.name):
                source = hidden if task in secret else None
                verdict = check_task(lesson, task, file, arguments.seed, source)
                verdicts.append(verdict)
                keep = not arguments.file and not verdict.hidden
                script = folders.keep_script(folder, verdict) if keep else None
                if not arguments.json:
                    _tell(console, verdict, script)
        if not arguments.file:
            folders.note(folder, [v for v in verdicts if not v.hidden])
    _write_reports(arguments, verdicts)
    if arguments.json:
        console.json(reports.as_json(verdicts))
    else:
        points, most = reports.points(verdicts), sum(v.points for v in verdicts)
        console.print(f"{points} of {counted(most, 'point')}")
    return int(not all(v.passed for v in verdicts))


def _hidden_tasks(file: Path, lesson: Lesson) -> tuple[Task, ...]:
    """The tasks of a lecturer's file, for a lesson."""
    found = tasks_in(str(file))
    both = [task.name for task in lesson.tasks if task.name in {one.name for one in found}]
    if both:
        where = printable(str(file)[:200])
        raise CommandError(
            f"{where}: lesson {lesson.number} has a task {both[0]} of its own; "
            f"give yours another name, or take `--seed` for other cases of that one"
        )
    return found


def _known_task(name: str, wanted: list[Lesson], hidden: Sequence[Task]) -> None:
    known = [task.name for lesson in wanted for task in lesson.tasks]
    known += [task.name for task in hidden]
    if name not in known:
        raise CommandError(f"there is no task {printable(name)!r}; there are {', '.join(known)}")


def _tell(console: Console, verdict: Verdict, script: Path | None) -> None:
    if verdict.passed:
        console.print(f"  {console.styled('right', 'green')}  {verdict.task}")
        return
    console.print(f"  {console.styled('wrong', 'red')}  {verdict.task}: {verdict.lacking}")
    if verdict.printed.strip():
        console.print(f"         printed: {printable(verdict.printed)[:200]}")
    if script is not None:
        console.print(f"         shown by: python {printable(str(script))}")


def _write_reports(arguments: argparse.Namespace, verdicts: list[Verdict]) -> None:
    if arguments.gradescope:
        text = json.dumps(reports.as_gradescope(verdicts), indent=1)
        write_text(arguments.gradescope, text + "\n")
    if arguments.nbgrader:
        write_text(arguments.nbgrader, reports.as_nbgrader(verdicts, arguments.student))


# ---- quiz


def _quiz(arguments: argparse.Namespace, console: Console) -> int:
    lesson = find(arguments.lesson)
    if lesson.number not in _QUIZZES:
        raise UsageError(f"lesson {lesson.number} has no quiz; {', '.join(_QUIZZES)} have")
    if not 1 <= arguments.count <= _MOST:
        raise UsageError(f"--count is 1 to {_MOST}, but got {arguments.count}")
    try:
        quiz: Any = importlib.import_module(f"{PACKAGE}.course.quiz")
    except ImportError as failure:
        raise CommandError(str(failure)) from failure
    seed = arguments.seed if arguments.seed is not None else quiz.any_seed()
    asked = quiz.questions(lesson.number, seed, arguments.count)
    if arguments.json:
        console.json([{"text": q.text, "choices": q.choices} for q in asked])
        return 0
    given = arguments.answers
    if given is not None and len(given) != len(asked):
        raise UsageError(f"--answers has {len(given)} letters for {len(asked)} questions")
    right = 0
    for number, question in enumerate(asked):
        console.heading(f"Question {number + 1} of {len(asked)}")
        console.print(console.code(question.text))
        for letter, choice in zip("abcdef", question.choices):
            console.print(f"  {letter}) {choice}")
        chosen = given[number] if given is not None else _asked(console, len(question.choices))
        if chosen is None:
            break
        is_right = chosen.lower() == "abcdef"[question.right]
        right += is_right
        word = console.styled("right", "green") if is_right else console.styled("wrong", "red")
        console.print(f"{word}: it is {'abcdef'[question.right]}. {question.why}")
    console.print(f"\n{right} of {counted(len(asked), 'answer')} right (--seed {seed})")
    return int(right < len(asked))


def _asked(console: Console, choices: int) -> str | None:
    """A letter that is typed; None at the end of the input."""
    letters = "abcdef"[:choices]
    while True:
        console.stream.write(f"your answer ({'/'.join(letters)}, or q to end): ")
        console.stream.flush()
        line = sys.stdin.readline()
        if not line or line.strip().lower() == "q":
            return None
        if line.strip().lower() in tuple(letters):
            return line.strip().lower()
