"""`minitensor demo`: define, schedule step by step, search, build, run; checked and timed.

Read in this order: `dense` and `convolution` (definitions; the schedules by hand are those of
`minitensor.ladders`, the rivals those of `minitensor bench`), `template` (a schedule with decisions
in it), `race` (a kernel against numpy), `story` (a schedule told step by step), `command` (the
order of the whole, and the arguments).
"""

from minitensor.cli.demo.command import add_parser, run

__all__ = ["add_parser", "run"]
