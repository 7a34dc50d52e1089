"""The choice of names."""

from __future__ import annotations

from collections.abc import Collection


def fresh_name(label: str, taken: set[str], also: Collection[str] = (), owner: str = "") -> str:
    """`label`; where that is taken `owner_label`, if there is an owner and the label does not begin
    with it; then with a number: label2, label3, … (label_2 after a digit). Marks the name as taken.
    """
    name, number = label, 2
    if owner and not label.startswith(f"{owner}_") and (label in taken or label in also):
        name = label = f"{owner}_{label}"
    separator = "_" if label[-1:].isdigit() else ""
    while name in taken or name in also:
        name = f"{label}{separator}{number}"
        number += 1
    taken.add(name)
    return name
