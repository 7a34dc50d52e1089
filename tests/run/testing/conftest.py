"""The fixtures of tests/unit/cli, with a compiler."""

from tests.unit.cli.conftest import run, surroundings

__all__ = ["run", "surroundings"]
