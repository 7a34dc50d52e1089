"""What our rules see in a block, and when they stay away."""

from dataclasses import replace

import numpy as np
import pytest

import minitensor as mt
from minitensor.errors import CompileError
from minitensor.runtime import USUAL_CACHES
from minitensor.schedule.edit import loops_around
from minitensor.search import DEFAULT_RULES, Rule, Verdict, generate_sketches
from minitensor.search.sketch import derive, factors
from minitensor.search.sketch.ansor import CPU
from minitensor.search.sketch.blocks import pairs
from minitensor.search.sketch.rule import Derived, State
from minitensor.testing import assert_equivalent
from tests.unit.search.programs import attention, gesummv, product_by_axes

W = mt.workloads
TARGET = mt.Target("c", num_cores=4, vector_bits=256)


def block_of(tensors, name):
    return mt.lower(tensors).blocks[name]


def rules_of(tensors, target=TARGET):
    """The rules that had a part in any sketch."""
    return {
        s.rule for sketch in generate_sketches(mt.lower(tensors), target) for s in sketch.history
    }


def column_sums(m, n, batch=1, turned=False):
    """Sums down the columns of each matrix of a batch; their results side by side, or not."""
    A = mt.placeholder((batch, m, n), name="A")
    k = mt.reduce_axis(m, name="k")
    shape = (n, batch) if turned else (batch, n)

    def element(*at):
        b, j = at[::-1] if turned else at
        return mt.sum(A[b, k, j], axis=k)

    return [A, mt.compute(shape, lambda b, j: element(b, j), name="B")]


def depthwise_volumes(c, d, h, w, kernel):
    """Each channel a volume that is padded, and summed over a window of three axes."""
    A, B = mt.placeholder((c, d, h, w), name="A"), mt.placeholder((c, *[kernel] * 3), name="B")
    p = kernel // 2

    def padded(c, *at):
        inside = [mt.logical_and(p <= i, i < p + size) for i, size in zip(at, (d, h, w))]
        test = mt.logical_and(mt.logical_and(inside[0], inside[1]), inside[2])
        return mt.if_then_else(test, A[(c, *(i - p for i in at))], 0.0)

    pad = mt.compute((c, d + 2 * p, h + 2 * p, w + 2 * p), padded, name="pad")
    window = [mt.reduce_axis(kernel, name=name) for name in ("rz", "ry", "rx")]

    def element(c, *at):
        place = [i + r for i, r in zip(at, window)]
        return mt.sum(pad[(c, *place)] * B[(c, *window)], axis=window)

    return [A, B, mt.compute((c, d, h, w), element, name="conv")]


def kept_softmax(m, n):
    """A softmax whose sums keep the axis that they are over, with one element."""
    A = mt.placeholder((m, n), name="A")
    k, l = mt.reduce_axis(n, name="k"), mt.reduce_axis(n, name="l")
    top = mt.compute((m, 1), lambda i, z: mt.max(A[i, k], axis=k), name="top")
    E = mt.compute((m, n), lambda i, j: mt.exp(A[i, j] - top[i, 0]), name="E")
    whole = mt.compute((m, 1), lambda i, z: mt.sum(E[i, l], axis=l), name="whole")
    return [A, mt.compute((m, n), lambda i, j: E[i, j] / whole[i, 0], name="B")]


@pytest.mark.parametrize(
    ("a", "b", "scattered", "lanes_packed", "rows_packed"),
    [
        ("ik", "kj", 0, ["B"], ["A"]),
        ("ki", "kj", 0, ["B"], ["A"]),
        ("ik", "jk", 1, ["B"], ["A"]),
    ],
)
def test_columns_are_lanes_of_a_product(a, b, scattered, lanes_packed, rows_packed):
    (pair,) = pairs(block_of(product_by_axes(a, b), "C"))
    assert (pair.lanes.var, pair.rows.var, pair.scattered) == ("j", "i", scattered)
    assert [load.buffer for load in pair.lanes_packed] == lanes_packed
    assert [load.buffer for load in pair.rows_packed] == rows_packed


def test_both_ways_where_each_turns_one_array_around():
    """Rows are side by side in A but not in C; columns in C but not in B."""
    found = pairs(block_of(product_by_axes("ki", "jk"), "C"))
    assert {(p.lanes.var, p.rows.var): p.scattered for p in found} == {("i", "j"): 0, ("j", "i"): 1}


@pytest.mark.parametrize(("n", "both"), [(9, True), (3, True), (15, False), (40, False)])
def test_both_ways_where_rows_would_fill_vectors_better(n, both):
    """Columns that leave much of their vectors empty are rows as well; C is turned around then."""
    found = pairs(block_of(product_by_axes("ki", "kj", (64, n, 64)), "C"), lanes=16)
    assert [(p.lanes.var, p.rows.var) for p in found] == [("j", "i"), ("i", "j")][: 1 + both]


@pytest.mark.parametrize(("images", "found"), [(2, "fx"), (16, "fx"), (32, "fxn"), (40, "fxn")])
def test_images_of_a_small_batch_are_no_lanes(images, found):
    """They are not side by side: images and results would be packed for less than two vectors."""
    conv = block_of(W.conv2d(images, 16, 20, 20, 32, 3), "conv")
    axes = dict(zip((i.var for i in conv.iters), "nfyx"))
    assert {axes[pair.lanes.var] for pair in pairs(conv, 16)} == set(found)


def test_branches_of_a_derivation_are_as_likely_however_many_leaves_they_have():
    a, b, c, d = (Derived(name, "rule", "") for name in "abcd")
    histories = [(a,), (b, c), (b, d), (b, d)]
    assert derive.branch_weights(histories) == (1 / 2, 1 / 4, 1 / 8, 1 / 8)


def test_rules_for_any_block_are_less_likely_than_those_that_know_it():
    own, other = Derived("C", "register tiles", ""), Derived("C", "cache write", "")
    assert derive.branch_weights([(own,), (other,)]) == (0.8, 0.2)
    assert derive.branch_weights([(other,), (replace(other, what="else"),)]) == (0.5, 0.5)


def log_softmax(m, n, again=False):
    """Its exponentials are read by their sum alone, or by a result as well."""
    A = mt.placeholder((m, n), name="A")
    k, l = mt.reduce_axis(n, name="k"), mt.reduce_axis(n, name="l")
    top = mt.compute((m,), lambda i: mt.max(A[i, k], axis=k), name="top")
    E = mt.compute((m, n), lambda i, j: mt.exp(A[i, j] - top[i]), name="E")
    whole = mt.compute((m,), lambda i: mt.sum(E[i, l], axis=l), name="whole")
    result = mt.compute((m, n), lambda i, j: A[i, j] - top[i] - mt.log(whole[i]), name="B")
    return [A, *([E] if again else []), result]


@pytest.mark.slow
def test_exponentials_are_not_stored_where_they_are_read_once():
    first = generate_sketches(mt.lower(log_softmax(64, 67)), TARGET)[0]
    assert first.history[0].rule == "chain of rows"
    assert "E" not in first.apply(seed=0).get_blocks()
    twice = generate_sketches(mt.lower(W.softmax(64, 64)), TARGET)[0]
    assert "exps" in twice.apply(seed=0).get_blocks()
    assert "inline once" not in rules_of(log_softmax(64, 67, again=True))


def test_pixels_or_channels_are_lanes_of_a_convolution():
    found = pairs(block_of(W.conv2d(1, 8, 16, 16, 8, 3, padding=1), "conv"))
    assert {(p.lanes.var, p.rows.var): p.scattered for p in found} == {("x", "f"): 0, ("f", "x"): 1}


def stored_zeros(c, f, h, kernel, stride):
    """A transposed convolution of one row, its image stored with zeros in between."""
    X, Y = mt.placeholder((c, h), name="X"), mt.placeholder((c, f, kernel), name="W")
    wide = (h - 1) * stride + 1

    def spread(i, x):
        here = x % stride == 0 if stride > 1 else x >= 0
        return mt.if_then_else(here, X[i, x // stride], 0)

    P = mt.compute((c, wide), spread, name="P")
    rc, rx = mt.reduce_axis(c, name="rc"), mt.reduce_axis(kernel, name="rx")

    def window(o, x):
        return mt.sum(P[rc, x + rx] * Y[rc, o, kernel - 1 - rx], axis=[rc, rx])

    return [X, Y, mt.compute((f, wide - kernel + 1), window, name="conv")]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [3, 4])
def test_phases_where_an_image_is_spread_out(kernel):
    """Stored zeros, and zeros that the definition chooses."""
    stored = stored_zeros(4, 8, 9, kernel, 2)
    chosen = W.conv2d_transpose(1, 2, 3, 4, 6, kernel, 2, 1)
    rng = np.random.default_rng(kernel)
    for tensors in (stored, chosen):
        program = mt.lower(tensors)
        arrays = [rng.integers(-3, 4, x.shape).astype(np.float32) for x in program.inputs]
        wanted = mt.interpret(program, *arrays).tolist()
        sketches = generate_sketches(program, TARGET)
        assert all(s.history[0].rule == "phases" for s in sketches)
        assert any("register tiles" in s.explain() for s in sketches)
        for n, sketch in enumerate(sketches[:4]):
            assert mt.interpret(sketch.apply(seed=n), *arrays).tolist() == wanted


def test_no_phases_where_nothing_is_zero():
    for tensors in (
        product_by_axes("ik", "kj"),
        stored_zeros(4, 8, 9, 3, 1),
        W.conv2d(1, 4, 8, 8, 4, 3, padding=1, stride=2),
        W.conv2d_transpose(1, 2, 3, 4, 6, 3, 1, 1),
        W.conv2d_transpose(1, 2, 3, 4, 6, 2, 3, 1),  # some elements are sums of nothing
    ):
        assert "phases" not in rules_of(tensors)


def extents_of(found):
    """The axes of tiles, and how long they are."""
    return {axis.var: axis.extent for pair in found for axis in (pair.lanes, pair.rows)}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_channels_within_a_group_are_an_axis_of_a_tile(layout):
    program = mt.lower(W.conv2d(1, 32, 14, 14, 48, 3, padding=1, groups=4, layout=layout))
    assert extents_of(pairs(program.blocks["conv"])) == {"f": 12, "x": 14}
    tiled = [s for s in generate_sketches(program, TARGET) if "register tiles" in s.explain()]
    assert tiled
    for sketch in tiled:
        for seed in range(3):
            sketch.apply(seed=seed)


def test_groups_of_few_channels_are_left_alone():
    assert pairs(block_of(W.conv2d(1, 8, 16, 16, 8, 3, padding=1, groups=4), "conv")) == []


def test_groups_of_two_sizes_are_left_alone():
    A, B = mt.placeholder((8, 16), name="A"), mt.placeholder((4, 16), name="B")
    k = mt.reduce_axis(16, name="k")
    element = lambda i, j: mt.sum(A[i // 4, k] * B[i // 8, k] * A[j, k], axis=k)
    C = mt.compute((32, 8), element, name="C")
    assert set(extents_of(pairs(block_of([A, B, C], "C"))).values()) <= {32, 8}


def test_a_window_cannot_be_packed():
    pixels = pairs(block_of(W.conv2d(1, 8, 16, 16, 8, 3, padding=1), "conv"))[0]
    assert pixels.lanes_packed == ()


@pytest.mark.slow
def test_of_a_large_window_the_inner_axes_are_written_out():
    program = mt.lower(depthwise_volumes(2, 5, 6, 8, 5))
    (sketch, *_) = generate_sketches(program, TARGET)
    assert "the rows of the window written out, pad for each image" in sketch.explain()
    assert "follows each tile" not in sketch.explain(), "nothing reads it"
    schedule = sketch.apply(seed=0)
    kinds = {loop.var: loop.kind.value for loop in loops_around(schedule.program, "conv")}
    assert [kinds[name] for name in ("rz", "ry", "rx")] == ["serial", "unroll", "unroll"]
    shared = set(schedule.get_loops("pad")) & set(schedule.get_loops("conv"))
    assert len(shared) == 1  # the channels: volumes are not padded slice by slice
    assert_equivalent(program, schedule, targets=("interpreter",))


@pytest.mark.slow
@pytest.mark.parametrize("last", ["channels", "pixels"])
def test_places_of_a_window_along_the_rows_of_a_tile_are_the_innermost(last):
    """So that text shares the rows that they read."""
    ry, rx = mt.reduce_axis(3, "ry"), mt.reduce_axis(5, "rx")
    if last == "pixels":
        X, shape = mt.placeholder((8, 18, 20), name="X"), (8, 16, 16)
        element = lambda c, y, x: mt.sum(X[c, y + ry, x + rx], axis=(ry, rx))
    else:
        X, shape = mt.placeholder((18, 20, 16), name="X"), (16, 16, 16)
        element = lambda y, x, c: mt.sum(X[y + ry, x + rx, c], axis=(ry, rx))
    program = mt.lower([X, mt.compute(shape, element, name="Y")])
    sketch = next(s for s in generate_sketches(program, TARGET) if "window" in s.explain())
    schedule = sketch.apply(seed=0)
    window = [loop for loop in schedule.get_loops("Y") if loop in ("ry", "rx")]
    assert window == (["rx", "ry"] if last == "pixels" else ["ry", "rx"])
    assert_equivalent(program, schedule, targets=("interpreter", "c"))


def test_places_of_windows_that_do_not_overlap_stay_in_order():
    ry, rx = mt.reduce_axis(2, "ry"), mt.reduce_axis(2, "rx")
    X = mt.placeholder((8, 32, 32), name="X")
    element = lambda c, y, x: mt.max(X[c, 2 * y + ry, 2 * x + rx], axis=(ry, rx))
    program = mt.lower([X, mt.compute((8, 16, 16), element, name="Y")])
    sketch = next(s for s in generate_sketches(program, TARGET) if "window" in s.explain())
    loops = sketch.apply(seed=0).get_loops("Y")
    assert loops.index("ry") < loops.index("rx")


def test_what_reads_a_window_follows_each_of_its_tiles():
    X, K = mt.placeholder((1, 6, 13, 19), name="X"), mt.placeholder((6, 1, 3, 3), name="K")
    y = mt.ops.relu(mt.ops.conv2d(X, K, padding=1, stride=2, groups=6))
    program = mt.lower([X, K, y])
    sketches = [s for s in generate_sketches(program, TARGET) if "window" in s.explain()]
    assert sketches and all("relu follows each tile" in s.explain() for s in sketches)
    schedule = sketches[0].apply(seed=0)
    window, relu = (schedule.get_loops(name) for name in ("conv2d", "relu"))
    assert window[:4] == relu[:4] == ("n", "f", "y_0", "x_0")
    assert_equivalent(program, schedule, targets=("interpreter", "c"))


def test_one_buffer_at_two_places_is_packed_at_each():
    A = mt.placeholder((16, 24), name="A")
    k = mt.reduce_axis(24, name="k")
    C = mt.compute((16, 16), lambda i, j: mt.sum(A[i, k] * A[j, k], axis=k), name="C")
    (pair,) = pairs(block_of([A, C], "C"))
    (lanes,), (rows,) = pair.lanes_packed, pair.rows_packed
    assert lanes.buffer == rows.buffer == "A" and lanes.indices != rows.indices
    program = mt.lower([A, C])
    sketches = [s for s in generate_sketches(program, TARGET) if "packed" in s.explain()]
    assert len(sketches) == 2
    for sketch in sketches:
        assert_equivalent(program, sketch.apply(seed=0), targets=("interpreter", "c"))


def test_an_axis_of_one_element_is_no_lane_and_no_row():
    assert pairs(block_of(W.matmul(1, 64, 64), "C")) == []
    assert pairs(block_of(W.matmul(64, 1, 64), "C")) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tensors", "rule"),
    [
        (lambda: W.matmul(64, 64, 64), "register tiles"),
        (lambda: W.conv2d(1, 8, 16, 16, 8, 3, padding=1, groups=2), "register tiles"),
        (lambda: W.softmax(64, 64), "chain of rows"),
        (lambda: kept_softmax(64, 67), "chain of rows"),
        (lambda: W.row_sum(64, 64), "rows in lanes"),
        (lambda: W.argmax(64, 64), "rows in lanes"),
        (lambda: column_sums(64, 64), "columns in lanes"),
        (lambda: column_sums(64, 64, batch=3), "columns in lanes"),
        (lambda: W.transpose_add(64, 64), "transposed read"),
        (lambda: W.max_pool2d(1, 8, 16, 16, 3, 2, 1), "window"),
        (lambda: depthwise_volumes(2, 6, 6, 8, 5), "window"),
        (lambda: W.conv2d(1, 8, 8, 8, 8, 3, padding=1), "inline padding"),
        (lambda: W.conv2d_winograd(1, 4, 6, 6, 4, padding=1, tile=2), "transforms"),
    ],
)
def test_a_rule_where_it_belongs(tensors, rule):
    ours = {r.name for r in derive.RULES["default"]["c"]} - {
        r.name for r in derive.RULES["ansor"]["c"]
    }
    assert rule in ours
    assert rule in rules_of(tensors())


@pytest.mark.parametrize(
    "tensors",
    [
        lambda: W.argmax(64, 3),
        lambda: W.cumsum(8, 8),
        lambda: W.elementwise_chain(64),
        lambda: W.row_sum(64, 8),
        lambda: column_sums(64, 4),
        lambda: column_sums(64, 64, batch=3, turned=True),
    ],
)
def test_ours_stay_away_from_what_is_not_theirs(tensors):
    ansor = {r.name for r in derive.RULES["ansor"]["c"]}
    assert rules_of(tensors()) <= ansor


def two_products(m, n, dim):
    """relu(A B) C: nothing between the products is a sum over rows."""
    A, B, C = (mt.placeholder(s, name=x) for x, s in zip("ABC", ((m, dim), (dim, n), (n, dim))))
    k, l = mt.reduce_axis(dim, name="k"), mt.reduce_axis(n, name="l")
    D = mt.compute((m, n), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="D")
    E = mt.compute((m, n), lambda i, j: mt.maximum(D[i, j], 0), name="E")
    F = mt.compute((m, dim), lambda i, j: mt.sum(E[i, l] * C[l, j], axis=l), name="F")
    return [A, B, C, F]


@pytest.mark.slow
def test_products_with_no_sum_between_them_are_not_done_by_rows():
    assert "rows between products" not in rules_of(two_products(32, 32, 16))
    assert "rows between products" not in rules_of(W.softmax(32, 32))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("masked", "n", "d"),
    [
        (False, 16, 8),
        pytest.param(True, 37, 19, marks=pytest.mark.slow),
        pytest.param(True, 16, 8, marks=pytest.mark.whole),
        pytest.param(False, 37, 19, marks=pytest.mark.whole),
    ],
)
def test_a_few_rows_between_products_are_right(masked, n, d):
    program = mt.lower(attention(masked, n, d))
    (sketch, *_) = generate_sketches(program, TARGET)
    assert sketch.history[0].rule == "rows between products"
    schedule = sketch.apply(seed=n)
    (rows,) = set(schedule.get_loops("T")) & set(schedule.get_loops("O"))
    assert rows == schedule.get_loops("O")[0]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(b.shape, dtype=np.float32) for b in program.inputs]
    found, expected = mt.interpret(schedule.program, *arrays), mt.interpret(program, *arrays)
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=3e-6)  # sums in another order


def test_ansors_sketches_are_among_ours():
    program = mt.lower(W.matmul_bias_relu(64, 64, 64))
    ours = {s.trace.to_json() for s in generate_sketches(program, TARGET)}
    assert {s.trace.to_json() for s in generate_sketches(program, TARGET, rules="ansor")} < ours


def test_few_results_get_parts_for_the_threads():
    sketch = generate_sketches(mt.lower(W.full_sum(64, 512)), TARGET)[0]
    assert sketch.explain() == "B  rows in lanes  partial results of B_rf in lanes"
    schedule = sketch.apply(seed=0)
    schedule.parallel(schedule.get_loops("B_rf")[0])


@pytest.mark.parametrize("tensors", [lambda: W.layer_norm(64, 64), gesummv])
def test_rows_are_not_collected_before_they_are_written(tensors):
    """Partial results in lanes, and chains, store each result once: there is nothing to collect."""
    for sketch in generate_sketches(mt.lower(tensors()), TARGET):
        rules = [(step.block, step.rule) for step in sketch.history]
        cached = {block for block, rule in rules if rule == "cache write"}
        assert not cached & {block for block, rule in rules if "row" in rule}


@pytest.mark.slow
def test_rows_of_a_chain_are_computed_together_where_there_are_many():
    def first(rows, columns):
        program = mt.lower(W.softmax(rows, columns))
        (sketch, *_) = generate_sketches(program, TARGET, caches=USUAL_CACHES)
        assert "computed for each row" in sketch.explain()
        decision, *_ = (s.arguments for s in sketch.trace.steps if s.is_decision)
        return decision["candidates"], decision["probs"]

    assert first(64, 1024) == ((1, 2, 4), (4, 2, 1))
    assert first(64, 2048)[1][2] < first(64, 2048)[1][0]  # four rows leave the first cache
    assert first(8, 64)[0] == (1, 2)  # two for each core
    assert first(4, 64)[0] == factors.WAYS


@pytest.mark.slow
def test_a_row_of_any_length_is_halved_in_lanes_and_stays_a_loop():
    for columns in (19_857, 326):
        sketch, *_ = generate_sketches(mt.lower(W.softmax(173, columns)), TARGET)
        assert "chain of rows" in [derived.rule for derived in sketch.history]
        loops = mt.ir.loops_of(sketch.apply(seed=0).program.body)
        sums = [loop for loop in loops if loop.var.startswith("row_sum_rf")]
        steps = [loop for loop in sums if loop.kind is not mt.ir.LoopKind.VECTORIZE]
        lanes = {loop.extent for loop in sums if loop.kind is mt.ir.LoopKind.VECTORIZE}
        assert max(loop.extent for loop in steps if loop.kind is mt.ir.LoopKind.UNROLL) <= 8
        assert {4, 8} <= lanes and max(loop.extent for loop in steps) >= columns // 64


def test_threads_share_the_columns_or_the_rows():
    program = mt.lower(column_sums(512, 64))
    ours = [s for s in generate_sketches(program, TARGET) if "columns in lanes" in s.explain()]
    assert [s.history[0].what for s in ours] == [
        "strips of j in lanes",
        "strips of j in lanes, rows in parts",
    ]
    strips, parts = (sketch.apply(seed=0) for sketch in ours)
    strips.parallel(strips.get_loops("B")[1])
    parts.parallel(parts.get_loops("B_rf")[1])
    alone = generate_sketches(program, mt.Target("c", num_cores=1, vector_bits=256))
    assert not any("rows in parts" in sketch.explain() for sketch in alone)


def test_at_most_24_and_the_first_choices_among_them():
    rules = [*DEFAULT_RULES[:-1], *CPU]
    found = generate_sketches(mt.lower(attention(n=32, d=64)), TARGET, rules=rules)
    assert len(found) == 24
    assert "S for a few rows" in found[0].explain()


@pytest.mark.parametrize("make", [W.row_sum, column_sums, W.layer_norm, W.softmax])
def test_sums_along_rows_and_columns_have_partial_results_of_their_own(make):
    found = generate_sketches(mt.lower(make(64, 64)), TARGET)
    assert "rfactor" not in {step.rule for sketch in found for step in sketch.history}
    assert any("in lanes" in sketch.explain() or "chain" in sketch.explain() for sketch in found)


def test_what_is_computed_once_is_written_row_by_row():
    a, b = mt.placeholder((64,), name="a"), mt.placeholder((96,), name="b")
    (sketch,) = generate_sketches(mt.lower([a, b, mt.compute((64, 96), lambda i, j: a[i] * b[j])]))
    assert sketch.steps == ()


def short_sum(shape, combine, over=(1, 2)):
    X = mt.placeholder(shape, name="X")
    axes = [mt.reduce_axis(shape[n], name=f"r{n}") for n in over]

    def value(*kept):
        own = [n for n in range(len(shape)) if n not in over]
        places = dict(zip([*over, *own], [*axes, *kept], strict=True))
        return combine(X[tuple(places[n] for n in range(len(shape)))], axis=axes)

    return mt.lower(
        [X, mt.compute([n for m, n in enumerate(shape) if m not in over], value, name="Y")]
    )


@pytest.mark.many
@pytest.mark.parametrize("combine", [mt.sum, mt.max])
@pytest.mark.parametrize("pixels", [(7, 7), (14, 14), (5, 20), (30, 3), (6, 13)])
def test_rows_of_a_small_image_are_lanes(pixels, combine):
    program = short_sum((18, *pixels), combine)
    (ours, *_) = generate_sketches(program, TARGET)
    assert "partial results in lanes" in ours.explain()
    for seed, targets in enumerate([("interpreter", "c"), ("interpreter",), ("interpreter",)]):
        assert_equivalent(program, ours.apply(seed=seed), targets=targets)


@pytest.mark.parametrize(
    "shape, over, rule",
    [
        ((6, 40, 1), (1, 2), "rows in lanes"),
        ((6, 5, 40, 1, 1), (2, 3, 4), "rows in lanes"),
        ((6, 9, 7, 1), (1, 2, 3), "rows in lanes"),
        ((40, 24, 1), (0,), "columns in lanes"),
        ((5, 40, 24, 1, 1), (1,), "columns in lanes"),
    ],
)
def test_axes_of_one_iteration_at_the_end_are_passed(shape, over, rule):
    program = short_sum(shape, mt.sum, over)
    found = generate_sketches(program, TARGET)
    assert found[0].history[0].rule == rule
    for seed in range(2):
        assert_equivalent(program, found[0].apply(seed=seed), targets=("interpreter", "c"))


@pytest.mark.parametrize("shape", [(40, 6, 32), (64, 3, 24)])
def test_columns_over_two_axes_have_parts_of_the_first(shape):
    program = short_sum(shape, mt.sum, over=(0, 1))
    parts = [s for s in generate_sketches(program, TARGET) if "rows in parts" in s.explain()]
    assert parts
    for seed in range(2):
        schedule = parts[0].apply(seed=seed)
        around, *_ = schedule.get_loops("Y_rf")
        schedule.parallel(around)  # the parts are the outermost loop
        assert_equivalent(program, schedule, targets=("interpreter", "c"))


def test_the_type_decides_how_many_lanes():
    program = mt.lower(W.row_sum(64, 64, dtype="float64"))
    sketch = next(s for s in generate_sketches(program, TARGET) if "in lanes" in s.explain())
    assert [s.arguments["candidates"] for s in sketch.trace.steps if s.is_decision][1] == (2, 4)


def test_without_a_compiler(monkeypatch):
    def missing(target):
        raise CompileError("no compiler")

    monkeypatch.setattr(derive, "native_target", missing)
    seen = []
    spy = Rule("spy", lambda state, cores: seen.append(state.lanes) or Verdict.SKIP, lambda *_: [])
    generate_sketches(mt.lower(W.matmul(8, 8, 8)), num_cores=2, rules=[spy, *DEFAULT_RULES])
    assert set(seen) == {4}


def test_other_blocks_that_a_rule_took_care_of():
    program = mt.lower(W.matmul_bias_relu(8, 8, 8))
    state = State(mt.Schedule(program), ("D", "C"))
    assert state.after("mine", "both", also=["C"]).pending == ()
    assert state.after("mine", "this one").pending == ("C",)
    assert state.after("mine", "again", stay=True).pending == ("D", "C")


# ---- reciprocals


def divided(n, largest, power, total=lambda E, i, k: E[i, k]):
    """Elements power(A, top, i, j), divided by sums of them; top is the largest of something."""
    A = mt.placeholder((n, n), name="A")
    k, l = mt.reduce_axis(n, name="k"), mt.reduce_axis(n, name="l")
    top = mt.compute((n,), lambda i: mt.max(largest(A, i, k), axis=k), name="top")
    E = mt.compute((n, n), lambda i, j: power(A, top, i, j), name="E")
    whole = mt.compute((n,), lambda i: mt.sum(total(E, i, l), axis=l), name="whole")
    return [A, mt.compute((n, n), lambda i, j: E[i, j] / whole[i], name="B")]


def moved(n):
    """Sums of exp(x - top), each x under a maximum of its own, which is over others too."""
    X = mt.placeholder((n, 2 * n, n), name="X")
    k, l = mt.reduce_axis(n, name="k"), mt.reduce_axis(n, name="l")
    top = mt.compute((n, 2 * n), lambda a, b: mt.max(X[a, b, k], axis=k), name="top")
    E = mt.compute((n, n), lambda i, j: mt.exp(X[i, i + j, j] - top[i, i + j]), name="E")
    whole = mt.compute((n,), lambda i: mt.sum(E[i, l], axis=l), name="whole")
    return [X, mt.compute((n, n), lambda i, j: E[i, j] / whole[i], name="B")]


def least_called_sum(n):
    """Quotients by the least exp(x - top) of a row."""
    A = mt.placeholder((n, n), name="A")
    k, l = mt.reduce_axis(n, name="k"), mt.reduce_axis(n, name="l")
    top = mt.compute((n,), lambda i: mt.max(A[i, k], axis=k), name="top")
    E = mt.compute((n, n), lambda i, j: mt.exp(A[i, j] - top[i]), name="E")
    least = mt.comm_reducer(mt.minimum, float("inf"), "sum")
    whole = mt.compute((n,), lambda i: least(E[i, l], axis=l), name="whole")
    return [A, mt.compute((n, n), lambda i, j: E[i, j] / whole[i], name="B")]


def below_the_largest(A, top, i, j):
    return mt.exp(A[i, j] - top[i])


OF_ROWS = lambda A, i, k: A[i, k]
ONE_OR_MORE = {
    "of every other row": lambda: divided(
        8,
        lambda A, i, k: A[i, k],
        lambda A, top, i, j: mt.exp(A[i // 2, j] - top[i // 2]),
    ),
    "softmax": lambda: W.softmax(64, 67),
    "one that keeps its axis": lambda: kept_softmax(64, 67),
    "of rows": lambda: divided(8, OF_ROWS, below_the_largest),
    "of columns": lambda: divided(
        8,
        lambda A, i, k: A[k, i],
        lambda A, top, i, j: mt.exp(A[i, j] - top[j]),
        lambda E, i, k: E[k, i],
    ),
    "of something scaled": lambda: divided(
        8,
        lambda A, i, k: A[i, k] * 0.5,
        lambda A, top, i, j: mt.exp(A[i, j] * 0.5 - top[i]),
    ),
}
PERHAPS_LESS = {
    "a maximum for each term": lambda: moved(8),
    "the least, called a sum": lambda: least_called_sum(8),
    "no exp": lambda: divided(8, OF_ROWS, lambda A, top, i, j: A[i, j] - top[i]),
    "no maximum": lambda: divided(8, OF_ROWS, lambda A, top, i, j: mt.exp(A[i, j])),
    "less than the maximum": lambda: divided(
        8, OF_ROWS, lambda A, top, i, j: mt.exp(A[i, j] - top[i] - 100)
    ),
    "not positive, and no maximum": lambda: divided(
        8, OF_ROWS, lambda A, top, i, j: mt.exp(-abs(A[i, j]))
    ),
    "the maximum of other rows": lambda: divided(
        8,
        lambda A, i, k: A[0, k],
        lambda A, top, i, j: mt.exp(A[0, j] - top[i]),
        lambda E, i, k: E[k, i],
    ),
    "the maximum of columns": lambda: divided(
        8, lambda A, i, k: A[k, i], lambda A, top, i, j: mt.exp(A[i, j] - top[j])
    ),
    "sums of the diagonal": lambda: divided(8, OF_ROWS, below_the_largest, lambda E, i, k: E[k, k]),
}


@pytest.mark.slow
@pytest.mark.parametrize("tensors", ONE_OR_MORE.values(), ids=ONE_OR_MORE)
def test_divisions_by_sums_of_one_or_more(tensors):
    program = mt.lower(tensors())
    sketch = generate_sketches(program, TARGET)[0]
    assert sketch.history[0].rule == "reciprocals"
    assert " / " not in str(sketch.apply(seed=0).program).replace("1.0 / ", "")
    below = [np.full(b.shape, -200, np.float32) for b in program.inputs]
    with np.errstate(all="raise", under="ignore"):
        mt.interpret(sketch.apply(seed=0), *below)


@pytest.mark.parametrize("tensors", PERHAPS_LESS.values(), ids=PERHAPS_LESS)
def test_divisions_that_stay(tensors):
    assert "reciprocals" not in rules_of(tensors())


@pytest.mark.slow
@pytest.mark.parametrize("columns", [64, 100])
def test_what_a_sum_reads_first_is_computed_in_its_loop(columns):
    """The exponentials, which are divided by their sum after it."""
    program = mt.lower(W.softmax(64, columns))
    schedule = mt.schedule_for(program, TARGET)
    own, sums = (schedule.get_loops(name) for name in ("exps", "row_sum_rf"))
    assert sums[-3] in own and own[-1] not in sums
    a = np.random.default_rng(0).standard_normal((64, columns)).astype("float32")
    wanted = np.exp(a - a.max(1, keepdims=True))
    wanted /= wanted.sum(1, keepdims=True)
    np.testing.assert_allclose(mt.build(schedule)(a), wanted, rtol=1e-5)
