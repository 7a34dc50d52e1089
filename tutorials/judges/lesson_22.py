"""Judges of lesson 22: a primitive with its refusals, and a sketch rule."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from minitensor import ir, lang
from minitensor.codegen import Target
from minitensor.errors import MinitensorError, ScheduleError
from minitensor.lang import definition_as_python
from minitensor.schedule import Schedule
from minitensor.search import Rule, State, Verdict, generate_sketches

from ..course.tasks import (
    Case,
    LackingError,
    Task,
    as_python,
    instances,
    replayed,
    results_of,
    small_arrays,
)

TARGET: Final = Target("c", num_cores=2, vector_bits=256)
MOST_STEPS: Final = 5_000
"""Instances of blocks that are run; the programs have some hundreds."""
SEEDS: Final = 16
MOST_SKETCHES: Final = 6


def padded(n: int, m: int, dtype: str) -> ir.Program:
    """Differences along rows."""
    A = lang.placeholder((n, m), dtype, name="A")
    D = lang.compute(
        (n, m), lambda i, j: A[i, j] - lang.if_then_else(j > 0, A[i, j - 1], 0), name="D"
    )
    return lang.lower([A, D], name="differences")


def row_sums(n: int, m: int, dtype: str) -> ir.Program:
    """Sums of rows, and twice these."""
    A = lang.placeholder((n, m), dtype, name="A")
    k = lang.reduce_axis(m, name="k")
    S = lang.compute((n,), lambda i: lang.sum_(A[i, k], axis=k), name="S")
    return lang.lower([A, lang.compute((n,), lambda x: S[x] * 2, name="T")], name="sums")


def sums_so_far(n: int, m: int) -> ir.Program:
    """Each row added to the one before it."""
    A = lang.placeholder((n, m), "float32", name="A")
    W = lang.update(
        (n, m),
        lambda W, i, j: A[i, j] + lang.if_then_else(i > 0, W[i - 1, j], 0.0),
        name="W",
    )
    return lang.lower([A, W], name="scan")


def blur(n: int) -> ir.Program:
    """Three neighbours."""
    A = lang.placeholder((n + 2,), "float32", name="A")
    P = lang.compute((n + 2,), lambda x: A[x] * 2.0, name="P")
    Q = lang.compute((n,), lambda y: P[y] + P[y + 1] + P[y + 2], name="Q")
    return lang.lower([A, Q], name="blur")


def scheduled(program: ir.Program, steps: Sequence[tuple[Any, ...]]) -> ir.Program:
    """The program after some steps: the name of each, and its arguments."""
    s = Schedule(program)
    for name, *arguments in steps:
        getattr(s, name)(*arguments)
    return s.program


def rotated(program: ir.Program, loop: str, n: int) -> ir.Program:
    """A loop that begins elsewhere, whether that is right or not."""

    def at(node: Any) -> Any:
        if not isinstance(node, ir.For) or node.var != loop:
            return node
        elsewhere = (ir.Var(loop) + n) % node.extent
        return replace(node, body=ir.substitute(node.body, {loop: elsewhere}))

    return program.replace(body=ir.rewrite(program.body, at))


def stores(program: ir.Program) -> list[tuple[str, tuple[int, ...]]]:
    """The elements of outputs that are stored to, in order; starts of reductions left out."""
    names = {b.name for b in program.outputs}
    found: list[tuple[str, tuple[int, ...]]] = []

    def run(stmt: ir.Stmt, values: Mapping[str, int]) -> None:
        match stmt:
            case ir.For(var, extent, body):
                for number in range(extent):
                    run(body, {**values, var: number})
            case ir.Seq(parts):
                for part in parts:
                    run(part, values)
            case ir.Block():
                if ir.evaluate(stmt.predicate, values):
                    own = {i.var: int(ir.evaluate(i.binding, values)) for i in stmt.iters}
                    visit(stmt.body, own)
            case _:
                raise LackingError(f"it makes a {type(stmt).__name__} outside of blocks")

    def visit(stmt: ir.Stmt, values: Mapping[str, int]) -> None:
        for node in ir.stmts_of(stmt):
            if isinstance(node, (ir.Store, ir.Reduce)):
                buffers = [node.buffer] if isinstance(node, ir.Store) else node.buffers
                place = tuple(int(ir.evaluate(index, values)) for index in node.indices)
                found.extend((buffer, place) for buffer in buffers if buffer in names)

    run(program.body, {})
    return found


class Rotate(Task):
    """A primitive that changes the order of iterations."""

    name, text = "rotate", "write a primitive, and refuse it where it is wrong"
    points = 3

    def cases(self, draw: random.Random) -> Sequence[Case]:
        n, m = draw.randint(4, 6), draw.randint(7, 9)
        dtype = draw.choice(["int32", "float32", "float64"])
        rows, scan, pad = row_sums(n, m, dtype), sums_so_far(n, m), padded(n, m, dtype)
        tiles = [("split", "y", [None, 4]), ("compute_at", "P", "y_0")]
        cut = [("split", "j", [None, 3])]
        parts = [("decompose_reduction", "S", "k")]
        drawn = [
            (pad, [], "i", n - 1),
            (pad, [], "j", draw.randint(1, m - 1)),
            (pad, cut, draw.choice(["j_0", "j_1"]), draw.randint(1, 2)),
            (rows, [], "x", draw.randint(1, n - 1)),
            (rows, [], "i", draw.randint(1, n - 1)),
            (rows, [], "k", draw.randint(1, m - 1)),
            (rows, parts, "k", draw.randint(1, m - 1)),
            (rows, [("split", "k", [None, 3])], "k_0", 1),
            (scan, [], "i", draw.randint(1, n - 1)),
            (scan, [], "j", draw.randint(1, m - 1)),
            (blur(4 * n), tiles, "y_0", draw.randint(1, n - 1)),
            (blur(4 * n), tiles, "y_1", draw.randint(1, 3)),
            (pad, [("parallel", "i")], "i", 1),
            (pad, [("vectorize", "j")], "j", 1),
            (pad, [("parallel", "i")], "j", 1),
            (pad, [], "i", 0),
            (pad, [], "i", n),
            (pad, [], "j", draw.choice([-1, m + 1])),
        ]
        return draw.sample(drawn, len(drawn))

    def ask(self, answer: Any, case: Case) -> Any:
        program, steps, loop, n = case
        try:
            return answer(scheduled(program, steps), loop, n)
        except ScheduleError as refusal:
            return ("refused", str(refusal.message))

    def judge(self, case: Case, got: Any) -> None:
        definition, steps, loop, n = case
        program = scheduled(definition, steps)
        site = ir.loop_sites(program)[loop].loop
        where = f"rotate({loop!r}, {n}) in {program.name}{_after(steps)}"
        arrays, wrong = small_arrays(program), rotated(program, loop, n)
        want, _ = ir.interpret(program, arrays)
        if site.kind is not ir.LoopKind.SERIAL:
            why = f"{loop} is {site.kind.value}"
        elif not 0 < n < site.extent:
            why = f"{loop} has {site.extent} iterations"
        else:
            why = "" if _same(want, wrong, arrays) else "results change"
        refused = isinstance(got, tuple) and len(got) == 2 and isinstance(got[0], str)
        if refused:
            if not why:
                text = f"{where} is refused, though results stay the same: {str(got[1])[:200]}"
                raise LackingError(text, ["assert not refused, refused"])
            return
        made = got[0] if isinstance(got, tuple) and got else got
        lines = ["made = got[0] if isinstance(got, tuple) else got", "mt.verify(made)"]
        if not isinstance(made, ir.Program):
            raise LackingError(f"{where} gives no program", ["assert refused or got", *lines])
        if why in ("", "results change"):
            self._right(where, program, made, arrays, want, why, lines)
        if why and why != "results change":
            raise LackingError(f"{where} has to be refused: {why}", ["assert refused"])
        expected, found = stores(wrong), stores(made)
        if expected != found:
            places = [p for p, q in itertools.zip_longest(found, expected) if p != q]
            text = f"{where} gives right results, but not in the order that is wanted"
            text += f": {places[0]} comes too early or too late" if places[0] else ""
            check = [
                f"from {__name__} import stores",
                f"assert stores(made) == {expected!r}, stores(made)",
            ]
            raise LackingError(text, [*lines, *check])

    def _right(
        self,
        where: str,
        program: ir.Program,
        made: ir.Program,
        arrays: list[np.ndarray],
        want: Sequence[np.ndarray],
        why: str,
        lines: list[str],
    ) -> None:
        """Raise LackingError for a program that is malformed, or has other results."""
        lines = [
            *lines,
            "want, found = mt.interpret(program, *arrays), mt.interpret(made, *arrays)",
            "np.testing.assert_array_equal(want, found)",
        ]
        try:
            ir.verify(made)
        except MinitensorError as failure:
            text = f"{where} gives what is no program: {failure.message}"
            raise LackingError(text, lines) from None
        if made.params != program.params or made.outputs != program.outputs:
            other = "assert made.params == program.params and made.outputs == program.outputs"
            raise LackingError(f"{where} changes the parameters", [*lines, other])
        if instances(made) > MOST_STEPS:
            text = f"{where} gives {instances(made):,} instances of blocks: too many"
            raise LackingError(text, ["assert False"])
        if not _same(want, made, arrays):
            text = f"{where} gives wrong results"
            if why:
                text += ": it has to be refused"
            raise LackingError(text, lines)

    def script(self, case: Case) -> list[str]:
        definition, steps, loop, n = case
        return [
            definition_as_python(definition),
            "s = mt.Schedule(program)",
            *[f"s.{name}({', '.join(map(as_python, given))})" for name, *given in steps],
            "program = s.program",
            f"arrays = [{', '.join(as_python(a) for a in small_arrays(definition))}]",
            "got, refused = None, None",
            "try:",
            f"    got = answer(program, {loop!r}, {n})",
            "except mt.ScheduleError as error:",
            "    refused = error",
        ]


def _after(steps: Sequence[tuple[Any, ...]]) -> str:
    """The steps before, in words."""
    texts = [f"{name}({', '.join(map(repr, given))})" for name, *given in steps]
    return f" after {', '.join(texts)}" if texts else ""


def _same(want: Sequence[np.ndarray], made: ir.Program, arrays: list[np.ndarray]) -> bool:
    try:
        found, _ = ir.interpret(made, arrays)
    except MinitensorError:
        return False
    return all(np.array_equal(a, b) for a, b in zip(want, found))


def _left(state: State, cores: int) -> list[State]:
    return [state.after("skip", "left as it is")]


SKIP: Final = Rule("skip", lambda state, cores: Verdict.APPLY, _left)


def drawn_sketches(program: ir.Program, rule: Any) -> list[list[Schedule]]:
    """Some schedules of each sketch that a rule makes, beside one that leaves blocks alone."""
    found = generate_sketches(program, TARGET, rules=[rule, SKIP])[:MOST_SKETCHES]
    return [[sketch.apply(seed=seed) for seed in range(SEEDS)] for sketch in found]


class Strips(Task):
    """A sketch rule."""

    name, text = "strips", "write a rule for the search"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        n = draw.randint(3, 5)
        return [
            (row_sums(n, draw.choice([16, 24]), "float32"),),
            (row_sums(n, draw.choice([13, 19]), "int32"),),
            (padded(n, 9, "float32"),),
        ]

    def ask(self, answer: Any, case: Case) -> Any:
        return drawn_sketches(case[0], answer())

    def judge(self, case: Case, got: Any) -> None:
        program = case[0]
        sums = "S" in program.blocks
        wanted = 2 if sums else 1
        lines = [f"assert len(got) == {wanted}, len(got)"]
        if not isinstance(got, list) or not all(
            isinstance(one, list) and len(one) == SEEDS for one in got[:MOST_SKETCHES]
        ):
            raise LackingError("sketches are wanted", lines)
        where = f"of {program.name} ({'with' if sums else 'without'} a reduction) "
        if len(got) != wanted:
            text = f"{where}{wanted} sketches are wanted, and there are {len(got)}"
            if sums and len(got) == 1:
                text += ": with strips, and by the rules after it"
            raise LackingError(text, lines)
        found = [[replayed(program, trace) for trace in one] for one in got]
        cut = [one for one in found if any(len(s.trace) for s in one)]
        if len(cut) != wanted - 1:
            lines = ["changed = [one for one in got if any(len(s.trace) for s in one)]"]
            lines += [f"assert len(changed) == {wanted - 1}, changed"]
            text = f"{where}{len(cut)} of the sketches have steps, not {wanted - 1}"
            raise LackingError(text, lines)
        for one in cut:
            self._strips(where, program, one)

    def _strips(self, where: str, program: ir.Program, drawn: list[Schedule]) -> None:
        lines = [
            "(drawn,) = [one for one in got if any(len(s.trace) for s in one)]",
            "loops = [ir.paths(s.program)['S'] for s in drawn]",
            "assert all(loop[-1].kind.value == 'unroll' for loop in loops), loops",
            "assert {len(loop) for loop in loops} == {3}, loops",
            "assert {loop[-1].extent for loop in loops} == {4, 8}, loops",
        ]
        sizes = set()
        for s in drawn:
            loops = ir.paths(s.program).get("S", ())
            if len(loops) != 3:
                raise LackingError(f"{where}S has {len(loops)} loops, and 3 are wanted", lines)
            if loops[-1].kind is not ir.LoopKind.UNROLL:
                text = f"the innermost loop of S is {loops[-1].kind.value}, not unrolled"
                raise LackingError(where + text, lines)
            if not any(
                i.kind is ir.IterKind.REDUCE and loops[-1].var in ir.free_vars(i.binding)
                for i in s.program.blocks["S"].iters
            ):
                raise LackingError(f"{where}the loop that is cut is not the innermost", lines)
            sizes.add(loops[-1].extent)
        if sizes != {4, 8}:
            text = f"strips of S have {', '.join(map(str, sorted(sizes)))} iterations"
            raise LackingError(f"{where}{text}, and 4 and 8 are wanted, as a decision", lines)
        said = results_of(program, MOST_STEPS).look(drawn[0])
        if said is not None:
            raise LackingError(where + said, ["assert False"])

    def script(self, case: Case) -> list[str]:
        return [
            f"from {__name__} import drawn_sketches",
            definition_as_python(case[0]),
            "got = drawn_sketches(program, answer())",
        ]


TASKS: Sequence[Task] = (Rotate(), Strips())
