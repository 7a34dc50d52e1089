"""Ready-made intrinsics: worked examples of `mt.intrinsic`, and useful ones.

Each function declares one (as often as it is called) and returns it, for `Schedule.tensorize`. To
replay a trace that names one, call the function first; `dot` is declared when it is asked for.
"""

from __future__ import annotations

from typing import Final

from minitensor.errors import unexpected, whole
from minitensor.ir import Intrinsic
from minitensor.lang.dots import dot as dot  # noqa: PLC0414 - it is public here
from minitensor.lang.intrinsic import intrinsic
from minitensor.lang.reduce import sum_
from minitensor.lang.tensor import compute, placeholder, reduce_axis

MOST_REGISTERS: Final = 64
"""The most vectors that the accumulators of a micro-kernel may take."""
LONGEST_DEPTH: Final = 1 << 12


def dot_u8i8() -> Intrinsic:
    """`dot("uint8", "int8")`: 16 dot products of 4 bytes each with the same 4 bytes."""
    return dot("uint8", "int8")


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


_FILL = "for (int n = 0; n < {size}; ++n) c[n] = 0.0f;"
_MMA = """
    uint32_t left[{rows}][4], right[{columns}][2];
    const int lane = threadIdx.x;
#pragma unroll
    for (int m = 0; m < {rows}; ++m) {{
        load_matrix_x4(left[m], a + (m * 16 + lane % 16) * a_stride0 + lane / 16 * 8);
    }}
#pragma unroll
    for (int n = 0; n < {columns}; n += {together}) {{
        {load}
    }}
#pragma unroll
    for (int m = 0; m < {rows}; ++m) {{
#pragma unroll
        for (int n = 0; n < {columns}; ++n) {{
            mma_m16n8k16_{suffix}(*(float(*)[4])(c + (m * {columns} + n) * 4), left[m], right[n]);
        }}
    }}
"""
_LOADS: Final = {
    1: "load_matrix_x2_transposed(right[n], b + lane % 16 * b_stride0 + n * 8);",
    2: (
        "load_matrix_x4_transposed(*(uint32_t(*)[4])right[n], "
        "b + lane % 16 * b_stride0 + n * 8 + lane / 16 * 8);"
    ),
}
"""By the number of squares side by side, their load of the second factor."""
_STORE = """
    const int row = threadIdx.x / 4, column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < {size}; ++n) {{
        const int down = n / 4 / {columns} * 16 + row + n % 4 / 2 * 8;
        const int across = n / 4 % {columns} * 8 + column + n % 2;
        d[down * d_stride0 + across * d_stride1] = c[n];
    }}
"""
_PLAIN = """
    for (int i = 0; i < {height}; ++i) {{
        for (int j = 0; j < {width}; ++j) {{
            {statement}
        }}
    }}
"""


_TERM = "for (int k = 0; k < 16; ++k) c[i * c_stride0 + j * c_stride1] +="
_A, _B = "a[i * a_stride0 + k]", "b[k * b_stride0 + j]"
_STEPS: Final = {
    "float16": f"{_TERM} (float){_A} * (float){_B};",
    "bfloat16": (
        f"{_TERM} ((union {{ uint32_t bits; float f; }}){{(uint32_t){_A} << 16}}).f * "
        f"((union {{ uint32_t bits; float f; }}){{(uint32_t){_B} << 16}}).f;"
    ),
}
"""By the type of the factors, the statement of C that adds the products of a step to a sum."""
MOST_SQUARES: Final = 8
"""The most squares of sums of an intrinsic along an axis: 64 of them would fill the registers."""


def _squares(rows: object, columns: object) -> tuple[int, int, str]:
    """The height and the width of squares of sums, and what names them; "" for a single one."""
    down, across = whole("rows", rows, 1, MOST_SQUARES), whole("columns", columns, 1, MOST_SQUARES)
    return 16 * down, 8 * across, "" if down == across == 1 else f"_{down}x{across}"


def mma_fill(rows: int = 1, columns: int = 1) -> Intrinsic:
    """The begin of a sum of `mma_m16n8k16`: c[i, j] = 0 for i < 16 rows, j < 8 columns, a warp's
    float32.
    """
    height, width, names = _squares(rows, columns)
    c = compute((height, width), lambda i, j: 0.0, name="c")
    statement = "c[i * c_stride0 + j * c_stride1] = 0.0f;"
    plain = _PLAIN.format(height=height, width=width, statement=statement)
    text = _FILL.format(size=4 * rows * columns)
    return intrinsic(f"mma_fill{names}", [c], plain, cuda=text, fragments=["c"])


def mma_m16n8k16(dtype: str = "float16", rows: int = 1, columns: int = 1) -> Intrinsic:
    """A step of a product by the tensor cores of a GPU (compute capability 8.0 and later).

        c[i, j] += sum over k < 16 of a[i, k] * b[k, j]      for i < 16 rows, j < 8 columns

    a (16 rows, 16) and b (16, 8 columns) are `dtype` ("float16" or "bfloat16") in shared memory,
    their rows in a row, each at a multiple of 16 bytes; c is float32 in the registers of a warp.
    Each square of 16 x 8 sums is an instruction; what several of them need is loaded once. The sum
    of the products of a step is rounded as the GPU does it (PTX ISA, mma.m16n8k16).
    """
    suffixes = {"float16": "f16", "bfloat16": "bf16"}
    if dtype not in suffixes:
        raise unexpected("'float16' or 'bfloat16'", "dtype", dtype)
    height, width, names = _squares(rows, columns)
    a, b = placeholder((height, 16), dtype, name="a"), placeholder((16, width), dtype, name="b")
    k = reduce_axis(16, name="k")
    c = compute(
        (height, width),
        lambda i, j: sum_(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k),
        name="c",
    )
    together = 2 - columns % 2
    text = _MMA.format(
        rows=rows,
        columns=columns,
        together=together,
        load=_LOADS[together],
        suffix=suffixes[dtype],
    )
    return intrinsic(
        f"mma_m16n8k16_{suffixes[dtype]}{names}",
        [a, b, c],
        _PLAIN.format(height=height, width=width, statement=_STEPS[dtype]),
        strides={"a": [None, 1], "b": [None, 1]},
        cuda=text,
        fragments=["c"],
    )


def mma_store(rows: int = 1, columns: int = 1) -> Intrinsic:
    """The end of a sum of `mma_m16n8k16`: d[i, j] = c[i, j] for i < 16 rows, j < 8 columns, from
    the registers of a warp to memory, float32.
    """
    height, width, names = _squares(rows, columns)
    c = placeholder((height, width), name="c")
    d = compute((height, width), lambda i, j: c[i, j], name="d")
    statement = "d[i * d_stride0 + j * d_stride1] = c[i * c_stride0 + j * c_stride1];"
    plain = _PLAIN.format(height=height, width=width, statement=statement)
    text = _STORE.format(size=4 * rows * columns, columns=columns)
    return intrinsic(f"mma_store{names}", [c, d], plain, cuda=text, fragments=["c"])
