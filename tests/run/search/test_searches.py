"""Searches of programs of all kinds, with a compiler: none ends without a result."""

import pytest

import minitensor as mt
from tests.exhaustive_searches import WRITTEN, faults, generated
from tests.parts import some

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path / "cache"))


def test_there_are_thirty_programs():
    assert len(WRITTEN) >= 30


@pytest.mark.slow
@pytest.mark.parametrize("number", some(range(2), lambda number: number == 0))
def test_generated_programs(number):
    assert faults(generated(7, number), number) == []


@pytest.mark.slow
def test_a_program_whose_data_indexes():
    assert faults(mt.lower(WRITTEN["embedding"]()), 0) == []


@pytest.mark.whole
@pytest.mark.parametrize("name", WRITTEN)
def test_programs_written_out(name):
    assert faults(mt.lower(WRITTEN[name]()), 0) == []
