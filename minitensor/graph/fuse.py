"""Fusion: which operators become one kernel.

A group grows forward, from a node to the node that all of its uses meet in (its immediate
post-dominator), together with all that lies between. So a group has one result, and no group waits
for another that waits for it. Three steps, over all nodes in order:

    1  what follows a product or a reduction element by element joins it (conv + bias + add + relu)
    2  elementwise, broadcast and injective chains join each other, and a reduction that reads them;
       an elementwise operand joins what follows a product (the other side of a quantised add)
    3  what only moves elements (transpose, reshape, slice) joins a product: before it, where the
       product alone reads it, and behind it

Source: Chen et al., TVM, OSDI'18, §3, and its code, for the first two; the third is for attention,
whose heads are transposed between products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from minitensor.graph.classes import Kind, kind_of_node
from minitensor.graph.nodes import Nodes
from minitensor.graph.policies import Policy
from minitensor.ir import print_name

MOST_NODES: Final = 24
"""The most nodes of a group: beyond, compilers and schedules take long and nothing is gained."""
MOST_INPUTS: Final = 16
"""The most arrays that the kernel of a group reads."""

_LIGHT: Final = (Kind.ELEMENTWISE, Kind.BROADCAST)
_HEAVY: Final = (Kind.REDUCTION, Kind.PRODUCT)
MOVES: Final = frozenset(("reshape", "transpose", "slice", "identity", "broadcast_to"))
"""Operators that compute nothing: each element is one of the input's."""


def groups_of(graph: Nodes, policy: Policy) -> tuple[tuple[str, ...], ...]:
    """The groups of a graph: each in an order in which it can run, and they too."""
    return _Fusion(graph, policy).run()


def why_apart(graph: Nodes, policy: Policy, first: str, second: str) -> str:
    """A sentence on two nodes: the kernel that both are in, or the reason why there is none."""
    for name in (first, second):
        graph.node(name)
    fusion = _Fusion(graph, policy)
    groups = fusion.run() if graph.groups is None else graph.groups
    number = {name: n for n, group in enumerate(groups) for name in group}
    a, b = print_name(first), print_name(second)
    if number[first] == number[second]:
        return f"{a} and {b} are one kernel: {', '.join(map(print_name, groups[number[first]]))}"
    if graph.groups is not None:
        fusion.run()
    if number[first] > number[second]:
        first, second, a, b = second, first, b, a
    if second not in fusion.below(first):
        return f"{a} and {b} are apart: {b} does not use the result of {a}"
    return f"{a} and {b} are apart: {fusion.reason(first, second)}"


@dataclass(eq=False)
class _Fusion:
    """The groups as they grow."""

    graph: Nodes
    policy: Policy
    group: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[tuple[str, str], str] = field(default_factory=dict)
    against: set[tuple[str, str]] = field(default_factory=set)
    """Steps that were possible, and refused for their size or by the policy."""

    def __post_init__(self) -> None:
        self.place = {node.name: n for n, node in enumerate(self.graph.nodes)}
        self.kind = {node.name: kind_of_node(self.graph, node) for node in self.graph.nodes}
        self.users = {name: self.graph.users[name] for name in self.place}

    @cached_property
    def meets(self) -> Mapping[str, str | None]:
        """The immediate post-dominator of each node: where all paths from it to outputs meet; None
        if there is none, as the graph returns the node itself, or its uses never meet.
        """
        found: dict[str, str | None] = {}
        depth: dict[str, int] = {}
        outputs = set(self.graph.outputs)
        for node in reversed(self.graph.nodes):
            users = self.users[node.name]
            meeting: str | None = None
            if node.name not in outputs and users:
                meeting = users[0]
                for user in users[1:]:
                    meeting = _common(meeting, user, found, depth)
            found[node.name] = meeting
            depth[node.name] = 1 + (depth[meeting] if meeting is not None else 0)
        return found

    def below(self, name: str) -> set[str]:
        """All nodes that use the result of a node, directly or not."""
        found: set[str] = set()
        pending = list(self.users[name])
        while pending:
            one = pending.pop()
            if one not in found:
                found.add(one)
                pending += self.users[one]
        return found

    def between(self, name: str, sink: str) -> list[str]:
        """The nodes on paths from a node to the one where they meet, without both."""
        found: set[str] = set()
        pending = list(self.users[name])
        while pending:
            one = pending.pop()
            if one != sink and one not in found:
                found.add(one)
                pending += self.users[one]
        return sorted(found, key=self.place.__getitem__)

    def run(self) -> tuple[tuple[str, ...], ...]:
        """Grow the groups, and return them in order."""
        self.group = {name: [name] for name in self.place}
        self.refused = {}
        for step in (self.epilogue, self.chain, self.moves):
            for node in self.graph.nodes:
                sink = self.meets[node.name]
                if sink is not None and self.group[node.name] is not self.group[sink]:
                    self._try(step, node.name, sink)
        distinct = {id(group): group for group in self.group.values()}.values()
        ordered = [sorted(group, key=self.place.__getitem__) for group in distinct]
        return tuple(sorted(map(tuple, ordered), key=lambda group: self.place[group[-1]]))

    def _try(self, step: Callable[[str, str, list[str]], str], name: str, sink: str) -> None:
        middle = self.between(name, sink)
        reason = step(name, sink, middle)
        joined = [self.group[one] for one in (name, *middle, sink)]
        nodes = sorted({n for group in joined for n in group}, key=self.place.__getitem__)
        if reason:
            heavy = self.kind_of_group(name) in _HEAVY
            asked = step == (self.epilogue if heavy else self.chain)
            if (name, sink) not in self.refused or (asked and (name, sink) not in self.against):
                self.refused[name, sink] = reason
            return
        reason = self._too_large(nodes) or self.policy.wants(
            self.graph, self.group[name], self.group[sink]
        )
        if reason:
            self.against.add((name, sink))
            self.refused[name, sink] = reason
            return
        for one in nodes:
            self.group[one] = nodes

    def _too_large(self, nodes: list[str]) -> str:
        if len(nodes) > MOST_NODES:
            return f"a kernel has at most {MOST_NODES} operators, and this would have {len(nodes)}"
        inside = set(nodes)
        read = {n for name in nodes for n in self.graph.by_name[name].inputs if n not in inside}
        if len(read) > MOST_INPUTS:
            return f"a kernel reads at most {MOST_INPUTS} arrays, and this would read {len(read)}"
        return ""

    # ---- the steps: each answers "" or the reason why not

    def kind_of_group(self, name: str) -> Kind:
        """The class of the group of a node."""
        return max(self.kind[one] for one in self.group[name])

    def said(self, name: str) -> str:
        """The class of a node, or of another one in its group, in words."""
        own, group = self.kind[name], self.kind_of_group(name)
        if own is group:
            return f"{print_name(name)} is {_a(own)}"
        return f"the kernel of {print_name(name)} has {_a(group)}"

    def epilogue(self, name: str, sink: str, middle: list[str]) -> str:
        """A product or a reduction, and the elementwise operators that follow it."""
        own = self.kind_of_group(name)
        if own not in _HEAVY:
            return f"{self.said(name)}, which others take in"
        shape = self.graph.values[name].shape
        for one in (*middle, sink):
            kind = self.kind_of_group(one)
            if kind not in _LIGHT:
                return (
                    f"{self.said(name)}, and only what is elementwise follows in one kernel; "
                    f"{self.said(one)}"
                )
            if self.graph.values[one].shape != shape:
                return (
                    f"{print_name(one)} is of another shape than the result of {print_name(name)}"
                )
        return ""

    def chain(self, name: str, sink: str, middle: list[str]) -> str:
        """Elementwise, broadcast and injective operators into each other, into a reduction, or into
        what follows a product and reads each element once.
        """
        own = self.kind_of_group(name)
        if own > Kind.INJECTIVE:
            return f"{self.said(name)}, whose result would be computed again and again"
        for one in middle:
            kind = self.kind_of_group(one)
            if kind > Kind.INJECTIVE:
                return f"{print_name(one)} lies between them, and {self.said(one)}"
        into = self.kind_of_group(sink)
        shapes = {self.graph.values[one].shape for one in (name, sink)}
        if not middle and own in _LIGHT and self.kind[sink] in _LIGHT and len(shapes) == 1:
            return ""
        if into > Kind.REDUCTION:
            return f"{self.said(sink)}, which would compute its operands again"
        if into is Kind.REDUCTION:
            heavy = [n for n in self.group[sink] if self.kind[n] is Kind.REDUCTION]
            if any(self.place[n] < self.place[sink] for n in heavy):
                return f"{print_name(sink)} follows a reduction in its kernel"
        return ""

    def moves(self, name: str, sink: str, middle: list[str]) -> str:
        """Operators that only move elements, before a product or behind it."""
        own, into = self.kind_of_group(name), self.kind_of_group(sink)
        if middle:
            return f"{print_name(middle[0])} lies between them"
        operators = [self.graph.by_name[n].operator for n in self.group[name]]
        if into is Kind.PRODUCT and all(operator in MOVES for operator in operators):
            first = [n for n in self.group[sink] if self.kind[n] is Kind.PRODUCT]
            if sink not in first:
                return f"{print_name(sink)} follows a product in its kernel"
            return ""
        following = [self.graph.by_name[n].operator for n in self.group[sink]]
        if own is Kind.PRODUCT and all(operator in MOVES for operator in following):
            return ""
        return self.chain(name, sink, middle) or self.said(sink)

    def reason(self, first: str, second: str) -> str:
        """The reason why two nodes, of which the second is below the first, are apart."""
        sink = self.meets[first]
        if sink is None:
            if first in self.graph.outputs:
                return f"{print_name(first)} is an output of the graph, so it is stored in any case"
            users = ", ".join(map(print_name, self.users[first]))
            return f"the uses of {print_name(first)} ({users}) do not meet before the outputs"
        if (first, sink) in self.refused and self.group[first] is not self.group[sink]:
            return self.refused[first, sink]
        if sink != second and second not in self.between(first, sink):
            return self.reason(sink, second) if second in self.below(sink) else "they never meet"
        return "their groups grew apart"


def _common(
    a: str | None, b: str | None, meets: Mapping[str, str | None], depth: Mapping[str, int]
) -> str | None:
    """The deepest node that post-dominates two."""
    while a != b and a is not None and b is not None:
        if depth[a] > depth[b]:
            a = meets[a]
        elif depth[b] > depth[a]:
            b = meets[b]
        else:
            a, b = meets[a], meets[b]
    return a if a == b else None


def _a(kind: Kind) -> str:
    return f"a{'n' if kind.word[0] in 'aeio' else ''} {kind.word} operator"
