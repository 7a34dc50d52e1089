"""Transfer: the records of other workloads that are used, and their weight in a search."""

import random
import zlib
from dataclasses import replace

import numpy as np
import pytest

import minitensor as mt
from minitensor.runtime import cpu_name
from minitensor.search import Evolution, GradientBoostedTrees, Log, Samples, Space, transfer
from minitensor.search.evolution import NoModel, Population
from minitensor.search.records import OK, Host, encode
from minitensor.search.strategy import Round
from minitensor.search.transfer import (
    FADE,
    Pretrained,
    global_model,
    history_logs,
    other_searches,
    pretrained,
)
from minitensor.search.tune import Learner
from minitensor.search.tune.result import explanation
from minitensor.search.tune.roofline import Roofline
from tests.made_records import KEY, canonical, failed, filled, made
from tests.unit.search.tune.made import LIMITS, TARGET, MadeUp, product, tuner_of

PROGRAM = product(32)


def searched(path, *programs):
    """A log of searches for some programs, whose costs are made up."""
    log = Log(path)
    for program in programs:
        tuner_of(program, 24, log=log).run()
    return log


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A log of one other workload."""
    return searched(tmp_path_factory.mktemp("logs") / "other.jsonl", product(48))


@pytest.fixture
def space():
    return Space.of(PROGRAM, TARGET)


def learnt(logs, seed=0):
    return pretrained(logs, PROGRAM, TARGET, seed)


# ---- arguments


def test_a_history_is_one_log_or_several_or_none(other, tmp_path):
    assert history_logs(None) == history_logs([]) == []
    assert [log.path for log in history_logs(str(other.path))] == [other.path]
    assert history_logs(other) == [other] == history_logs((other,))
    with pytest.raises(mt.TuningError, match="there is no log"):
        history_logs([other, tmp_path / "missing.jsonl"])
    for wrong in (3, [3], {"a"}, b"a"):
        with pytest.raises(mt.ArgumentError, match=r"expected a list of logs|the path of a"):
            history_logs(wrong)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"history": 3}, "a list of logs, or of their paths"),
        ({"history": ["missing.jsonl"]}, r"there is no log missing\.jsonl"),
        ({"history": [""]}, "the path of a file"),
        ({"history": ["here"], "strategy": "random"}, "the strategy asks none"),
    ],
)
def test_wrong_histories_are_told_before_anything_is_done(arguments, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").touch()
    with pytest.raises((mt.ArgumentError, mt.TuningError), match=text):
        mt.tune(PROGRAM, TARGET, log="log.jsonl", space=lambda s: pytest.fail("begun"), **arguments)
    assert not (tmp_path / "log.jsonl").exists()


# ---- which records


def test_records_of_other_workloads_are_learnt_from(other, caplog):
    found = learnt([other])
    kept = [r for r in other if not r.disturbed]
    assert (found.records, found.workloads) == (len(kept), 1)
    assert any(r.status != OK for r in kept)
    assert (found.weight, found.correlation) == (1.0, None)
    assert found.trees.trees and not caplog.messages


@pytest.mark.slow
def test_the_order_of_what_was_measured_is_learnt(other):
    found = learnt([other])
    tables, costs = [], []
    for record in other:
        if record.status == OK:
            schedule = record.parsed().apply(product(48))
            tables.append(mt.search.extract_features(schedule, TARGET))
            costs.append(record.median)
    samples = Samples(np.concatenate(tables), [len(t) for t in tables])
    found.judge(samples, min(costs) / np.array(costs))
    assert found.correlation > 0.7
    assert found.weight == found.correlation * FADE / (FADE + len(costs))


def test_records_of_the_program_itself_are_left_alone(tmp_path, caplog):
    log = searched(tmp_path / "own.jsonl", PROGRAM)
    assert learnt([log]) is None
    assert [text.endswith("own.jsonl can be used") for text in caplog.messages] == [True]


@pytest.mark.parametrize("content", [b"", encode(made(0, workload=KEY))], ids=["empty", "other"])
def test_nothing_usable_is_a_warning(content, log, caplog):
    log.path.write_bytes(content)
    assert learnt([log]) is None
    assert "no record of another workload in" in caplog.messages[-1]


def test_a_file_that_is_no_log_is_an_error(tmp_path):
    path = tmp_path / "table\x1b[31m.csv"
    path.write_bytes(b"a,b\n1,2\n")
    with pytest.raises(mt.ArgumentError, match=r"is none: none of its 2 lines is a record") as told:
        learnt([Log(path)])
    assert "\x1b" not in told.value.message
    with pytest.raises(mt.ArgumentError):
        learnt([Log(tmp_path)])


def line_of(**data):
    body = canonical(data)
    return f'{{"crc":"{zlib.crc32(body.encode()):08x}",{body[1:]}\n'.encode()


def with_definition(log, text, *records):
    """A log with a definition of the workload KEY, whatever its text."""
    log.path.write_bytes(line_of(definition=text, v=2, workload=KEY))
    return filled(log, *records)


HERE = Host(cpu_name(), 2)
OTHER = '{"minitensor_trace":1,"steps":[1]}'


def test_what_is_left_out_gives_one_warning_for_each_reason(log, other, caplog):
    records = [r for r in other if r.status == OK]
    one = records[0]
    filled(
        log,
        *(replace(r, target=replace(TARGET, num_cores=64)) for r in records[:3]),
        *(replace(r, target=replace(TARGET, vector_bits=512)) for r in records[:2]),
        *(replace(r, host=replace(r.host, cpu="other \x1b[31mCPU")) for r in records[:4]),
        replace(one, disturbed=True),
        made(0, host=HERE, workload="e" * 32),
        replace(one, trace='{"minitensor_trace":1,"steps":["hostile"]}'),
        *records,
    )
    log.define(product(48))
    with open(log.path, "ab") as file:
        file.write(line_of(v=7))
    found = learnt([log])
    assert (found.records, found.workloads) == (len(records), 1)
    told = "\n".join(caplog.messages)
    assert len(caplog.messages) == 6 and "\x1b" not in told
    for text in (
        "5 records left out, as they are not for c on 2 cores with vectors of 256 bits",
        "4 records left out, as they were not measured on",
        "1 record left out, as other programs disturbed",
        "1 record left out, as no log has the definition",
        "1 record left out, as their steps cannot be applied",
        "1 record of another version",
    ):
        assert text in told, told


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import os", "the definition of their workload cannot be read; the first: matmul: line 1"),
        ("__import__('os').system('touch pwned')", "cannot be read"),
        ("x" * 200_000, "cannot be read"),
        ("", "cannot be read"),
        (None, "the definition in the log is of another workload"),
    ],
    ids=range(5),
)
def test_definitions_that_cannot_be_used(text, why, log, caplog, tmp_path):
    written = mt.lang.definition_as_python(PROGRAM) if text is None else text
    with_definition(log, written, made(0, host=HERE), failed(1, host=HERE, trace=OTHER))
    assert learnt([log]) is None
    assert len(caplog.messages) == 2
    assert "2 records left out" in caplog.messages[0] and why in caplog.messages[0]
    assert [path.name for path in tmp_path.iterdir()] == [log.path.name]


@pytest.mark.slow
def test_a_definition_may_be_in_another_log(other, tmp_path):
    lines = other.path.read_bytes().splitlines(keepends=True)
    is_definition = [b'"definition"' in line for line in lines]
    parts = [Log(tmp_path / "records"), Log(tmp_path / "definitions")]
    for log, kept in zip(parts, (False, True)):
        chosen = [line for line, found in zip(lines, is_definition) if found is kept]
        log.path.write_bytes(b"".join(chosen))
    assert learnt(parts).records == learnt([other]).records


def test_of_many_records_the_fastest_half_and_a_random_half_are_taken():
    traces = [f'{{"minitensor_trace":1,"steps":[{n}]}}' for n in range(40)]
    records = [made(n, trace=traces[n], seconds=(1.0 + n,)) for n in range(30)]
    records += [failed(n, trace=traces[n]) for n in range(30, 40)]
    chosen = transfer._chosen(records, 10, "0")
    assert chosen[:5] == records[:5] and len({r.seed for r in chosen}) == 10
    random.Random(3).shuffle(records)
    assert transfer._chosen(records, 10, "0") == chosen != transfer._chosen(records, 10, "1")
    assert len(transfer._chosen(records, 100, "0")) == 40
    assert all(r.status != OK for r in transfer._chosen([failed(1)], 10, "0"))


@pytest.mark.slow
def test_records_and_workloads_are_bounded(tmp_path, other, monkeypatch, caplog):
    log = searched(tmp_path / "two.jsonl", product(40))
    monkeypatch.setattr(transfer, "MOST", 12)
    assert learnt([log, other]).records == 12 and learnt([log, other]).workloads == 2
    monkeypatch.setattr(transfer, "MOST_WORKLOADS", 1)
    assert learnt([log, other]).workloads == 1
    assert "as 1 other workloads have more" in caplog.messages[-1]


@pytest.mark.slow
def test_the_model_is_the_same_for_the_same_seed(other):
    first, again = learnt([other]), learnt([other])
    assert first.trees.to_json() == again.trees.to_json()


def test_workloads_without_a_success_teach_nothing():
    rows = np.ones((1, 164), np.float32)
    assert global_model([], 0) is None
    assert global_model([[(float("inf"), rows)], []], 0) is None
    assert global_model([[(float("inf"), rows)], [(1.0, rows), (2.0, 2 * rows)]], 0).records == 2


# ---- its weight


class Sums:
    """In the place of trees: the sums of rows."""

    def __init__(self, sign=1.0):
        self.sign = sign

    def predict(self, samples):
        return self.sign * np.asarray(samples)[:, 0].astype(float)


def samples_of(values):
    return Samples(np.array(values, np.float32)[:, None], [1] * len(values))


@pytest.mark.parametrize("count", [8, 32, 128])
def test_the_weight_fades(count):
    history = Pretrained(Sums(), 1, 1)
    speeds = np.linspace(0, 1, count)
    history.judge(samples_of(10 * speeds + 5), speeds)
    assert history.correlation == pytest.approx(1.0)
    assert history.weight == pytest.approx(FADE / (FADE + count))
    expected = history.weight * (speeds - speeds.mean())
    np.testing.assert_allclose(history.margin(samples_of(10 * speeds + 5)), expected, atol=1e-6)


@pytest.mark.parametrize(
    "speeds",
    [
        np.linspace(1, 0, 20),
        np.ones(20),
        np.zeros(20),
        np.ones(2),
        np.ones(1),
        np.random.default_rng(0).permutation(20) / 20,
    ],
    ids=range(6),
)
def test_a_model_that_ranks_no_better_than_chance_has_none(speeds):
    history = Pretrained(Sums(), 1, 1)
    samples = samples_of(np.arange(len(speeds)))
    history.judge(samples, speeds)
    assert history.weight == 0.0
    assert not history.margin(samples).any()


def test_a_model_that_is_constant_has_none():
    history = Pretrained(Sums(0.0), 1, 1)
    history.judge(samples_of(np.arange(20)), np.linspace(0, 1, 20))
    assert history.weight == 0.0 and np.isfinite(history.margin(samples_of([1.0, 2.0]))).all()


def test_scores_are_those_of_the_history_at_first(space, other):
    rng = random.Random(0)
    batch = [space.draw(rng) for _ in range(16)]
    history = learnt([other])
    learner = Learner(space, GradientBoostedTrees(n_trees=5), history)
    alone = Learner(space, GradientBoostedTrees(n_trees=5))
    assert learner.trusted and not alone.trusted
    scores = learner.score(batch)
    legal = np.isfinite(scores)
    rows = [r for r, kept in zip(learner.features(batch), legal) if kept]
    samples = Samples(np.concatenate(rows), [len(r) for r in rows])
    np.testing.assert_array_equal(scores[legal], history.trees.predict(samples))
    assert (legal == np.isfinite(alone.score(batch))).all() and np.ptp(scores[legal]) > 0

    learner.learn(batch, np.where(legal, scores, 0.0))
    learner.fit()
    assert learner.history.weight > 0 and learner.trusted
    expected = learner.model.predict(samples) + history.margin(samples)
    np.testing.assert_allclose(learner.score(batch)[legal], expected)


def test_a_history_without_weight_changes_no_score(space, other):
    rng = random.Random(0)
    batch = [space.draw(rng) for _ in range(16)]
    history = learnt([other])
    learners = [Learner(space, GradientBoostedTrees(n_trees=5), h) for h in (history, None)]
    worst_first = -learners[0].score(batch)
    speeds = np.where(np.isfinite(worst_first), worst_first - worst_first.min(), 0.0)
    for learner in learners:
        learner.learn(batch, speeds)
        learner.fit()
    assert history.correlation < 0 and history.weight == 0 and not learners[0].trusted
    np.testing.assert_array_equal(learners[0].score(batch), learners[1].score(batch))


# ---- in a search


def first_round(space, trusted, score):
    rng = random.Random(0)
    now = Round(space, [], score, rng, 8, trusted=trusted)
    return Population(space, Evolution(32, 2), rng).beginning(now)


def test_starts_by_hand_stay_in_front_and_mutations_are_ordered(space):
    score = lambda batch: np.array([zlib.crc32(str(c.values).encode()) % 97 for c in batch], float)
    usual, ordered = (first_round(space, trusted, score) for trusted in (False, True))
    hand = len({c.sketch for c in usual})
    assert usual[:hand] == ordered[:hand] and usual != ordered
    if hand < 8:
        near = ordered[hand:8]
        scores = score(near)
        assert list(scores) == sorted(scores, reverse=True)


def test_a_trusted_model_is_asked_at_once(space):
    asked = []

    def score(batch):
        asked.append(len(batch))
        return np.zeros(len(batch))

    best = [space.draw(random.Random(n), 0) for n in range(3)]
    for trusted, strategy in ((True, Evolution(32, 2)), (False, Evolution(32, 2))):
        asked.clear()
        strategy.propose(Round(space, best, score, random.Random(0), 8, trusted=trusted))
        assert len(asked) == (strategy.generations + 1 if trusted else 1)
    NoModel(32, 2).propose(Round(space, best, None, random.Random(0), 8, trusted=True))


def found_by(trials, **given):
    return mt.tune(
        PROGRAM, TARGET, trials, batch=8, runner=MadeUp(False), progress=False,
        strategy=Evolution(32, 2), model=GradientBoostedTrees(n_trees=5), **given,
    )  # fmt: skip


def traces(result):
    return [t.key for t in result.tried]


@pytest.mark.slow
def test_a_search_that_is_resumed_goes_on_as_it_would_have(tmp_path):
    other = searched(tmp_path / "other.jsonl", product(64))
    whole = found_by(32, history=[other])
    assert found_by(16, history=other.path, log=tmp_path / "log").history.weight > 0
    again = found_by(32, history=[other.path], log=tmp_path / "log")
    assert traces(again) == traces(whole)
    assert again.history.weight == whole.history.weight
    assert traces(found_by(32)) != traces(whole)


@pytest.mark.slow
def test_an_explanation_says_what_was_learnt_from(other):
    result = found_by(8, history=[other])
    told = explanation(result, Roofline(2 * 32**3, 3 * 4 * 32**2, LIMITS))
    records = result.history.records
    assert f"at first, from {records} records of 1 other workload; their weight" in told
    assert "rank correlation of what they say with the measured speeds: " in told
    assert "at first, from" not in explanation(found_by(8), Roofline(1, 1, LIMITS))


# ---- what policies learn from


@pytest.mark.slow
def test_searches_are_seen_as_policies_see_them(other):
    (found,) = other_searches([other], PROGRAM, TARGET)
    records = sorted((r for r in other if not r.disturbed), key=lambda r: r.date)
    assert len(found) == len(records) and found.space.program == product(48)
    assert [t.seconds for t in found] == [r.median for r in records]
    assert {t.candidate.sketch for t in found} == {a.number for a in found.arms if a.count}
    assert other_searches([other], product(48), TARGET) == []


@pytest.mark.slow
def test_policies_begin_with_a_history(other, tmp_path):
    def search(**given):
        return mt.tune(
            PROGRAM, TARGET, trials=24, batch=8, seed=3, progress=False, runner=MadeUp(), **given
        )

    policies = {"sketch_policy": "policy_gradient", "mutation_policy": "learned"}
    alone = search(**policies)
    found = [search(**policies, history=[other.path]) for _ in range(2)]
    assert found[0].shares == found[1].shares != alone.shares
    assert not found[0].unchosen.counts
