"""Derivation of sketches: from a definition to its sketches, by rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any, Final, TypeAlias

from minitensor.codegen import Target
from minitensor.errors import (
    ArgumentError,
    CompileError,
    TuningError,
    reason_of,
    unexpected,
    whole,
)
from minitensor.ir import Program, print_name
from minitensor.looks import Shown
from minitensor.phrasebook import no_program
from minitensor.runtime import USUAL_CACHES, Caches, known_caches, native_target, usable_cores
from minitensor.schedule import Schedule, Step, Trace
from minitensor.search.sketch.ansor import CPU
from minitensor.search.sketch.between import ROWS_BETWEEN_PRODUCTS
from minitensor.search.sketch.blocks import reduce_iters
from minitensor.search.sketch.columns import COLUMNS_IN_LANES, is_summed_in_lanes
from minitensor.search.sketch.dots import DOTS, INLINE_CHEAP, WIDENING
from minitensor.search.sketch.gpu import GPU, GPU_DEFAULT, bind_the_rest
from minitensor.search.sketch.phases import PHASES
from minitensor.search.sketch.reciprocals import RECIPROCALS
from minitensor.search.sketch.rows import CHAINS_OF_ROWS, INLINE_ONCE, ROWS_IN_LANES
from minitensor.search.sketch.rule import Derived, Rule, SketchRule, State, Verdict
from minitensor.search.sketch.tiles import REGISTER_TILES, TRANSPOSED
from minitensor.search.sketch.transforms import TRANSFORMS
from minitensor.search.sketch.windows import PADDING, WINDOWS
from minitensor.search.unmade import Unmade

_, _, *_GENERAL, _SKIP = CPU


def _where_needed(rule: Rule) -> Rule:
    """One of Ansor's rules for any block with reuse or a long reduction, where none of ours is for
    such a block.

    Where each element is computed once, as in the product of a column and a row, it is written row
    by row, whatever is read again. Sums along rows and columns have partial results already.
    """

    def judge(state: State, cores: int) -> Verdict:
        summed = bool(reduce_iters(state.block))
        if not summed or (rule.name == "rfactor" and is_summed_in_lanes(state)):
            return Verdict.SKIP
        return rule.judge(state, cores)

    return Rule(rule.name, judge, rule.apply)


DEFAULT: Final[tuple[Rule, ...]] = (
    PHASES,
    RECIPROCALS,
    INLINE_CHEAP,
    INLINE_ONCE,
    TRANSFORMS,
    CHAINS_OF_ROWS,
    ROWS_IN_LANES,
    COLUMNS_IN_LANES,
    TRANSPOSED,
    DOTS,
    WIDENING,
    WINDOWS,
    ROWS_BETWEEN_PRODUCTS,
    REGISTER_TILES,
    PADDING,
    *map(_where_needed, _GENERAL),
    _SKIP,
)
"""Ours are asked after what is free is inlined, and before what Ansor does."""


RULES: Final[dict[str, dict[str, Sequence[SketchRule]]]] = {
    "default": {"c": DEFAULT, "cuda": GPU_DEFAULT, "cuda-emulator": GPU_DEFAULT},
    "ansor": {"c": CPU, "cuda": GPU, "cuda-emulator": GPU},
}
"""Sets of rules by name, and in each the rules of a target."""
MOST_SKETCHES: Final = 24
"""The most sketches of a set of rules; the paper's rules give all that they derive."""
MOST_STEPS: Final = 64
"""Applications of rules per block in one derivation; those that apply more often never end."""
GENERAL: Final = 0.25
"""The chance of a branch of one of GENERAL_RULES, where one of another has 1."""
COSTLY: Final = 0.5
"""The chance of a branch of which its rule knows that another costs less."""
GENERAL_RULES: Final = frozenset(rule.name for rule in CPU[1:-1])
"""Ansor's rules for any block with reuse or a long reduction; ours know which block it is."""
_APPLIES: Final = (Verdict.APPLY, Verdict.APPLY_AND_STOP)
Rules: TypeAlias = "str | Sequence[SketchRule]"
"""The name of a set of rules, or rules."""


@dataclass(frozen=True, repr=False)
class Sketch(Shown):
    """A schedule whose structure is decided, and whose numbers are open.

    program  the definition
    trace    the steps; decisions among them are open
    history  the rules that led to it, in the order in which they were applied
    derived  the schedule that the rules made, its decisions drawn at random; None if none is kept
    """

    program: Program
    trace: Trace
    history: tuple[Derived, ...]
    derived: Schedule | None = field(default=None, compare=False)

    def apply(self, program: Program | None = None, *, seed: int | None = None) -> Schedule:
        """A schedule of the program (its own if None) with decisions drawn at random."""
        return self.trace.apply(self.program if program is None else program, seed=seed)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of its trace."""
        return self.trace.steps

    @property
    def decisions(self) -> Mapping[int, Any]:
        """The decisions of its trace, by the number of the step: None where one is open."""
        return self.trace.decisions

    def __str__(self) -> str:
        open_ = sum(decision is None for decision in self.decisions.values())
        head = f"# a sketch of {print_name(self.program.name)}, {open_} decisions open"
        rules = "\n".join(f"# {line}" for line in self.explain().splitlines())
        return "\n".join(part for part in (head, rules, str(self.trace)) if part)

    def to_json(self) -> str:
        """Its trace as JSON."""
        return self.trace.to_json()

    @property
    def rules(self) -> str:
        """The rules that led to it, in one line; of a template's structure its steps."""
        found = [
            f"{print_name(step.block)}: {step.rule}" + f" ({step.what})" * bool(step.what)
            for step in self.history
            if step.rule != "skip"
        ]
        if found or not self.trace.steps:
            return "; ".join(found) or "as it is written"
        steps = [step.primitive for step in self.trace.steps if not step.is_decision]
        return ", ".join(steps) or "decisions alone"

    def explain(self) -> str:
        """The derivation: one line for each block, from the output to the inputs."""
        width = max((len(step.block) for step in self.history), default=0)
        rules = max((len(step.rule) for step in self.history), default=0)
        return "\n".join(
            f"{step.block:{width}}  {step.rule:{rules}}  {step.what}" for step in self.history
        )


def _chance(branch: object) -> float:
    if not isinstance(branch, Derived):
        return 1.0
    return (COSTLY if branch.costly else 1.0) * (GENERAL if branch.rule in GENERAL_RULES else 1.0)


def branch_weights(histories: Sequence[Sequence[Derived]]) -> tuple[float, ...]:
    """The probability of each leaf of a derivation tree, if every branch of a node has the same,
    but for those of rules that know no more than that a block is tiled, and those that cost more
    than others: they have a part of it.

    histories  of the leaves, from the root
    """
    weights = [1.0] * len(histories)
    nodes = [(0, list(range(len(histories))))]
    while nodes:
        depth, leaves = nodes.pop()
        branches: dict[object, list[int]] = {}
        for leaf in leaves:
            ended = len(histories[leaf]) <= depth
            branches.setdefault(leaf if ended else histories[leaf][depth], []).append(leaf)
        chances = {b: _chance(b) for b in branches}
        total = sum(chances.values())
        for branch, behind in branches.items():
            for leaf in behind:
                weights[leaf] *= chances[branch] / total
        nodes += [(depth + 1, behind) for behind in branches.values() if len(behind) > 1]
    return tuple(weights)


def generate_sketches(
    program: Program,
    target: str | Target = "c",
    *,
    num_cores: int | None = None,
    caches: Caches | None = None,
    rules: Rules = "default",
    unmade: Unmade | None = None,
) -> list[Sketch]:
    """The sketches of a definition: all ways in which rules can be applied to its blocks.

    Blocks are visited from the output to the inputs. At each, the rules are asked in order; one
    that applies gives one state or several, and may keep those after it from being asked.

    target     for whose rules
    num_cores  how many cores reductions should keep busy; None for those of this machine
    caches     of a core, for which panels are cut; None for those of this machine, which the
               first search measures
    rules      a name, or rules, such as [mine, *DEFAULT_RULES]: "default" has Ansor's and more
               (docs/sketches.md). At most 24 sketches are derived, those of the rules that are
               asked first; "ansor" derives all that Ansor's rules do
    unmade     counts rules that raise: such a rule does not apply there

    Raises TuningError if no sketch is left by rules that raise.

    Source: Zheng et al., "Ansor: Generating High-Performance Tensor Programs for Deep Learning",
    OSDI 2020, section 4.1.
    """
    if not isinstance(program, Program):
        raise no_program("program", program)
    wanted = Target.of(target)
    cores = wanted.num_cores or usable_cores()
    if num_cores is not None:
        cores = whole("num_cores", num_cores, 1)
    ordered = _rules(rules, wanted)
    limit = None if rules == "ansor" else MOST_SKETCHES
    if caches is not None and not isinstance(caches, Caches):
        raise unexpected("Caches (see minitensor.runtime), or None", "caches", caches)
    start = State(
        Schedule(program, seed=0),
        tuple(program.blocks)[::-1],
        target=wanted.resolved(cores, _vector_bits(wanted)),
        caches=caches or (USUAL_CACHES if wanted.is_gpu else known_caches()),
    )
    lost = Unmade() if unmade is None else unmade
    states = _derived(start, ordered, cores, limit, lost)
    if not states and lost:
        first = next(iter(lost.first.values()))
        name = print_name(program.name)
        raise TuningError(f"no sketch of {name}: {lost}; the first: {reason_of(first)}") from first
    return [Sketch(program, s.schedule.trace.opened(), s.history, s.schedule) for s in states]


def _derived(
    start: State, rules: Sequence[SketchRule], cores: int, limit: int | None, unmade: Unmade
) -> list[State]:
    """All final states in the order of the rules; with a limit, those whose states come first.

    A state is known by the numbers of the branches that led to it: the smaller their sum, the
    sooner it is among those that are kept. A branch is made when it is its turn, so that those that
    are left out cost nothing.
    """
    longest = MOST_STEPS * len(start.pending)
    queue: list[tuple[int, tuple[int, ...], Iterator[State]]] = [(0, (), iter([start]))]
    done: dict[tuple[int, ...], State] = {}
    seen: set[str] = set()
    while queue and len(done) != limit:
        cost, path, branches = heappop(queue)
        state = next(branches, None)
        if state is None:
            continue
        if path:
            following = (*path[:-1], path[-1] + 1)
            heappush(queue, (0 if limit is None else cost + 1, following, branches))
        if not state.pending:
            state = bind_the_rest(state) if state.target.is_gpu else state
            text = state.schedule.trace.opened().to_json()
            if limit is None or text not in seen:
                done[path] = state
            seen.add(text)
            continue
        if len(path) == longest:
            raise _endless(state, longest)
        heappush(queue, (cost, (*path, 0), _applied(state, rules, cores, unmade)))
    return [done[path] for path in sorted(done)]


def _vector_bits(target: Target) -> int:
    """The width of vectors in bits; without a compiler, what every CPU has; none for a GPU."""
    if target.is_gpu:
        return 0
    if target.vector_bits is not None:
        return target.vector_bits
    try:
        return native_target(target).vector_bits or 0
    except CompileError:
        return 128


def check_rules(rules: object) -> None:
    """Raise ArgumentError for what is neither the name of a set of rules nor a list of rules."""
    if isinstance(rules, str):
        if rules not in RULES:
            raise unexpected("one of " + ", ".join(map(repr, RULES)), "rules", rules)
        return
    for rule in rules if isinstance(rules, Sequence) else (None,):
        methods = (getattr(rule, name, None) for name in ("judge", "apply"))
        if isinstance(rule, type) or not all(map(callable, methods)):
            names = ", ".join(map(repr, RULES))
            expected = f"one of {names}, or a list of objects with judge and apply (see Rule)"
            raise unexpected(expected, "rules", rules)


def _rules(rules: Rules, target: Target) -> Sequence[SketchRule]:
    check_rules(rules)
    if not isinstance(rules, str):
        return rules
    if target.kind not in RULES[rules]:
        kinds = ", ".join(map(repr, RULES[rules]))
        raise unexpected(f"one of {kinds}, for which there are rules", "target", target.kind)
    return RULES[rules][target.kind]


def _applied(
    state: State, rules: Sequence[SketchRule], cores: int, unmade: Unmade
) -> Iterator[State]:
    """The states that the rules make of one, one by one; a rule that raises does not apply."""
    for rule in rules:
        where = f"the rule {_name(rule)} at the block {print_name(state.name)}"
        try:
            verdict = rule.judge(state, cores)
            states = rule.apply(state, cores) if verdict in _APPLIES else []
        except Exception as failure:
            unmade.add(where, failure)
            continue
        if not isinstance(verdict, Verdict):
            raise unexpected("a Verdict from judge", _name(rule), verdict)
        made = False
        for after in _each(rule, states, unmade, where):
            if not isinstance(after, State):
                raise _no_states(rule, after)
            if _same(state, after):
                raise ArgumentError(
                    f"the rule {_name(rule)} returned the state of the block "
                    f"{print_name(state.name)} unchanged, so it would apply for ever; expected "
                    "what State.after gives"
                )
            made = True
            yield after
        if made and verdict is Verdict.APPLY_AND_STOP:
            break


def _each(rule: SketchRule, states: object, unmade: Unmade, where: str) -> Iterator[object]:
    """The states that a rule returned, one by one; no more once it raises."""
    if not isinstance(states, (Sequence, Iterator)):
        raise _no_states(rule, states)
    each = iter(states)
    while True:
        try:
            found = next(each)
        except StopIteration:
            return
        except Exception as failure:
            unmade.add(where, failure)
            return
        yield found


def _no_states(rule: SketchRule, found: object) -> ArgumentError:
    return unexpected("a list of States from apply (see State.after)", _name(rule), found)


def _same(one: State, other: State) -> bool:
    """Return whether two states differ in nothing, history included."""
    return replace(one, schedule=other.schedule) == other and (
        one.schedule.trace == other.schedule.trace
    )


def _endless(state: State, steps: int) -> ArgumentError:
    """The error for a derivation that does not end, with the rule that was applied last."""
    rule = f"the last is {state.history[-1].rule}, at" if state.history else "the last are at"
    return ArgumentError(
        f"the rules have been applied {steps} times, and still apply: {rule} the block "
        f"{print_name(state.name)}; its judge must return Verdict.SKIP in the end, or State.after "
        "leave the block (stay=False)"
    )


def _name(rule: SketchRule) -> str:
    return str(getattr(rule, "name", type(rule).__name__))
