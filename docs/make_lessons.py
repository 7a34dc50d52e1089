"""Runs the lessons and keeps their pictures; links them into tutorials/.

python -m docs.make_lessons [NUMBER …]
"""

import os
import pathlib
import subprocess
import sys

from minitensor.course import Lesson, lessons
from minitensor.course.lessons import PICTURES

TUTORIALS = pathlib.Path(__file__).parents[1] / "tutorials"


def linked(lesson: Lesson) -> None:
    """Link a lesson into tutorials/."""
    link = TUTORIALS / lesson.path.name
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(lesson.path, TUTORIALS))


def drawn(lesson: Lesson, folder: pathlib.Path) -> None:
    """Run a lesson in a process of its own; its pictures go to a folder."""
    root = str(TUTORIALS.parent)
    variables = {"MINITENSOR_COURSE_PICTURES": str(folder), "PYTHONPATH": root}
    environment = {**os.environ, **variables}
    subprocess.run([sys.executable, str(lesson.path)], check=True, env=environment)


if __name__ == "__main__":
    for one in lessons():
        if not sys.argv[1:] or one.number in sys.argv[1:]:
            linked(one)
            for old in PICTURES.glob(f"{one.number}_*.svg"):
                old.unlink()
            drawn(one, PICTURES)
