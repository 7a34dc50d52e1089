"""Element types: a table with one row for each. A `DType` is its own name, `DType.of("float32") ==
"float32"`, and has the facts of its row.

A new type is a row here, and a C type with two functions in `codegen.emit`. A type that numpy lacks
is *packed*: arrays hold its bits, and values are computed in a type that numpy has, rounded after
each operation.

Besides the types a user can name there is `index`, the type of loop variables and of everything
computed from them to address memory. Arithmetic on `index` never overflows (lowering refuses
programs where it could), which is what makes `(i*8 + j)//8 -> i` sound for it and not for the
wrapping integers that hold data. In C it is `int64_t`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np

from minitensor.errors import unexpected

VECTOR_SEPARATOR: Final = "x"


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """The float32 values of an array of bfloat16 bits (uint16)."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """The bits (uint16) of the bfloat16 nearest to each float32, ties to even; NaN stays NaN."""
    given = np.asarray(values, np.float32)
    bits = np.ascontiguousarray(given).view(np.uint32).reshape(given.shape)
    with np.errstate(over="ignore"):
        rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    return np.where(np.isnan(given), (bits >> 16) | 0x40, rounded).astype(np.uint16)


class Packing(NamedTuple):
    """The conversions of a packed type, on arrays."""

    pack: Callable[[np.ndarray], np.ndarray]
    """The bits of the nearest values."""
    unpack: Callable[[np.ndarray], np.ndarray]
    """The values that bits stand for."""


class Row(NamedTuple):
    """The facts of one element type."""

    name: str
    kind: str
    """One of "float", "int", "uint", "bool", "index"."""
    bits: int
    """Width of one element in memory."""
    array: str
    """The numpy dtype of the arrays a call exchanges."""
    computed: str
    """The numpy dtype in which the interpreter computes values."""
    tolerance: float = 0.0
    """Admissible error of an element after sums in another order, relative to the largest one."""
    nans: tuple[int, int] | None = None
    """The bits of two quiet NaNs, distinguished by their payload; None for types that have none."""
    packing: Packing | None = None
    """The conversions, for a packed type."""


def _plain(kind: str, bits: int) -> Row:
    return Row(f"{kind}{bits}", kind, bits, f"{kind}{bits}", f"{kind}{bits}")


_BFLOAT16: Final = Packing(to_bfloat16, from_bfloat16)
_NANS: Final = {
    64: (0x7FFDA5A5A5A5A5A5, 0x7FFA5A5A5A5A5A5A),
    32: (0x7FD5A5A5, 0x7FEA5A5A),
}
TABLE: Final = (
    Row("float64", "float", 64, "float64", "float64", 1e-10, _NANS[64]),
    Row("float32", "float", 32, "float32", "float32", 1e-4, _NANS[32]),
    Row("float16", "float", 16, "float16", "float16", 2e-2, (0x7E55, 0x7E2A)),
    Row("bfloat16", "float", 16, "uint16", "float32", 1e-1, (0x7FD5, 0x7FEA), _BFLOAT16),
    *(_plain(kind, bits) for kind in ("int", "uint") for bits in (64, 32, 16, 8)),
    Row("bool", "bool", 8, "bool", "bool"),
    Row("index", "index", 64, "int64", "int64"),
)


class DType(str):
    """An element type: a string with the facts of its row, and a number of vector lanes."""

    row: Row
    kind: str
    """One of "float", "int", "uint", "bool", "index"."""
    bits: int
    """Width of one lane as stored in memory."""
    lanes: int
    """1 for a scalar; only code generation makes more."""
    scalar: DType
    """The type of one lane."""

    @staticmethod
    def of(name: object) -> DType:
        """The scalar type called `name`, which a user may type (so: not a vector, not `index`)."""
        if isinstance(name, DType) and name.kind != "index" and name.lanes == 1:
            return name
        spelled = getattr(name, "name", getattr(name, "__name__", name))  # numpy's dtypes and types
        found = USER_DTYPES.get(spelled) if isinstance(spelled, str) else None
        if found is None:
            raise unexpected("one of " + ", ".join(USER_DTYPES), "dtype", name)
        return found

    def with_lanes(self, lanes: int) -> DType:
        """The vector type of `lanes` such elements (the scalar type itself for 1)."""
        if lanes == 1:
            return self.scalar
        name = f"{self.scalar}{VECTOR_SEPARATOR}{lanes}"
        found = _INTERNED.get(name)
        return found if found is not None else _make(name, self.row, lanes, self.scalar)

    @property
    def is_float(self) -> bool:
        """Tell whether values are floating point."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Tell whether values are integers (`bool` is not, `index` is)."""
        return self.kind in ("int", "uint", "index")

    @property
    def tolerance(self) -> float:
        """The admissible error of an element after sums in another order, relative to the largest
        magnitude of an output; 0 for what must be equal.
        """
        return self.row.tolerance

    @property
    def is_packed(self) -> bool:
        """Tell whether arrays hold bits, for numpy lacks the type."""
        return self.row.packing is not None

    @property
    def min_value(self) -> int:
        """The least integer of an integer type (`index` is held in 64 bits)."""
        return 0 if self.kind == "uint" else -(1 << (self.bits - 1))

    @property
    def max_value(self) -> int:
        """The greatest integer of an integer type."""
        return (1 << self.bits) - 1 if self.kind == "uint" else (1 << (self.bits - 1)) - 1


_INTERNED: dict[str, DType] = {}


def _make(name: str, row: Row, lanes: int = 1, scalar: DType | None = None) -> DType:
    dtype = DType(name)
    dtype.row, dtype.kind, dtype.bits, dtype.lanes = row, row.kind, row.bits, lanes
    dtype.scalar = dtype if scalar is None else scalar
    _INTERNED[name] = dtype
    return dtype


for _row in TABLE:
    _make(_row.name, _row)

USER_DTYPES: Final = {name: dtype for name, dtype in _INTERNED.items() if dtype.kind != "index"}
"""The types a user can name, in the order in which messages list them."""

BOOL, INDEX, INT64, FLOAT32 = (_INTERNED[name] for name in ("bool", "index", "int64", "float32"))


# ---- arrays


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy dtype of the arrays a call exchanges: of a packed type that of its bits."""
    return np.dtype(dtype.row.array)


def compute_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy dtype in which the interpreter computes such values."""
    return np.dtype(dtype.row.computed)


def pack(values: np.ndarray, dtype: DType) -> np.ndarray:
    """An array of values as a call exchanges it."""
    packing = dtype.row.packing
    return np.asarray(values, numpy_dtype(dtype)) if packing is None else packing.pack(values)


def unpack(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The values of an array that a call exchanges."""
    packing = dtype.row.packing
    return array if packing is None else packing.unpack(array)


def lacking_in_numpy(dtypes: Iterable[DType]) -> DType | None:
    """The first packed type among some; None if numpy has them all."""
    return next((dtype for dtype in dtypes if dtype.is_packed), None)
