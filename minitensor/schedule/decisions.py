"""Decisions: steps that choose a number or a place and leave the program as it is.

A schedule with decisions in it is a template: the search edits what was decided and replays. Each
decision is a primitive whose keyword `decision` holds what was chosen; a Schedule draws one at
random where none is given.
"""

from __future__ import annotations

import math
import numbers
import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias

import numpy as np

from minitensor import arith, ir
from minitensor.errors import shown
from minitensor.schedule.arguments import (
    FACTORS,
    LARGEST_INT,
    BlockName,
    LoopName,
    integer,
    ints,
    is_list,
    plain_value,
)
from minitensor.schedule.batch import Batch, Effect, StepView, unchanged
from minitensor.schedule.compute_at import compute_at
from minitensor.schedule.edit import loops_around
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import accepted, refuse
from minitensor.schedule.scene import Scene
from minitensor.schedule.signature import Argument

ROOT: Final = "root"
"""The location of a block that has not been moved."""

PartCount: TypeAlias = Annotated[int, ints(1, 16)]
InnermostLimit: TypeAlias = Annotated[int, ints(1, LARGEST_INT)]


def _tile(program: ir.Program, name: str, value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not is_list(value):
        refuse("A2", f"expected a list of factors, but got {name}={shown(value)}")
    return tuple(integer(name, v, 0, LARGEST_INT, FACTORS) for v in value)


@primitive(
    rules={
        "R1": (
            "the decision is a list of n factors that multiply to the extent",
            "leave the decision out to draw one",
        ),
        "R2": (
            "the innermost factor is at most max_innermost_factor",
            "choose a smaller last factor, or raise max_innermost_factor",
        ),
    }
)
def sample_perfect_tile(
    program: ir.Program,
    loop: LoopName,
    n: PartCount,
    *,
    max_innermost_factor: InnermostLimit = 16,
    decision: Annotated[Sequence[int] | None, Argument(_tile)] = None,
) -> Rewritten[tuple[int, ...]]:
    """Choose factors for `split`: n of them, outermost first, that multiply to the extent.

    sample_perfect_tile("i", 2)  with i in range(64)    =>    (16, 4), or any such pair

    max_innermost_factor  the largest last factor
    decision              the factors; drawn uniformly from all that are possible if None

    Returns    the factors.
    """
    extent = ir.loop_sites(program)[loop].loop.extent
    chosen = tuple(decision) if decision is not None else ()
    if len(chosen) != n or math.prod(chosen) != extent:
        refuse("R1", f"{list(chosen)} for {ir.print_name(loop)} of extent {extent}, n={n}")
    if chosen[-1] > max_innermost_factor:
        refuse("R2", f"{chosen[-1]} > {max_innermost_factor}")
    return program, chosen


@sample_perfect_tile.random_decision
def _draw_tile(
    program: ir.Program, arguments: Mapping[str, Any], rng: random.Random
) -> tuple[int, ...]:
    extent = ir.loop_sites(program)[arguments["loop"]].loop.extent
    return draw_factors(extent, arguments["n"], arguments["max_innermost_factor"], rng)


@sample_perfect_tile.on_batch
def _tile_batch(view: StepView) -> Effect:
    loop, number = view.argument("loop"), view.number

    def effect(batch: Batch) -> None:
        total = arith.product_of(batch.decided[number])
        view.require(np.equal(total, batch.extents[loop]), "the factors do not multiply to it")

    return effect


@sample_perfect_tile.random_call()
def _call_sample_perfect_tile(scene: Scene) -> None:
    loop = scene.loop()
    scene.do("split", loop, scene.do("sample_perfect_tile", loop, scene.number(1, 3)))


def draw_factors(extent: int, count: int, limit: int, rng: random.Random) -> tuple[int, ...]:
    """Factors that multiply to an extent, the last at most `limit`: uniformly from all there are.

    The only factor of one part is the extent, whatever the limit.
    """
    if extent == 0:
        return (0, *[1] * (count - 1)) if count > 1 else (0,)
    if count == 1:
        return (extent,)
    innermost = [d for d in divisors(extent) if d <= limit]
    weights = [count_factorizations(extent // d, count - 1) for d in innermost]
    chosen = [rng.choices(innermost, weights)[0]]
    rest = extent // chosen[0]
    for left in range(count - 2, 0, -1):
        options = divisors(rest)
        weights = [count_factorizations(rest // d, left) for d in options]
        chosen.append(rng.choices(options, weights)[0])
        rest //= chosen[-1]
    return (rest, *reversed(chosen))


@lru_cache(maxsize=4096)
def divisors(n: int) -> tuple[int, ...]:
    """The divisors of n >= 1, ascending."""
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return tuple(sorted({*small, *(n // d for d in small)}))


def count_factorizations(n: int, parts: int) -> int:
    """The number of ordered ways to write n >= 1 as a product of `parts` factors: the powers of
    each prime are distributed among the factors on their own.
    """
    if parts <= 1:
        return parts
    return math.prod(math.comb(power + parts - 1, power) for power in prime_powers(n))


@lru_cache(maxsize=4096)
def prime_powers(n: int) -> tuple[int, ...]:
    """The multiplicity of each prime that divides n >= 1."""
    found: list[int] = []
    prime = 2
    while n > 1:
        if prime * prime > n:
            return (*found, 1)
        power = 0
        while n % prime == 0:
            n //= prime
            power += 1
        if power:
            found.append(power)
        prime += 1
    return tuple(found)


def _candidates(program: ir.Program, name: str, value: Any) -> tuple[int | float | str, ...]:
    if not is_list(value) or not value:
        refuse("A2", f"expected a list of candidates, but got {name}={shown(value)}")
    for one in value:
        if isinstance(one, bool) or not isinstance(one, (numbers.Real, str)):
            refuse("A2", f"expected candidates that are numbers or strings, but got {shown(one)}")
    return tuple(plain_value(name, one) for one in value)


def probabilities(program: ir.Program, name: str, value: Any) -> tuple[float, ...] | None:
    """Weights of candidates in canonical form; None for equal ones."""
    if value is None:
        return None
    expected = f"expected weights from 0 to 1e100, not all 0, but got {name}={shown(value)}"
    if not is_list(value) or not all(isinstance(p, numbers.Real) for p in value):
        refuse("A2", expected)
    weights = tuple(float(plain_value(name, p)) for p in value)
    if not all(0 <= w <= 1e100 for w in weights) or not any(weights):
        refuse("A2", expected)
    return weights


def _position(program: ir.Program, name: str, value: Any) -> int | None:
    return None if value is None else integer(name, value, 0, LARGEST_INT)


@primitive(
    rules={
        "R1": ("there is one weight for each candidate", "give as many weights as candidates"),
        "R2": ("the decision is the position of a candidate", "count positions from 0"),
    }
)
def sample_categorical(
    program: ir.Program,
    candidates: Annotated[Sequence[int | float | str], Argument(_candidates)],
    *,
    probs: Annotated[Sequence[float] | None, Argument(probabilities)] = None,
    decision: Annotated[int | None, Argument(_position)] = None,
) -> Rewritten[Any]:
    """Choose one of several numbers or strings.

    sample_categorical([0, 16, 64, 512])    =>    64, or another of them

    probs     weights of the candidates; equal if None
    decision  the position of the chosen one, counted from 0; drawn by weight if None

    Returns    the chosen candidate.
    """
    if probs is not None and len(probs) != len(candidates):
        refuse("R1", f"{len(candidates)} candidates, {len(probs)} weights")
    if decision is None or decision >= len(candidates):
        refuse("R2", f"{decision} of {len(candidates)} candidates")
    return program, candidates[decision]


@sample_categorical.random_decision
def _draw_category(program: ir.Program, arguments: Mapping[str, Any], rng: random.Random) -> int:
    count, weights = len(arguments["candidates"]), arguments["probs"]
    if weights is not None and len(weights) != count:
        return 0  # refused by R1
    return rng.choices(range(count), weights)[0]


sample_categorical.on_batch(unchanged)


@sample_categorical.random_call()
def _call_sample_categorical(scene: Scene) -> None:
    scene.do("split", scene.loop(), [None, scene.do("sample_categorical", [1, 2, 4])])


def _place(program: ir.Program, name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        refuse("A2", f"expected the name of a loop, or root, but got {name}={shown(value)}")
    return value


@primitive(
    rules={
        "R1": ("compute_at accepts the block at the decision", "leave the decision out to draw one")
    }
)
def sample_compute_location(
    program: ir.Program,
    block: BlockName,
    *,
    decision: Annotated[str | None, Argument(_place, ir.loop_sites)] = None,
) -> Rewritten[str]:
    """Choose where `compute_at` puts a block: a loop that encloses all its readers, or "root".

    sample_compute_location("P")    =>    "y_0", or another loop, or "root"

    decision  the name of the loop; drawn uniformly from all that compute_at accepts if None

    Returns    the name, for compute_at.
    """
    if decision is None or not _is_location(program, block, decision):
        refuse("R1", f"{shown(decision)}", choices=compute_locations(program, block))
    return program, decision


def _is_location(program: ir.Program, block: str, name: str) -> bool:
    """Return whether compute_at accepts the block there."""
    around = [] if name == ROOT else _around_readers(program, block)
    return name == ROOT or (
        name in around and bool(accepted([name], lambda loop: compute_at(program, block, loop)))
    )


def _around_readers(program: ir.Program, block: str) -> list[str]:
    """The loops around a block that reads what a block writes; those of the first in the text."""
    reading = [
        b.name
        for buffer in sorted(ir.stored_buffers(program.blocks[block].body))
        for b in ir.readers(program, buffer)
        if b.name != block
    ]
    return [loop.var for name in reading[:1] for loop in loops_around(program, name)]


def compute_locations(program: ir.Program, block: str) -> list[str]:
    """ "root", and every loop at which compute_at accepts the block."""
    around = _around_readers(program, block)
    return [ROOT, *accepted(around, lambda loop: compute_at(program, block, loop))]


@sample_compute_location.random_decision
def _draw_location(program: ir.Program, arguments: Mapping[str, Any], rng: random.Random) -> str:
    return rng.choice(compute_locations(program, arguments["block"]))


sample_compute_location.on_batch(unchanged)


@sample_compute_location.random_call()
def _call_sample_compute_location(scene: Scene) -> None:
    block = scene.block()
    scene.do("compute_at", block, scene.do("sample_compute_location", block))


class DecisionPrimitives:
    """The primitives of this file, as methods of a Schedule."""

    sample_perfect_tile = sample_perfect_tile
    sample_categorical = sample_categorical
    sample_compute_location = sample_compute_location
