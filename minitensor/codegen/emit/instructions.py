"""Helper functions that a processor has an instruction for, which compilers find late or never.

`select`: GCC blends bytes for it, which the processor counts as whole numbers. `lesser` and
`greater`: a comparison and a blend otherwise. `max` and `min`: one of these and what
keeps a NaN. `sqrt` and roundings, conversions of float16: GCC finds some in a loop over lanes, if
it has unrolled it and prefers vectors of that length, else one lane at a time. `ldexp`, the end of
exp: one instruction in the place of nine. `first`: a blend by a constant. `held`: none,
but GCC cannot take the vector from memory again. `load_part` and
`store_part`: elements one by one otherwise (and on processors without masks in registers, for which
a masked store is slow). GCC must not see that a part is half of a vector: it would store that half
by vextractf32x8, which faults where lanes that are masked off lie in a page of their own. The
results are the same.
"""

from __future__ import annotations

import itertools
from typing import Final

from minitensor.ir import DType


def with_instruction(text: str, name: str, dtype: DType, params: tuple[str, ...]) -> str:
    """The text of a function, with another body for compilers that know an instruction for it.

    text    its definition: a line that begins it, its body, a line that ends it
    name    such as "min", or a function of the IR
    dtype   of its vectors
    params  the names of its parameters, and of types that the body mentions
    """
    known = _INSTRUCTIONS.get((name, str(dtype.scalar), dtype.lanes))
    if known is None:
        return text
    macros, expression = known
    head, *body, end = text.split("\n")
    condition = f"#if {macros} && !defined(__clang__)"
    shorter = f"    return {expression.format(*params)};"
    return "\n".join([head, condition, shorter, "#else", *body, "#endif", end])


_BITS8, _BITS16 = "__attribute__((vector_size(16)))", "__attribute__((vector_size(32)))"
_AVX, _AVX512 = "defined(__AVX__)", "defined(__AVX512F__)"
_FMA = "defined(__FMA__)"
_AVX512VL, _AVX_ALONE = "defined(__AVX512VL__)", "defined(__AVX__) && !defined(__AVX512VL__)"


def _masked(op: str, kind: str, bits: int) -> str:
    """Smaller or larger, and the second where that is NaN, in `bits`."""
    rounding, size = ", 4" if bits == 512 else "", "" if bits == 128 else bits
    ordered = f"__builtin_ia32_cmp{kind}{bits}_mask({{1}}, {{1}}, 7, -1{rounding})"
    return f"__builtin_ia32_{op}{kind}{size}_mask({{1}}, {{0}}, {{1}}, {ordered}{rounding})"


def _masked_store(store: str, size: int) -> tuple[str, str]:
    """A store of the first lanes of `size` bits; what GCC must not see of it is said above."""
    if size == 512:
        return _AVX512, store
    return _AVX512VL, f'({{{{ __asm__("" : "+v"({{1}})); {store}; }}}})'


def _of_kind(kind: str, dtype: str, lanes: int) -> dict[tuple[str, str, int], tuple[str, str]]:
    """The instructions on vectors of `lanes` floats in 256 bits, on half and on twice as many.

    kind  "ps" or "pd", the suffix of an instruction on such floats
    """
    table = {
        ("select", dtype, count): (
            _AVX_ALONE,
            f"__builtin_ia32_blendv{kind}{size}({{2}}, {{1}}, ({{3}}){{0}})",
        )
        for size, count in (("", lanes // 2), ("256", lanes))
    }
    for name, op in (("lesser", "min"), ("greater", "max")):
        table[name, dtype, lanes // 2] = (_AVX, f"__builtin_ia32_{op}{kind}({{0}}, {{1}})")
        table[op, dtype, lanes // 2] = (_AVX512VL, _masked(op, kind, 128))
        half, whole = f"__builtin_ia32_{op}{kind}256", f"__builtin_ia32_{op}{kind}512_mask"
        table[name, dtype, lanes] = (_AVX, f"{half}({{0}}, {{1}})")
        table[name, dtype, 2 * lanes] = (_AVX512, f"{whole}({{0}}, {{1}}, {{0}}, -1, 4)")
        table[op, dtype, lanes] = (_AVX512VL, _masked(op, kind, 256))
        table[op, dtype, 2 * lanes] = (_AVX512, _masked(op, kind, 512))
    for name, mode in (("floor", 9), ("ceil", 10), ("round", 4)):
        half, whole = f"__builtin_ia32_round{kind}256", f"__builtin_ia32_rndscale{kind}_mask"
        table[name, dtype, lanes] = (_AVX, f"{half}({{0}}, {mode})")
        table[name, dtype, 2 * lanes] = (
            _AVX512,
            f"{whole}({{0}}, {mode}, {{0}}, -1, 4)",
        )
    half, whole = f"__builtin_ia32_sqrt{kind}256", f"__builtin_ia32_sqrt{kind}512_mask"
    table["sqrt", dtype, lanes] = (_AVX, f"{half}({{0}})")
    table["sqrt", dtype, 2 * lanes] = (_AVX512, f"{whole}({{0}}, {{0}}, -1, 4)")
    half, whole = f"__builtin_ia32_blend{kind}256", f"__builtin_ia32_blendm{kind}_512_mask"
    table["first", dtype, lanes] = (_AVX, f"{half}({{1}}, {{0}}, {{2}})")
    table["first", dtype, 2 * lanes] = (_AVX512, f"{whole}({{1}}, {{0}}, {{2}})")
    table["held", dtype, 2 * lanes] = (_AVX512, '({{ __asm__("" : "+v"({0})); {0}; }})')
    for size, count in ((128, lanes // 2), (256, lanes), (512, 2 * lanes)):
        short = "" if size == 128 else size
        table["load_part", dtype, count] = (
            (_AVX512, f"__builtin_ia32_loadu{kind}512_mask({{0}}, ({{1}}){{{{}}}}, {{3}})")
            if size == 512
            else (_AVX, f"__builtin_ia32_maskload{kind}{short}((const {{1}} *){{0}}, {{2}})")
        )
        store = f"__builtin_ia32_storeu{kind}{size}_mask({{0}}, {{1}}, {{2}})"
        table["store_part", dtype, count] = _masked_store(store, size)
    return table


def _parts_of_integers() -> dict[tuple[str, str, int], tuple[str, str]]:
    """The first of 32 or 64 bits each, loaded and stored."""
    table = {}
    for letter, bits, word in (("d", 32, "int"), ("q", 64, "long long")):
        for size, short in ((128, ""), (256, "256"), (512, "")):
            lanes, vector = size // bits, f"({word} __attribute__((vector_size({size // 8}))))"
            suffix = f"{'s' if bits == 32 else 'd'}i{size}_mask"
            pointer = f"{vector[:-1]} const *)"
            masked = f"(const {word} *){{0}}, {vector}{{{{}}}}, {{3}}"
            store = f"__builtin_ia32_storedqu{suffix}(({word} *){{0}}, {vector}{{1}}, {{2}})"
            for kind in ("int", "uint"):
                table["load_part", f"{kind}{bits}", lanes] = (
                    (_AVX512, f"({{1}})__builtin_ia32_loaddqu{suffix}({masked})")
                    if size == 512
                    else (
                        "defined(__AVX2__)",
                        f"({{1}})__builtin_ia32_maskload{letter}{short}({pointer}{{0}}, {{2}})",
                    )
                )
                table["store_part", f"{kind}{bits}", lanes] = _masked_store(store, size)
    return table


def _conversions() -> dict[tuple[str, str, int], tuple[str, str]]:
    """Integers of 8 and 16 bits to more of them, and back: lanes of 256 bits and of 512."""
    table = {}
    words, letters = {8: "char", 16: "short", 32: "int"}, {8: "b", 16: "w", 32: "d"}
    for narrow, wide in ((8, 16), (8, 32), (16, 32)):
        bw = " && defined(__AVX512BW__)" * (wide == 16)
        for size in (256, 512):
            lanes = size // wide
            few, many = (
                f"({words[bits]} __attribute__((vector_size({max(16, lanes * bits // 8)}))))"
                for bits in (narrow, wide)
            )
            half = lanes * narrow == 64
            quad = "(long long __attribute__((vector_size(16))))"
            given = f"{few}{quad}{{{{(long long){{0}}}}}}" if half else f"{few}{{0}}"
            for kind, extends in (("int", "sx"), ("uint", "zx")):
                call = f"__builtin_ia32_pmov{extends}{letters[narrow]}{letters[wide]}{size}"
                more = f"_mask({given}, {many}{{{{}}}}, -1)" if size == 512 else f"({given})"
                for target in ("int", "uint"):
                    table[f"of {kind}{narrow}", f"{target}{wide}", lanes] = (
                        _AVX512 + bw if size == 512 else "defined(__AVX2__)",
                        f"({{1}}){call}{more}",
                    )
            call = f"__builtin_ia32_pmov{letters[wide]}{letters[narrow]}{size}_mask"
            text = f"{call}({many}{{0}}, {few}{{{{}}}}, -1)"
            for source, target in itertools.product(("int", "uint"), repeat=2):
                table[f"of {source}{wide}", f"{target}{narrow}", lanes] = (
                    (_AVX512 if size == 512 else _AVX512VL) + bw,
                    f"({{1}})({quad}{text})[0]" if half else f"({{1}}){text}",
                )
    return table


def converts(source: DType, target: DType) -> bool:
    """Tell whether `with_instruction` knows one that converts vectors."""
    return (f"of {source.scalar}", str(target.scalar), target.lanes) in _INSTRUCTIONS


def _counting() -> dict[tuple[str, str, int], tuple[str, str]]:
    """The bits that are set in each of 32 or 64, in 256 and in 512 bits."""
    table = {}
    for letter, bits, word in (("d", 32, "int"), ("q", 64, "long long")):
        for size, also in ((256, " && defined(__AVX512VL__)"), (512, "")):
            lanes = size // bits
            of_words = f"({word} __attribute__((vector_size({size // 8}))))"
            call = f"({{1}})__builtin_ia32_vpopcount{letter}_v{lanes}{'s' if bits == 32 else 'd'}i"
            for kind in ("int", "uint"):
                table["popcount", f"{kind}{bits}", lanes] = (
                    f"defined(__AVX512VPOPCNTDQ__){also}",
                    f"{call}({of_words}{{0}})",
                )
    return table


def _of_quantised() -> dict[tuple[str, str, int], tuple[str, str]]:
    """Fused multiply-adds, and conversions that round; int32 as bytes by ones that saturate."""
    words = "__attribute__((vector_size(64)))"
    return {
        ("quotient", "float32", 8): (_FMA, "__builtin_ia32_vfmaddps256({0}, {1}, {2})"),
        ("quotient", "float32", 16): (
            _AVX512,
            "__builtin_ia32_vfmaddps512_mask({0}, {1}, {2}, -1, 4)",
        ),
        ("nearest", "int32", 8): (_AVX, "({1})__builtin_ia32_cvtps2dq256({0})"),
        ("nearest", "int32", 16): (
            _AVX512,
            f"({{1}})__builtin_ia32_cvtps2dq512_mask({{0}}, (int {words}){{{{}}}}, -1, 4)",
        ),
        ("saturated", "uint8", 8): (
            "defined(__AVX2__) && !defined(__AVX512VL__)",
            f"({{{{ short {_BITS8} w = __builtin_ia32_packusdw128({{0}}, {{1}}); "
            f"({{2}})((long long {_BITS8})__builtin_ia32_packuswb128(w, w))[0]; }}}})",
        ),
    }


_SCALED = (_AVX512, "__builtin_ia32_scalefps512_mask({0}, {1}, {0}, -1, 4)")
_SCALED_DOWN = (_AVX512, _SCALED[1].replace("{1}", "{1} - 12583103.0f"))
_INSTRUCTIONS: Final[dict[tuple[str, str, int], tuple[str, str]]] = {
    **_of_kind("ps", "float32", 8),
    **_of_kind("pd", "float64", 4),
    **_counting(),
    **_conversions(),
    **_parts_of_integers(),
    **_of_quantised(),
    ("some", "int32", 8): (_AVX, f"__builtin_ia32_movmskps256((float {_BITS16}){{0}})"),
    ("some", "int32", 4): (_AVX, f"__builtin_ia32_movmskps((float {_BITS8}){{0}})"),
    ("ldexp", "float32", 16): _SCALED,
    ("ldexp_nonpositive", "float32", 16): _SCALED_DOWN,
    ("widen", "float16", 8): (
        "defined(__F16C__)",
        f"__builtin_ia32_vcvtph2ps256((short {_BITS8}){{0}})",
    ),
    ("narrow", "float16", 8): ("defined(__F16C__)", "({1})__builtin_ia32_vcvtps2ph256({0}, 4)"),
    ("widen", "float16", 16): (
        _AVX512,
        f"__builtin_ia32_vcvtph2ps512_mask((short {_BITS16}){{0}}, ({{1}}){{{{0}}}}, -1, 4)",
    ),
    ("narrow", "float16", 16): (
        _AVX512,
        f"({{1}})__builtin_ia32_vcvtps2ph512_mask({{0}}, 4, (short {_BITS16}){{{{0}}}}, -1)",
    ),
}
"""By name, type and lanes: the macros of compilers that have it, the text for its parameters."""
