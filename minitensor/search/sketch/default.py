"""The rules that are used unless others are asked for: Ansor's, and before them our own."""

from __future__ import annotations

from typing import Final

from minitensor.search.sketch.padding import PADDING
from minitensor.search.sketch.register_tiles import REGISTER_TILES
from minitensor.search.sketch.row_chains import CHAINS_OF_ROWS
from minitensor.search.sketch.row_sums import ROWS_IN_LANES
from minitensor.search.sketch.rules import CPU, Rule
from minitensor.search.sketch.transforms import TRANSFORMS
from minitensor.search.sketch.transposed import TRANSPOSED
from minitensor.search.sketch.windows import WINDOWS

_INLINE, *_REST = CPU

DEFAULT: Final[tuple[Rule, ...]] = (
    _INLINE,
    TRANSFORMS,
    CHAINS_OF_ROWS,
    ROWS_IN_LANES,
    TRANSPOSED,
    WINDOWS,
    REGISTER_TILES,
    PADDING,
    *_REST,
)
"""Ours are asked after what is free is inlined, and before what Ansor does."""
