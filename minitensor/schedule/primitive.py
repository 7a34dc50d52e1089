"""The record of a primitive: a pure function on a program, and all that is known of it.

    @primitive(rules={"R1": "the loop is serial"})
    def unroll(program: ir.Program, loop: LoopName) -> Rewritten[None]: ...

The decorator reads the signature. An argument annotated with one of the types of `arguments` is
checked and brought to its canonical form, the one a trace records; the same forms go to JSON. A
primitive first checks, calling `refuse` for a broken rule, then builds, then edits; it never
changes its program. A refusal becomes a ScheduleError whose picture is drawn when it is read.
"""

from __future__ import annotations

import functools
import inspect
import random
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    overload,
)

from minitensor import ir
from minitensor.errors import ArgumentError, ScheduleArgumentError, ScheduleError, shown, unexpected
from minitensor.phrasebook import instead
from minitensor.schedule.batch import Effect, StepView
from minitensor.schedule.invariants import INVARIANTS
from minitensor.schedule.refusal import COMMON_RULES, Drawing, RefusedError, accepted
from minitensor.schedule.scene import Scene
from minitensor.schedule.signature import (
    Argument,
    converter_of,
    parameters_of,
    recordable_value,
)
from minitensor.schedule.step import BoundPrimitive, plain

P = ParamSpec("P")
R = TypeVar("R")

Rewritten: TypeAlias = tuple[ir.Program, R]
"""The new program, and what the primitive returns to the user: usually names."""

LookT = TypeVar("LookT", bound=Callable[[StepView], "Effect | None"])
Rules: TypeAlias = Mapping[str, str | tuple[str, str]]
"""id -> the condition that must hold, or that and what to do where it does not."""

NO_RULES: Final[Rules] = MappingProxyType({})

Draw: TypeAlias = Callable[[ir.Program, Mapping[str, Any], random.Random], Any]
"""Draws an open decision from the program and the canonical arguments."""
Options: TypeAlias = Callable[[ir.Program, Mapping[str, Any]], Sequence[tuple[Any, ...]]]
"""The candidates of a decision, from the program and the canonical arguments."""


class Recorder(Protocol):
    """A Schedule, as far as a primitive knows it: `s.split("i", [None, 8])` is recorded."""

    def apply(
        self,
        primitive: Callable[Concatenate[ir.Program, P], Rewritten[R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Apply a primitive to the program and record the step."""


class Primitive(Generic[P, R]):
    """One primitive: call it as a function of a program, or let a Schedule record it.

    name       a Python name; `key` is the one in traces, which has the module of one from outside
    function   (program, arguments…) -> (new program, result)
    rules      id -> the condition that must hold
    advice     id -> the step that leads on where it does not hold
    alternatives  the argument for which a refusal lists the names that would be accepted
    signature  of the call, without the program
    decide     draws the argument `decision` where none is given; None if nothing is decided
    options    the candidates for it, where a step decides for one of a list; else None
    settle     brings arguments that depend on others to their canonical form; mostly None
    batch      the effect of a step on the numbers of a batch of candidates
    call       makes a random call of it, for tests; `often` is its weight among the primitives
    """

    def __init__(
        self,
        function: Callable[..., Rewritten[R]],
        rules: Rules,
        alternatives: str = "",
    ) -> None:
        parameters = parameters_of(function)
        pairs = _checked_rules(rules)
        if alternatives and alternatives not in [p.name for p in parameters]:
            expected = f"the name of an argument of {function.__name__}, or nothing"
            raise unexpected(expected, "alternatives", alternatives)
        self.name: Final = function.__name__
        self.key: Final = _key(function)
        self.function: Final = function
        self.rules: Final = {r: condition for r, (condition, _) in pairs.items()} | COMMON_RULES
        self.advice: Final = {r: advice for r, (_, advice) in pairs.items()}
        self.alternatives: Final = alternatives
        self.decide: Draw | None = None
        self.options: Options | None = None
        self.settle: Callable[[ir.Program, dict[str, Any]], None] | None = None
        self.batch: Callable[[StepView], Effect | None] | None = None
        self.call: Callable[[Scene], None] | None = None
        self.often = 1
        self.signature: Final = inspect.Signature(
            [p.replace(annotation=p.empty) for p in parameters]
        )
        self.converters: Final = {p.name: converter_of(p) for p in parameters}
        self._many = _place_of_many(parameters, self.converters)
        self.__name__, self.__qualname__ = self.name, self.name
        self.__doc__, self.__module__ = function.__doc__, function.__module__
        self.__signature__ = self.signature

    def __repr__(self) -> str:
        return f"<primitive {self.name}{self.signature}>"

    def __call__(self, program: ir.Program, /, *args: P.args, **kwargs: P.kwargs) -> Rewritten[R]:
        """Check the arguments and apply the primitive; the program is left as it is."""
        return self.apply(program, self.bind(program, args, kwargs)[0])

    @overload
    def __get__(self, schedule: None, owner: type) -> Primitive[P, R]: ...

    @overload
    def __get__(self, schedule: Recorder, owner: type) -> Callable[P, R]: ...

    def __get__(self, schedule: Recorder | None, owner: type) -> Primitive[P, R] | Callable[P, R]:
        """The primitive as a method of a Schedule, which records the step."""
        if schedule is None:
            return self
        method = BoundPrimitive(schedule.apply, self)
        return functools.update_wrapper(method, self, updated=())

    def random_decision(self, draw: Draw) -> Draw:
        """Declare how an open decision is drawn."""
        self.decide = draw
        return draw

    def among(self, options: Options) -> Options:
        """Declare the candidates of a decision; an open one is any of them, all equally likely if
        the argument `probs` does not weigh them. Of none an empty one is drawn, which the step has
        to refuse.
        """

        def draw(program: ir.Program, arguments: Mapping[str, Any], rng: random.Random) -> Any:
            found, weights = options(program, arguments), arguments.get("probs")
            if not found or (weights is not None and len(weights) != len(found)):
                return found[0] if found else ()  # the step refuses it
            return rng.choice(found) if weights is None else rng.choices(found, weights)[0]

        self.options, self.decide = options, draw
        return options

    def settled(self, settle: Callable[[ir.Program, dict[str, Any]], None]) -> None:
        """Declare what becomes of canonical arguments that depend on others: a function changes
        them in place, and may refuse.
        """
        self.settle = settle

    def on_batch(self, look: LookT) -> LookT:
        """Declare the effect on a batch: found once for a step, applied to each batch."""
        self.batch = look
        return look

    def random_call(
        self, *, often: int = 1
    ) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
        """Declare how a test draws a call, and how often it does, beside the other primitives."""

        def declare(call: Callable[[Scene], None]) -> Callable[[Scene], None]:
            self.call, self.often = call, often
            return call

        return declare

    def bind(
        self, program: ir.Program, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments by name in canonical form, defaults filled in; and as they were given."""
        if len(args) - 1 == self._many and isinstance(args[-1], list | tuple):
            args = (*args[:-1], *args[-1])  # reorder([i, j]), as others write it
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as problem:
            other = next((n for n in kwargs if instead(self.name, n)), None)
            if other is not None:
                text = f"{self.name}() has no {other}={instead(self.name, other)}"
                raise ScheduleArgumentError(f"{text} (breaks A2)", "A2") from None
            given = ", ".join([*map(shown, args), *(f"{k}={shown(v)}" for k, v in kwargs.items())])
            raise ScheduleArgumentError(
                f"{self.name}({given}) breaks A2: {problem}; "
                f"its signature is {self.name}{self.signature}{self._example()}",
                "A2",
            ) from None
        bound.apply_defaults()
        as_given = dict(bound.arguments)
        arguments = {name: plain(value) for name, value in as_given.items()}
        try:
            for name, converter in self.converters.items():
                arguments[name] = converter.convert(program, name, arguments[name])
            if self.settle is not None:
                self.settle(program, arguments)
        except RefusedError as refused:
            raise self.error(program, as_given, refused) from None
        return arguments, as_given

    def _example(self) -> str:
        """The call that the docstring shows first, as the end of a message."""
        shape = rf"^ +({self.name}\(.*?\))(?: |$)"
        found = re.search(shape, self.__doc__ or "", re.M)
        return f", for example {found[1]}" if found else ""

    def apply(
        self, program: ir.Program, arguments: Mapping[str, Any], check: bool = True
    ) -> Rewritten[R]:
        """Apply the primitive to canonical arguments.

        check=False skips the rules K1 and K3: for replaying a trace that was made with checking.
        """
        made = program
        try:
            positional, named = self.spread(arguments)
            made, result = self._outcome(self.function(program, *positional, **named))
            for hold in INVARIANTS:
                made = hold(program, made, check)
        except RefusedError as refused:
            raise self.error(program, arguments, refused, made) from None
        return made, result

    def _outcome(self, found: Any) -> Rewritten[R]:
        """The outcome of the function: a program and a result, or a program alone."""
        match found:
            case ir.Program():
                return found, None  # type: ignore[return-value]
            case (ir.Program() as program, result):
                return program, recordable_value(program, "result", result)
        raise unexpected(
            "a program, or a tuple of the program and a result", f"what {self.name} returned", found
        )

    def spread(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments by name as those of a call: positional ones, and keywords."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                values = arguments[name]
                if not isinstance(values, tuple):
                    text = f"{self.name}(*{shown(values)}) breaks A2: {self.rules['A2']}"
                    raise ScheduleArgumentError(text, "A2")
                positional.extend(values)
            elif parameter.kind is parameter.KEYWORD_ONLY:
                named[name] = arguments[name]
            else:
                positional.append(arguments[name])
        return positional, named

    def call_text(self, arguments: Mapping[str, Any], render: Callable[[Any], str] = shown) -> str:
        """The call as Python: name and arguments, defaults left out."""
        return f"{self.name}({', '.join(self.argument_texts(arguments, render))})"

    def argument_texts(
        self, arguments: Mapping[str, Any], render: Callable[[Any], str] = shown
    ) -> list[str]:
        """The arguments of a call as Python, defaults left out."""
        parts: list[str] = []
        for name, parameter in self.signature.parameters.items():
            value = arguments[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                parts.extend(
                    map(render, value) if isinstance(value, tuple) else ["*" + render(value)]
                )
            elif parameter.default is parameter.empty and (
                parameter.kind is not parameter.KEYWORD_ONLY
            ):
                parts.append(render(value))
            elif value != parameter.default:
                parts.append(f"{name}={render(value)}")
        return parts

    def error(
        self,
        program: ir.Program,
        arguments: Mapping[str, Any],
        refused: RefusedError,
        made: ir.Program | None = None,
    ) -> ScheduleError:
        """The error a user sees for a refusal; one of a bad argument shows no program.

        made  the program that the step would have given, if one was made
        """
        detail = f" ({refused.detail})" if refused.detail else ""
        rule, call = refused.rule, self.call_text(arguments, _quoted)
        condition = self.rules.get(rule, "a rule that it does not declare")
        if rule in ("A1", "A2"):
            message = f"{call} breaks {rule}: {refused.detail or condition}"
            return ScheduleArgumentError(message, rule, refused.choices)
        message = f"{call} breaks {rule}: {condition}{detail}"
        advice = refused.advice or self.advice.get(rule, "")
        choices = refused.choices
        if self.alternatives and not choices and rule in self.advice:
            choices = functools.partial(self._accepted_names, program, arguments)
        drawing = None if refused.marks == ir.Marks() else Drawing(program, refused.marks, made)
        return ScheduleError(message, rule, choices, drawing, advice)

    def _accepted_names(self, program: ir.Program, arguments: Mapping[str, Any]) -> list[str]:
        """The names with which the call is accepted in place of the one that was given: those of
        the same nest, or where none of them will do, any.
        """
        name = self.alternatives
        known = self.converters[name].names
        names = list(known(program)) if known is not None else []
        sites = ir.loop_sites(program)
        tops = {loop: (*site.outer, site.loop)[0].var for loop, site in sites.items()}
        near = [other for other in names if tops.get(other) == tops.get(arguments[name])]

        def call(other: str) -> object:
            return self.apply(program, {**arguments, name: other})

        return accepted(near, call) or accepted(names, call)


def _quoted(value: Any) -> str:
    """A canonical argument as an error shows it: strings in double quotes."""
    if isinstance(value, str):
        return '"' + shown(value)[1:-1] + '"'
    if isinstance(value, tuple):
        return "[" + ", ".join(_quoted(v) for v in value) + "]"
    return shown(value)


def primitive(
    rules: Rules = NO_RULES, alternatives: str = ""
) -> Callable[[Callable[Concatenate[ir.Program, P], Rewritten[R]]], Primitive[P, R]]:
    """Declare a primitive with its rules: `@primitive(rules={"R1": "the loop is serial"})`.

    rules         id -> the condition that must hold, or that and what to do where it does not
    alternatives  the argument, a handle, for which a refusal lists the names that are accepted in
                  its place; found when the error is read
    """
    _checked_rules(rules)

    def declare(function: Callable[Concatenate[ir.Program, P], Rewritten[R]]) -> Primitive[P, R]:
        return declared(function, rules, alternatives)

    return declare


def declared(
    function: Callable[Concatenate[ir.Program, P], Rewritten[R]],
    rules: Rules,
    alternatives: str = "",
) -> Primitive[P, R]:
    """A function as a primitive that traces can name."""
    made: Primitive[P, R] = Primitive(function, rules, alternatives)
    DECLARED[made.key] = made
    return made


def recordable(function: Callable[Concatenate[ir.Program, P], Rewritten[R]]) -> Primitive[P, R]:
    """The primitive that a step records: one that was declared, or a plain function as one.

    A trace has its module and name alone, so that only a function is taken that its module has
    under this name: no lambda, no function inside another, none that was redefined since. Traces
    with steps of an earlier definition are replayed with the latest.
    """
    if isinstance(function, Primitive) and function is DECLARED.get(function.name):
        return function
    plain = function.function if isinstance(function, Primitive) else function
    if not inspect.isfunction(plain):
        raise unexpected("a primitive (see mt.primitive) or a function", "primitive", function)
    found = inspect.unwrap(plain).__globals__.get(plain.__qualname__)
    if (found.function if isinstance(found, Primitive) else found) is not plain:
        raise ArgumentError(
            f"expected a function that {plain.__module__} has as {plain.__qualname__}, the name in "
            f"a trace, but got primitive={shown(function)}; define it at the top level of a module"
        )
    given: Any = function
    if isinstance(given, Primitive):
        DECLARED[given.key] = given
        return given
    known = DECLARED.get(_key(plain))
    if known is None or known.function is not plain:
        return declared(function, {})
    return known  # type: ignore[return-value]


DECLARED: Final[dict[str, Primitive[..., Any]]] = {}
"""Every primitive that this process has declared, by its key: what traces are replayed with."""


def _key(function: Callable[..., Any]) -> str:
    """The name of a primitive in traces: with its module if it is from outside."""
    if function.__module__.startswith(__package__ + "."):
        return function.__name__
    return f"{function.__module__}:{function.__qualname__}"


def _checked_rules(rules: Rules) -> dict[str, tuple[str, str]]:
    """The conditions of rules, and what to do where they do not hold."""
    expected = 'a dict of rules, such as {"R1": "the loop is serial"}'
    if not isinstance(rules, Mapping):
        raise unexpected(expected, "rules", rules)
    pairs = {r: (text, "") if isinstance(text, str) else text for r, text in rules.items()}
    for rule, pair in pairs.items():
        texts = (rule, *pair) if isinstance(pair, tuple) and len(pair) == 2 else ()
        if not texts or not all(isinstance(text, str) for text in texts):
            raise unexpected(expected, "rules", rules)
    return pairs


def _place_of_many(
    parameters: Sequence[inspect.Parameter], converters: Mapping[str, Argument]
) -> int | None:
    """The position of *arguments that may be given as one list; None if there are none."""
    for place, parameter in enumerate(parameters):
        if parameter.kind is parameter.VAR_POSITIONAL:
            handles = converters[parameter.name].names is not None
            return place if handles or len(parameters) == 1 else None
    return None
