"""Tables that are in the package, and what a replay on one gives."""

import gzip
import json

import numpy as np
import pytest

import minitensor as mt
from minitensor.lang import definition_as_python
from minitensor.search import workload_key
from tutorials import TABLES, table, tables
from tutorials.replay import Table, TableSpace, replay
from tutorials.schedules import HAND_SCHEDULES


@pytest.mark.parametrize("name", tables())
def test_a_table_of_the_package_is_whole(name, tmp_path):
    found = table(name)
    assert found.name == name
    assert workload_key(found.program) == workload_key(HAND_SCHEDULES[name].define())
    assert max(found.programs) + 1 == len(found.seconds)
    assert not np.isnan(found.seconds).any() and 0 < found.best < np.inf
    found.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (TABLES / f"{name}.json.gz").read_bytes()


def test_a_replay_is_the_same_each_time():
    space = TableSpace(table("batch-matmul"))
    one, other = replay(space, "random", 12, seed=3), replay(space, "random", 12, seed=3)
    assert [t.program for t in one.tried] == [t.program for t in other.tried]
    assert len({t.program for t in one.tried}) == 12 == len(one.curve) == len(one.times)
    assert one.curve == sorted(one.curve) and 0 < one.curve[-1] <= 1
    best = min(t.seconds for t in one.tried)
    assert one.curve[-1] == pytest.approx(space.table.best / best)
    assert (np.diff(one.times) > 0).all()


def test_a_strategy_that_proposes_nothing_new_ends_it():
    class Same:
        def propose(self, round):
            return [next(iter(round.space.names))] * 9

    assert len(replay(table("batch-matmul"), Same(), 12).tried) == 1


def test_what_is_refused():
    with pytest.raises(mt.ArgumentError, match="softmax"):
        table("nothing")
    with pytest.raises(mt.ArgumentError, match="evolution"):
        replay(table("batch-matmul"), "clever")
    with pytest.raises(mt.ArgumentError, match="trials"):
        replay(table("batch-matmul"), "random", trials=0)


def changed(**given):
    values = json.loads(gzip.decompress((TABLES / "batch-matmul.json.gz").read_bytes()))
    return gzip.compress(json.dumps(values | given).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        gzip.compress(b"[]"),
        gzip.compress(b"{"),
        changed(workload="0" * 64),
        changed(definition="import os"),
        changed(target={"kind": "abacus"}),
        changed(sketches=[]),
        changed(seconds=["long"]),
        changed(allowed=3),
    ],
)
def test_a_file_that_is_no_table(data, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(mt.ArgumentError, match="is no table"):
        Table.load(path)


def test_the_definition_is_in_the_file():
    values = json.loads(gzip.decompress((TABLES / "softmax.json.gz").read_bytes()))
    assert values["definition"] == definition_as_python(table("softmax").program)
