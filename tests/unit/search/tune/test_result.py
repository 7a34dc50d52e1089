"""The report of a search."""

import dataclasses
import random

import numpy as np
import pytest

import minitensor as mt
from minitensor.looks import readable_seconds
from minitensor.search.runner import Status
from minitensor.search.space import Space, decisions, move_name
from minitensor.search.strategy import Shares
from minitensor.search.tune.result import (
    explanation,
    first_failures,
    importances,
    statement_scores,
)
from minitensor.search.tune.roofline import Roofline
from tests.unit.search.tune.made import LIMITS, TARGET, found, product, searched


@pytest.fixture
def result():
    return found()[0]


def told(result):
    """The sections of an explanation, by their headings."""
    roofline = Roofline(2 * 48**3, 3 * 4 * 48**2, LIMITS)
    head, *parts = explanation(result, roofline).split("\n\n")
    sections = {}
    for part in parts:
        heading, *lines = part.splitlines()
        assert all(line.startswith("  ") for line in lines)
        sections[heading] = [line[2:] for line in lines]
    return head, sections


def test_its_repr_is_short(result):
    first, second, third = repr(result).splitlines()
    assert f"{readable_seconds(result.seconds)} a call" in first and "product" in first
    assert second.strip() == result.space.sketches[result.candidate.sketch].rules
    assert ".explain()" in third and len(first) < 120


def test_every_section_is_there(result):
    head, sections = told(result)
    assert head == (
        f"product: {readable_seconds(result.seconds)} a call, the fastest of {len(result.tried)}"
    )
    assert all(sections.values())
    number = result.candidate.sketch + 1
    assert list(sections) == [
        "how fast",
        f"the sketch, number {number} of {len(result.space.sketches)}",
        "its decisions",
        "the schedule",
        "what the model learnt",
        "what was tried",
        "where the time went",
    ]
    assert sections[f"the sketch, number {number} of {len(result.space.sketches)}"] == (
        result.space.sketches[result.candidate.sketch].explain().splitlines()
    )
    assert sections["the schedule"] == result.trace.as_python().splitlines()


def test_every_decision_is_told_with_its_value(result):
    lines = list(decisions(result.space, result.candidate))
    knobs = result.space.knobs[result.candidate.sketch]
    assert len(lines) == len(knobs) + len(result.candidate.locations) + 2
    for knob, value, line in zip(knobs, result.candidate.values, lines):
        assert line.startswith(f"{knob.loop} of {knob.block}")
        if isinstance(value, tuple):
            assert line.endswith("  " + " x ".join(map(str, value)))
        else:
            assert f"  {knob.candidates[value]} (of " in line
    assert any(line.startswith("threads") for line in lines)


def test_places_of_blocks_are_decisions():
    program = mt.lower(mt.workloads.softmax(m=8, n=8), name="softmax")
    space = Space.of(program, TARGET)
    number = max(range(len(space.sketches)), key=lambda n: len(space.movable[n]))
    assert space.movable[number]
    places = ("root",) * len(space.movable[number])
    candidate = space.draw(random.Random(0), number, places)
    text = "\n".join(decisions(space, candidate))
    for block in space.movable[number]:
        assert f"{block} " in text
    assert text.count("computed in a loop nest of its own") == len(places)


def test_failures_are_told_with_the_first_message_of_each_kind(result):
    kinds = first_failures(result)
    assert {status: count for status, count, _ in kinds} == dict(result.failures)
    for status, _, message in kinds:
        first = next(t for t in result.tried if t.status == status)
        assert message == first.error
    lines = told(result)[1]["what was tried"]
    worked = sum(t.status == "ok" for t in result.tried)
    assert lines[0] == f"{len(result.tried)} candidates, of which {worked} worked"
    built = dict(result.failures)[Status.BUILD.value]
    start = f"{built} not built; the first: candidate 7 ?[31mis bad"
    assert any(line.startswith(start) for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_what_the_log_knew_is_told(result):
    known = dataclasses.replace(
        result, tried=tuple(dataclasses.replace(t, known=t.number <= 10) for t in result.tried)
    )
    assert told(known)[1]["what was tried"][0].endswith("; 10 were in the log already")


def test_the_shares_of_sketches_are_told_with_what_they_rest_on(result):
    count = len(result.space.sketches)
    even, one = (1 / count,) * count, (1.0, *[0.0] * (count - 1))
    shared = dataclasses.replace(result, shares=(Shares(8, even), Shares(16, one)))
    lines = told(shared)[1]["what was tried"]
    place = next(n for n, line in enumerate(lines) if line.startswith("  sketch 1: "))
    assert lines[place + 1].startswith(f"    its share {1 / count:.0%} at first, 100% at last; ")
    parts = [line.split(" in ")[-1] for line in lines if "its share" in line]
    assert sum(int(part.split("%")[0]) for part in parts) == pytest.approx(100, abs=count)
    assert "its share" not in explanation(result, Roofline(2 * 48**3, 3 * 4 * 48**2, LIMITS))


def test_the_moves_that_a_policy_asked_for_are_told(result):
    sketch = result.candidate.sketch
    moves = result.space.moves(sketch)
    odds = [float(n) for n in range(len(moves))]
    lines = told(dataclasses.replace(result, odds={sketch: odds}))[1]
    shown = lines[f"what the mutation policy asked for, of sketch {sketch + 1}"]
    names = [move_name(result.space, sketch, move) for move in moves]
    expected = [f"{n:5.2f} times as often: {name}" for n, name in zip(odds, names)][::-1]
    if len(moves) > 8:
        expected = [*expected[:4], *expected[-4:]]
    assert shown == [line.rstrip() for line in expected]
    assert len(set(names)) == len(names)


def test_importances_are_parts_of_a_whole(result):
    ranked = importances(result.model)
    assert ranked
    parts = [part for _, part in ranked]
    assert sum(parts) == pytest.approx(1.0)
    assert parts == sorted(parts, reverse=True)
    lines = told(result)[1]["what the model learnt"]
    assert lines[1] == f"  {100 * parts[0]:5.1f} %  {ranked[0][0]}"
    assert len([line for line in lines if " %  " in line]) == min(10, len(ranked))


def test_the_scores_of_statements_sum_to_the_schedules(result):
    scores = statement_scores(result, result.model)
    assert [name for name, _ in scores] == list(result.schedule.program.blocks)
    lines = told(result)[1]["what the model learnt"]
    assert [line.split()[0] for line in lines[-len(scores) :]] == [name for name, _ in scores]


def test_without_a_model():
    result, _ = searched(product(16), trials=8, strategy="random")
    assert told(result)[1]["what the model learnt"][0].startswith("nothing: ")


class Linear:
    """A model that is no trees, and does not say what matters to it."""

    def fit(self, X, y):
        self.weights = np.linalg.pinv(np.asarray(X, float)) @ y

    def predict(self, X):
        return np.asarray(X) @ self.weights


def test_a_model_without_trees(result):
    model = dataclasses.replace(result, model=Linear())
    lines = told(model)[1]["what the model learnt"]
    assert lines[0].startswith("Linear, ")
    assert "rank correlation" in lines[1]
    model.model.importance = lambda: [0.0, 3.0, 1.0]
    lines = told(model)[1]["what the model learnt"]
    assert lines[1] == "   75.0 %  float multiply"


def test_time(result):
    assert told(result)[1]["where the time went"][:4] == [
        "0:20 in all",
        "    5.0 s (25 %)  propose: deriving, choosing and scoring candidates, and learning",
        "    2.0 s (10 %)  emit: from schedules to C",
        "    4.0 s (20 %)  compile: waiting for compilers",
    ]
    assert result.time["run"] == result.time.run == 5.0
    assert result.measuring == 15.0


def test_a_busy_machine_is_told(result):
    tried = tuple(dataclasses.replace(t, busy=t.number <= 3) for t in result.tried)
    lines = told(dataclasses.replace(result, tried=tried))[1]["where the time went"]
    assert lines[7].startswith("3 candidates interrupted again and again")


def test_an_interrupted_search_says_so(result):
    head, _ = told(dataclasses.replace(result, interrupted=True))
    assert head.endswith("; the search was interrupted")


def test_a_schedule_from_elsewhere_in_the_log(result):
    best = min(result.tried, key=lambda t: t.seconds)
    others = tuple(dataclasses.replace(t, candidate=None) if t is best else t for t in result.tried)
    sections = told(dataclasses.replace(result, tried=others))[1]
    assert sections["the sketch"] == [
        "the schedule comes from the log, and is none of those that the rules derive now"
    ]
    assert "its decisions" not in sections


def test_the_program_as_it_is_written_may_be_the_best(result):
    schedule = mt.Schedule(result.program)
    best = dataclasses.replace(
        min(result.tried, key=lambda t: t.seconds), trace=schedule.trace, candidate=None
    )
    sections = told(dataclasses.replace(result, schedule=schedule, tried=(best,)))[1]
    (line,) = sections["the sketch"]
    assert line.endswith("faster than the program as it is written")
