"""Replays of task schedulers: the oracle is ahead on made curves; kept tables can be read."""

import math
import random

import minitensor as mt
from benchmarks import tasks
from benchmarks.tasks import Oracle, Recorded, opened, replayed


def made(name, first, halves):
    trials = [(1.0, first * 2 ** (-n / halves)) for n in range(1, 65)]
    return Recorded(name, 1, 0.0, first, tuple(trials))


def test_the_oracle_is_ahead():
    network = [made("a", 8.0, 8), made("b", 8.0, 64), made("c", 0.1, 4)]
    oracle = replayed(network, None, 0, math.inf)
    for scheduler in (mt.search.RoundRobin(), mt.search.Gradient(), mt.search.Uniform()):
        other = replayed(network, scheduler, 0, math.inf)
        assert oracle.points[-1] == other.points[-1]  # all of the table, in the end
        assert oracle.at(64.0) <= other.at(64.0)
    target = oracle.points[3][2]
    assert oracle.until(target)[:2] == oracle.points[3][:2]


def test_the_same_seed_is_the_same_replay():
    network = [made("a", 8.0, 8), made("b", 8.0, 64)]
    one, other = (replayed(network, mt.search.Gradient(), 5, 64) for _ in range(2))
    assert one == other and one.points[-1][0] >= 64


def test_tables_that_are_kept():
    paths = sorted(tasks.FOLDER.glob("*.json.gz"))
    assert [path.name.split(".")[0] for path in paths] == ["bert_layer", "mobilenet_v2", "resnet50"]
    for path in paths:
        network = opened(path)
        assert all(task.first > 0 and len(task.trials) >= 90 for task in network)
        legs = Oracle([task.legs(random.Random(0)) for task in network]).legs
        assert all(sum(leg.trials for leg in own) >= 90 for own in legs)
