"""What a primitive is: a pure function on a program, with declared rules and converted arguments.

    @primitive(rules={"R1": "the loop is serial"})
    def unroll(program: Program, loop: LoopName) -> Rewritten[None]: ...

The decorator reads the signature. An argument annotated with one of the types of `arguments` is
checked and brought to its canonical form, the one a trace records; the same forms go to JSON. A
primitive first checks, calling `refuse` for a broken rule, then builds, then splices; it never
changes its program. A refusal becomes a ScheduleError whose picture is drawn when it is read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, Final, Generic, NoReturn, ParamSpec, TypeAlias, TypeVar

from minitensor import ir
from minitensor.errors import Choices, ScheduleArgumentError, ScheduleError, shown

P = ParamSpec("P")
R = TypeVar("R")

Rewritten: TypeAlias = tuple[ir.Program, R]
"""The new program, and what the primitive returns to the user: usually names."""

COMMON_RULES: Final[dict[str, str]] = {
    "A1": "every loop, block and buffer named is one of the program's",
    "A2": "every argument has the documented type and value",
    "K1": "the iterations of parallel, vectorized and bound loops stay free of conflicts",
    "K2": "loops nest at most 128 deep and run what is in them at most 2**62 times; an index or a "
    "guard has at most 5000 operations",
    "K3": "what an intrinsic does stays what it means",
}
"""Rules of every primitive, besides its own R1, R2, …"""

REGISTRY: Final[dict[str, Primitive[Any, Any]]] = {}
"""All primitives by name."""


class RefusedError(Exception):
    """Raised inside a primitive by `refuse`; never leaves this module's `Primitive.apply`."""

    def __init__(self, rule: str, detail: str, marks: ir.Marks, choices: Choices) -> None:
        super().__init__(rule)
        self.rule, self.detail, self.marks, self.choices = rule, detail, marks, choices


def refuse(
    rule: str, detail: str = "", *, marks: ir.Marks | None = None, choices: Choices = ()
) -> NoReturn:
    """Refuse the step: which rule it breaks, what exactly is wrong, where, and what is legal."""
    raise RefusedError(rule, detail, marks or ir.Marks(), choices)


def accepted(names: Iterable[str], call: Callable[[str], object]) -> list[str]:
    """The names with which a call of a primitive is not refused, each once."""
    found = []
    for name in dict.fromkeys(names):
        try:
            call(name)
        except ScheduleError:
            continue
        found.append(name)
    return found


@dataclass(frozen=True, slots=True)
class Argument:
    """How an argument is checked and made canonical; stands in an Annotated annotation."""

    convert: Callable[[ir.Program, str, Any], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Primitive(Generic[P, R]):
    """One primitive: call it as a function of a program, or let a Schedule record it."""

    name: str
    function: Callable[..., Rewritten[R]]
    rules: Mapping[str, str]
    signature: inspect.Signature
    converters: Mapping[str, Argument]

    def __call__(self, program: ir.Program, *args: P.args, **kwargs: P.kwargs) -> Rewritten[R]:
        """Check the arguments and apply the primitive; the program is left as it is."""
        return self.apply(program, self.bind(program, args, kwargs)[0])

    def bind(
        self, program: ir.Program, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments by name in canonical form, defaults filled in; and as they were given."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as problem:
            given = ", ".join([*map(shown, args), *(f"{k}={shown(v)}" for k, v in kwargs.items())])
            raise ScheduleArgumentError(
                f"{self.name}({given}) breaks A2: {problem}; "
                f"its signature is {self.name}{self.signature}",
                "A2",
            ) from None
        bound.apply_defaults()
        as_given = dict(bound.arguments)
        arguments = dict(as_given)
        try:
            for name, converter in self.converters.items():
                arguments[name] = converter.convert(program, name, arguments[name])
        except RefusedError as refused:
            raise self.error(program, as_given, refused) from None
        return arguments, as_given

    def apply(
        self, program: ir.Program, arguments: Mapping[str, Any], check: bool = True
    ) -> Rewritten[R]:
        """Apply the primitive to canonical arguments.

        check=False trusts that a conflict between concurrent iterations cannot arise (rule K1): for
        replaying a trace that was made with checking.
        """
        try:
            positional, named = self._spread(arguments)
            rewritten, result = self.function(program, *positional, **named)
            for finish in FINISHERS:
                rewritten = finish(program, rewritten, check)
        except RefusedError as refused:
            raise self.error(program, arguments, refused) from None
        return rewritten, result

    def _spread(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
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
        parts: list[str] = []
        for name, parameter in self.signature.parameters.items():
            value = arguments[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                texts = map(render, value) if isinstance(value, tuple) else ["*" + render(value)]
                parts.extend(texts)
            elif parameter.default is parameter.empty and parameter.kind is not (
                parameter.KEYWORD_ONLY
            ):
                parts.append(render(value))
            elif value != parameter.default:
                parts.append(f"{name}={render(value)}")
        return f"{self.name}({', '.join(parts)})"

    def error(
        self, program: ir.Program, arguments: Mapping[str, Any], refused: RefusedError
    ) -> ScheduleError:
        """The error a user sees for a refusal."""
        detail = f" ({refused.detail})" if refused.detail else ""
        kind = ScheduleArgumentError if refused.rule in ("A1", "A2") else ScheduleError
        text = self.call_text(arguments, _plain)
        return kind(
            f"{text} breaks {refused.rule}: {self.rules[refused.rule]}{detail}",
            refused.rule,
            refused.choices,
            lambda: _indented(ir.print_program(program, refused.marks)),
        )


FINISHERS: Final[list[Callable[[ir.Program, ir.Program, bool], ir.Program]]] = []
"""What is done to every rewritten program: (before, after, check) -> after. See `legality`."""


def _plain(value: Any) -> str:
    """A canonical argument as an error shows it: strings in double quotes."""
    if isinstance(value, str):
        return '"' + shown(value)[1:-1] + '"'
    if isinstance(value, tuple):
        return "[" + ", ".join(_plain(v) for v in value) + "]"
    return shown(value)


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


def primitive(
    rules: Mapping[str, str],
) -> Callable[[Callable[Concatenate[ir.Program, P], Rewritten[R]]], Primitive[P, R]]:
    """Register a primitive with its rules (id -> the condition that must hold)."""

    def register(function: Callable[Concatenate[ir.Program, P], Rewritten[R]]) -> Primitive[P, R]:
        whole = inspect.signature(function, eval_str=True)
        parameters = list(whole.parameters.values())[1:]
        converters = {
            p.name: metadata
            for p in parameters
            for metadata in getattr(p.annotation, "__metadata__", ())
            if isinstance(metadata, Argument)
        }
        made: Primitive[P, R] = Primitive(
            function.__name__,
            function,
            {**rules, **COMMON_RULES},
            inspect.Signature([_plain_parameter(p) for p in parameters]),
            {
                p.name: (
                    _each(converters[p.name]) if p.kind is p.VAR_POSITIONAL else converters[p.name]
                )
                for p in parameters
                if p.name in converters
            },
        )
        REGISTRY[made.name] = made
        return made

    return register


def _plain_parameter(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(annotation=parameter.empty)


def _each(argument: Argument) -> Argument:
    """The converter of a *parameter, from that of its elements."""
    return Argument(
        lambda program, name, values: tuple(argument.convert(program, name, v) for v in values)
    )
