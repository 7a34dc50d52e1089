"""`minitensor demo`: define, schedule step by step, search, build, run; checked and timed.

Read in this order: `dense` and `convolution` (a definition and its numpy rival; the schedules by
hand are those of `minitensor.ladders`), `template` (a schedule with decisions in it), `race` (a
kernel against numpy), `story` (a schedule told step by step), `command` (the order of the whole,
and the arguments).
"""

from minitensor.cli.demo.command import add_parser, run

__all__ = ["add_parser", "run"]
