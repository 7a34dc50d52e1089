"""Judges of lesson 21: logs with damaged lines, drawn anew each time."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitensor.errors import shown

from ..course.requirements import near
from ..course.tasks import Case, FunctionTask, LackingError, Task, as_python
from ..course.wire import Other

Fields = dict[str, Any]


def record(draw: random.Random, workload: str, **given: Any) -> Fields:
    """A record that works, but for what is given."""
    times = [draw.randint(100, 900) / 1024 for _ in range(draw.randint(1, 6))]
    trace = f"split({draw.randint(1, 12)})"
    fields = {"v": 1, "workload": workload, "status": "ok", "seconds": times, "trace": trace}
    return {**fields, **given}


def damaged(draw: random.Random, workload: str) -> list[str]:
    """Lines that are no record: each would be the best if it were taken for one."""
    fast = record(draw, workload, seconds=[1e-6])
    whole = json.dumps(fast)
    definition = {"v": 2, "workload": workload, "definition": "A = mt.placeholder((4,), 'int8')"}
    without = {name: value for name, value in fast.items() if name != draw.choice(["v", "seconds"])}
    return [
        whole[: draw.randint(2, len(whole) - 2)],
        whole[draw.randint(2, 20) :],
        whole + "}",
        "#torn",
        "",
        "null",
        draw.choice(["[1, 2]", "17", '"ok"']),
        json.dumps(definition),
        json.dumps({**fast, "v": draw.choice([0, 2, 3])}),
        json.dumps(without),
    ]


def records(lines: Sequence[str], workload: str) -> dict[int, Fields]:
    """The records of a workload by their places."""
    found = {}
    for place, line in enumerate(lines):
        try:
            fields = json.loads(line)
        except ValueError:
            continue
        whole = isinstance(fields, dict) and {"workload", "status", "seconds"} <= set(fields)
        if whole and fields.get("v") == 1 and fields["workload"] == workload:
            found[place] = fields
    return found


def _usable(fields: Fields) -> bool:
    times = fields["seconds"]
    return fields["status"] == "ok" and bool(times) and all(0 < t < math.inf for t in times)


class Best(Task):
    """The best record among damaged lines."""

    name, text = "best", "find the best record of a damaged log"
    points = 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        name, other = ("".join(draw.choice("0123456789abcdef") for _ in range(8)) for _ in "ab")
        good = [record(draw, name) for _ in range(5)]
        lucky = record(draw, name, seconds=[1 / 1024, 800 / 1024, 801 / 1024])
        slow = record(draw, name, seconds=[1 / 1024, 2 / 1024, 500.0])  # of which the mean is high
        even = record(draw, name, seconds=[1 / 1024, 1 / 1024, 900 / 1024, 902 / 1024])
        failed = record(draw, name, status=draw.choice(["not built", "timeout"]), seconds=[])
        wrong = record(draw, name, status="wrong result", seconds=[1e-5])
        odd = [[math.nan], [0.0], [-1.0], [math.inf, math.inf], [], [0.1, math.nan]]
        unusable = [record(draw, name, seconds=times) for times in odd]
        foreign = record(draw, other, seconds=[1e-5])

        def shuffled(*fields: Fields, bad: Sequence[str] = ()) -> Case:
            lines = [*map(json.dumps, fields), *bad]
            draw.shuffle(lines)
            return lines, name

        return [
            ([], name),
            shuffled(*good),
            shuffled(*good, lucky, slow),
            shuffled(*good, even, failed, wrong),
            shuffled(*good, foreign),
            shuffled(*good, bad=damaged(draw, name)),
            shuffled(*good, *unusable),
            shuffled(failed, wrong, foreign, *unusable, bad=damaged(draw, name)),
            shuffled(*good, lucky, slow, even, failed, foreign, bad=damaged(draw, name)),
        ]

    def judge(self, case: Case, got: Any) -> None:
        lines, name = case
        found = {n: one for n, one in records(lines, name).items() if _usable(one)}
        medians = {n: statistics.median(one["seconds"]) for n, one in found.items()}
        if not medians:
            if got is not None:
                text = "there is no record that works in the lines, so None is right, not "
                raise LackingError(text + shown(_plain(got)), ("assert got is None, got",))
            return
        right = [n for n, median in medians.items() if median == min(medians.values())]
        whole = isinstance(got, (int, np.integer)) and type(got) is not bool
        if whole and int(got) in right:
            return
        at = lines[int(got)] if whole and 0 <= int(got) < len(lines) else None
        text = f"the best record is line {right[0]}: {lines[right[0]]}; "
        text += f"the answer is {shown(_plain(got))}" + (f": {at}" if at is not None else "")
        raise LackingError(text, (f"assert got in {right} and got is not True, got",))


class Resume(Task):
    """The trials that a search has left, and what is known."""

    name, text = "resume", "go on with a search"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        name, other = ("".join(draw.choice("0123456789abcdef") for _ in range(8)) for _ in "ab")
        found: list[Case] = [([], name, 7)]
        for trials in (3, draw.randint(8, 20), 40):
            every = [record(draw, name, trace=f"split({n})") for n in range(draw.randint(4, 8))]
            failed = record(draw, name, status="not built", seconds=[], trace="split(97)")
            again = record(draw, name, status="timeout", seconds=[], trace="split(1)")
            twice = [record(draw, name, trace=f"split({n % 3})") for n in range(4)]
            foreign = record(draw, other, trace="split(98)")
            lines = [json.dumps(one) for one in (*every, failed, again, *twice, foreign)]
            lines += damaged(draw, name)
            draw.shuffle(lines)
            found.append((lines, name, trials))
        return found

    def judge(self, case: Case, got: Any) -> None:
        lines, name, trials = case
        known: dict[str, float] = {}
        for one in records(lines, name).values():
            cost = statistics.median(one["seconds"]) if one["status"] == "ok" else math.inf
            known[one["trace"]] = min(cost, known.get(one["trace"], math.inf))
        left = max(0, trials - len(known))
        want = (left, known)
        shows = [f"want = {as_python(want)}", "assert tuple(got) == want, got"]
        if not isinstance(got, (tuple, list)) or len(got) != 2 or not isinstance(got[1], dict):
            text = f"(left, known) is wanted, with a dictionary, not {shown(_plain(got))}"
            raise LackingError(text, shows)
        for trace in [*known, *got[1]]:
            if trace not in known:
                text = f"{shown(trace)} is known, and no record of the workload has it"
                raise LackingError(text, shows)
            if trace not in got[1]:
                raise LackingError(f"{trace} was tried, and is not in what is known", shows)
            found = got[1][trace]
            same = found == math.inf if known[trace] == math.inf else near(found, known[trace])
            if not (isinstance(found, (int, float, np.number)) and same):
                text = f"of {trace} {known[trace]} seconds are known, not {shown(_plain(found))}"
                raise LackingError(text, shows)
        if type(got[0]) is bool or not isinstance(got[0], (int, np.integer)) or got[0] != left:
            text = f"of {trials} trials {left} are left with {len(known)} known, not "
            raise LackingError(text + shown(_plain(got[0])), shows)


class Curve(FunctionTask):
    """The best so far."""

    name, text = "curve", "draw the curve of a search"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = [([],), ([None],), ([math.nan, 2.0, math.nan, 1.0, 3.0],)]
        for n in (3, 8, 15):
            times = [
                draw.choice((None, math.nan, *[draw.randint(1, 50) / 8] * 4)) for _ in range(n)
            ]
            found.append((times,))
        found.append(([None, math.nan, *(draw.randint(1, 50) / 8 for _ in range(4)), None],))
        return found

    def expected(self, seconds: list[float | None]) -> list[float]:
        so_far, best = [], math.inf
        for one in seconds:
            if one is not None and one < best:
                best = one
            so_far.append(best)
        return so_far

    def judge(self, case: Case, got: Any) -> None:
        super().judge(case, got.tolist() if isinstance(got, np.ndarray) else got)


def _plain(value: Any) -> Any:
    return value.text if isinstance(value, Other) else value


TASKS: Sequence[Task] = (Best(), Resume(), Curve())
