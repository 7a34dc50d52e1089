"""The best of a log, as a schedule."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.errors import ArgumentError, TuningError
from minitensor.search import Log, load_best, new_record
from tests.made_records import TARGET, canonical, failed, made

OTHER = mt.Target("c", num_cores=64, vector_bits=512)


def program(name="matmul", m=8):
    return mt.lower(mt.workloads.matmul(m=m, n=8, k=8), name=name)


def trace(factor, loop="i"):
    s = mt.Schedule(program())
    s.split(loop, [None, factor])
    return s.trace


def tried(factor, seconds, **changes):
    given = {"program": program(), "target": TARGET, "trace": trace(factor), **changes}
    return new_record(**given, seconds=[seconds])


def text_of(record, text):
    """The record with another trace."""
    fields = {name: getattr(record, name) for name in record.__slots__}
    return made(**{**fields, "trace": text})


@pytest.fixture
def log(log):
    log.append(tried(2, 0.3))
    log.append(tried(4, 0.1))
    log.append(tried(8, 0.2))
    return log


def test_the_fastest_is_applied(log, caplog):
    s = mt.load_best(log.path, program(), TARGET)
    assert isinstance(s, mt.Schedule)
    assert s.trace == trace(4)
    assert s.program == trace(4).apply(program()).program
    assert caplog.messages == []
    assert load_best(log, program("another name"), TARGET).trace == trace(4)
    assert load_best(str(log.path), program(), TARGET).trace == trace(4)


def test_the_schedule_goes_on(log):
    s = load_best(log, program(), TARGET)
    s.unroll("i_1")
    ones = np.ones((8, 8), "float32")
    assert (mt.interpret(s, ones, 2 * ones) == 16).all()


def test_for_the_interpreter(log):
    record = tried(2, 1.0, target="interpreter")
    log.append(record)
    assert load_best(log, program(), "interpreter").trace == trace(2)


def test_one_that_cannot_be_applied_gives_way(log, caplog):
    log.append(tried(3, 0.05, trace=trace(3, "j")))
    good = tried(2, 0.01)
    steps = good.trace.replace('"i"', '"gone"')
    assert steps != good.trace
    log.append(text_of(good, steps))
    log.append(text_of(tried(2, 0.02), canonical({"minitensor_trace": 99})))
    s = load_best(log, program(), TARGET)
    assert s.trace == trace(3, "j")
    (warning,) = caplog.messages
    assert "2 faster records of matmul cannot be applied, and the next best was taken" in warning
    assert '"gone"' in warning


def test_a_log_that_says_otherwise_makes_no_loop_parallel(log, caplog):
    s = mt.Schedule(program())
    s.parallel("i")
    good = tried(2, 0.01, trace=s.trace)
    log.append(text_of(good, good.trace.replace('"i"', '"k"')))
    s = load_best(log, program(), TARGET)
    assert s.trace == trace(4)
    assert 'parallel("k") breaks R2' in caplog.text
    with pytest.raises(mt.ScheduleError):
        s.parallel("k")


def test_a_trace_with_open_decisions_is_no_schedule(log, caplog):
    s = mt.Schedule(program())
    s.sample_categorical([1, 2])
    log.append(tried(2, 0.01, trace=s.trace.opened()))
    assert load_best(log, program(), TARGET).trace == trace(4)
    assert "leaves decisions open" in caplog.text


def test_none_can_be_applied(tmp_path):
    log = Log(tmp_path / "log")
    log.append(text_of(tried(2, 0.1), canonical({})))
    with pytest.raises(TuningError, match=r"none of 1 record of matmul can be applied; the first"):
        load_best(log, program(), TARGET)


def test_there_is_no_record(log):
    with pytest.raises(TuningError) as caught:
        load_best(log, program(m=16), TARGET)
    assert str(caught.value).startswith(f"{log.path} has no record of matmul (workload ")
    assert "`minitensor log show` lists what it has" in str(caught.value)


def test_there_is_one_for_another_target(log):
    with pytest.raises(TuningError) as caught:
        load_best(log, program(), OTHER)
    assert str(caught.value) == (
        f"{log.path} has records of matmul, but not for {OTHER}: for {TARGET}"
    )


def test_there_are_failures_only(tmp_path):
    log = Log(tmp_path / "log")
    log.append(failed(workload=tried(2, 0.1).workload))
    with pytest.raises(TuningError, match="all 1 record of matmul are of failures"):
        load_best(log, program(), TARGET)


def test_there_is_no_log(tmp_path):
    with pytest.raises(TuningError, match=r"there is no log .+nowhere"):
        load_best(tmp_path / "nowhere", program(), TARGET)


def test_what_makes_no_sense(log):
    with pytest.raises(ArgumentError, match="expected a program"):
        load_best(log, mt.Schedule(program()), TARGET)
    with pytest.raises(ArgumentError, match="expected the path of a file"):
        load_best(3, program(), TARGET)
    with pytest.raises(ArgumentError, match="target"):
        load_best(log, program(), "gpu")


def test_no_compiler_is_needed_where_all_is_given(log, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert load_best(log, program(), TARGET).trace == trace(4)
    with pytest.raises(mt.CompileError):
        load_best(log, program())
