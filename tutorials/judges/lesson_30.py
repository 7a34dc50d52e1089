"""Judges of lesson 30, programs of blocks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from minitensor import ir, lang
from minitensor.schedule import Schedule

from ..course.place import import_line
from ..course.requirements import accesses, held, that
from ..course.tasks import Case, FunctionTask, LackingError, Requirement, ScheduleTask, Task
from .values import brief

ROWS: Final = 8
"""Rows of a block of the softmax."""


class Traffic(FunctionTask):
    """The elements that blocks load."""

    name, text = "traffic", "count what the blocks of a product load"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = [(8, 16, 4, 4, 8), (1, 1, 1, 1, 1)]
        for _ in range(4):
            sizes = [draw.randint(5, 60) for _ in "mnk"]
            found.append((*sizes, draw.randint(2, 16), draw.randint(2, 16)))
        return found

    def expected(self, *case: Any) -> Any:
        m, n, k, bm, bn = case
        return m * k * -(-n // bn), k * n * -(-m // bm)


class Block:
    """One block of a launch, as in the lesson: it counts loads, and who stored what."""

    def __init__(self, place: tuple[int, ...], counts: Counter[Any], owners: Counter[Any]) -> None:
        self.place, self._counts, self._owners = place, counts, owners

    def load(self, name: str, array: np.ndarray, rows: Any, columns: Any) -> np.ndarray:
        """The tile of some rows and columns, with zeros outside of the array."""
        rows, columns = np.atleast_1d(rows), np.atleast_1d(columns)
        mask = (rows < array.shape[0])[:, None] & (columns < array.shape[1])
        tile = np.zeros(mask.shape, array.dtype)
        tile[mask] = array[np.ix_(rows[mask.any(1)], columns[mask.any(0)])].ravel()
        for at in np.argwhere(mask):
            self._counts[int(rows[at[0]]), int(columns[at[1]])] += 1
        return tile

    def store(self, array: np.ndarray, rows: Any, columns: Any, tile: Any) -> None:
        """Store a tile, but for what is outside of the array."""
        rows, columns = np.atleast_1d(rows), np.atleast_1d(columns)
        tile = np.broadcast_to(np.asarray(tile), (len(rows), len(columns)))
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                if row < array.shape[0] and column < array.shape[1]:
                    self._owners[int(row), int(column)] += 1
                    array[row, column] = tile[i, j]


def launched(kernel: Callable[..., Any], x: np.ndarray) -> tuple[np.ndarray, int, int]:
    """The result of a kernel on all blocks of x, last ones first, and the most loads and stores of
    one element.
    """
    y = np.full(x.shape, np.nan, x.dtype)
    counts: Counter[Any] = Counter()
    owners: Counter[Any] = Counter()
    for place in reversed(range(-(-len(x) // ROWS))):
        kernel(Block((place,), counts, owners), x, y)
    return y, max(counts.values(), default=0), max(owners.values(), default=0)


class SoftmaxBlock(Task):
    """A softmax of blocks of rows."""

    name, text, points = "softmax_block", "write the block program of a softmax", 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        shapes = [(16, draw.randint(3, 9)), (ROWS + draw.randint(1, 6), draw.randint(3, 9)), (3, 5)]
        found = []
        for number, shape in enumerate([*shapes, (1, 1)]):
            x = np.random.default_rng(draw.randint(0, 999)).normal(size=shape) * 3
            found.append(((x + (0, 200, -200, 0)[number]).astype("float32"),))
        return found

    def ask(self, answer: Any, case: Case) -> Any:
        return list(launched(answer, *case))

    def judge(self, case: Case, got: Any) -> None:
        (x,) = case
        wide = x.astype(np.float64)
        want = np.exp(wide - wide.max(axis=1, keepdims=True))
        want /= want.sum(axis=1, keepdims=True)
        about = f"of {x.shape[0]} rows of {x.shape[1]} numbers"
        y, loads, stores = got if isinstance(got, list) and len(got) == 3 else (got, 0, 0)
        right = isinstance(y, np.ndarray) and y.shape == x.shape and y.dtype == x.dtype
        if not right or not np.allclose(y, want, rtol=1e-4, atol=1e-6):
            lines = (
                "e = np.exp(x.astype('float64') - x.max(axis=1, keepdims=True))",
                "want = e / e.sum(axis=1, keepdims=True)",
                "np.testing.assert_allclose(got[0], want, rtol=1e-4, atol=1e-6)",
            )
            raise LackingError(f"{about}: the result is wrong: {brief(y)}", lines)
        if (loads, stores) != (1, 1):
            text = f"{about}: an element is loaded {loads} times and stored {stores} times"
            raise LackingError(f"{text}; once is enough", ("assert got[1:] == (1, 1), got[1:]",))

    def script(self, case: Case) -> list[str]:
        (x,) = case
        return [
            import_line(launched),
            f"x = np.array({x.tolist()}, 'float32')",
            "got = launched(answer, x)",
        ]


def product(m: int, n: int, k: int) -> ir.Program:
    """The program of C = A B."""
    A, B = lang.placeholder((m, k), name="A"), lang.placeholder((k, n), name="B")
    r = lang.reduce_axis(k, name="k")
    C = lang.compute((m, n), lambda i, j: lang.sum_(A[i, r] * B[r, j], axis=r), name="C")
    return lang.lower([A, B, C], name="product")


def grid_of(s: Schedule) -> list[int]:
    """The extents of the parallel loops around C, outermost first."""
    loops = ir.paths(s.program)["C"]
    return [loop.extent for loop in loops if loop.kind is ir.LoopKind.PARALLEL]


class Blocks(ScheduleTask):
    """The schedule of a program of blocks."""

    name, text, points = "blocks", "make the loops of a block program", 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        for number in range(3):
            tile = [draw.randint(2, 4) for _ in range(3)]
            sizes = [size * draw.randint(2, 3) for size in tile]
            if number:
                sizes = [size + draw.randint(0, 1) for size in sizes]
            found.append((product(*sizes), *tile))
        return found

    def requirements(self, program: ir.Program, *arguments: Any) -> Sequence[Requirement]:
        bm, bn, bk = arguments
        (m, k), (_, n) = program.inputs[0].shape, program.inputs[1].shape
        rows, columns = -(-m // bm), -(-n // bn)
        grid = that(
            f"one parallel loop has {rows * columns} iterations",
            lambda s: grid_of(s) == [rows * columns],
            import_line(grid_of),
            f"assert grid_of(s) == [{rows * columns}], grid_of(s)",
        )
        return [
            grid,
            accesses("loads", "A", m * k * columns),
            accesses("loads", "B", k * n * rows),
            held(4 * (bm * bk + bk * bn)),
        ]


TASKS: Sequence[Task] = (Traffic(), SoftmaxBlock(), Blocks())
