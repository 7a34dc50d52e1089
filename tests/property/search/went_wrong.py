"""Schedules whose structures were once wrong, as random schedules found them."""

import minitensor as mt
from minitensor.testing import matching_intrinsic


def tensorize(s, block, loop, fixed=False):
    """Have a loop around a block done by an intrinsic that is drawn for it."""
    loops = s.get_loops(block)
    s.tensorize(loop, matching_intrinsic(s.program, block, loops[loops.index(loop) :], fixed))


def two_partial_sums_and_a_moved_producer():
    A = mt.placeholder((1, 3, 13), "uint8", name="A")
    B = mt.placeholder((4,), "uint8", name="B")
    R = mt.compute(
        (4,),
        lambda axes0: (
            (
                mt.if_then_else(
                    mt.logical_and(axes0 >= 1, axes0 < 3),
                    B[(axes0 * 2) + (-1)],
                    mt.const(0, "uint8"),
                )
                * mt.if_then_else(
                    axes0 >= 2, A[0, mt.minimum(axes0, 2), axes0 + (-2)], mt.const(1, "uint8")
                )
            )
            + axes0.astype("uint8")
        ),
        name="R",
    )
    P = mt.compute((4,), lambda axes0: B[axes0], name="P")
    k0 = mt.reduce_axis(31, name="k0")
    S = mt.compute(
        (4,),
        lambda axes0: mt.sum(
            mt.select(
                (
                    B[axes0]
                    * mt.if_then_else(
                        mt.logical_and(axes0 >= 1, axes0 < 5), R[axes0 + (-1)], mt.const(1, "uint8")
                    )
                )
                == P[axes0],
                B[axes0]
                * mt.if_then_else(
                    mt.logical_and(axes0 >= 1, axes0 < 5), R[axes0 + (-1)], mt.const(1, "uint8")
                ),
                P[axes0],
            ),
            axis=k0,
        ),
        name="S",
    )
    program = mt.lower([A, B, S], name="generated")
    s = mt.Schedule(program)
    B_global = s.cache_read("P", "B", "global")
    s.rfactor("k0", axis=-2)
    s.bind("axes0", "blockIdx.x")
    tensorize(s, "P", "P_axes0")
    s.compute_at("R", "S_axes0")
    s.annotate(B_global, "note", 1)
    S_rf2 = s.rfactor("S_k0", axis=-2)
    s.reverse_compute_at(S_rf2, "k0")
    s.vectorize("k0")
    tensorize(s, B_global, "ax0", fixed=True)
    return s


def a_move_under_a_loop_of_one():
    A = mt.placeholder((8, 3, 31, 1), "int64", name="A")
    places = mt.placeholder((6,), "int32", name="places")
    P = mt.compute(
        (3, 40),
        lambda axes0, axes1: (
            mt.maximum(
                mt.maximum(
                    mt.if_then_else(
                        mt.logical_and(axes1 >= 0, axes1 < 1),
                        A[
                            mt.minimum(axes1, 7),
                            ((axes0 * 40) + axes1) % 3,
                            mt.minimum(axes1, 30),
                            axes1,
                        ],
                        mt.const(1, "int64"),
                    ),
                    A[axes0 // 2, axes0, 30, 0],
                ),
                mt.if_then_else(
                    mt.logical_and(axes0 >= 0, axes0 < 2),
                    A[axes0, axes0 * 2, axes1 % 31, 0],
                    mt.const(0, "int64"),
                ),
            )
            + axes1.astype("int64")
        ),
        name="P",
    )
    k0 = mt.reduce_axis(2, name="k0")
    k1 = mt.reduce_axis(1, name="k1")
    R = mt.compute(
        (8, 3, 31, 1),
        lambda axes0, axes1, axes2, axes3: mt.argmin(
            mt.if_then_else(axes3 >= 0, P[axes1, axes3 * 2], mt.const(0, "int64")) % 3,
            axis=[k0, k1],
        ),
        name="R",
    )
    program = mt.lower([A, places, R], name="generated")
    s = mt.Schedule(program)
    s.split("k0", [64, None, 5])
    s.reverse_compute_at("R", "axes0")
    return s


def a_separate_init_and_two_partial_reductions():
    A = mt.placeholder((1, 40, 32, 1), "bool", name="A")
    places = mt.placeholder((31,), "int32", name="places")
    k0 = mt.reduce_axis(17, name="k0")
    k1 = mt.reduce_axis(5, name="k1")
    R = mt.compute(
        (1, 4, 1, 5),
        lambda axes0, axes1, axes2, axes3: mt.any(
            A[0, axes3 // 2, ((k0 * 4) + axes1) % 32, axes0], axis=[k0, k1]
        ),
        name="R",
    )
    k0 = mt.reduce_axis(1, name="k0")
    P = mt.compute(
        (1, 40, 32, 1),
        lambda axes0, axes1, axes2, axes3: mt.any(
            mt.logical_and(
                mt.if_then_else(
                    mt.logical_and(axes1 >= 1, axes1 < 21),
                    A[axes0, (axes1 * 2) + (-1), axes0 // 2, axes0],
                    mt.const(False, "bool"),
                ),
                mt.if_then_else(
                    mt.logical_and(k0 >= 0, k0 < 1),
                    A[k0 * 2, axes1, 31 - axes2, 0],
                    mt.const(False, "bool"),
                ),
            ),
            axis=k0,
        ),
        name="P",
    )
    Q = mt.compute(
        (1, 40, 32, 1),
        lambda axes0, axes1, axes2, axes3: mt.select(
            mt.if_then_else(
                mt.logical_and(
                    mt.logical_and(mt.logical_and(axes3 >= (-1), axes3 < 0), axes1 >= 0), axes1 < 20
                ),
                P[axes3 + 1, (axes1 * 2) + 1, (axes2 * 33) % 32, axes0],
                mt.const(False, "bool"),
            ),
            mt.logical_not(
                mt.if_then_else(
                    mt.logical_and(axes0 >= 0, axes0 < 1),
                    P[axes0, axes1, axes2, axes0 * 2],
                    mt.const(False, "bool"),
                )
            ),
            mt.if_then_else(
                mt.logical_and(axes0 >= 0, axes0 < 1),
                P[axes0, axes1, axes2, axes0 * 2],
                mt.const(False, "bool"),
            ),
        ),
        name="Q",
    )
    S = mt.compute(
        (6,),
        lambda axes0: mt.select(
            mt.if_then_else(
                mt.logical_and(axes0 >= 1, axes0 < 5),
                R[mt.minimum(axes0, 0), axes0 + (-1), 0, mt.minimum(axes0, 4)].astype("int32"),
                mt.const(0, "int32"),
            )
            < mt.if_then_else(
                mt.logical_and(axes0 >= 0, axes0 < 1),
                Q[axes0 * 2, axes0, places[axes0] % 32, 0].astype("int32"),
                mt.const(1, "int32"),
            ),
            mt.if_then_else(
                mt.logical_and(axes0 >= 1, axes0 < 5),
                R[mt.minimum(axes0, 0), axes0 + (-1), 0, mt.minimum(axes0, 4)].astype("int32"),
                mt.const(0, "int32"),
            ),
            mt.if_then_else(
                mt.logical_and(axes0 >= 0, axes0 < 1),
                Q[axes0 * 2, axes0, places[axes0] % 32, 0].astype("int32"),
                mt.const(1, "int32"),
            ),
        ),
        name="S",
    )
    program = mt.lower([A, places, S], name="generated")
    s = mt.Schedule(program)
    s.decompose_reduction("P", "P_axes0")
    tensorize(s, "P_init", "P_init_axes2", fixed=True)
    s.unroll("Q_axes3")
    s.compute_at("Q", "S_axes0")
    s.rfactor("k0", axis=-1)
    s.rfactor("k1", axis=-2)
    s.bind("P_axes1", "threadIdx.x")
    return s


def two_caches_of_an_update():
    A = mt.placeholder((1, 6), "float64", name="A")
    B = mt.placeholder((16, 9, 3, 4), "float64", name="B")
    Q = mt.compute(
        (5,), lambda axes0: B[axes0, axes0, mt.minimum(axes0, 2), axes0 % 4] + 2.0, name="Q"
    )
    k = mt.reduce_axis(3, name="k")
    R = mt.update(
        (8, 13, 1, 3),
        lambda R, axes0, axes1, axes2, axes3: (
            (mt.minimum(mt.maximum(R[axes0, axes1, axes2, axes3], -8.0), 8.0) * 2.0)
            + mt.select(
                B[axes3, axes1 // 2, k, axes0 % 4]
                == mt.minimum(mt.maximum(Q[mt.minimum(axes0, 4)], -8.0), 8.0),
                mt.abs(B[axes3, axes1 // 2, k, axes0 % 4]),
                mt.minimum(mt.maximum(Q[mt.minimum(axes0, 4)], -8.0), 8.0),
            )
        ),
        axis=[k],
        init=lambda axes0, axes1, axes2, axes3: mt.const(0.0, "float64"),
        dtype="float64",
        name="R",
    )
    S = mt.compute(
        (1, 6),
        lambda axes0, axes1: mt.if_then_else(
            axes0 >= 0,
            mt.minimum(mt.maximum(R[axes0, axes0 * 2, axes0, 2 - axes0], -8.0), 8.0),
            mt.const(1.0, "float64"),
        ),
        name="S",
    )
    program = mt.lower([A, B, S], name="generated")
    s = mt.Schedule(program)
    axes0_3_axes1_2 = s.fuse("S_axes0", "S_axes1")
    s.annotate("R", "note", 1)
    s.split(axes0_3_axes1_2, [None, 16, 3])
    R_register = s.cache_write("R", "register")
    s.cache_write(R_register, "register")
    tensorize(s, R_register, "ax3")
    return s


def a_fused_loop_split_by_a_decision():
    A = mt.placeholder((6, 4), "uint8", name="A")
    B = mt.placeholder((6,), "uint8", name="B")
    places = mt.placeholder((40,), "int32", name="places")
    k0 = mt.reduce_axis(1, name="k0")
    k1 = mt.reduce_axis(1, name="k1")
    P = mt.compute(
        (6, 2, 23, 5),
        lambda axes0, axes1, axes2, axes3: mt.max(
            (
                mt.select(
                    B[places[k1] % 6]
                    == mt.if_then_else(
                        mt.logical_and((axes0 + axes1) >= 0, (axes0 + axes1) < 6),
                        B[axes0 + axes1],
                        mt.const(0, "uint8"),
                    ),
                    B[places[k1] % 6],
                    mt.if_then_else(
                        mt.logical_and((axes0 + axes1) >= 0, (axes0 + axes1) < 6),
                        B[axes0 + axes1],
                        mt.const(0, "uint8"),
                    ),
                )
                + B[axes0]
            )
            + axes0.astype("uint8"),
            axis=[k0, k1],
        ),
        name="P",
    )
    k = mt.reduce_axis(1, name="k")
    Q = mt.update(
        (16, 40, 2),
        lambda Q, axes0, axes1, axes2: (
            (Q[axes0, axes1, axes2] * 2)
            + mt.if_then_else(
                mt.logical_and(axes1 >= 0, axes1 < 3),
                P[axes1 * 2, places[axes0] % 2, axes1 % 23, k],
                mt.const(0, "uint8"),
            )
        ),
        axis=[k],
        init=lambda axes0, axes1, axes2: mt.const(0, "uint8"),
        dtype="uint8",
        name="Q",
    )
    R = mt.compute((), lambda: A[3, 2], name="R")
    program = mt.lower([A, B, places, Q, R], name="generated")
    s = mt.Schedule(program)
    _, axes1_3, axes2_3, axes3_2, k0_2, k1_2 = s.compute_at("P", "k")
    s.decompose_reduction("Q", "Q_axes0")
    axes3_2_k0_2 = s.fuse(axes3_2, k0_2)
    v3 = s.sample_compute_location("Q", decision="root")
    s.compute_at("Q", v3)
    v5 = s.sample_perfect_tile(axes1_3, 2, decision=[2, 1])
    s.split(axes1_3, v5)
    s.fuse(axes2_3, axes3_2_k0_2, k1_2)
    return s


def partial_argmax_of_one_element():
    A = mt.placeholder((6, 9), "int32", name="A")
    k0 = mt.reduce_axis(1, name="k0")
    P = mt.compute((6, 9), lambda axes0, axes1: mt.argmax(mt.const(0, "int32"), axis=k0), name="P")
    P_as = mt.compute((6, 9), lambda axes0, axes1: P[axes0, axes1].astype("int32"), name="P_as")
    program = mt.lower([A, P_as], name="generated")
    s = mt.Schedule(program)
    _, _, k0_2 = s.compute_at("P", "P_as_axes1")
    k0_0, k0_1 = s.split(k0_2, [None, 1])
    k0_0_k0_1 = s.fuse(k0_0, k0_1)
    s.rfactor(k0_0_k0_1)
    (axes0_2_0,) = s.split("P_as_axes0", [None], tail="cut")
    s.rfactor("P_k0_0_P_k0_1_2")
    s.unroll(axes0_2_0)
    s.rfactor("P_k0_0_P_k0_1_2_2", axis=2)
    s.reverse_compute_at("P_as", "P_axes0_2_2_2")
    return s


def inlined_beside_an_axis_of_one_element():
    """A[k] beside A[0], where k can be 0 only: two places, as they are where k can be more."""
    A, k = mt.placeholder((1,), name="A"), mt.reduce_axis(1, name="k")
    P = mt.compute((), lambda: A[0], name="P")
    Q = mt.compute((), lambda: mt.sum(P[()] + A[k], axis=k), name="Q")
    s = mt.Schedule(mt.lower([A, Q]))
    s.rfactor("k")
    s.compute_inline("P")
    return s


WENT_WRONG = (
    two_partial_sums_and_a_moved_producer,
    a_move_under_a_loop_of_one,
    a_separate_init_and_two_partial_reductions,
    two_caches_of_an_update,
    a_fused_loop_split_by_a_decision,
    partial_argmax_of_one_element,
    inlined_beside_an_axis_of_one_element,
)
