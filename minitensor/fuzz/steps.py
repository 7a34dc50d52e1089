"""Steps of a schedule drawn at random, with legal and illegal arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeVar

from minitensor import ir
from minitensor.errors import ScheduleError
from minitensor.fuzz.choices import Choices
from minitensor.fuzz.meanings import example_intrinsic, matching_intrinsic
from minitensor.schedule import REGISTRY, IndexMap, Schedule

T = TypeVar("T")

FACTORS: Final = (1, 2, 3, 4, 5, 7, 8, 16, 64)
STEPS: Final = 12
"""The most primitives that are tried on a program."""
_PRINTED: Final = 4
"""Of so many attempts one is printed if it is refused, which takes longer than to refuse it."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call of a primitive: what it was, and how it ended.

    call     as Python
    refused  the rule that it breaks; None if it was accepted
    """

    primitive: str
    call: str
    refused: str | None


@dataclass
class DrawnSchedule:
    """A drawn schedule and the attempts that led to it, those that were refused too."""

    schedule: Schedule
    attempts: list[Attempt] = field(default_factory=list)


class BrokenPromiseError(AssertionError):
    """A primitive did what none may do; `call` is the call as Python.

    It raised something else than a ScheduleError, or one that names no declared rule, or changed
    the schedule that it refused.
    """

    def __init__(self, message: str, schedule: Schedule, call: str) -> None:
        super().__init__(message)
        self.schedule = schedule
        self.call = call


def draw_schedule(
    choices: Choices,
    program: ir.Program,
    most: int = STEPS,
    primitives: Sequence[str] | None = None,
) -> DrawnSchedule:
    """A schedule after 1 to `most` attempts at a primitive of `primitives` (None: of all).

    Arguments are drawn from what the program has at each step, so that most steps are plausible
    and a good part is legal. Raises BrokenPromiseError for what no primitive may do.
    """
    drawn = DrawnSchedule(Schedule(program, seed=choices.number(0, 1000)))

    def attempt(n: int) -> None:
        step = _Step(choices, drawn)
        with suppress(ScheduleError):
            _DRAWERS[choices.pick(primitives or PRIMITIVES)](step)

    choices.repeat(1, most, 88, attempt)
    return drawn


class _Step:
    """Draws arguments from what a schedule's program has, and tries primitives with them."""

    def __init__(self, choices: Choices, drawn: DrawnSchedule) -> None:
        self.drawn = drawn
        self.schedule = drawn.schedule
        self.number, self.chance = choices.number, choices.chance
        self.shuffled = choices.shuffled
        self._pick = choices.pick

    def pick(self, options: Sequence[T]) -> T:
        return self._pick(options)

    def do(self, primitive: str, *args: Any, **kwargs: Any) -> Any:
        """Call a primitive; what it returns. Raises its ScheduleError if it refuses."""
        schedule = self.schedule
        before, steps = schedule.program, len(schedule.trace)
        given = [*map(_text, args), *(f"{name}={_text(value)}" for name, value in kwargs.items())]
        call = f"{primitive}({', '.join(given)})"
        try:
            result = getattr(schedule, primitive)(*args, **kwargs)
        except ScheduleError as refusal:
            named = REGISTRY.get(refusal.message.partition("(")[0])
            if named is None or refusal.rule not in named.rules:
                self._broken(f"the refusal names no declared rule: {refusal}", call)
            if len(self.drawn.attempts) % _PRINTED == 0 and not str(refusal).strip():
                self._broken("the refusal says nothing", call)
            if schedule.program is not before or len(schedule.trace) != steps:
                self._broken(f"refused, and the schedule is another: {refusal}", call)
            self.drawn.attempts.append(Attempt(primitive, call, refusal.rule))
            raise
        except Exception as failure:
            text = f"{type(failure).__name__}: {failure}"
            raise BrokenPromiseError(f"{call} raised {text}", schedule, call) from failure
        if len(schedule.trace) != steps + 1:
            self._broken("accepted, and not recorded as one step", call)
        self.drawn.attempts.append(Attempt(primitive, call, None))
        return result

    def _broken(self, what: str, call: str) -> NoReturn:
        raise BrokenPromiseError(f"{call}: {what}", self.schedule, call)

    # ---- names

    def block(self) -> str:
        return self.pick(self.schedule.get_blocks() or ("none",))

    def loops(self, block: str | None = None) -> tuple[str, ...]:
        """The loops around a block, outermost first."""
        blocks = self.schedule.get_blocks()
        if not blocks:
            return ("none",)
        return self.schedule.get_loops(block or self.pick(blocks)) or ("none",)

    def loop(self) -> str:
        return self.pick(self.loops())

    def buffer(self) -> str:
        """A buffer, mostly one that is not a parameter."""
        program = self.schedule.program
        own = [b.name for b in program.temporaries]
        return self.pick(own if own and not self.chance(25) else list(program.buffers))

    def producer(self) -> str:
        """A block, mostly one that writes a buffer that is no parameter."""
        program = self.schedule.program
        own = {b.name for b in program.temporaries}
        found = [
            name for name, block in program.blocks.items() if own & ir.accessed_buffers(block)[1]
        ]
        return self.pick(found) if found and not self.chance(20) else self.block()

    def near(self, neighbours: Callable[[str], tuple[str, ...]], block: str) -> str:
        """A loop around one of the block's neighbours, mostly."""
        found = neighbours(block) if block in self.schedule.get_blocks() else ()
        if found and not self.chance(10):
            return self.pick(self.loops(self.pick(found)))
        return self.loop()


def _text(value: Any) -> str:
    """An argument as Python."""
    return repr(value.key) if isinstance(value, ir.Intrinsic) else repr(value)


def _split(step: _Step) -> None:
    count = step.number(1, 3)
    factors: list[int | None] = [step.pick(FACTORS) for _ in range(count)]
    if not step.chance(10):
        factors[step.number(0, count - 1)] = None
    step.do("split", step.loop(), factors, tail=step.pick(["guard", "guard", "cut", "exact"]))


def _fuse(step: _Step) -> None:
    loops = step.loops()
    start = step.number(0, max(0, len(loops) - 2))
    step.do("fuse", *loops[start : start + step.number(2, 3)])


def _reorder(step: _Step) -> None:
    loops = step.loops()
    order = step.shuffled(loops)
    step.do("reorder", *order[: step.number(min(2, len(order)), len(order))])


def _of_loop(name: str) -> Callable[[_Step], None]:
    return lambda step: step.do(name, step.loop())


def _compute_inline(step: _Step) -> None:
    step.do("compute_inline", step.producer())


def _reverse_compute_inline(step: _Step) -> None:
    """Mostly a block that reads what is no parameter."""
    program = step.schedule.program
    own = {b.name for b in program.temporaries}
    found = [name for name, block in program.blocks.items() if own & ir.accessed_buffers(block)[0]]
    step.do(
        "reverse_compute_inline",
        step.pick(found) if found and not step.chance(20) else step.block(),
    )


def _bind(step: _Step) -> None:
    step.do("bind", step.loop(), step.pick(["blockIdx.x", "threadIdx.x", "vthread"]))


def _compute_at(step: _Step) -> None:
    block = step.producer()
    step.do("compute_at", block, step.near(step.schedule.get_consumers, block))


def _reverse_compute_at(step: _Step) -> None:
    block = step.block()
    step.do("reverse_compute_at", block, step.near(step.schedule.get_producers, block))


def _cache_read(step: _Step) -> None:
    block = step.block()
    program = step.schedule.program
    read = sorted(ir.accessed_buffers(program.blocks[block])[0]) if block in program.blocks else []
    buffer = step.pick(read) if read and not step.chance(10) else step.buffer()
    step.do("cache_read", block, buffer, step.pick(["global", "local", "shared", "register"]))


def _cache_write(step: _Step) -> None:
    step.do("cache_write", step.block(), step.pick(["global", "local", "register"]))


def _set_scope(step: _Step) -> None:
    step.do("set_scope", step.buffer(), step.pick(["global", "local", "register"]))


def _storage_align(step: _Step) -> None:
    axis = step.number(-2, 2)
    step.do("storage_align", step.buffer(), axis, step.pick([2, 4, 8]), step.pick([0, 1, 3]))


def _transform_layout(step: _Step) -> None:
    buffer = step.buffer()
    rank = len(step.schedule.program.buffers[buffer].shape)
    c = step.pick([2, 3, 4, 8])
    names = ("i", "j", "k", "l")[:rank]
    indices = [ir.Var(name) for name in names]
    maps: list[tuple[ir.Expr, ...]] = [tuple(indices[::-1]), (*indices[1:], *indices[:1])]
    if rank:
        first, *middle = indices
        maps.append((first // c, *middle, first % c))
        maps.append((first // c, first % c, *middle))
        maps.append((*middle, first * 2))
        maps.append((first // c, *middle))
    if rank > 1:
        last = indices[-1]
        maps.append((last // c, *indices[:-1], last % c))
        maps.append((*indices[:-2], indices[-2] * 16 + last))
    step.do("transform_layout", buffer, IndexMap(names, step.pick(maps)))


def _decompose_reduction(step: _Step) -> None:
    block = step.block()
    step.do("decompose_reduction", block, step.pick(step.loops(block)))


def _rfactor(step: _Step) -> None:
    """Mostly of a loop that drives a reduction."""
    program = step.schedule.program
    loop = step.loop()
    if not step.chance(20):
        driving = [
            name
            for block in step.schedule.get_blocks()
            for i in program.blocks[block].iters
            if i.kind is ir.IterKind.REDUCE
            for name in sorted(ir.free_vars(i.binding))
        ]
        loop = step.pick(driving or [loop])
    step.do("rfactor", loop, axis=step.number(-2, 2))


def _tensorize(step: _Step) -> None:
    """Mostly an intrinsic that means what the inner loops of a block do, in plain C."""
    schedule = step.schedule
    block = step.block()
    if not step.chance(20):
        for loop in schedule.get_loops(block) if block in schedule.get_blocks() else ():
            if schedule.program.blocks[block].init is not None:
                with suppress(ScheduleError):
                    step.do("decompose_reduction", block, loop)
    fixed = step.chance(30)
    found = [
        (loops[start], intrinsic)
        for name in schedule.get_blocks()
        for loops in [schedule.get_loops(name)]
        for start in range(len(loops))
        if (intrinsic := matching_intrinsic(schedule.program, name, loops[start:], fixed))
    ]
    if found and not step.chance(10):
        step.do("tensorize", *step.pick(found))
    else:
        step.do("tensorize", step.loop(), example_intrinsic())


def _annotate(step: _Step) -> None:
    step.do("annotate", step.pick([step.loop(), step.block()]), "note", 1)


def _unannotate(step: _Step) -> None:
    """Mostly something that has the annotation."""
    program = step.schedule.program
    nodes: dict[str, ir.For | ir.Block] = {loop.var: loop for loop in ir.loops_of(program.body)}
    nodes |= program.blocks
    noted = [name for name, node in nodes.items() if "note" in dict(node.annotations)]
    name = step.pick(noted) if noted and not step.chance(20) else step.loop()
    step.do("unannotate", name, "note")


def _sample_perfect_tile(step: _Step) -> None:
    loop = step.loop()
    step.do("split", loop, step.do("sample_perfect_tile", loop, step.number(1, 3)))


def _sample_categorical(step: _Step) -> None:
    step.do("split", step.loop(), [None, step.do("sample_categorical", [1, 2, 4])])


def _sample_compute_location(step: _Step) -> None:
    block = step.block()
    step.do("compute_at", block, step.do("sample_compute_location", block))


_DRAWERS: Final[Mapping[str, Callable[[_Step], None]]] = {
    "split": _split,
    "fuse": _fuse,
    "reorder": _reorder,
    **{name: _of_loop(name) for name in ("add_unit_loop", "parallel", "vectorize", "unroll")},
    "bind": _bind,
    "annotate": _annotate,
    "unannotate": _unannotate,
    "compute_inline": _compute_inline,
    "reverse_compute_inline": _reverse_compute_inline,
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
    "rfactor": 3,
    "decompose_reduction": 2,
    "tensorize": 3,
    "parallel": 2,
    "vectorize": 2,
    "unroll": 2,
}
PRIMITIVES: Final = tuple(name for name in _DRAWERS for _ in range(_OFTEN.get(name, 1)))
"""The names to draw from; those that restructure most come more often."""
