"""Judges of lesson 24: lives, plans of memory, the fault of a plan, and layouts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

from minitensor.errors import is_integer, shown

from ..course.tasks import Case, FunctionTask, LackingError, Task

Steps = Sequence[tuple[str, Sequence[str]]]
"""The value that each step computes, and those that it reads."""
Lives = Mapping[str, tuple[int, int]]


def drawn(draw: random.Random, count: int) -> Steps:
    """Steps that read what was computed shortly before, and sometimes long before."""
    names = [f"v{n}" for n in range(count)]
    steps = []
    for n, name in enumerate(names):
        near = names[max(0, n - 3) : n]
        reads = draw.sample(near, min(len(near), draw.choice((1, 1, 2))))
        if n > 4 and draw.random() < 0.2:
            reads.append(names[draw.randrange(n - 3)])
        steps.append((name, list(dict.fromkeys(reads or ["x"]))))
    return steps


def lives_of(steps: Steps, kept: Sequence[str]) -> dict[str, tuple[int, int]]:
    """The lives of the values that steps compute."""
    found: dict[str, tuple[int, int]] = {}
    for number, (name, reads) in enumerate(steps):
        found[name] = (number, number)
        found.update((read, (found[read][0], number)) for read in reads if read in found)
    return found | {name: (found[name][0], len(steps) - 1) for name in kept}


def alive(sizes: Mapping[str, int], lives: Lives) -> list[int]:
    """The bytes that live in each step."""
    end = max(last for _, last in lives.values())
    spans = [(sizes[name], *life) for name, life in lives.items()]
    return [sum(s for s, first, last in spans if first <= n <= last) for n in range(end + 1)]


def placed(order: Sequence[str], sizes: Mapping[str, int], lives: Lives) -> dict[str, int]:
    """Offsets by first fit."""
    offsets: dict[str, int] = {}
    for name in order:
        offset = 0
        busy = [(offsets[o], offsets[o] + sizes[o]) for o in offsets if _meet(lives, name, o)]
        for low, high in sorted(busy):
            if offset + sizes[name] <= low:
                break
            offset = max(offset, high)
        offsets[name] = offset
    return offsets


def _meet(lives: Lives, one: str, other: str) -> bool:
    (a, b), (c, d) = lives[one], lives[other]
    return a <= d and c <= b


def _end(offsets: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    return max(offsets[name] + sizes[name] for name in offsets)


class LivesTask(Task):
    """The lives of values."""

    name, text = "lives", "say how long each value is needed"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = [
            ([("a", ["x"])], ["a"]),
            ([("a", ["x"]), ("b", ["a"]), ("c", ["b", "a"])], ["c"]),
            ([("a", []), ("b", []), ("c", ["a"])], ["b", "c"]),
            ([("a", ["x"]), ("b", ["x"]), ("c", ["x", "b"]), ("d", ["c"])], ["d"]),
        ]
        for count in (4, 6, 9, 12):
            steps = drawn(draw, count)
            found.append((steps, [steps[-1][0], *draw.sample([s[0] for s in steps[:-1]], 1)]))
        return found

    def judge(self, case: Case, got: Any) -> None:
        steps, kept = case
        want = lives_of(steps, kept)
        shows = [f"want = {want!r}", "assert got == want, got"]
        given = f" (steps are {shown(steps)}; kept {kept})"
        if not isinstance(got, dict):
            raise LackingError("a dictionary is wanted, with two numbers for each value", shows)
        for name in got:
            if name not in want:
                raise LackingError(f"{shown(name)} is computed by no step{given}", shows)
        for name, (first, last) in want.items():
            one = got.get(name)
            if isinstance(one, (tuple, list)) and list(one) == [first, last]:
                continue
            text = f"{name} is needed in the steps {first} to {last}, not {shown(one)}"
            readers = [n for n, (_, reads) in enumerate(steps) if name in reads]
            why = f"it is read in {', '.join(map(str, readers))}" if readers else "nobody reads it"
            kept_too = ", and it is kept" if name in kept else ""
            raise LackingError(f"{text}: {why}{kept_too}{given}", shows)


class PlanTask(Task):
    """A plan that meets the bound."""

    name, text = "plan", "place all values in the smallest arena"
    points = 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        """Cases in which largest first meets the bound; in half of them no simpler order does."""
        found: list[Case] = [({"a": 5}, {"a": (0, 0)})]
        simple: list[Case] = []
        while len(found) < 8 or len(simple) < 4:
            steps = drawn(draw, draw.randint(4, 12))
            lives = lives_of(steps, [steps[-1][0]])
            sizes = {name: draw.choice((1, 2, 3, 4, 6, 8, 12)) * 16 for name in lives}
            bound = max(alive(sizes, lives))
            large = sorted(lives, key=lambda name: (-sizes[name], lives[name]))
            if _end(placed(large, sizes, lives), sizes) > bound:
                continue
            others = (list(lives), large[::-1])
            hard = all(_end(placed(order, sizes, lives), sizes) > bound for order in others)
            (found if hard else simple).append((sizes, lives))
        return [*found[:8], *simple[:4]]

    def judge(self, case: Case, got: Any) -> None:
        sizes, lives = case
        bound = max(alive(sizes, lives))
        shows = [
            "assert got.keys() == sizes.keys(), got",
            "assert all(type(one) is int and one >= 0 for one in got.values()), got",
            "held = {name: set(range(got[name], got[name] + sizes[name])) for name in sizes}",
            "pairs = [(one, other) for one in sizes for other in sizes if one < other]",
            "meet = lambda a, b: lives[a][0] <= lives[b][1] and lives[b][0] <= lives[a][1]",
            "assert not [(a, b) for a, b in pairs if meet(a, b) and held[a] & held[b]], got",
            f"assert max(got[name] + sizes[name] for name in sizes) <= {bound}, got",
        ]
        given = f" (sizes are {shown(sizes)}; lives {shown(lives)})"
        if not isinstance(got, dict) or got.keys() != sizes.keys():
            raise LackingError("a dictionary with an offset for each value is wanted", shows)
        for name, offset in got.items():
            if not is_integer(offset, 0):
                text = f"the offset of {name} is {shown(offset)}, no integer that is >= 0"
                raise LackingError(text + given, shows)
        for one, other in itertools.combinations(sizes, 2):
            low, high = sorted((one, other), key=got.__getitem__)
            if _meet(lives, one, other) and got[high] < got[low] + sizes[low]:
                step = max(lives[one][0], lives[other][0])
                text = f"{low} and {high} share bytes, and both are needed in step {step}"
                raise LackingError(
                    f"{text}: {low} ends at {got[low] + sizes[low]}, and {high} "
                    f"begins at {got[high]}{given}",
                    shows,
                )
        if _end(got, sizes) > bound:
            text = f"the arena has {_end(got, sizes)} bytes; {bound} are enough"
            raise LackingError(text + given, shows)

    def script(self, case: Case) -> list[str]:
        sizes, lives = case
        return [f"sizes = {sizes!r}", f"lives = {lives!r}", "got = answer(sizes, lives)"]


def first_fault(
    steps: Steps, sizes: Mapping[str, int], offsets: Mapping[str, int]
) -> tuple[int, str, str] | None:
    """The first step that reads a value that was written over, this value, and the one over it."""
    held: dict[str, str] = {}
    for number, (name, reads) in enumerate(steps):
        for read in reads:
            if held.get(read, read) != read:
                return number, read, held[read]
        low, high = offsets[name], offsets[name] + sizes[name]
        for other, over in held.items():
            meets = offsets[other] < high and low < offsets[other] + sizes[other]
            if meets and over == other:
                held[other] = name
        held[name] = name
    return None


class FaultTask(FunctionTask):
    """The first fault of a plan."""

    name, text = "fault", "find the step that reads what was freed too early"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        row = [("a", ["x"]), ("b", ["a"]), ("c", ["b"])]
        skip = [("a", ["x"]), ("b", ["a"]), ("c", ["b", "a"])]
        one = dict.fromkeys("abc", 8)
        found: list[Case] = [
            (row, one, {"a": 0, "b": 8, "c": 0}),
            (skip, one, {"a": 0, "b": 8, "c": 16}),
            (skip, one, {"a": 0, "b": 7, "c": 16}),
            (row, one, {"a": 0, "b": 0, "c": 0}),
            (skip, one, {"a": 0, "b": 8, "c": 0}),
            ([*row, ("d", ["a"])], one | {"d": 8}, {"a": 0, "b": 8, "c": 0, "d": 16}),
            ([*row, ("d", ["a"])], one | {"d": 8}, {"a": 8, "b": 0, "c": 15, "d": 24}),
            ([*row, ("d", ["b"])], one | {"d": 8}, {"a": 0, "b": 8, "c": 0, "d": 8}),
            (
                [*row, ("d", ["a"]), ("e", ["d"])],
                one | {"d": 8, "e": 8},
                {"a": 0, "b": 8, "c": 0, "d": 16, "e": 24},
            ),
        ]
        for count in (5, 6, 7, 8, 10, 12):
            steps = drawn(draw, count)
            lives = lives_of(steps, [])
            sizes = {name: draw.choice((4, 8, 12, 16)) for name in lives}
            short = {n: (a, max(a, b - draw.choice((0, 0, 1)))) for n, (a, b) in lives.items()}
            found.append((steps, sizes, placed(list(lives), sizes, short)))
        return found

    def expected(self, *case: Any) -> int | None:
        found = first_fault(*case)
        return None if found is None else found[0]

    def judge(self, case: Case, got: Any) -> None:
        steps, sizes, offsets = case
        found, want = first_fault(*case), self.expected(*case)
        if got is None or (isinstance(got, int) and not isinstance(got, bool)):
            if got == want:
                return
            text = "no step reads a value that was written over"
            if found is not None:
                text = f"step {found[0]} reads {found[1]}, over which {found[2]} was written"
            text += f"; the answer is {got}"
        else:
            text = f"the number of a step or None is wanted, not {shown(got)}"
        raise LackingError(
            f"{text} (steps are {shown(steps)}; sizes {shown(sizes)}; offsets {shown(offsets)})",
            [f"assert got == {want!r}, got"],
        )


class PlaceTask(FunctionTask):
    """Layouts of images."""

    name, text = "place", "say where an element lies in a layout"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = [((1, 4, 2, 3), 0, (0, 1, 0, 0)), ((1, 4, 2, 3), 4, (0, 1, 0, 0))]
        found.append(((1, 4, 2, 3), 2, (0, 3, 1, 2)))
        for _ in range(12):
            block = draw.choice((1, 2, 3, 4))
            shape = (
                draw.randint(1, 3),
                block * draw.choice((1, 2, 3)),
                *draw.sample(range(2, 8), 2),
            )
            index = tuple(draw.randrange(extent) for extent in shape)
            found.append((shape, draw.choice((0, block, block, shape[1])), index))
        return found

    def expected(self, *case: Any) -> int:
        (_, channels, height, width), block, (n, c, y, x) = case
        if block == 0:
            return int(((n * channels + c) * height + y) * width + x)
        outer, inner = divmod(c, block)
        return int((((n * (channels // block) + outer) * height + y) * width + x) * block + inner)


TASKS: Sequence[Task] = (LivesTask(), PlanTask(), FaultTask(), PlaceTask())
