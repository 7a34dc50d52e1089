"""`make test` runs all tests, in two processes."""

import pathlib

import pytest

from tests import halves
from tests.parts import EVERY, left_out

ROOT = pathlib.Path(__file__).parents[2]


def test_every_folder_with_tests_is_in_one_half():
    folders = {*halves.COMPUTING, *halves.RUNNING}
    assert len(folders) == len(halves.COMPUTING) + len(halves.RUNNING)
    assert all((ROOT / folder).is_dir() for folder in {*folders, halves.MOVED})
    files = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "tutorials").rglob("[0-9][0-9]*.py")]
    inside = [f for f in files if any((ROOT / folder) in f.parents for folder in folders)]
    assert len(files) > 100
    assert inside == files


@pytest.mark.slow
def test_it_succeeds_if_both_do(monkeypatch, capfd):
    monkeypatch.chdir(ROOT)
    assert halves.main(["--quick", "--version"]) == 0
    assert capfd.readouterr().out.count("\npytest ") == 2
    monkeypatch.setattr(halves, "COMPUTING", ("tests/no-such-folder",))
    monkeypatch.setattr(halves, "RUNNING", ("tests/unit/test_halves.py",))
    assert halves.main(["--collect-only"]) == 1
    assert "no-such-folder" in capfd.readouterr().out
    monkeypatch.setattr(halves, "COMPUTING", ("tests/unit/test_halves.py",))
    monkeypatch.setattr(halves, "RUNNING", ("tests/no-such-folder",))
    assert halves.main(["--collect-only"]) == 1


@pytest.mark.parametrize("count", [1, 2, 4, 5, 6, 23])
def test_a_part_of_many_cases_is_tried(count):
    kept = [set(range(count)) - set(left_out(f"test_{n}", count)) for n in range(100)]
    assert all(1 <= len(numbers) <= -(-count // EVERY) for numbers in kept)
    assert set.union(*kept) == set(range(count))  # whichever test it is, not always the same
