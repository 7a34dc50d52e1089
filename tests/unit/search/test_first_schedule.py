"""The schedule of a program that was never tuned: by rules, the same each time, without a trial."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import Target
from minitensor.ir import LoopKind, loop_sites, loops_of
from minitensor.ir.program import survey_all
from minitensor.search.sketch import generate_sketches
from minitensor.search.space.annotate import cut_long_loops
from minitensor.search.tasks import first
from minitensor.testing import assert_equivalent

TARGET = Target("c", num_cores=2, vector_bits=256)


def kinds(schedule):
    return {site.loop.kind for site in loop_sites(schedule.program).values()}


def test_a_large_product_has_threads_vectors_and_packed_weights():
    program = mt.lower(mt.workloads.matmul(m=128, n=128, k=128))
    schedule = mt.schedule_for(program, TARGET)
    assert {LoopKind.PARALLEL, LoopKind.VECTORIZE} <= kinds(schedule)
    assert "cache_read" in schedule.trace.as_python()
    again = mt.schedule_for(program, TARGET)
    assert again.trace.as_python() == schedule.trace.as_python()


@pytest.mark.parametrize("made", ["sum", "max", "argmax"])
def test_a_row_is_reduced_in_lanes(made):
    """Also where another sketch reads it one element after the other, as it lies in memory."""
    X, k = mt.placeholder((96, 640), name="X"), mt.reduce_axis(640, "k")
    Y = mt.compute((96,), lambda i: getattr(mt, made)(X[i, k], axis=k), name="Y")
    schedule = mt.schedule_for(mt.lower([X, Y]), TARGET)
    assert {LoopKind.PARALLEL, LoopKind.VECTORIZE} <= kinds(schedule)


@pytest.mark.parametrize("shape", [(96, 640, 1), (96, 640, 1, 1), (1, 96, 640), (96, 1, 640, 1)])
def test_lanes_are_of_an_axis_that_has_some(shape):
    X = mt.placeholder(shape, name="X")
    program = mt.lower([X, mt.compute(shape, lambda *at: X[at] * 2.0 + 1.0, name="Y")])
    schedule = mt.schedule_for(program, TARGET)
    loops = {loop.kind: loop.extent for loop in loops_of(schedule.program.body)}
    assert loops[LoopKind.VECTORIZE] == 640 and LoopKind.PARALLEL in loops
    assert_equivalent(program, schedule, targets=("c",))


def test_a_small_one_has_no_threads():
    program = mt.lower(mt.workloads.matmul(m=8, n=8, k=8))
    assert LoopKind.PARALLEL not in kinds(mt.schedule_for(program, TARGET))


def test_padding_is_not_asked_about_in_the_inner_loop():
    program = mt.lower(mt.workloads.conv2d_bias_relu(1, 32, 28, 28, 32, 3, padding=1))
    text = mt.schedule_for(program, TARGET).trace.as_python()
    assert "compute_inline('pad')" not in text


def padded_window(axes):
    """A 3 x 3 sum over padded pixels, its axes in this order: y, x and channels c."""
    sizes = {"y": 10, "x": 12, "c": 16}
    around = {"y": 1, "x": 1, "c": 0}
    X = mt.placeholder([sizes[a] for a in axes], name="X")
    step = {"y": mt.reduce_axis(3, "dy"), "x": mt.reduce_axis(3, "dx")}

    def padded(*at):
        tests = [test for a, i in zip(axes, at) if around[a] for test in (i >= 1, i <= sizes[a])]
        inside = X[tuple(i - around[a] for a, i in zip(axes, at))]
        return mt.if_then_else(mt.logical_and(*tests), inside, 0.0)

    def summed(*at):
        place = tuple(i + step[a] if a in step else i for a, i in zip(axes, at))
        return mt.sum(pad[place], axis=tuple(step.values()))

    pad = mt.compute([sizes[a] + 2 * around[a] for a in axes], padded, name="pad")
    return mt.lower([X, mt.compute([sizes[a] for a in axes], summed, name="Y")])


@pytest.mark.slow
@pytest.mark.parametrize("axes, inlined", [("yxc", True), ("cyx", False)])
def test_a_window_whose_lanes_are_channels_needs_no_padded_image(axes, inlined):
    """Loops over pixels are cut where the padding ends; pixels in lanes would be masked."""
    program = padded_window(axes)
    schedule = mt.schedule_for(program, TARGET)
    assert ("compute_inline('pad')" in schedule.trace.as_python()) == inlined
    x = np.random.default_rng(0).integers(-8, 8, program.inputs[0].shape).astype(np.float32)
    wanted = mt.interpret(program, x)
    got = mt.interpret(schedule.program, x)
    np.testing.assert_array_equal(got, wanted)


def test_the_end_of_a_derivation_that_was_cut_off_is_not_likelier(monkeypatch):
    """It has the chances of all that were left out."""
    sketches = generate_sketches(mt.lower(mt.workloads.matmul(m=512, n=512, k=512)), TARGET)
    weights = (*[0.1] * (len(sketches) - 1), 0.4)
    monkeypatch.setattr(first, "branch_weights", lambda histories: weights)
    assert first._likeliest_first(sketches)[0] is sketches[-1]
    monkeypatch.setattr(first, "MOST_SKETCHES", len(sketches))
    ordered = first._likeliest_first(sketches)
    assert ordered[0] is not sketches[-1]
    assert len(ordered) == len(sketches)


def steps_of(program):
    return [step.primitive for step in mt.schedule_for(program, TARGET).trace.steps]


def products(a, b, c):
    """C[c] = sum over k of A[a] * B[b]: a product, or with an axis b a batch of twelve."""
    extents = {"b": 12, "i": 40, "j": 96, "k": 64}
    A, B = (mt.placeholder([extents[x] for x in axes], name=n) for axes, n in ((a, "A"), (b, "B")))
    k = mt.reduce_axis(extents["k"], name="k")

    def element(*at):
        place = {**dict(zip(c, at)), "k": k}
        return mt.sum(A[tuple(place[x] for x in a)] * B[tuple(place[x] for x in b)], axis=k)

    return mt.lower([A, B, mt.compute([extents[x] for x in c], element, name="C")])


def test_operands_of_a_batch_are_read_in_place():
    """Each is read by few tiles: to pack them took up to 1.3 times as long on AVX2."""
    assert "cache_read" not in steps_of(products("bik", "bkj", "bij"))
    assert "cache_read" in steps_of(mt.lower(mt.workloads.matmul(192, 96, 64)))


@pytest.mark.parametrize(
    ("rows", "columns", "constant", "turned", "copied"),
    [
        (16, 1024, False, False, False),  # copying takes half as long as the product
        (16, 1024, True, False, True),  # it is copied once
        (16, 1024, False, True, True),  # its columns are no vectors
        (192, 1024, False, False, True),
        (32, 2048, False, False, False),
        (96, 2048, False, False, True),  # each of its rows lies in pages of its own
    ],
)
def test_a_matrix_is_copied_where_many_rows_need_it(rows, columns, constant, turned, copied):
    a, b = mt.placeholder((rows, 64), name="A"), (columns, 64) if turned else (64, columns)
    b, k = mt.placeholder(b, name="B"), mt.reduce_axis(64, name="k")
    element = lambda i, j: mt.sum(a[i, k] * (b[j, k] if turned else b[k, j]), axis=k)
    c = mt.compute((rows, columns), element, name="C")
    program = mt.lower([a, b, c], constants=[b] if constant else [])
    assert ("cache_read" in steps_of(program)) == copied


def test_what_is_computed_of_a_constant_is_copied_though_few_rows_need_it():
    a, w = mt.placeholder((16, 64), name="A"), mt.placeholder((256, 64), name="W")
    turned = mt.compute((64, 256), lambda k, j: w[j, k], name="T")
    k = mt.reduce_axis(64, name="k")
    c = mt.compute((16, 256), lambda i, j: mt.sum(a[i, k] * turned[k, j], axis=k), name="C")
    assert "cache_read" in steps_of(mt.lower([a, w, c], constants=[w]))


@pytest.mark.parametrize(
    ("rows", "columns", "in_parts"),
    [(4096, 1000, True), (100_000, 32, True), (300, 5000, False), (100, 64, False)],
)
def test_all_cores_sum_up_columns(rows, columns, in_parts):
    """One of them did, as a strip might be as long as the row."""
    a, k = mt.placeholder((rows, columns), name="A"), mt.reduce_axis(rows, name="k")
    b = mt.compute((columns,), lambda j: mt.sum(a[k, j], axis=k), name="B")
    schedule = mt.schedule_for(mt.lower([a, b]), TARGET)
    assert ("rfactor" in [step.primitive for step in schedule.trace.steps]) == in_parts
    threads = [
        loop.extent for loop in loops_of(schedule.program.body) if loop.kind is LoopKind.PARALLEL
    ]
    assert (max(threads, default=1) >= 2) == (rows * columns > 100_000)


def test_sums_of_columns_that_are_many_need_no_parts():
    a, k = mt.placeholder((8, 512, 96), name="A"), mt.reduce_axis(512, name="k")
    b = mt.compute((8, 96), lambda i, j: mt.sum(a[i, k, j], axis=k), name="B")
    assert "rfactor" not in steps_of(mt.lower([a, b]))


@pytest.mark.parametrize("bits", [256, 512])
def test_what_is_read_down_its_columns_is_as_wide_as_a_line(bits):
    program = mt.lower(mt.workloads.transpose_add(1024, 1024))
    schedule = mt.schedule_for(program, Target("c", num_cores=2, vector_bits=bits))
    (lanes,) = (loop for loop in loops_of(schedule.program.body) if loop.kind is LoopKind.VECTORIZE)
    assert lanes.extent == 16


@pytest.mark.slow
@pytest.mark.parametrize(
    "channels, pixels, in_place",
    [
        (64, (24, 24), False),  # channels in lanes, a strip of a row at a time
        (64, (1000,), True),  # the strip of a long row is left to no cache
        (3, (64, 64), True),  # transposing takes as long as the sum
        (3, (17, 17), False),  # half of the last lanes would be empty
    ],
)
def test_results_are_not_transposed_where_that_costs_more(channels, pixels, in_place):
    x = mt.placeholder((1, channels, *pixels), name="X")
    w = mt.placeholder((64, channels, *[3] * len(pixels)), name="W")
    conv = mt.ops.conv1d if len(pixels) == 1 else mt.ops.conv2d
    y = conv(x, w, padding=1)
    schedule = mt.schedule_for(mt.lower([x, w, y]), TARGET)
    assert ("cache_write" not in schedule.trace.as_python()) == in_place


def test_results_lie_as_lanes_do():
    """Of a product of two transposed operands either may be packed."""
    for axes in (("ki", "jk", "ij"), ("bki", "bjk", "bij")):
        steps = mt.schedule_for(products(*axes), TARGET).trace.steps
        layouts = [s.arguments["buffer"] for s in steps if s.primitive == "transform_layout"]
        assert layouts and not any(isinstance(name, str) for name in layouts)
        assert "cache_write" not in [s.primitive for s in steps]


def test_weights_of_the_phases_of_a_transposed_convolution_are_packed():
    """A phase is no batch: all pixels of an image share its weights."""
    x, w = mt.placeholder((1, 32, 8, 8), name="x"), mt.placeholder((32, 32, 4, 4), name="w")
    y = mt.ops.conv_transpose2d(x, w, stride=2, padding=1)
    assert "cache_read" in steps_of(mt.lower([x, w, y]))


def test_a_sum_of_everything_under_a_condition():
    """It has no axis that could be lanes."""
    A, k = mt.placeholder((9,), name="A"), mt.reduce_axis(9, "k")
    inside = mt.if_then_else(k > 0, A[k - 1], 0.0)
    program = mt.lower([A, mt.compute((), lambda: mt.sum(inside, axis=k), name="Y")])
    x = np.arange(9, dtype=np.float32)
    assert mt.interpret(mt.schedule_for(program, TARGET).program, x) == 28


def test_images_of_one_channel_each_are_padded_one_by_one():
    """The axis of extent 1 over the channels of a group does not slide."""
    X, Wt = mt.placeholder((1, 4, 9, 9), name="X"), mt.placeholder((4, 1, 3, 3), name="Wt")
    rc, ry, rx = mt.reduce_axis(1, "rc"), mt.reduce_axis(3, "ry"), mt.reduce_axis(3, "rx")

    def padded(n, c, y, x):
        inside = mt.logical_and(y >= 1, y < 10, x >= 1, x < 10)
        return mt.if_then_else(inside, X[n, c, y - 1, x - 1], 0.0)

    def summed(n, c, y, x):
        return mt.sum(P[n, c + rc, y + ry, x + rx] * Wt[c, rc, ry, rx], axis=(rc, ry, rx))

    P = mt.compute((1, 4, 11, 11), padded, name="P")
    program = mt.lower([X, Wt, mt.compute((1, 4, 9, 9), summed, name="Y")])
    paths = survey_all(mt.schedule_for(program, TARGET).program).paths
    shared = [loop for loop in paths["P"] if loop in paths["Y"]]
    assert [loop.extent for loop in shared if loop.extent > 1] == [4]


@pytest.mark.parametrize("wrong", [None, 3, "x", []])
def test_what_is_no_program(wrong):
    with pytest.raises(mt.ArgumentError, match="program"):
        mt.schedule_for(wrong)


def test_it_is_derived_once(monkeypatch, tmp_path):
    tmp_path.chmod(0o700)
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path))
    program = mt.lower(mt.workloads.matmul(m=32, n=32, k=32))
    made = mt.schedule_for(program, TARGET)
    monkeypatch.setattr(first, "_derived", None)
    assert mt.schedule_for(program, TARGET).trace.as_python() == made.trace.as_python()
    with pytest.raises(TypeError):  # for another target it is derived
        mt.schedule_for(program, Target("c", num_cores=1, vector_bits=128))


def test_conditions_of_a_guarded_sum_weigh_as_those_of_any_other():
    """Padded terms are skipped along y; along x the padded image is stored, not a select."""
    data, weight, conv = mt.workloads.conv2d(1, 64, 14, 14, 64, 3, padding=1, layout="NHWC")
    program = mt.lower([data, weight, conv], constants=[weight])
    s = mt.schedule_for(program, mt.Target("c", num_cores=2, vector_bits=512))
    assert [x.arguments["loop"] for x in s.trace.steps if x.primitive == "skip_padding"] == ["y"]
    assert "pad" in s.get_blocks()


@pytest.mark.parametrize(
    ("element", "shape"),
    [
        (lambda A, i, j: A[i, j % 24], (30, 24)),
        (lambda A, i, j: A[i, j // 24], (30, 10)),
        (lambda A, i, j: A[i // 3, j // 24] * A[i % 3, j % 24], (10, 24)),
        (lambda A, i, j: A[i, j // 48] + A[i, j % 24], (30, 24)),
    ],
)
def test_what_repeats_along_a_row_is_a_loop_of_its_own(element, shape):
    A = mt.placeholder(shape, name="A")
    program = mt.lower([A, mt.compute((30, 240), lambda i, j: element(A, i, j), name="B")])
    schedule = mt.schedule_for(program, TARGET)
    *_, inner = schedule.get_loops("B")
    assert loop_sites(schedule.program)[inner].loop.extent == 24
    assert loop_sites(schedule.program)[inner].loop.kind is LoopKind.VECTORIZE
    assert_equivalent(program, schedule, targets=("interpreter", "c"))


@pytest.mark.parametrize("element", [lambda A, j: A[j % 4], lambda A, j: A[(j + 5) % 24]])
def test_what_repeats_too_soon_or_in_between_is_not(element):
    A = mt.placeholder((240,), name="A")
    program = mt.lower([A, mt.compute((7, 240), lambda i, j: element(A, j) + i, name="B")])
    *_, inner = mt.schedule_for(program, TARGET).get_loops("B")
    assert loop_sites(mt.schedule_for(program, TARGET).program)[inner].loop.extent == 240


def test_a_part_of_an_axis_with_one_iteration_stays_where_it_is():
    """It has more in another candidate of the same sketch, whose loops are the same."""
    X = mt.placeholder((8, 12, 1), name="X")
    program = mt.lower([X, mt.compute((8, 12, 1), lambda *at: X[at] + 1.0, name="Y")])
    orders = set()
    for factor in (1, 2):
        s = mt.Schedule(program)
        outer, inner = s.split(s.get_loops("Y")[1], [None, factor])
        cut_long_loops(s)
        orders.add(tuple(s.get_loops("Y")))
        assert s.get_loops("Y")[-1] == inner and outer in s.get_loops("Y")
    assert len(orders) == 1


@pytest.mark.parametrize("cores", [1, 3])
def test_several_are_derived_at_one_time(monkeypatch, tmp_path, cores):
    W = mt.workloads
    made = [W.matmul(m=64, n=48, k=32), W.softmax(96, 64), W.row_sum(50, 70), W.matmul(8, 8, 8)]
    programs = [mt.lower(one) for one in made]
    alone = [mt.schedule_for(program, TARGET) for program in programs]
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(first, "usable_cores", lambda: cores)
    mt.schedule_for(programs[2], TARGET)  # and one of them is known
    together = first.schedules_for(programs, TARGET)
    assert [one.trace for one in together] == [one.trace for one in alone]
    assert [one.program for one in together] == [one.program for one in alone]
    monkeypatch.setattr(first, "_derived", None)
    again = first.schedules_for(programs, TARGET)
    assert [one.trace for one in again] == [one.trace for one in alone]


def test_none_are_derived_of_none():
    assert first.schedules_for([], TARGET) == []
