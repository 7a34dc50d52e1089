"""Helper functions that a processor has an instruction for, which compilers find late or never.

`max` and `min`: GCC finds them in the loop over lanes of `helpers`, but only after it has unrolled
every copy of that loop, which takes seconds where there are hundreds. `ldexp`, the end of exp: one
instruction in the place of nine, with the same result.
"""

from __future__ import annotations

from typing import Final

from minitensor.ir import DType


def with_instruction(text: str, name: str, dtype: DType, params: tuple[str, ...]) -> str:
    """The text of a function, with another body for compilers that know an instruction for it.

    text    its definition: a line that begins it, its body, a line that ends it
    name    "min", "max" or a function of the IR
    dtype   of its vectors
    params  the names of its parameters
    """
    known = _INSTRUCTIONS.get((name, str(dtype.scalar), dtype.lanes))
    if known is None:
        return text
    macro, expression = known
    head, *body, end = text.split("\n")
    condition = f"#if defined({macro}) && !defined(__clang__)"
    shorter = f"    return {expression.format(*params)};"
    return "\n".join([head, condition, shorter, "#else", *body, "#endif", end])


def _masked(op: str, kind: str) -> str:
    """Smaller or larger, and the first where that is NaN, in 512 bits."""
    ordered = f"__builtin_ia32_cmp{kind}512_mask({{0}}, {{0}}, 7, -1, 4)"
    return f"__builtin_ia32_{op}{kind}512_mask({{0}}, {{1}}, {{0}}, {ordered}, 4)"


def _blended(op: str, kind: str) -> str:
    """The same in 256 bits."""
    unordered = f"__builtin_ia32_cmp{kind}256({{0}}, {{0}}, 3)"
    either = f"__builtin_ia32_{op}{kind}256({{0}}, {{1}})"
    return f"__builtin_ia32_blendv{kind}256({either}, {{0}}, {unordered})"


_INSTRUCTIONS: Final[dict[tuple[str, str, int], tuple[str, str]]] = {
    ("ldexp", "float32", 16): (
        "__AVX512F__",
        "__builtin_ia32_scalefps512_mask({0}, {1}, {0}, -1, 4)",
    ),
    **{
        (op, dtype, bits // width): (macro, make(op, kind))
        for op in ("min", "max")
        for dtype, width, kind in (("float32", 32, "ps"), ("float64", 64, "pd"))
        for bits, macro, make in ((512, "__AVX512F__", _masked), (256, "__AVX__", _blended))
    },
}
"""By name, type and lanes: the macro of compilers that have it, and the text for its parameters."""
