"""Judges of values answer to programs that hold what they should not."""

import pytest

from minitensor import ir
from minitensor.course.tasks import FunctionTask, LackingError


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
