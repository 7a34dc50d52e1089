"""Extents and features of many candidates are those of the replayed programs, bit for bit."""

import functools
import itertools
import random

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import minitensor as mt
from minitensor import testing
from minitensor.errors import ScheduleError
from minitensor.lang.workloads import WORKLOADS
from minitensor.schedule import Schedule
from minitensor.search import generate_sketches
from minitensor.search.features import BatchError
from tests.parts import Extent, examples, some, times
from tests.property.search.numbered import check, drawn, opened, renumbered
from tests.property.search.went_wrong import WENT_WRONG

W = mt.workloads
SKETCHED = {
    "matmul": lambda n: W.matmul(8 * n, 12, 6),
    "batch matmul": lambda n: W.batch_matmul(2, 4, 6 * n, 4),
    "matmul_bias_relu": lambda n: W.matmul_bias_relu(4 * n, 6, 10),
    "conv2d_bias_relu": lambda n: W.conv2d_bias_relu(1, 4, 6, 4 * n, 4, 3, padding=1),
    "depthwise_conv2d": lambda n: W.depthwise_conv2d(1, 4, 6 * n, 8, 3, padding=1),
    "conv1d": lambda n: W.conv1d(1, 4, 8 * n, 6, 3, stride=2, padding=1),
    "softmax": lambda n: W.softmax(2, 24 * n),
    "layer_norm": lambda n: W.layer_norm(3, 16 * n),
    "max_pool2d": lambda n: W.max_pool2d(1, 2, 8 * n, 6, 3, stride=2, padding=1),
    "matrix_norm": lambda n: W.matrix_norm(2, 6, 4 * n),
    "full_sum": lambda n: W.full_sum(8 * n, 12),
    "argmax": lambda n: W.argmax(3, 16 * n),
    "transpose_add": lambda n: W.transpose_add(4 * n, 6),
    "stencil2d": lambda n: W.stencil2d(6 * n, 8),
    "winograd": lambda n: W.conv2d_winograd(1, 2, 4 * n, 4, 2, padding=1, tile=2),
}


@functools.lru_cache
def sketches(name, size, rules):
    return generate_sketches(mt.lower(SKETCHED[name](size)), num_cores=2, rules=rules)


@pytest.mark.many
@pytest.mark.parametrize("name", SKETCHED)
def test_sketches(name):
    rng = random.Random(name)
    for rules in ("ansor", "default"):
        found = sketches(name, rng.choice((1, 2)), rules)
        for sketch in rng.sample(found, min(2, len(found))):
            check(drawn(sketch, 3, rng.randrange(1000)), rng.randrange(1000))


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(
    "name, size",
    some(itertools.product(WORKLOADS, ["small", "benchmark"]), lambda n: n // 2 % 2 == n % 2),
)
def test_sketches_of_all_workloads(name, size):
    """Some of them; `make whole` has all of those at the size of the benchmark."""
    rng = random.Random(name)
    workload = WORKLOADS[name]
    program = mt.lower(workload.function(**getattr(workload, size)))
    for rules in ("ansor", "default"):
        found = generate_sketches(program, num_cores=4, rules=rules)
        most = len(found) if size == "benchmark" and Extent.whole else times(4, 8)
        for sketch in rng.sample(found, min(most, len(found))):
            check(drawn(sketch, 2, rng.randrange(1000)))


def padded_under_a_tile(s, level):
    """conv2d, its padding computed under a tile."""
    pad, conv = s.get_blocks()[:2]
    loops = s.get_loops(conv)
    parts = [s.split(loop, s.sample_perfect_tile(loop, 2)) for loop in loops[:4]]
    s.reorder(*(p[0] for p in parts), *(p[1] for p in parts))
    s.compute_at(pad, parts[level][0])


def factors_that_do_not_divide(s, level):
    """A matrix product in tiles of chosen sizes, the operands cached in them."""
    i, j, k = s.get_loops("C")
    sizes = [s.sample_categorical([2, 3, 4, 8]) for _ in range(3)]
    i0, i1 = s.split(i, [None, sizes[0]])
    j0, j1 = s.split(j, [None, sizes[1]])
    k0, k1 = s.split(k, [None, sizes[2]])
    s.reorder(i0, j0, k0, i1, j1, k1)
    for buffer in ("A", "B"):
        s.compute_at(s.cache_read("C", buffer, "local"), (i0, j0, k0)[level])


def tiles_of_policies(s, level):
    """Tiles of every policy, and tiles of them."""
    i, j, k = s.get_loops("C")
    policy = ("factors", "power2", "verbose")[level]
    i0, i1 = s.split(i, s.sample_tile(i, 2, policy=policy))
    j0, j1, j2 = s.split(j, s.sample_tile(j, 3, policy=policy, max_factor=4))
    k0, k1 = s.split(k, s.sample_tile(k, 2, candidates=[[None, 2], [3, 3], [2, None]]))
    i2, i3 = s.split(i1, s.sample_tile(i1, 2, policy=policy))
    s.reorder(i0, j0, i2, k0, j1, i3, k1, j2)
    s.split(k1, [s.sample_tile(i0, 2, policy=policy)[1], None])


def packed(s, level):
    """Operands laid out in panels, the copies tiled themselves."""
    i, j, k = s.get_loops("C")
    tile = s.sample_perfect_tile(j, 3, max_innermost_factor=64)
    j0, j1, j2 = s.split(j, tile)
    s.reorder(j0, j1, i, k, j2)
    width = (2, 3, 4)[level]
    copy = s.cache_read("C", "B", "global")
    s.transform_layout(copy, lambda k, j: (j // width, k, j % width))
    _, ax1 = s.get_loops(copy)
    s.split(ax1, [None, s.sample_categorical([2, 4, 8])])
    s.fuse(s.get_loops(copy)[1], s.get_loops(copy)[2])
    s.split(i, [s.sample_categorical([1, 2, 5]), None])


def threads_of_tiles(s, level):
    """Outer tiles fused for threads, the result collected in each."""
    copy = s.cache_write("C", "local")
    i, j, k = s.get_loops("C")
    i0, i1 = s.split(i, s.sample_perfect_tile(i, 2))
    j0, j1 = s.split(j, s.sample_perfect_tile(j, 2))
    s.reorder(i0, j0, i1, j1, k)
    s.reverse_compute_at(copy, j0)
    if level:
        both = s.fuse(i0, j0)
        s.compute_at(s.cache_read("C", "A", "local"), both)
        s.compute_at(s.cache_read("C", "B", "local"), i1)
        if level == 2:
            s.split(both, s.sample_perfect_tile(both, 2))
    k0, _ = s.split(k, s.sample_perfect_tile(k, 2))
    s.decompose_reduction("C", k0)


def collected_under_fused_tiles(s, level):
    """Outer tiles fused first, and the result collected in each; some do not divide."""
    copy = s.cache_write("C", "local")
    i, j, k = s.get_loops("C")
    i0, i1 = s.split(i, s.sample_perfect_tile(i, 2))
    sizes = s.sample_perfect_tile(j, 2) if level else [None, s.sample_categorical([4, 8, 12])]
    j0, j1 = s.split(j, sizes)
    s.reorder(i0, j0, k, i1, j1)
    both = s.fuse(i0, j0)
    if level == 2:
        both, _ = s.split(both, [None, 1])
    s.reverse_compute_at(copy, both)


def decomposed_before(s, level):
    """A matrix product whose init was taken out before it is moved, cached and factored."""
    producer, reader = s.get_blocks()
    i, j, k = s.get_loops(producer)
    k0, _ = s.split(k, s.sample_perfect_tile(k, 2))
    s.decompose_reduction(producer, (i, j, k0)[level])
    s.cache_write(producer, "local")
    s.rfactor(k0)
    (copy,) = s.get_producers(reader)
    x0, _ = s.split(s.get_loops(reader)[0], s.sample_perfect_tile(s.get_loops(reader)[0], 2))
    s.compute_at(copy, x0)
    s.compute_at(producer, x0)


def partial_sums(s, level):
    """A reduction over two axes, fused, split and factored out once or twice."""
    (block,) = s.get_blocks()
    i, j = s.get_loops(block)
    both = s.fuse(i, j)
    parts = s.split(both, s.sample_perfect_tile(both, 3, max_innermost_factor=64))
    if level:
        s.reorder(*parts[::-1])
    partial = s.rfactor(parts[0])
    if level == 2:
        s.vectorize(parts[2])  # rfactor with axis=-1 first
    last = s.get_loops(partial)[-1]
    s.split(last, s.sample_perfect_tile(last, 2))


def inlined_into_partial_sums(s, level):
    """A producer computed in partial sums of many."""
    producer, block = s.get_blocks()
    i, j = s.get_loops(block)
    j0, j1 = s.split(j, [s.sample_categorical([2, 3, 4]), None])
    if level:
        partial = s.rfactor(s.fuse(i, j0) if level == 2 else j1)
        s.compute_inline(producer)
        s.cache_read(partial, "A", "local")
    else:
        s.rfactor(j1)
        s.compute_at(producer, s.get_loops(s.get_blocks()[1])[0])


def stencil_under_a_tile(s, level):
    """Two stages of a stencil, the first under tiles of the second."""
    first, second = s.get_blocks()
    y, x = s.get_loops(second)
    y0, y1 = s.split(y, s.sample_perfect_tile(y, 2))
    x0, x1 = s.split(x, [None, s.sample_categorical([3, 4])])
    s.reorder(y0, x0, y1, x1)
    s.compute_at(first, (y0, x0, y1)[level])
    loops = s.get_loops(first)[-2:]
    s.split(loops[0], s.sample_perfect_tile(loops[0], 2)) if not level else s.add_unit_loop(first)


def digits_of_a_fused_loop(s, level):
    """A row that many iterations share, computed again in each tile of a fused loop."""
    copy = s.cache_read("C", "A", "local")
    i, j, k = s.get_loops("C")
    both = s.fuse(i, j)
    f0, f1 = s.split(both, [None, s.sample_categorical([1, 2, 3, 6, 12])])
    s.compute_at(copy, (f0, f1, k)[level])


def rows_of_squares():
    A = mt.placeholder((6, 12), name="A")
    B = mt.compute((6, 12), lambda i, j: A[i, j] * A[i, j], name="B")
    i, j = mt.reduce_axis(6, name="i"), mt.reduce_axis(12, name="j")
    return [A, mt.compute((), lambda: mt.sum(B[i, j] + B[i, j], axis=[i, j]), name="S")]


def product_and_relu():
    A, B, C = W.matmul(8, 6, 12)
    return [A, B, mt.compute((8, 6), lambda x, y: mt.maximum(C[x, y], 0.0), name="D")]


def two_stages():
    A = mt.placeholder((16, 14), name="A")
    B = mt.compute((15, 14), lambda i, j: A[i, j] + A[i + 1, j], name="B")
    C = mt.compute((12, 12), lambda i, j: B[i + 1, j] * B[i + 2, j + 1] + B[i, j], name="C")
    return [A, C]


WRITTEN = {
    padded_under_a_tile: lambda: W.conv2d(1, 4, 8, 12, 6, 3, padding=1),
    factors_that_do_not_divide: lambda: W.matmul(13, 11, 7),
    tiles_of_policies: lambda: W.matmul(13, 12, 7),
    packed: lambda: W.matmul(10, 12, 8),
    digits_of_a_fused_loop: lambda: W.matmul(5, 12, 6),
    threads_of_tiles: lambda: W.matmul(8, 12, 6),
    collected_under_fused_tiles: lambda: W.matmul(8, 12, 6),
    decomposed_before: product_and_relu,
    partial_sums: lambda: W.full_sum(6, 12),
    inlined_into_partial_sums: rows_of_squares,
    stencil_under_a_tile: two_stages,
}


@pytest.mark.many
@pytest.mark.parametrize("level", range(3))
@pytest.mark.parametrize("write", WRITTEN, ids=lambda f: f.__name__)
def test_written_by_hand(write, level):
    program = mt.lower(WRITTEN[write]())
    schedules = []
    for seed in range(6):
        s = Schedule(program, seed=seed)
        write(s, level)
        schedules.append(s)
    check(schedules)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("schedule", WENT_WRONG, ids=lambda f: f.__name__)
def test_schedules_that_went_wrong(schedule, seed):
    compare_with_replays(schedule(), seed)


@st.composite
def scheduled(draw, most):
    """A random schedule of a random program, after attempts at so many primitives at most."""
    return draw(testing.schedules(draw(testing.programs()), most))


def compare_with_replays(schedule, seed):
    """Compare a structure with replays of a schedule whose factors were made decisions.

    Returns why the structure could not be made, if so.
    """
    rng = random.Random(seed)
    try:
        first = opened(schedule, rng).apply(schedule.history[0])
    except ScheduleError as refusal:
        return f"refused: {refusal.rule}"
    schedules = renumbered(first, 4, rng)
    try:
        check(schedules)
    except BatchError as reason:
        return reason.message
    return None


SEEDS = st.integers(0, 2**32)


@given(scheduled(10), SEEDS)
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_random_schedules(schedule, seed):
    event(str(compare_with_replays(schedule, seed)))


def test_most_random_schedules_have_a_structure():
    why = [compare_with_replays(testing.drawn(scheduled(8), n), n) for n in range(20)]
    assert sum(reason is None for reason in why) >= 14, why


@pytest.mark.slow
@given(scheduled(16), SEEDS)
@examples(75, 300, deadline=None, suppress_health_check=list(HealthCheck))
def test_more_random_schedules(schedule, seed):
    """`python -m tests.exhaustive_structures` tries ten times as many."""
    event(str(compare_with_replays(schedule, seed)))
