"""The 164 features of a statement, and their columns in its row.

Source: Zheng et al., Ansor, OSDI 2020, section 5.1 and appendix B.
"""

from __future__ import annotations

from typing import Final

WORK: Final = ("add", "multiply", "divide", "remainder", "compare", "function", "other")
"""Kinds of arithmetic, counted for floats and for integers."""
MARKS: Final = ("vectorize", "unroll", "parallel")
POSITIONS: Final = (
    "none",
    "inner spatial",
    "middle spatial",
    "outer spatial",
    "inner reduce",
    "middle reduce",
    "outer reduce",
    "mixed",
)
"""The position of a marked loop among those that drive axes of the same kind."""
THREADS: Final = (
    "blockIdx.x",
    "blockIdx.y",
    "blockIdx.z",
    "threadIdx.x",
    "threadIdx.y",
    "threadIdx.z",
    "vthread",
)
BUFFERS: Final = 5
"""The number of buffers of a statement that are described."""
CURVE: Final = 10
"""At how many depths the arithmetic intensity is taken."""

_ARITHMETIC = [f"{kind} {name}" for kind in ("float", "int") for name in WORK]
_ARITHMETIC += ["logic", "select"]
_MARK = ["length", "product", "number", *(f"at {position}" for position in POSITIONS)]
_BUFFER = [
    "read",
    "written",
    "read and written",
    "bytes",
    "unique bytes",
    "lines",
    "unique lines",
    "reused in a loop",
    "reused by another statement",
    "not reused",
    "reuse distance in iterations",
    "reuse distance in bytes",
    "reuse count",
    "bytes per reuse",
    "unique bytes per reuse",
    "lines per reuse",
    "unique lines per reuse",
    "stride",
]

FEATURE_NAMES: Final[tuple[str, ...]] = (
    *_ARITHMETIC,
    *(f"{mark} {what}" for mark in MARKS for what in _MARK),
    "gpu",
    *(f"{thread} length" for thread in THREADS),
    *(f"buffer {n + 1} {what}" for n in range(BUFFERS) for what in _BUFFER),
    *(f"intensity {n + 1}" for n in range(CURVE)),
    "allocation bytes",
    "allocation number",
    "allocation outer product",
    "allocation inner product",
    "loops",
    "loops product",
    "auto unroll",
)
"""The name of each column, all different. Every number x is given as log2(1 + x), which leaves what
is 0 or 1 as it is."""

WIDTH: Final = len(FEATURE_NAMES)
MARKS_AT: Final = len(_ARITHMETIC)
MARK_WIDTH: Final = len(_MARK)
GPU_AT: Final = MARKS_AT + MARK_WIDTH * len(MARKS)
BUFFERS_AT: Final = GPU_AT + 1 + len(THREADS)
BUFFER_WIDTH: Final = len(_BUFFER)
CURVE_AT: Final = BUFFERS_AT + BUFFER_WIDTH * BUFFERS
ALLOCATION_AT: Final = CURVE_AT + CURVE
OUTER_AT: Final = ALLOCATION_AT + 4
