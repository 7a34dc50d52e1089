"""apply_history_best: what it looks up, what it warns of, and for whom it holds."""

import asyncio
import contextvars
import re
import threading

import numpy as np
import pytest

import minitensor as mt
from minitensor.search import Log, new_record
from tests.unit.search.test_renaming import OURS, THEIRS, dense

KIND = "interpreter"


def logged(path, *entries):
    log = Log(path)
    for program, factor, seconds in entries:
        s = mt.Schedule(program)
        s.split(s.get_loops(s.get_blocks()[0])[0], [None, factor])
        log.define(program)
        log.append(new_record(program, KIND, s.trace, seconds=[seconds]))
    return log


def factor_of(kernel):
    """The factor by which the kernel's first loop was split; None if it was not."""
    found = re.search(r"\*(\d) \+ ", kernel.source)
    return int(found[1]) if found else None


def built(program, **options):
    return mt.build(program, KIND, **options)


def is_right(kernel):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (8, 8)).astype("float32") for _ in range(2))
    np.testing.assert_array_equal(kernel(a, b), np.maximum(a @ b, 0))
    return True


@pytest.fixture
def log(tmp_path):
    return logged(tmp_path / "log.jsonl", (OURS, 2, 0.2), (OURS, 4, 0.1))


def test_the_best_is_built(log, caplog):
    with mt.apply_history_best(log.path):
        assert factor_of(built(OURS)) == 4 and is_right(built(OURS))
        other = built(THEIRS)  # the same under other names
        assert factor_of(other) == 4 and is_right(other)
        assert "(B: float32[8, 8], A: float32[8, 8], C:" in repr(other)
        assert factor_of(built(OURS.replace(name="another"))) == 4
    assert factor_of(built(OURS)) is None
    assert caplog.messages == []


@pytest.mark.parametrize("form", ["a path", "text", "a Log", "two", "a list"])
def test_logs(form, log, tmp_path):
    more = logged(tmp_path / "more.jsonl", (THEIRS, 8, 0.05))
    given = {
        "a path": [log.path],
        "text": [str(log.path)],
        "a Log": [log],
        "two": [log, more.path],
        "a list": [[more, log]],
    }[form]
    with mt.apply_history_best(*given):
        assert factor_of(built(OURS)) == (8 if form in ("two", "a list") else 4)


def test_a_program_without_a_record_is_built_as_it_is_written(log, caplog):
    with mt.apply_history_best(log):
        for _ in range(2):
            assert factor_of(built(dense(n=6))) is None
        built(dense(n=5))
    first, second = caplog.messages
    assert first.startswith("main is built as it is written, unscheduled: ")
    assert "no record" in first
    assert str(log.path) in second


def test_a_schedule_is_built_as_it_is(log):
    s = mt.Schedule(OURS)
    s.split("i", [None, 2])
    with mt.apply_history_best(log):
        assert factor_of(built(s)) == 2
        assert factor_of(built(mt.Schedule(OURS))) is None


def test_a_record_that_cannot_be_applied(log, caplog):
    record = log.best(OURS, KIND)
    steps = record.trace.replace('"i"', '"gone"')
    fields = {name: getattr(record, name) for name in record.__slots__}
    log.append(type(record)(**{**fields, "trace": steps, "seconds": (0.01,)}))
    with mt.apply_history_best(log):
        assert factor_of(built(OURS)) == 4
    assert "cannot be applied, and the next best was taken" in caplog.text


def test_nested_contexts(log, tmp_path, caplog):
    inner = logged(tmp_path / "inner.jsonl", (OURS, 8, 0.5), (dense(n=4), 2, 0.5))
    with mt.apply_history_best(log):
        with mt.apply_history_best(inner):
            assert factor_of(built(OURS)) == 8  # the inner wins, though it is slower
        assert factor_of(built(OURS)) == 4
    with mt.apply_history_best(inner), mt.apply_history_best(log):
        assert factor_of(built(dense(n=4))) == 2  # the outer is asked for what the inner lacks
        assert caplog.messages == []
        built(dense(n=3))
    assert len(caplog.messages) == 1


def test_it_ends_with_the_block(log):
    with pytest.raises(KeyError), mt.apply_history_best(log):
        raise KeyError
    assert factor_of(built(OURS)) is None


def test_threads_begin_without_it(log):
    """Unless they are given the context, as Python 3.14 can be told to do."""
    found = []

    def in_a_thread(run):
        thread = threading.Thread(target=run, args=(lambda: found.append(factor_of(built(OURS))),))
        thread.start()
        thread.join()

    with mt.apply_history_best(log):
        in_a_thread(contextvars.Context().run)
        in_a_thread(contextvars.copy_context().run)
    assert found == [None, 4]


def test_tasks_have_their_own(log):
    async def with_it():
        with mt.apply_history_best(log):
            await asyncio.sleep(0)
            inner = asyncio.create_task(without())
            return factor_of(built(OURS)), await inner

    async def without():
        await asyncio.sleep(0)
        return factor_of(built(OURS))

    async def both():
        return await asyncio.gather(with_it(), without())

    assert asyncio.run(both()) == [(4, 4), None]


def test_what_is_no_log(tmp_path):
    def entered(*logs):
        with mt.apply_history_best(*logs):
            raise AssertionError

    empty, foreign = tmp_path / "empty", tmp_path / "foreign"
    empty.touch()
    foreign.write_text("these are\nno records\n")
    with pytest.raises(mt.TuningError, match=r"there is no log .*nowhere"):
        entered(tmp_path / "nowhere")
    with pytest.raises(mt.TuningError, match=r"empty has no records of a search: it is empty"):
        entered(empty)
    with pytest.raises(mt.TuningError, match=r"foreign has no records of a search: only 2 damaged"):
        entered(foreign)
    with pytest.raises(mt.ArgumentError, match="expected a file"):
        entered(tmp_path)
    for nothing in ((), ([],)):
        with pytest.raises(mt.ArgumentError, match=r"expected the path of a log, or several"):
            entered(*nothing)
    with pytest.raises(mt.ArgumentError, match=r"expected the path of a file, but got path=3"):
        entered(3)
    assert factor_of(built(OURS)) is None


def test_a_log_that_goes_away(log, caplog):
    with mt.apply_history_best(log):
        log.path.unlink()
        assert factor_of(built(OURS)) is None
    assert "there is no log" in caplog.text
