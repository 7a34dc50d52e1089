"""`minitensor demo`: define, schedule step by step, search, build, run; checked and timed.

Read in this order: `dense` and `convolution` (a definition, its numpy rival, a schedule written by
hand), `template` (the same schedule with decisions in it), `race` (a kernel against numpy), `story`
(a schedule told step by step), `command` (the order of the whole, and the arguments).
"""

from minitensor.cli.demo.command import add_parser, run

__all__ = ["add_parser", "run"]
