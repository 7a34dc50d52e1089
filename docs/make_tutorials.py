"""Writes tutorials/README.md, the list of lessons: `python -m docs.make_tutorials`."""

import pathlib

from tutorials import lessons

TARGET = pathlib.Path(__file__).parents[1] / "tutorials" / "README.md"

INTRODUCTION = """\
# Tutorials

A course in lessons, from a tensor expression to an auto-scheduler; behind the capstone, lesson 22,
are lessons on networks. Each is a Python file to read from top to bottom and to run:
`python tutorials/01_first_kernel.py`. `make test` executes each, so what it says is what happens.
You need Python and numpy; a C compiler makes it faster, and no lesson needs a GPU.

Each lesson has tasks. `minitensor course start my_course` writes the lessons and the files to fill
in, `minitensor course check 01` judges what you wrote there, and `minitensor course quiz 07` asks
questions. [docs/teaching.md](../docs/teaching.md) is for those who teach it.

| | lesson | about | tasks |
|---|---|---|---|
"""

REST = """
(The times are estimates, tasks included.)

Then

- [schedules](schedules): hand schedules of matrix products, convolutions, reductions, attention
  and streams, step by step, each step with its reason; `python -m benchmarks.steps matmul-512`
  times the steps
- [demo](demo): `make demo` defines a dense layer, schedules it step by step, and lets a search
  schedule three workloads, in turns with numpy
"""


def text() -> str:
    """The page."""
    rows = [
        f"| {lesson.number} | [{lesson.title}]({lesson.path.name}) | {lesson.minutes} min "
        f"| {', '.join(f'`{task.name}`' for task in lesson.tasks)} |"
        for lesson in lessons()
    ]
    return INTRODUCTION + "\n".join(rows) + "\n" + REST


if __name__ == "__main__":
    TARGET.write_text(text())
