"""Rewriting: rules that put other nodes in the place of one, until none applies.

A rule looks at one node, with the graph around it, and answers with a replacement or None. Patterns
say what it looks for:

    Rule("silu", mul(X, sigmoid(X)), lambda m, made: made.silu(m.x))

Outputs keep their names; other nodes have those of what takes their place. What only the old nodes
used is dropped. A replacement of another shape or dtype is a fault of the rule, and refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from minitensor.errors import ArgumentError, VerifyError, shown, unexpected
from minitensor.graph.meaning import result_of
from minitensor.graph.nodes import Node, Nodes, Value, constant_value, frozen
from minitensor.ir import fresh_name, print_name
from minitensor.lang import OPERATORS

MOST_ROUNDS: Final = 100
"""The most times that all nodes are looked at; rules that undo each other end there."""


# ---- patterns


@dataclass(frozen=True, slots=True)
class Var:
    """A pattern that matches every value, and the same one each time the name comes back.

    constant  only constants
    """

    name: str
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """A pattern that matches every number in the place of an operand."""


@dataclass(frozen=True, slots=True)
class Call:
    """A pattern that matches a call of an operator: its tensors in the order of the operands.

    name        what the match calls the node; "" for nothing
    attributes  what each attribute must be: a value, or a function of the value that answers yes

    What lies inside another pattern is read by the nodes of the match alone: otherwise it would be
    computed twice.
    """

    operator: str
    inputs: tuple[Pattern, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""


Pattern: TypeAlias = Var | Call | Number | float | int

_COMMUTATIVE: Final = frozenset(("add", "mul", "maximum", "minimum"))


def call(operator: str, *inputs: Pattern, name: str = "", **attributes: Any) -> Call:
    """A pattern of a call; see `Call`. Numbers match an attribute in the place of an operand."""
    if operator not in OPERATORS:
        raise unexpected("the name of an operator of mt.ops", "operator", operator)
    return Call(operator, inputs, attributes, name)


class Match:
    """The values and nodes that a pattern's names stand for, as attributes.

    node  the one that is to be replaced
    """

    def __init__(self, graph: Nodes, node: Node) -> None:
        self.graph, self.node = graph, node
        self.values: dict[str, str] = {}
        self.nodes: dict[str, Node] = {}
        self.inner: list[str] = []

    def __getattr__(self, name: str) -> str:
        try:
            return self.__dict__["values"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(f"the pattern has no value called {name!r}") from None

    def array(self, name: str) -> np.ndarray:
        """The array of a constant, by its name in the pattern."""
        return self.graph.constants[self.values[name]]

    def value(self, name: str) -> Value:
        """A value, by its name in the pattern."""
        return self.graph.values[self.values[name]]


def match(graph: Nodes, node: Node, pattern: Call | None) -> Match | None:
    """The match of a pattern whose outermost call is a node; None if it is none."""
    found = Match(graph, node)
    if pattern is None:
        return found
    if not _matches(found, node, pattern):
        return None
    own = {node.name, *found.inner}
    alone = all(
        name not in graph.outputs and own.issuperset(graph.users[name]) for name in found.inner
    )
    return found if alone else None


def _matches(found: Match, node: Node, pattern: Call) -> bool:
    """Tell whether a node is as a call of a pattern says; names go into `found`."""
    if node.operator != pattern.operator:
        return False
    attributes = dict(node.attributes)
    for name, wanted in pattern.attributes.items():
        have = attributes.get(name)
        if not (wanted(have) if callable(wanted) else have == wanted):
            return False
    orders = [pattern.inputs]
    if node.operator in _COMMUTATIVE and len(pattern.inputs) == 2:
        orders.append(pattern.inputs[::-1])
    operands = OPERATORS[node.operator].operands
    given: list[Any] = []
    tensors = iter(node.inputs)
    for operand in operands:
        if operand in node.operands:
            given.append(next(tensors))
        elif operand in attributes:
            given.append(attributes[operand])
    for order in orders:
        before = dict(found.values), dict(found.nodes), list(found.inner)
        if len(given) == len(order) and all(map(lambda g, p: _fits(found, g, p), given, order)):
            if pattern.name:
                found.nodes[pattern.name] = node
            return True
        found.values, found.nodes, found.inner = before
    return False


def _fits(found: Match, given: Any, pattern: Pattern) -> bool:
    """Tell whether an operand, the name of a value or a number, is as a pattern says."""
    graph = found.graph
    if isinstance(pattern, Number):
        return isinstance(given, (int, float))
    if isinstance(pattern, (int, float)):
        return not isinstance(given, str) and given is not None and _close(given, pattern)
    if isinstance(pattern, Var):
        if not isinstance(given, str) or (pattern.constant and given not in graph.constants):
            return False
        return found.values.setdefault(pattern.name, given) == given
    if not isinstance(given, str) or given not in graph.by_name:
        return False
    found.inner.append(given)
    return _matches(found, graph.by_name[given], pattern)


def _close(a: Any, b: float) -> bool:
    """Tell whether a number is one of a formula, as float32 holds it."""
    return isinstance(a, (int, float)) and bool(np.isclose(a, b, rtol=1e-5, atol=0))


# ---- rules


class Made:
    """Makes the nodes of a replacement: `made.relu(x)`, `made.conv2d(x, w, bias, stride=2)`.

    Arguments are names of values, arrays, which become constants, numbers and attributes. Each call
    returns the name of the new value.
    """

    def __init__(self, graph: Nodes, taken: set[str]) -> None:
        self._graph, self._taken = graph, taken
        self.nodes: dict[str, Node] = {}
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, array: Any, name: str = "constant") -> str:
        """The name of a new constant."""
        own = fresh_name(name, self._taken)
        self.constants[own] = frozen(own, array)
        return own

    def node(self, like: Node, *inputs: str, **attributes: Any) -> str:
        """A call like that of a node on other inputs, some attributes changed."""
        known = dict(like.attributes) | attributes
        return self._add(like.operator, like.operands, inputs, known)

    def __getattr__(self, operator: str) -> Callable[..., str]:
        if operator not in OPERATORS:
            raise AttributeError(f"there is no operator {operator!r} in mt.ops")

        def make(*arguments: Any, **named: Any) -> str:
            operands = OPERATORS[operator].operands
            names: list[str] = []
            inputs: list[str] = []
            attributes: dict[str, Any] = {}
            for operand, argument in [*zip(operands, arguments), *named.items()]:
                for one in argument if isinstance(argument, list) else [argument]:
                    array = isinstance(one, np.ndarray)
                    if operand in operands and (array or isinstance(one, str)):
                        names.append(operand)
                        inputs.append(self.constant(one, operand) if array else one)
                    else:
                        attributes[operand] = one
            return self._add(operator, tuple(names), inputs, attributes)

        return make

    def _add(
        self,
        operator: str,
        operands: Sequence[str],
        inputs: Iterable[str],
        attributes: Mapping[str, Any],
    ) -> str:
        own = fresh_name(operator, self._taken)
        draft = Node(
            Value(own, (), "float32"),  # type: ignore[arg-type]
            operator,
            tuple(operands),
            tuple(inputs),
            tuple(sorted(attributes.items())),
        )
        self.nodes[own] = draft.replace(result=result_of(self._seen(), draft))
        return own

    def _seen(self) -> Mapping[str, Value]:
        """The values of the graph, and those made so far."""
        own = {node.name: node.result for node in self.nodes.values()}
        own |= {name: constant_value(name, array) for name, array in self.constants.items()}
        return {**self._graph.values, **own}


Replacement: TypeAlias = Callable[[Match, Made], "str | None"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rewrite of one node and what it reads.

    name     of the rule, in messages
    pattern  what it looks for; None for every node
    make     given the match and a `Made`, returns the name of the value that takes the place of the
             node's result, which may be one that is there; None for no
    holds    the reason why the two are equal, in words: what a test proves on drawn graphs
    """

    name: str
    pattern: Call | None
    make: Replacement
    holds: str = ""


def checked_rules(rules: object) -> tuple[Rule, ...]:
    """Rules as a tuple. Raises ArgumentError for what are none."""
    if not isinstance(rules, Sequence) or not all(isinstance(rule, Rule) for rule in rules):
        raise unexpected("a list of mt.graph.Rule", "rules", rules)
    return tuple(rules)


def rewritten(graph: Nodes, rules: Sequence[Rule]) -> Any:
    """The graph after rules were applied, in their order and in that of the nodes, until none
    applies. Raises VerifyError for a rule that changes a shape or a dtype, or never ends.
    """
    for _ in range(MOST_ROUNDS):
        after = _round(graph, rules)
        if after is graph:
            return graph.with_nodes(graph.nodes)
        graph = after
    names = ", ".join(rule.name for rule in rules)
    raise VerifyError(
        f"the rules ({names}) still apply after {MOST_ROUNDS} rounds: two undo each other, or one "
        "matches what it makes"
    )


def _round(graph: Nodes, rules: Sequence[Rule]) -> Nodes:
    """One rule applied to each node, where one applies; the same graph if none does."""
    for node in graph.nodes:
        current = graph.by_name.get(node.name)
        if current is None:  # it went with another one
            continue
        for rule in rules:
            if rule.pattern is not None and rule.pattern.operator != current.operator:
                continue
            after = _applied(graph, current, rule)
            if after is not None:
                graph = after
                break
    return graph


def _applied(graph: Nodes, node: Node, rule: Rule) -> Nodes | None:
    """The graph after a rule at a node; None where it does not apply."""
    found = match(graph, node, rule.pattern)
    if found is None:
        return None
    made = Made(graph, set(graph.values))
    try:
        name = rule.make(found, made)
    except (ArgumentError, VerifyError) as failure:
        failure.message = (
            f"the rule {shown(rule.name)} at {print_name(node.name)}: {failure.message}"
        )
        raise
    if name is None:
        return None
    new = made.nodes.get(name)
    old = node.result
    value = (
        new.result
        if new is not None
        else graph.values.get(name) or constant_value(name, made.constants[name])
    )
    if (value.shape, value.dtype) != (old.shape, old.dtype):
        raise VerifyError(
            f"the rule {shown(rule.name)} puts {value} in the place of {print_name(node.name)}, "
            f"which is {old}"
        )
    if new is not None and node.name in graph.outputs:  # which keep their names
        made.nodes.pop(name)
        made.nodes[node.name] = new.replace(result=old)
        kept = [n for n in graph.nodes if n.name != node.name]
        after = [*kept, *made.nodes.values()]
        return graph.with_nodes(after, made.constants)  # type: ignore[no-any-return]
    return _forwarded(graph, node, name, made)


def _forwarded(graph: Nodes, node: Node, name: str, made: Made) -> Nodes | None:
    """The graph in which a value that is there takes the place of a node's result. An output keeps
    its name: the node that computes the other value takes it, if it can.
    """
    if node.name in graph.outputs:
        producer = graph.by_name.get(name)
        if producer is None or name in graph.outputs:
            return None
        renamed = {name: node.name}
        nodes = [_reading(n, renamed) for n in graph.nodes if n.name not in (name, node.name)]
        nodes.append(producer.replace(result=node.result))
        return graph.with_nodes(nodes)  # type: ignore[no-any-return]
    renamed = {node.name: name}
    nodes = [_reading(n, renamed) for n in graph.nodes if n.name != node.name]
    return graph.with_nodes([*nodes, *made.nodes.values()], made.constants)  # type: ignore[no-any-return]


def _reading(node: Node, renamed: Mapping[str, str]) -> Node:
    if not any(name in renamed for name in node.inputs):
        return node
    return node.replace(inputs=tuple(renamed.get(name, name) for name in node.inputs))
