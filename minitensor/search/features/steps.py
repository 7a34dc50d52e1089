"""What each primitive does to the numbers of many candidates at once.

A step of a trace is looked at once, with the programs before and after it (of one candidate): what
comes of that is an `Effect`, a function that changes `Numbers` as the step would change them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from minitensor import ir
from minitensor.errors import ArgumentError
from minitensor.schedule import Ref, Step
from minitensor.search.features.bodies import Bodies, inlined, unknown
from minitensor.search.features.forms import (
    Atom,
    Form,
    Num,
    StructureError,
    product,
    variable,
)
from minitensor.search.features.numbers import Numbers
from minitensor.search.features.spans import same

Effect: TypeAlias = Callable[[Numbers], None]


@dataclass(frozen=True)
class Situation:
    """A step, seen from outside.

    number  of the step in the trace
    steps   all of the trace
    before  the program before it, and `after` the one after it
    bodies  the bodies that hold numbers; a step leaves them as they are after it
    """

    number: int
    steps: Sequence[Step]
    before: ir.Program
    after: ir.Program
    bodies: Bodies

    @property
    def step(self) -> Step:
        """The step itself."""
        return self.steps[self.number]

    @property
    def result(self) -> Any:
        """What it returned."""
        return self.step.result

    def argument(self, name: str) -> Any:
        """An argument, as the step got it."""
        return self.resolved(self.step.arguments[name])

    def resolved(self, value: Any) -> Any:
        """An argument with what earlier steps returned put in."""
        if isinstance(value, Ref):
            found = self.steps[value.step].result
            return found if value.item is None else found[value.item]
        if isinstance(value, tuple):
            return tuple(self.resolved(one) for one in value)
        return value

    def path(self, block: str) -> tuple[ir.For, ...]:
        """The loops around a block before the step."""
        return ir.paths(self.before)[block]

    def names_after(self, block: str) -> list[str]:
        """The names of the loops around a block after the step."""
        return [loop.var for loop in ir.paths(self.after)[block]]

    def under(self, loop: str) -> list[str]:
        """The blocks under a loop before the step."""
        return [b for b, path in ir.paths(self.before).items() if any(x.var == loop for x in path)]


def nothing(s: Situation) -> Effect | None:
    """A step that changes no numbers."""
    s.bodies.follow(s.before, s.after, unknown)
    return None


def number_of(value: Any, numbers: Numbers) -> Any:
    """An argument that decisions may have given, for all candidates."""
    if not isinstance(value, Ref):
        return value
    found = numbers.decided.get(value.step)
    if found is None:
        raise StructureError(f"step {value.step + 1} gives a number, and is no decision")
    return found[value.item] if isinstance(found, tuple) and value.item is not None else found


def split(s: Situation) -> Effect:
    """A loop as several; see `schedule.loops`."""
    if len(s.after.blocks) != len(s.before.blocks):
        raise StructureError("whether a loop is cut in two depends on the numbers")
    loop, names = s.argument("loop"), s.result
    given, tail = s.step.arguments["factors"], s.step.arguments["tail"]
    blocks = s.under(loop)
    s.bodies.follow(s.before, s.after, unknown)

    def effect(numbers: Numbers) -> None:
        whole = given if isinstance(given, tuple) else number_of(given, numbers)
        factors = [number_of(one, numbers) for one in whole]
        extent = numbers.extents.pop(loop)
        inner = _product([f for f in factors if f is not None])
        extents = [_rest(extent, inner) if f is None else f for f in factors]
        total = _product(extents)
        if tail == "cut" and not np.all(np.equal(total, extent)):
            raise StructureError("whether a loop is cut in two depends on the numbers")
        if tail == "exact":
            _require(np.equal(total, extent), s, "the factors do not multiply to the extent")
        _require(np.greater_equal(total, extent), s, "the factors do not cover the loop")
        if not np.all(np.equal(total, extent)):
            _more_than_all(numbers, blocks, loop)
        terms: dict[str, Num] = {}
        below: Num = 1
        for name, one in zip(reversed(names), reversed(extents)):
            terms[name], below = below, product(below, one)
        numbers.extents.update(zip(names, extents))
        numbers.replace(blocks, {loop: Form(terms)})

    return effect


def _product(factors: Iterable[Num]) -> Num:
    found: Num = 1
    for factor in factors:
        found = product(found, factor)
    return found


def _more_than_all(numbers: Numbers, blocks: Sequence[str], loop: str) -> None:
    """A loop is split into more iterations than it had: those too many are guarded off.

    What had been simplified for the values that the loop had then does not hold for the others.
    """
    numbers.guarded.update(blocks)
    for block in blocks:
        for form in numbers.bound[block].values():
            if any(loop in atom.variables() for _, atom in form.atoms):
                raise StructureError("a fused loop is split into more iterations than it has")


def _rest(extent: Num, inner: Num) -> Num:
    if not np.all(np.greater(inner, 0)):
        raise StructureError("a loop of no iterations is split")
    return -(-extent // inner)


def _require(holds: Any, s: Situation, why: str) -> None:
    if not np.all(holds):
        candidates = np.flatnonzero(~np.atleast_1d(holds))
        raise ArgumentError(f"step {s.number + 1} refuses candidate {candidates[0]}: {why}")


def fuse(s: Situation) -> Effect:
    """Several loops as one."""
    loops, name = s.argument("loops"), s.result
    blocks = s.under(loops[-1])
    s.bodies.follow(s.before, s.after, unknown)

    def effect(numbers: Numbers) -> None:
        extents = [numbers.extents.pop(loop) for loop in loops]
        numbers.extents[name] = _product(extents)
        for block in blocks:
            bound = numbers.bound[block]
            for iter_, form in bound.items():
                if not form.variables().isdisjoint(loops):
                    bound[iter_] = _fused(form, loops, extents, name)

    return effect


def _fused(form: Form, loops: Sequence[str], extents: Sequence[Num], name: str) -> Form:
    """A form in which loops are digits of one; those that make up a number again stay together."""
    inside = [
        (c, Atom(atom.op, tuple(_fused(arg, loops, extents, name) for arg in atom.args)))
        for c, atom in form.atoms
    ]
    others = {x: c for x, c in form.terms.items() if x not in loops}
    found = Form(others, form.constant, tuple(inside))
    steps = [form.terms.get(loop, 0) for loop in loops]
    last = len(loops)
    while last:
        first = last - 1
        while first and same(steps[first - 1], product(steps[first], extents[first])):
            first -= 1
        digit = variable(name)
        below, length = _product(extents[last:]), _product(extents[first:last])
        if last < len(loops):
            digit = Form({}, 0, ((1, Atom("//", (digit, Form({}, below)))),))
        if first:
            digit = Form({}, 0, ((1, Atom("%", (digit, Form({}, length)))),))
        found = found.plus(digit, steps[last - 1])
        last = first
    return found


def add_unit_loop(s: Situation) -> Effect:
    """A loop of one iteration."""
    name = s.result
    s.bodies.follow(s.before, s.after, unknown)

    def effect(numbers: Numbers) -> None:
        numbers.extents[name] = 1

    return effect


def compute_inline(s: Situation) -> None:
    """A block goes into those that read it."""
    block = s.before.blocks[s.argument("block")]
    _require_plain(s, block.name)
    s.bodies.follow(s.before, s.after, inlined(block))


def reverse_compute_inline(s: Situation) -> None:
    """A block goes into its producer."""
    _require_plain(s, s.argument("block"))
    s.bodies.follow(s.before, s.after, unknown)


def _require_plain(s: Situation, block: str) -> None:
    if block in s.bodies.known:
        raise StructureError("what a block that rfactor made is inlined into holds numbers")


def transform_layout(s: Situation) -> Effect:
    """A buffer is laid out anew."""
    name = s.argument("buffer")
    shape = s.after.buffers[name].shape
    old = s.before.buffers[name].shape
    s.bodies.follow(s.before, s.after, unknown)

    def effect(numbers: Numbers) -> None:
        if not all(map(same, numbers.shapes[name], old)):
            raise StructureError("a buffer whose shape depends on the numbers is laid out anew")
        numbers.shapes[name] = shape

    return effect


def sample_perfect_tile(s: Situation) -> Effect:
    """Factors are decided: they multiply to the extent."""
    loop, number = s.argument("loop"), s.number

    def effect(numbers: Numbers) -> None:
        chosen = numbers.decided[number]
        assert isinstance(chosen, tuple)
        total = _product(chosen)
        _require(np.equal(total, numbers.extents[loop]), s, "the factors do not multiply to it")

    return effect


SIMPLE: Final[Mapping[str, Callable[[Situation], Effect | None]]] = {
    "split": split,
    "fuse": fuse,
    "add_unit_loop": add_unit_loop,
    "compute_inline": compute_inline,
    "reverse_compute_inline": reverse_compute_inline,
    "transform_layout": transform_layout,
    "sample_perfect_tile": sample_perfect_tile,
    **dict.fromkeys(
        (
            "reorder",
            "parallel",
            "vectorize",
            "unroll",
            "bind",
            "annotate",
            "unannotate",
            "set_scope",
            "storage_align",
            "tensorize",
            "sample_categorical",
            "sample_compute_location",
        ),
        nothing,
    ),
}
"""Steps that move no block and make none."""
