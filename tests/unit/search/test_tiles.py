"""Register tiles: their sizes with their odds, their panels, and the parts around them."""

import itertools
from types import SimpleNamespace

import pytest

import minitensor as mt
from minitensor.ir import LoopKind
from minitensor.ir.program import survey_all
from minitensor.runtime import Caches
from minitensor.search import generate_sketches
from minitensor.search.sketch import factors, tiles
from minitensor.search.sketch.blocks import operands, pairs, uses
from minitensor.search.sketch.rule import State
from minitensor.testing import assert_equivalent
from tests.parts import some
from tests.unit.search.programs import product_by_axes

W = mt.workloads
TARGET = mt.Target("c", num_cores=4, vector_bits=256)


def test_rows_of_a_tile_divide_a_short_axis_evenly():
    few, many = (SimpleNamespace(registers=n) for n in (16, 32))
    assert factors.rows(few, 13) == [1, 2, 3, 4, 5, 6], "5, 5 and 3"
    assert factors.rows(few, 4) == [1, 2, 3, 4]
    assert factors.rows(few, 5) == [1, 2, 3, 4, 5]
    assert factors.rows(many, 13) == [2, 4, 6, 7, 8, 12, 13]
    assert factors.rows(many, 45) == [2, 4, 6, 7, 8, 12, 14], "12 four times"
    assert factors.rows(few, 500) == [1, 2, 3, 4, 6]


def test_factors_that_leave_little_over_and_fill_registers_are_likelier():
    s = mt.Schedule(mt.lower(product_by_axes("ik", "kj")))
    factors.height(s, [2, 4, 6], 8, 32)
    factors.width(s, [8, 16, 24, 32], 24, 8)
    factors.ways(s)
    heights, widths, ways = (step.arguments["probs"] for step in s.trace.steps)
    assert list(heights) == [2, 4, 1.78]
    assert list(widths) == [1, 1.69, 2, 0.42]
    assert list(ways) == [1, 2, 4, 4]
    for extent in (1, 7, 10**9):  # nothing is left without a chance
        factors.height(s, [2, 14], extent, 32)
        assert min(s.trace.steps[-1].arguments["probs"]) >= 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("channels", "panel"), [(16, 8), (12, 12), (40, 8), (100, 20)])
def test_a_panel_is_part_of_a_group(channels, panel):
    """One with channels of two groups would be read lane by lane."""
    groups = W.conv2d(1, 32, 14, 14, 4 * channels, 1, groups=4)
    for sketch in generate_sketches(mt.lower(groups), TARGET):
        if "weight packed" in sketch.explain():
            s = sketch.apply(seed=0)
            assert s.program.buffers["weight_global"].shape[-1] == panel
            assert "Lanes" not in repr(mt.codegen.lowered(s.program, TARGET).body)
            break
    else:
        pytest.fail("nothing is packed")


def test_sizes_follow_the_machine():
    def candidates(bits):
        program = mt.lower(W.matmul(512, 512, 512))
        target = mt.Target("c", num_cores=4, vector_bits=bits)
        packed = next(s for s in generate_sketches(program, target) if "B packed" in s.explain())
        found = [s.arguments["candidates"] for s in packed.trace.steps if s.is_decision]
        lanes = [s.arguments["factors"][-1] for s in packed.trace.steps if s.primitive == "split"]
        return found, set(lanes) - {None}

    rows, lanes = candidates(512)[0][0], candidates(512)[1]
    assert max(rows) == 14
    assert 16 in lanes
    assert max(candidates(128)[0][0]) == 6
    assert 4 in candidates(128)[1]
    assert 4 in candidates(0)[1]


def test_candidates_reach_over_an_extent_once():
    assert factors.up_to(5, [1, 2, 4, 8, 16]) == [1, 2, 4, 8]
    assert factors.up_to(1, [2, 4]) == [2]
    assert factors.parts(12, 2) == [1, 2, 4, 8, 12]
    assert factors.parts(1000, 3, smallest=14) == [1, 3, 6, 12, 24, 48]


def test_beside_few_rows_three_vectors_are_likelier():
    s = mt.Schedule(mt.lower(product_by_axes("ik", "kj")))
    for extent, registers, few in [(7, 16, True), (4, 16, True), (6, 16, False), (14, 16, False),
                                   (1, 16, False), (7, 32, False), (500, 16, False)]:  # fmt: skip
        heights = factors.rows(SimpleNamespace(registers=registers), extent)
        assert factors.are_few(heights, extent, registers) == few, (extent, registers)
    factors.count(s, [1, 2, 3, 4], 96, 8)
    factors.count(s, [1, 2, 3, 4], 96, 8, few=True)
    plain, beside_few = (step.arguments["probs"] for step in s.trace.steps)
    assert list(plain) == [1, 4, 2, 1] and list(beside_few) == [1, 2, 4, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "bits, columns", [(256, n) for n in (8, 16, 20, 24, 32, 40, 72)] + [(512, 48)]
)
def test_the_likeliest_tile_fits_in_the_registers(bits, columns):
    """Its sums, a row of what is loaded, and the number that all of that row are multiplied by."""
    target = mt.Target("c", num_cores=2, vector_bits=bits)
    program = mt.schedule_for(mt.lower(W.matmul(192, columns, 96)), target).program
    tile = [(loop.kind, loop.extent) for loop in survey_all(program).paths["C"]]
    rows, vectors = (extent for kind, extent in tile if kind is LoopKind.UNROLL)
    assert (LoopKind.VECTORIZE, bits // 32) in tile
    assert (rows + 1) * vectors + 1 <= {256: 16, 512: 32}[bits]


def test_even_parts_are_likelier():
    s = mt.Schedule(mt.lower(product_by_axes("ik", "kj")))
    factors.part(s, [1, 2, 4, 7], 2)
    factors.part(s, [1, 2, 4, 7], 2, 7, 2)
    factors.part(s, [4, 8, 16, 32, 56], 32, 56, 2)
    factors.part(s, [1, 2, 4, 7], 4, 7, 2, most=4)
    plain, even, image, dear = (step.arguments["probs"] for step in s.trace.steps)
    assert list(plain) == [0.5, 1, 0.5, 0.36]
    assert list(even) == [0.5, 0.34, 0.17, 0.36], "one of two cores has 4 of 7"
    assert list(dear) == [0.33, 0.17, 0.34, 0.01], "7 parts read an operand 7 times"
    assert list(image) == [0.25, 0.33, 0.17, 0.34, 0.55], "16 parts are 14 of four rows: 32 and 24"


@pytest.mark.parametrize(
    ("image", "channels", "filters", "wanted"),
    [
        (7, 512, 512, 1),  # the weights are read once, the image from the L2 cache
        (14, 256, 256, 1),
        (28, 256, 256, 4),  # the image is larger than half of the cache
        (56, 64, 64, 32),  # the weights stay in the cache
        (28, 128, 128, 4),  # too few filters for threads to share them
    ],
)
def test_parts_of_an_image(image, channels, filters, wanted):
    """The usual number of parts, on two cores with an L2 cache of 512 KiB."""
    program = mt.lower(W.conv2d(1, channels, image, image, filters, 3, padding=1))
    target = mt.Target("c", num_cores=2, vector_bits=256)
    state = State(mt.Schedule(program), ("conv",), target=target)
    pair = next(one for one in pairs(state.block, 8) if one.lanes.var == "f")
    packing = tiles.Packing(pair.lanes_packed)
    assert tiles.usual_parts(state, pair, packing, 2) == (wanted, filters > 128)
    also_rows = tiles.Packing(pair.lanes_packed, pair.lanes_packed)
    few = max(wanted, 4), False
    assert tiles.usual_parts(state, pair, also_rows, 2) == few, "packed for a part"


@pytest.mark.parametrize(
    ("depth", "image", "channels", "wanted"),
    [
        (16, 56, 64, (60, True)),  # the volume is read once, and four times by columns otherwise
        (8, 28, 128, (18, True)),
        (4, 14, 256, (6, True)),  # threads share the filters
        (4, 28, 96, (4, False)),  # 4 of each axis are as small as that
    ],
)
def test_parts_of_a_volume(depth, image, channels, wanted):
    """Those of all axes together, as soon as that saves reads of a volume."""
    program = mt.lower(W.conv3d(1, channels, depth, image, image, channels, 3, padding=1))
    target = mt.Target("c", num_cores=2, vector_bits=256)
    state = State(mt.Schedule(program), ("conv",), target=target)
    pair = next(one for one in pairs(state.block, 8) if one.lanes.var == "f")
    found = tiles.usual_parts(state, pair, tiles.Packing(pair.lanes_packed), 2)
    assert found == wanted


def test_threads_share_phases_of_unequal_work():
    """Along an axis a phase has two terms or one of a window of three."""
    program = mt.lower(W.conv2d_transpose(1, 32, 16, 16, 32, 3, stride=2))
    text = mt.schedule_for(program, TARGET).trace.as_python()
    (order,) = (line for line in text.splitlines() if "reorder" in line and "conv_rc" in line)
    assert order.index("y_0_0") < order.index("y_1_0")


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "phases"), [(4, ("i2 % 2", "i3 % 2")), (3, ())])
def test_weights_of_a_phase_are_packed_side_by_side(kernel, phases):
    """Each phase of a transposed convolution takes every second element of a window."""
    x, w = (
        mt.placeholder((1, 16, 4, 4), name="x"),
        mt.placeholder((16, 32, kernel, kernel), name="w"),
    )
    y = mt.ops.conv_transpose2d(x, w, stride=2, padding=1)
    program = mt.lower([x, w, y])
    sketches = [s for s in generate_sketches(program, TARGET) if "w packed" in s.explain()]
    by_phases = [s for s in sketches if "skip_zeros" in str(s.apply(seed=0).trace)]
    assert by_phases
    schedule = by_phases[0].apply(seed=0)
    packed = next(b for n, b in schedule.program.buffers.items() if n.startswith("w_"))
    assert len(packed.shape) == 5 + len(phases)
    assert packed.shape[1 : 1 + len(phases)] == (2,) * len(phases)
    assert_equivalent(program, schedule, targets=("interpreter", "c"))


def heights_of(program, bits=512):
    """The rows of a tile and how likely they are, in the first sketch that packs weights."""
    wide = mt.Target("c", num_cores=2, vector_bits=bits)
    caches = Caches(32 << 10, 1 << 20)
    sketch = next(
        s for s in generate_sketches(program, wide, caches=caches) if " packed" in s.explain()
    )
    steps = [s.arguments for s in sketch.steps if s.primitive == "sample_categorical"]
    (found,) = (a for a in steps if {6, 8, 14} <= set(a["candidates"]))
    return dict(zip(found["candidates"], found["probs"]))


@pytest.mark.parametrize(("k", "likely"), [(1024, 7), (1040, 8), (512, 8), (2048, 7)])
def test_rows_whose_lines_drive_each_other_out_are_unlikely(k, likely):
    """Rows that are 4096 bytes apart: L1 has a place for each in each of its eight ways."""
    found = heights_of(mt.lower(W.matmul(560, 512, k)))
    assert max(found, key=found.get) == likely
    assert (found[14] < 0.3 * found[likely]) == (k % 1024 == 0)


def test_an_image_that_is_not_written_by_channels_has_its_own_distances():
    state = SimpleNamespace(
        block=mt.lower(W.conv2d(1, 512, 30, 30, 64, 3, layout="NHWC")).blocks["conv"],
        program=mt.lower(W.conv2d(1, 512, 30, 30, 64, 3, layout="NHWC")),
        caches=Caches(32 << 10, 1 << 20),
    )
    x = next(i for i in state.block.iters if i.var == "x")
    assert factors.lines_of_rows(state, x, (), "") == 16, "a line for each second pixel"
    assert factors.lines_of_rows(state, x, state_loads(state, x), "") is None


def state_loads(state, axis):
    return [load for load in operands(state.block) if uses(load, axis)]


def skipped(program, bits=512):
    """The axes along which each sketch of register tiles leaves out what lies in the padding."""
    found = set()
    target, caches = mt.Target("c", num_cores=2, vector_bits=bits), Caches(32 << 10, 512 << 10)
    for sketch in generate_sketches(program, target, caches=caches):
        if "register tiles" in sketch.explain():
            steps = [s.arguments for s in sketch.steps if s.primitive == "skip_padding"]
            parts = "summed in parts" in sketch.explain()
            found.add((tuple(a["loop"] for a in steps), parts))
    return found


def padded(known, layout="NHWC", **sizes):
    given = {"n": 1, "c": 64, "h": 14, "w": 14, "f": 64, "kernel": 3, "padding": 1, **sizes}
    data, weight, conv = W.conv2d(**given, layout=layout)
    return mt.lower([data, weight, conv], constants=[weight] if known else [])


def test_padding_is_left_out_along_axes_that_have_one_place_in_a_tile():
    assert skipped(padded(True)) == {(("y",), False)}
    assert (("y",), False) in skipped(padded(True, layout="NCHW"))  # channels side by side
    assert skipped(padded(True, kernel=1, padding=0)) == {((), False)}
    parts = skipped(padded(True, c=512, kernel=5, padding=2))
    assert (("y",), False) in parts
    assert all(not axes for axes, in_parts in parts if in_parts)


def test_padding_stays_where_looking_through_the_weights_takes_longer():
    assert skipped(padded(False)) == {((), False)}
    assert skipped(padded(False, h=56, w=56)) == {(("y",), False)}


def test_padding_stays_where_it_would_be_asked_for_in_the_midst_of_a_tile():
    assert skipped(padded(True, c=4)) == {((), False)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "bits"),
    some(itertools.product(("NCHW", "NHWC"), (256, 512)), lambda number: number in (0, 3)),
)
def test_a_schedule_without_padding_gives_the_same(layout, bits):
    program = padded(True, layout=layout, c=24, f=24, h=6, w=9)
    for sketch in generate_sketches(program, mt.Target("c", num_cores=4, vector_bits=bits)):
        if "skip_padding" in str(sketch):
            assert_equivalent(program, sketch.apply(seed=0), targets=("interpreter", "c"))
            break
    else:
        pytest.fail("nothing is left out")
