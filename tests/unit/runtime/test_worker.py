"""The clock of deadlines: what a process cannot help does not count."""

import pytest

from minitensor.runtime import worker as worker_module
from minitensor.runtime.worker import OwnTime


@pytest.fixture
def system(monkeypatch):
    """A system clock, and the seconds for which each thread of a process has waited."""

    class System:
        now = 100.0

        def __init__(self):
            self.waits = {"7": 1.0}

    system = System()
    monkeypatch.setattr(worker_module.time, "monotonic", lambda: system.now)
    monkeypatch.setattr(worker_module, "waits_of", lambda process: dict(system.waits))
    return system


def test_what_runs_or_sleeps_is_on_the_clock(system):
    own = OwnTime(7)
    for _ in range(10):
        system.now += 0.1
        own.seconds()
    assert own.seconds() == pytest.approx(1.0)


def test_waiting_for_a_processor_is_not_of_any_thread(system):
    own = OwnTime(7)
    system.now += 0.3
    system.waits = {"7": 1.1, "8": 5.0, "9": 0.0}  # 8 and 9 are new
    assert own.seconds() == pytest.approx(0.2)
    system.now += 0.3
    system.waits = {"7": 1.2, "8": 5.25, "9": 0.05}  # of those at the same time the longest
    assert own.seconds() == pytest.approx(0.25)


def test_a_machine_that_stands_still_makes_nothing_late(system):
    own = OwnTime(7)
    system.now += 60.0
    assert own.seconds() == pytest.approx(0.5)


def test_a_system_that_says_nothing_of_threads_has_a_clock_all_the_same(system):
    system.waits = {}
    own = OwnTime(7)
    system.now += 0.4
    assert own.seconds() == pytest.approx(0.4)
