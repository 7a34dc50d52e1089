"""Blocks that do a part of their work (cut, or shrunk by an earlier move) are moved with care.

Each of these gave a wrong result once.
"""

import itertools
import random

import numpy as np
import pytest

import minitensor as mt
from minitensor.arith import Linear, Span, constant_form, extent_range, linear_of, swept
from minitensor.ir import Var, evaluate
from tests.unit.schedule.common import check, refused


def summed():
    A = mt.placeholder((3,), "int32", name="A")
    P = mt.compute((3,), lambda i: A[i] + 0, name="P")
    k = mt.reduce_axis(3, name="k")
    Q = mt.compute((3,), lambda i: mt.sum(P[i] + 0 * k.astype("int32"), axis=k), name="Q")
    return mt.lower([A, Q])


def horner():
    A = mt.placeholder((3, 4), "int32", name="A")
    P = mt.compute((3, 4), lambda i, j: A[i, j] + 0, name="P")
    k = mt.reduce_axis(4, name="k")
    Q = mt.update((3,), lambda Q, i: 2 * Q[i] + P[i, k], axis=k, init=0, dtype="int32", name="Q")
    return mt.lower([A, Q])


@pytest.mark.parametrize("builder", [summed, horner])
def test_half_of_a_cut_reduction_is_not_moved(builder):
    s = mt.Schedule(builder())
    s.split("k", [2], tail="cut")
    message = "another block may do the rest of k"
    refused(s, "R6", message, lambda: s.reverse_compute_at("Q", "i"))
    refused(s, "R6", message, lambda: s.reverse_compute_at("Q_tail", "i"))


def test_half_of_a_cut_reduction_that_was_split_again_is_not_moved():
    A = mt.placeholder((3,), "int32", name="A")
    P = mt.compute((3,), lambda i: A[i] + 0, name="P")
    k = mt.reduce_axis(7, name="k")
    Q = mt.compute((3,), lambda i: mt.sum(P[i] + 0 * k.astype("int32"), axis=k), name="Q")
    s = mt.Schedule(mt.lower([A, Q]))
    _, inner = s.split("k", [2, None], tail="cut")
    s.split(inner, [None, 2])
    message = "another block may do the rest of k"
    refused(s, "R6", message, lambda: s.reverse_compute_at("Q", "i"))


def padded_reader(source, n=3, m=5):
    P = mt.compute((n,), lambda i: source[i] * 2, name="P")
    return mt.compute((m,), lambda j: mt.if_then_else(j < n, P[j], 1), name="Q")


def test_padding_behind_what_a_copy_holds_is_still_computed():
    A = mt.placeholder((8,), "int32", name="A")
    s = mt.Schedule(mt.lower([A, padded_reader(A)]))
    s.cache_read("P", "A", "local")
    s.compute_inline("P")
    (loop,) = s.get_loops("A_local")
    refused(s, "R5", "not for all of j", lambda: s.reverse_compute_at("Q", loop))
    check(s)


def test_padding_behind_what_a_moved_producer_computes_is_still_computed():
    A = mt.placeholder((8,), "int32", name="A")
    B = mt.compute((8,), lambda b: A[b] + 1, name="B")
    s = mt.Schedule(mt.lower([A, padded_reader(B)]))
    s.compute_at("B", "i")
    s.compute_inline("P")
    (loop, *_) = s.get_loops("B")
    refused(s, "R5", "not for all of j", lambda: s.reverse_compute_at("Q", loop))
    check(s)


def test_padding_behind_a_layout_that_grew_is_still_computed():
    A = mt.placeholder((3,), "int32", name="A")
    s = mt.Schedule(mt.lower([A, padded_reader(A, m=4)]))
    s.transform_layout("P", lambda i: (i // 2, i % 2))
    s.transform_layout("P", lambda i, j: (i * 2 + j,))
    assert s.program.buffers["P"].shape == (4,)
    with pytest.raises(mt.ScheduleError):
        s.reverse_compute_at("Q", "i")
    refused(s, "R4", "computes 3 along j", lambda: s.reverse_compute_inline("Q"))
    check(s)


def test_a_final_reduction_keeps_out_of_iterations_that_are_too_many():
    A = mt.placeholder((9, 6), "int32", name="A")
    P = mt.compute((9, 6), lambda a, b: A[a, b] + 1, name="P")
    k = mt.reduce_axis(6, name="k")
    Q = mt.compute((9,), lambda x: mt.min(P[x, k], axis=k), name="Q")
    s = mt.Schedule(mt.lower([A, Q]))
    unit = s.add_unit_loop("x")
    outer, *_ = s.split(unit, [2, None, 1])
    s.compute_at("P", outer)
    s.rfactor("k")
    check(s)


@pytest.mark.parametrize("kind", ["write", "read"])
def test_a_copy_is_of_what_was_written_not_of_padding(kind):
    A = mt.placeholder((2, 7), name="A")
    B = mt.compute((2, 7), lambda i, j: A[i, j] + 1, name="B")
    C = mt.compute((14,), lambda a: B[a % 2, mt.minimum(a, 6)] - B[a // 7, a % 7], name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.split("j", [3, None])
    s.transform_layout("B", lambda i, j: (i, 11 - j))
    s.transform_layout("B", lambda i, j: (i, 11 - j))
    assert s.program.buffers["B"].shape == (2, 12)
    name = s.cache_write("B", "local") if kind == "write" else s.cache_read("C", "B", "local")
    assert s.get_loops(name)
    check(s)


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("factors", [[None, 2], [4, 3]])
def test_a_producer_that_is_computed_again_and_again_feeds_all_its_readers(n, factors):
    A = mt.placeholder((n + 2,), name="A")
    B = mt.compute((n + 2,), lambda i: A[i] * 2, name="B")
    C = mt.compute((n,), lambda j: B[j] + B[j + 2], name="C")
    s = mt.Schedule(mt.lower([A, C]))
    outer, _ = s.split("j", factors)
    (own, *_) = s.compute_at("B", outer)
    s.split(own, [None, 2])
    check(s)


def test_choices_of_reductions_are_legal():
    A = mt.placeholder((4, 6), "int32", name="A")
    k = mt.reduce_axis(6, name="k")
    C = mt.compute((4,), lambda i: mt.sum(A[i, k], axis=k), name="C")
    program = mt.lower([A, C])
    s = mt.Schedule(program)
    refused(s, "R1", "it is part of 0", lambda: s.rfactor("i"), choices=("k",))
    s.decompose_reduction("C", "k")
    refused(s, "R1", "it is part of 0", lambda: s.rfactor("i"), choices=("k",))
    s = mt.Schedule(program)
    _, inner = s.split(s.fuse("i", "k"), [None, 3])
    refused(s, "R3", "i_k_0 is", lambda: s.decompose_reduction("C", inner), choices=())


@pytest.mark.parametrize("seed", range(3))
def test_swept_ranges_are_those_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    for _ in range(300):
        steps, sizes = rng.integers(-4, 5, 2), rng.integers(1, 4, 2)
        ranges = {n: extent_range(int(e)) for n, e in zip("xy", sizes)}
        low = constant_form(int(rng.integers(-3, 4)))
        for name, step in zip("xy", steps):
            low = low.plus(Linear({Var(name): int(step)} if step else {}))
        spread = int(rng.integers(0, 4))
        points = {
            low.constant + int(steps[0]) * x + int(steps[1]) * y + d
            for x in range(sizes[0])
            for y in range(sizes[1])
            for d in range(spread + 1)
        }
        found = swept((Span(low, spread),), ranges)
        if found is not None:
            assert set(found[0]) == points


@pytest.mark.parametrize("seed", range(3))
def test_swept_ranges_of_digits_are_those_of_brute_force(seed):
    """Two axes that begin at digits of one fused loop, or of one and another."""
    rng = random.Random(seed)
    known = 0
    for _ in range(400):
        sizes = {"f": rng.randint(0, 13), "g": rng.randint(1, 4)}
        ranges = {name: extent_range(size) for name, size in sizes.items()}
        number = rng.choice([Var("f"), Var("f"), Var("f") * sizes["g"] + Var("g")])
        high, low = rng.choice([2, 3, 4, 6]), rng.choice([2, 3, 4])
        digits = [number // high, number % high, number // low % high, number % low]
        box = tuple(
            Span(linear_of(rng.choice(digits)).times(step).shifted(rng.randint(0, 2)), spread)
            for step, spread in zip(rng.choices([1, 2], k=2), rng.choices([0, 1, 3], k=2))
        )
        found = swept(box, ranges)
        if found is None:
            continue
        points: set[tuple[int, ...]] = set()
        for f, g in itertools.product(range(sizes["f"]), range(sizes["g"])):
            lows = [evaluate(span.low.expr(), {"f": f, "g": g}) for span in box]
            points |= {*itertools.product(*(range(a, a + s.extent) for a, s in zip(lows, box)))}
        taken = {*itertools.product(*found)}
        assert taken <= points, (box, sizes)
        if sizes["f"] % (high * low) == 0:
            assert taken == points, (box, sizes)
        known += len(taken) > 1
    assert known > 15
