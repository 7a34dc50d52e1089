"""Choosing names."""

from __future__ import annotations

from collections.abc import Collection


def fresh_name(label: str, taken: set[str], also: Collection[str] = ()) -> str:
    """`label`, or label2, label3, … (label_2 after a digit), whichever is free; marks it taken."""
    name, number = label, 2
    separator = "_" if label[-1:].isdigit() else ""
    while name in taken or name in also:
        name = f"{label}{separator}{number}"
        number += 1
    taken.add(name)
    return name
