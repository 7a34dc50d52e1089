"""The fixtures of tests/unit/tutorials, with a compiler."""

from tests.unit.cli.conftest import surroundings
from tests.unit.tutorials.conftest import run

__all__ = ["run", "surroundings"]
