"""Random candidates without repetition; the grid in its order."""

from itertools import islice

from minitensor.search.space import Space
from minitensor.search.tuners import Grid, Random
from tests.unit.search.tune.made import TARGET, product
from tests.unit.search.tuners.made import SPACE, a_round, drawn, tried

PROGRAM = product(16)


def tiles(s):
    i, j, _ = s.get_loops("C")
    s.split(i, s.sample_perfect_tile(i, n=2))
    s.split(j, s.sample_perfect_tile(j, n=2))


def test_nothing_is_drawn_twice_in_a_search():
    space = Space.of_template(PROGRAM, TARGET, tiles)
    history = []
    for seed in range(10):
        found = list(Random().propose(a_round(history, seed, 3, space=space)))
        assert len(found) == len(set(found)) and not {t.candidate for t in history} & {*found}
        history += tried(found[:3], first=len(history) + 1)
    assert len({t.candidate for t in history}) == 25  # all of them, and then no more
    assert list(Random().propose(a_round(history, 11, 3, space=space))) == []


def test_random_candidates_depend_on_the_seed():
    first, again, other = (list(Random().propose(a_round([], seed))) for seed in (0, 0, 1))
    assert first == again != other
    assert len(first) > 8


def test_the_grid_goes_on_behind_what_was_tried():
    whole = list(islice(Grid().propose(a_round([])), 40))
    assert len(set(whole)) == 40
    assert {c.sketch for c in whole} == set(range(len(SPACE.sketches)))
    history = tried(whole[:16])
    rest = list(islice(Grid().propose(a_round(history, seed=5)), 24))
    assert rest == whole[16:]


def test_the_grid_ends_where_nothing_is_new_for_long():
    failed = drawn(30, seed=3)  # of another strategy, anywhere
    found = list(Grid().propose(a_round(tried(failed[:1]), count=1)))
    assert 64 <= len(found) <= 128 and failed[0] not in found


def test_the_grid_of_a_small_space_has_every_candidate_of_it():
    space = Space.of_template(PROGRAM, TARGET, tiles)
    assert len(set(Grid().propose(a_round([], space=space)))) == 25
