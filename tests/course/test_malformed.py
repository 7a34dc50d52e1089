"""Judges of values answer to programs that hold what they should not."""

import contextlib

import numpy as np
import pytest

from minitensor import ir
from tests.sent import imported
from tutorials.course.tasks import FunctionTask, LackingError, equal, lines_for
from tutorials.course.wire import decode, encode


class Three(FunctionTask):
    name, text = "three", "the number three"

    def cases(self, draw):
        return [()]

    def expected(self):
        return 3


@pytest.mark.parametrize(
    "value",
    [
        ir.Program(None, (), (), ir.NOTHING),
        ir.Program("p", (None,), (), ir.NOTHING),
        ir.Program("p", (), 1, "body"),
    ],
    ids=["name", "parameter", "body"],
)
def test_a_malformed_answer_is_a_wrong_one(value):
    with pytest.raises(LackingError, match="right is 3"):
        Three().judge((), value)


@pytest.mark.parametrize("got", [[1, 0], (1, 0), np.array([1, 0]), (n for n in [1, 0]), [True, 0]])
def test_a_script_fails_for_what_is_wrong_only(got):
    right = equal(decode(encode(got)), [1, 0])
    lines = "\n    ".join(["def shown(got):", *lines_for([1, 0])])
    with contextlib.nullcontext() if right else pytest.raises(AssertionError):
        imported(lines).shown(got)
    assert right is (type(got) in (list, tuple, np.ndarray) and got[0] is not True)
