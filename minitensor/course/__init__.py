"""The course: lessons from a tensor expression to an auto-scheduler, and tasks that are judged.

    minitensor course start my_course       lessons, and files to fill in
    minitensor course check 01              judge what was written

`lessons/` has a text a lesson, in the percent format; `stubs/` what students fill in; `judges/`
what is asked of it. Read `tasks` first (a task, its cases, its judge), then `requirements` (of
schedules), `judges/lesson_01`, `lessons` (texts and tasks), `wire` (values between processes),
`submission` (the student's process), `check` (the judging one), `folder` (a student's folder),
`reports`, `quiz`, `drawing`, `costs` (tables that searches are replayed on). Solutions and wrong
answers are in tests/course, and not here.
"""

# fmt: off
from minitensor.course.check import SEED, Verdict, check_task
from minitensor.course.costs import TABLES, table, tables
from minitensor.course.drawing import Drawing, picture
from minitensor.course.lessons import Cell, Lesson, find, languages, lessons

__all__ = [
    "SEED", "TABLES", "Cell", "Drawing", "Lesson", "Verdict", "check_task", "find", "languages",
    "lessons", "picture", "table", "tables",
]
