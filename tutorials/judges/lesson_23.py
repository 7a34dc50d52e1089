"""Judges of lesson 23: rewrite rules, post-dominators, and groups of nodes."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from minitensor import ir, ops
from minitensor.errors import MinitensorError, printable, shown
from minitensor.graph import Graph, Node, Value, trace
from minitensor.graph.meaning import result_of

from ..course.tasks import Case, LackingError, Task, as_python
from ..course.wire import Other

ELEMENTWISE: Final = ("relu", "sigmoid", "tanh", "exp", "neg")
MOST_NODES: Final = 40
MOST_BYTES: Final = 1 << 20
"""Limits of a graph that an answer makes."""

Users = Mapping[str, Sequence[str]]
"""The readers of each node; the nodes are in an order in which they can run."""


# ---- rules

Step = tuple[str, Mapping[str, Any]]
"""An operator of one tensor, and its attributes."""


def chain(steps: Sequence[Step], shape: Sequence[int], kept: Sequence[int]) -> Graph:
    """The graph of operators one after the other, which returns the last result and those of some
    steps before.
    """

    def net(x: Any) -> Any:
        results = []
        for operator, attributes in steps:
            x = getattr(ops, operator)(x, **attributes)
            results.append(x)
        return (*(results[n] for n in kept), x)

    return trace(net, x=(tuple(shape), "float32"))


class Rules(Task):
    """Rules for two transposes around an elementwise operator."""

    name, text = "rules", "take away pairs of transposes"
    points = 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        """Steps, the shape of the input, other outputs, and the transposes that may be left."""

        def turn(axes: Sequence[int] | None) -> Step:
            return "transpose", {} if axes is None else {"axes": tuple(axes)}

        def some() -> Step:
            return draw.choice(ELEMENTWISE), {}

        around = [2, 0, 1], [1, 2, 0]
        forward, back = around if draw.random() < 0.5 else around[::-1]
        cube, uneven = (3, 3, 3), (2, 3, 4)
        four = draw.sample(range(4), 4)
        while four == [four.index(n) for n in range(4)]:  # its own inverse
            four = draw.sample(range(4), 4)
        behind = [n - 4 for n in four]
        inverse = [four.index(n) for n in range(4)]
        softmax: Step = ("softmax", {"axis": -1})
        found: list[Case] = [([some(), turn([1, 0]), some(), turn(None), some()], (3, 4), (), 0)]
        found += [([turn(None), (one, {}), turn(None)], (3, 4), (), 0) for one in ELEMENTWISE]
        found += [
            ([turn([0, 2, 1]), some(), turn([0, 2, 1])], uneven, (), 0),
            ([turn(forward), some(), turn(back)], uneven, (), 0),
            ([turn(forward), some(), turn(forward)], cube, (), 2),
            ([turn(forward), some(), turn(None)], cube, (), 2),
            ([turn(four), some(), turn(inverse)], (2, 3, 4, 5), (), 0),
            ([turn(behind), some(), turn(inverse)], (2, 3, 4, 5), (), 0),
            ([turn([-1, 1, 0]), some(), turn(None)], uneven, (), 0),
            ([turn([1, 0]), softmax, turn([1, 0])], (3, 3), (), 2),
            ([turn([1, 0]), some(), turn([1, 0]), softmax], (3, 4), (), 0),
            ([turn([1, 0]), some(), turn(None)], (3, 4), (1,), 2),
            ([turn([1, 0]), some(), turn(None), turn(None), some(), turn([1, 0])], (3, 4), (), 0),
        ]
        return found

    def ask(self, answer: Any, case: Case) -> Any:
        """The nodes and outputs of the graph that the rules make."""
        made = chain(*case[:3]).optimize(answer())
        nodes = [(n.name, n.operator, n.operands, n.inputs, n.attributes) for n in made.nodes]
        return [nodes, made.outputs]

    def judge(self, case: Case, got: Any) -> None:
        steps, shape, _, left = case
        graph = chain(*case[:3])
        said = f"{_told(steps)} of x of shape {tuple(shape)}"
        made = _made(graph, got)
        if made is None:
            raise LackingError(f"the graph that is made of {said} is malformed", ["got.verify()"])
        array = _integers(graph)
        want, found = graph.interpret(array), made.interpret(array)
        pairs = zip(want, found) if isinstance(want, tuple) else [(want, found)]
        if not all(a.shape == b.shape and np.allclose(a, b, rtol=1e-5) for a, b in pairs):
            lines = [
                f"x = {as_python(array)}",
                "want, found = mt.interpret(graph, x), mt.interpret(got, x)",
                "np.testing.assert_allclose(found, want, rtol=1e-5)",
            ]
            raise LackingError(f"{said} has another result after the rules", lines)
        count = sum(node.operator == "transpose" for node in made.nodes)
        if count > left:
            text = f"{said} has {count} transposes after the rules; {left} are enough"
            lines = [
                'count = sum(node.operator == "transpose" for node in got.nodes)',
                f"assert count <= {left}, got",
            ]
            raise LackingError(text, lines)

    def script(self, case: Case) -> list[str]:
        steps, shape, kept, _ = case
        results = [*(f"x{n + 1}" for n in kept), f"x{len(steps)}"]
        lines = ["", "", "def net(x0):"]
        for n, (operator, attributes) in enumerate(steps):
            given = "".join(f", {name}={value!r}" for name, value in attributes.items())
            lines.append(f"    x{n + 1} = mt.ops.{operator}(x{n}{given})")
        return [
            *lines,
            f"    return {', '.join(results)}",
            "",
            "",
            f'graph = mt.graph.trace(net, x0=({tuple(shape)}, "float32"))',
            "print(graph)",
            "got = graph.optimize(answer())",
            "print(got)",
        ]


def _integers(graph: Graph) -> np.ndarray:
    """An array of small integers for the input of a graph; neighbours differ."""
    (given,) = graph.inputs
    count = math.prod(given.shape)
    return (np.arange(count, dtype="float32") % 11 - 5).reshape(given.shape)


def _told(steps: Sequence[Step]) -> str:
    """Steps in words: transpose (1, 0), relu, transpose."""
    parts = [
        name + "".join(f" {value}" for value in attributes.values()) for name, attributes in steps
    ]
    return ", ".join(parts)


def _made(graph: Graph, got: Any) -> Graph | None:
    """The graph that an answer's nodes are, on the inputs of another; None for no graph."""
    try:
        rows, outputs = got
        if len(rows) > MOST_NODES:
            return None
        known: dict[str, Value] = {value.name: value for value in graph.inputs}
        nodes, size = [], 0
        for name, operator, operands, inputs, attributes in rows:
            draft = Node(Value(name, (), ir.FLOAT32), operator, operands, inputs, attributes)
            node = draft.replace(result=result_of(known, draft))
            known[name] = node.result
            size += node.result.nbytes
            if size > MOST_BYTES:
                return None
            nodes.append(node)
        made: Graph = graph.replace(nodes=tuple(nodes), outputs=tuple(outputs))
        made.verify()
    except MinitensorError:
        return None
    except Exception:  # a value of any form
        return None
    return made if len(made.outputs) == len(graph.outputs) else None


# ---- post-dominators


def meeting(users: Users, outputs: Sequence[str]) -> dict[str, str | None]:
    """The immediate post-dominators, by sets: what all paths from a node pass."""
    passed: dict[str, frozenset[str]] = {}
    found: dict[str, str | None] = {}
    order = list(users)
    for name in reversed(order):
        every = [passed[user] for user in users[name]]
        common = frozenset() if name in outputs or not every else frozenset.intersection(*every)
        passed[name] = common | {name}
        found[name] = min(common, key=order.index, default=None)
    return found


def _avoiding(users: Users, outputs: Sequence[str], name: str, avoided: Any) -> list[str] | None:
    """A path from a node to an output that does not pass another node; None if there is none."""
    pending = [[name]]
    seen = {name}
    while pending:
        path = pending.pop()
        if path[-1] in outputs:
            return path
        for user in users[path[-1]]:
            if user != avoided and user not in seen:
                seen.add(user)
                pending.append([*path, user])
    return None


def drawn(draw: random.Random, count: int, reach: int) -> tuple[dict[str, list[str]], list[str]]:
    """A graph of so many nodes, and its outputs: each node is read by some of the next few."""
    names = [f"n{n}" for n in range(count)]
    users: dict[str, list[str]] = {}
    outputs = []
    for n, name in enumerate(names):
        near = names[n + 1 : n + 1 + reach]
        readers = draw.sample(near, min(len(near), draw.choice((1, 1, 1, 2, 2, 3))))
        users[name] = sorted(readers, key=names.index)
        if not readers or draw.random() < 0.05:
            outputs.append(name)
    return users, outputs


class Meets(Task):
    """Immediate post-dominators."""

    name, text = "meets", "find where all uses of a node meet"

    def cases(self, draw: random.Random) -> Sequence[Case]:
        ladder: dict[str, list[str]] = {}
        for n in range(100):  # diamonds one behind the other: 2 ** 100 paths
            ladder |= {f"a{n}": [f"b{n}", f"c{n}"], f"b{n}": [f"a{n + 1}"], f"c{n}": [f"a{n + 1}"]}
        ladder["a100"] = []
        crossing = {"x": ["a", "b"], "a": ["c", "d"], "b": ["c", "d"], "c": ["e"], "d": ["e"]}
        found: list[Case] = [
            ({"x": []}, ["x"]),
            ({"x": ["y"], "y": ["z"], "z": []}, ["y", "z"]),
            ({"x": ["y", "z"], "y": ["z"], "z": ["t"], "t": []}, ["t"]),
            ({"x": ["y", "z"], "y": [], "z": []}, ["y", "z"]),
            ({**crossing, "e": ["f"], "f": []}, ["f"]),
            ({**crossing, "e": ["f"], "f": []}, ["d", "f"]),
        ]
        for count in (6, 8, 9, 10, 12, 30):
            found.append(drawn(draw, count, 4))
        return [*found, (ladder, ["a100"])]

    def judge(self, case: Case, got: Any) -> None:
        users, outputs = case
        want = meeting(users, outputs)
        shows = [f"want = {want!r}", "assert got == want, got"]
        if not isinstance(got, dict) or got.keys() != want.keys():
            raise LackingError("a dictionary with a value for each node is wanted", shows)
        for name, right in want.items():
            one = got[name]
            if type(one) is type(right) and one == right:
                continue
            text = f"the paths from {name} to outputs meet in {right}"
            if right is None:
                text = f"{name} has no immediate post-dominator"
            text += f", and the answer is {_plain(one)}"
            if isinstance(one, str) and one == name:
                text += ": it comes after the node itself"
            elif isinstance(one, str) and one in users:
                path = _avoiding(users, outputs, name, one)
                other = f": the path {' -> '.join(path)} does not pass it" if path else ""
                text += other or ": it is further away"
            raise LackingError(f"{text} (users are {shown(users)}; outputs {outputs})", shows)


# ---- groups

PRODUCT: Final = "product"


def between(users: Users, name: str, sink: str) -> list[str]:
    """The nodes on paths from a node to the one in which they meet, without both."""
    found: list[str] = []
    pending = [*users[name]]
    while pending:
        one = pending.pop()
        if one != sink and one not in found:
            found.append(one)
            pending += users[one]
    return found


def grouped(
    kinds: Mapping[str, str], users: Users, outputs: Sequence[str]
) -> tuple[list[list[str]], dict[frozenset[str], str]]:
    """The groups, and why a node and the one where its uses meet are not in one."""
    meets = meeting(users, outputs)
    group = {name: [name] for name in kinds}
    why: dict[frozenset[str], str] = {}

    def has_product(name: str) -> bool:
        return any(kinds[one] == PRODUCT for one in group[name])

    for first in (True, False):
        for name in kinds:
            sink = meets[name]
            if sink is None or group[sink] is group[name] or has_product(name) != first:
                continue
            others = [*between(users, name, sink), sink]
            product = next((one for one in others if has_product(one)), None)
            if product is None:
                nodes = [one for n in (name, *others) for one in group[n]]
                joined = [one for one in kinds if one in nodes]
                group.update((one, joined) for one in joined)
            else:
                text = f"when the turn of {name} comes, the group of {product} has a product"
                why.setdefault(frozenset((name, sink)), text)
    distinct = {id(one): one for one in group.values()}
    return list(distinct.values()), why


class Groups(Task):
    """Groups of nodes."""

    name, text = "groups", "decide what becomes one kernel"
    points = 2

    def cases(self, draw: random.Random) -> Sequence[Case]:
        p, e = PRODUCT, "elementwise"
        row = {"a": ["b"], "b": ["c"], "c": ["d"], "d": []}
        diamond = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}
        two = {"a": ["b"], "b": ["d"], "c": ["d"], "d": []}
        found: list[Case] = [
            ({"a": p}, {"a": []}, ["a"]),
            (dict(zip("abcd", (e, p, e, e))), row, ["d"]),
            (dict(zip("abcd", (p, e, e, p))), row, ["d"]),
            (dict(zip("abcd", (p, e, e, e))), row, ["b", "d"]),
            (dict(zip("abcd", (p, e, e, e))), diamond, ["d"]),
            (dict(zip("abcd", (e, p, e, e))), diamond, ["d"]),
            (dict(zip("abcd", (p, e, p, e))), diamond, ["d"]),
            (dict(zip("abcd", (p, e, p, e))), two, ["d"]),
            (dict(zip("abcd", (e, e, p, e))), two, ["d"]),
            (dict(zip("abcd", (e, e, e, e))), diamond, ["b", "d"]),
        ]
        for count in (5, 6, 7, 8, 9, 10, 11, 12):
            users, outputs = drawn(draw, count, 3)
            found.append(({name: draw.choice((p, e, e, e)) for name in users}, users, outputs))
        return found

    def judge(self, case: Case, got: Any) -> None:
        kinds, users, outputs = case
        want, why = grouped(*case)
        shows = [
            f"want = {want!r}",
            "assert sorted(map(sorted, got)) == sorted(map(sorted, want)), got",
        ]
        given = f" (kinds are {shown(kinds)}; users {shown(users)}; outputs {outputs})"
        sequence = (list, tuple, set)
        if not isinstance(got, sequence) or not all(
            isinstance(one, sequence) and all(isinstance(name, str) for name in one) for one in got
        ):
            line = "assert all(isinstance(one, (list, tuple, set)) for one in got), got"
            raise LackingError("a list of lists of names is wanted", [line, *shows])
        made = [list(one) for one in got]
        if sorted(itertools.chain(*made)) != sorted(kinds):
            text = f"each node has to be in one group, but the groups are {shown(made)}"
            raise LackingError(text + given, shows)
        place = {name: n for n, one in enumerate(made) for name in one}
        right = {name: n for n, one in enumerate(want) for name in one}
        for one, two in _pairs(kinds, users):
            if (place[one] == place[two]) == (right[one] == right[two]):
                continue
            if right[one] == right[two]:
                text = f"{one} and {two} are one kernel, {', '.join(want[right[one]])}, and the "
                raise LackingError(f"{text}answer has them apart{given}", shows)
            wrong = made[place[one]]
            text = f"{one} and {two} are in one group of the answer, {', '.join(wrong)}"
            fault = _fault(wrong, case, why)
            raise LackingError(f"{text}, and must not be{fault}{given}", shows)


def _pairs(kinds: Mapping[str, str], users: Users) -> Iterator[tuple[str, str]]:
    """All pairs of nodes; first those of which one reads the other."""
    for name in kinds:
        yield from ((name, user) for user in users[name])
    yield from itertools.combinations(kinds, 2)


def _fault(group: Any, case: Case, why: Mapping[frozenset[str], str]) -> str:
    """What is wrong with a group."""
    kinds, users, outputs = case
    read = [n for n in group if n in outputs or set(users[n]) - set(group)]
    if len(read) > 1:
        return f": {read[0]} and {read[1]} are both needed outside of it"
    if sum(kinds[name] == PRODUCT for name in group) > 1:
        return ": it has two products"
    reasons = [text for pair, text in why.items() if pair <= set(group)]
    return f": {reasons[0]}" if reasons else ""


def _plain(value: Any) -> str:
    return value.text if isinstance(value, Other) else printable(str(value)[:60])


TASKS: Sequence[Task] = (Rules(), Meets(), Groups())
