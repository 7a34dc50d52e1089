"""Operations on the bits of vectors that compilers write badly: counts of those that are set, and
shifts of bytes.

AVX-512 has an instruction that counts (VPOPCNTDQ). AVX2 looks up both halves of each byte in a
table of 16 (Mula, Kurz and Lemire, "Faster Population Counts Using AVX2 Instructions", 2018), any
other machine counts pairs of bits, then fours, then bytes (Warren, Hacker's Delight, section 5-1).
Then the bytes of a lane are added up.

No x86 shifts bytes. GCC 12 takes eight of them apart, 40 instructions for one shift; two bytes at a
time, without the bits that come from the neighbour, are four.
"""

from __future__ import annotations

from typing import Final

from minitensor import ir
from minitensor.codegen.emit.c_types import of_lanes
from minitensor.codegen.emit.helpers import Definition, Helpers, function
from minitensor.codegen.emit.instructions import with_instruction
from minitensor.codegen.emit.precedence import power_of_two

_ADDED: Final = {
    32: "__builtin_ia32_pmaddwd256(__builtin_ia32_pmaddubsw256(counts, (bytes){0} + 1), "
    "(short __attribute__((vector_size(32)))){0} + 1)",
    64: "__builtin_ia32_psadbw256(counts, (bytes){0})",
}
"""The bytes of each lane, added up."""
_TABLE: Final = tuple(n.bit_count() for n in range(16))


def popcount(helpers: Helpers, dtype: ir.DType) -> Definition:
    """The bits that are set in each lane."""
    kind, bits = helpers.vector(dtype), dtype.bits
    unsigned = helpers.vector(of_lanes(f"uint{bits}", dtype))

    def every(byte: int) -> str:
        return "0x" + bits // 8 * f"{byte:02x}" + "u"

    body = [
        f"u -= u >> 1 & {every(0x55)};",
        f"u = (u & {every(0x33)}) + (u >> 2 & {every(0x33)});",
        f"u = (u + (u >> 4)) & {every(0x0F)};",
        *[f"u += u >> {n};" for n in (8, 16, 32) if n < bits],
        f"return ({kind})(u & 0x7fu);",
    ]
    if bits >= 32 and bits * dtype.lanes == 256:
        table = ", ".join(map(str, _TABLE + _TABLE))
        low, high = (
            f"__builtin_ia32_pshufb256(table, (bytes)({half} & {every(0x0F)}))"
            for half in ("u", "(u >> 4)")
        )
        body = [
            "#if defined(__AVX2__) && !defined(__clang__)",
            "typedef char bytes __attribute__((vector_size(32)));",
            f"const bytes table = {{{table}}};",
            f"const bytes counts = {low} + {high};",
            f"return ({kind}){_ADDED[bits]};",
            "#else",
            *body,
            "#endif",
        ]
    params = f"{kind} x", f"{unsigned} u = ({unsigned})x;"
    name, text = function(kind, f"popcount_{kind}", *params, *body)
    return name, with_instruction(text, "popcount", dtype, ("x", kind))


def is_shift_of_bytes(expr: ir.Binary) -> bool:
    """Tell whether vectors of bytes are shifted, all lanes by the same number."""
    shifts = expr.op in ir.SHIFTS and isinstance(expr.b, ir.Broadcast)
    halves = expr.op == "//" and power_of_two(expr.b) is not None
    return (shifts or halves) and expr.dtype.bits == 8 and expr.dtype.lanes >= 4


def shift_of_bytes(helpers: Helpers, op: str, dtype: ir.DType) -> Definition:
    """A shift of each byte by n places, of which the lowest three bits count."""
    kind, bytes_ = helpers.vector(dtype), helpers.vector(of_lanes("uint8", dtype))
    pairs = helpers.vector(ir.DType.of("uint16").with_lanes(dtype.lanes // 2))
    body = [
        f"{pairs} both = ({pairs})x {op} (n & 7);",
        f"{bytes_} each = ({bytes_})both & (uint8_t)(255 {op} (n & 7));",
    ]
    if op == ">>" and dtype.kind == "int":
        body.append("const uint8_t sign = 128 >> (n & 7);")
        body.append("each = (each ^ sign) - sign;")
    name = f"shift_{'right' if op == '>>' else 'left'}_{kind}"
    return function(kind, name, f"{kind} x, int n", *body, f"return ({kind})each;")
