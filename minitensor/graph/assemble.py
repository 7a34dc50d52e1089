"""From a graph with groups to the parts of a model: distinct kernels, calls, weights, one arena.

Groups whose programs are equal are one task: scheduled once, compiled once. What a schedule makes
of constants alone (packing) is computed here, for each group with its own constants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from minitensor import ir
from minitensor.codegen import Split, Target, in_place, overwritten, split_constants
from minitensor.errors import MinitensorError
from minitensor.graph.driver import Call, Place
from minitensor.graph.meaning import Part, program_of
from minitensor.graph.memory import Plan, Step, plan_memory
from minitensor.graph.nodes import Node, Nodes
from minitensor.runtime import (
    NativeKernel,
    aligned_empty,
    find_toolchain,
    load_program,
    usable_cores,
)
from minitensor.schedule import Schedule

RELABELS: Final = frozenset(("reshape", "identity"))
"""Operators whose result has the elements of their input in the same order."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The schedule of a task.

    origin  where it is from, in words: "the log", "the first sketch"
    """

    schedule: Schedule
    origin: str


Schedules: TypeAlias = Callable[[Sequence[Part]], Sequence[Scheduled]]
"""Gives the schedules of distinct tasks, all at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A kernel of a model, which may be called for several groups of nodes.

    name      of its program
    part      the first of the groups
    count     the number of groups
    schedule  how it runs
    origin    where the schedule is from, in words
    late      the program that a call runs, behind what constants alone decide
    kernel    the same in machine code
    """

    name: str
    part: Part
    count: int
    schedule: Schedule
    origin: str
    late: ir.Program
    kernel: NativeKernel


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """All that a model is made of.

    graph    with an own output for each array that a call returns
    tasks    the distinct kernels
    calls    in order
    weights  the constants that calls read, as the kernels want them
    plan     of the values between calls
    steps    what the plan was made for
    """

    graph: Nodes
    tasks: tuple[Task, ...]
    calls: tuple[Call, ...]
    weights: tuple[np.ndarray, ...]
    plan: Plan
    steps: tuple[Step, ...]


def assembled(graph: Nodes, target: Target, schedules: Schedules) -> Assembly:
    """The parts of a model of a graph.

    target  with nothing left open

    Raises CompileError, with the name of the task, where one cannot be compiled.
    """
    graph = with_own_outputs(graph)
    views = _views(graph)
    groups = [group for group in graph.kernels if group[-1] not in views]
    parts = [program_of(graph, group, merge=True) for group in groups]
    keys = [part.program.spelled() for part in parts]
    firsts = dict(reversed(list(zip(keys, parts))))
    distinct = [(key, firsts[key]) for key in dict.fromkeys(keys)]
    counts = Counter(keys)
    chosen = schedules([part for _, part in distinct])
    splits = [
        split_constants(one.schedule.program, part.constants)
        for one, (_, part) in zip(chosen, distinct)
    ]
    number = {key: n for n, (key, _) in enumerate(distinct)}
    which = [number[key] for key in keys]
    shared = _shared(graph, views, parts, which, splits)
    late = [
        in_place(split.late, *shared[n]) if n in shared else split.late
        for n, split in enumerate(splits)
    ]
    kernels = _compiled(late, chosen, target)
    tasks = tuple(
        Task(part.program.name, part, counts[key], one.schedule, one.origin, program, kernel)
        for (key, part), one, program, kernel in zip(distinct, chosen, late, kernels)
    )
    steps, plan = _planned(graph, views, parts, [shared.get(n) for n in which])
    packers = _packers(splits, chosen, target)
    weights: list[np.ndarray] = []
    calls = []
    for n, part in zip(which, parts):
        held = _held(graph, part, splits[n], packers.get(n))
        places = dict(_places(graph, views, plan, part))
        arguments = []
        for buffer in kernels[n].emitted.params:
            if buffer.name in held:
                arguments.append(Place("weight", len(weights)))
                weights.append(own_copy(held[buffer.name]))
            else:
                arguments.append(places[buffer.name])
        shapes = ", ".join(str(graph.values[name]) for name in part.outputs)
        about = f"{part.program.name}: {shapes}"
        calls.append(Call(part.program.name, n, tuple(arguments), part.outputs, about))
    return Assembly(graph, tasks, tuple(calls), tuple(weights), plan, steps)


def with_own_outputs(graph: Nodes) -> Nodes:
    """The graph with a node of its own behind each output that is an input, a constant, or another
    output too: a call returns arrays that are not those of the caller.
    """
    names = set(graph.values)
    outputs: list[str] = []
    copies: list[Node] = []
    for name in graph.outputs:
        if name in graph.by_name and name not in outputs:
            outputs.append(name)
            continue
        own = ir.fresh_name(f"{name}_copy", names)
        names.add(own)
        value = graph.values[name]
        result = type(value)(own, value.shape, value.dtype)
        copies.append(Node(result, "identity", ("x",), (name,)))
        outputs.append(own)
    if not copies:
        return graph
    groups = (*graph.kernels, *((node.name,) for node in copies))
    nodes = (*graph.nodes, *copies)
    changed: Nodes = graph.replace(
        nodes=nodes, outputs=tuple(outputs), groups=groups, layouts=graph.layouts
    )
    return changed


def own_copy(array: np.ndarray) -> np.ndarray:
    """A copy of a constant that is aligned to 64 bytes."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def _views(graph: Nodes) -> Mapping[str, str]:
    """The results that need no kernel, each with the value whose memory it is."""
    found: dict[str, str] = {}
    for group in graph.kernels:
        nodes = [graph.by_name[name] for name in group]
        if any(
            node.operator not in RELABELS
            or node.name in graph.outputs
            or node.inputs[0] in graph.constants
            or graph.layout_of(node.name) != 0
            or graph.layout_of(node.inputs[0]) != 0
            for node in nodes
        ):
            continue
        for node in nodes:
            source = node.inputs[0]
            found[node.name] = found.get(source, source)
    return found


def _shared(
    graph: Nodes,
    views: Mapping[str, str],
    parts: Sequence[Part],
    which: Sequence[int],
    splits: Sequence[Split],
) -> dict[int, tuple[str, str]]:
    """The input and the output that are one array, by task: where no call of it, nor a later one,
    reads that input once more.

    which  the number of the task of each part
    """
    between = _between(graph, parts)
    read = [[views.get(name, name) for name in part.inputs] for part in parts]
    last = {name: n for n, names in enumerate(read) for name in names}

    def dies(n: int, given: str, result: str) -> bool:
        value = dict(_named(parts[n]))
        root = views.get(value[given], value[given])
        once = last.get(root) == n and read[n].count(root) == 1
        return once and root in between and value[result] in between

    found: dict[int, tuple[str, str]] = {}
    for task, split in enumerate(splits):
        calls = [n for n, number in enumerate(which) if number == task]
        for pair in overwritten(split.late):
            if pair[0] in dict(_named(parts[calls[0]])) and all(dies(n, *pair) for n in calls):
                found.setdefault(task, pair)
    return found


def _between(graph: Nodes, parts: Sequence[Part]) -> dict[str, int]:
    """The values that lie in the arena, with their bytes."""
    names = {name for part in parts for name in part.outputs} - set(graph.outputs)
    return {name: value.nbytes for name, value in graph.values.items() if name in names}


def _planned(
    graph: Nodes,
    views: Mapping[str, str],
    parts: Sequence[Part],
    shared: Sequence[tuple[str, str] | None],
) -> tuple[tuple[Step, ...], Plan]:
    """The plan of what lies between kernels; a view lies where what it views does.

    shared  the input and the output of each part that are one array
    """
    steps = []
    for part, pair in zip(parts, shared):
        read = dict.fromkeys(views.get(name, name) for name in part.inputs)
        sharing = {}
        if pair is not None:
            given, result = (dict(_named(part))[own] for own in pair)
            sharing[result] = (views.get(given, given),)
        steps.append(Step(part.nodes[-1], tuple(read), part.outputs, sharing))
    return tuple(steps), plan_memory(steps, _between(graph, parts), ())


def _named(part: Part) -> list[tuple[str, str]]:
    """The parameters of a group that are no constants, each with the value behind it."""
    named = [(f"x{n}", name) for n, name in enumerate(part.inputs)]
    return named + [(b.name, name) for b, name in zip(part.program.outputs, part.outputs)]


def _places(
    graph: Nodes, views: Mapping[str, str], plan: Plan, part: Part
) -> list[tuple[str, Place]]:
    """The places of a group's parameters, by their names in its program."""
    io = {value.name: n for n, value in enumerate(graph.inputs)}
    io |= {name: len(io) + n for n, name in enumerate(graph.outputs)}
    found = []
    for own, name in _named(part):
        root = views.get(name, name)
        place = Place("io", io[root]) if root in io else Place("arena", plan.offsets[root])
        found.append((own, place))
    return found


def _held(
    graph: Nodes, part: Part, split: Split, packer: NativeKernel | None
) -> dict[str, np.ndarray]:
    """The arrays of a group that are known now, by their names in what a call runs."""
    held = {own: graph.constants[name] for own, name in part.constants.items()}
    if packer is not None and split.early is not None:
        results = packer(*[held[b.name].reshape(b.shape) for b in split.early.inputs])
        results = results if isinstance(results, tuple) else (results,)
        held |= {b.name: array for b, array in zip(split.kept, results)}
    return held


def _packers(
    splits: Sequence[Split], chosen: Sequence[Scheduled], target: Target
) -> dict[int, NativeKernel]:
    """The kernels that compute what depends on constants alone, by the numbers of the tasks."""
    needed = [n for n, split in enumerate(splits) if split.early is not None and split.kept]
    programs = [split.early for n in needed if (split := splits[n]).early is not None]
    return dict(zip(needed, _compiled(programs, [chosen[n] for n in needed], target)))


def _compiled(
    programs: Sequence[ir.Program], chosen: Sequence[Scheduled], target: Target
) -> list[NativeKernel]:
    """The kernels of programs: the compiler is another process, so several run at once."""
    toolchain = find_toolchain()

    def compiled(program: ir.Program, one: Scheduled) -> NativeKernel:
        try:
            return load_program(program, target, one.schedule.trace.as_python(), toolchain)
        except MinitensorError as failure:
            failure.message = f"{ir.print_name(program.name)}: {failure.message}"
            raise

    cores = usable_cores()
    if cores == 1:  # and in a tab of a browser no thread either
        return list(map(compiled, programs, chosen))
    with ThreadPoolExecutor(cores, thread_name_prefix="minitensor") as pool:
        return list(pool.map(compiled, programs, chosen))
