"""The primitive that chooses the factors of a tile among candidates: sample_tile.

It is AutoTVM's define_split, with its policies (TVM 0.19, autotvm/task/space.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, TypeAlias

import numpy as np

from minitensor import arith, ir
from minitensor.errors import reason_of
from minitensor.schedule.arguments import (
    FACTORS,
    LARGEST_INT,
    LoopName,
    choice,
    integer,
    is_list,
    unexpected,
)
from minitensor.schedule.batch import Batch, Effect, StepView
from minitensor.schedule.candidates import DECIDED, MOST_CANDIDATES, check_decision, decision_of
from minitensor.schedule.decisions import InnermostLimit, PartCount, divisors, probabilities
from minitensor.schedule.primitive import Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene
from minitensor.schedule.signature import Argument

MOST_FILTERED: Final = 1 << 16
"""The most candidates that a filter is asked about."""

Tile: TypeAlias = tuple[int, ...]
"""Factors of a loop, outermost first."""


def _tiles(program: ir.Program, name: str, value: Any) -> tuple[Sequence[int | None], ...] | None:
    if value is None:
        return None
    if not is_list(value) or not value or not all(map(is_list, value)):
        refuse("A2", unexpected("a list of lists of factors, such as [[None, 8]]", name, value))
    found = []
    for one in value:
        factors = [None if f is None else integer(name, f, 0, LARGEST_INT, FACTORS) for f in one]
        if factors.count(None) > 1:
            refuse("A2", unexpected("at most one None among the factors", name, one))
        found.append(tuple(factors))
    return tuple(found)


def _filter(program: ir.Program, name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        refuse("A2", unexpected("a function of a tuple of factors, or None", name, value))
    return value


@primitive(
    rules={
        "R1": DECIDED,
        "R2": (
            "there are from 1 to 4,096 candidates",
            "cut into fewer parts, lower max_factor, or give candidates=[…] or another filter",
        ),
        "R3": (
            "each candidate has n factors that cover the loop",
            "write None for one of them and it is inferred",
        ),
        "R4": ("there is one weight for each candidate", "give as many weights as candidates"),
    }
)
def sample_tile(
    program: ir.Program,
    loop: LoopName,
    n: PartCount,
    *,
    policy: Annotated[
        Literal["factors", "power2", "verbose"], choice("factors", "power2", "verbose")
    ] = "factors",
    max_factor: InnermostLimit = 64,
    filter: Annotated[Callable[[Tile], object] | None, Argument(_filter)] = None,
    candidates: Annotated[Sequence[Sequence[int | None]] | None, Argument(_tiles)] = None,
    probs: Annotated[Sequence[float] | None, Argument(probabilities)] = None,
    decision: Annotated[Sequence[int] | None, Argument(decision_of)] = None,
) -> Rewritten[Tile]:
    """Choose factors for `split`: n of them, outermost first, that cover the loop.

    sample_tile("i", 2)  with i in range(20)    =>    (5, 4), or another such pair

    policy      what all but the first are made of; the first is as large as is needed:
                "factors"  divisors, so that no iterations are too many
                "power2"   powers of two up to the extent; split guards what is too much
                "verbose"  both
    max_factor  the largest of all but the first
    filter      a function of a tuple of factors: only those are candidates for which it is true.
                A trace has the candidates that it left in its place; it is asked about
                65,536 at most
    candidates  the tuples themselves, in place of a policy; None stands for a factor to be inferred
    probs       weights of the candidates; equal if None
    decision    the factors; drawn from the candidates by weight if None

    It is AutoTVM's define_split.

    Returns    the factors.
    """
    many = f"more of {ir.print_name(loop)}, of extent {_extent(program, loop)}, in {n} parts"
    given = {"loop": loop, "n": n, "policy": policy, "max_factor": max_factor}
    options = _tile_options(program, {**given, "candidates": candidates})
    check_decision(decision, options, many)
    if probs is not None and len(probs) != len(options):
        refuse("R4", f"{len(options)} candidates, {len(probs)} weights")
    return program, tuple(decision or ())


def _extent(program: ir.Program, loop: str) -> int:
    return ir.loop_sites(program)[loop].loop.extent


@sample_tile.among
def _tile_options(program: ir.Program, arguments: Mapping[str, Any]) -> Sequence[Tile]:
    if arguments["candidates"] is not None:
        given: Sequence[Tile] = arguments["candidates"]
        return given
    extent = _extent(program, arguments["loop"])
    return _of_policy(extent, arguments["n"], arguments["policy"], arguments["max_factor"])


@sample_tile.settled
def _explicit(program: ir.Program, arguments: dict[str, Any]) -> None:
    """Put the candidates that a filter leaves in its place: no trace can hold a function."""
    keep, given = arguments["filter"], arguments["candidates"]
    if keep is None and given is None:
        return
    loop, n = arguments["loop"], arguments["n"]
    extent = _extent(program, loop)
    every: Iterable[Tile]
    if given is None:
        every = _tilings(extent, n, arguments["policy"], arguments["max_factor"])
    else:
        every = dict.fromkeys(_inferred(one, loop, extent, n) for one in given)
    found = tuple(itertools.islice(_kept(every, keep), MOST_CANDIDATES + 1))
    if not 0 < len(found) <= MOST_CANDIDATES:
        none = f"the filter leaves none of {ir.print_name(loop)}"
        refuse("R2", "more of them" if found else none)
    arguments["candidates"], arguments["filter"] = found, None


def _kept(every: Iterable[Tile], keep: Callable[[Tile], object] | None) -> Iterator[Tile]:
    """Those of which a user's function says so."""
    for count, one in enumerate(every):
        if keep is None:
            yield one
            continue
        if count == MOST_FILTERED:
            refuse("R2", f"the filter would be asked about more than {MOST_FILTERED:,}")
        try:
            wanted = bool(keep(one))
        except Exception as failure:
            refuse("A2", f"filter({one}) raises {reason_of(failure)}")
        if wanted:
            yield one


def _inferred(factors: Sequence[int | None], loop: str, extent: int, n: int) -> Tile:
    """A candidate of a user's, its None inferred. Rule R3."""
    inner = math.prod(f for f in factors if f is not None)
    found = tuple(-(-extent // max(inner, 1)) if f is None else f for f in factors)
    if len(found) != n or math.prod(found) < extent:
        where = f"{ir.print_name(loop)} of extent {extent}, n={n}"
        refuse("R3", f"{list(factors)} for {where}")
    return found


@lru_cache(maxsize=64)
def _of_policy(extent: int, n: int, policy: str, limit: int) -> Sequence[Tile]:
    """All candidates of a policy; none where they are too many."""
    found = tuple(itertools.islice(_tilings(extent, n, policy, limit), MOST_CANDIDATES + 1))
    return found if len(found) <= MOST_CANDIDATES else ()


def _tilings(extent: int, n: int, policy: str, limit: int) -> Iterator[Tile]:
    """The candidates of a policy, that of a loop which is not cut first."""
    size = max(extent, 1)
    of_two = {1 << power for power in range(size.bit_length())}
    known = {"factors": set(divisors(size)), "power2": of_two}
    usable = sorted(f for f in known.get(policy, of_two | known["factors"]) if f <= limit)

    def inner(rest: int, count: int) -> Iterator[Tile]:
        if count == 0:
            yield ()
            return
        for factor in itertools.takewhile(lambda f: f <= rest, usable):
            if policy != "factors" or rest % factor == 0:
                for more in inner(rest // factor, count - 1):
                    yield (factor, *more)

    for factors in inner(size, n - 1):
        yield (-(-extent // math.prod(factors)), *factors)


@sample_tile.on_batch
def _tile_batch(view: StepView) -> Effect:
    loop, number, policy = view.argument("loop"), view.number, view.argument("policy")
    explicit = view.argument("candidates") is not None

    def effect(batch: Batch) -> None:
        first, *inner = batch.decided[number]
        extent, product = batch.extents[loop], arith.product_of(inner)
        if explicit:
            view.require(np.greater_equal(first * product, extent), "the factors do not cover it")
            return
        fits = np.equal(first, arith.ceil_div(extent, product))
        fits &= np.less_equal(product, np.maximum(extent, 1))
        for factor in inner:
            divides = np.equal(extent % factor, 0)
            of_two = np.equal(factor & (factor - 1), 0)
            fits &= {"factors": divides, "power2": of_two}.get(policy, divides | of_two)
        if policy == "factors":
            fits &= np.equal(first * product, extent)
        view.require(fits, "the factors are none of the policy's")

    return effect


@sample_tile.random_call()
def _call_sample_tile(scene: Scene) -> None:
    loop, n = scene.loop(), scene.number(1, 3)
    options: dict[str, Any] = {"policy": scene.pick(["factors", "power2", "verbose"])}
    if scene.chance(25):
        options["max_factor"] = scene.pick([1, 2, 4])
    if scene.chance(25):
        options["filter"] = _is_even_inside
    if scene.chance(15):
        options["candidates"] = [[None, *[scene.pick([1, 2, 3])] * (n - 1)] for _ in range(2)]
        if scene.chance(50):
            options["probs"] = [scene.pick([0.0, 1.0]), 1.0]
    scene.do("split", loop, scene.do("sample_tile", loop, n, **options))


def _is_even_inside(factors: Tile) -> bool:
    return factors[-1] % 2 == 0


class TilePrimitives:
    """The primitive of this file, as a method of a Schedule."""

    sample_tile = sample_tile
