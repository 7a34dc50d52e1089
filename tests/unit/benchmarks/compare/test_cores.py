"""The choice of cores to pin a process to."""

import builtins
import io
import os

import pytest

from benchmarks.compare import cores
from benchmarks.compare.cores import spread_cores


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not pin")
def test_cores_are_chosen_before_their_second_threads(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 2, 3, 4, 5})
    monkeypatch.setattr(cores, "_place_among_siblings", lambda core: core % 2)
    assert spread_cores(2) == [2, 4]
    assert spread_cores(4) == [2, 4, 1, 3]
    assert spread_cores(9) == [2, 4, 1, 3, 5]


@pytest.mark.parametrize(
    ("text", "place"), [("0-3\n", 2), ("2,6\n", 0), ("1-2,5\n", 1), ("", 0), ("4\n", 0)]
)
def test_the_place_of_a_core_among_its_siblings(monkeypatch, text, place):
    monkeypatch.setattr(builtins, "open", lambda *args, **kwargs: io.StringIO(text))
    assert cores._place_among_siblings(2) == place


def test_a_system_that_cannot_pin(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert spread_cores(2) == []
