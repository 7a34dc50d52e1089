"""What the words of the command line choose: workloads, threads, rivals, pace; or why nothing."""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from minitensor.cli.bench.report import threads_text
from minitensor.cli.bench.rivals import RIVALS
from minitensor.cli.bench.rounds import Pace
from minitensor.cli.bench.work import file_subject
from minitensor.cli.errors import CommandError, UsageError
from minitensor.ladders import LADDERS
from minitensor.runtime import find_toolchain, usable_cores

QUICK: Final = Pace(rounds=3, burst=0.01, warm=0.002, least_calls=1)


def keys_of(names: Sequence[str]) -> list[str]:
    """The keys that the names stand for, in the order of the ladders; then users' files.

    Raises UsageError for names of nothing, CommandError for files that cannot be timed.
    """
    chosen: set[str] = set()
    files: list[str] = []
    for name in names or ["*"]:
        if ".py" in name:
            file_subject(name)
            files.append(name)
            continue
        found = fnmatch.filter(LADDERS, name)
        if not found:
            close = difflib.get_close_matches(name, LADDERS, n=3, cutoff=0.6)
            advice = f"did you mean {' or '.join(close)}?" if close else "`minitensor bench --list`"
            raise UsageError(f"there is no workload {name!r}; {advice}")
        chosen.update(found)
    return [*(key for key in LADDERS if key in chosen), *dict.fromkeys(files)]


def threads_of(text: str | None) -> list[int]:
    """The numbers of threads. Raises UsageError for what cannot be measured here."""
    cores = usable_cores()
    if text is None:
        return [find_toolchain().num_cores]
    counts: list[int] = []
    for part in text.split(","):
        if not re.fullmatch(r"[0-9]{1,4}", part.strip()) or int(part) < 1:
            raise UsageError(f"expected numbers of threads such as 1,2, but got --threads {text!r}")
        count = int(part)
        if count > cores:
            raise UsageError(
                f"{threads_text(count)} cannot be pinned to {cores} usable "
                f"core{'' if cores == 1 else 's'}; give --threads {cores} or less"
            )
        if count not in counts:
            counts.append(count)
    if max(counts) > 1 and not find_toolchain().openmp:
        raise UsageError(
            "without OpenMP (see `minitensor doctor`) our kernels have one thread; give --threads 1"
        )
    return counts


def rivals_of(text: str | None, records: str | None) -> list[str]:
    """Who is to run. Raises UsageError for unknown names, CommandError for missing packages."""
    if records is not None and not Path(records).is_dir():
        raise CommandError(f"--tvm-records {records}: there is no such folder")
    if text is None:
        return [
            r.name
            for r in RIVALS.values()
            if not r.missing and not r.asked and (r.name != "tvm" or records is not None)
        ]
    names = [part.strip() for part in text.split(",") if part.strip()]
    for name in names:
        if name not in RIVALS:
            raise UsageError(f"there is no rival {name!r}; choose from {', '.join(RIVALS)}")
        missing = RIVALS[name].missing
        if missing:
            raise CommandError(f"{name} is not installed: pip install {' '.join(missing)}")
    if "tvm" in names and records is None:
        raise UsageError("tvm runs what its tuning found: say where with --tvm-records FOLDER")
    return list(dict.fromkeys(names))


def pace_of(arguments: argparse.Namespace) -> Pace:
    """How much is called. Raises UsageError for no rounds at all."""
    pace = QUICK if arguments.quick else Pace()
    if arguments.rounds is None:
        return pace
    if arguments.rounds < 1:
        raise UsageError(f"expected at least one round, but got --rounds {arguments.rounds}")
    return Pace(arguments.rounds, pace.burst, pace.warm, pace.least_calls)
