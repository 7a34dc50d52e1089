"""Writes docs/rules.md from the refusals of the tests: `python -m docs.make_rules`.

Each rule is shown with a step that breaks it: the first one of the tables of tests/unit/schedule.
"""

import importlib
import pathlib
import textwrap
from collections.abc import Iterator

from docs.docstrings import picture, prose
from minitensor import MinitensorError, ScheduleError
from minitensor.schedule import REGISTRY
from tests.unit.schedule.common import Refusal

TARGET = pathlib.Path(__file__).parent / "rules.md"
TABLES = pathlib.Path(__file__).parents[1] / "tests" / "unit" / "schedule"

WIDTH = 96
"""The longest line of an answer; of what is longer the end is left out."""

INTRODUCTION = """\
# Rules, each one broken

Every rule of every primitive, with the shortest step that a test breaks it by: the steps before it,
the step, and the answer. The loop nest in the answer is the picture of the mistake, the culprit
marked by an arrow. What each primitive does is in [primitives.md](primitives.md), what the parts of
an error are called in [reference/errors.md](reference/errors.md)."""
COMMON = """\
## Every primitive

These rules belong to all; each is shown with one primitive that it stops."""

UNBROKEN = {("cache_write", "R3")}
OUT_OF_REACH = """\
No steps are known after which one breaks it: the rule is for programs that were made by hand."""


def refusals() -> Iterator[Refusal]:
    """All refusals that tests have as data, in the order of the files."""
    for path in sorted(TABLES.glob("test_*.py")):
        module = importlib.import_module(f"tests.unit.schedule.{path.stem}")
        for table in (value for value in vars(module).values() if isinstance(value, list)):
            yield from (case for case in table if isinstance(case, Refusal))


def shown(case: Refusal) -> str:
    """The steps before, the refused step, and the answer."""
    schedule = case.prepare()
    before = schedule.trace.as_python(plain=True).splitlines()
    try:
        case.call(schedule)
    except ScheduleError as error:
        call = error.message.partition(" breaks ")[0]
        program = str(schedule.program).splitlines()
        if error.picture is None and max(map(len, program)) <= WIDTH:
            before = [*program, "", *before]
        message, *rest = str(error).splitlines()
        answer = textwrap.wrap(message, WIDTH, subsequent_indent="    ", break_long_words=False)
        lines = [*before, f"s.{call}", "", *answer, *rest]
        return picture([line if len(line) <= WIDTH else line[:WIDTH] + " …" for line in lines])
    raise MinitensorError(f"{case.primitive} is not refused by {case.rule}")


def text() -> str:
    """The whole page."""
    found: dict[tuple[str, str], str] = {}
    for case in refusals():
        of = case.primitive if case.rule.startswith("R") else "Every primitive"
        one = shown(case)
        if len(one) < len(found.get((of, case.rule), one + " ")):
            found[of, case.rule] = one
    parts = [INTRODUCTION, COMMON]
    some = next(iter(REGISTRY.values()))
    common = [rule for rule in some.rules if not rule.startswith("R")]
    parts += [_section("Every primitive", r, some.rules[r], found) for r in common]
    for name, primitive in REGISTRY.items():
        own = [rule for rule in primitive.rules if rule not in common]
        parts.append(f"## {name}")
        parts += [_section(name, r, primitive.rules[r], found) for r in own]
        parts += [] if own else ["It has no rules of its own."]
    return "\n\n".join(parts) + "\n"


def _section(of: str, rule: str, condition: str, found: dict[tuple[str, str], str]) -> str:
    example = OUT_OF_REACH if (of, rule) in UNBROKEN else found[of, rule]
    sentence = textwrap.fill(prose(f"{condition[0].upper()}{condition[1:]}."), 100)
    return f"### {of} {rule}\n\n{sentence}\n\n{example}"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
