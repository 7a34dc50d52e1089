"""The machinery of the course: a lecturer who edits a lesson, a stub or a judge need not read it.

Read `tasks` first (a task, its cases, its judge), then `requirements` (of schedules),
`judges/lesson_01`, `lessons` (texts and tasks), `wire` (values between processes), `submission`
(the student's process), `check` (the judging one), `folder` (a student's folder), `reports`,
`quiz`, `drawing`, `costs` (tables that searches are replayed on), `command` (the command line),
`place` (the name of this copy of the course).
"""
