"""Judges of lesson 11, reductions."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from minitensor import ir, lang
from minitensor.errors import shown
from minitensor.schedule import Schedule

from ..course.layouts import shares
from ..course.place import import_line
from ..course.requirements import accesses
from ..course.tasks import (
    Case,
    LackingError,
    Requirement,
    ScheduleTask,
    Task,
    as_python,
    equal,
    instances,
)


def total(n: int, kind: str = "sum", dtype: str = "float32") -> ir.Program:
    """A reduction of an array to one value."""
    A = lang.placeholder((n,), dtype, name="A")
    k = lang.reduce_axis(n, name="k")
    of = {"sum": lang.sum_, "max": lang.max_, "argmax": lang.argmax}[kind]
    S = lang.compute((), lambda: of(A[k], axis=k), name="S")
    return lang.lower([A, S], name="total")


class SumInLanes(Task):
    """A sum in lanes, compared with what the interpreter makes of the schedule."""

    name, text = "sum_in_lanes", "add in the order of lanes, bit for bit"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        sizes = [(draw.choice((61, 127, 211)), 8), (draw.randint(90, 160), 16), (64, 4)]
        sizes += [(draw.randint(2, 5), 8), (1, 4), (draw.randint(40, 80), draw.choice((3, 5, 7)))]
        found = []
        for n, lanes in sizes:
            values = [draw.uniform(-1, 1) * 10 ** draw.uniform(-3, 4) for _ in range(n)]
            found.append((np.array(values, "float32"), lanes))
        return found

    def judge(self, case: Case, got: Any) -> None:
        values, lanes = case
        s = Schedule(total(len(values)))
        _, lane = s.split("k", [None, lanes])
        s.vectorize(lane)
        (result,), _ = ir.interpret(s.program, [values])
        want = float(result)
        number = isinstance(got, (int, float, np.number, np.ndarray)) and np.ndim(got) == 0
        if number and not isinstance(got, bool) and equal(np.asarray(got).item(), want):
            return
        text = f"{len(values)} numbers in {lanes} lanes: it gives {shown(got)}; right is {want!r}"
        raise LackingError(text, (f"assert float(got) == {want!r}, got",))


class InParts(ScheduleTask):
    """A reduction in parallel parts."""

    name, text, points = "in_parts", "make a reduction parallel", 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        parts = draw.sample(range(2, 9), 4)
        sizes = [parts[0] * draw.randint(3, 9), draw.choice((23, 31, 47)), parts[2] + 1, 1]
        kinds = ["sum", "sum", "max", "sum"]
        drawn = [(total(n, kind), p) for n, kind, p in zip(sizes, kinds, parts)]
        most = draw.randint(5, 8)
        drawn.append((total(draw.randint(2, most - 1), "max", "int64"), most))
        drawn.append((total(draw.randint(11, 30), "argmax"), draw.randint(3, 7)))
        return drawn

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        (parts,) = arguments
        n = program.inputs[0].shape[0]
        return [in_parallel(parts, -(-n // parts)), accesses("loads", "A", n)]


def in_parallel(parts: int, most: int) -> Requirement:
    """A parallel loop whose iterations share the elements of A."""

    def look(s: Schedule) -> str | None:
        found = shares(s.program, "A")
        if not found:
            return "there is no parallel loop around the reduction of A"
        fair = len(found) == parts and max(found) <= most
        return None if fair else f"its iterations combine {', '.join(map(str, found[:12]))}"

    lines = (
        import_line(shares),
        "found = shares(s.program, 'A')  # elements that each iteration combines",
        f"assert len(found) == {parts} and max(found) <= {most}, found",
    )
    text = (
        f"a parallel loop has {parts} iterations, which combine at most {most} elements of A each"
    )
    return Requirement(text, look, lines)


class Merge(Task):
    """Two states of an online softmax as one."""

    name, text = "merge", "combine two states of an online softmax"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        def state(low: float, high: float) -> tuple[float, float]:
            return draw.uniform(low, high), draw.uniform(1, 9)

        empty = (-math.inf, 0.0)
        found: list[Case] = [(state(-9, 9), state(-9, 9)) for _ in range(4)]
        found += [(state(700, 1000), state(-1000, -700)), (state(-1000, -900), state(800, 900))]
        found += [(state(900, 990), state(990, 999)), (state(-990, -900), state(-900, -800))]
        found += [(empty, state(-9, 9)), (state(-9, 9), empty), (empty, empty)]
        middle = draw.uniform(-9, 9)
        return [*found, ((middle, 2.0), (middle, 3.0))]

    def judge(self, case: Case, got: Any) -> None:
        want = merged(*case)
        if _is_state(got) and all(map(_close, got, want)):
            return
        one, other = case
        text = f"merge({_text(one)}, {_text(other)}) gives {shown(got)}; right is {_text(want)}"
        lines = (
            f"want = {as_python(want)}",
            "limits = [min(1e-9 * abs(w), 1e300) for w in want]",
            "near = [g == w or abs(g - w) <= most for g, w, most in zip(got, want, limits)]",
            "assert all(near), got",
            "assert len(got) == 2",
        )
        raise LackingError(text, lines)


def merged(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """The state of two parts."""
    larger = max(one[0], other[0])
    terms = [s * math.exp(m - larger) for m, s in (one, other) if s]
    return larger, math.fsum(terms)


def _is_state(got: Any) -> bool:
    sequence = isinstance(got, (list, tuple)) and len(got) == 2
    return sequence and all(isinstance(x, (int, float, np.floating, np.integer)) for x in got)


def _close(got: Any, want: float) -> bool:
    if abs(want) == math.inf:
        return bool(got == want)
    near = 1e-9 * abs(want)
    return bool(want - near <= got <= want + near)


def _text(state: tuple[float, float]) -> str:
    return f"({state[0]:.6g}, {state[1]:.6g})"


class LogSumExp(Task):
    """A reduction with a state of its own."""

    name, text, points = "log_sum_exp", "define a reduction in one pass that does not overflow", 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        return [(n,) for n in (*draw.sample(range(12, 40), 2), 1)]

    def judge(self, case: Case, got: Any) -> None:
        (n,) = case
        wanted = [("A", (n,), "float32"), ("L", (), "float32")]
        if not isinstance(got, ir.Program):
            raise LackingError("a program is wanted, as mt.lower returns it", ("got.inputs",))
        ir.verify(got)
        found = [(b.name, b.shape, str(b.dtype)) for b in (*got.inputs, *got.outputs)]
        if found != wanted:
            text = ", ".join(f"{name} {list(shape)} {dtype}" for name, shape, dtype in found)
            lines = [
                "found = [(b.name, b.shape, str(b.dtype)) for b in (*got.inputs, *got.outputs)]",
                f"assert found == {wanted!r}, found",
            ]
            raise LackingError(f"for n = {n} the inputs and outputs are {text}", lines)
        kept = sum(math.prod(b.shape) for b in got.temporaries)
        if kept > MOST_KEPT:
            lines = [f"assert sum(np.prod(b.shape) for b in got.temporaries) <= {MOST_KEPT}"]
            raise LackingError(f"for n = {n} it keeps {kept} numbers, and few are enough", lines)
        if instances(got) > MOST_STEPS:
            lines = [import_line(instances)]
            text = f"for n = {n} it has {instances(got):,} steps, which is too many to try"
            raise LackingError(text, [*lines, f"assert instances(got) <= {MOST_STEPS}"])
        for what, values in inputs_of(n).items():
            self._run(got, what, values)

    def _run(self, got: ir.Program, what: str, values: np.ndarray) -> None:
        (result,), counts = ir.interpret(got, [values])
        start = [f"a = {as_python(values)}"]
        if counts.loads["A"] > len(values):
            text = f"it loads A {counts.loads['A']} times, and A has {len(values)} elements"
            lines = ["_, counts = mt.interpret(got, a, counts=True)"]
            raise LackingError(text, [*start, *lines, "assert counts.loads['A'] <= a.size"])
        want = reference(values)
        if not np.isclose(float(result), want, rtol=1e-5, atol=1e-5):
            text = f"of {len(values)} {what}: it gives {float(result):.7g}; right is {want:.7g}"
            lines = ["found = float(mt.interpret(got, a))", f"want = {as_python(want)}"]
            raise LackingError(
                text, [*start, *lines, "assert np.isclose(found, want, 1e-5, 1e-5), found"]
            )


MOST_KEPT: Final = 8
"""Numbers in temporaries."""
MOST_STEPS: Final = 10_000


def inputs_of(n: int) -> dict[str, np.ndarray]:
    """Arrays by what they are."""
    values = np.random.default_rng(n).uniform(-5, 5, n).astype("float32")
    begins, holes = values.copy(), values.copy()
    begins[: max(1, n // 2)] = -np.inf
    holes[n // 2 :: 2] = -np.inf
    return {
        "small values": values,
        "values near 1000": values + np.float32(1000),
        "values near -1000": values - np.float32(1000),
        "values, some of them -inf": holes,
        "values, the first ones -inf": begins,
        "values that are all -inf": np.full(n, -np.inf, "float32"),
    }


def reference(values: np.ndarray) -> float:
    """The logarithm of the sum of exponentials, in float64."""
    top = float(values.max())
    if top == -math.inf:
        return top
    return top + math.log(np.exp(values.astype("float64") - top).sum())


TASKS: Sequence[Task] = (SumInLanes(), InParts(), Merge(), LogSumExp())
