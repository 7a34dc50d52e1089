"""Every lesson is a test: it is run from top to bottom, and draws what is kept of it."""

import runpy
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from minitensor.search import Processes

from .course.drawing import FOLDER
from .course.lessons import PICTURES


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
        """Run it; what it asserts must hold, and its pictures are those that are kept."""
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setenv(FOLDER, folder)
            patch.chdir(folder)
            with Processes():
                runpy.run_path(str(self.path), run_name="__main__")
            for drawn in sorted(Path(folder).glob("*.svg")):
                kept = (PICTURES / drawn.name).read_text()
                assert kept == drawn.read_text(), "run python -m docs.make_lessons"
