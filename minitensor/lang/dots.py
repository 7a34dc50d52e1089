"""Intrinsics that multiply and add up narrow numbers: dot products of a few neighbours each.

    c[j] += sum over k < n of a[k] * b[j, k]                         for j < lanes

`a` is the same for all lanes, so that a few rows of it serve what is loaded of `b`. Bytes come in
fours (VNNI of x86), 16-bit integers and bfloat16 in pairs (vpmaddwd, vdpbf16ps). Each has a body in
plain C too.
"""

from __future__ import annotations

import functools
from typing import Final

from minitensor.answers import answered
from minitensor.errors import unexpected, whole
from minitensor.ir import READY, Intrinsic
from minitensor.lang.intrinsic import intrinsic
from minitensor.lang.reduce import sum_
from minitensor.lang.tensor import compute, placeholder, reduce_axis

GROUP: Final = {"uint8": 4, "int8": 4, "int16": 2, "bfloat16": 2}
"""Elements that a dot product adds up, by the type of both operands."""
LANES: Final = (4, 8, 16)
"""Sums side by side: vectors of 128, 256 and 512 bits."""

_SHORT: Final = {"uint8": "u8", "int8": "i8", "int16": "i16", "bfloat16": "bf16"}

_HEAD: Final = """
    typedef int word __attribute__((vector_size({bytes}), aligned(4), may_alias));
    typedef short half __attribute__((vector_size({bytes}), aligned(4), may_alias));
    typedef unsigned short whole __attribute__((vector_size({bytes}), aligned(4), may_alias));
    typedef float real __attribute__((vector_size({bytes}), aligned(4), may_alias));
    int32_t few;
    __builtin_memcpy(&few, a, 4);
    const word all = few - (word){{0}};
    word own = *(const word *)b;
    __asm__("" : "+v"(own));
"""
"""`all` holds the elements of a in each lane, `own` those of b. The assembly, of no instruction,
has them loaded into a register once: else gcc loads them again for every row."""
_VNNI: Final = {
    ("uint8", "int8"): "{dot}(*(word *)c, all, own)",
    ("int8", "uint8"): "{dot}(*(word *)c, own, all)",
    # two with signs: (x + 128) * y - 128 * y, of which the last is the same for all rows
    ("int8", "int8"): (
        "(word){dot}(*(word *)c, all ^ (int)0x80808080, own)"
        " - (word){dot}((word){{0}}, (int)0x80808080 - (word){{0}}, own)"
    ),
    # two without: x * (y - 128) + 64 * x + 64 * x, of which the last are the same for all lanes
    ("uint8", "uint8"): (
        "(word){dot}(*(word *)c, all, own ^ (int)0x80808080)"
        " + 2 * (word){dot}((word){{0}}, all, 0x40404040 - (word){{0}})"
    ),
}
"""Sums by the instruction that multiplies bytes without signs by bytes with signs."""
_BYTES: Final = """
    const half a_even = {a_even}, a_odd = {a_odd};
    const half b_even = {b_even}, b_odd = {b_odd};
    *(word *)c += (word){even} + (word){odd};
"""
_EVEN: Final = {"int8": "(half)((whole){x} << 8) >> 8", "uint8": "(half)((whole){x} & 255)"}
_ODD: Final = {"int8": "(half){x} >> 8", "uint8": "(half)((whole){x} >> 8)"}
"""Every other byte, in 16 bits, by its type."""
_BFLOATS: Final = """
    real sums = *(real *)c;
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sums) : "v"(all), "v"(own));
    *(real *)c = sums;
"""
_WIDE: Final = "((union {{ uint32_t bits; float number; }}){{(uint32_t){x} << 16}}).number"
_PLAIN: Final = """
    for (int j = 0; j < {lanes}; ++j) {{
        for (int k = 0; k < {group}; ++k) c[j] += {left} * {right};
    }}
"""
_WITH_VNNI: Final = {
    8: "(defined(__AVXVNNI__) || defined(__AVX512VNNI__) && defined(__AVX512VL__))",
    16: "defined(__AVX512VNNI__)",
}
_DOTS: Final = {8: "__builtin_ia32_vpdpbusd_v8si", 16: "__builtin_ia32_vpdpbusd_v16si"}
_WITH_MADD: Final = {4: "defined(__SSE2__)", 8: "defined(__AVX2__)", 16: "defined(__AVX512BW__)"}
_MADD: Final = {
    4: "__builtin_ia32_pmaddwd128({x}, {y})",
    8: "__builtin_ia32_pmaddwd256({x}, {y})",
    16: "__builtin_ia32_pmaddwd512_mask({x}, {y}, (word){{0}}, (unsigned short)-1)",
}
_GCC: Final = " && !defined(__clang__)"
"""Builtins that clang has under other names, or other types."""


PAIRS: Final = (*_VNNI, ("int16", "int16"), ("bfloat16", "bfloat16"))
"""The types of both operands."""


def dot_name(left: str, right: str, lanes: int) -> str:
    """The name of the intrinsic that `dot` returns for these."""
    return f"dot_{_SHORT[left]}{_SHORT[right]}_{lanes}"


@answered
def dot(left: str = "uint8", right: str = "int8", lanes: int = 16) -> Intrinsic:
    """Dot products of a few narrow numbers with the same few, added to wide numbers.

        c[j] += sum over k < n of a[k] * b[j, k]                     for j < lanes

    left, right  the types of a and b: "uint8" or "int8", each with n = 4; both "int16", or both
                 "bfloat16", with n = 2
    lanes        4, 8 or 16

    a (n,), b (lanes, n) all in a row; c (lanes,) int32, of bfloat16 float32. Bytes take vpdpbusd
    where the compiler may use it (gcc, AVX-512 VNNI or AVX-VNNI), else what 16-bit integers take,
    vpmaddwd; bfloat16 takes vdpbf16ps (AVX-512 BF16), which rounds as that does. Sums of integers
    wrap, as everywhere; no product or sum of them saturates.

    Raises ArgumentError for other types, or lanes.
    """
    lanes = whole("lanes", lanes, 1, 64)
    if lanes not in LANES:
        raise unexpected("4, 8 or 16", "lanes", lanes)
    if (left, right) not in PAIRS:
        pairs = "; ".join(f"{a!r} and {b!r}" for a, b in PAIRS)
        raise unexpected(f"one of the pairs {pairs}", "left, right", (left, right))
    group = GROUP[left]
    total = "float32" if left == "bfloat16" else "int32"
    a, b = placeholder((group,), left, name="a"), placeholder((lanes, group), right, name="b")
    k = reduce_axis(group, name="k")
    c = compute(
        (lanes,),
        lambda j: sum_(a[k].astype(total) * b[j, k].astype(total), axis=k),
        name="c",
    )
    return intrinsic(
        dot_name(left, right, lanes),
        [a, b, c],
        _bodies(left, right, lanes),
        strides={"a": [1], "b": [group, 1], "c": [1]},
    )


def _bodies(left: str, right: str, lanes: int) -> list[str | tuple[str, str]]:
    """The bodies in C, the fastest first."""
    head, found = _HEAD.format(bytes=4 * lanes), list[str | tuple[str, str]]()
    if left == "bfloat16":
        narrow = "" if lanes == 16 else " && defined(__AVX512VL__)"
        found.append((f"defined(__AVX512BF16__){narrow}", head + _BFLOATS))
    elif left == "int16":
        text = "    *(word *)c += (word)" + _madd(lanes, "(half)all", "(half)own") + ";"
        found.append((_WITH_MADD[lanes] + _GCC * (lanes == 16), head + text))
    else:
        if lanes in _DOTS:
            text = _VNNI[left, right].format(dot=_DOTS[lanes])
            found.append((_WITH_VNNI[lanes] + _GCC, f"{head}    *(word *)c = (word){text};"))
        text = _BYTES.format(
            a_even=_EVEN[left].format(x="all"),
            a_odd=_ODD[left].format(x="all"),
            b_even=_EVEN[right].format(x="own"),
            b_odd=_ODD[right].format(x="own"),
            even=_madd(lanes, "a_even", "b_even"),
            odd=_madd(lanes, "a_odd", "b_odd"),
        )
        found.append((_WITH_MADD[lanes] + _GCC * (lanes == 16), head + text))
    group = GROUP[left]
    factor = _WIDE if left == "bfloat16" else "(int32_t){x}"
    a, b = factor.format(x="a[k]"), factor.format(x=f"b[j * {group} + k]")
    return [*found, _PLAIN.format(lanes=lanes, group=group, left=a, right=b)]


def _madd(lanes: int, x: str, y: str) -> str:
    return _MADD[lanes].format(x=x, y=y)


for _left, _right in PAIRS:
    for _lanes in LANES:
        READY[dot_name(_left, _right, _lanes)] = functools.partial(dot, _left, _right, _lanes)
