"""Judges of lesson 18, sketches: a derivation of toy programs, and what a rule makes."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from minitensor import ir, lang
from minitensor.codegen import Target
from minitensor.errors import printable
from minitensor.lang import definition_as_python
from minitensor.runtime import USUAL_CACHES
from minitensor.search import RULES, Rule, State, Verdict, generate_sketches

from ..course.tasks import (
    Case,
    FunctionTask,
    LackingError,
    Task,
    as_python,
    replayed,
    results_of,
)

Stage: TypeAlias = "dict[str, Any]"
Pairs: TypeAlias = "tuple[tuple[str, str], ...]"

_MACHINE: Final = Target("c", num_cores=64, vector_bits=256)
_DRAWS: Final = 10
"""Schedules that are drawn from a sketch."""


class Tiled(FunctionTask):
    """The order of loops."""

    name, text = "tiled", "order the loops of a structure"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        drawn = [(draw.randint(1, 3), draw.randint(1, 2), "SSRSRS")]
        drawn += [(2, 1, "SRS"), (2, 0, "SSRSRS"), (0, 2, "SRSR"), (1, 2, "RSSR")]
        return [(draw.sample("bhijxy", s), draw.sample("krq", r), order) for s, r, order in drawn]

    def expected(self, space: list[str], reduce: list[str], structure: str) -> list[str]:
        """The names, level by level."""
        found = []
        for at, letter in enumerate(structure):
            axes = space if letter == "S" else reduce
            found += [f"{axis}_{structure[:at].count(letter)}" for axis in axes]
        return found


class Numbers(FunctionTask):
    """The programs of a sketch."""

    name, text = "numbers", "count the programs of a sketch"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        sizes = (6, 8, 12, 16, 18, 24, 48)
        return [
            ({"i": 7}, {"k": 4}, "SRS", 8),
            ({"i": draw.choice(sizes), "j": draw.choice(sizes)}, {"k": 16}, "SSRSRS", 64),
            ({"x": draw.choice((24, 36, 48))}, {"r": 12, "s": 1}, "SSRSR", draw.choice((4, 6))),
            ({"i": 1, "j": draw.choice(sizes)}, {}, "SSRSRS", 64),
            ({"i": 7, "j": 4}, {"k": 4}, "SRSR", 4),
        ]

    def expected(
        self, space: dict[str, int], reduce: dict[str, int], structure: str, most: int
    ) -> int:
        """The product of the choices of all axes."""
        parts = {"S": space, "R": reduce}
        return math.prod(
            cuts(extent, structure.count(letter), most)
            for letter, axes in parts.items()
            for extent in axes.values()
        )


def cuts(extent: int, parts: int, most: int) -> int:
    """The ways to write an extent as a product of so many factors, the last at most `most`."""
    if parts == 1:
        return int(extent <= most)
    divisors = [d for d in range(1, extent + 1) if extent % d == 0]
    return sum(cuts(extent // d, parts - 1, most) for d in divisors)


class Derive(Task):
    """A derivation of all sketches."""

    name, text, points = "derive", "derive the sketches of toy programs", 3

    def cases(self, draw: random.Random) -> Sequence[Case]:
        layer = ["product", "bias", "relu"]
        kinds = [["relu"], ["product"], layer, [*layer, "product"], ["exp", "normed"]]
        kinds += [["normed", "product"], ["product", "exp", "turned", "relu"]]
        kinds += [draw.choices(KINDS, k=draw.randint(2, 4)) for _ in range(5)]
        few = (toy(draw, ["product"], (draw.randint(1, 8), 200, 4)), 4)
        dot = (toy(draw, ["exp", "product"], (1, draw.randint(9, 40), 1)), 8)
        return [*((toy(draw, one), draw.choice((2, 8, 64))) for one in kinds), few, dot]

    def judge(self, case: Case, got: Any) -> None:
        stages, cores = case
        want = derived(stages, cores)
        found = [_pairs(one) for one in (got if isinstance(got, (list, tuple, set)) else [None])]
        program = " ".join(_shown_stage(one) for one in stages)
        seen, right = set(found), set(want)
        for missing in [one for one in want if one not in seen]:
            lines = [f"missing = {as_python(missing)}", _SEEN, "assert missing in seen, seen"]
            text = f"the sketch {_shown(missing)} is missing of {program} for {cores} cores"
            raise LackingError(text, lines)
        for extra in [one for one in found if one not in right]:
            lines = [f"extra = {as_python(extra)}", _SEEN, "assert extra not in seen, seen"]
            text = f"{program} for {cores} cores has no sketch {_shown(extra)}"
            raise LackingError(text, lines)
        if len(found) != len(want):
            text = f"a sketch of {program} is there more than once: {len(found)} for {len(want)}"
            raise LackingError(text, [f"assert len(got) == {len(want)}, got"])


_SEEN: Final = "seen = [tuple(map(tuple, one)) for one in got]"


def _pairs(one: Any) -> Pairs:
    """A sketch as a tuple of pairs of texts. Raises LackingError."""
    pairs: Sequence[Any] = one if isinstance(one, (list, tuple)) else [()]
    for pair in pairs:
        two = isinstance(pair, (list, tuple)) and len(pair) == 2
        if not two or not all(isinstance(x, str) for x in pair):
            what = "wanted is a list of sketches, each a tuple of pairs of a stage and a rule"
            raise LackingError(what, [_SEEN, _TEXTS])
    return tuple((str(name), str(rule)) for name, rule in pairs)


_TEXTS: Final = "assert all(len(p) == 2 and isinstance(p[1], str) for s in seen for p in s), seen"


def _shown(one: Pairs) -> str:
    return printable(", ".join(f"{name}: {rule}" for name, rule in one)[:300])


def _shown_stage(one: Stage) -> str:
    """A stage in a line: S[i] = sum over k of X[i,k]."""
    reads = " ".join(f"{buffer}[{','.join(axes)}]" for buffer, axes in one["reads"])
    kind = "costly " * one["costly"] + f"sum over {','.join(one['reduce'])} " * bool(one["reduce"])
    return f"{one['name']}[{','.join(one['space'])}] = {kind}{reads};"


# ---- toy programs


KINDS: Final = ("product", "bias", "relu", "exp", "normed", "turned")


def toy(
    draw: random.Random, kinds: Sequence[str], sizes: tuple[int, int, int] | None = None
) -> list[Stage]:
    """A program of stages one after the other, on a matrix X; the last is its output.

    sizes  of rows and columns of X, and of columns of products
    """
    rows, columns, width = sizes or (draw.randint(1, 40), draw.randint(2, 40), draw.randint(1, 40))
    last, stages, names = "X", list[Stage](), iter("CDEFGHLMNOPQRSTUVW")
    for kind in kinds:
        i, j, k = draw.choice(("ijk", "xyr", "abc"))
        name, space, reads = next(names), {i: rows, j: columns}, [(last, i + j)]
        if kind == "product":
            reads = [(last, i + k), (f"weights_{name}", k + j)]
            stages.append(_stage(name, {i: rows, j: width}, reads, {k: columns}))
            columns = width
        elif kind == "normed":
            stages.append(_stage(name, {i: rows}, [(last, i + k)], {k: columns}))
            reads, name = [(last, i + j), (name, i)], next(names)
            stages.append(_stage(name, space, reads))
        elif kind == "turned":
            rows, columns = columns, rows
            stages.append(_stage(name, {i: rows, j: columns}, [(last, j + i)]))
        else:
            reads += [(f"bias_{name}", j)] * (kind == "bias")
            stages.append(_stage(name, space, reads, costly=kind == "exp"))
        last = name
    return stages


def _stage(
    name: str,
    space: dict[str, int],
    reads: list[tuple[str, str]],
    reduce: dict[str, int] | None = None,
    costly: bool = False,
) -> Stage:
    found = {"name": name, "space": space, "reduce": reduce or {}}
    return {**found, "reads": reads, "costly": costly}


def program_of(stages: Sequence[Stage]) -> ir.Program:
    """A program of such stages: products of what they read, exponentials where costly."""
    tensors: dict[str, Any] = {}
    inputs = []
    for one in stages:
        extents = {**one["space"], **one["reduce"]}
        for buffer, axes in one["reads"]:
            if buffer not in tensors:
                shape = tuple(extents[axis] for axis in axes)
                tensors[buffer] = lang.placeholder(shape, name=buffer)
                inputs.append(tensors[buffer])
        tensors[one["name"]] = _computed(one, dict(tensors))
    return lang.lower([*inputs, tensors[stages[-1]["name"]]], name="toy")


def _computed(one: Stage, tensors: Mapping[str, Any]) -> Any:
    over = {axis: lang.reduce_axis(extent, name=axis) for axis, extent in one["reduce"].items()}

    def element(*indices: Any) -> Any:
        at = {**dict(zip(one["space"], indices)), **over}
        value: Any = 1.0
        for buffer, axes in one["reads"]:
            value = value * tensors[buffer][tuple(at[axis] for axis in axes)]
        value = lang.exp(value) if one["costly"] else value
        return lang.sum_(value, axis=tuple(over.values())) if over else value

    return lang.compute(tuple(one["space"].values()), element, name=one["name"])


def derived(stages: Sequence[Stage], cores: int, visited: frozenset[str] = frozenset()) -> Any:
    """All sketches of a toy program."""
    left = [one for one in stages if one["name"] not in visited]
    if not left:
        return [()]
    name = left[-1]["name"]
    return [
        (*((name, rule) for rule in rules), *rest)
        for rules, after in _ways(stages, left[-1], cores)
        for rest in derived(after, cores, visited | {name})
    ]


def _ways(
    stages: Sequence[Stage], one: Stage, cores: int
) -> Iterator[tuple[tuple[str, ...], Sequence[Stage]]]:
    readers = [s for s in stages if one["name"] in [buffer for buffer, _ in s["reads"]]]
    if readers and _is_free(one):
        yield ("inline",), _without(stages, one)
        return
    if _few_results(one, cores):
        yield ("rfactor outer",), stages
        yield ("rfactor inner",), stages
    if not _has_reuse(one):
        yield ("skip",), stages
        return
    before = () if len(readers) == 1 and _follows(readers[0], one) else ("cache write",)
    yield (*before, "fusion 1"), stages
    yield (*before, "fusion 2"), stages
    yield ("tiling",), stages


def _is_free(one: Stage) -> bool:
    if one["reduce"] or one["costly"]:
        return False
    order = "".join(one["space"])
    at = [[order.index(axis) for axis in axes] for _, axes in one["reads"]]
    return all(places == sorted(set(places)) for places in at)


def _has_reuse(one: Stage) -> bool:
    used: dict[str, set[str]] = {}
    for buffer, axes in one["reads"]:
        used.setdefault(buffer, set()).update(axes)
    space = {axis for axis, extent in one["space"].items() if extent > 1}
    missing = sum(not space <= axes for axes in used.values())
    return missing >= (1 if one["reduce"] else 2)


def _few_results(one: Stage, cores: int) -> bool:
    space: int = math.prod(one["space"].values())
    reduction: int = math.prod(one["reduce"].values())
    if not one["reduce"] or reduction <= 1:
        return False
    return space <= min(reduction, 16 * cores) if _has_reuse(one) else reduction > cores


def _follows(reader: Stage, one: Stage) -> bool:
    own = "".join(reader["space"])
    plain: bool = all(axes == own for buffer, axes in reader["reads"] if buffer == one["name"])
    same = [*reader["space"].values()] == [*one["space"].values()]
    return plain and same and not reader["reduce"]


def _without(stages: Sequence[Stage], gone: Stage) -> list[Stage]:
    kept = []
    for one in stages:
        reads = []
        for buffer, axes in one["reads"]:
            if buffer == gone["name"]:
                here = dict(zip(gone["space"], axes))
                reads += [(b, "".join(here[x] for x in at)) for b, at in gone["reads"]]
            else:
                reads.append((buffer, axes))
        if one is not gone:
            kept.append({**one, "reads": reads})
    return kept


# ---- a rule


class Strips(Task):
    """A rule of a student's own."""

    name, text, points = "strips", "write a rule", 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        widths = [sorted(draw.sample((2, 3, 4, 6, 8), 3)) for _ in range(3)]
        ends = [("exp", "exp"), ("normed", "exp", "turned"), ("exp", "normed")]
        found = []
        for kinds, most in zip(ends, widths):
            stages = toy(draw, kinds, (draw.randint(2, 5), draw.randint(9, 20), 16))
            names = [one["name"] for one in stages if one["costly"]]
            found.append((program_of(stages), names[0], most))
        return found

    def ask(self, answer: Any, case: Case) -> Any:
        """The sketches that come of the rule, and schedules that are drawn from them."""
        program, name, widths = case
        rule = answer(name, list(widths))
        generate_sketches(program, _MACHINE, caches=USUAL_CACHES, rules=[rule, _others_of(name)])
        rules = [rule, *RULES["ansor"]["c"]]
        found = generate_sketches(program, _MACHINE, caches=USUAL_CACHES, rules=rules)
        return [
            (
                [(step.block, step.rule) for step in one.history],
                [one.apply(seed=seed) for seed in range(_DRAWS)],
            )
            for one in found
        ]

    def judge(self, case: Case, got: Any) -> None:
        program, name, widths = case
        sketches = [_sketch(one) for one in got] if isinstance(got, list) else []
        if not sketches:
            raise LackingError("no sketch is left", ["assert got, rule"])
        for history, _ in sketches:
            if [rule for block, rule in history if block == name and rule in _OF_ANSOR]:
                what = f"a rule of Ansor's is applied to {name}, too: let yours stop the others"
                raise LackingError(what, [*_RULES, f"assert not {_of_ansor(name)}, rules"])
        others = sorted(_others(history, name) for history, _ in sketches)
        wanted = sorted(_others(history, name) for history in _without_block(program, name))
        if others != wanted:
            what = f"blocks other than {name} are not visited as without the rule"
            lines = [f"wanted = {as_python(wanted)}", *_RULES]
            lines += [f"others = sorted([p for p in one if p[0] != {name!r}] for one in rules)"]
            raise LackingError(
                f"{what}: their rules are {_all(others)}; right is {_all(wanted)}",
                [*lines, "assert [tuple(map(tuple, one)) for one in others] == wanted, others"],
            )
        for _, drawn in sketches:
            self._judge_drawn(program, name, widths, drawn)

    def _judge_drawn(
        self, program: ir.Program, name: str, widths: Sequence[int], drawn: Sequence[Any]
    ) -> None:
        found = set()
        nests = f"[ir.paths(s.program)[{name!r}] for s in drawn]"
        for one in drawn:
            s = replayed(program, one)
            loops = ir.paths(s.program).get(name, ())
            if len(loops) < 2 or loops[-1].kind is not ir.LoopKind.VECTORIZE:
                kinds = ", ".join(loop.kind.value for loop in loops) or "none"
                lines = [_DRAWN, f"kinds = [loops[-1].kind.value for loops in {nests}]"]
                text = f"the innermost loop around {name} is to be vectorized; its loops are"
                raise LackingError(f"{text} {kinds}", [*lines, _VECTORS])
            found.add(loops[-1].extent)
        lines = [_DRAWN, f"found = {{loops[-1].extent for loops in {nests}}}"]
        if not found <= set(widths):
            text = f"a strip has one of {list(widths)} elements, but there are {sorted(found)}"
            raise LackingError(text, [*lines, f"assert found <= set({list(widths)}), found"])
        if len(found) < 2:
            text = f"the width is to be left open, but all of {_DRAWS} draws give {sorted(found)}"
            raise LackingError(text, [*lines, "assert len(found) > 1, found"])
        first = results_of(program, 1_000_000)
        lacking = first.look(replayed(program, drawn[0]))
        if lacking is not None:
            raise LackingError(f"wanted is that {first.what}, but {lacking}")

    def script(self, case: Case) -> list[str]:
        """The sketches of the rule."""
        program, name, widths = case
        return [
            definition_as_python(program),
            "from minitensor.search import RULES, Rule, Verdict, generate_sketches",
            f"rule = answer({name!r}, {list(widths)})",
            "machine = mt.Target('c', num_cores=64, vector_bits=256)",
            "def elsewhere(state, cores):",
            f"    return Verdict.SKIP if state.name == {name!r} else Verdict.APPLY",
            "rest = Rule('rest', elsewhere, lambda state, cores: [state.after('rest', '')])",
            "generate_sketches(program, machine, rules=[rule, rest])",
            "got = generate_sketches(program, machine, rules=[rule, *RULES['ansor']['c']])",
        ]


_OF_ANSOR: Final = frozenset(rule.name for rule in RULES["ansor"]["c"] if isinstance(rule, Rule))
_RULES: Final = ("rules = [[(step.block, step.rule) for step in one.history] for one in got]",)
_DRAWN: Final = f"drawn = [one.apply(seed=n) for one in got for n in range({_DRAWS})]"
_VECTORS: Final = "assert set(kinds) == {'vectorize'}, kinds"


def _of_ansor(name: str) -> str:
    own = as_python(sorted(_OF_ANSOR))
    return f"[p for one in rules for p in one if p[0] == {name!r} and p[1] in {own}]"


def _sketch(one: Any) -> tuple[Pairs, Sequence[Any]]:
    """A reply for a sketch: its history and what was drawn. Raises LackingError."""
    whole = isinstance(one, tuple) and len(one) == 2 and isinstance(one[1], list)
    if not whole or len(one[1]) != _DRAWS:
        raise LackingError("there is no reply with sketches")
    return _pairs(one[0]), one[1]


def _all(found: Sequence[Pairs]) -> str:
    return " | ".join(map(_shown, found[:4])) or "none"


def _others(history: Pairs, name: str) -> Pairs:
    return tuple(pair for pair in history if pair[0] != name)


def _others_of(name: str) -> Rule:
    """A rule for all blocks but one: where another rule raises for that one, no sketch is left."""

    def judge(state: State, cores: int) -> Verdict:
        return Verdict.SKIP if state.name == name else Verdict.APPLY

    return Rule("rest", judge, lambda state, cores: [state.after("rest", "")])


def _without_block(program: ir.Program, name: str) -> list[Pairs]:
    """The histories by Ansor's rules where a block is passed over."""

    def judge(state: State, cores: int) -> Verdict:
        return Verdict.APPLY_AND_STOP if state.name == name else Verdict.SKIP

    rules = [Rule("over", judge, _others_of(name).apply), *RULES["ansor"]["c"]]
    found = generate_sketches(program, _MACHINE, caches=USUAL_CACHES, rules=rules)
    return [tuple((step.block, step.rule) for step in one.history) for one in found]


TASKS: Sequence[Task] = (Tiled(), Numbers(), Derive(), Strips())
