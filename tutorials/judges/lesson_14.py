"""Judges of lesson 14: tests that find planted faults, inputs that see them, and a shrinker."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from minitensor import ir, lang
from minitensor.errors import MinitensorError
from minitensor.lang import definition_as_python

from ..course.place import import_line
from ..course.tasks import Case, LackingError, Task, as_python
from . import faults
from .faults import (
    MUTANTS,
    RIGHT,
    WRONG,
    sums_backwards,
    transformation,
)

MOST_CALLS = 20_000


class Check(Task):
    """A test of transformations."""

    name, text = "check", "tell right transformations from faulty ones"
    points = 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        names = [*RIGHT, *WRONG]
        draw.shuffle(names)
        return [(name, draw.randint(3, 7)) for name in names]

    def ask(self, answer: Any, case: Case) -> Any:
        try:
            return answer(transformation(*case))
        except MinitensorError as failure:
            return f"{type(failure).__name__}: {failure.message}"

    def judge(self, case: Case, got: Any) -> None:
        name, want = case[0], case[0] in RIGHT
        line = f"assert got == {want}, got"
        if isinstance(got, str):
            text = f"check raises for a transformation {name}: {got[:200]}"
            raise LackingError(f"{text}; an error of the interpreter is a finding", [line])
        if not isinstance(got, (bool, np.bool_)):
            raise LackingError(
                "check gives something else than True or False",
                ["assert isinstance(got, (bool, np.bool_)), got"],
            )
        if bool(got) and not want:
            raise LackingError(f"check does not find the fault of a transformation {name}", [line])
        if want and not got:
            raise LackingError(f"check accuses a transformation {name}, which is right", [line])

    def script(self, case: Case) -> list[str]:
        return [
            import_line(transformation),
            f"transform = transformation({case[0]!r}, {case[1]})",
            "got = answer(transform)",
        ]


def _programs(draw: random.Random) -> list[ir.Program]:
    """Definitions in which there is much to get wrong."""
    n, m, k = draw.randint(5, 8), draw.randint(5, 8), draw.randint(6, 9)
    A, B = (lang.placeholder((n, m), "float64", name=name) for name in "AB")
    D = lang.compute((n, m), lambda i, j: A[i, j] * 2 - B[i, j], name="D")
    X, Y = (lang.placeholder((30, k), "float32", name=name) for name in "XY")
    r = lang.reduce_axis(k, name="r")
    E = lang.compute(
        (30,), lambda i: lang.sum_(lang.maximum(X[i, r] - Y[i, r], 0.0), axis=r), name="E"
    )
    P, Q = (lang.placeholder((n, n), "float32", name=name) for name in "PQ")
    t = lang.reduce_axis(n, name="t")
    R = lang.compute((n, n), lambda i, j: lang.sum_(P[i, t] * Q[t, j], axis=t), name="R")
    H = lang.placeholder((60, 2), draw.choice(["float32", "int32"]), name="H")
    u = lang.reduce_axis(2, name="u")
    M = lang.compute((60,), lambda i: lang.max_(H[i, u], axis=u), name="M")
    N = lang.placeholder((40,), "uint8", name="N")
    O = lang.compute((39,), lambda i: N[i] + N[i + 1] * 2, name="O")  # noqa: E741
    F, G = (lang.placeholder((5 * n,), "bool", name=name) for name in "FG")
    L = lang.compute((5 * n,), lambda i: lang.logical_and(F[i], G[i]), name="L")
    given = {
        "difference": [A, B, D],
        "excess": [X, Y, E],
        "product": [P, Q, R],
        "largest": [H, M],
        "neighbours": [N, O],
        "both": [F, G, L],
    }
    return [lang.lower(tensors, name=name) for name, tensors in given.items()]


class Arrays(Task):
    """Inputs that see faults."""

    name, text = "arrays", "draw inputs that see faults, with exact sums"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        return [(program, draw.randint(0, 999)) for program in _programs(draw)]

    def ask(self, answer: Any, case: Case) -> Any:
        program, seed = case
        return [answer(program, seed), answer(program, seed), answer(program, seed + 1)]

    def judge(self, case: Case, got: Any) -> None:
        program, seed = case
        if not isinstance(got, list) or len(got) != 3:
            raise LackingError("wanted are arrays for three seeds")
        first, second, third = (self._arrays(program, arrays) for arrays in got)
        if not all(map(np.array_equal, first, second)):
            raise LackingError(
                f"arrays(program, {seed}) gives other arrays the second time",
                [f"again = answer(program, {seed})", "assert all(map(np.array_equal, got, again))"],
            )
        want, _ = ir.interpret(program, first)
        if not self._same(sums_backwards(program), first, want):
            raise LackingError(
                f"of {program.name} sums in another order give other results: they are rounded",
                [
                    import_line(sums_backwards),
                    "other = sums_backwards(program)",
                    "a, b = mt.interpret(program, *got), mt.interpret(other, *got)",
                    "np.testing.assert_array_equal(a, b)",
                ],
            )
        for name, mutant in MUTANTS.items():
            changed = mutant(program)
            if changed != program and self._same(changed, first, want):
                raise LackingError(
                    f"with these arrays {program.name} gives the same as after a transformation "
                    f"{name}",
                    [
                        f"from {faults.__name__} import MUTANTS",
                        f"mutant = MUTANTS[{name!r}](program)",
                        "a, b = mt.interpret(program, *got), mt.interpret(mutant, *got)",
                        "assert not np.array_equal(a, b), a",
                    ],
                )
        if all(map(np.array_equal, first, third)):
            raise LackingError(
                f"the seeds {seed} and {seed + 1} give the same arrays",
                [
                    f"others = answer(program, {seed + 1})",
                    "assert not all(map(np.array_equal, got, others))",
                ],
            )

    def _arrays(self, program: ir.Program, got: Any) -> list[np.ndarray]:
        """The arrays, if they are what the program takes."""
        line = "mt.interpret(program, *got)"
        wanted = program.inputs
        if not isinstance(got, (list, tuple)) or len(got) != len(wanted):
            text = f"a list of {len(wanted)} arrays is wanted for {program.name}"
            raise LackingError(text, [f"assert len(got) == {len(wanted)}", line])
        for array, buffer in zip(got, wanted):
            dtype = ir.numpy_dtype(buffer.dtype)
            if not isinstance(array, np.ndarray):
                text = f"{buffer.name} is no array"
                raise LackingError(text, ["assert all(type(a) is np.ndarray for a in got)"])
            if array.shape != buffer.shape or array.dtype != dtype:
                text = (
                    f"{buffer.name} has to be {dtype}{list(buffer.shape)}, "
                    f"but is {array.dtype}{list(array.shape)}"
                )
                lines = [f"assert [a.dtype for a in got][{wanted.index(buffer)}] == {str(dtype)!r}"]
                raise LackingError(text, [line, *lines])
        return list(got)

    def _same(
        self, program: ir.Program, arrays: list[np.ndarray], want: Sequence[np.ndarray]
    ) -> bool:
        try:
            found, _ = ir.interpret(program, arrays)
        except MinitensorError:
            return False
        return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(found, want))

    def script(self, case: Case) -> list[str]:
        return [definition_as_python(case[0]), f"got = answer(program, {case[1]})"]


def holds(predicate: Any, values: Sequence[int]) -> bool:
    """Test whether a list has a property; more, or larger, elements never take it away.

    predicate  ("length", k): at least k elements
               ("sum", s): of at least s
               ("count", x, k): at least k elements that are at least x
               ("all", …) or ("any", …) of others
    """
    match predicate:
        case ("length", k):
            return bool(len(values) >= k)
        case ("sum", s):
            return bool(sum(values) >= s)
        case ("count", x, k):
            return bool(sum(v >= x for v in values) >= k)
        case ("all", *parts):
            return all(holds(part, values) for part in parts)
        case (_, *parts):
            return any(holds(part, values) for part in parts)
    return False


def _text(predicate: Any) -> str:
    """A predicate as Python, of `values`."""
    match predicate:
        case ("length", k):
            return f"len(values) >= {k}"
        case ("sum", s):
            return f"sum(values) >= {s}"
        case ("count", x, k):
            return f"sum(v >= {x} for v in values) >= {k}"
        case (name, *parts):
            return f" {'and' if name == 'all' else 'or'} ".join(f"({_text(p)})" for p in parts)
    return "False"


class Smaller(Task):
    """A shrinker."""

    name, text = "smaller", "make a failure small"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        n = draw.randint
        drawn = [
            ("length", n(2, 6)),
            ("count", n(20, 60), 1),
            ("sum", n(30, 90)),
            ("all", ("count", n(10, 40), 2), ("length", n(3, 6))),
            ("all", ("sum", n(50, 120)), ("count", n(3, 9), n(2, 4))),
            ("any", ("all", ("length", 4), ("count", 50, 2)), ("sum", n(200, 300))),
            ("length", 0),
        ]
        found = []
        for predicate in drawn:
            values = [n(0, 100) for _ in range(n(12, 30))]
            found.append(([*values, *[n(70, 100) for _ in range(6)]], predicate))
        return found

    def ask(self, answer: Any, case: Case) -> Any:
        values, predicate = case
        calls = 0

        def fails(some: Any) -> bool:
            nonlocal calls
            calls += 1
            if calls > MOST_CALLS:
                raise RuntimeError(f"fails is called more than {MOST_CALLS:,} times")
            return holds(predicate, list(some))

        return answer(list(values), fails)

    def judge(self, case: Case, got: Any) -> None:
        values, predicate = case
        said = f"of a list that fails where {_text(predicate)}: "
        if not isinstance(got, (list, tuple)) or not all(
            isinstance(v, (int, np.integer)) and not isinstance(v, bool) and v >= 0 for v in got
        ):
            raise LackingError(
                said + "a list of integers of 0 or more is wanted",
                ["assert isinstance(got, (list, tuple)), got", "assert all(v >= 0 for v in got)"],
            )
        found = [int(v) for v in got]
        if len(found) > len(values) or not holds(predicate, found):
            text = f"{_shown(found)} does not fail, or is longer"
            raise LackingError(
                said + text, [f"assert fails(got) and len(got) <= {len(values)}, got"]
            )
        for n in range(len(found)):
            rest = found[:n] + found[n + 1 :]
            if holds(predicate, rest):
                text = f"{_shown(found)} fails without its element {n} too"
                raise LackingError(said + text, [f"assert not fails({rest}), {rest}"])
            less = [*found[:n], found[n] - 1, *found[n + 1 :]]
            if found[n] > 0 and holds(predicate, less):
                text = f"{_shown(found)} fails with its element {n} less by 1 too"
                raise LackingError(said + text, [f"assert not fails({less}), {less}"])

    def script(self, case: Case) -> list[str]:
        return [
            f"case = {as_python(case[0])}",
            "calls = []",
            "",
            "",
            "def fails(values):",
            "    calls.append(values)",
            f"    assert len(calls) <= {MOST_CALLS}",
            f"    return {_text(case[1])}",
            "",
            "",
            "got = answer(list(case), fails)",
        ]


def _shown(values: Sequence[int]) -> str:
    text = str(list(values))
    return text if len(text) < 80 else f"{text[:80]}…"


TASKS: Sequence[Task] = (Check(), Arrays(), Smaller())
