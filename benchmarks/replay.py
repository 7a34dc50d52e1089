"""How long it takes to apply a trace of 40 steps to a convolution with bias and relu."""

from __future__ import annotations

import minitensor as mt
from benchmarks.common import Figure, figure, main, seconds

STEPS = 40


def program() -> mt.Program:
    return mt.lower(
        mt.workloads.conv2d_bias_relu(n=1, c=64, h=56, w=56, f=64, kernel=3, padding=1),
        name="conv",
    )


def schedule() -> mt.Schedule:
    """A schedule of 40 primitives, of the kind that a search replays."""
    s = mt.Schedule(program())
    n, f, y, x, rc, ry, rx = s.get_loops("conv")
    f_0, f_1, f_2 = s.split(f, [None, 2, 16])
    y_0, y_1 = s.split(y, [None, 4])
    x_0, x_1 = s.split(x, [None, 8])
    rc_0, rc_1 = s.split(rc, [None, 16])
    s.reorder(y_0, f_0, y_1, x_0, rc_0, rc_1, ry, rx, x_1, f_1, f_2)
    weight = s.cache_read("conv", "weight", "global")
    s.transform_layout(weight, lambda f, c, ry, rx: (f // 32, c, ry, rx, f % 32))
    s.vectorize(f_2)
    s.unroll(f_1)
    s.unroll(x_1)
    s.unroll(rx)
    s.unroll(ry)
    s.split(y_1, [None, 2])
    rc_2, rc_3 = s.split(rc_1, [None, 2])
    s.unroll(rc_3)
    s.annotate(rc_2, "note", "hot")
    _, relu_f, relu_y, relu_x = s.reverse_compute_at("relu", x_0)
    s.decompose_reduction("conv", rc_0)
    s.transform_layout("conv", lambda n, f, y, x: (n, y, x, f))
    r_0, r_1 = s.split(relu_f, [None, 16])
    s.reorder(r_0, relu_y, relu_x, r_1)
    s.unroll(relu_x)
    s.unroll(r_1)
    image = s.cache_read("conv", "pad", "global")
    s.compute_inline("pad")
    _, i_c, i_y, i_x = s.compute_at(image, y_0)
    c_0, c_1 = s.split(i_c, [None, 16])
    s.split(i_x, [2, None])
    s.reorder(c_0, i_y, c_1)
    s.storage_align(image, 2, 16, 0)
    w_f, w_c, w_y, w_x = s.get_loops(weight)
    w_0, w_1 = s.split(w_f, [None, 32])
    s.reorder(w_0, w_c, w_y, w_x, w_1)
    s.unroll(w_x)
    fused = s.fuse(w_0, w_c)
    s.parallel(fused)
    s.add_unit_loop(w_y)
    unit = s.add_unit_loop(i_y)
    s.unroll(unit)
    top = s.fuse(n, y_0)
    s.parallel(top)
    return s


def measure() -> list[Figure]:
    definition, trace = program(), schedule().trace
    assert len(trace) == STEPS, len(trace)
    note = f"{STEPS} primitives on conv + bias + relu, median of 25"
    unchecked = seconds(lambda: trace.apply(definition, check=False), 25)
    checked = seconds(lambda: trace.apply(definition, check=True), 25)
    return [
        figure("replay, check=False", unchecked, "ms", 15.0, note),
        figure("replay, check=True", checked, "ms", None, note),
    ]


if __name__ == "__main__":
    main(measure, __doc__)
