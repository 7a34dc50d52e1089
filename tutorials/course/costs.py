"""The tables of measured costs that lessons replay searches on: the same on every machine."""

from __future__ import annotations

from functools import cache
from typing import Final

from minitensor.errors import unexpected

from ..replay import Table
from .place import ROOT

TABLES: Final = ROOT / "tables"
_ENDING: Final = ".json.gz"


def tables() -> tuple[str, ...]:
    """The names of the tables, as `table` takes them."""
    return tuple(sorted(path.name.removesuffix(_ENDING) for path in TABLES.glob(f"*{_ENDING}")))


@cache
def table(name: str) -> Table:
    """The table of a workload: "batch-matmul". Raises ArgumentError for one that is not there."""
    if name not in tables():
        raise unexpected(f"one of {', '.join(tables())}", "name", name)
    return Table.load(TABLES / f"{name}{_ENDING}")
