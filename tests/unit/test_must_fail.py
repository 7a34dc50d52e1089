"""How many programs are known that must fail, over all layers, and that no rule lacks one.

The programs are in tables beside what refuses them; here they are counted.
"""

import re
from pathlib import Path

from minitensor.schedule import REGISTRY
from tests.unit.lang.test_must_fail import MUST_FAIL
from tests.unit.schedule import test_tensorized
from tests.unit.schedule.common import primitive_of
from tests.unit.schedule.test_primitive import TABLES, covered

HERE = Path(__file__).parent
REFUSALS = [*(case for table in TABLES for case in table.REFUSALS), *test_tensorized.AFTERWARDS]


def messages():
    """(rule, message) of every refusal of a step, as a user reads it."""
    found = set()
    for case in REFUSALS:
        s = case.prepare()
        try:
            case.call(s)
        except Exception as error:
            assert re.search(case.match, error.message)
            assert primitive_of(error.message) == case.primitive
            found.add((error.rule, error.message))
    return found


def test_at_least_a_hundred_steps_are_refused_each_with_its_message():
    assert len(messages()) == len(REFUSALS) >= 100
    assert len({(case.primitive, case.rule) for case in REFUSALS}) >= 100


def test_every_rule_of_a_step_has_a_program_that_breaks_it():
    """Or an excuse in test_primitive.py, which holds each pair to account."""
    own = {rule for _, rule in covered()}
    declared = {rule for primitive in REGISTRY.values() for rule in primitive.rules}
    assert own == declared


def test_at_least_sixty_programs_fail_while_they_are_written():
    assert len(MUST_FAIL) >= 60


def test_every_rule_of_the_verifier_has_programs_that_break_it():
    text = (HERE / "ir" / "test_verify.py").read_text(encoding="utf-8")
    found = set(re.findall(r'"(V\d): ([^"]+)"', text))
    source = (HERE.parents[1] / "minitensor" / "ir" / "verify.py").read_text(encoding="utf-8")
    assert {rule for rule, _ in found} == set(re.findall(r"^    (V\d)  ", source, re.MULTILINE))
    assert len(found) >= 50
