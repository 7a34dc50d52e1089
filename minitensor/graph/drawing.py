"""Graphs, memory plans and profiles as pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from minitensor.graph.memory import Plan
from minitensor.graph.nodes import Nodes
from minitensor.graph.profile import Profile
from minitensor.ir import print_name
from minitensor.looks import readable_count, readable_seconds
from minitensor.pictures import Picture, escaped, fitted, label, tag

MOST: Final = 240
"""The most kernels, values or bars of a picture."""
WIDTH: Final = 760.0
_ROW: Final = 18.0
_HUES: Final = ("blue", "green", "orange", "purple", "brown", "red", "grey")


def graph_picture(graph: Nodes) -> Picture:
    """The kernels of a graph from top to bottom, each a box with its nodes; lines at the left go
    from a result to the kernels that read it.
    """
    groups = graph.kernels[:MOST]
    place = {name: n for n, group in enumerate(groups) for name in group}
    body, y, middles = [], 34.0, []
    for number, group in enumerate(groups):
        height = _ROW * len(group) + 8
        hue = _HUES[number % 3] if len(group) > 1 else "grey"
        box = {"x": 150.0, "y": y, "width": WIDTH - 162, "height": height, "rx": 4}
        body.append(tag("rect", class_=f"{hue} box", **box))
        for row, name in enumerate(group):
            node = graph.by_name[name]
            text = fitted(f"{node.result}  {node}", 80)
            body.append(label(text, 158, y + _ROW * (row + 1) - 1))
        middles.append(y + height / 2)
        y += height + 8
    body += _edges(graph, groups, place, middles)
    left = len(graph.kernels) - len(groups)
    title = f"{graph.name}: {len(graph.nodes)} operators in {len(graph.kernels)} kernels"
    title += f", the last {left} of them left out" if left else ""
    body.insert(0, label(fitted(title, 100), 8, 20, "bold"))
    return Picture("graph", title, str(graph), WIDTH, y + 8, "".join(body))


def _edges(
    graph: Nodes,
    groups: Sequence[Sequence[str]],
    place: Mapping[str, int],
    middles: Sequence[float],
) -> Iterator[str]:
    """A line from each kernel to those that read its results, further left the longer it is."""
    for number, group in enumerate(groups):
        readers = {place[u] for name in group for u in graph.users[name] if u in place}
        for reader in sorted(readers - {number}):
            x = 150.0 - min(140.0, 14.0 * (reader - number) ** 0.7)
            low, high = middles[number] + 3, middles[reader] - 3
            path = f"M150,{low:.1f} H{x:.1f} V{high:.1f} H150"
            yield tag("path", class_=f"{_HUES[number % 7]} curve", d=path)


def memory_picture(plan: Plan) -> Picture:
    """The arena over time: steps from left to right, bytes from top to bottom; a box is a value,
    and those that are in its place.
    """
    places: dict[str, list[str]] = {}
    for name, owner in plan.owners.items():
        places.setdefault(owner, []).append(name)
    owners = sorted(places, key=lambda name: -plan.sizes[name])[:MOST]
    steps = max((last for _, last in plan.lives.values()), default=0) + 1
    height, body = 320.0, []
    for number, owner in enumerate(owners):
        (first, last), size = plan.lives[owner], plan.sizes[owner]
        x, wide = 8 + (WIDTH - 16) * first / steps, (WIDTH - 16) * (last - first + 1) / steps
        y = 34 + height * plan.offsets[owner] / max(plan.arena, 1)
        tall = max(height * size / max(plan.arena, 1), 1.0)
        box = {"x": x, "y": y, "width": wide, "height": tall}
        name = ", ".join(map(print_name, places[owner]))
        words = f"{name}: {size:,} bytes, steps {first} to {last}"
        hue = _HUES[number % len(_HUES)]
        body.append(
            tag("rect", tag("title", escaped(fitted(words, 90))), class_=f"{hue} box", **box)
        )
        if tall > _ROW and wide > 60:
            body.append(label(fitted(name, int(wide / 8)), x + 4, y + 14, "small"))
    title = (
        f"the arena of {readable_count(plan.arena, 'B')} over {steps} steps; at least "
        f"{readable_count(plan.lower_bound, 'B')} are in use at once"
    )
    body.append(tag("rect", class_="axis", x=8, y=34, width=WIDTH - 16, height=height))
    body.insert(0, label(title, 8, 20, "bold"))
    return Picture("memory", title, str(plan), WIDTH, height + 46, "".join(body))


def profile_picture(profile: Profile) -> Picture:
    """The time of each kernel as a bar, in the order of a call."""
    rows, most = profile.rows[:MOST], max((row.seconds for row in profile.rows), default=1.0)
    body = []
    for number, row in enumerate(rows):
        y = 34 + _ROW * number
        shape = "x".join(map(str, row.shape))
        wide = max(1.0, 260 * row.seconds / (most or 1.0))
        body.append(label(fitted(f"{row.name} {shape}", 46), 8, y + 12))
        body.append(tag("rect", class_="blue soft", x=360.0, y=y + 2, width=wide, height=12))
        text = f"{readable_seconds(row.seconds)}, {1e-9 * row.flops / max(row.seconds, 1e-9):.0f}"
        body.append(label(f"{text} GFLOP/s", 366 + wide, y + 12, "small"))
    title = f"{len(profile.rows)} kernels, {readable_seconds(profile.seconds)}"
    body.insert(0, label(title, 8, 20, "bold"))
    return Picture("profile", title, str(profile), WIDTH, 44 + _ROW * len(rows), "".join(body))
