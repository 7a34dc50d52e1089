"""`minitensor viz`: pictures of loops or of a search, as SVG and one HTML page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from minitensor import pictures
from minitensor.cli import subject as subjects
from minitensor.cli.console import Console
from minitensor.cli.errors import CommandError, UsageError
from minitensor.errors import ArgumentError, MinitensorError, printable
from minitensor.ir import Program, print_name
from minitensor.lang import lower, workloads
from minitensor.looks import shortened
from minitensor.pictures import Picture
from minitensor.search import Log, Record, generate_sketches, sketches_picture, workload_key
from minitensor.search import pictures as of_search

TEXT: Final = "draw loops, or a search from its log, as SVG and HTML"
EPILOG: Final = """\
examples:
  minitensor viz matmul --small                      nest, footprints, visits, sketches
  minitensor viz my_file.py:s -o pictures --only nest,order
  minitensor viz my_file.py:s --only lanes           which lane of a GPU accesses which address
  minitensor viz tuning.jsonl -o report              a search: curve, roofline, model, best nest
  minitensor viz tuning.jsonl --program matmul --size m=256,n=256,k=256

Open FOLDER/index.html in a browser. Nothing is loaded from elsewhere, and each picture has its text
(docs/pictures.md). In Python: s.show(html="nest.html"), error.show(html=...), result.report(path).
"""
NAMES: Final = (
    "nest", "footprint", "order", "lanes", "sketches", "curve", "predicted", "roofline", "tree",
)  # fmt: skip
"""Names that --only takes; `order` stands for the visits of all buffers."""
FOLDER: Final = "pictures"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    subjects.add_arguments(parser)
    where = f"where the files go; made if it is missing ({FOLDER})"
    parser.add_argument("-o", "--output", metavar="FOLDER", default=FOLDER, help=where)
    text = f"some of the pictures: {', '.join(NAMES)}; may be repeated"
    parser.add_argument(
        "--only", action="add", metavar="NAME,...", type=_names, default=NAMES, help=text
    )
    text = "of a log: only this workload, by its name or key"
    parser.add_argument("--workload", metavar="W", help=text)
    text = "of a log: the definition, where it is no operator at one of its two usual sizes"
    parser.add_argument("--program", metavar="SUBJECT", help=text)


def _names(text: str) -> tuple[str, ...]:
    """The names of pictures. Raises ArgumentTypeError."""
    found = tuple(filter(None, (name.strip() for name in text.split(","))))
    for name in found:
        if name not in NAMES:
            known = ", ".join(NAMES)
            raise argparse.ArgumentTypeError(f"there is no picture {name!r}; there are {known}")
    if not found:
        raise argparse.ArgumentTypeError("no name of a picture is given")
    return found


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Draw the subject, and print the files."""
    name: str = arguments.subject
    if not name.endswith(".py") and Path(name).is_file():
        title, drawn, notes, steps = _of_log(arguments)
    else:
        if arguments.workload or arguments.program:
            raise UsageError("--workload and --program are for a log")
        title, drawn, notes, steps = _of_subject(arguments)
    if not drawn:
        raise CommandError(
            f"{printable(name)} has none of these pictures: " + ", ".join(arguments.only)
        )
    code = [("The steps", shortened(steps, lines=400))] if steps else []
    files = [("index.html", pictures.page_of(title, drawn, notes, code), "all of them on a page")]
    for number, picture in enumerate(drawn):
        files.append((f"{_file_name(picture, number)}.svg", picture.svg(), picture.text))
    written = []
    try:
        folder = pictures.folder_of(arguments.output)
        for file, text, words in files:
            path = pictures.write(folder / file, text)
            written.append({"file": str(path), "bytes": len(text.encode()), "text": words})
    except ArgumentError as failure:
        raise CommandError(failure.message) from failure
    if arguments.json:
        console.json({"title": title, "notes": notes, "files": written})
        return 0
    _print(console, written, notes)
    return 0


def _print(console: Console, written: Sequence[dict[str, object]], notes: Sequence[str]) -> None:
    """A line for each file: its name, and the beginning of its text."""
    for one in written:
        first = next(iter(str(one["text"]).splitlines()), "")
        file = printable(str(one["file"]))
        room = max(12, console.width - len(file) - 3)
        console.print(f"{console.styled(file, 'bold')}  {pictures.fitted(printable(first), room)}")
    for note in notes:
        console.paragraph(printable(note))


def _file_name(picture: Picture, number: int) -> str:
    """A name that any file system takes: of a buffer's picture what is harmless in its name."""
    kind, dash, rest = picture.name.partition("-")
    plain = "".join(c for c in rest if c.isascii() and (c.isalnum() or c == "_"))[:40]
    same = plain == rest
    return f"{kind}{dash}{plain}" if same else f"{kind}-{number}-{plain}".rstrip("-")


# ---- of a program or a schedule


def _of_subject(
    arguments: argparse.Namespace,
) -> tuple[str, list[Picture], list[str], str]:
    subject = subjects.resolve(arguments)
    only, program = arguments.only, subject.programs[-1]
    drawn: list[Picture] = []
    notes: list[str] = []
    if {"nest", "footprint", "order", "lanes"} & set(only):
        every, notes = pictures.program_pictures(
            program, pictures.known_caches(), pictures.lanes_of
        )
        drawn = [p for p in every if _kind(p) in only]
    if not {"order", "lanes"} & set(only):
        notes = []
    if "sketches" in only:
        try:
            drawn.append(sketches_picture(generate_sketches(subject.programs[0])))
        except MinitensorError as problem:
            notes.append(f"No sketches: {problem.message}")
    return print_name(program.name), drawn, notes, str(subject.schedule.trace)


def _kind(picture: Picture) -> str:
    """The name by which --only knows a picture."""
    kind = picture.name.partition("-")[0]
    return "order" if kind == "visits" else kind


# ---- of a log


def _of_log(arguments: argparse.Namespace) -> tuple[str, list[Picture], list[str], str]:
    sizes = arguments.size or arguments.small or arguments.benchmark
    if arguments.trace or (sizes and not arguments.program):
        raise UsageError(
            "--size, --small, --benchmark and --trace need --program where a log is drawn"
        )
    log, wanted = Log(arguments.subject), arguments.workload
    every = [r for r in log if wanted is None or r.name == wanted or r.workload.startswith(wanted)]
    groups = of_search.groups_of(every)
    if not groups:
        what = f" of a workload {wanted!r}" if wanted else ""
        raise CommandError(f"{printable(arguments.subject)} has no record{what}")
    group = groups[0]
    program = _program(arguments, group[0])
    searched = of_search.searched_of(group, program)
    drawn = [p for p in searched.pictures() if _kind(p) in arguments.only]
    notes = searched.sentences()
    if program is None:
        notes.append(f"{print_name(group[0].name)} is no operator at a usual size: use --program.")
    if len(groups) > 1:
        others = "; ".join(map(of_search.about, groups[1:9]))
        more = f" and {len(groups) - 9} more" if len(groups) > 9 else ""
        notes.append(f"Also in the log: {others}{more} (--workload).")
    return f"The search of {print_name(group[0].name)}", drawn, notes, searched.steps


def _program(arguments: argparse.Namespace, record: Record) -> Program | None:
    """The definition of a record: as it is given, or an operator's at one of its two sizes."""
    if arguments.program:
        arguments.subject = arguments.program
        program = subjects.resolve(arguments).programs[0]
        if workload_key(program) != record.workload:
            raise CommandError(f"{arguments.program} is not the workload of {record.name!r}")
        return program
    workload = workloads.WORKLOADS.get(record.name)
    for sizes in (workload.benchmark, workload.small) if workload else ():
        assert workload is not None
        program = lower(workload.function(**sizes), name=record.name)
        if workload_key(program) == record.workload:
            return program
    return None
