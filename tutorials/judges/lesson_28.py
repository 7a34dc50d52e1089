"""Judges of lesson 28, fused attention."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from minitensor import ir, lang
from minitensor.errors import shown

from ..course.place import import_line
from ..course.requirements import accesses, held
from ..course.tasks import Case, LackingError, Requirement, ScheduleTask, Task, as_python

State = tuple[float, float, list[float]]
Attend = Callable[[list[float], list[list[float]]], list[float]]


def stepped(state: State, score: float, value: Sequence[float]) -> State:
    """The state with one more key."""
    m, z, o = state
    larger = max(m, score)
    if larger == -math.inf:
        return state
    old, new = math.exp(m - larger), math.exp(score - larger)
    return larger, z * old + new, [a * old + x * new for a, x in zip(o, value)]


class Step(Task):
    """The state with one more key."""

    name, text = "step", "take one more key into the state of a query"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        def value() -> list[float]:
            return [draw.uniform(-4, 4) for _ in range(3)]

        def state(m: float) -> State:
            return m, draw.uniform(1, 9), value()

        none: State = (-math.inf, 0.0, [0.0] * 3)
        m = draw.uniform(-9, 9)
        found: list[Case] = [(state(m), m + draw.uniform(1, 3), value()) for _ in range(2)]
        found += [(state(m), m - draw.uniform(1, 3), value()), (state(m), m, value())]
        found += [(state(-900.0), 800.0, value()), (state(800.0), -900.0, value())]
        found += [(none, draw.uniform(-900, -800), value()), (none, -math.inf, value())]
        return [*found, (state(m), -math.inf, value())]

    def judge(self, case: Case, got: Any) -> None:
        state, score, value = case
        want = stepped(state, score, value)
        numbers = _numbers(got)
        if len(numbers) == len(case[2]) + 2 and np.allclose(numbers, _numbers(want), rtol=1e-9):
            return
        call = f"step({as_python(state)}, {score:.6g}, {as_python(value)})"
        lines = [
            f"want = {as_python([want[0], want[1], *want[2]])}",
            "assert np.allclose([got[0], got[1], *got[2]], want, rtol=1e-9), got",
        ]
        raise LackingError(f"{call} gives {shown(got)}; right is {shown(want)}", lines)


def _numbers(state: Any) -> list[float]:
    """A state as one list; an empty one if it is none."""
    try:
        m, z, o = state
        return [float(x) for x in (m, z, *o)]
    except (TypeError, ValueError):
        return []


# ---- a test of attention


def in_blocks(scores: list[float], values: list[list[float]], block: int) -> list[float]:
    """Attention of one query, a block of keys at a time."""
    total: State = (-math.inf, 0.0, [0.0] * len(values[0]))
    for at in range(0, len(scores), block):
        part, kept = np.array(scores[at : at + block]), np.array(values[at : at + block])
        m = max(total[0], float(part.max()))
        old, weights = math.exp(total[0] - m), np.exp(part - m)
        o = np.array(total[2]) * old + weights @ kept
        total = m, total[1] * old + float(weights.sum()), o.tolist()
    return [x / total[1] for x in total[2]]


def in_three_passes(scores: list[float], values: list[list[float]]) -> list[float]:
    """Attention of one query, as it is defined."""
    weights = np.exp(np.array(scores) - max(scores))
    weighted: list[float] = (weights @ np.array(values) / weights.sum()).tolist()
    return weighted


def faulty(fault: str) -> Attend:
    """A version with a fault."""

    def attend(scores: list[float], values: list[list[float]]) -> list[float]:
        m = 0.0 if fault == "begins with a maximum of 0" else -math.inf
        z, o = 0.0, [0.0] * len(values[0])
        for at, (score, value) in enumerate(zip(scores, values)):
            larger = max(m, score)
            old, new = math.exp(min(m - larger, 0.0)), math.exp(score - larger)
            if fault == "corrects by the inverse" and z:
                old = math.exp(min(larger - m, 700.0))
            if fault == "leaves the last key out" and at and at == len(scores) - 1:
                break
            of_z = 1.0 if fault == "does not correct z" else old
            of_o = 1.0 if fault == "does not correct o" else old
            z = z * of_z + new
            o = [a * of_o + x * new for a, x in zip(o, value)]
            m = larger
            if fault == "takes equal scores once" and at and score == scores[at - 1]:
                z -= new
        return [a / z if z else math.nan for a in o]

    return attend


def without_a_maximum(scores: list[float], values: list[list[float]]) -> list[float]:
    """Attention that overflows."""
    with np.errstate(all="ignore"):
        weights = np.exp(np.array(scores))
        weighted: list[float] = (weights @ np.array(values) / weights.sum()).tolist()
    return weighted


RIGHT: Final[dict[str, Attend]] = {
    "in three passes": in_three_passes,
    "in one pass": faulty(""),
    "in blocks of 4 keys": lambda scores, values: in_blocks(scores, values, 4),
    "in blocks of 1 key": lambda scores, values: in_blocks(scores, values, 1),
}
WRONG: Final[dict[str, Attend]] = {
    **{
        f"that {fault}": faulty(fault)
        for fault in (
            *("does not correct o", "does not correct z", "corrects by the inverse"),
            *("begins with a maximum of 0", "leaves the last key out"),
            "takes equal scores once",
        )
    },
    "that subtracts no maximum": without_a_maximum,
}


def version(name: str) -> Attend:
    """A version of attention, right or wrong, by its name."""
    return {**RIGHT, **WRONG}[name]


class IsRight(Task):
    """A test of attention."""

    name, text, points = "is_right", "tell right versions of attention from wrong ones", 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        names = [*RIGHT, *WRONG]
        draw.shuffle(names)
        return [(name,) for name in names]

    def ask(self, answer: Any, case: Case) -> Any:
        try:
            return answer(version(*case))
        except (ArithmeticError, ValueError) as failure:
            return f"{type(failure).__name__}: {failure}"

    def judge(self, case: Case, got: Any) -> None:
        (name,) = case
        want = name in RIGHT
        line = f"assert got == {want}, got"
        if isinstance(got, str):
            raise LackingError(f"is_right raises for a version {name}: {got[:200]}", [line])
        if not isinstance(got, (bool, np.bool_)):
            raise LackingError(
                "is_right gives something else than True or False",
                ["assert isinstance(got, (bool, np.bool_)), got"],
            )
        if bool(got) and not want:
            raise LackingError(f"is_right does not find the fault of a version {name}", [line])
        if want and not got:
            raise LackingError(f"is_right accuses a version {name}, which is right", [line])

    def script(self, case: Case) -> list[str]:
        return [import_line(version), f"got = answer(version({case[0]!r}))"]


# ---- a schedule of it


def carried(x: Any, y: Any) -> tuple[Any, Any, Any]:
    """Two states as one."""
    m = lang.maximum(x[0], y[0])
    a, b = lang.exp(x[0] - m), lang.exp(y[0] - m)
    return m, x[1] * a + y[1] * b, x[2] * a + y[2] * b


def attention(m: int, n: int, d: int) -> ir.Program:
    """The program of the lesson: m queries, n keys and values of d numbers."""
    attend = lang.comm_reducer(carried, (-math.inf, 0.0, 0.0), name="attend")
    Q, K, V = (lang.placeholder((x, d), name=name) for x, name in ((m, "Q"), (n, "K"), (n, "V")))
    r, key = lang.reduce_axis(d, name="r"), lang.reduce_axis(n, name="key")
    S = lang.compute((m, n), lambda i, j: lang.sum_(Q[i, r] * K[j, r], axis=r), name="S")
    one = lang.const(1.0, "float32")
    _, L, W = lang.compute(
        (m, d), lambda i, e: attend((S[i, key], one, V[key, e]), axis=key), name="state"
    )
    O = lang.compute((m, d), lambda i, e: W[i, e] / L[i, e], name="O")  # noqa: E741
    return lang.lower([Q, K, V, O], name="attention")


OPERANDS: Final = 6
"""Numbers that a combiner of two states of three holds while it works."""


class Fuse(ScheduleTask):
    """Attention with a block of scores."""

    name, text, points = "fuse", "fuse attention: a block of scores, a state of one query", 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for keys in draw.sample(range(2, 6), 3):
            n = keys * draw.randint(2, 4) + draw.choice((0, 0, 1))
            found.append((attention(draw.randint(2, 4), n, draw.randint(2, 4)), keys))
        return found

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        (keys,) = arguments
        (m, d), (n, _) = program.inputs[0].shape, program.inputs[1].shape
        return [accesses("loads", "K", m * n * d), held(4 * (keys + 3 * d + OPERANDS))]


TASKS: Sequence[Task] = (Step(), IsRight(), Fuse())
