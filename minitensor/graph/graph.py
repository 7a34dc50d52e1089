"""Graphs as a person holds them: `Nodes` with its verbs.

graph = mt.graph.trace(function, x=((1, 64), "float32"))      or mt.graph.from_onnx(path)
graph = graph.optimize().fuse()
print(graph);  graph.explain("conv2d", "relu")
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from minitensor import pictures
from minitensor.errors import ArgumentError
from minitensor.graph.drawing import graph_picture
from minitensor.graph.fuse import groups_of, why_apart
from minitensor.graph.layout import checked_layouts
from minitensor.graph.meaning import interpret_graph, result_of
from minitensor.graph.nodes import Nodes, verify_graph
from minitensor.graph.policies import policy_of
from minitensor.graph.precision import narrowed
from minitensor.graph.rewrite import Rule, checked_rules, rewritten
from minitensor.graph.rules import RULES
from minitensor.looks import LINES, Shown, Text


class Graph(Shown, Nodes):
    """A network: operators of `mt.ops` on values of fixed shapes. Nothing changes it; see `Nodes`
    for its fields.
    """

    def verify(self) -> None:
        """Raise VerifyError, naming node and rule, if the graph is malformed."""
        verify_graph(self, result_of)

    def interpret(self, *arrays: Any) -> Any:
        """The outputs by the reference interpreter, each operator as it is written; slow.

        Raises ArgumentError for arrays that do not fit.
        """
        return interpret_graph(self, arrays)

    def optimize(self, rules: Sequence[Rule] = RULES) -> Graph:
        """An equal graph, rewritten by rules until none applies. Its groups are gone.

        rules  `mt.graph.RULES`, and rules of your own in front or behind

        Raises ArgumentError for what are no rules; VerifyError, with the name of the rule, for one
        that changes a shape or a dtype.
        """
        made: Graph = rewritten(self, checked_rules(rules))
        return made

    def fuse(self, policy: object = "tvm") -> Graph:
        """The graph with groups of operators that become one kernel each.

        policy  "tvm", "none", "pays", or an object of a subclass of `mt.graph.Policy`

        Raises ArgumentError for another.
        """
        made: Graph = self.replace(groups=groups_of(self, policy_of(policy)))
        return made

    def lay_out(self, layouts: str | Mapping[str, int]) -> Graph:
        """The graph as it is grouped, with a layout of its images: where the channels of each lie
        in the memory between kernels. Inputs and outputs stay as they are.

        layouts  "NCHW" as they are written, "NHWC", or "NCHW16c" with any number, for all images;
                 or the channels that lie side by side by the names of values

        Raises ArgumentError for other layouts, and values that cannot have one.
        """
        grouped = self.grouped()
        made: Graph = grouped.replace(layouts=checked_layouts(grouped, layouts))
        return made

    def in_precision(self, precision: str) -> Graph:
        """The optimized graph with the operands of its products and convolutions rounded to 16
        bits: "bf16", or "f16", which is finer and holds no number above 65504. With "f32" none is.
        Sums are float32, and so is all the rest.

        Raises ArgumentError for another precision, a graph with groups, and weights that are too
        large.
        """
        if self.groups is not None:
            raise ArgumentError(
                "precision is for a graph without groups: graph.in_precision(…).fuse()"
            )
        made: Graph = narrowed(self.optimize(), precision)
        return made

    def grouped(self) -> Graph:
        """The graph as it is built and tuned: with its groups, or else optimized and fused."""
        return self if self.groups is not None else self.optimize().fuse()

    def explain(self, first: str, second: str, policy: object = "tvm") -> str:
        """The reason why two nodes are one kernel, or are not.

        Raises ArgumentError for a name that is no node's.
        """
        return Text(why_apart(self, policy_of(policy), first, second))

    def equals(self, other: object) -> bool:
        """Tell whether another graph is the same but for names."""
        return isinstance(other, Nodes) and self.signature() == other.signature()

    def show(self, *, html: str | os.PathLike[str] | bool | None = None) -> pictures.Gallery | None:
        """Print all of the text; with `html`, write a page with a picture of the kernels to that
        file instead. html=True returns the picture, which a notebook shows.

        Raises ArgumentError for a path that cannot be written.
        """
        if html is None or html is False:
            return print(self)
        drawn = [graph_picture(self)]
        if html is True:
            return pictures.Gallery(drawn)
        page = pictures.page_of(self.name, drawn, [drawn[0].title], [("The graph", str(self))])
        pictures.write(html, page)
        return None

    def _beginning(self) -> str:
        found: list[str] = []
        for line in self.lines():
            found.append(line)
            if len(found) > LINES:
                return "\n".join([*found, "…"])
        return "\n".join(found)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Any:
        raise ArgumentError("a graph cannot be iterated over; graph.nodes can")
