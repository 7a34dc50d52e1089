"""The machine's own limits: no speed is asserted, only that the figures are made of something."""

import dataclasses

import pytest

from minitensor.errors import ArgumentError
from minitensor.runtime import compute_probe, find_toolchain, limits, measure_limits, memory_probes


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(limits, "STEPS", 1000)
    monkeypatch.setattr(limits, "ARRAY_BYTES", 1 << 20)
    monkeypatch.setattr(limits, "BURST_SECONDS", 0.001)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_limits(threads):
    found = measure_limits(threads)
    assert found.threads == threads
    assert found.vector_bits in (128, 256, 512)
    assert min(found.peak, found.peak_core, found.read, found.copy, found.triad) > 0
    assert found.bandwidth == max(found.read, found.copy, found.triad)


def test_all_usable_cores_if_nothing_is_said():
    assert measure_limits().threads >= 1


def test_a_probe_knows_its_work(monkeypatch):
    one = compute_probe(1)
    _, bits, _, _, count = one.name.split()
    assert one.work == 2 * 1000 * int(count) * int(bits) / 32
    assert {p.name: p.work for p in memory_probes(1)} == {
        "read": float(1 << 20),
        "copy": float(2 << 20),
        "triad": float(3 << 20),
    }


def test_what_the_loops_compute(monkeypatch):
    """The copy is complete whatever the number of threads, and the triad is right."""
    made = []
    original = limits.aligned_empty
    monkeypatch.setattr(limits, "aligned_empty", lambda *a: made.append(original(*a)) or made[-1])
    for threads in (1, 3):
        made.clear()
        read, copy, triad = memory_probes(threads)
        a, b, c = made
        assert (a == 1).all()
        assert (b == 2).all()
        read.call()
        copy.call()
        assert (b == 1).all()
        triad.call()
        assert (c == 1.5).all()


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2"])
def test_bad_numbers_of_threads(threads):
    with pytest.raises(ArgumentError, match="a number of threads, at least 1"):
        measure_limits(threads)


def test_one_thread_without_openmp(monkeypatch):
    without = dataclasses.replace(find_toolchain(), openmp=())
    monkeypatch.setattr(limits, "find_toolchain", lambda: without)
    with pytest.raises(ArgumentError, match="1 thread, for the compiler has no OpenMP"):
        measure_limits(2)
    assert measure_limits().threads == 1


def test_limits_are_a_line():
    one = str(limits.Limits(1, 256, 50.0, 50.0, 30.25, 28.0, 29.0))
    assert one.startswith("50 GFLOP/s with 1 thread, vectors of 256 bits; memory: read 30.2, copy")
    assert str(limits.Limits(2, 256, 99.6, 50.0, 30.0, 28.0, 29.0)).startswith(
        "100 GFLOP/s with 2 threads (50 with one), "
    )
