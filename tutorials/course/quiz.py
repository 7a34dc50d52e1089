"""Questions drawn at random, without end, that mark themselves.

    for question in questions("07", seed=1, count=10):
        print(question.text, question.choices)

The right answer is what the system says: a value is computed, a kind is looked up, a step is tried.
Programs and expressions come from `minitensor.testing`, which needs Hypothesis. A seed names the
same questions again, for one version of Hypothesis.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

from minitensor import ir
from minitensor.errors import ArgumentError, ScheduleError, printable
from minitensor.schedule import REGISTRY, Scene, Schedule
from minitensor.testing import drawn, index_expressions, programs

LINES: Final = 15
"""The most lines of a loop nest in a question."""
_COLUMNS: Final = 92
_TRIES: Final = 400
_CHOICES: Final = 4
_CALLS: Final = 8
"""Calls that are drawn for one program, and values for one expression."""


@dataclass(frozen=True)
class Question:
    """A question with its answers.

    text     what is asked
    choices  the answers, all different
    right    the place of the right one
    why      what the system says, for after the answer
    """

    text: str
    choices: tuple[str, ...]
    right: int
    why: str


def any_seed() -> int:
    """A seed, another one each time."""
    return random.SystemRandom().randrange(1_000_000)


def questions(lesson: str, seed: int, count: int) -> list[Question]:
    """So many questions of a lesson, all different; the first of them are those of a smaller count.

    lesson  "03", "04" or "07"

    Raises ArgumentError for a lesson that has none.
    """
    if lesson not in _MAKERS:
        known = ", ".join(_MAKERS)
        raise ArgumentError(f"lesson {printable(str(lesson))} has no quiz; {known} have")
    asked: dict[str, Question] = {}
    seen: set[str] = set()
    for number in range(count):
        draw = random.Random(f"{lesson}:{seed}:{number}")
        for question in _MAKERS[lesson](draw, seen):
            if question.text not in asked:
                asked[question.text] = question
                break
    return list(asked.values())


def _question(
    draw: random.Random, text: str, right: str, wrong: Sequence[str], why: str
) -> Question:
    """A question with its choices shuffled."""
    choices = [right, *wrong]
    draw.shuffle(choices)
    return Question(text, tuple(choices), choices.index(right), why)


# ---- 03: the value of an expression


def _values(draw: random.Random, seen: set[str]) -> Iterator[Question]:
    """Questions for the value of an expression."""
    fewer_divisions = draw.random() < 0.4
    while True:
        expr = ir.rewrite(_named(draw, index_expressions(("i", "j", "k"), 3)).node, _tidy)
        names = sorted(ir.free_vars(expr))
        inner = sum(1 for n in ir.walk(expr) if ir.children(n))
        if not (names and 2 <= inner <= 7 and len(ir.print_expr(expr)) <= 60):
            continue
        for _ in range(_CALLS):
            given = {name: draw.randint(-9, 9) for name in names}
            right = int(ir.evaluate(expr, given))
            slips = [value for value in _slips(expr, given) if value != right]
            rounded = _with(_AS_IN_C, expr, given) != right
            if len(set(slips)) >= 2 and (rounded or fewer_divisions):
                yield _value_question(draw, expr, given, right, slips)
                break


def _value_question(
    draw: random.Random, expr: ir.Expr, given: Mapping[str, int], right: int, slips: Sequence[int]
) -> Question:
    """The question for a value, with the values that mistakes lead to."""
    mistaken = draw.sample(sorted(set(slips)), len(set(slips)))
    near = [right + step for step in draw.sample((1, -1, 2, -2), 4)]
    wrong = list(dict.fromkeys([*mistaken, *near]))[: _CHOICES - 1]
    inner: list[Any] = [n for n in ir.walk(expr) if ir.children(n)]
    steps = [f"{ir.print_expr(n)} = {ir.evaluate(n, given)}" for n in reversed(inner)]
    known = ", ".join(f"{name} = {value}" for name, value in given.items())
    text = f"{ir.print_expr(expr)}\n\nWhat is its value for {known}?"
    choices = [str(value) for value in wrong]
    return _question(draw, text, str(right), choices, "; ".join(dict.fromkeys(steps)))


def _tidy(node: Any) -> Any:
    """A number as it is written, where the generator has i*0 + 5."""
    match node:
        case ir.Binary("*", ir.Var(), ir.Const(0)):
            return ir.Const(0)
        case ir.Binary("+" | "-" as op, ir.Const(0), ir.Const(value)):
            return ir.Const(value if op == "+" else -value)
    return node


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b) if b else 0
    return quotient if (a < 0) == (b < 0) else -quotient


_Operators: TypeAlias = "Mapping[str, Callable[[int, int], int]]"
_AS_IN_C: Final[_Operators] = {"//": _truncated, "%": lambda a, b: a - b * _truncated(a, b)}
_MISTAKES: Final[Sequence[_Operators]] = (
    _AS_IN_C,
    {"%": _AS_IN_C["%"]},
    {"%": lambda a, b: abs(a) % abs(b) if b else 0},
    {"min": max, "max": min},
    {"<": lambda a, b: int(a >= b)},
    {"-": lambda a, b: a + b},
)
"""Operators as they are often mistaken: division as in C, a remainder without its sign, …"""


def _with(operators: _Operators, expr: ir.Expr, given: Mapping[str, int]) -> int:
    """The value of an expression if some operators were others."""

    def value(node: Any, below: list[int]) -> int:
        match node:
            case ir.Var(name):
                return given[name]
            case ir.Select():
                return below[1] if below[0] else below[2]
            case ir.Binary(op) if op in operators:
                return operators[op](*below)
            case ir.Binary(op):
                return int(ir.evaluate(ir.Binary(op, *map(ir.Const, below)), {}))
        return int(node.value)

    return ir.measured(expr, value)


def _slips(expr: ir.Expr, given: Mapping[str, int]) -> list[int]:
    """The values that mistakes lead to: other operators, other parentheses."""
    found = [_with(operators, expr, given) for operators in _MISTAKES]
    for node in ir.walk(expr):
        match node:
            case ir.Binary(op, a, ir.Binary(other, b, c)):
                moved = ir.Binary(other, ir.Binary(op, a, b), c)
            case ir.Binary(op, ir.Binary(other, a, b), c):
                moved = ir.Binary(other, a, ir.Binary(op, b, c))
            case _:
                continue
        if op in _PARENTHESES and other in _PARENTHESES:
            found.append(int(ir.evaluate(_replaced(expr, node, moved), given)))
    return found


def _replaced(expr: ir.Expr, old: ir.Expr, new: ir.Expr) -> ir.Expr:
    """The expression with another one in the place of a node."""
    return ir.rewrite(expr, lambda node: new if node is old else node)


_PARENTHESES: Final = ("+", "-", "*", "//", "%")


# ---- 04: the kinds of iters

_YES: Final = "yes"
_MAY_BE_PARALLEL: Final = {"": _YES} | {
    rule: f"no: the rule is that {REGISTRY['parallel'].rules[rule]}" for rule in ("R2", "R3")
}
_BECAUSE: Final = {
    "spatial": "each iteration of {0} writes elements of its own",
    "reduce": "the iterations of {0} are combined into one element by a reducer",
    "ordered": "an iteration of {0} may read what one before it wrote",
}


def _kinds(draw: random.Random, seen: set[str]) -> Iterator[Question]:
    """Questions for the kind of an iter, and whether its loop may run in parallel."""
    wanted = draw.choice(("spatial", "reduce", "ordered", _YES, "no"))
    while True:
        program = _readable(draw)
        driven = [
            (block, it, ir.print_expr(it.binding))
            for block in program.blocks.values()
            for it in block.iters
            if isinstance(it.binding, ir.Var) and it.extent > 1
        ]
        draw.shuffle(driven)
        for block, it, loop in driven:
            if wanted in _BECAUSE and it.kind.value == wanted:
                text = f"{program}\n\nBlock {block.name}: of which kind is the iter of loop {loop}?"
                why = f"It is {wanted}: {_BECAUSE[wanted].format(loop)}."
                wrong = [kind for kind in _BECAUSE if kind != wanted]
                yield _question(draw, text, wanted, wrong, why)
            elif wanted not in _BECAUSE:
                rule, why = _tried(Schedule(program), "parallel", (loop,), {})
                if (rule == "") == (wanted == _YES) and rule in _MAY_BE_PARALLEL:
                    text = f"{program}\n\nMay loop {loop} run in parallel?"
                    wrong = [choice for name, choice in _MAY_BE_PARALLEL.items() if name != rule]
                    yield _question(draw, text, _MAY_BE_PARALLEL[rule], wrong, why)


# ---- 07: a step is accepted, or refused

_Call: TypeAlias = "tuple[str, tuple[Any, ...], dict[str, Any]]"
"""A primitive, and its arguments."""

_ACCEPTED: Final = "accepted"
_PRIMITIVES: Final = (
    *("split", "fuse", "reorder", "reorder", "parallel", "vectorize", "compute_at", "compute_at"),
    *("reverse_compute_at", "compute_inline", "rfactor", "decompose_reduction"),
)
_BEFORE: Final = ("split", "reorder", "parallel", "vectorize", "compute_at")
"""Steps before the one that is asked for."""
_UNSEEN: Final = 25
"""Questions that are drawn in search of a rule that has not been asked for."""


def _steps(draw: random.Random, seen: set[str]) -> Iterator[Question]:
    """Questions for what becomes of a step."""
    accepted = draw.random() < 0.35
    tries = 0
    while True:
        hand = _Hand(Schedule(_readable(draw)), draw)
        for _ in range(draw.choice((0, 0, 1, 2))):
            call = hand.call_of(draw.choice(_BEFORE))
            if call is not None:
                _tried(hand.schedule, *call)
        nest = str(hand.program)
        if not _is_readable(nest):
            continue
        for _ in range(_CALLS):
            call = hand.call_of(draw.choice(_PRIMITIVES))
            if call is None:
                continue
            rule, why = _tried(hand.schedule.copy(), *call)
            if rule.startswith("A") or (rule == "") != accepted:
                continue
            tries += 1
            key = f"{call[0]} {rule}"
            if key not in seen or tries > _UNSEEN:
                seen.add(key)
                yield _step_question(draw, nest, call, rule, why)
                break


def _step_question(draw: random.Random, nest: str, call: _Call, rule: str, why: str) -> Question:
    """The question for what becomes of a step, by the rule that it breaks ("" for none)."""
    name, positional, named = call
    rules = {
        r: text for r, text in REGISTRY[name].rules.items() if r[0] == "R" or r in ("K1", rule)
    }
    also = ("R4", "K1") if name in ("parallel", "vectorize") and rule in ("R2", "R3") else ()
    others = [r for r in rules if r != rule and r not in also]
    count = _CHOICES - (2 if rule else 1)
    wrong = [r for r in ("", *draw.sample(others, min(len(others), count))) if r != rule]
    told = {"": _ACCEPTED} | {r: f"{r}: {text}" for r, text in rules.items()}
    text = (
        f"{nest}\n\ns.{name}({_arguments(positional, named)})\n\n"
        "Is the step accepted, or which broken rule does the system name?"
    )
    return _question(draw, text, told[rule], [told[r] for r in wrong], why)


class _AskedError(Exception):
    """The call of a primitive that is not made."""

    def __init__(self, call: _Call) -> None:
        super().__init__()
        self.call = call


class _Hand(Scene):
    """A schedule, and steps drawn for it that nothing has tried."""

    def __init__(self, schedule: Schedule, draw: random.Random) -> None:
        self._schedule, self._draw = schedule, draw

    @property
    def schedule(self) -> Schedule:
        return self._schedule

    def call_of(self, primitive: str) -> _Call | None:
        """A call of a primitive: its name and its arguments; None where the draw gives none."""
        call = REGISTRY[primitive].call
        assert call is not None
        try:
            call(self)
        except _AskedError as asked:
            return asked.call
        return None

    def number(self, low: int, high: int) -> int:
        return self._draw.randint(low, high)

    def pick(self, options: Sequence[Any]) -> Any:
        return self._draw.choice(options)

    def shuffled(self, options: Sequence[Any]) -> list[Any]:
        return self._draw.sample(options, len(options))

    def chance(self, percent: int) -> bool:
        return self._draw.random() * 100 < percent

    def do(self, primitive: str, *args: Any, **kwargs: Any) -> NoReturn:
        raise _AskedError((primitive, args, kwargs))

    def example_intrinsic(self) -> ir.Intrinsic:
        raise NotImplementedError

    def matching_intrinsic(
        self, block: str, loops: Sequence[str], fixed: bool
    ) -> ir.Intrinsic | None:
        raise NotImplementedError


def _tried(
    s: Schedule, primitive: str, positional: Sequence[Any], named: Mapping[str, Any]
) -> tuple[str, str]:
    """The rule that a step breaks ("" for none), and what the system shows of it."""
    try:
        getattr(s, primitive)(*positional, **named)
    except ScheduleError as refusal:
        return refusal.rule, str(refusal)
    return "", f"The step is accepted. The program is then\n{s.program}"


def _arguments(positional: Sequence[Any], named: Mapping[str, Any]) -> str:
    return ", ".join([*map(repr, positional), *(f"{n}={value!r}" for n, value in named.items())])


# ---- drawn programs


def _named(draw: random.Random, strategy: Any) -> Any:
    """A value of a strategy. Raises RuntimeError if none is found."""
    for _ in range(_TRIES):
        try:
            return drawn(strategy, draw.getrandbits(32))
        except ValueError:  # a seed that names no value
            continue
    raise RuntimeError("no value could be drawn")


def _readable(draw: random.Random) -> ir.Program:
    """A program of few and short lines."""
    extents = (2, 3, 4, 5, 6, 8)
    strategy = programs(2, ("float32", "int32"), extents, max_rank=2, max_steps=64)
    while True:
        program = _with_letters(_named(draw, strategy))
        empty = any(0 in buffer.shape for buffer in program.buffers.values())
        if program.blocks and not empty and _is_readable(str(program)):
            return program


def _is_readable(text: str) -> bool:
    """Tell whether a text is short, and no condition in it is decided."""
    lines = text.splitlines()
    short = len(lines) <= LINES and max(map(len, lines)) <= _COLUMNS
    return short and "True" not in text and "False" not in text


def _with_letters(program: ir.Program) -> ir.Program:
    """The program with letters for its loops, and for the iters that they drive."""
    letters = dict(zip(ir.loop_sites(program), "ijkmnxyzuvw"))
    loops = {loop: ir.Var(letter) for loop, letter in letters.items()}

    def renamed(node: Any) -> Any:
        if isinstance(node, ir.For) and node.var in letters:
            return ir.For(letters[node.var], node.extent, node.body, node.kind, node.annotations)
        if not isinstance(node, ir.Block):
            return node
        driven = [it.binding for it in node.iters]
        names = {
            it.var: letters[by.name]
            for it, by in zip(node.iters, driven)
            if isinstance(by, ir.Var) and by.name in letters
        }
        inside = {old: ir.Var(new) for old, new in names.items()}
        iters = tuple(
            ir.Iter(names.get(it.var, it.var), it.extent, it.kind, ir.substitute(it.binding, loops))
            for it in node.iters
        )
        init = None if node.init is None else ir.substitute(node.init, inside)
        predicate = ir.substitute(node.predicate, loops)
        body = ir.substitute(node.body, inside)
        return ir.Block(node.name, iters, body, init, predicate, node.annotations)

    return program.replace(body=ir.rewrite(program.body, renamed))


_MAKERS: Final[dict[str, Callable[[random.Random, set[str]], Iterator[Question]]]] = {
    "03": _values,
    "04": _kinds,
    "07": _steps,
}
