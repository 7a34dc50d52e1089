"""The bandwidths of the caches: no speed is asserted, only what is asked for and kept."""

import pytest

from minitensor.runtime import Limits, cache_bandwidths, limits, roofs

LIMITS = Limits(1, 256, peak=9.0, peak_core=9.0, read=0.5, copy=0.4, triad=0.3)


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "BURST_SECONDS", 0.001)
    monkeypatch.setattr(roofs, "BYTES", 1 << 16)
    monkeypatch.setattr(roofs, "remember", lambda name, value: kept.update({name: value}))
    monkeypatch.setattr(roofs, "recall", lambda name: kept.get(name))
    monkeypatch.setattr(roofs, "known_limits", lambda threads: LIMITS)
    kept: dict = {}
    roofs._known.cache_clear()
    yield kept
    roofs._known.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_each_level_has_a_bandwidth(threads):
    found = cache_bandwidths(threads)
    assert list(found)[:2] == ["L1", "L2"] and min(found.values()) > 0


def test_the_best_of_the_first_few_is_kept(quick, monkeypatch):
    rates = iter([{"L1": 3.0, "L2": 2.0}, {"L1": 2.0, "L2": 4.0}, {"L1": 1.0, "L2": 1.0}])
    monkeypatch.setattr(roofs, "_measured", lambda threads: next(rates))
    for _ in range(5):
        roofs._known.cache_clear()
        found = cache_bandwidths(1)
    assert found == {"L1": 3.0, "L2": 4.0}
    assert next(rates, None) is None


def test_a_measurement_on_a_busy_machine_is_not_counted(quick, monkeypatch):
    monkeypatch.setattr(roofs, "_measured", lambda threads: {"L1": 2.0, "L2": 0.1})
    cache_bandwidths(1)
    assert [kept["tries"] for kept in quick.values()] == [0]


def test_what_was_kept_is_not_believed(quick, monkeypatch):
    monkeypatch.setattr(roofs, "_measured", lambda threads: {"L1": 1.0})
    monkeypatch.setattr(roofs, "recall", lambda name: {"bandwidths": [1], "tries": "x"})
    assert cache_bandwidths(1) == {"L1": 1.0}
