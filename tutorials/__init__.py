"""The course: lessons from a tensor expression to an auto-scheduler, and tasks that are judged.

    minitensor course start my_course       lessons, and files to fill in
    minitensor course check 01              judge what was written

The numbered files are the lessons, texts in the percent format. `stubs/` has what students fill in,
`judges/` what is asked of it, `pictures/` what lessons draw, `tables/` measured costs, which
`replay` plays searches on,
`translations/` lessons in other languages, and `course/` the machinery; `schedules` has hand
schedules step by step, `demo` what `make demo` shows. pip installs the folder as minitensor_course;
a copy works under any name (docs/teaching.md), for imports in it are relative. Solutions and wrong
answers are in tests/course, and not here.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .course.check import SEED, Verdict, check_task
    from .course.costs import TABLES, table, tables
    from .course.drawing import Drawing, picture
    from .course.lessons import Cell, Lesson, find, languages, lessons
    from .course.tasks import small_arrays

# fmt: off
__all__ = [
    "SEED", "TABLES", "Cell", "Drawing", "Lesson", "Verdict", "check_task", "find", "languages",
    "lessons", "picture", "small_arrays", "table", "tables",
]
# fmt: on
_HOMES = {
    "check": ("SEED", "Verdict", "check_task"),
    "costs": ("TABLES", "table", "tables"),
    "drawing": ("Drawing", "picture"),
    "lessons": ("Cell", "Lesson", "find", "languages", "lessons"),
    "tasks": ("small_arrays",),
}


def __getattr__(name: str) -> Any:
    """A name of the course, from its module, which is imported for it: a picture needs no judge."""
    for module, names in _HOMES.items():
        if name in names:
            found = getattr(importlib.import_module(f".course.{module}", __name__), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
