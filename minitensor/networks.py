"""Graphs and the search together: `mt.build(graph)`."""

from __future__ import annotations

import os

from minitensor.codegen import Target
from minitensor.errors import unexpected
from minitensor.graph import Graph, Model, build_model
from minitensor.runtime import native_target
from minitensor.search import network_choices


def build_network(
    graph: Graph,
    target: str | Target,
    log: str | os.PathLike[str] | None,
    check: bool,
    flush_denormals: bool,
) -> Model:
    """A model of a graph; see `minitensor.build`."""
    wanted = Target.of(target)
    if wanted.kind != "c":
        raise unexpected(
            '"c", for a graph (mt.interpret(graph, …) runs it in the interpreter)', "target", target
        )
    exact = native_target(wanted)
    laid, schedules = network_choices(graph.grouped(), log, exact)
    return build_model(laid, exact, schedules, check=check, flush_denormals=flush_denormals)
