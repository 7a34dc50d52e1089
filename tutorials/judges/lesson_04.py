"""Judges of lesson 4, blocks."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from minitensor import ir, lang
from minitensor.errors import shown

from ..course.tasks import Case, LackingError, Task, as_python
from .defined import require_parameters, require_results

_NAMES: Final = "ijkmnrsxyz"


class Kinds(Task):
    """The kinds of iters, from reads and writes. The last part of a case is the right answer."""

    name, text = "kinds", "find the kinds of a block's iters"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found = [_elementwise(2), _sums(0, 1), _sums(2, 2)]
        found += [_updated(shifts, 0) for shifts in ([(-1, 0)], [(0, -1)], [(-1, 0), (0, -1)])]
        found += [_updated([(0, 0)], 1), _updated([], 0), _updated([(0,), (-1,)], 1)]
        found += [_transposed(draw.randint(2, 5)), _reversed(draw.randint(2, 5))]
        for _ in range(12):
            rank = draw.randint(1, 3)
            reads = [tuple(draw.choice([0, 0, -1, -2]) for _ in range(rank)) for _ in range(2)]
            found.append(_updated(reads[: draw.randint(1, 2)], draw.randint(0, 2)))
        cases = [_described(program, draw.sample(_NAMES, 5)) for program in found]
        draw.shuffle(cases)
        return cases

    def ask(self, answer: Any, case: Case) -> Any:
        return answer(*case[:-1])

    def script(self, case: Case) -> list[str]:
        return super().script(case[:-1])

    def judge(self, case: Case, got: Any) -> None:
        iters, target, own, combines, want = case
        if not _is_of_texts(got) or {name: str(kind) for name, kind in got.items()} != want:
            element = ir.print_indices(target)
            reads = ", ".join(ir.print_indices(one) for one in own) or "none"
            call = (
                f"the block combines into {element}" if combines else f"the block writes {element}"
            )
            text = f"{call}, and reads of the same tensor {reads}: its iters {', '.join(iters)} are"
            lines = [f"assert got == {want}, got"]
            raise LackingError(f"{text} {want}, not {shown(got)}", lines)


class BrokenLaws(Task):
    """The laws of reducers, tried on values."""

    name, text = "broken_laws", "try the laws of a reducer"
    without = ("comm_reducer",)

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for text, (_, identity, values) in _REDUCERS.items():
            count = draw.randint(3, 6) if len(values) == len(_NUMBERS) else len(values)
            found.append((text, identity, draw.sample(values, count)))
        apart = (_KEEPS_X, (99, 0), [(0, 7), (2, draw.randint(1, 6)), (1, 7)])
        return [*found, apart, ("lambda x, y: x + y", 0, [5]), ("lambda x, y: x + y", 1, [5])]

    def ask(self, answer: Any, case: Case) -> Any:
        text, identity, values = case
        return answer(_REDUCERS[text][0], identity, list(values))

    def script(self, case: Case) -> list[str]:
        text, identity, values = case
        given = f"{as_python(identity)}, {as_python(values)}"
        return [f"combine = {text}", f"got = answer(combine, {given})"]

    def judge(self, case: Case, got: Any) -> None:
        text, identity, values = case
        want = _broken(_REDUCERS[text][0], identity, values)
        listed = isinstance(got, (set, frozenset, list, tuple)) and _are_texts(got)
        if not listed or {str(law) for law in got} != set(want):
            lines = [f"assert set(got) == set({sorted(want)}), got"]
            called = f"of {text} with identity {identity} on {values}"
            right = ", ".join(f"{law} (for {by})" for law, by in sorted(want.items())) or "none"
            raise LackingError(f"{called} the broken laws are {right}, not {shown(got)}", lines)


class RunningMax(Task):
    """A scan."""

    name, text = "define_running_max", "define a running maximum"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        return [(n,) for n in (1, 2, *draw.sample(range(3, 30), 2))]

    def judge(self, case: Case, got: Any) -> None:
        (n,) = case
        require_parameters(got, [("A", (n,), "float32"), ("R", (n,), "float32")])
        rng = np.random.default_rng(n)
        falling = np.arange(n, 0, -1, dtype="float32") - 50
        for a in (rng.integers(-9, 9, n).astype("float32"), falling, falling[::-1].copy()):
            require_results(got, [a], [np.maximum.accumulate(a)])


class ArgminRows(Task):
    """A reduction of pairs."""

    name, text = "define_argmin_rows", "define the place and value of the least element"
    points = 2
    without = ("argmin", "argmax")

    def cases(self, draw: random.Random) -> Sequence[Case]:
        sizes = draw.sample(range(2, 9), 4)
        return [(1, 1), (1, sizes[0]), (sizes[1], 1), (sizes[2], sizes[3])]

    def judge(self, case: Case, got: Any) -> None:
        m, n = case
        outputs = [("P", (m,), "int64"), ("V", (m,), "float32")]
        require_parameters(got, [("A", (m, n), "float32"), *outputs])
        rng = np.random.default_rng(10 * m + n)
        level = rng.integers(-2, 3, (m, n)).astype("float32")  # many are equal
        rising = np.sort(rng.permutation(m * n)).reshape(m, n).astype("float32") * 1e6
        high = np.full((m, n), np.float32(3e9))
        endless = np.full((m, n), np.float32(np.inf))
        for a in (level, rising, -rising, rising[:, ::-1].copy(), high, endless, -endless):
            require_results(got, [a], [a.argmin(1), a.min(1)])


# ---- kinds


def _elementwise(rank: int) -> ir.Program:
    A = lang.placeholder((3,) * rank, name="A")
    made = lang.compute((3,) * rank, lambda *axes: A[axes] * 2, name="C")
    return lang.lower([A, made])


def _sums(rank: int, reduced: int) -> ir.Program:
    A = lang.placeholder((3,) * (rank + reduced), name="A")
    over = tuple(lang.reduce_axis(3) for _ in range(reduced))
    made = lang.compute((3,) * rank, lambda *axes: lang.sum_(A[axes + over], over), name="C")
    return lang.lower([A, made])


def _updated(reads: Sequence[tuple[int, ...]], more: int) -> ir.Program:
    """An update that reads itself at distances, with so many axes besides."""
    rank = len(reads[0]) if reads else 2
    over = [lang.reduce_axis(3) for _ in range(more)]

    def value(own: Any, *axes: Any) -> Any:
        total = lang.const(1, "float32")
        for read in reads:
            at = [axis + step if step else axis for axis, step in zip(axes, read)]
            inside = [place >= 0 for place, step in zip(at, read) if step]
            element = own[tuple(at)]
            for condition in inside:
                element = lang.if_then_else(condition, element, 0.0)
            total = total + element
        return total

    made = lang.update((3,) * rank, value, axis=over, init=0.0, dtype="float32", name="C")
    return lang.lower([made])


def _transposed(n: int) -> ir.Program:
    return lang.lower([lang.update((n, n), lambda C, i, j: C[j, i] + 1, init=0.0, name="C")])


def _reversed(n: int) -> ir.Program:
    return lang.lower(
        [lang.update((n, n), lambda C, i, j: C[i, n - 1 - j] + 1, init=0.0, name="C")]
    )


def _described(program: ir.Program, names: Sequence[str]) -> Case:
    """A block without the kinds of its iters, and these. Its iters get other names."""
    block = program.blocks["C"]
    body = block.body
    assert isinstance(body, (ir.Store, ir.Reduce))
    known = dict(zip([it.var for it in block.iters], names))

    def renamed(indices: Sequence[ir.Expr]) -> tuple[ir.Expr, ...]:
        values = {old: ir.Var(new) for old, new in known.items()}
        return tuple(ir.substitute(index, values) for index in indices)

    own = [renamed(load.indices) for load in ir.loads(body) if load.buffer == "C"]
    want = {known[it.var]: it.kind.value for it in block.iters}
    return tuple(want), renamed(body.indices), own, isinstance(body, ir.Reduce), want


def _are_texts(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_of_texts(got: Any) -> bool:
    return isinstance(got, dict) and _are_texts(got) and _are_texts(got.values())


# ---- laws

_NUMBERS: Final = [-7, -3, -1, 2, 4, 5, 8, 11]
_NATURAL: Final = [1, 2, 3, 4, 6, 9, 10, 15]
_PAIRS: Final = [(0, 7), (1, 7), (2, 3), (3, 7), (4, 3), (5, 9), (6, 1)]
_MATRICES: Final = [(1, 1, 0, 1), (2, 0, 1, 1), (0, 1, 1, 0), (1, 2, 3, 4), (3, 0, 0, 2)]

_KEEPS_X: Final = "lambda x, y: x if x[1] >= y[1] else y"

_REDUCERS: Final[dict[str, tuple[Callable[[Any, Any], Any], Any, list[Any]]]] = {
    "lambda x, y: x + y": (lambda x, y: x + y, 0, _NUMBERS),
    "lambda x, y: y + x": (lambda x, y: y + x, 1, _NUMBERS),
    "lambda x, y: x * y": (lambda x, y: x * y, 1, _NUMBERS),
    "lambda x, y: x - y": (lambda x, y: x - y, 0, _NUMBERS),
    "max": (max, -100, _NUMBERS),
    "lambda x, y: max(y, x)": (lambda x, y: max(y, x), 0, _NUMBERS),
    "min": (min, 10, _NUMBERS),
    "lambda x, y: (x + y) // 2": (lambda x, y: (x + y) // 2, 0, _NUMBERS),
    "lambda x, y: abs(x - y)": (lambda x, y: abs(x - y), 0, _NATURAL),
    "lambda x, y: x": (lambda x, y: x, 0, _NUMBERS),
    "lambda x, y: y": (lambda x, y: y, 0, _NUMBERS),
    "lambda x, y: x + y + x * y": (lambda x, y: x + y + x * y, 0, _NUMBERS),
    "lambda x, y: min(x + y, 12)": (lambda x, y: min(x + y, 12), 0, _NUMBERS),
    "lambda x, y: x * x + y": (lambda x, y: x * x + y, 0, _NATURAL),
    "lambda x, y: x | y": (lambda x, y: x | y, 0, _NATURAL),
    _KEEPS_X: (
        lambda x, y: x if x[1] >= y[1] else y,
        (99, 0),
        _PAIRS,
    ),
    "lambda x, y: max(x, y, key=lambda p: (p[1], -p[0]))": (
        lambda x, y: max(x, y, key=lambda p: (p[1], -p[0])),
        (99, 0),
        _PAIRS,
    ),
    "lambda x, y: (x[0] * y[0] + x[1] * y[2], x[0] * y[1] + x[1] * y[3],"
    " x[2] * y[0] + x[3] * y[2], x[2] * y[1] + x[3] * y[3])": (
        lambda x, y: (
            *(x[0] * y[0] + x[1] * y[2], x[0] * y[1] + x[1] * y[3]),
            *(x[2] * y[0] + x[3] * y[2], x[2] * y[1] + x[3] * y[3]),
        ),
        (1, 0, 0, 1),
        _MATRICES,
    ),
}
"""Reducers by their text: the function, an identity that may be wrong, and values to try."""


def _broken(combine: Callable[[Any, Any], Any], identity: Any, values: list[Any]) -> dict[str, str]:
    """The laws that do not hold, each with values for which it does not."""
    found: dict[str, str] = {}
    for x in values:
        if combine(x, identity) != x or combine(identity, x) != x:
            found["identity"] = f"{x}"
    for x, y in itertools.product(values, repeat=2):
        if combine(x, y) != combine(y, x):
            found["commutative"] = f"{x}, {y}"
    for x, y, z in itertools.product(values, repeat=3):
        if combine(combine(x, y), z) != combine(x, combine(y, z)):
            found["associative"] = f"{x}, {y}, {z}"
    return found


TASKS: Sequence[Task] = (Kinds(), BrokenLaws(), RunningMax(), ArgminRows())
