"""Rule K3: what an intrinsic does stays what it means, whatever is done afterwards."""

import pytest

import minitensor as mt
from tests.unit.schedule.common import Refusal, check, each, refused, run_refusal
from tests.unit.schedule.intrinsics import copy2d, done, elementwise, product, tiled, twice, uneven
from tests.unit.schedule.programs import copied_product


def copied(strides=None):
    """A copy through a temporary, the second half of it by an intrinsic."""
    A = mt.placeholder((8, 16), name="A")
    B = mt.compute((8, 16), lambda i, j: A[i, j] + 1, name="B")
    C = mt.compute((4, 4), lambda x, y: B[x, y], name="C")
    s = mt.Schedule(mt.lower([A, C]))
    if strides:
        s.storage_align("B", 0, strides["x"][0])
    s.tensorize("x", copy2d(strides=strides))
    return s


def divided():
    """Quotients by an intrinsic."""
    x, z = mt.placeholder((4,), name="x"), mt.placeholder((4,), name="z")
    y = mt.compute((4,), lambda i: x[i] / z[i], name="y")
    A, B = mt.placeholder((4,), name="A"), mt.placeholder((4,), name="B")
    s = mt.Schedule(mt.lower([A, B, mt.compute((4,), lambda i: A[i] / B[i], name="C")]))
    s.tensorize("i", mt.intrinsic("quotients", [x, z, y], ";"))
    return s


def through(strides=None):
    """A copy into a temporary by an intrinsic."""
    A = mt.placeholder((4, 4), name="A")
    B = mt.compute((4, 4), lambda i, j: A[i, j], name="B")
    C = mt.compute((4, 4), lambda x, y: B[x, y] + 1, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    if strides:
        s.storage_align("B", 0, strides[0])
    s.tensorize("i", copy2d(strides={"y": strides} if strides else None))
    return s


def converted():
    """Numbers widened by an intrinsic."""
    x = mt.placeholder((4,), "int8", name="x")
    y = mt.compute((4,), lambda i: x[i].astype("int32"), name="y")
    A = mt.placeholder((4,), "int8", name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((4,), lambda i: A[i].astype("int32"), name="C")]))
    s.tensorize("i", mt.intrinsic("conversion", [x, y], ";"))
    return s


def packed():
    """A copy whose rows an intrinsic copies."""
    x = mt.placeholder((7,), "uint8", name="x")
    y = mt.compute((7,), lambda i: x[i], name="y")
    s = copied_product()
    s.tensorize("A_global_ax1", mt.intrinsic("rows", [x, y], ";"))
    return s


AFTERWARDS = [
    Refusal(
        "split",
        "K3",
        uneven,
        lambda s: s.split("i_0", [None, 4]),
        r"K3: .*\(twice would not do C any more: it runs if i_0_0\*4",
        marks=("; <- tensorized", "# <- done by an intrinsic"),
    ),
    Refusal("reorder", "K3", done, lambda s: s.reorder("i_1", "k_0"), "k_0 is serial"),
    Refusal("reorder", "K3", done, lambda s: s.reorder("j_1", "i_1"), "would name no intrinsic"),
    Refusal("add_unit_loop", "K3", done, lambda s: s.add_unit_loop("C"), "u is serial"),
    Refusal("vectorize", "K3", uneven, lambda s: s.vectorize("i_0"), r"any more: i_0 is\)"),
    Refusal(
        "annotate",
        "K3",
        done,
        lambda s: s.annotate("i_1", "intrinsic", twice().key),
        "twice would not do C any more",
    ),
    Refusal("unannotate", "K3", done, lambda s: s.unannotate("i_1", "intrinsic"), "would name no"),
    Refusal(
        "compute_inline",
        "K3",
        elementwise("C"),
        lambda s: s.compute_inline("B"),
        "elementwise_C would not do C any more: it computes",
    ),
    Refusal(
        "reverse_compute_inline",
        "K3",
        elementwise("B"),
        lambda s: s.reverse_compute_inline("C"),
        "K3: ",
    ),
    Refusal(
        "compute_at",
        "K3",
        elementwise("B"),
        lambda s: s.compute_at("B", s.get_loops("C")[0]),
        "B would not be tensorized any more",
    ),
    Refusal(
        "reverse_compute_at",
        "K3",
        elementwise("C"),
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
        "C would not be tensorized any more",
    ),
    Refusal(
        "cache_read",
        "K3",
        lambda: copied({"x": [24, 1]}),
        lambda s: s.cache_read("C", "B", "local"),
        r"x must have stride 24 where axis 0 of B_local, of shape \[8, 16\], has 16",
    ),
    Refusal(
        "use_reciprocal",
        "K3",
        divided,
        lambda s: s.use_reciprocal("C", "B"),
        "quotients would not do C any more",
    ),
    Refusal(
        "widen",
        "K3",
        converted,
        lambda s: s.widen("C", "A", "int16"),
        "conversion would not do C any more",
    ),
    Refusal(
        "pad",
        "K3",
        packed,
        lambda s: s.pad("i", 4),
        "rows would not do A_global any more",
    ),
    Refusal(
        "cache_write",
        "K3",
        lambda: through([8, 1]),
        lambda s: s.cache_write("B", "local"),
        "y must have stride 8 where axis 0 of B_local",
    ),
    Refusal(
        "storage_align",
        "K3",
        lambda: through([4, 1]),
        lambda s: s.storage_align("B", 0, 16),
        "y must have stride 4 where axis 0 of B, of shape",
    ),
    Refusal(
        "transform_layout",
        "K3",
        through,
        lambda s: s.transform_layout("B", lambda i, j: (j, i)),
        r"B\[j, i\] is written where the intrinsic has y\[i, j\]|axis 0 differs",
    ),
]
"""Steps after tensorize that would leave the loops no match."""


@each(AFTERWARDS)
def test_afterwards(case):
    run_refusal(case)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["split", "fuse", "parallel", "vectorize", "unroll", "bind", "serial"]
)
def test_the_loops_themselves_are_done_with(name):
    arguments = {"split": ("i_1", [2, 2]), "fuse": ("i_1", "j_1"), "bind": ("i_1", "threadIdx.x")}
    s = done()
    call = getattr(s, name)
    refused(s, "R1", "i_1 is tensorize", lambda: call(*arguments.get(name, ("i_1",))))
    refused(s, "R1", "i_1 is tensorize", lambda: s.tensorize("i_1", product()))


def test_the_layout_may_change_while_it_matches():
    s = through()
    s.transform_layout("B", lambda i, j: (0, i, 1, j))
    check(s)
    s.storage_align("B", 1, 16)
    s.set_scope("B", "local")
    check(s)


def test_notes_on_other_loops_mean_nothing():
    s = tiled()
    s.annotate("i_0", "intrinsic", "nothing")
    s.annotate("j_1", "intrinsic", "nothing")
    s.tensorize("i_1", product())
    s.annotate("k_1", "intrinsic", 3)
    check(s)
    mt.codegen.generate(s.program, mt.Target("c", num_cores=1, vector_bits=256), check=True)
