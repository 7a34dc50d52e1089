"""The demo, run in this process; nothing here may need a compiler."""

import pytest

from tests.unit.cli.conftest import Done, no_compiler, surroundings
from tutorials.demo.__main__ import main

__all__ = ["no_compiler", "surroundings"]


@pytest.fixture
def run(capsys):
    """Runs the demo with some words."""
    return lambda *words: Done(main([str(word) for word in words]), capsys.readouterr())
