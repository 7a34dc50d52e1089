"""The same program under other names: found in a log, and its traces rewritten."""

import pytest

import minitensor as mt
from minitensor.ir import structural_hash
from minitensor.lang.workloads import WORKLOADS
from minitensor.search import Log, generate_sketches, load_best, new_record, workload_key
from minitensor.search.renaming import _under, renamed
from minitensor.search.workload import key_under, names_of
from tests.made_records import TARGET
from tests.outside.steps import halve


def dense(a="A", b="B", c="C", d="D", k="k", n=8):
    A, B = mt.placeholder((n, n), name=a), mt.placeholder((n, n), name=b)
    r = mt.reduce_axis(n, name=k)
    C = mt.compute((n, n), lambda i, j: mt.sum(A[i, r] * B[r, j], axis=r), name=c)
    return mt.lower([A, B, mt.compute((n, n), lambda y, x: mt.maximum(C[y, x], 0.0), name=d)])


OURS = dense()
THEIRS = dense("B", "A", "D", "C", "i_0")
"""Some of the same names, for other things."""


def test_names_tell_the_same_program():
    assert workload_key(OURS) != workload_key(THEIRS) == key_under(OURS, names_of(THEIRS))
    assert _under(OURS, names_of(THEIRS)) == THEIRS.replace(name=OURS.name)
    assert key_under(dense(n=9), names_of(THEIRS)) != workload_key(THEIRS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matmul", "conv2d_bias_relu", "softmax", "argmax", "layer_norm"])
def test_traces_of_all_rules(name):
    workload = WORKLOADS[name]
    program = mt.lower(workload.function(**workload.small))
    others = [f"_{name}" for name in names_of(program)]
    theirs = _under(program, others)
    mt.verify(theirs)
    for sketch in generate_sketches(theirs, TARGET)[:4]:
        schedule = sketch.apply(seed=0)
        ours = renamed(schedule.trace, others, program).apply(program)
        assert structural_hash(ours.program) == structural_hash(schedule.program)
        assert [p.name for p in ours.program.params] == [p.name for p in program.params]


def test_names_that_steps_made():
    s = mt.Schedule(THEIRS)
    s.split("y", [None, 3], tail="cut")
    s.unroll("y_tail")
    s.vectorize(s.get_loops("C_tail")[-1])
    s.cache_read("D", "B", "local")
    s.unroll("ax1")
    s.sample_order(["ax0", "ax1"], candidates=[["ax1", "ax0"]])
    s.annotate("D", "D", "D")
    ours = renamed(s.trace, names_of(THEIRS), OURS).apply(OURS)
    assert structural_hash(ours.program) == structural_hash(s.program)
    text = ours.trace.as_python()
    assert "s.cache_read('C', 'A', 'local')" in text and "s.annotate('C', 'D', 'D')" in text


def test_a_primitive_from_outside():
    s = mt.Schedule(THEIRS)
    s.apply(halve, "i")
    with pytest.raises(mt.MinitensorError, match="may name what is named otherwise here"):
        renamed(s.trace, names_of(THEIRS), OURS)


def traced(program, factor):
    s = mt.Schedule(program)
    s.split(s.get_loops(program.inputs[0].name and s.get_blocks()[0])[0], [None, factor])
    return s.trace


def test_the_best_of_a_log_under_any_names(tmp_path):
    log = Log(tmp_path / "log")
    for program, factor, seconds in ((THEIRS, 2, 0.2), (OURS, 4, 0.3), (THEIRS, 8, 0.1)):
        log.define(program)
        log.append(new_record(program, TARGET, traced(program, factor), seconds=[seconds]))
    for program in (OURS, THEIRS, dense("X", "Y", "Z", "R", "r")):
        best = load_best(log, program, TARGET)
        assert best.trace.steps[0].arguments["factors"] == (None, 8)
        assert best.history[0] is program
        assert set(log.alike(program)) == {workload_key(OURS), workload_key(THEIRS)}
    assert log.alike(dense(n=9)) == {}
    with pytest.raises(mt.TuningError, match="has no record of main"):
        load_best(log, dense(n=9), TARGET)


def test_a_definition_without_names_is_of_its_names_only(tmp_path):
    log = Log(tmp_path / "log")
    log.append(new_record(THEIRS, TARGET, traced(THEIRS, 2), seconds=[0.1]))
    assert load_best(log, THEIRS, TARGET)
    with pytest.raises(mt.TuningError, match="and names too if the log is of an earlier version"):
        load_best(log, OURS, TARGET)
