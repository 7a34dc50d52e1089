"""Writes docs/cheat_sheet.md from the phrasebook: `python -m docs.make_cheat_sheet`."""

import pathlib

from minitensor.phrasebook import PHRASES

TARGET = pathlib.Path(__file__).parent / "cheat_sheet.md"

INTRODUCTION = """\
# What it is called here

For those who know TVM, Halide, Exo or numpy. Each of these names is answered with the same words
where it is typed: `mt.create_schedule` says what to write. None is an alias, for what looks alike
may mean something else. What exists here under its old name (`split`, `compute_at`, `rfactor`,
`cache_read`, `mt.compute` …) is not in the list; [primitives.md](primitives.md) has all of them.
"""
TITLES = {
    "mt": ("Functions", "`mt.{}`"),
    "schedule": ("Schedules", "`s.{}`"),
    "tensor": ("Tensors", "`C.{}`"),
    "kernel": ("Kernels", "`kernel.{}`"),
    "result": ("Results of a search", "`result.{}`"),
    "compute": ("Arguments of `compute`", "`{}=`"),
    "lower": ("Arguments of `lower`", "`{}=`"),
    "build": ("Arguments of `build`", "`{}=`"),
    "split": ("Arguments of `split`", "`{}=`"),
    "sample_tile": ("Arguments of `sample_tile`", "`{}=`"),
    "sample_order": ("Arguments of `sample_order`", "`{}=`"),
    "tune": ("Arguments of a search", "`{}=`"),
}


def text() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for holder, phrases in PHRASES.items():
        title, name = TITLES[holder]
        rows = [f"| {name.format(n)} | {p.there} | {p.here} |" for n, p in phrases.items()]
        parts.append("\n".join([f"## {title}\n", "| there | of | here |", "|---|---|---|", *rows]))
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
