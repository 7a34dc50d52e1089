"""A small part of C, as text and as what it does: loops, conditions, assignments, arithmetic.

    tree = parse(text)          raises WrongTextError
    run(tree, arrays)           arrays are lists of numbers, by name; raises WrongTextError

The text is untrusted and never compiled: it is read, and its tree is followed with bounds on its
length, its depth, the size of its numbers and its steps.

    statement   for (type x = e; e; ++x) statement | if (e) statement [else statement]
              | { statement* } | [type] place = e; | place += e; | ;
    place       name | name[e]
    e           ? : || && == != < <= > >= + - * / % unary - ! casts (type) name name[e] numbers
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final, NoReturn

LONGEST: Final = 20_000
DEEPEST: Final = 60
MOST_STEPS: Final = 200_000
LARGEST: Final = 1 << 62
REAL: Final = frozenset(("float", "double"))
_WHOLE: Final = "int long size_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t"
TYPES: Final = REAL | {*_WHOLE.split(), "const"}
_TOKEN: Final = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*.*?\*/)"
    r"|(?P<real>(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?[fF]?)"
    r"|(?P<int>\d+[uUlL]*)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>\+\+|--|<=|>=|==|!=|&&|\|\||[-+*/%]=|[-+*/%<>=!?:;,(){}\[\]])",
    re.DOTALL | re.ASCII,
)
_LEVELS: Final = (("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), "*/%")
_CHANGES: Final = ("=", "+=", "-=", "*=", "/=", "%=")

Tree = tuple[Any, ...]


class WrongTextError(Exception):
    """A text that is not in this part of C, or does what a program may not do."""


def parse(text: str) -> Tree:
    """The statements of a text. Raises WrongTextError."""
    if len(text) > LONGEST:
        raise WrongTextError(f"it has more than {LONGEST:,} characters")
    try:
        return _Parser(text).all()
    except RecursionError:
        raise WrongTextError("it is too deep") from None


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str, int]] = []
        self.place = self.depth = 0
        at, line = 0, 1
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise WrongTextError(f"line {line}: {text[at]!r} is not in this part of C")
            kind = str(found.lastgroup)
            if kind != "space":
                self.tokens.append((kind, found[0], line))
            line += found[0].count("\n")
            at = found.end()
        self.tokens.append(("end", "the end", line))

    def wrong(self, wanted: str) -> NoReturn:
        _, text, line = self.tokens[self.place]
        raise WrongTextError(f"line {line}: expected {wanted}, found {text[:40]}")

    @property
    def token(self) -> str:
        kind, text, _ = self.tokens[self.place]
        return text if kind in ("sign", "name") else f"({kind})"

    def take(self, *wanted: str) -> bool:
        if self.token in wanted:
            self.place += 1
            return True
        return False

    def need(self, wanted: str) -> None:
        if not self.take(wanted):
            self.wrong(wanted)

    def name(self) -> str:
        kind, text, _ = self.tokens[self.place]
        if kind != "name" or text in TYPES or text in ("for", "if", "else"):
            self.wrong("a name")
        self.place += 1
        return text

    def deeper(self, by: int) -> None:
        self.depth += by
        if self.depth > DEEPEST:
            self.wrong(f"at most {DEEPEST} levels")

    def all(self) -> Tree:
        found: list[Tree] = []
        while self.tokens[self.place][0] != "end":
            found.append(self.statement())
        return ("seq", found)

    def statement(self) -> Tree:
        self.deeper(1)
        line = self.tokens[self.place][2]
        if self.take("{"):
            found = []
            while not self.take("}"):
                found.append(self.statement())
            made: Tree = ("seq", found)
        elif self.take("for"):
            made = self.loop(line)
        elif self.take("if"):
            self.need("(")
            condition = self.value()
            self.need(")")
            then = self.statement()
            made = ("if", condition, then, self.statement() if self.take("else") else ("seq", []))
        elif self.take(";"):
            made = ("seq", [])
        else:
            made = self.assignment(line)
            self.need(";")
        self.deeper(-1)
        return made

    def loop(self, line: int) -> Tree:
        self.need("(")
        start = self.assignment(line)
        self.need(";")
        condition = self.value()
        self.need(";")
        step = self.assignment(line)
        self.need(")")
        return ("for", line, start, condition, step, self.statement())

    def assignment(self, line: int) -> Tree:
        one: Tree = ("number", 1)
        if self.take("++"):
            return ("set", line, self.target(), "+=", one, frozenset())
        kinds = self.types()
        place = self.target()
        if self.take("++"):
            return ("set", line, place, "+=", one, frozenset())
        sign = self.token
        if not self.take(*_CHANGES):
            self.wrong("= or +=")
        return ("set", line, place, sign, self.value(), kinds)

    def types(self) -> frozenset[str]:
        """The words of a type, if one stands here."""
        found: set[str] = set()
        while self.token in TYPES:
            found.add(self.token)
            self.place += 1
        return frozenset(found)

    def target(self) -> Tree:
        name = self.name()
        if not self.take("["):
            return ("name", name)
        index = self.value()
        self.need("]")
        return ("at", name, index)

    def value(self) -> Tree:
        self.deeper(1)
        found = self.level(0)
        if self.take("?"):
            then = self.value()
            self.need(":")
            found = ("choose", found, then, self.value())
        self.deeper(-1)
        return found

    def level(self, number: int) -> Tree:
        if number == len(_LEVELS):
            return self.unary()
        found, count = self.level(number + 1), 0
        while (sign := self.token) in _LEVELS[number]:
            self.place += 1
            found = (sign, found, self.level(number + 1))
            count += 1
            if count > DEEPEST * 4:
                self.wrong("a shorter expression")
        return found

    def unary(self) -> Tree:
        self.deeper(1)
        kind, text, _ = self.tokens[self.place]
        made: Tree
        if self.take("-"):
            made = ("minus", self.unary())
        elif self.take("!"):
            made = ("not", self.unary())
        elif self.take("+"):
            made = self.unary()
        elif self.take("("):
            made = self.bracket()
        elif kind == "int":
            self.place += 1
            made = ("number", int(text.rstrip("uUlL")[:19]))
        elif kind == "real":
            self.place += 1
            made = ("number", float(text.rstrip("fF")))
        else:
            made = self.target()
        self.deeper(-1)
        return made

    def bracket(self) -> Tree:
        if kinds := self.types():
            self.need(")")
            return ("cast", bool(kinds & REAL), self.unary())
        found = self.value()
        self.need(")")
        return found


def run(tree: Tree, arrays: dict[str, list[Any]]) -> None:
    """Follow the statements; stores go to the arrays. Raises WrongTextError."""
    try:
        _Machine(arrays).do(tree)
    except RecursionError:
        raise WrongTextError("an expression is too deep") from None


class _Machine:
    def __init__(self, arrays: dict[str, list[Any]]) -> None:
        self.arrays = arrays
        self.values: dict[str, Any] = {}
        self.steps, self.line = 0, 1

    def wrong(self, text: str) -> NoReturn:
        raise WrongTextError(f"line {self.line}: {text}")

    def step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            self.wrong(f"more than {MOST_STEPS:,} steps")

    def do(self, tree: Tree) -> None:
        self.step()
        match tree[0]:
            case "seq":
                before = set(self.values)
                for child in tree[1]:
                    self.do(child)
                self.leave(before)
            case "if":
                self.do(tree[2] if self.of(tree[1]) else tree[3])
            case "for":
                _, self.line, start, condition, step, body = tree
                before = set(self.values)
                self.set(start)
                while self.of(condition):
                    self.do(body)
                    self.set(step)
                self.leave(before)
            case _:
                self.set(tree)

    def leave(self, before: set[str]) -> None:
        """Forget the variables of a block."""
        for name in [n for n in self.values if n not in before]:
            del self.values[name]

    def set(self, tree: Tree) -> None:
        _, self.line, place, sign, value, kinds = tree
        found = self.of(value)
        if sign != "=":
            found = self.combined(sign[0], self.of(place), found)
        if place[0] == "at":
            row, index = self.element(place)
            row[index] = found
        elif kinds:
            self.values[place[1]] = self.cast(bool(kinds & REAL), found)
        elif place[1] in self.values:
            self.values[place[1]] = self.cast(isinstance(self.values[place[1]], float), found)
        else:
            self.wrong(f"{place[1]} is not declared")

    def cast(self, real: bool, value: Any) -> Any:
        if not real and not math.isfinite(value):
            self.wrong("an integer is made of what is no number")
        return float(value) if real else int(value)

    def element(self, place: Tree) -> tuple[list[Any], int]:
        _, name, at = place
        if name not in self.arrays:
            self.wrong(f"there is no array {name}")
        row, index = self.arrays[name], self.of(at)
        if not isinstance(index, int):
            self.wrong(f"{name}[{index}]: an index is an integer")
        if not 0 <= index < len(row):
            self.wrong(f"{name}[{index}] is outside: {name} has {len(row)} elements")
        return row, index

    def of(self, tree: Tree) -> Any:
        self.step()
        match tree:
            case ("number", value):
                return value
            case ("name", name):
                if name not in self.values:
                    known = "an array, which has no value" if name in self.arrays else "not known"
                    self.wrong(f"{name} is {known}")
                return self.values[name]
            case ("at", _, _):
                row, index = self.element(tree)
                if row[index] is None:
                    self.wrong(f"{tree[1]}[{index}] is read, and nothing was stored there")
                return row[index]
            case ("choose", condition, then, other):
                return self.of(then if self.of(condition) else other)
            case ("minus", value):
                return -self.of(value)
            case ("not", value):
                return int(not self.of(value))
            case ("cast", real, value):
                return self.cast(real, self.of(value))
            case ("&&", a, b):
                return int(bool(self.of(a)) and bool(self.of(b)))
            case ("||", a, b):
                return int(bool(self.of(a)) or bool(self.of(b)))
        sign, a, b = tree
        return self.combined(sign, self.of(a), self.of(b))

    def combined(self, sign: str, a: Any, b: Any) -> Any:
        found: Any
        match sign:
            case "+":
                found = a + b
            case "-":
                found = a - b
            case "*":
                found = a * b
            case "/" | "%":
                found = self.divided(sign, a, b)
            case _:
                tests: Sequence[bool] = (a < b, a <= b, a > b, a >= b, a == b, a != b)
                found = int(tests[("<", "<=", ">", ">=", "==", "!=").index(sign)])
        if isinstance(found, int) and abs(found) > LARGEST:
            self.wrong("an integer of more than 62 bits")
        return found

    def divided(self, sign: str, a: Any, b: Any) -> Any:
        if b == 0:
            self.wrong("a division by zero")
        if isinstance(a, float) or isinstance(b, float):
            if sign == "%":
                self.wrong("% of floating-point numbers")
            return a / b
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # towards zero
        return quotient if sign == "/" else a - quotient * b
