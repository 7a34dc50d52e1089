"""Verdicts for other programs: as JSON, as Gradescope reads it, and as nbgrader exports grades."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, Final

from .check import Verdict

_COLUMNS: Final = (
    *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email"),
    *("raw_score", "late_submission_penalty", "score", "max_score"),
)


def as_json(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The points, and for each task what is lacking and the script that shows it."""
    tasks = [
        {
            "lesson": v.lesson,
            "task": v.task,
            "passed": v.passed,
            "points": v.points if v.passed else 0,
            "of": v.points,
            "lacking": v.lacking,
            "script": v.script,
            "printed": v.printed,
            "seconds": round(v.seconds, 3),
            "hidden": v.hidden,
        }
        for v in verdicts
    ]
    return {"points": points(verdicts), "of": sum(v.points for v in verdicts), "tasks": tasks}


def as_gradescope(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The object of Gradescope's results.json (its autograder's specification)."""
    tests = [
        {
            "name": f"{v.lesson} {v.task}",
            "score": v.points if v.passed else 0,
            "max_score": v.points,
            "status": "passed" if v.passed else "failed",
            "output": v.lacking,
            "visibility": "hidden" if v.hidden else "visible",
        }
        for v in verdicts
    ]
    return {"score": points(verdicts), "tests": tests}


def as_nbgrader(verdicts: Sequence[Verdict], student: str) -> str:
    """The lines that `nbgrader export` writes: one for each lesson of a student."""
    text = io.StringIO()
    table = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    table.writeheader()
    for lesson in dict.fromkeys(v.lesson for v in verdicts):
        own = [v for v in verdicts if v.lesson == lesson]
        row = dict.fromkeys(_COLUMNS, "")
        row |= {"assignment": f"lesson {lesson}", "student_id": _harmless(student)}
        row |= {"raw_score": str(points(own)), "late_submission_penalty": "0"}
        row |= {"score": str(points(own)), "max_score": str(sum(v.points for v in own))}
        table.writerow(row)
    return text.getvalue()


def points(verdicts: Sequence[Verdict]) -> int:
    """The points of right answers."""
    return sum(v.points for v in verdicts if v.passed)


def _harmless(text: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
