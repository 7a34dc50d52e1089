"""What the generators reach: without it, properties that hold say little."""

from collections import Counter

import pytest

from minitensor.ir import (
    TRUE,
    Binary,
    Cast,
    Const,
    IterKind,
    Load,
    LoopKind,
    Reduce,
    Select,
    Seq,
    accessed_buffers,
    conjuncts,
    loads,
    loops_of,
    paths,
    walk,
)
from minitensor.schedule import Ref
from minitensor.testing import DTYPES, PRIMITIVES, pair_of

PAIRS = 200
PRIMES = {2, 3, 5, 7, 13, 17, 23, 31, 37}


@pytest.fixture(scope="module")
def pairs():
    return [pair_of("generators", n) for n in range(PAIRS)]


def of_definition(program):
    """What occurs in a program."""
    found = set()
    for buffer in program.buffers.values():
        found |= {f"type {buffer.dtype}", f"rank {len(buffer.shape)}"}
        found |= {f"extent {n}" for n in buffer.shape if n in (0, 1) or n in PRIMES}
    blocks = list(program.blocks.values())
    found.add(f"{min(len(blocks), 4)} stages")
    readers = Counter(name for block in blocks for name in accessed_buffers(block)[0])
    if any(readers[b.name] > 1 for b in program.temporaries):
        found.add("a producer with several consumers")
    if any(b.name.endswith("_next") for b in program.temporaries):
        found.add("a value that is held until others are computed")
    for block in blocks:
        if isinstance(block.body, Seq) and block.body.stmts:
            found.add("an update of two tensors")
        found |= {f"an axis that is {i.kind.value}" for i in block.iters}
        if any(i.kind is IterKind.REDUCE and i.extent == 1 for i in block.iters):
            found.add("a reduction over one element")
        for node in walk(block.body):
            found |= of_node(node)
        guards = Counter(
            part
            for node in walk(block.body)
            if isinstance(node, Select) and node.lazy
            for part in conjuncts(node.condition)
        )
        found |= {f"three values with one guard of {g.op}" for g, n in guards.items() if n > 2}
        if not any(i.kind is IterKind.REDUCE for i in block.iters) and block.init is None:
            reads = {load.indices for load in loads(block.body)}
            found |= {"a halo" for _ in range(len(reads) > 2)}
    return found


def of_node(node):
    match node:
        case Reduce(reducer):
            return {f"the reduction {reducer.name}"}
        case Select(lazy=True):
            return {"padding"}
        case Load(_, indices):
            found = set()
            for index in indices:
                found |= {f"an index with {n.op}" for n in walk(index) if isinstance(n, Binary)}
                if any(isinstance(n, Cast) for n in walk(index)):
                    found.add("a gather")
                if isinstance(index, Const):
                    found.add("a constant index")
            if len(set(indices)) < len(indices):
                found.add("a diagonal")
            return found
    return set()


def of_schedule(pair):
    """What occurs on the way from a definition to its schedule."""
    schedule, found = pair.schedule, set()
    steps = schedule.trace.steps
    names = Counter(step.primitive for step in steps)
    found |= {f"accepted {name}" for name in names}
    found |= {f"refused {a.primitive}" for a in pair.attempts if a.refused}
    for step in steps:
        if step.primitive == "split":
            found |= {f"a tail by {step.arguments['tail']}"}
        if any(isinstance(value, Ref) for value in step.arguments.values()):
            found.add("an argument that an earlier step returned")
    if names["rfactor"] > 1:
        found.add("rfactor, twice")
    if len(steps) >= 10:
        found.add("ten steps")
    moved = {str(s.arguments["block"]) for s in steps if s.primitive == "compute_at"}
    scheduled = schedule.program
    for name, block in scheduled.blocks.items():
        if block.predicate != TRUE:
            found.add("a guard")
            if name in moved:
                found.add("a guard under compute_at")
    for nest in paths(scheduled).values():
        if any(loop.extent == 0 for loop in nest):
            found.add("a loop without iterations")
    kinds = {loop.kind for loop in loops_of(scheduled.body)}
    found |= {f"a loop that is {kind.value}" for kind in kinds}
    for attempt in pair.attempts:
        if attempt.primitive == "split" and attempt.refused is None and "64" in attempt.call:
            found.add("a factor beyond the extent")
    return found


EXPECTED = {
    *(f"type {name}" for name in DTYPES),
    *(f"rank {n}" for n in range(5)),
    *(f"extent {n}" for n in (0, 1, *PRIMES)),
    *(f"{n} stages" for n in (1, 2, 3, 4)),
    *(f"an axis that is {kind.value}" for kind in IterKind),
    *(
        f"the reduction {name}"
        for name in [
            "sum",
            "prod",
            "max",
            "min",
            "any",
            "all",
            "argmax",
            "argmin",
            "sum_and_max",
            "own_sum",
        ]
    ),
    *(f"an index with {op}" for op in ("+", "-", "*", "//", "%", "min")),
    *(f"accepted {name}" for name in PRIMITIVES),
    *(f"refused {name}" for name in PRIMITIVES if not name.startswith("sample")),
    *(f"a tail by {tail}" for tail in ("guard", "cut", "exact")),
    *(
        f"a loop that is {kind.value}"
        for kind in LoopKind
        if not kind.is_bound or kind.value in ("blockIdx.x", "threadIdx.x", "vthread")
    ),
    "a producer with several consumers",
    "an update of two tensors",
    "a value that is held until others are computed",
    "a reduction over one element",
    "a halo",
    "padding",
    "a gather",
    "a constant index",
    "a diagonal",
    "an argument that an earlier step returned",
    "rfactor, twice",
    "ten steps",
    "a guard",
    "a guard under compute_at",
    "three values with one guard of !=",
    "a loop without iterations",
    "a factor beyond the extent",
}


@pytest.mark.slow
def test_everything_that_matters_is_reached(pairs):
    found = Counter()
    for pair in pairs:
        found.update(of_definition(pair.program) | of_schedule(pair))
    assert not EXPECTED - set(found), EXPECTED - set(found)
    assert found["a producer with several consumers"] >= PAIRS // 20
    assert found["a guard"] >= PAIRS // 10
    assert found["padding"] >= PAIRS // 10


@pytest.mark.slow
def test_three_in_ten_primitives_are_accepted(pairs):
    tried = [attempt for pair in pairs for attempt in pair.attempts]
    accepted = [attempt for attempt in tried if attempt.refused is None]
    assert len(accepted) >= 0.3 * len(tried)
    of_each = Counter(attempt.primitive for attempt in accepted)
    assert set(of_each) == set(PRIMITIVES)


@pytest.mark.slow
def test_many_rules_refuse(pairs):
    rules = {(a.primitive, a.refused) for pair in pairs for a in pair.attempts if a.refused}
    assert len(rules) >= 70
