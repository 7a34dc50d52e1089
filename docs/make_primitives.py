"""Writes docs/primitives.md from the primitives themselves: `python docs/make_primitives.py`."""

import inspect
import pathlib

from minitensor.schedule import REGISTRY

TARGET = pathlib.Path(__file__).parent / "primitives.md"

INTRODUCTION = """\
# Primitives

Methods of `mt.Schedule`, and functions of a program in `minitensor.schedule`. Each one either
succeeds, or raises a `ScheduleError` that names the rule it breaks (`error.rule`), shows the loop
nest with the culprit marked, lists what would be legal (`error.choices`), and leaves the schedule
as it was. Besides its own rules every primitive has these:

"""


def text() -> str:
    """The whole page."""
    common = [rule for rule in next(iter(REGISTRY.values())).rules if not rule.startswith("R")]
    some = next(iter(REGISTRY.values()))
    lines = [INTRODUCTION + "\n".join(f"- **{r}**: {some.rules[r]}" for r in common)]
    for name in REGISTRY:
        primitive = REGISTRY[name]
        doc = inspect.cleandoc(primitive.function.__doc__ or "")
        summary, _, rest = doc.partition("\n\n")
        rules = [
            f"- **{r}**: {t}" + (f" (else {primitive.advice[r]})" if primitive.advice[r] else "")
            for r, t in primitive.rules.items()
            if r not in common
        ]
        body = "\n".join("    " + line if line else "" for line in rest.splitlines())
        own = "Rules:\n\n" + "\n".join(rules) if rules else "It has no rules of its own."
        lines.append(f"## {name}{primitive.signature}\n\n{summary}\n\n{body}\n\n{own}")
    return "\n\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text())
