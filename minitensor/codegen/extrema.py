"""The smaller and the larger of two vectors by instructions of the processor.

GCC finds these in the loop over lanes of `helpers` too, but only after it has unrolled every copy
of that loop, which takes seconds where there are hundreds.
"""

from __future__ import annotations

from typing import Final


def with_instructions(plain: str, op: str, element: str, lanes: int) -> list[str]:
    """The lines that return "min" or "max" of the vectors a and b.

    plain  a line that any compiler understands
    """
    if (element, lanes) not in _INSTRUCTIONS:
        return [plain]
    macro, text = _INSTRUCTIONS[element, lanes]
    condition = f"#if defined({macro}) && !defined(__clang__)"
    return [condition, f"    return {text.format(op=op)};", "#else", plain, "#endif"]


def _masked(kind: str) -> str:
    """Smaller or larger, and a where that is NaN, in 512 bits."""
    ordered = f"__builtin_ia32_cmp{kind}512_mask(a, a, 7, -1, 4)"
    return f"__builtin_ia32_{{op}}{kind}512_mask(a, b, a, {ordered}, 4)"


def _blended(kind: str) -> str:
    """The same in 256 bits."""
    unordered = f"__builtin_ia32_cmp{kind}256(a, a, 3)"
    return f"__builtin_ia32_blendv{kind}256(__builtin_ia32_{{op}}{kind}256(a, b), a, {unordered})"


_INSTRUCTIONS: Final = {
    ("float32", 16): ("__AVX512F__", _masked("ps")),
    ("float64", 8): ("__AVX512F__", _masked("pd")),
    ("float32", 8): ("__AVX__", _blended("ps")),
    ("float64", 4): ("__AVX__", _blended("pd")),
}
"""By type and lanes: the macro of compilers that have them, and the text."""
