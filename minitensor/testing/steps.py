"""Strategies for schedules: sequences of primitives with legal and illegal arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from hypothesis import event
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from minitensor.errors import ScheduleError
from minitensor.ir import Program, accessed_buffers
from minitensor.schedule import REGISTRY, Schedule
from minitensor.testing.meanings import example_intrinsic, matching_intrinsic

FACTORS: Final = (1, 2, 3, 4, 5, 8, 16)


@st.composite
def schedules(draw: DrawFn, program: Program, max_steps: int = 8) -> Schedule:
    """A schedule of up to `max_steps` accepted primitives.

    Arguments are drawn from what the program has at each step, so that most steps are plausible
    and a good part is legal. A refusal must be a ScheduleError that names a rule its primitive
    declares, and must leave the schedule as it was; anything else is raised.
    """
    schedule = Schedule(program, seed=draw(st.integers(0, 1000)))
    for _ in range(draw(st.integers(0, max_steps))):
        name = draw(st.sampled_from(PRIMITIVES))
        apply_step(schedule, name, _Arguments(draw, schedule))
    return schedule


def apply_step(schedule: Schedule, name: str, arguments: _Arguments) -> bool:
    """Try one primitive with drawn arguments; whether it was accepted."""
    before, steps = schedule.program, len(schedule.trace)
    try:
        _DRAWERS[name](arguments, getattr(schedule, name))
    except ScheduleError as refusal:
        text = refusal.message
        primitive = REGISTRY[text.partition("(")[0]]
        assert refusal.rule in primitive.rules, f"{text} names no declared rule"
        assert str(refusal), "the message can be printed"
        if len(schedule.trace) == steps:
            assert schedule.program is before, f"{text} was refused and changed the program"
        event(f"{name} refused by {refusal.rule}")
        return False
    event(f"{name} accepted")
    return True


class _Arguments:
    """Draws arguments from what a schedule's program has."""

    def __init__(self, draw: DrawFn, schedule: Schedule) -> None:
        self.draw = draw
        self.schedule = schedule

    def pick(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) >= 100 - percent

    def block(self) -> str:
        return str(self.pick(self.schedule.get_blocks() or ["none"]))

    def loops(self, block: str | None = None) -> tuple[str, ...]:
        """The loops around a block, outermost first."""
        blocks = self.schedule.get_blocks()
        if not blocks:
            return ("none",)
        return self.schedule.get_loops(block or self.pick(blocks)) or ("none",)

    def loop(self) -> str:
        return str(self.pick(self.loops()))

    def buffer(self) -> str:
        return str(self.pick(list(self.schedule.program.buffers)))

    def near(self, neighbours: Callable[[str], tuple[str, ...]], block: str) -> str:
        """A loop around one of the block's neighbours, mostly."""
        found = neighbours(block) if block in self.schedule.get_blocks() else ()
        if found and self.chance(90):
            return str(self.pick(self.loops(self.pick(found))))
        return self.loop()


def _split(arguments: _Arguments, call: Callable[..., Any]) -> None:
    count = arguments.draw(st.integers(1, 3))
    factors: list[int | None] = [arguments.pick(FACTORS) for _ in range(count)]
    if not arguments.chance(10):
        factors[arguments.draw(st.integers(0, count - 1))] = None
    tail = arguments.pick(["guard", "guard", "cut", "exact"])
    call(arguments.loop(), factors, tail=tail)


def _fuse(arguments: _Arguments, call: Callable[..., Any]) -> None:
    loops = arguments.loops()
    start = arguments.draw(st.integers(0, max(0, len(loops) - 2)))
    call(*loops[start : start + arguments.draw(st.integers(2, 3))])


def _reorder(arguments: _Arguments, call: Callable[..., Any]) -> None:
    loops = arguments.loops()
    order = arguments.draw(st.permutations(loops))
    call(*order[: arguments.draw(st.integers(min(2, len(order)), len(order)))])


def _one_loop(arguments: _Arguments, call: Callable[..., Any]) -> None:
    call(arguments.loop())


def _one_block(arguments: _Arguments, call: Callable[..., Any]) -> None:
    call(arguments.block())


def _bind(arguments: _Arguments, call: Callable[..., Any]) -> None:
    call(arguments.loop(), arguments.pick(["blockIdx.x", "threadIdx.x", "vthread"]))


def _compute_at(arguments: _Arguments, call: Callable[..., Any]) -> None:
    block = arguments.block()
    call(block, arguments.near(arguments.schedule.get_consumers, block))


def _reverse_compute_at(arguments: _Arguments, call: Callable[..., Any]) -> None:
    block = arguments.block()
    call(block, arguments.near(arguments.schedule.get_producers, block))


def _cache_read(arguments: _Arguments, call: Callable[..., Any]) -> None:
    block = arguments.block()
    program = arguments.schedule.program
    read = sorted(accessed_buffers(program.blocks[block])[0]) if block in program.blocks else []
    buffer = arguments.pick(read) if read and arguments.chance(90) else arguments.buffer()
    call(block, buffer, arguments.pick(["global", "local", "shared", "register"]))


def _cache_write(arguments: _Arguments, call: Callable[..., Any]) -> None:
    call(arguments.block(), arguments.pick(["global", "local", "register"]))


def _set_scope(arguments: _Arguments, call: Callable[..., Any]) -> None:
    call(arguments.buffer(), arguments.pick(["global", "local", "register"]))


def _storage_align(arguments: _Arguments, call: Callable[..., Any]) -> None:
    axis = arguments.draw(st.integers(-2, 2))
    call(arguments.buffer(), axis, arguments.pick([2, 4, 8]), arguments.pick([0, 1, 3]))


def _transform_layout(arguments: _Arguments, call: Callable[..., Any]) -> None:
    buffer = arguments.buffer()
    rank = len(arguments.schedule.program.buffers[buffer].shape)
    c = arguments.pick([2, 3, 4, 8])
    maps: dict[int, list[Callable[..., Any]]] = {
        1: [lambda i: (i // c, i % c), lambda i: (i * 2,), lambda i: (i // c,)],
        2: [
            lambda i, j: (j, i),
            lambda i, j: (i // c, j, i % c),
            lambda i, j: (j // c, i, j % c),
            lambda i, j: (i * 16 + j,),
        ],
        3: [lambda i, j, k: (k, i, j), lambda i, j, k: (i, j // c, k, j % c)],
    }
    call(buffer, arguments.pick(maps.get(rank, [lambda *indices: indices])))


def _decompose_reduction(arguments: _Arguments, call: Callable[..., Any]) -> None:
    block = arguments.block()
    call(block, arguments.pick(arguments.loops(block)))


def _rfactor(arguments: _Arguments, call: Callable[..., Any]) -> None:
    call(arguments.loop(), axis=arguments.draw(st.integers(-2, 2)))


def _tensorize(arguments: _Arguments, call: Callable[..., Any]) -> None:
    """Mostly an intrinsic that means what the inner loops of a block do, in plain C."""
    schedule = arguments.schedule
    block = arguments.block()
    if arguments.chance(80):
        for loop in schedule.get_loops(block) if block in schedule.get_blocks() else ():
            if schedule.program.blocks[block].init is not None:
                with suppress(ScheduleError):
                    schedule.decompose_reduction(block, loop)
    fixed = arguments.chance(30)
    found = [
        (loops[start], intrinsic)
        for name in schedule.get_blocks()
        for loops in [schedule.get_loops(name)]
        for start in range(len(loops))
        if (intrinsic := matching_intrinsic(schedule.program, name, loops[start:], fixed))
    ]
    if found and arguments.chance(90):
        call(*arguments.pick(found))
    else:
        call(arguments.loop(), example_intrinsic())


def _annotate(arguments: _Arguments, call: Callable[..., Any]) -> None:
    call(arguments.pick([arguments.loop(), arguments.block()]), "note", 1)


def _unannotate(arguments: _Arguments, call: Callable[..., Any]) -> None:
    call(arguments.pick([arguments.loop(), arguments.block()]), "note")


def _sample_perfect_tile(arguments: _Arguments, call: Callable[..., Any]) -> None:
    loop = arguments.loop()
    factors = call(loop, arguments.draw(st.integers(1, 3)))
    arguments.schedule.split(loop, factors)


def _sample_categorical(arguments: _Arguments, call: Callable[..., Any]) -> None:
    arguments.schedule.split(arguments.loop(), [None, call([1, 2, 4])])


def _sample_compute_location(arguments: _Arguments, call: Callable[..., Any]) -> None:
    block = arguments.block()
    arguments.schedule.compute_at(block, call(block))


_DRAWERS: Final[dict[str, Callable[[_Arguments, Callable[..., Any]], None]]] = {
    "split": _split,
    "fuse": _fuse,
    "reorder": _reorder,
    "add_unit_loop": _one_loop,
    "parallel": _one_loop,
    "vectorize": _one_loop,
    "unroll": _one_loop,
    "bind": _bind,
    "annotate": _annotate,
    "unannotate": _unannotate,
    "compute_inline": _one_block,
    "reverse_compute_inline": _one_block,
    "compute_at": _compute_at,
    "reverse_compute_at": _reverse_compute_at,
    "cache_read": _cache_read,
    "cache_write": _cache_write,
    "set_scope": _set_scope,
    "storage_align": _storage_align,
    "transform_layout": _transform_layout,
    "decompose_reduction": _decompose_reduction,
    "rfactor": _rfactor,
    "tensorize": _tensorize,
    "sample_perfect_tile": _sample_perfect_tile,
    "sample_categorical": _sample_categorical,
    "sample_compute_location": _sample_compute_location,
}
"""How the arguments of each primitive are drawn."""

_OFTEN: Final = {
    "split": 4,
    "reorder": 3,
    "compute_at": 4,
    "reverse_compute_at": 4,
    "fuse": 2,
    "cache_read": 2,
    "cache_write": 2,
    "rfactor": 2,
    "decompose_reduction": 2,
    "tensorize": 3,
}
PRIMITIVES: Final = tuple(name for name in _DRAWERS for _ in range(_OFTEN.get(name, 1)))
"""The names to draw from; those that restructure most come more often."""
