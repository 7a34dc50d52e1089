"""Ready-made intrinsics: worked examples of `mt.intrinsic`, and useful ones.

Each function declares one (as often as it is called) and returns it, for `Schedule.tensorize`. To
replay a trace that names one, call the function first.
"""

from __future__ import annotations

from typing import Final

from minitensor.errors import unexpected, whole
from minitensor.ir import Intrinsic
from minitensor.lang.intrinsic import intrinsic
from minitensor.lang.reduce import sum_
from minitensor.lang.tensor import compute, placeholder, reduce_axis

MOST_REGISTERS: Final = 64
"""The most vectors that the accumulators of a micro-kernel may take."""
LONGEST_DEPTH: Final = 1 << 12

_DOT_VNNI: Final = """
    // one instruction: 16 sums of 4 products of bytes, added to 16 numbers
    typedef int v16 __attribute__((vector_size(64), aligned(4), may_alias));
    int32_t a4;
    __builtin_memcpy(&a4, a, 4);
    v16 a_all = a4 - (v16){0};
    *(v16 *)c = (v16)__builtin_ia32_vpdpbusd_v16si(*(v16 *)c, a_all, *(const v16 *)b);
"""
_DOT_PLAIN: Final = """
    for (int j = 0; j < 16; ++j) {
        for (int k = 0; k < 4; ++k) {
            c[j] += (int32_t)a[k] * (int32_t)b[j * 4 + k];
        }
    }
"""


def dot_u8i8() -> Intrinsic:
    """16 dot products of 4 bytes each with the same 4 bytes, added to 16 int32.

        c[j] += sum over k < 4 of a[k] * b[j, k]                     for j < 16

    a (4,) uint8, b (16, 4) int8, all in a row; c (16,) int32. With AVX-512 VNNI it is the one
    instruction vpdpbusd, elsewhere plain C.
    """
    a = placeholder((4,), "uint8", name="a")
    b = placeholder((16, 4), "int8", name="b")
    k = reduce_axis(4, name="k")
    c = compute(
        (16,),
        lambda j: sum_(a[k].astype("int32") * b[j, k].astype("int32"), axis=k),
        name="c",
    )
    return intrinsic(
        "dot_u8i8",
        [a, b, c],
        [("defined(__AVX512VNNI__)", _DOT_VNNI), _DOT_PLAIN],
        strides={"a": [1], "b": [4, 1], "c": [1]},
    )


_MATMUL: Final = """
    // {m} x {n} sums in registers while l runs: b[l] is loaded once, each a[i, l] spread out;
    // gcc -O2 keeps them there only if these loops are unrolled
    typedef float vec __attribute__((vector_size({bytes}), aligned(4), may_alias));
    vec sums[{m}][{vectors}];
    #pragma GCC unroll {m}
    for (int i = 0; i < {m}; ++i) {{
        #pragma GCC unroll {vectors}
        for (int v = 0; v < {vectors}; ++v) {{
            sums[i][v] = *(const vec *)(c + i * c_stride0 + v * {lanes});
        }}
    }}
    for (int l = 0; l < {k}; ++l) {{
        #pragma GCC unroll {m}
        for (int i = 0; i < {m}; ++i) {{
            #pragma GCC unroll {vectors}
            for (int v = 0; v < {vectors}; ++v) {{
                vec b_l = *(const vec *)(b + l * b_stride0 + v * {lanes});
                sums[i][v] += a[i * a_stride0 + l * a_stride1] * b_l;
            }}
        }}
    }}
    #pragma GCC unroll {m}
    for (int i = 0; i < {m}; ++i) {{
        #pragma GCC unroll {vectors}
        for (int v = 0; v < {vectors}; ++v) {{
            *(vec *)(c + i * c_stride0 + v * {lanes}) = sums[i][v];
        }}
    }}
"""


def matmul_f32(m: int = 8, n: int = 32, k: int = 64, lanes: int = 16) -> Intrinsic:
    """A micro-kernel of matrix multiplication, its sums in registers.

        c[i, j] += sum over l < k of a[i, l] * b[l, j]               for i < m, j < n

    a (m, k), b (k, n) and c (m, n), all float32; the rows of b and c in a row. Written with the
    vector extensions of gcc and clang, in vectors of `lanes` numbers, which divide n.
    """
    given = {"m": m, "n": n, "k": k, "lanes": lanes}
    m, n, k, lanes = (whole(name, value, 1, LONGEST_DEPTH) for name, value in given.items())
    if lanes not in (2, 4, 8, 16, 32) or n % lanes or m * (n // lanes) > MOST_REGISTERS:
        raise unexpected(
            f"lanes of 2, 4, 8, 16 or 32 that divide n, with m * n / lanes at most "
            f"{MOST_REGISTERS}",
            "lanes",
            lanes,
        )
    a = placeholder((m, k), name="a")
    b = placeholder((k, n), name="b")
    along = reduce_axis(k, name="l")
    c = compute((m, n), lambda i, j: sum_(a[i, along] * b[along, j], axis=along), name="c")
    text = _MATMUL.format(m=m, n=n, k=k, lanes=lanes, vectors=n // lanes, bytes=4 * lanes)
    return intrinsic(
        f"matmul_f32_{m}x{n}x{k}",
        [a, b, c],
        text,
        strides={"b": [None, 1], "c": [None, 1]},
    )
