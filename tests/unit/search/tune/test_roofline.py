"""What a program could take at least."""

import dataclasses

import pytest

import minitensor as mt
from minitensor.errors import CompileError
from minitensor.looks import figure
from minitensor.search.tune import roofline
from minitensor.search.tune.progress import Teller
from minitensor.search.tune.roofline import Roofline, quantity
from tests.unit.search.tune.made import LIMITS, TARGET, found, product, progress


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    monkeypatch.setattr(roofline, "known_limits", lambda threads: LIMITS)


def test_a_product():
    found = Roofline.of(product(100), TARGET)
    assert found.flop == 2 * 100**3
    assert found.bytes == 3 * 4 * 100**2
    assert found.intensity == pytest.approx(2e6 / 1.2e5)
    assert found.ridge == 10.0
    assert found.least == pytest.approx(2e6 / 100e9)
    assert found.rate(1e-4) == pytest.approx(20.0)
    assert found.part(1e-4) == pytest.approx(0.2)
    assert found.figures(1e-4) == "100 µs, 20 GFLOP/s, 20 % of peak"
    text = "\n".join(found.lines(1e-4))
    assert "2 million operations on 120,000 bytes of arguments: 16.7 operations a byte" in text
    assert "at most 100 GFLOP/s with 2 threads, and moves 10 GB/s" in text
    assert "arithmetic is the limit (memory below 10 operations a byte): 20 µs at least" in text
    assert "20 GFLOP/s is 20 % of 100; 5 times as long as the limit" in text


def test_dtypes_have_their_sizes():
    program = mt.lower(mt.workloads.matmul(m=8, n=8, k=8, dtype="float64"), name="product")
    assert Roofline.of(program, TARGET).bytes == 3 * 8 * 64


def test_a_small_product_is_bound_by_memory():
    found = Roofline.of(product(10), TARGET)
    assert found.least == pytest.approx(1200 / 10e9)
    assert "memory is the limit (up to 10 operations a byte)" in "\n".join(found.lines(1e-6))


def test_where_no_products_are_summed_bytes_count():
    program = mt.lower(mt.workloads.softmax(m=10, n=100), name="softmax")
    found = Roofline.of(program, TARGET)
    assert (found.flop, found.bytes, found.unit) == (0, 8000, "GB/s")
    assert found.peak == 10.0
    assert found.figures(1e-6) == "1 µs, 8 GB/s, 80 % of bandwidth"
    assert found.figures(1e-7) == "100 ns, 80 GB/s, 800 % of bandwidth"
    text = "\n".join(found.lines(1e-6))
    assert "the definition sums no products" in text
    assert "memory is the limit, unless the arguments stay in caches: 800 ns at least" in text


def test_without_limits(monkeypatch):
    def missing(threads):
        raise CompileError("no compiler")

    monkeypatch.setattr(roofline, "known_limits", missing)
    found = Roofline.of(product(100), TARGET)
    assert found.limits is None and found.peak is None and found.part(1.0) is None
    assert found.figures(1e-4) == "100 µs, 20 GFLOP/s"
    assert found.lines(1e-4)[-1] == "what this machine does at most could not be measured"


def test_only_what_runs_here_has_limits(monkeypatch):
    monkeypatch.setattr(roofline, "known_limits", None)
    assert Roofline.of(product(), mt.Target("interpreter")).limits is None


@pytest.fixture
def measured(monkeypatch):
    """The peaks that measurements give, one after the other."""
    peaks = [150.0, 999.0]

    def remember(limits):
        return dataclasses.replace(LIMITS, peak=max(LIMITS.peak, limits))

    monkeypatch.setattr(roofline, "measure_limits", lambda threads: peaks.pop(0))
    monkeypatch.setattr(roofline, "remember_limits", remember)
    return peaks


def test_who_is_faster_than_the_machine_has_it_measured_anew(measured):
    found = Roofline.of(product(100), TARGET)
    assert found.part(1e-5) == pytest.approx(2.0)
    assert found.corrected(1e-5).limits.peak == 150.0
    assert measured == [999.0]


def test_a_search_has_it_measured_anew_once(measured):
    teller = Teller("product", Roofline.of(product(100), TARGET))
    assert teller.standing(progress(best=1e-3)).known["best"].endswith(" 2 % of peak")
    assert teller.standing(progress(best=1.5e-5)).known["best"].endswith(" 88.9 % of peak")
    faster = teller.standing(progress(best=1e-6)).known["best"]
    assert faster.endswith(", more than the peak that was measured (the machine was busy)")
    assert measured == [999.0]


def test_whoever_was_interrupted_does_not_wait_for_it(measured):
    result = dataclasses.replace(found()[0], seconds=1e-9, interrupted=True)
    assert result.roofline().limits is LIMITS
    assert dataclasses.replace(result, interrupted=False).roofline().limits.peak == 150.0


def test_who_is_slower_has_nothing_measured(measured):
    found = Roofline.of(product(100), TARGET)
    assert found.corrected(1e-4) is found
    softmax = Roofline(0, 10**6, LIMITS)  # out of a cache
    assert softmax.corrected(1e-5) is softmax
    assert Roofline(10**6, 10**6, None).corrected(1e-9).limits is None
    assert len(measured) == 2


def test_an_empty_program_has_no_rate():
    empty = Roofline(0, 0, LIMITS)
    assert empty.figures(1e-3) == "1 ms"


def test_numbers_in_words():
    assert [figure(v) for v in (0.01234, 5.678, 123.4, 1234.5, 999.7)] == [
        "0.0123", "5.68", "123", "1,234", "1,000",
    ]  # fmt: skip
    assert [quantity(v) for v in (12, 123456, 2 * 1024**3, 3 * 10**12)] == [
        "12", "123,456", "2.15 billion", "3 trillion",
    ]  # fmt: skip
