"""Tasks of lesson 22: fill in the functions, and run `minitensor course check 22`."""

import minitensor as mt
from minitensor import ir
from minitensor.schedule import LoopName

RULES = {"R1": "the loop is serial"}


# @mt.primitive(rules=RULES)
def rotate(program: ir.Program, loop: LoopName, n: int):
    """Let a loop begin at iteration n: n, n + 1, … to the end, then 0, 1, … n - 1.

    Make a primitive of it by the line above it, with all its rules. Return the program, or the
    program and a result. Call `mt.refuse` where the loop is not serial, where n is not from 1 to
    the extent - 1, and where results could change; and nowhere else.
    """
    raise NotImplementedError


def strips():
    """Return a sketch rule (mt.search.Rule, or an object with `judge` and `apply`).

    It applies to blocks with an iter of the kind `ir.IterKind.REDUCE`, and to no others. It cuts
    the innermost loop of the block into strips of 4 or 8, chosen by `sample_categorical([4, 8])`,
    and unrolls the inner loop. The rules after it are asked too.
    """
    raise NotImplementedError
