"""Traces spoilt at random: in a value, a step, or a character of the text."""

from __future__ import annotations

import copy
import json
import math
import random

from minitensor.schedule import REGISTRY
from tests.hostile import HOSTILE

NUMBERS = [
    *(0, 1, 2, 3, 5, 7, 8, 16, 64, 128, 129, 1024, -1, -2, -8, 65536, 65537),
    *(2**31, 2**32, 2**40, 2**40 + 1, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**64)),
    *(10**30, 10**100, 10**400, -(10**400)),
    *(0.5, 1.0, 2.0, -0.0, 1e-300, 1e300, math.inf, -math.inf, math.nan),
]
OTHERS = [None, True, False, "", [], {}, [[]], [None], {"ref": []}, {"a": 1}, [[[[1]]]]]
WORDS = [
    *("guard", "cut", "exact", "global", "local", "shared", "root", "threadIdx.x", "blockIdx.x"),
    *("vthread", "i", "j", "k", "A", "B", "C", "D", "intrinsic", "i_0", "u", "ref", "inputs"),
]


def mutated(text: str, rng: random.Random, others: list[str]) -> str:
    """The JSON of a trace with one to three things changed.

    others  traces to take steps from
    """
    if rng.random() < 0.1:
        return _with_other_characters(text, rng)
    data = json.loads(text)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if isinstance(data, dict) and isinstance(data.get("steps"), list) and rng.random() < 0.3:
            _change_steps(data["steps"], rng, others)
        else:
            data = _with_other_value(data, rng)
    written = json.dumps(data)
    if rng.random() < 0.1:
        written = _with_a_key_twice(written, rng)
    return written


def _with_other_characters(text: str, rng: random.Random) -> str:
    """A character changed, removed, or put in, or the end cut off."""
    where = rng.randrange(len(text))
    width = rng.choice([0, 0, 1, 1, 2, 10, len(text)])
    put = rng.choice(["", "", *'0123456789-+.eE"[]{},:\\/ \n\0', "NaN", "Infinity", "1e999"])
    return text[:where] + put + text[where + width :]


def _with_a_key_twice(text: str, rng: random.Random) -> str:
    """The text with one of its pairs written once more, with another value."""
    keys = ["steps", "minitensor_trace", "primitive", "arguments", "result", "loop", "ref"]
    key = f'"{rng.choice(keys)}": '
    value = json.dumps(rng.choice([*NUMBERS, *OTHERS, *WORDS]))
    return text.replace(key, f"{key}{value}, {key}", 1)


def _change_steps(steps: list, rng: random.Random, others: list[str]) -> None:
    """A step less, twice, elsewhere, from another trace, of another primitive."""
    kind = rng.randrange(6)
    here = rng.randrange(len(steps)) if steps else 0
    if not steps or kind == 0:
        steps.insert(here, rng.choice(json.loads(rng.choice(others))["steps"]))
    elif kind == 1:
        del steps[here]
    elif kind == 2:
        steps.insert(rng.randrange(len(steps) + 1), copy.deepcopy(steps[here]))
    elif kind == 3:
        steps.append(steps.pop(here))
    elif kind == 4:
        name = rng.choice(sorted(REGISTRY))
        arguments = copy.deepcopy(_values(steps))
        known = REGISTRY[name].signature.parameters
        chosen = {n: rng.choice([*arguments, *NUMBERS, *WORDS]) for n in known}
        steps.insert(here, {"primitive": name, "arguments": chosen, "result": None})
    elif isinstance(steps[here], dict):
        steps[here]["result"] = rng.choice([None, "i", ["i"], ["i", "j"], 3, HOSTILE[here], []])


def _values(steps: list) -> list:
    """The arguments of all steps."""
    found: list = []
    for step in steps:
        arguments = step.get("arguments") if isinstance(step, dict) else None
        found.extend(arguments.values() if isinstance(arguments, dict) else ())
    return found


def _with_other_value(data: object, rng: random.Random) -> object:
    """The data with one value replaced, wherever it stands."""
    places: list[tuple] = []
    stack: list[tuple] = [((), data)]
    while stack:
        path, value = stack.pop()
        places.append(path)
        if isinstance(value, dict):
            stack.extend(((*path, key), item) for key, item in value.items())
        elif isinstance(value, list):
            stack.extend(((*path, n), item) for n, item in enumerate(value))
    path = rng.choice(places)
    if not path:
        return copy.deepcopy(rng.choice([*NUMBERS, *OTHERS, data]))
    container = data
    for key in path[:-1]:
        container = container[key]
    container[path[-1]] = copy.deepcopy(_another(container[path[-1]], rng))
    if rng.random() < 0.1:
        del container[path[-1]]
    return data


def _another(value: object, rng: random.Random) -> object:
    """Something else of the same kind, or of any."""
    if isinstance(value, int) and rng.random() < 0.7:
        return rng.choice([value - 1, value + 1, value * 2, value // 2, -value, *NUMBERS[:12]])
    if isinstance(value, str) and rng.random() < 0.4:
        return rng.choice(WORDS)
    if isinstance(value, list) and rng.random() < 0.4:
        return rng.choice([value * 2, value[:-1], value[::-1], [value], value * 70])
    kind = rng.randrange(5)
    if kind == 0:
        return rng.choice(NUMBERS)
    if kind == 1:
        return rng.choice(OTHERS)
    if kind == 2:
        return rng.choice(HOSTILE)
    if kind == 3:
        reference = [rng.choice([0, 1, 2, 3, 5, 9, 99, -1]), rng.choice([0, 1, 2, -1, 10**20])]
        return {"ref": reference[: rng.choice([1, 2, 2])]}
    inputs = rng.choice([["i"], ["i", "j"], ["i", "i"], ["r", "c"]])
    return {"inputs": inputs, "outputs": [_index(inputs, rng) for _ in range(rng.randrange(4))]}


def _index(inputs: list[str], rng: random.Random, depth: int = 0) -> object:
    """An index expression as a trace writes it."""
    if depth > 3 or rng.random() < 0.4:
        return rng.choice([*inputs, *inputs, 1, 2, 4, 2**39, -3, "x", True])
    operator = rng.choice(["+", "-", "*", "//", "%", "**"] if depth else ["+", "*", "//", "%"])
    return [operator, _index(inputs, rng, depth + 1), _index(inputs, rng, depth + 1)]
