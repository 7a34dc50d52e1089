"""The fixtures of tests/unit/cli, with a compiler."""

from tests.unit.cli.conftest import run, surroundings, trace_file, user_file

__all__ = ["run", "surroundings", "trace_file", "user_file"]
