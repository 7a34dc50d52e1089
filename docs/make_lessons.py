"""Runs the lessons and keeps their pictures in tutorials/pictures.

python -m docs.make_lessons [NUMBER …]
"""

import os
import pathlib
import subprocess
import sys

from tutorials import Lesson, lessons
from tutorials.course.lessons import PICTURES


def drawn(lesson: Lesson, folder: pathlib.Path) -> None:
    """Run a lesson in a process of its own; its pictures go to a folder."""
    root = str(PICTURES.parents[1])
    variables = {"MINITENSOR_COURSE_PICTURES": str(folder), "PYTHONPATH": root}
    environment = {**os.environ, **variables}
    words = [sys.executable, str(lesson.path)]
    done = subprocess.run(words, check=False, env=environment, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        sys.exit(f"lesson {lesson.number} ({lesson.path.name}) fails: {said[-1] if said else ''}")


if __name__ == "__main__":
    for one in lessons():
        if not sys.argv[1:] or one.number in sys.argv[1:]:
            for old in PICTURES.glob(f"{one.number}_*.svg"):
                old.unlink()
            drawn(one, PICTURES)
