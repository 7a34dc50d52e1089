"""Streams of an accelerator against the program that they come from, in any order of the queues."""

from dataclasses import replace

import numpy as np
import pytest

import minitensor as mt
from minitensor import accelerator as acc
from minitensor.accelerator.lower import operations
from minitensor.accelerator.stream import bare_stream
from minitensor.search.sketch import accelerator_template

SMALL = acc.Machine(rows=4, columns=4, input_bytes=2048, weight_bytes=2048)


def drawn(seed):
    """A program, and a schedule of it that fits the machine."""
    rng = np.random.default_rng(seed)
    m, n, k = (int(x) for x in rng.integers(1, 14, 3))
    if seed % 2:
        program = acc.matmul(m, n, k, shift=4, machine=SMALL)
    else:
        kernel = int(rng.integers(1, 4))
        sizes = (1 + m % 2, 1 + k % 6, kernel + m % 5, kernel + n % 4, 1 + n % 6, kernel)
        program = acc.conv2d(*sizes, stride=1 + m % 2, padding=int(k) % 2, shift=4, machine=SMALL)
    template = accelerator_template(program, SMALL)
    for attempt in range(100):
        s = mt.Schedule(program, seed=1000 * seed + attempt)
        try:
            template(s)
        except mt.ScheduleError:
            continue
        return program, s
    raise AssertionError("no draw of the template is legal")


def without(stream, number, kind, queue):
    """The stream without one push or pop."""
    kept = {n: list(queues) for n, queues in getattr(stream, kind).items()}
    kept[number].remove(queue)
    return replace(stream, **{kind: kept})


def inputs_of(program, seed):
    rng = np.random.default_rng(seed)
    return [rng.integers(-128, 128, b.shape, dtype=np.int8) for b in program.inputs]


@pytest.mark.many
@pytest.mark.parametrize("seed", range(24))
def test_any_order_of_the_queues_gives_what_the_interpreter_gives(seed):
    program, s = drawn(seed)
    arrays = inputs_of(program, seed)
    wanted = mt.interpret(program, *arrays)
    kernel = mt.build(s, SMALL)
    acc.check(kernel.stream)
    assert np.array_equal(kernel(*arrays), wanted)
    for order in range(5):
        run = kernel.simulate(*arrays, order=order)
        assert np.array_equal(run.outputs[0], wanted)
        assert run.cycles == kernel.timing.cycles


@pytest.mark.parametrize("seed", range(12))
def test_each_token_is_needed_and_its_absence_found(seed):
    _, s = drawn(seed)
    stream = mt.build(s, SMALL).stream
    picked = np.random.default_rng(seed).permutation(len(stream.tokens))[:6]
    for number in picked:
        source, target = stream.tokens[number]
        rest = [t for n, t in enumerate(stream.tokens) if n != number]
        with pytest.raises(mt.ExecutionError, match="nothing orders") as failure:
            acc.check(stream.with_tokens(rest))
        assert "A token is missing" in failure.value.message
        pushed = without(stream, source, "pushes", stream[target].queue)
        popped = without(stream, target, "pops", stream[source].queue)
        for broken in (pushed, popped):
            with pytest.raises(mt.ExecutionError):
                acc.check(broken)


@pytest.mark.parametrize("seed", range(8))
def test_tokens_that_others_imply_change_no_time(seed):
    _, s = drawn(seed)
    bare = bare_stream(operations(s.program, SMALL), SMALL)
    every, fewest = acc.with_tokens(bare, fewest=False), acc.with_tokens(bare)
    acc.check(every)
    assert len(fewest.tokens) <= len(every.tokens)
    assert acc.timing_of(every).cycles == acc.timing_of(fewest).cycles


@pytest.mark.whole
@pytest.mark.parametrize("first", range(0, 500, 25))
def test_many_schedules_in_many_orders(first):
    """500 schedules, 20 orders each; and 200 pushes or pops left out, each of which is found."""
    for seed in range(first, first + 25):
        program, s = drawn(seed)
        arrays = inputs_of(program, seed)
        wanted = mt.interpret(program, *arrays)
        kernel = mt.build(s, SMALL)
        acc.check(kernel.stream)
        for order in range(20):
            assert np.array_equal(kernel.simulate(*arrays, order=order).outputs[0], wanted)
        if seed % 5 == 0 and kernel.stream.tokens:
            for source, target in kernel.stream.tokens[:: max(1, len(kernel.stream.tokens) // 2)]:
                queues = kernel.stream[source].queue, kernel.stream[target].queue
                for broken in (
                    without(kernel.stream, source, "pushes", queues[1]),
                    without(kernel.stream, target, "pops", queues[0]),
                ):
                    with pytest.raises(mt.ExecutionError):
                        acc.check(broken)


def test_an_adversary_meets_a_race_that_a_missing_token_allows():
    program, s = drawn(1)
    kernel = mt.build(s, SMALL)
    bare = kernel.with_stream(kernel.stream.with_tokens([]))
    with pytest.raises(mt.ExecutionError, match="nothing orders"):
        for order in range(50):
            bare.simulate(*inputs_of(program, 1), order=order)


def test_a_push_that_never_comes_is_a_deadlock_that_names_its_token():
    _, s = drawn(1)
    stream = mt.build(s, SMALL).stream
    source, target = stream.tokens[0]
    broken = without(stream, source, "pushes", stream[target].queue)
    with pytest.raises(mt.ExecutionError, match=r"deadlock: \w+ #\d+ .* waits for a token of"):
        acc.timing_of(broken)
