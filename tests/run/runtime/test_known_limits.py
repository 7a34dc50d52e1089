"""Limits that are kept between processes."""

import pytest

from minitensor.errors import ArgumentError, CompileError
from minitensor.runtime import (
    Limits,
    find_toolchain,
    folder,
    known_limits,
    limits,
    remember_limits,
)


def limits_of(peak, read=10.0, threads=2):
    return Limits(threads, 256, peak, peak / 2, read, 5.0, 6.0)


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """What the next measurements give; how many there were is what is missing from it."""
    found = [limits_of(100.0), limits_of(90.0, read=12.0), limits_of(110.0), limits_of(500.0)]
    monkeypatch.setattr(limits, "measure_limits", lambda threads: found.pop(0))
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path / "cache"))
    limits._known.cache_clear()
    yield found
    limits._known.cache_clear()


def another_process():
    limits._known.cache_clear()


def test_a_process_measures_once(measured):
    assert known_limits(2) == known_limits(2) == limits_of(100.0)
    assert len(measured) == 3


def test_of_the_first_processes_the_best_is_kept_and_then_taken(measured):
    known_limits(2)
    another_process()
    second = known_limits(2)
    assert (second.peak, second.read) == (100.0, 12.0)
    another_process()
    third = known_limits(2)
    assert (third.peak, third.peak_core, third.read) == (110.0, 55.0, 12.0)
    another_process()
    assert known_limits(2) == third
    assert len(measured) == 1


def test_what_is_measured_elsewhere_counts(measured):
    known_limits(2)
    best = remember_limits(limits_of(300.0, read=1.0))
    assert (best.peak, best.read) == (300.0, 10.0)
    another_process()
    found = known_limits(2)
    assert (found.peak, found.read) == (300.0, 12.0)


def test_other_numbers_of_threads_are_other_limits(measured):
    remember_limits(limits_of(70.0, threads=1))
    assert known_limits(2).peak == 100.0


@pytest.mark.parametrize("content", [b"", b"[]", b'{"limits": {"peak": 1}, "tries": 3}', b"\xff"])
def test_a_damaged_entry_is_no_entry(measured, tmp_path, content):
    known_limits(2)
    (entry,) = (tmp_path / "cache").glob("limits-*.json")
    entry.write_bytes(content)
    another_process()
    assert known_limits(2).peak == 90.0


@pytest.mark.parametrize("document", [{}, {"limits": {"peak": 1}, "tries": 3}, {"limits": []}])
def test_an_entry_of_another_form_is_no_entry(measured, tmp_path, document):
    known_limits(2)
    (entry,) = (tmp_path / "cache").glob("limits-*.json")
    folder.remember(entry.stem, document)
    another_process()
    assert known_limits(2).peak == 90.0


def test_the_cache_folder_need_not_be_writable(measured, monkeypatch):
    def full(folder):
        raise CompileError("no space")

    find_toolchain()
    monkeypatch.setattr(folder, "scratch_folder", full)
    assert known_limits(2).peak == 100.0


def test_without_a_compiler_nothing_is_kept(measured, monkeypatch, tmp_path):
    def missing():
        raise CompileError("no compiler")

    monkeypatch.setattr(limits, "find_toolchain", missing)
    assert remember_limits(limits_of(70.0)) == limits_of(70.0)
    assert not list((tmp_path / "cache").glob("limits-*"))


def test_bad_numbers_of_threads(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(ArgumentError, match="a number of threads, at least 1"):
        known_limits(0)
