"""Writes docs/primitives.md from the primitives themselves: `python -m docs.make_primitives`."""

import inspect
import pathlib

from docs.docstrings import markdown, prose
from minitensor.schedule import REGISTRY

TARGET = pathlib.Path(__file__).parent / "primitives.md"

INTRODUCTION = """\
# Primitives

Methods of `mt.Schedule`, and functions of a program in `minitensor.schedule`. Each one either
succeeds, or raises a `ScheduleError` that names the rule it breaks (`error.rule`), shows the loop
nest with the culprit marked, lists what would be legal (`error.choices`), and leaves the schedule
as it was. [rules.md](rules.md) breaks each rule once, and
[reference/schedule.md](reference/schedule.md) has examples to run. Besides its own rules every
primitive has these:

"""


def text() -> str:
    """The whole page."""
    some = next(iter(REGISTRY.values()))
    common = [rule for rule in some.rules if not rule.startswith("R")]
    listed = [
        f"- [**{r}**](rules.md#every-primitive-{r.lower()}): {prose(some.rules[r])}" for r in common
    ]
    lines = [INTRODUCTION + "\n".join(listed)]
    for name, primitive in REGISTRY.items():
        call = f"```text\n{name}{primitive.signature}\n```"
        doc = markdown(inspect.getdoc(primitive.function) or "")
        rules = [
            f"- [**{r}**](rules.md#{name}-{r.lower()}): {prose(condition)}"
            + (f" (else {prose(primitive.advice[r])})" if primitive.advice[r] else "")
            for r, condition in primitive.rules.items()
            if r not in common
        ]
        own = "Rules:\n\n" + "\n".join(rules) if rules else "It has no rules of its own."
        lines.append(f"## {name}\n\n{call}\n\n{doc}\n\n{own}")
    return "\n\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
