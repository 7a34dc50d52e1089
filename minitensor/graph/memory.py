"""The memory plan: where each value lies in one arena, so that those in use at once never meet.

A value is alive from the step that computes it to the last one that reads it. Offsets are found
by best fit, largest first; three orders are tried, and the smallest arena is kept. No arena can be
smaller than the most bytes alive at once (`Plan.lower_bound`).

Two kinds of values take no memory of their own: views (a kernel that would only reshape), which lie
where what they view lies, and results that are computed in place of an input that dies there.
Inputs and outputs of a call are the caller's; constants are the model's.

Source: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, MLSys'20, for
the orders (by size, by breadth of a step).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from minitensor.ir import print_name
from minitensor.looks import Shown

ALIGNMENT: Final = 64
"""Bytes: a cache line."""


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel of a plan, or a view.

    name     of the step
    inputs   the values that it reads, of those that need memory
    outputs  those that it computes
    sharing  for an output, the input whose memory it may take, if that dies here
    view     whether the output *is* the input, in another shape
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sharing: Mapping[str, tuple[str, ...]]
    view: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Shown):
    """The places of values in one arena.

    offsets      bytes from the beginning of the arena, by value
    sizes        bytes of each, rounded up to the alignment
    lives        the first and the last step in which each is in use
    owners       the value whose memory each lies in: its own name, but for views and for what is
                 computed in place
    arena        bytes of the arena
    lower_bound  the most bytes that are in use in one step: no arena is smaller
    separate     the bytes of all values, each with memory of its own
    """

    offsets: Mapping[str, int]
    sizes: Mapping[str, int]
    lives: Mapping[str, tuple[int, int]]
    owners: Mapping[str, str]
    arena: int
    lower_bound: int
    separate: int

    def __str__(self) -> str:
        lines = [
            f"an arena of {self.arena:,} bytes; at least {self.lower_bound:,} are in use at once, "
            f"and each value by itself would take {self.separate:,}"
        ]
        for name in sorted(self.offsets, key=lambda name: self.lives[name]):
            (first, last), start = self.lives[name], self.offsets[name]
            owner = self.owners[name]
            where = "" if owner == name else f", in the memory of {print_name(owner)}"
            lines.append(
                f"    steps {first:3} to {last:3}  bytes {start:>12,} to "
                f"{start + self.sizes[name]:>12,}  {print_name(name)}{where}"
            )
        return "\n".join(lines)

    def overlaps(self) -> list[tuple[str, str]]:
        """Pairs of values that are in use at once and share bytes, though neither is a view of the
        other, or computed in its place: none, in a right plan.
        """
        found = []
        names = sorted(self.offsets, key=lambda name: self.offsets[name])
        for number, one in enumerate(names):
            for other in names[number + 1 :]:
                if self.offsets[other] >= self.offsets[one] + self.sizes[one]:
                    break
                apart = self.owners[one] != self.owners[other]
                if apart and _meet(self.lives[one], self.lives[other]):
                    found.append((one, other))
        return found


def plan_memory(steps: Sequence[Step], bytes_of: Mapping[str, int], kept: Iterable[str]) -> Plan:
    """A plan for the values that steps compute.

    bytes_of  the size of each value that needs memory; others are somewhere else
    kept      values that are read after the last step
    """
    owner = _owners(steps, bytes_of, set(kept))
    lives: dict[str, tuple[int, int]] = {}
    for number, step in enumerate(steps):
        for name in (*step.inputs, *step.outputs):
            if name in bytes_of:
                first, _ = lives.get(owner[name], (number, number))
                lives[owner[name]] = (first, number)
    for name in kept:
        if name in owner:
            lives[owner[name]] = (lives[owner[name]][0], len(steps))
    sizes: dict[str, int] = {}
    for name, one in owner.items():
        size = -(-bytes_of[name] // ALIGNMENT) * ALIGNMENT
        sizes[one] = max(size, sizes.get(one, 0))
    alive = [
        sum(sizes[name] for name, life in lives.items() if _meet(life, (n, n)))
        for n in range(len(steps) + 1)
    ]
    breadth = {n: max(alive[lives[n][0] : lives[n][1] + 1], default=0) for n in lives}
    orders: tuple[Callable[[str], tuple[int, ...]], ...] = (
        lambda n: (-sizes[n], lives[n][0]),
        lambda n: (-breadth[n], -sizes[n], lives[n][0]),
        lambda n: (-sizes[n] * (lives[n][1] - lives[n][0] + 1), lives[n][0]),
    )
    placed = [_placed(sorted(lives, key=order), sizes, lives) for order in orders]
    offsets, arena = min(placed, key=lambda one: one[1])
    return Plan(
        {name: offsets[one] for name, one in owner.items()},
        {name: -(-bytes_of[name] // ALIGNMENT) * ALIGNMENT for name in owner},
        {name: lives[one] for name, one in owner.items()},
        owner,
        arena,
        max(alive, default=0),
        sum(-(-n // ALIGNMENT) * ALIGNMENT for n in bytes_of.values()),
    )


def _owners(steps: Sequence[Step], bytes_of: Mapping[str, int], kept: set[str]) -> dict[str, str]:
    """For each value the one whose memory it lies in: itself, what it views, or what it is computed
    in place of.
    """
    owner: dict[str, str] = {}
    last: dict[str, int] = {}
    for number, step in enumerate(steps):
        for name in (*step.inputs, *step.outputs):
            last[name] = number
    end = {name: len(steps) if name in kept else last[name] for name in last}
    members: dict[str, list[str]] = {}
    for number, step in enumerate(steps):
        for name in step.outputs:
            if name not in bytes_of:
                continue
            chosen = name
            for given in step.sharing.get(name, ()):
                root = owner.get(given)
                if root is None:
                    continue
                dies = all(end[one] <= number for one in members[root])
                fits = bytes_of[name] <= bytes_of[given]
                taken = any(owner.get(one) == root for one in step.outputs)
                if (step.view or (dies and fits)) and not taken:
                    chosen = root
                    break
            owner[name] = chosen
            members.setdefault(chosen, []).append(name)
    return owner


def _placed(
    order: Sequence[str], sizes: Mapping[str, int], lives: Mapping[str, tuple[int, int]]
) -> tuple[dict[str, int], int]:
    """Offsets by best fit in an order, and the bytes that they take."""
    offsets: dict[str, int] = {}
    for name in order:
        busy = sorted(
            (offsets[other], offsets[other] + sizes[other])
            for other in offsets
            if _meet(lives[name], lives[other])
        )
        best: tuple[int, int] | None = None
        end = 0
        for low, high in busy:
            if low - end >= sizes[name] and (best is None or low - end < best[0]):
                best = (low - end, end)
            end = max(end, high)
        offsets[name] = end if best is None else best[1]
    return offsets, max((offsets[name] + sizes[name] for name in offsets), default=0)


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
