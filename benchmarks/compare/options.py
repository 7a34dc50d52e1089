"""The choices of the command line: workloads, threads, baselines; refused with a reason."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.compare.baselines import BASELINES
from benchmarks.compare.report import threads_text
from minitensor.cli.errors import CommandError, UsageError
from minitensor.runtime import find_toolchain, usable_cores
from tutorials.schedules import HAND_SCHEDULES


def keys_of(names: Sequence[str]) -> list[str]:
    """The keys that the names stand for, in the order of the hand schedules. Raises UsageError."""
    chosen: set[str] = set()
    for name in names or ["*"]:
        found = fnmatch.filter(HAND_SCHEDULES, name)
        if not found:
            close = difflib.get_close_matches(name, HAND_SCHEDULES, n=3, cutoff=0.6)
            advice = f"did you mean {' or '.join(close)}?" if close else "see --list"
            raise UsageError(f"there is no workload {name!r}; {advice}")
        chosen.update(found)
    return [key for key in HAND_SCHEDULES if key in chosen]


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


def baselines_of(text: str | None, records: str | None) -> list[str]:
    """The baselines to run. Raises UsageError for unknown names, CommandError for packages."""
    if records is not None and not Path(records).is_dir():
        raise CommandError(f"--tvm-records {records}: there is no such folder")
    if text is None:
        return [
            r.name
            for r in BASELINES.values()
            if not r.missing and not r.asked and (r.name != "tvm" or records is not None)
        ]
    names = [part.strip() for part in text.split(",") if part.strip()]
    for name in names:
        if name not in BASELINES:
            raise UsageError(f"there is no baseline {name!r}; choose from {', '.join(BASELINES)}")
        missing = BASELINES[name].missing
        if missing:
            raise CommandError(f"{name} is not installed: pip install {' '.join(missing)}")
    if "tvm" in names and records is None:
        raise UsageError("tvm runs what its tuning found: say where with --tvm-records FOLDER")
    return list(dict.fromkeys(names))
