"""Every tutorial is a test: it is run from top to bottom."""

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> pytest.Collector | None:
    """Collect the numbered lessons."""
    if file_path.suffix == ".py" and file_path.name[:2].isdigit():
        return Lesson.from_parent(parent, path=file_path)
    return None


class Lesson(pytest.File):
    """A file with one test: itself."""

    def collect(self) -> Iterator[pytest.Item]:
        """The one test."""
        yield Run.from_parent(self, name="runs")


class Run(pytest.Item):
    """Running a lesson."""

    def runtest(self) -> None:
        """Run it; what it asserts must hold."""
        runpy.run_path(str(self.path), run_name="__main__")
