"""The command, run in this process; nothing here may need a compiler."""

import pytest

from benchmarks.compare.__main__ import main
from tests.unit.cli.conftest import Done, no_compiler, surroundings

__all__ = ["no_compiler", "surroundings"]


@pytest.fixture
def run(capsys):
    """Runs the command with some words."""
    return lambda *words: Done(main([str(word) for word in words]), capsys.readouterr())
