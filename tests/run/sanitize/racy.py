"""Over fifty kernels with a parallel loop that no schedule may have: each is a way to make a race.

A case is a schedule that is legal, and a loop of it that is not parallel for a reason. `forced`
makes the loop parallel behind the legality check's back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import minitensor as mt
from minitensor.ir import For, LoopKind, Program, Stmt, map_stmts

Made = tuple[mt.Schedule, str, str]
"""A schedule, the loop, and the buffer that its iterations share."""


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[], Made]


CASES: list[Case] = []


def case(make: Callable[[], Made]) -> Callable[[], Made]:
    CASES.append(Case(make.__name__, make))
    return make


def forced(program: Program, loop: str) -> Program:
    """The program with a loop parallel, whatever the rules say."""

    def rewritten(stmt: Stmt) -> Stmt:
        new = map_stmts(stmt, rewritten)
        if isinstance(new, For) and new.var == loop:
            return replace(new, kind=LoopKind.PARALLEL)
        return new

    return program.replace(body=rewritten(program.body))


def tensor(*shape: int, dtype: str = "float32", name: str = "A") -> mt.Tensor:
    return mt.placeholder(shape, dtype, name=name)


def scheduled(*tensors: mt.Tensor, name: str = "racy") -> mt.Schedule:
    return mt.Schedule(mt.lower(list(tensors), name=name))


def column_reduction(combine, dtype="float32", rows=6, columns=9) -> mt.Schedule:
    """C[i] = combine of A[i, k] over k."""
    A = tensor(rows, columns, dtype=dtype)
    k = mt.reduce_axis(columns, name="k")
    C = mt.compute((rows,), lambda i: combine(A[i, k], axis=k), name="C")
    return scheduled(A, C)


def matmul(n: int = 8) -> mt.Schedule:
    A, B = tensor(n, n), tensor(n, n, name="B")
    k = mt.reduce_axis(n, name="k")
    return scheduled(
        A, B, mt.compute((n, n), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
    )


# ---- reductions: iterations add to the same element


@case
def sum_over_rows():
    return column_reduction(mt.sum), "k", "C"


@case
def sum_of_everything():
    A = tensor(37)
    k = mt.reduce_axis(37, name="k")
    return scheduled(A, mt.compute((), lambda: mt.sum(A[k], axis=k), name="s")), "k", "s"


@case
def product_of_integers():
    return column_reduction(mt.prod, "int64"), "k", "C"


@case
def maximum_of_bytes():
    return column_reduction(mt.max, "uint8"), "k", "C"


@case
def minimum_of_half_floats():
    return column_reduction(mt.min, "float16"), "k", "C"


@case
def any_of_booleans():
    return column_reduction(mt.any, "bool"), "k", "C"


@case
def all_of_booleans():
    return column_reduction(mt.all, "bool"), "k", "C"


@case
def sum_of_bfloat16():
    return column_reduction(mt.sum, "bfloat16"), "k", "C"


@case
def argmax_keeps_two_numbers():
    return column_reduction(mt.argmax), "k", "C"


@case
def argmin_of_integers():
    return column_reduction(mt.argmin, "int32"), "k", "C"


@case
def a_reducer_of_ones_own():
    both_and_product = mt.comm_reducer(lambda a, b: a + b + a * b, lambda dtype: 0)
    return column_reduction(both_and_product, "int32"), "k", "C"


@case
def matmul_over_k():
    return matmul(), "k", "C"


@case
def matmul_with_k_outermost():
    s = matmul()
    s.reorder("k", "i", "j")
    return s, "k", "C"


@case
def outer_half_of_k():
    s = matmul()
    outer, _ = s.split("k", [None, 4])
    return s, outer, "C"


@case
def inner_half_of_k():
    s = matmul()
    _, inner = s.split("k", [None, 4])
    return s, inner, "C"


@case
def k_split_with_a_rest():
    s = column_reduction(mt.sum)
    outer, _ = s.split("k", [None, 4])
    return s, outer, "C"


@case
def k_fused_with_j():
    s = matmul()
    s.reorder("i", "k", "j")
    return s, s.fuse("k", "j"), "C"


@case
def rows_and_k_fused():
    s = column_reduction(mt.sum)
    return s, s.fuse("i", "k"), "C"


@case
def k_with_vectors_inside():
    s = matmul(16)
    s.reorder("i", "k", "j")
    s.vectorize(s.split("j", [None, 8])[1])
    return s, "k", "C"


@case
def k_after_decomposition():
    s = matmul()
    s.decompose_reduction("C", "k")
    return s, "k", "C"


@case
def the_last_step_of_rfactor():
    s = column_reduction(mt.sum, rows=4, columns=16)
    outer, _ = s.split("k", [4, None])
    s.rfactor(outer)
    return s, s.get_loops("C")[-1], "C"


@case
def the_first_step_of_rfactor():
    s = column_reduction(mt.sum, rows=4, columns=16)
    outer, inner = s.split("k", [4, None])
    made = s.rfactor(outer)
    return s, inner, made


@case
def two_axes_of_a_convolution():
    A, W = tensor(10, 10), tensor(3, 3, name="W")
    r, q = mt.reduce_axis(3, name="r"), mt.reduce_axis(3, name="q")
    C = mt.compute((8, 8), lambda y, x: mt.sum(A[y + r, x + q] * W[r, q], axis=[r, q]), name="C")
    return scheduled(A, W, C), "r", "C"


@case
def channels_of_a_padded_convolution():
    A, W = tensor(4, 8), tensor(4, 3, name="W")
    c, r = mt.reduce_axis(4, name="c"), mt.reduce_axis(3, name="r")

    def padded(x):
        inside = mt.logical_and(x + r >= 1, x + r < 9)
        return mt.if_then_else(inside, A[c, x + r - 1], 0.0) * W[c, r]

    C = mt.compute((8,), lambda x: mt.sum(padded(x), axis=[c, r]), name="C")
    return scheduled(A, W, C), "c", "C"


@case
def a_gathered_sum():
    A, P = tensor(16), tensor(9, dtype="int32", name="P")
    k = mt.reduce_axis(9, name="k")
    C = mt.compute((4,), lambda i: mt.sum(A[(P[k] + i) % 16], axis=k), name="C")
    return scheduled(A, P, C), "k", "C"


@case
def the_trace_of_a_matrix():
    A = tensor(12, 12, dtype="float64")
    k = mt.reduce_axis(12, name="k")
    return scheduled(A, mt.compute((1,), lambda i: mt.sum(A[k, k], axis=k), name="C")), "k", "C"


@case
def row_maxima_of_a_softmax():
    A = tensor(4, 12)
    k = mt.reduce_axis(12, name="k")
    M = mt.compute((4,), lambda i: mt.max(A[i, k], axis=k), name="M")
    E = mt.compute((4, 12), lambda i, j: mt.exp(A[i, j] - M[i]), name="E")
    return scheduled(A, E), "k", "M"


@case
def the_mean_of_a_layer_norm():
    A = tensor(4, 12)
    k = mt.reduce_axis(12, name="k")
    S = mt.compute((4,), lambda i: mt.sum(A[i, k], axis=k), name="S")
    N = mt.compute((4, 12), lambda i, j: A[i, j] - S[i] / 12.0, name="N")
    s = scheduled(A, N)
    s.compute_at("S", s.get_loops("N")[0])
    return s, s.get_loops("S")[-1], "S"


@case
def a_cached_accumulator():
    s = matmul()
    s.reorder("k", "i", "j")
    return s, "k", s.cache_write("C", "global")


@case
def all_loops_of_a_dot_product_fused():
    A, B = tensor(4, 8), tensor(4, 8, name="B")
    k, l = mt.reduce_axis(4, name="k"), mt.reduce_axis(8, name="l")
    C = mt.compute((), lambda: mt.sum(A[k, l] * B[k, l], axis=[k, l]), name="C")
    s = scheduled(A, B, C)
    return s, s.fuse("k", "l"), "C"


# ---- updates in order: an iteration needs what an earlier one stored


def in_order(visit, *shape: int, loop: str = "i", init=None, dtype: str = "float32") -> Made:
    """An update of C, given as a function of C, A and the indices."""
    A = tensor(*shape, dtype=dtype)
    C = mt.update(shape, lambda C, *at: visit(C, A, *at), init=init, dtype=dtype, name="C")
    s = scheduled(A, C)
    return s, s.get_loops("C")["ij".index(loop)], "C"


def before(C, *at, first):
    """An earlier element, or 1 where there is none."""
    return mt.if_then_else(first, C[at], 1)


@case
def a_prefix_sum():
    return in_order(lambda C, A, i: before(C, i - 1, first=i > 0) + A[i], 16)


@case
def a_running_maximum():
    return in_order(lambda C, A, i: mt.maximum(before(C, i - 1, first=i > 0), A[i]), 16)


@case
def a_running_product_of_bytes():
    return in_order(lambda C, A, i: before(C, i - 1, first=i > 0) * A[i], 16, dtype="int8")


@case
def fibonacci():
    return in_order(
        lambda C, A, i: before(C, i - 1, first=i > 0) + before(C, i - 2, first=i > 1), 16
    )


@case
def a_recurrence_over_three():
    return in_order(lambda C, A, i: before(C, i - 3, first=i > 2) + A[i], 16)


@case
def a_scan_of_rows():
    return in_order(lambda C, A, i, j: before(C, i - 1, j, first=i > 0) + A[i, j], 5, 8)


@case
def a_scan_of_columns():
    return in_order(lambda C, A, i, j: before(C, i, j - 1, first=j > 0) + A[i, j], 5, 8, loop="j")


@case
def a_wavefront():
    return in_order(
        lambda C, A, i, j: before(C, i - 1, j, first=i > 0) + before(C, i, j - 1, first=j > 0), 6, 6
    )


@case
def a_diagonal_recurrence():
    def visit(C, A, i, j):
        return before(C, i - 1, j - 1, first=mt.logical_and(i > 0, j > 0)) + A[i, j]

    return in_order(visit, 6, 6)


@case
def a_stencil_in_place():
    def visit(C, A, i):
        left = before(C, i - 1, first=i > 0)
        return left + before(C, i + 1, first=i < 15) + A[i]

    return in_order(visit, 16, init=0)


@case
def a_shift_in_place_reads_before_the_next_writes():
    return in_order(lambda C, A, i: before(C, i + 1, first=i < 15) + A[i], 16, init=lambda i: 2)


@case
def a_reversal_in_place():
    return in_order(lambda C, A, i: C[15 - i] + A[i], 16, init=0)


@case
def an_update_at_places_from_data():
    A, P = tensor(16), tensor(16, dtype="int32", name="P")
    C = mt.update((16,), lambda C, i: C[(P[i] + 3) % 16] + A[i], init=0, name="C")
    s = scheduled(A, P, C)
    return s, s.get_loops("C")[-1], "C"


@case
def horner_over_its_coefficients():
    A, X = tensor(7), tensor(4, name="X")
    k = mt.reduce_axis(7, name="k")
    C = mt.update((4,), lambda C, i: C[i] * X[i] + A[k], axis=k, init=0.0, name="C")
    s = scheduled(A, X, C)
    return s, s.get_loops("C")[-1], "C"


@case
def blocks_of_a_prefix_sum():
    s, loop, shared = a_prefix_sum()
    outer, _ = s.split(loop, [None, 4])
    return s, outer, shared


@case
def a_scan_of_rows_with_vectors_inside():
    A = tensor(4, 16)
    C = mt.update((4, 16), lambda C, i, j: before(C, i - 1, j, first=i > 0) + A[i, j], name="C")
    s = scheduled(A, C)
    rows, columns = s.get_loops("C")
    s.vectorize(s.split(columns, [None, 8])[1])
    return s, rows, "C"


# ---- memory that iterations share though each could have its own


def shared(schedule: mt.Schedule, name: str) -> mt.Schedule:
    """A schedule of its program with a temporary as an output, so that it outlives its loop."""
    program = schedule.program
    buffer = program.buffers[name]
    rest = tuple(b for b in program.temporaries if b.name != name)
    return mt.Schedule(program.replace(params=(*program.params, buffer), temporaries=rest))


def halo(rows: int = 8) -> mt.Schedule:
    """T[y] = A[y] + 1 for y + 2 rows, of which D[y] reads three."""
    A = tensor(rows + 2, 4)
    T = mt.compute((rows + 2, 4), lambda y, x: A[y, x] + 1, name="T")
    D = mt.compute((rows, 4), lambda y, x: T[y, x] + T[y + 1, x] + T[y + 2, x], name="D")
    return scheduled(A, D)


@case
def halo_rows_computed_twice():
    s = halo()
    s.compute_at("T", s.get_loops("D")[0])
    return (s := shared(s, "T")), s.get_loops("D")[0], "T"


@case
def halos_of_tiles():
    s = halo()
    outer, _ = s.split(s.get_loops("D")[0], [None, 4])
    s.compute_at("T", outer)
    return (s := shared(s, "T")), outer, "T"


@case
def a_row_that_every_iteration_computes():
    A = tensor(4)
    T = mt.compute((4,), lambda x: A[x] * 2, name="T")
    D = mt.compute((8, 4), lambda y, x: T[x] + T[3 - x], name="D")
    s = scheduled(A, D)
    s.compute_at("T", s.get_loops("D")[0])
    return (s := shared(s, "T")), s.get_loops("D")[0], "T"


@case
def a_number_that_every_iteration_computes():
    A = tensor(8)
    T = mt.compute((), lambda: A[3] + 1, name="T")
    D = mt.compute((8,), lambda y: A[y] * T[()], name="D")
    s = scheduled(A, D)
    s.compute_at("T", s.get_loops("D")[0])
    return (s := shared(s, "T")), s.get_loops("D")[0], "T"


@case
def a_copy_that_every_iteration_makes():
    A, B = tensor(6), tensor(4, name="B")
    D = mt.compute((6, 4), lambda y, x: A[y] * B[x], name="D")
    s = scheduled(A, B, D)
    copy = s.cache_read("D", "B", "global")
    s.compute_at(copy, s.get_loops("D")[0])
    return (s := shared(s, copy)), s.get_loops("D")[0], copy


@case
def overlapping_windows_of_bytes():
    A = tensor(20, dtype="uint8")
    T = mt.compute((20,), lambda x: A[x] + 1, name="T")
    k = mt.reduce_axis(4, name="k")
    D = mt.compute((9,), lambda x: mt.max(T[2 * x + k], axis=k), name="D")
    s = scheduled(A, D)
    s.compute_at("T", s.get_loops("D")[0])
    return (s := shared(s, "T")), s.get_loops("D")[0], "T"


@case
def halos_in_the_middle_of_a_chain():
    A = tensor(12)
    T = mt.compute((12,), lambda x: A[x] + 1, name="T")
    U = mt.compute((10,), lambda x: T[x] + T[x + 2], name="U")
    D = mt.compute((8,), lambda x: U[x] + U[x + 2], name="D")
    s = scheduled(A, D)
    outer, _ = s.split(s.get_loops("D")[0], [None, 2])
    s.compute_at("U", outer)
    s.compute_at("T", outer)
    return (s := shared(s, "U")), outer, "U"


@case
def halos_written_in_vectors():
    s = halo()
    s.compute_at("T", s.get_loops("D")[0])
    s.vectorize(s.get_loops("T")[-1])
    return (s := shared(s, "T")), s.get_loops("D")[0], "T"
