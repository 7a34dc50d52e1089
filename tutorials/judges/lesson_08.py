"""Judges of lesson 8, lanes and threads."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

from minitensor import codegen, ir, lang
from minitensor.schedule import Schedule

from ..course.requirements import (
    accesses_after_passes,
    full_vectors,
    no_remark,
    stored_by_lanes,
)
from ..course.tasks import Case, FunctionTask, Requirement, ScheduleTask, Task

_BITS = 256


class LeftOver(FunctionTask):
    """Iterations in scalars, counted in the program that the passes make."""

    name, text = "left_over", "count the iterations that no vector does"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for bits in (128, 256, 512):
            for size in draw.sample([8, 16, 32, 64], 3):
                lanes = bits // size
                few = 128 // size
                extents = [draw.randint(1, 5 * lanes), lanes * 2, lanes + few - 1, few - 1]
                found += [(extent, bits, size) for extent in extents if extent > 0]
        return draw.sample(found, len(found))

    def expected(self, extent: int, bits: int, size: int) -> int:
        A = lang.placeholder((extent,), f"int{size}", name="A")
        s = Schedule(lang.lower([A, lang.compute((extent,), lambda i: A[i] // 3, name="B")]))
        s.vectorize("i")
        after = codegen.lowered(s.program, codegen.Target("c", 1, bits))
        return stored_by_lanes(after, "B").get(1, 0)


class Lanes(ScheduleTask):
    """Stages in vectors, whose widths no vector divides."""

    name, text = "lanes", "vectorize stages of odd widths"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        dtypes = ["float32", "float64", "int16"]
        return [(stages(draw, dtype),) for dtype in draw.sample(dtypes, 3)]

    def requirements(self, program: ir.Program, *_: Any) -> Sequence[Requirement]:
        found = []
        for name in ("P", "Q"):
            rows, width = program.buffers[name].shape
            lanes = _BITS // program.buffers[name].dtype.bits
            found.append(full_vectors(name, lanes, rows * (width // lanes * lanes)))
        return [no_remark("gather"), no_remark("lanes"), *found]


def stages(draw: random.Random, dtype: str) -> ir.Program:
    """A product by a number for each column, and sums of neighbours in a row."""
    lanes = _BITS // (8 * {"float32": 4, "float64": 8, "int16": 2}[dtype])
    rows, width = draw.randint(2, 5), lanes * draw.randint(2, 4) + draw.randint(1, lanes // 2) + 1
    width += 1 - width % 2  # odd, and at least a vector and a part of one
    A = lang.placeholder((rows, width), dtype, name="A")
    w = lang.placeholder((width,), dtype, name="w")
    P = lang.compute((rows, width), lambda i, j: A[i, j] * w[j], name="P")
    Q = lang.compute((rows, width - 2), lambda i, j: P[i, j] + P[i, j + 2], name="Q")
    return lang.lower([A, w, P, Q], name="stages")


class Share(ScheduleTask):
    """Work for all cores."""

    name, text = "share", "give work to all cores"
    most_steps = 100_000

    def cases(self, draw: random.Random) -> Sequence[Case]:
        rows = [1, *draw.sample(range(2, 6), 2)]
        return [(rowwise(m, draw.randint(400, 900)), draw.choice([6, 8, 12])) for m in rows]

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        return [outermost_shared(arguments[0], 1.25), long_iterations(16)]


def rowwise(rows: int, width: int) -> ir.Program:
    """A few long rows."""
    A = lang.placeholder((rows, width), "float32", name="A")
    B = lang.compute((rows, width), lambda i, j: A[i, j] * A[i, j] + 1.0, name="B")
    return lang.lower([A, B], name="squares")


def outermost_shared(cores: int, most: float) -> Requirement:
    """The outermost loop parallel, and shared out evenly."""

    def look(s: Schedule) -> str | None:
        loops = ir.paths(s.program).get("B", ())
        if not loops or loops[0].kind is not ir.LoopKind.PARALLEL:
            kind = f"of kind {loops[0].kind.value}" if loops else "not there"
            return f"it is {kind}"
        extent = loops[0].extent
        busiest = -(-extent // cores)
        if busiest * cores > most * extent:
            average = f"the average is {extent / cores:.3g}"
            return f"of its {extent} iterations one core has {busiest}, {average}"
        work = elements_of_cores(s.program, cores)
        if max(work) * cores <= most * sum(work):
            return None
        average = f"the average is {sum(work) / cores:.3g}"
        return f"of its elements one core computes {max(work)}, {average}"

    lines = (
        "outer = ir.paths(s.program)['B'][0]",
        "assert outer.kind.value == 'parallel', outer.kind",
        f"busiest = -(-outer.extent // {cores})",
        f"assert busiest <= {most} * outer.extent / {cores}, (outer.extent, busiest)",
        f"from {__name__} import elements_of_cores",
        f"work = elements_of_cores(s.program, {cores})",
        f"assert max(work) <= {most} * sum(work) / {cores}, work",
    )
    text = f"the outermost loop is parallel, and no one of {cores} cores has more than {most} times"
    return Requirement(f"{text} the average", look, lines)


def elements_of_cores(program: ir.Program, cores: int) -> list[int]:
    """The elements of B that each core computes, if iterations of the outermost loop are handed out
    in pieces of equal length.
    """
    loops, predicate = ir.paths(program)["B"], program.blocks["B"].predicate
    length = -(-loops[0].extent // cores)
    found = [0] * cores
    for numbers in itertools.product(*(range(loop.extent) for loop in loops)):
        values = dict(zip((loop.var for loop in loops), numbers))
        found[numbers[0] // length] += bool(ir.evaluate(predicate, values))
    return found


def long_iterations(least: int) -> Requirement:
    """Iterations of the outermost loop that are worth a thread."""

    def look(s: Schedule) -> str | None:
        inner = math.prod(loop.extent for loop in ir.paths(s.program).get("B", ())[1:])
        return None if inner >= least else f"it computes {inner}"

    lines = (
        "import math",
        "inner = math.prod(loop.extent for loop in ir.paths(s.program)['B'][1:])",
        f"assert inner >= {least}, inner",
    )
    what = f"an iteration of the outermost loop computes at least {least} elements"
    return Requirement(what, look, lines)


class Tile(ScheduleTask):
    """A tile of a product in registers."""

    name, text = "tile", "keep a tile in registers"
    points = 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for rows, dtype in zip(draw.sample([2, 3, 4, 5], 3), ("float32", "float32", "float64")):
            m, n, k = rows * draw.randint(2, 3), 8 * draw.randint(1, 3), draw.randint(3, 7)
            found.append((product(m, n, k, dtype), rows))
        return found

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        (m, k), n = program.inputs[0].shape, program.outputs[0].shape[1]
        return [
            accesses_after_passes("stores", "C", m * n),
            accesses_after_passes("loads", "C", 0),
            accesses_after_passes("loads", "B", m * n * k // arguments[0]),
        ]


def product(m: int, n: int, k: int, dtype: str) -> ir.Program:
    """The product of lesson 8."""
    A = lang.placeholder((m, k), dtype, name="A")
    B = lang.placeholder((k, n), dtype, name="B")
    r = lang.reduce_axis(k, name="k")
    C = lang.compute((m, n), lambda i, j: lang.sum_(A[i, r] * B[r, j], axis=r), name="C")
    return lang.lower([A, B, C], name="product")


TASKS: Sequence[Task] = (LeftOver(), Lanes(), Share(), Tile())
