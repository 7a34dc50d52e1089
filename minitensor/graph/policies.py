"""Policies: which of the fusions that are possible are wanted.

    "tvm"   all of them
    "none"  none
    "pays"  those that save more time at memory than they cost in operations done again

A kernel computes an operand where it reads it: once for each read. So an activation in front of a
pool of 3 x 3 is computed nine times; for a relu that is cheaper than writing the result to memory
and reading it back, for a sigmoid it is not. `Paying` counts both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from minitensor import ir
from minitensor.errors import unexpected
from minitensor.graph.meaning import program_of
from minitensor.graph.nodes import Nodes
from minitensor.looks import readable_count

PER_BYTE: Final = 4.0
"""The operations that a processor does in the time in which a byte goes to memory or comes back."""
START: Final = 20_000.0
"""The operations in the time that starting a kernel takes."""
FUNCTION: Final = 20
"""The operations of a function such as exp,"""
DIVISION: Final = 8
"""and those of a division or a square root."""


class Policy:
    """A choice among the fusions that are possible: subclass it for one of your own.

    `wants` is asked of each step that is possible: whether the nodes of `first` and those of
    `second` shall be one kernel. It answers "" for yes, or the reason why not, in words.
    """

    name = "tvm"

    def wants(self, graph: Nodes, first: Iterable[str], second: Iterable[str]) -> str:
        """The reason against one kernel of two groups; "" for none."""
        return ""


class Nothing(Policy):
    """Each operator is its own kernel."""

    name = "none"

    def wants(self, graph: Nodes, first: Iterable[str], second: Iterable[str]) -> str:
        """Always against."""
        return 'the policy "none" fuses nothing'


class Paying(Policy):
    """Fusions that save more than they cost."""

    name = "pays"

    def wants(self, graph: Nodes, first: Iterable[str], second: Iterable[str]) -> str:
        """The operations that would be done again against the bytes that stay in registers."""
        one, two = list(first), list(second)
        inside = {*one, *two}
        both = [node.name for node in graph.nodes if node.name in inside]
        again = operations(program_of(graph, both).program)
        again -= sum(operations(program_of(graph, part).program) for part in (one, two))
        kept = [
            name
            for name in one
            if name not in graph.outputs
            and set(graph.users[name]) & set(two)
            and set(graph.users[name]) <= inside
        ]
        saved = 2 * sum(graph.values[name].nbytes for name in kept)
        if again <= PER_BYTE * saved + START:
            return ""
        return (
            f"fusing does not pay: {readable_count(again, 'operations')} would be done again to "
            f"save {readable_count(saved, 'B')} of traffic to memory"
        )


def operations(program: ir.Program) -> float:
    """The operations of a program whose elementwise stages are computed where they are read, a
    function or a division counted as several.
    """
    blocks = list(program.blocks.values())
    sizes = {b.name: math.prod(b.shape) for b in program.buffers.values()}
    outputs = {b.name for b in program.outputs}
    times: dict[str, float] = {}
    reads: dict[str, float] = {}
    for block in reversed(blocks):
        written = ir.stored_buffers(block)
        plain = isinstance(block.body, ir.Store) and block.init is None
        read = max(reads.get(name, 1.0) for name in written)
        times[block.name] = read if plain and outputs.isdisjoint(written) else 1.0
        instances = math.prod(i.extent for i in block.iters) * times[block.name]
        for load in ir.loads(block.body):
            share = instances / max(1, sizes[load.buffer])
            reads[load.buffer] = reads.get(load.buffer, 0.0) + share
    return sum(
        times[block.name] * math.prod(i.extent for i in block.iters) * sum(_costs(block.body))
        for block in blocks
    )


def _costs(body: ir.Stmt) -> Iterator[int]:
    """The operations on data in an instance of a block."""
    for node in ir.walk(body):
        match node:
            case ir.Call():
                yield FUNCTION
            case ir.Binary("/") | ir.Binary("//") | ir.Binary("%") if node.dtype.kind != "index":
                yield DIVISION
            case ir.Binary() | ir.Unary() | ir.Select() if node.dtype.kind != "index":
                yield 1


POLICIES: Final[dict[str, Policy]] = {
    policy.name: policy for policy in (Policy(), Nothing(), Paying())
}
"""Policies by name."""


def policy_of(policy: object) -> Policy:
    """A policy by its name, or as it is. Raises ArgumentError."""
    if isinstance(policy, str) and policy in POLICIES:
        return POLICIES[policy]
    if isinstance(policy, Policy):
        return policy
    names = ", ".join(map(repr, POLICIES))
    raise unexpected(f"one of {names}, or an mt.graph.Policy", "policy", policy)
