"""The steps of a schedule as data, as JSON and as Python.

A step is a primitive's name, its arguments in canonical form, and what it returned. An argument
that an earlier step returned is recorded as a reference to that step, so that replaying with other
decisions carries them along. One trace with its decisions open is a template; with all of them
taken it is a schedule. JSON and Python come from the signatures of the primitives.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from minitensor import ir
from minitensor.errors import ArgumentError, shown, unexpected
from minitensor.schedule.layout import DEEPEST, INDEX_OPERATORS, IndexMap, is_name
from minitensor.schedule.primitive import DECLARED, Primitive
from minitensor.schedule.step import OPERATORS, Derived, Ref, Source, Step, resolved

VERSION: Final = 2
OLDEST: Final = 1
"""The oldest version that is read: it named the loops of later stages i2, j3, not relu_i."""
LONGEST: Final = 1_000
"""The most steps a trace may have; hand schedules have fewer than a hundred."""
LARGEST_TEXT: Final = 4 << 20
"""The most characters of JSON that are read."""
DEEPEST_LIST: Final = 3
"""The greatest depth of lists in an argument."""
_LATER: Final[Mapping[str, Mapping[str, Any]]] = {
    "cache_read": {"place": None},
    "sample_tile": {"probs": None},
}
"""Arguments that primitives of earlier versions had not: they are not written where they are so."""


def to_json(steps: Sequence[Step], version: int) -> str:
    """The steps as JSON text. Raises ArgumentError where `from_json` would not read it."""
    data = [
        {
            "primitive": step.primitive,
            "arguments": {
                name: _encode(value)
                for name, value in step.arguments.items()
                if (name, value) not in _LATER.get(step.primitive, {}).items()
            },
            "result": _encode(step.result),
        }
        for step in steps
    ]
    text = json.dumps({"minitensor_trace": version, "steps": data})
    if len(steps) > LONGEST or len(text) > LARGEST_TEXT:
        raise ArgumentError(
            f"the trace has {len(steps):,} steps, {len(text):,} characters as JSON; at most "
            f"{LONGEST:,} steps and {LARGEST_TEXT:,} characters are written, for no more are read"
        )
    return text


def from_json(text: str) -> tuple[tuple[Step, ...], int]:
    """The steps that `to_json` wrote, and their version. Raises ArgumentError for anything else.

    Nothing is applied here: the steps of a trace from elsewhere go through the same checks as those
    of a user when they are applied.
    """
    if not isinstance(text, str) or len(text) > LARGEST_TEXT:
        raise unexpected(f"JSON text of at most {LARGEST_TEXT} characters", "text", text)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise ArgumentError(f"not a trace: {problem}") from None
    version = data.get("minitensor_trace") if isinstance(data, dict) else None
    if type(version) is not int or not OLDEST <= version <= VERSION:
        raise ArgumentError(f"not a trace of version {OLDEST} to {VERSION}: {text[:60]!r}")
    steps = data.get("steps")
    if not isinstance(steps, list) or len(steps) > LONGEST:
        raise ArgumentError(f"not a trace: expected a list of at most {LONGEST} steps")
    return tuple(_read_step(number, step) for number, step in enumerate(steps)), version


def as_python(steps: Sequence[Step], name: str, plain: bool = False) -> str:
    """The calls that make these steps on a Schedule called `name`, one a line, after the imports of
    primitives from outside.

    plain  what was decided stands where it is used, without the step that decided it

    Raises ArgumentError if `name` is no name, or a step refers to what none returned.
    """
    if not isinstance(name, str) or not is_name(name):
        raise unexpected("the name of a variable", "name", name)
    lines = _imports(steps)
    names: dict[tuple[int, int | None], str] = {}
    taken = {name, "float", *(DECLARED[s.primitive].name for s in steps if ":" in s.primitive)}

    results = [step.result for step in steps]
    left_out = {n for n, step in enumerate(steps) if plain and _is_decided(step)}

    def render(value: Any) -> str:
        if isinstance(value, Source) and left_out.issuperset(_sources(value)):
            return render(resolved(value, results))
        if isinstance(value, Ref):
            whole = names.get((value.step, value.item))
            if whole is None and (value.step, None) not in names:
                raise ArgumentError(f"not a trace: step {value.step} returned no such thing")
            return whole or f"{names[value.step, None]}[{value.item}]"
        if isinstance(value, tuple):
            return "[" + ", ".join(render(v) for v in value) + "]"
        if isinstance(value, Derived):
            left, right = (
                f"({render(x)})" if isinstance(x, Derived) else render(x) for x in value.arguments
            )
            return f"{left} {value.op} {right}"
        infinite = isinstance(value, float) and not math.isfinite(value)
        return f"float('{value}')" if infinite else repr(value)

    for number, step in enumerate(steps):
        if number in left_out:
            continue
        call = _call(primitive_of(steps, number), step, name, render)
        target = _target(step, number, names, taken)
        lines.append(f"{target} = {call}" if target else call)
    return "\n".join(lines)


def _is_decided(step: Step) -> bool:
    return step.is_decision and step.arguments["decision"] is not None


def _sources(value: Any) -> set[int]:
    """The steps whose results a value is computed of."""
    if isinstance(value, Ref):
        return {value.step}
    return set().union(*map(_sources, value.arguments)) if isinstance(value, Derived) else set()


def primitive_of(steps: Sequence[Step], number: int) -> Primitive[..., Any]:
    """The primitive of a step. Raises ArgumentError if it was redefined with other arguments."""
    step = steps[number]
    found = DECLARED[step.primitive]
    if found.signature.parameters.keys() != step.arguments.keys():
        raise ArgumentError(
            f"step {number + 1} applies {step.primitive}, which was redefined with other arguments "
            "since; apply the steps again"
        )
    return found


def _imports(steps: Sequence[Step]) -> list[str]:
    """The lines that bring the primitives from outside into scope, where a module has them."""
    used = dict.fromkeys(step.primitive for step in steps if ":" in step.primitive)
    outside = [key.split(":") for key in used]
    return [
        f"from {module} import {name}"
        for module, name in outside
        if module != "__main__" and is_name(name)
    ]


def _call(
    primitive: Primitive[..., Any], step: Step, name: str, render: Callable[[Any], str]
) -> str:
    """The call of a step on the Schedule called `name`."""
    if primitive.key == primitive.name:
        return f"{name}.{primitive.call_text(step.arguments, render)}"
    arguments = [primitive.name, *primitive.argument_texts(step.arguments, render)]
    return f"{name}.apply({', '.join(arguments)})"


def _target(
    step: Step, number: int, names: dict[tuple[int, int | None], str], taken: set[str]
) -> str:
    """The variables that receive a step's result, remembered in `names`."""

    def variable(text: str) -> str:
        name = text if is_name(text) else f"v{number}"
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    if step.is_decision:
        names[number, None] = variable(f"v{number}")
        return names[number, None]
    if isinstance(step.result, str):
        names[number, None] = variable(step.result)
        return names[number, None]
    if isinstance(step.result, tuple) and step.result:
        for n, item in enumerate(step.result):
            names[number, n] = variable(str(item))
        targets = [names[number, n] for n in range(len(step.result))]
        return targets[0] + "," if len(targets) == 1 else ", ".join(targets)
    return ""


def _encode(value: Any) -> Any:
    if isinstance(value, Ref):
        return {"ref": [value.step] if value.item is None else [value.step, value.item]}
    if isinstance(value, Derived):
        return {"op": value.op, "arguments": [_encode(a) for a in value.arguments]}
    if isinstance(value, IndexMap):
        outputs = [_encode_expr(e) for e in value.outputs]
        return {"inputs": list(value.inputs), "outputs": outputs}
    if isinstance(value, tuple):
        return [_encode(v) for v in value]
    return value


def _encode_expr(expr: ir.Expr) -> Any:
    match expr:
        case ir.Var(name):
            return name
        case ir.Const(value):
            return value
        case ir.Binary(op, a, b):
            return [op, _encode_expr(a), _encode_expr(b)]
    raise ArgumentError(f"{expr} cannot be written to a trace")


def _decode(value: Any, number: int, depth: int = 0) -> Any:
    match value:
        case None | str() | bool() | int() | float():
            return value
        case list() if depth < DEEPEST_LIST:
            return tuple(_decode(v, number, depth + 1) for v in value)
        case {"ref": [int(step), *rest]} if 0 <= step < number and len(rest) <= 1:
            if not rest or (type(rest[0]) is int and rest[0] >= 0):
                return Ref(step, rest[0] if rest else None)
        case {"op": str() as op, "arguments": [a, b]} if op in OPERATORS and depth < DEEPEST:
            return Derived(op, tuple(_decode_number(x, number, depth + 1) for x in (a, b)))
        case {"inputs": [*inputs], "outputs": [*outputs]}:
            if all(isinstance(i, str) and is_name(i) for i in inputs):
                return IndexMap(tuple(inputs), tuple(_decode_expr(e, 0, inputs) for e in outputs))
    raise ArgumentError(f"not a trace: step {number} has the argument {shown(value)}")


def _decode_number(value: Any, number: int, depth: int) -> Source | int | float:
    """An operand of a derived number."""
    found = _decode(value, number, depth)
    if isinstance(found, (Ref, Derived, int, float)) and not isinstance(found, bool):
        return found
    raise ArgumentError(f"not a trace: step {number} computes with {shown(value)}")


def _decode_expr(value: Any, depth: int, inputs: Sequence[str]) -> ir.Expr:
    match value:
        case str() if value in inputs:
            return ir.Var(value, ir.INDEX)
        case int() if not isinstance(value, bool) and abs(value) < 1 << 40:
            return ir.Const(value)
        case [str() as op, a, b] if op in INDEX_OPERATORS and depth < DEEPEST:
            kind: ir.BinaryOp = op  # type: ignore[assignment]
            left, right = (_decode_expr(e, depth + 1, inputs) for e in (a, b))
            return ir.Binary(kind, left, right)
    raise ArgumentError(f"not a trace: {shown(value)} is not an index expression")


def _read_step(number: int, data: Any) -> Step:
    match data:
        case {"primitive": str() as name, "arguments": dict()} if name not in DECLARED:
            raise ArgumentError(
                f"not a trace: step {number} applies {shown(name)}, which is not declared in this "
                "process" + ("; import the module that declares it first" if ":" in name else "")
            )
        case {"primitive": str() as name, "arguments": dict() as arguments}:
            known = DECLARED[name].signature.parameters
            arguments = {**_LATER.get(name, {}), **arguments}
            if set(arguments) == set(known):
                decoded = {n: _decode(arguments[n], number) for n in known}
                return Step(name, decoded, _result(data.get("result"), number))
    raise ArgumentError(f"not a trace: step {number} is {shown(data)}")


def _result(value: Any, number: int) -> Any:
    """The recorded result of a step: nothing, a name, a number, or several of these."""
    items = value if isinstance(value, list) else [value]
    if all(isinstance(item, (str, int, float)) for item in items) or value is None:
        return _decode(value, number)
    raise ArgumentError(f"not a trace: step {number} has the result {shown(value)}")
