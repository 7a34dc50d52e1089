"""Networks: graphs of operators, their rewrites, and the groups that become kernels.

Read in this order: `nodes` (the data), `meaning` (the programs), `graph` (what a person holds),
`trace`; `rewrite`, `rules` and `precision`; `classes`, `policies`, `fuse`, `layout`; `memory`;
`driver`, `assemble` and `model` (all kernels as one function), `checked`, `profile`, `saved`;
`onnx`; `drawing`. Not here: the search, which tunes the programs of the groups (`search`).
"""

# fmt: off
from typing import NoReturn as _NoReturn

from minitensor.phrasebook import unknown_name as _unknown_name
from minitensor.graph.assemble import Scheduled, Schedules, Task
from minitensor.graph.classes import Kind, kind_of_node
from minitensor.graph.drawing import graph_picture, memory_picture, profile_picture
from minitensor.graph.policies import POLICIES, Policy
from minitensor.graph.graph import Graph
from minitensor.graph.layout import Cost, Layouts, cheapest, images, default_layouts
from minitensor.graph.memory import Plan, Step, plan_memory
from minitensor.graph.meaning import Part, program_of, title_of
from minitensor.graph.model import Model, build_model
from minitensor.graph.nodes import Node, Value
from minitensor.graph.onnx import from_onnx
from minitensor.graph.profile import Profile
from minitensor.graph.rewrite import Made, Match, Number, Rule, Var, call
from minitensor.graph.rules import RULES
from minitensor.graph.running import RunningModel
from minitensor.graph.saved import load
from minitensor.graph.trace import trace

__all__ = [
    "POLICIES",
    "RULES",
    "Cost",
    "Graph",
    "Kind",
    "Layouts",
    "Made",
    "Match",
    "Model",
    "Node",
    "Number",
    "Part",
    "Plan",
    "Policy",
    "Profile",
    "Rule",
    "RunningModel",
    "Scheduled",
    "Schedules",
    "Step",
    "Task",
    "Value",
    "Var",
    "build_model",
    "call",
    "cheapest",
    "default_layouts",
    "from_onnx",
    "graph_picture",
    "images",
    "kind_of_node",
    "load",
    "memory_picture",
    "plan_memory",
    "profile_picture",
    "program_of",
    "title_of",
    "trace",
]


def __getattr__(name: str) -> _NoReturn:
    raise _unknown_name("graph", name, "mt.graph", __all__)
