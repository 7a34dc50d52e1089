"""Tables of measured costs, on which searches are replayed: no machine, no noise, seconds.

    table = Table.load("batch-matmul.json.gz")
    found = replay(table, "random", trials=32, seed=1)
    print(found.curve[-1])                  the speed of the best, as a part of the table's

Read in this order: `table` (the file), `space` (its candidates), `replay` (one search). Those of
lessons are in tutorials/tables; benchmarks/tables.py measures them.
"""

# fmt: off
from .replay import Features, Replay, Replayed, replay, spent
from .space import PLACES, TableSpace
from .table import Table

__all__ = [
    "PLACES", "Features", "Replay", "Replayed", "Table", "TableSpace", "replay", "spent",
]
