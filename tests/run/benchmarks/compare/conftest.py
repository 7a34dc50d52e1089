"""The fixtures of tests/unit/benchmarks/compare, with a compiler."""

from tests.unit.benchmarks.compare.conftest import run
from tests.unit.cli.conftest import surroundings

__all__ = ["run", "surroundings"]
