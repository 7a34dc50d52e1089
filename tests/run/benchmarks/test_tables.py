"""Tables of costs: what is drawn in one is in it, and a replay sees what it says."""

import random
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import search, tables
from benchmarks.tables import Table, TableSpace
from minitensor.search.space.candidate import USUAL

NAME = "batch-matmul"


@pytest.fixture(scope="module")
def table():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "MOST_NAMES", 30)
        patch.setattr(tables, "MOST_SKETCHES", 3)
        made, schedules = tables.made(NAME, fewest=20)
    assert set(schedules) == set(range(len(made.seconds)))
    costs = np.random.default_rng(0).uniform(1e-4, 1e-3, len(made.seconds))
    costs[3] = np.inf
    return replace(made, seconds=costs)


@pytest.mark.slow
def test_a_table_is_what_was_saved(table, tmp_path):
    path = tmp_path / f"{NAME}.json.gz"
    table.save(path)
    found = Table.load(path)
    np.testing.assert_allclose(found.seconds, table.seconds, rtol=1e-5)
    assert (found.name, found.about, found.target) == (table.name, table.about, table.target)
    assert list(found.programs) == list(table.programs)
    assert found.allowed == table.allowed
    assert [s.steps for s in found.sketches] == [s.steps for s in table.sketches]
    assert list(TableSpace(found).names) == list(TableSpace(table).names)


def test_what_is_drawn_mutated_and_crossed_is_in_the_table(table):
    for template in (False, True):
        space, rng = TableSpace(table, template), random.Random(0)
        assert len(set(space.names.values())) > 20
        candidate, seen = space.draw(rng), set()
        for _ in range(300):
            other = space.draw(rng)
            assert other in space.names
            candidate = space.mutated(candidate, rng) if rng.random() < 0.5 else candidate
            candidate = space.crossed(candidate, other, rng)
            assert candidate in space.names
            seen.add(candidate)
        assert len(seen) > (10 if template else 20)
        if template:
            assert {c.sketch for c in seen} == {0}
            assert all(c == space.annotated(c, *USUAL) for c in seen)


@pytest.mark.slow
def test_two_names_have_one_cost_where_they_are_one_program(table):
    space = TableSpace(table)
    names = list(space.names.items())
    first = {}
    for candidate, number in random.Random(0).sample(names, 40):
        program = str(space.schedule(candidate).program)
        assert first.setdefault(number, program) == program


@pytest.mark.slow
@pytest.mark.parametrize("variant", search.SEARCHES)
def test_a_replay_finds_what_the_table_has(table, variant, monkeypatch):
    monkeypatch.setattr(search, "_space", lambda *key: (table, TableSpace(table, key[1]), {}))
    curve = search.replay(NAME, variant, seed=0, trials=24)
    assert len(curve) == 24
    assert (np.diff(curve) >= 0).all()
    assert 0 < curve[0] <= curve[-1] <= 1
    assert curve == search.replay(NAME, variant, seed=0, trials=24)


def test_an_interval_holds_the_mean():
    values = [0.9, 0.95, 1.0, 1.0, 0.97]
    low, high = search.interval(values)
    assert 0.9 <= low < np.mean(values) < high <= 1.0
