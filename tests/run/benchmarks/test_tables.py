"""Tables of costs: what is drawn in one is in it, and a replay sees what it says."""

import random
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import learned, search, tables
from minitensor.search.space.candidate import USUAL
from tests.parts import some
from tutorials.replay import Table, TableSpace, spent

NAME = "batch-matmul"


@pytest.fixture(scope="module")
def table():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "MOST_NAMES", 30)
        made, schedules = tables.made(NAME, fewest=20, most_sketches=3)
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


@pytest.mark.slow
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


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("variant", search.SEARCHES)
def test_a_replay_finds_what_the_table_has(table, variant, monkeypatch):
    monkeypatch.setattr(search, "opened", lambda *key: (TableSpace(table, *key[1:]), {}))
    curve = search.searched(NAME, variant, seed=0, trials=24)
    assert len(curve) == 24
    assert (np.diff(curve) >= 0).all()
    assert 0 < curve[0] <= curve[-1] <= 1
    assert curve == search.searched(NAME, variant, seed=0, trials=24)


def test_an_interval_holds_the_mean():
    values = [0.9, 0.95, 1.0, 1.0, 0.97]
    low, high = search.interval(values)
    assert 0.9 <= low < np.mean(values) < high <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("baseline", some(learned.BASELINES, lambda number: number == 0))
def test_the_cells_of_the_protocol(table, baseline, monkeypatch):
    """The placebo tries what the baseline does, until there are populations: parents that a policy
    is asked about are drawn all at once, others one by one. With policies something else is tried.
    """
    monkeypatch.setattr(learned, "opened", lambda *key: (TableSpace(table), {}))
    found = {
        cell: learned.run(NAME, baseline, cell, "thompson", "learned", 1, 40)
        for cell in learned.CELLS
    }
    alike = 32 if baseline == "ours" else 8
    assert found["placebo"].speeds[:alike] == found["neither"].speeds[:alike]
    others = [
        [learned.run(NAME, baseline, cell, "thompson", "learned", s, 40).speeds for s in range(6)]
        for cell in ("neither", "sketch")
    ]
    assert others[0] != others[1]
    for one in found.values():
        assert len(one.times) == len(one.speeds) == 40
        assert (np.diff(one.times) > 0).all() and (np.diff(one.speeds) >= 0).all()
        assert one.until(one.speeds[-1])[1] <= 40
        assert one.until(2.0) == (one.times[-1], 40), "a miss has used all of its time"


def test_the_time_of_a_candidate():
    usual = spent(1e-3, 1e-3)
    assert spent(np.inf, 1e-3) < spent(1.0, 1e-3)
    assert spent(5e-3, 1e-3) < usual, "stopped early"


def test_wilcoxons_test():
    """The p of a table: of differences that are 1 to 12, all of one sign, is near 2 / 2**12."""
    assert learned.wilcoxon(range(1, 13)) == pytest.approx(0.0022, abs=0.0003)
    assert learned.wilcoxon([1, -1, 2, -2, 3, -3]) == pytest.approx(1.0)
    assert learned.wilcoxon([0, 0]) == 1.0
    some = [1.1, -0.2, 0.4, 0.9, -0.1, 0.3]
    assert learned.wilcoxon(some) == pytest.approx(learned.wilcoxon([-d for d in some]))
