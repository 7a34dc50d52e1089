"""What passes tell: a remark for each cause, and none where everything was done."""

from dataclasses import replace

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import Target, generate, report_of, usual_registers
from minitensor.codegen.remarks import Recorder, Remark, became, is_recording, missed, recording
from minitensor.ir import FLOAT32, Binary, Const, For, Load, LoopKind, Var, rewrite

TARGET = Target("c", num_cores=4, vector_bits=512)


def report(s, target=TARGET, registers=None):
    return report_of(s.program, target, registers)


def remarks(s, target=TARGET):
    return [(n.kind, n.where, n.text) for n in report(s, target).remarks]


def kinds(s, target=TARGET):
    return {(n.kind, n.where) for n in report(s, target).remarks}


def elementwise(f, *shape, dtype="float32"):
    A = mt.placeholder(shape, dtype, name="A")
    B = mt.compute(shape, lambda *i: f(A, *i), name="B")
    s = mt.Schedule(mt.lower([A, B]))
    return s, s.get_loops("B")


def vectorized(f, *shape, axis=-1, dtype="float32"):
    s, loops = elementwise(f, *shape, dtype=dtype)
    s.vectorize(loops[axis])
    return s


def matmul(m=64, n=128, k=16, rows=8, columns=32, dtype="float32"):
    program = mt.lower(mt.workloads.matmul(m=m, n=n, k=k, dtype=dtype), name="matmul")
    s = mt.Schedule(program)
    i, j, k = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, rows])
    j_0, j_1 = s.split(j, [None, columns])
    s.reorder(i_0, j_0, k, i_1, j_1)
    s.unroll(i_1)
    s.vectorize(j_1)
    return s


def in_registers(s):
    """A matmul whose tile is a buffer of its own, in registers however large it is."""
    copy = s.cache_write("C", "register")
    s.reverse_compute_at(copy, "j_0")
    *_, row, column = s.get_loops(copy)
    s.unroll(row)
    s.vectorize(column)
    return s


# ---- the channel


def test_nobody_listens_unless_asked():
    assert not is_recording()
    missed("vector", "i", "lost")
    with recording() as outer:
        assert is_recording()
        with recording() as inner:
            missed("vector", "i", "one")
            missed("vector", "i", "one")
        became("i", "unrolled")
    assert list(inner.remarks) == [Remark("vector", "i", "one")]
    assert list(outer.outcomes) == [("i", "unrolled")] and not outer.remarks


def test_origin_leads_to_the_users_buffer():
    assert Recorder(origins={"C_acc_0": "C_acc", "C_acc": "C"}).origin("C_acc_0") == "C"


def test_telling_changes_no_text():
    s = matmul(61, 46, 7, 8, 23)
    with recording():
        told = generate(s.program, TARGET).source
    assert told == generate(s.program, TARGET).source == report(s).emitted.source


# ---- vectors


def test_nothing_to_say():
    assert remarks(vectorized(lambda A, i: A[i] + 1.0, 32)) == []
    assert remarks(matmul()) == []


@pytest.mark.parametrize("extent", [2, 3, 7, 13])
def test_fewer_iterations_than_lanes(extent):
    ((kind, where, text),) = remarks(vectorized(lambda A, i: A[i] + 1.0, extent))
    assert (kind, where) == ("vector", "i0")
    assert f"{extent} iterations are fewer than the 16 lanes of a vector" in text
    assert ("nothing is vectorized" in text) == (extent < 3)


def test_a_single_iteration():
    assert remarks(vectorized(lambda A, i: A[i] + 1.0, 1)) == [
        ("vector", "i0", "a single iteration is done in scalars")
    ]


@pytest.mark.parametrize("extent, left", [(17, 1), (23, 7), (40, 8), (97, 1)])
def test_no_multiple_of_the_lanes(extent, left):
    ((kind, where, text),) = remarks(vectorized(lambda A, i: A[i] + 1.0, extent))
    assert (kind, where) == ("vector", "i0")
    assert text.startswith(f"{left} of {extent} iterations are left over by vectors of 16 lanes")


def test_a_machine_without_vectors():
    s = vectorized(lambda A, i: A[i] + 1.0, 32)
    assert [text for *_, text in remarks(s, Target("c", 1, 0))] == [
        "nothing is vectorized: the target has no vectors of two such elements"
    ]


def test_strided_access():
    s = vectorized(lambda A, i, j: A[j, i] + 1.0, 32, 32)
    assert remarks(s) == [
        ("gather", "A", "vectors of it are collected element by element, for those are 32 apart")
    ]
    assert kinds(vectorized(lambda A, i, j: A[i, j] + 1.0, 32, 32, axis=0)) == {
        ("gather", "A"),
        ("gather", "B"),
    }


@pytest.mark.parametrize(("step", "found"), [(1, set()), (2, set()), (3, {("gather", "A")})])
def test_every_second_element_is_not_collected_one_by_one(step, found):
    A = mt.placeholder((96,), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((32,), lambda i: A[step * i] + 1.0, name="B")]))
    s.vectorize("i")
    assert kinds(s) == found


def test_access_without_a_pattern():
    s = vectorized(lambda A, i: A[i * i % 5], 32)
    assert remarks(s) == [
        ("lanes", "i0", "A goes lane by lane: the lanes are read at no constant distance")
    ]


def test_access_that_depends_on_data():
    A = mt.placeholder((32,), name="A")
    at = mt.placeholder((32,), "int32", name="at")
    s = mt.Schedule(mt.lower([A, at, mt.compute((32,), lambda i: A[at[i]], name="B")]))
    s.vectorize("i")
    assert any("at places that depend on data" in text for *_, text in remarks(s))


def test_condition_of_a_value():
    s = vectorized(lambda A, i: mt.if_then_else(A[i] > 0.0, mt.log(A[i]), 0.0), 32)
    assert not kinds(s), "both sides can be computed"
    s = vectorized(lambda A, i: mt.if_then_else(A[i] > 0.0, A[i - 1], 0.0), 32)
    assert ("lanes", "i0") in kinds(s)
    assert any("if_then_else whose condition differs" in text for *_, text in remarks(s))


def test_condition_of_a_statement():
    s = vectorized(lambda A, i: A[i] + 1.0, 32)
    block = s.program.blocks["B"]
    test = Binary("<", Const(0.0, FLOAT32), Load("A", (Var("i0"),), FLOAT32))
    body = For("i0", 32, replace(block, predicate=test), LoopKind.VECTORIZE)
    (remark,) = report_of(s.program.replace(body=body), TARGET).remarks
    assert (remark.kind, remark.where) == ("lanes", "i0")
    assert (
        remark.text == "the update of B goes lane by lane: its condition differs from lane to lane"
    )


def test_library_calls():
    A = mt.placeholder((32,), "float64", name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((32,), lambda i: mt.power(A[i], A[i]), name="B")]))
    s.vectorize("i")
    found = report(s).remarks
    assert [(n.kind, n.where) for n in found] == [("math", "power")]
    assert "for each of 8 lanes" in found[0].text
    assert remarks(vectorized(lambda A, i: mt.power(A[i], A[i]), 32)) == []
    assert remarks(vectorized(lambda A, i: mt.sqrt(A[i]), 32)) == []


# ---- results that are not kept in registers


def row_sum(m, n):
    A = mt.placeholder((m, n), name="A")
    k = mt.reduce_axis(n, name="k")
    return mt.Schedule(mt.lower([A, mt.compute((m,), lambda i: mt.sum(A[i, k], axis=k), name="R")]))


def test_a_loop_of_the_tile_is_an_ordinary_one():
    assert remarks(row_sum(8, 64)) == []
    s = row_sum(8, 64)
    s.reorder("k", "i")
    ((kind, where, text),) = remarks(s)
    assert (kind, where) == ("promotion", "R")
    assert "i, inside k, is neither unrolled nor vectorized" in text
    s.unroll("i")
    assert remarks(s) == []


def test_a_tile_larger_than_all_registers():
    ((kind, where, text),) = remarks(matmul(64, 128, 16, 16, 64))
    assert (kind, where) == ("promotion", "C")
    assert "takes 4,096 bytes of registers" in text


def test_a_condition_around_the_update():
    s = row_sum(8, 64)
    block = s.program.blocks["R"]
    test = Binary("<", Const(0.0, FLOAT32), Load("A", (Var("i"), Var("k")), FLOAT32))
    guarded = replace(block, predicate=test)
    body = For("i", 8, For("k", 64, guarded))
    found = report_of(s.program.replace(body=body), TARGET).remarks
    (remark,) = [n for n in found if n.kind == "promotion"]
    assert remark.where == "R"
    assert "its update stands under a condition" in remark.text


def test_the_place_depends_on_the_reduction_loop():
    s = row_sum(8, 64)
    s.fuse("i", "k")
    found = report(s).remarks
    assert ("promotion", "R") in {(n.kind, n.where) for n in found}
    assert any("the place that is updated depends on" in n.text for n in found)


def test_a_tile_may_take_more_registers_than_there_are():
    s = matmul(60, 46, 7, 10, 23, "int64")
    assert {("vector", "j_1"), ("registers", "C")} <= kinds(s)


# ---- loops


def test_nested_parallel_loops():
    s, (i, j) = elementwise(lambda A, i, j: A[i, j] + 1.0, 8, 8)

    def parallel(node):
        return replace(node, kind=LoopKind.PARALLEL) if isinstance(node, For) else node

    found = report_of(s.program.replace(body=rewrite(s.program.body, parallel)), TARGET)
    (remark,) = found.remarks
    assert (remark.kind, remark.where) == ("parallel", j)
    assert remark.text == "runs on one thread: it stands inside a parallel loop"
    assert found.outcomes[i] == ("on 4 threads",)


def test_fewer_iterations_than_threads():
    s, (i,) = elementwise(lambda A, i: A[i] + 1.0, 3)
    s.parallel(i)
    assert remarks(s) == [("parallel", i, "3 iterations keep 3 of 4 threads busy")]
    assert remarks(s, Target("c", 1, 512)) == [
        ("parallel", i, "runs on one thread: the target has one")
    ]


def test_a_single_parallel_iteration():
    s, (i,) = elementwise(lambda A, i: A[i] + 1.0, 1)
    s.parallel(i)
    assert remarks(s) == [("parallel", i, "has one iteration, so one thread")]


def test_a_loop_too_long_to_be_written_out():
    s, (i, j) = elementwise(lambda A, i, j: A[i, j] + 1.0, 300, 61)
    s.unroll(i)
    s.vectorize(j)
    ((_, where, text),) = [n for n in remarks(s) if n[0] == "unroll"]
    assert where == i
    assert text.startswith("stays a loop: written out it would be 1794 statements more, and of")


def test_a_loop_is_cut_where_its_guard_holds():
    s, (i,) = elementwise(lambda A, i: A[i] + 1.0, 61)
    outer, _ = s.split(i, [None, 8])
    assert report(s).outcomes[outer] == ("cut: guards hold for 0 … 6 of 8",)
    assert remarks(s) == []


def test_a_guard_that_stays():
    s = row_sum(8, 64)
    s.reorder("k", "i")
    f = s.fuse("k", "i")
    found = [n for n in report(s).remarks if n.kind == "guard"]
    assert found and all(n.where == f for n in found)
    assert "is tested in every iteration" in found[0].text


def test_versions_of_a_tile_are_no_guards():
    A, k = mt.placeholder((64, 64), name="A"), mt.reduce_axis(64, "k")
    terms = lambda i: mt.sum(mt.if_then_else(k <= i, A[i, k], 0.0), axis=k)
    s = mt.Schedule(mt.lower([A, mt.compute((64,), terms, name="B")]))
    outer, inner = s.split("i", [None, 8])
    s.reorder(outer, "k", inner)
    s.unroll(inner)
    outcomes = report(s).outcomes[inner]
    assert "has a version without terms that are zero by their place" in outcomes
    assert not [n for n in remarks(s) if n.kind == "guard"]


# ---- registers


def test_pressure_of_a_tile_that_fits():
    (pressure,) = report(matmul()).pressures
    assert (pressure.loop, pressure.tiles) == ("k", {"C": 16})
    assert pressure.needed == 19 and pressure.available == 32


def test_pressure_of_a_tile_that_does_not():
    found = report(in_registers(matmul(48, 128, 16, 12, 64)))
    (pressure,) = found.pressures
    assert pressure.needed == 12 * 4 + 4 + 1
    (remark,) = found.remarks
    assert (remark.kind, remark.where) == ("registers", "C_register")
    assert "k holds 48 of C_register and 5 of operands, and the machine has 32" in remark.text
    assert remark.advice == "smaller tile: split i_1 by 6"


def test_the_advice_fits():
    assert remarks(in_registers(matmul(48, 128, 16, 6, 64))) == []


def test_registers_of_a_machine():
    assert [usual_registers(bits) for bits in (0, 128, 256, 512)] == [16, 16, 16, 32]
    s = matmul(64, 128, 16, 4, 32)
    narrow = Target("c", 4, 256)
    assert [n.kind for n in report(s, narrow).remarks] == ["registers"]
    assert report(s, narrow, registers=32).remarks == ()


def test_scalar_accumulators_count():
    s = row_sum(64, 8)
    outer, inner = s.split("i", [None, 4])
    s.reorder(outer, "k", inner)
    s.unroll(inner)
    (pressure,) = report(s).pressures
    assert pressure.tiles == {"R": 4}


def test_too_many_parts_for_variables():
    s = in_registers(matmul(64, 256, 16, 16, 128))
    ((kind, where, text),) = [n for n in remarks(s) if n[0] == "registers"]
    assert (kind, where) == ("registers", "C_register")
    assert "is an array in memory" in text


# ---- what else an report holds


def test_places_of_buffers():
    A = mt.placeholder((512, 64), name="A")
    B = mt.compute((512, 64), lambda i, j: A[i, j] + 1.0, name="B")
    C = mt.compute((512, 64), lambda i, j: B[i, 63 - j] * 2.0, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    (place,) = report(s).storage
    assert (place.buffer, place.where, place.size) == ("B", "workspace", 512 * 64 * 4)
    s.compute_at("B", s.get_loops("C")[0])
    s.parallel(s.get_loops("C")[0])
    (place,) = report(s).storage
    assert (place.buffer, place.where, place.size, place.copies) == ("B", "stack", 256, 1)


def test_work():
    found = report(matmul(64, 128, 16))
    assert found.operations == 2 * 64 * 128 * 16
    assert found.argument_bytes == 4 * (64 * 16 + 16 * 128 + 64 * 128)


def test_only_for_c():
    with pytest.raises(mt.ArgumentError, match="is not available"):
        report_of(matmul().program, Target("cuda", 1, 0))


def test_names_of_every_kind_can_be_shown():
    A = mt.placeholder((np.int64(7),), name="A\nB")
    s = mt.Schedule(mt.lower([A, mt.compute((7,), lambda i: A[i] + 1.0, name="B")]))
    s.vectorize("i")
    assert "\n" not in str(report(s).remarks[0])
