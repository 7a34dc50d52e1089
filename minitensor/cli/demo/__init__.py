"""`minitensor demo`: define, schedule step by step, build, run, search; checked, timed.

Read in this order: `dense` (a definition; its schedule by hand is that of `minitensor.ladders`),
`race` (a kernel against numpy), `story` (a schedule told step by step), `tuned` (schedules that a
search finds, against everybody), `command` (the order of the whole, and the arguments).
"""

from minitensor.cli.demo.command import add_parser, run

__all__ = ["add_parser", "run"]
