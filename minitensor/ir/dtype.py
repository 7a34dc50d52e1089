"""Element types. A `DType` is its own name: `DType.of("float32") == "float32"`.

Besides the types a user can name there is `index`, the type of loop variables and of everything
computed from them to address memory. Arithmetic on `index` never overflows (lowering refuses
programs where it could), which is what makes `(i*8 + j)//8 -> i` sound for it and not for the
wrapping integers that hold data. In C it is `int64_t`.
"""

from __future__ import annotations

from typing import Final

from minitensor.errors import unexpected

VECTOR_SEPARATOR: Final = "x"


class DType(str):
    """An element type: a string with a kind, a width in bits, and a number of vector lanes."""

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
        return found if found is not None else _make(name, self.kind, self.bits, lanes, self.scalar)

    @property
    def is_float(self) -> bool:
        """Whether values are floating point."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether values are integers (`bool` is not, `index` is)."""
        return self.kind in ("int", "uint", "index")

    @property
    def min_value(self) -> int:
        """The least integer of an integer type (`index` is held in 64 bits)."""
        return 0 if self.kind == "uint" else -(1 << (self.bits - 1))

    @property
    def max_value(self) -> int:
        """The greatest integer of an integer type."""
        return (1 << self.bits) - 1 if self.kind == "uint" else (1 << (self.bits - 1)) - 1


_INTERNED: dict[str, DType] = {}


def _make(name: str, kind: str, bits: int, lanes: int = 1, scalar: DType | None = None) -> DType:
    dtype = DType(name)
    dtype.kind, dtype.bits, dtype.lanes = kind, bits, lanes
    dtype.scalar = dtype if scalar is None else scalar
    _INTERNED[name] = dtype
    return dtype


FLOAT64 = _make("float64", "float", 64)
FLOAT32 = _make("float32", "float", 32)
FLOAT16 = _make("float16", "float", 16)
BFLOAT16 = _make("bfloat16", "float", 16)
INT64 = _make("int64", "int", 64)
INT32 = _make("int32", "int", 32)
INT16 = _make("int16", "int", 16)
INT8 = _make("int8", "int", 8)
UINT64 = _make("uint64", "uint", 64)
UINT32 = _make("uint32", "uint", 32)
UINT16 = _make("uint16", "uint", 16)
UINT8 = _make("uint8", "uint", 8)
BOOL = _make("bool", "bool", 8)

USER_DTYPES: Final[dict[str, DType]] = dict(_INTERNED)
"""The types a user can name, in the order in which messages list them."""

INDEX = _make("index", "index", 64)
