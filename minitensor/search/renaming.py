"""Traces under other names: what was recorded of a program whose tensors, loops and blocks had
others, for the program itself.

What the definition names is rewritten by its place in the text. So is what a step named, where the
trace does not refer to the step: both programs are taken that far, and compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeAlias

from minitensor import ir
from minitensor.errors import ArgumentError, shown
from minitensor.schedule import REGISTRY, ROOT, Step, Trace
from minitensor.search.workload import named_parts

Names: TypeAlias = Mapping[str, Mapping[str, str]]
"""For loops, blocks, buffers and iters: what each name stands for."""


def renamed(trace: Trace, names: Sequence[str], program: ir.Program) -> Trace:
    """The trace of a program under other names, rewritten for the program itself.

    names  the others, in the order of `names_of`

    Raises MinitensorError for a trace that cannot be applied to what it was recorded of, and for a
    step that applies a primitive from outside.
    """
    theirs = trace.apply(_under(program, names)).history
    first = _alike(theirs[0], program)
    steps: list[Step] = []
    for number, step in enumerate(trace.steps):
        if step.primitive not in REGISTRY:
            raise ArgumentError(f"{shown(step.primitive)} may name what is named otherwise here")
        arguments = dict(step.arguments)
        for name, argument in REGISTRY[step.primitive].converters.items():
            if argument.names is None:
                continue
            now, known = program, first
            literal = set(_texts(arguments[name])) - {ROOT}
            if not all(any(text in kind for kind in known.values()) for text in literal):
                now = Trace(tuple(steps)).apply(program, check=False).program
                known = _alike(theirs[number], now)
            arguments[name] = _translated(arguments[name], known, argument.names(now))
        steps.append(replace(step, arguments=arguments))
    return replace(trace, steps=tuple(steps))


def _texts(value: Any) -> list[str]:
    if isinstance(value, tuple):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def _translated(value: Any, known: Names, among: Any) -> Any:
    """An argument with its names translated to those of which a handle can be one."""
    if isinstance(value, tuple):
        return tuple(_translated(item, known, among) for item in value)
    if not isinstance(value, str):
        return value
    found = [kind[value] for kind in known.values() if value in kind]
    return next((name for name in found if name in among), value)


def _alike(theirs: ir.Program, ours: ir.Program) -> Names:
    """The names of one program by those of another, which differs from it in names only."""
    found: dict[str, dict[str, str]] = {"loop": {}, "block": {}, "buffer": {}}
    for (kind, other), (_, own) in zip(named_parts(theirs), named_parts(ours)):
        if kind in found:
            found[kind][other] = own
    return found


def _under(program: ir.Program, names: Sequence[str]) -> ir.Program:
    """A definition under other names."""
    given = iter(names)
    buffers = {b.name: next(given) for b in (*program.params, *program.temporaries)}

    def buffer(one: ir.Buffer) -> ir.Buffer:
        return replace(one, name=buffers[one.name])

    def go(node: Any, known: Mapping[str, str]) -> Any:
        match node:
            case ir.For(var):
                name = next(given)
                body = go(node.body, {**known, var: name})
                return ir.For(name, node.extent, body, node.kind, node.annotations)
            case ir.Block():
                name, own = next(given), {i.var: next(given) for i in node.iters}
                iters = tuple(
                    ir.Iter(own[i.var], i.extent, i.kind, go(i.binding, known)) for i in node.iters
                )
                init, predicate = go(node.init, own), go(node.predicate, known)
                return ir.Block(name, iters, go(node.body, own), init, predicate, node.annotations)
            case ir.Var(name, dtype):
                return ir.Var(known.get(name, name), dtype)
            case ir.Reducer():
                return node
            case ir.Load() | ir.Store():
                node = replace(node, buffer=buffers[node.buffer])
            case ir.Reduce():
                node = replace(node, buffers=tuple(buffers[b] for b in node.buffers))
            case tuple():
                return tuple(go(item, known) for item in node)
        if not is_dataclass(node) or isinstance(node, type):
            return node
        parts = {f.name: getattr(node, f.name) for f in fields(node) if f.init}
        return replace(node, **{name: go(part, known) for name, part in parts.items()})

    params, temporaries = (tuple(map(buffer, own)) for own in (program.params, program.temporaries))
    return program.replace(params=params, temporaries=temporaries, body=go(program.body, {}))
