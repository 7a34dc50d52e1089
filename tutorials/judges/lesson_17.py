"""Judges of lesson 17: a template by the space that it makes, and two parts of tuners."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from minitensor import ir, lang
from minitensor.codegen import Target
from minitensor.errors import MinitensorError, shown
from minitensor.lang import definition_as_python
from minitensor.schedule import Schedule
from minitensor.search import Space

from ..course.tasks import (
    Case,
    FunctionTask,
    LackingError,
    Task,
    as_python,
    described,
    replayed,
    results_of,
)

TARGET: Final = Target("c", num_cores=2, vector_bits=256)
MOST_CANDIDATES: Final = 200
MOST_RUN: Final = 3
"""Candidates of a space that the interpreter runs."""


def product(n: int, m: int, k: int, dtype: str) -> ir.Program:
    """A product of matrices."""
    A = lang.placeholder((n, k), dtype, name="A")
    B = lang.placeholder((k, m), dtype, name="B")
    r = lang.reduce_axis(k, name="k")
    C = lang.compute((n, m), lambda i, j: lang.sum_(A[i, r] * B[r, j], axis=r), name="C")
    return lang.lower([A, B, C], name="product")


def candidates(program: ir.Program, template: Callable[[Schedule], object]) -> list[Schedule]:
    """The schedules of all candidates of a template's space that are as it requires."""
    space, rng = Space.of_template(program, TARGET, template), random.Random(0)
    found: list[Schedule] = []
    for sketch, knobs in enumerate(space.knobs):
        one = space.draw(rng, sketch)
        for values in itertools.product(*[knob.options for knob in knobs]):
            if len(found) >= MOST_CANDIDATES:
                return found
            try:
                found.append(space.realized(replace(one, values=values))[1])
            except MinitensorError:
                continue
    return found


def divisors(n: int) -> list[int]:
    """The numbers that divide n."""
    return [d for d in range(1, n + 1) if n % d == 0]


class Tiles(Task):
    """A template of tiles."""

    name, text = "tiles", "make a template with exactly the wanted candidates"
    points = 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        return [
            (product(draw.choice([6, 8]), 24, 2, "float32"), draw.choice([24, 36, 48])),
            (product(draw.choice([4, 5, 9]), draw.choice([20, 28, 40]), 3, "int32"), 40),
        ]

    def ask(self, answer: Any, case: Case) -> Any:
        program, most = case
        unwritten: list[NotImplementedError] = []

        def template(s: Schedule) -> None:
            try:
                answer(s, most)
            except NotImplementedError as failure:
                unwritten.append(failure)
                raise

        try:
            return candidates(program, template)
        except MinitensorError:
            if unwritten:
                raise unwritten[0] from None
            raise

    def judge(self, case: Case, got: Any) -> None:
        program, most = case
        where = f"of {described(program)}, most = {most}: "
        if not isinstance(got, list) or len(got) > MOST_CANDIDATES:
            raise LackingError(f"{where}a template is wanted", ["assert isinstance(got, list)"])
        if len(got) == MOST_CANDIDATES:
            text = f"{where}the space has {MOST_CANDIDATES} candidates or more"
            raise LackingError(text, [f"assert len(got) < {MOST_CANDIDATES}"])
        rows, columns = program.outputs[0].shape
        found: dict[tuple[int, int], Schedule] = {}
        for trace in got:
            s = replayed(program, trace)
            found.setdefault(self._tile(s, where), s)
        wanted = {
            (y, x)
            for y, x in itertools.product(divisors(rows), divisors(columns))
            if y * x <= most and x % 4 == 0
        }
        lines = [
            f"want = {as_python(sorted(wanted))}",
            "found = [tuple(l.extent for l in ir.paths(s.program)['C'][-2:]) for s in got]",
            "assert sorted(set(found)) == want, sorted(set(found))",
        ]
        for y, x in sorted(found.keys() - wanted):
            why = f"has {y * x} elements" if y * x > most else f"has {x} columns"
            if rows % y or columns % x:
                why = f"does not divide {rows} x {columns}"
            raise LackingError(f"{where}a candidate has tiles of {y} x {x}, which {why}", lines)
        for y, x in sorted(wanted - found.keys()):
            raise LackingError(f"{where}no candidate has tiles of {y} x {x}", lines)
        results = results_of(program, 20_000)
        for s in list(found.values())[:: max(1, len(found) // MOST_RUN)]:
            said = results.look(s)
            if said is not None:
                raise LackingError(f"{where}{said}", ["assert False"])

    def _tile(self, s: Schedule, where: str) -> tuple[int, int]:
        """The extents of the inner loops of C, if its loops are those that are wanted."""
        block, loops = s.program.blocks.get("C"), ir.paths(s.program).get("C", ())
        lines = [
            "for s in got:",
            "    block = s.program.blocks['C']",
            "    loops = [l.var for l in ir.paths(s.program)['C']]",
            "    of_i, of_j = [ir.free_vars(i.binding) for i in block.iters[:2]]",
            "    assert len(of_i) == len(of_j) == 2, (of_i, of_j)",
            "    assert loops[-2] in of_i and loops[-1] in of_j, loops",
        ]
        if block is None or len(block.iters) != 3:
            raise LackingError(f"{where}a candidate has no block C as it was", lines)
        of_i, of_j = (ir.free_vars(i.binding) for i in block.iters[:2])
        for name, driving in (("i", of_i), ("j", of_j)):
            if len(driving) != 2:
                text = f"{name} is cut into {len(driving)} loops, and two are wanted"
                raise LackingError(f"{where}of a candidate {text}", lines)
        names = [loop.var for loop in loops]
        if names[-2] not in of_i or names[-1] not in of_j:
            text = f"the loops of a candidate are {', '.join(names)}"
            raise LackingError(f"{where}{text}: the inner ones of i and j have to be last", lines)
        return loops[-2].extent, loops[-1].extent

    def script(self, case: Case) -> list[str]:
        program, most = case
        return [
            f"from {__name__} import candidates",
            definition_as_python(program),
            f"got = candidates(program, lambda s: answer(s, {most}))",
        ]


class Factorizations(FunctionTask):
    """All products of a number."""

    name, text = "factorizations", "list the factors that a knob may have"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        drawn = [(draw.choice([12, 18, 30, 36, 48]), parts) for parts in (2, 3, 4)]
        return [(1, 3), (draw.choice([7, 13]), 2), (draw.randint(2, 30), 1), *drawn]

    def expected(self, *case: Any) -> list[tuple[int, ...]]:
        n, parts = case
        if parts == 1:
            return [(n,)]
        return [(d, *rest) for d in divisors(n) for rest in self.expected(n // d, parts - 1)]

    def judge(self, case: Case, got: Any) -> None:
        want = self.expected(*case)
        call = f"factorizations{case}"
        lines = [
            f"want = {as_python(want)}",
            "assert sorted(map(tuple, got)) == sorted(want), got",
        ]
        if not isinstance(got, (list, tuple, set)):
            raise LackingError(f"{call} has to be a list of tuples", lines)
        found: list[tuple[int, ...]] = []
        for one in got:
            whole = isinstance(one, (list, tuple)) and all(
                isinstance(d, (int, np.integer)) and not isinstance(d, bool) for d in one
            )
            if not whole or tuple(one) not in want:
                raise LackingError(f"{call} has {shown(one)}, which is none", lines)
            found.append(tuple(one))
        for one in found:
            if found.count(one) > 1:
                raise LackingError(f"{call} has {one} more than once", lines)
        for one in want:
            if one not in found:
                raise LackingError(f"{call} lacks {one}", lines)


class OneGeneration(FunctionTask):
    """A step of a genetic algorithm."""

    name, text = "one_generation", "make the next generation of a genetic algorithm"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        return [self._case(draw, *given) for given in zip(self.speeds, (2, 4, 1, 7))]

    speeds = ((8,), (5, 5, 0, 4, 2), (12, 12, 0, 4, 1, 2, 1, 0), (3, 0, 7, 3, 2, 1))
    """Their sums are powers of two, and numbers multiples of 1 / 64: products are exact."""

    def _case(self, draw: random.Random, given: Sequence[int], knobs: int) -> Case:
        many, speeds = len(given), draw.sample(given, len(given))
        options = [draw.randint(2, 9) for _ in range(knobs)]
        population = [tuple(draw.randrange(n) for n in options) for _ in range(many)]
        numbers = [draw.randrange(64) / 64 for _ in range(many * (3 + 2 * knobs))]
        border = next(total for total in itertools.accumulate(speeds) if total)
        numbers[:2] = [border / sum(speeds) % 1] * 2
        return population, speeds, options, numbers

    def expected(self, *case: Any) -> list[tuple[int, ...]]:
        population, speeds, options, numbers = case
        rest = iter(numbers)
        sums = list(itertools.accumulate(speeds))

        def parent() -> tuple[int, ...]:
            at = next(rest) * sums[-1]
            found: tuple[int, ...] = next(p for p, total in zip(population, sums) if total > at)
            return found

        made = [population[speeds.index(max(speeds))]]
        while len(made) < len(population):
            one, other = parent(), parent()
            point = int(next(rest) * len(options))
            child = [*one[:point], *other[point:]]
            for knob, many in enumerate(options):
                if next(rest) < 1 / 8:
                    child[knob] = int(next(rest) * many)
            made.append(tuple(child))
        return made


TASKS: Sequence[Task] = (Tiles(), Factorizations(), OneGeneration())
