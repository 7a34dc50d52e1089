"""Terms that a condition on their place makes zero are left out, with identical results."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitensor as mt
from minitensor import ir
from minitensor.codegen import PASSES, Target, lowered
from minitensor.codegen.target import UNEVEN
from minitensor.ir import interpret
from tests.parts import examples

TARGET = Target("c", num_cores=2, vector_bits=256)
ORDER = [name for name, _ in PASSES]
ODD = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan], np.float32)


def after(schedule, name="skip_terms"):
    """The program after the pass of this name."""
    return lowered(schedule.program, TARGET, PASSES[: ORDER.index(name) + 1], check=True)


def same(schedule):
    """The pass and the kernel leave results the same to the bit; returns what the pass made."""
    program, new = schedule.program, after(schedule)
    rng = np.random.default_rng(0)
    arrays = [rng.choice(ODD, b.shape) for b in program.inputs]
    names = [b.name for b in program.outputs]
    with np.errstate(invalid="ignore"):
        wanted, found = (interpret(p, arrays, names)[0] for p in (program, new))
        built = np.asarray(mt.build(schedule, TARGET)(*arrays))
    for other in (found[0], built):
        assert bits(other) == bits(wanted[0])
    return new


def bits(array):
    """The bytes of an array with one kind of NaN."""
    return np.where(np.isnan(array), np.float32(np.nan), array).tobytes()


def product(condition, shape=(8, 32, 9), value=None):
    """C[i, j] of the products for which a condition of i, j and k holds."""
    m, n, depth = shape
    A, B = mt.placeholder((m, depth), name="A"), mt.placeholder((depth, n), name="B")
    k = mt.reduce_axis((0, depth), name="k")

    def terms(i, j):
        term = A[i, k] * B[k, j] if value is None else value(A, B, i, j, k)
        return mt.sum(mt.if_then_else(condition(i, j, k), term, 0.0), axis=k)

    return mt.lower([A, B, mt.compute((m, n), terms, name="C")])


def tiled(program, rows=4, lanes=8):
    s = mt.Schedule(program)
    i, j, k = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, rows])
    j_0, j_1, j_2 = s.split(j, [None, 2, lanes]) if lanes else (*s.split(j, [None, 2]), None)
    s.reorder(i_0, j_0, k, i_1, j_1, *([j_2] if lanes else []))
    s.unroll(i_1)
    s.unroll(j_1)
    if lanes:
        s.vectorize(j_2)
    s.parallel(i_0)
    return s


def conditions(stmt):
    return [ir.print_expr(s.condition) for s in ir.stmts_of(stmt) if isinstance(s, ir.If)]


def chosen(program):
    return [n for s in ir.stmts_of(program.body) for n in ir.walk(s) if isinstance(n, ir.Select)]


class TestVersions:
    def test_for_all_for_some_or_for_none_of_a_tile(self):
        new = same(tiled(product(lambda i, j, k: k <= i)))
        assert conditions(new.body) == ["k <= i_0*4", "k <= i_0*4 + 3"]

    def test_lanes_count(self):
        new = same(tiled(product(lambda i, j, k: j <= i, (24, 32, 5))))
        assert conditions(new.body) == ["j_0*4 + 4 <= i_0", "j_0*4 <= i_0"]

    def test_a_band_has_two_sides(self):
        new = same(tiled(product(lambda i, j, k: mt.logical_and(i - 2 <= k, k <= i + 2))))
        assert len(conditions(new.body)) == 2

    def test_no_version_for_all_where_none_is_whole(self):
        new = same(tiled(product(lambda i, j, k: j == i, (24, 32, 5))))
        assert conditions(new.body) == ["j_0*4 <= i_0 and i_0 <= j_0*4 + 3"]

    def test_a_condition_that_all_of_a_tile_share_has_no_second_version(self):
        new = same(tiled(product(lambda i, j, k: k <= 2 * (i // 4))))
        assert conditions(new.body) == ["k <= i_0*2"] and not chosen(new)

    @pytest.mark.slow
    def test_pieces_of_the_loop_around_have_versions_too(self):
        new = same(tiled(product(lambda i, j, k: k <= i, (64, 32, 64))))
        assert conditions(new.body) == [
            "k*4 + 4 <= i_0",
            "k*4 <= i_0",
            "k*16 + k_in <= i_0*4",
            "k*16 + k_in <= i_0*4 + 3",
        ]
        assert sum(loop.var == "k_in" for loop in ir.loops_of(new.body)) == 2

    def test_as_written(self):
        new = same(mt.Schedule(product(lambda i, j, k: k <= i)))
        assert conditions(new.body) == ["k <= i"] and not chosen(new)

    def test_threads_take_turns_where_iterations_differ(self):
        uneven = after(tiled(product(lambda i, j, k: k <= i)))
        even = after(tiled(product(lambda i, j, k: k <= j)))
        notes = [
            [dict(loop.annotations) for loop in ir.loops_of(p.body) if loop.var == "i_0"]
            for p in (uneven, even)
        ]
        assert notes == [[{UNEVEN: 1}], [{}]]
        source = mt.build(tiled(product(lambda i, j, k: k <= i)), TARGET).source
        assert "schedule(static, 1)" in source


class TestLeftAlone:
    def test_a_condition_on_data(self):
        s = tiled(product(lambda i, j, k: k <= i))
        A = mt.placeholder((8, 9), name="A")
        k = mt.reduce_axis((0, 9), name="k")
        masked = mt.compute(
            (8,), lambda i: mt.sum(mt.if_then_else(A[i, k] > 0, A[i, k], 0.0), axis=k), name="C"
        )
        data = mt.Schedule(mt.lower([A, masked]))
        assert not conditions(same(data).body) and conditions(same(s).body)

    def test_a_term_that_is_no_zero(self):
        value = lambda A, B, i, j, k: mt.if_then_else(k <= i, A[i, k], 1.0)
        assert not conditions(same(tiled(product(lambda i, j, k: j >= 0, value=value))).body)

    def test_a_factor_that_is_zero(self):
        value = lambda A, B, i, j, k: mt.if_then_else(k <= i, A[i, k], 0.0) * B[k, j]
        assert not conditions(same(tiled(product(lambda i, j, k: j >= 0, value=value))).body)

    def test_a_tile_that_goes_on_with_what_is_in_memory(self):
        s = tiled(product(lambda i, j, k: k <= i, (8, 32, 16)))
        k_0, _ = s.split("k", [4, None])
        loops = s.get_loops("C")
        s.reorder(k_0, *[loop for loop in loops if loop != k_0][1:2])
        same(s)


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("floor", [-1e30, 1e30, -np.inf, np.inf, 0.0])
def test_maxima_and_minima(kind, floor):
    A = mt.placeholder((6, 24), name="A")
    k = mt.reduce_axis((0, 24), name="k")
    reduce = getattr(mt, kind)
    kept = mt.compute(
        (6, 24),
        lambda i, j: reduce(mt.if_then_else(k <= j, A[i, k], floor), axis=k),
        name="C",
    )
    s = mt.Schedule(mt.lower([A, kept]))
    _, j, k = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, 8])
    s.reorder(j_0, k, j_1)
    s.vectorize(j_1)
    identity = {"max": -np.inf, "min": np.inf}[kind]
    assert bool(conditions(same(s).body)) == (floor == identity)


@pytest.mark.slow
@given(st.data())
@examples(25, 300)
def test_any_condition_any_tile(data):
    shape = tuple(data.draw(st.sampled_from([1, 2, 5, 8, 17, 20, 24, 32])) for _ in range(3))
    factors = [data.draw(st.tuples(*[st.integers(-2, 2)] * 3)) for _ in range(2)]
    limits = [data.draw(st.integers(-20, 20)) for _ in range(2)]
    ops = [data.draw(st.sampled_from(["<", "<=", "==", "!="])) for _ in range(2)]
    compare = {
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        "==": lambda a, b: a == b,
        "!=": lambda a, b: mt.logical_or(a < b, b < a),
    }

    def holds(i, j, k):
        parts = [
            compare[op](i * a + j * b + k * c, limit)
            for (a, b, c), limit, op in zip(factors, limits, ops)
        ]
        return mt.logical_and(*parts)

    rows, lanes = data.draw(st.integers(1, 5)), data.draw(st.sampled_from([0, 4, 8]))
    same(tiled(product(holds, shape), rows, lanes))
