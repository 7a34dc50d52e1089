"""Choices among candidates: the decisions that templates of AutoTVM are made of.

    sample_tile        define_split: factors of a loop (a file of its own)
    sample_order       define_reorder: an order of loops
    sample_annotation  define_annotate: how each of some loops is executed
    apply_annotation   what that decided, done

A decision is one of a list of tuples, and the step can name the list (`among`): so it is drawn, is
checked, and becomes a knob of a search in one way. A list has at most 4,096 candidates.

Source: Chen et al., Learning to optimize tensor programs, NeurIPS 2018.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from minitensor import arith, ir
from minitensor.errors import MinitensorError, ScheduleError, printable, shown
from minitensor.errors import unexpected as wrong
from minitensor.schedule.arguments import (
    LARGEST_INT,
    LoopName,
    choice,
    integer,
    is_list,
    unexpected,
)
from minitensor.schedule.batch import StepView, unchanged
from minitensor.schedule.execution import unroll, vectorize
from minitensor.schedule.primitive import Primitive, Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene
from minitensor.schedule.signature import Argument

MOST_CANDIDATES: Final = 1 << 12
"""The most candidates of a decision."""
DECIDED: Final = (
    "the decision is one of the candidates",
    "leave the decision out to draw one",
)
"""The rule of every choice, and what to do where it is broken."""


def decision_of(program: ir.Program, name: str, value: Any) -> tuple[int | str, ...] | None:
    """A decision in canonical form; None for an open one."""
    if value is None:
        return None
    if not is_list(value):
        refuse("A2", unexpected("a list, one of the candidates", name, value))
    expected = "integers from 0 or names of annotations"
    return tuple(
        str(v) if isinstance(v, str) else integer(name, v, 0, LARGEST_INT, expected) for v in value
    )


def check_decision(decision: Sequence[Any] | None, options: Sequence[Any], many: str) -> None:
    """Rules R1 and R2 of every choice."""
    if not options:
        refuse("R2", many)
    if decision not in options:
        refuse("R1", f"{list(decision or ())} of {len(options):,} candidates")


# ---- an order of loops


def _orders(program: ir.Program, name: str, value: Any) -> tuple[tuple[str, ...], ...] | None:
    if value is None:
        return None
    if not is_list(value) or not value or not all(map(is_list, value)):
        refuse("A2", unexpected("a list of orders, each a list of loops", name, value))
    for one in itertools.chain(*value):
        if not isinstance(one, str):
            refuse("A2", unexpected("orders of names of loops", name, value))
    return tuple(dict.fromkeys(tuple(map(str, order)) for order in value))


@primitive(
    rules={
        "R1": DECIDED,
        "R2": (
            "there are from 1 to 4,096 candidates",
            "name fewer loops, or give candidates=[…]",
        ),
        "R3": (
            "the loops differ, and each candidate is an order of all of them",
            "name the same loops in each candidate",
        ),
    }
)
def sample_order(
    program: ir.Program,
    *loops: LoopName,
    policy: Annotated[Literal["all"], choice("all")] = "all",
    candidates: Annotated[Sequence[Sequence[str]] | None, Argument(_orders, ir.loop_sites)] = None,
    decision: Annotated[Sequence[int] | None, Argument(decision_of)] = None,
) -> Rewritten[tuple[str, ...]]:
    """Choose an order of loops for `reorder`.

    sample_order("i", "j", "k")    =>    ("k", "i", "j"), or another order of them

    policy      "all" orders: 6 of three loops, 720 of six; reorder may refuse some of them
    candidates  the orders themselves, each a list of loops
    decision    the positions of the loops in the order that they are named in, counted from 0, as
                [2, 0, 1] for the example; drawn uniformly from the candidates if None

    It is AutoTVM's define_reorder.

    Returns    the names of the loops, outermost first.
    """
    options = _order_options(program, {"loops": loops, "candidates": candidates})
    check_decision(decision, options, f"{math.factorial(len(loops)):,} of {len(loops)} loops")
    return program, tuple(loops[place] for place in decision or ())


@sample_order.among
def _order_options(program: ir.Program, arguments: Mapping[str, Any]) -> Sequence[tuple[int, ...]]:
    loops, candidates = arguments["loops"], arguments["candidates"]
    if candidates is None:
        return _all_orders(len(loops))
    known = {loop: place for place, loop in enumerate(loops)}
    return tuple(tuple(known.get(loop, -1) for loop in order) for order in candidates)


@lru_cache(maxsize=16)
def _all_orders(count: int) -> Sequence[tuple[int, ...]]:
    """All orders of so many things; none where they are too many."""
    if count > 16 or math.factorial(count) > MOST_CANDIDATES:
        return ()
    return tuple(itertools.permutations(range(count)))


@sample_order.settled
def _check_orders(program: ir.Program, arguments: dict[str, Any]) -> None:
    """Rule R3, before an order is drawn."""
    loops = arguments["loops"]
    if len(set(loops)) != len(loops):
        refuse("R3", f"{len(loops)} given, {len(set(loops))} different")
    for order in arguments["candidates"] or ():
        if sorted(order) != sorted(loops):
            refuse("R3", f"{shown(list(order))} of {shown(list(loops))}")


sample_order.on_batch(unchanged)


@sample_order.random_call()
def _call_sample_order(scene: Scene) -> None:
    loops = scene.loops()[: scene.number(2, 3)]
    options = {"candidates": [loops, loops[::-1]]} if scene.chance(25) else {}
    scene.do("reorder", *scene.do("sample_order", *loops, **options))


# ---- how loops are executed

NONE: Final = "none"
_OFFERED: Final[dict[str, tuple[str, ...]]] = {
    "try_vec": (NONE, "vectorize"),
    "try_unroll": (NONE, "unroll"),
    "try_unroll_vec": (NONE, "unroll", "vectorize"),
}
"""The names that each policy offers for each loop."""
_APPLIED: Final[Mapping[str, Primitive[..., Any]]] = {"unroll": unroll, "vectorize": vectorize}


@primitive(
    rules={
        "R1": DECIDED,
        "R2": ("there are from 1 to 4,096 candidates", "name fewer loops"),
    }
)
def sample_annotation(
    program: ir.Program,
    *loops: LoopName,
    policy: Annotated[
        Literal["try_vec", "try_unroll", "try_unroll_vec"], choice(*_OFFERED)
    ] = "try_unroll_vec",
    decision: Annotated[Sequence[str] | None, Argument(decision_of)] = None,
) -> Rewritten[tuple[str, ...]]:
    """Choose how each of some loops is executed, for `apply_annotation`.

    sample_annotation("i", "j")    =>    ("unroll", "vectorize"), or any other such pair

    policy    what there is to choose from for each loop:
              "try_vec"         "none" or "vectorize"
              "try_unroll"      "none" or "unroll"
              "try_unroll_vec"  any of the three
    decision  one name for each loop; drawn uniformly if None

    It is AutoTVM's define_annotate.

    Returns    the names, one for each loop.
    """
    options = _annotation_options(program, {"loops": loops, "policy": policy})
    check_decision(decision, options, f"more of {len(loops)} loops")
    return program, tuple(decision or ())


@sample_annotation.among
def _annotation_options(
    program: ir.Program, arguments: Mapping[str, Any]
) -> Sequence[tuple[str, ...]]:
    return _annotations(len(arguments["loops"]), arguments["policy"])


@lru_cache(maxsize=64)
def _annotations(count: int, policy: str) -> Sequence[tuple[str, ...]]:
    """A name for each of so many loops; none where there are too many ways."""
    offered = _OFFERED[policy]
    many = count > 12 or len(offered) ** count > MOST_CANDIDATES
    return () if many else tuple(itertools.product(offered, repeat=count))


sample_annotation.on_batch(unchanged)


def _given_names(program: ir.Program, name: str, value: Any) -> tuple[str, ...]:
    known = _OFFERED["try_unroll_vec"]
    if not is_list(value) or not all(isinstance(v, str) and v in known for v in value):
        expected = f"a list of {', '.join(map(repr, known))} (see sample_annotation)"
        refuse("A2", unexpected(expected, name, value))
    return tuple(map(str, value))


@primitive(
    rules={"R1": ("there is one name for each loop", "give as many as in sample_annotation")}
)
def apply_annotation(
    program: ir.Program,
    annotation: Annotated[Sequence[str], Argument(_given_names)],
    *loops: LoopName,
) -> Rewritten[None]:
    """Execute each loop as its name says: "unroll", "vectorize", or "none" for as it is.

    apply_annotation(["unroll", "vectorize"], "i", "j")
        for i in range(4):             =>     for i in unroll(4):
            for j in range(8):                    for j in vectorize(8):
                C[i, j] = f(i, j)                     C[i, j] = f(i, j)

    The last loop is the first to be changed. One that `unroll` or `vectorize` refuses stays as it
    is: what is decided is tried.

    Preserves  every output (floating point: up to rounding, if a vectorized loop drives a
               reduction).
    """
    if len(annotation) != len(loops):
        refuse("R1", f"{len(annotation)} names, {len(loops)} loops")
    for name, loop in reversed(list(zip(annotation, loops))):
        if name in _APPLIED:
            try:
                program = _APPLIED[name](program, loop)[0]
            except ScheduleError:
                continue
    return program, None


@apply_annotation.on_batch
def _apply_batch(view: StepView) -> None:
    if set(view.argument("annotation")) != {NONE}:
        raise arith.BatchError("whether a loop is unrolled depends on the numbers")
    unchanged(view)


def _call_annotation(scene: Scene) -> None:
    loops = scene.loops()[: scene.number(1, 3)]
    policy = scene.pick(["try_unroll_vec", "try_vec", "try_unroll"])
    scene.do("apply_annotation", scene.do("sample_annotation", *loops, policy=policy), *loops)


def _call_apply(scene: Scene) -> None:
    loops = scene.loops()[: scene.number(1, 3)]
    names = [scene.pick(["none", "unroll", "vectorize"]) for _ in range(scene.number(1, 3))]
    scene.do("apply_annotation", names, *loops)


sample_annotation.random_call()(_call_annotation)
apply_annotation.random_call()(_call_apply)


# ---- what goes together

REQUIREMENT: Final = "T2"
"""The rule of what a template requires."""
LONGEST_REASON: Final = 200
"""Characters of a reason that a message has."""


class CandidatePrimitives:
    """The primitives of this file, as methods of a Schedule, and what a template requires."""

    sample_order = sample_order
    sample_annotation = sample_annotation
    apply_annotation = apply_annotation

    def require(self, condition: object, why: str) -> None:
        """Refuse decisions that do not go together: a search counts such a candidate, and does not
        measure it. It is no step of the trace.

        condition  true for those that do
        why        what they have to be, in words, such as "a tile fits in L1"

        Raises ScheduleError by the rule T2, with `why` in its message, unless the condition is
        true; ArgumentError for a condition that is neither true nor false.
        """
        if not isinstance(why, str) or not why.strip():
            raise wrong("words that say what is required", "why", why)
        try:
            holds = bool(condition)
        except MinitensorError:
            raise
        except Exception:  # an array has no truth
            raise wrong("a condition, true or false", "condition", condition) from None
        if not holds:
            rule = f"{REQUIREMENT}: the decisions are what the template requires"
            reason = printable(why)[:LONGEST_REASON]
            raise ScheduleError(f"require() breaks {rule} ({reason})", REQUIREMENT)
