"""Names in emitted text: the program's own, made safe.

Nothing a user typed reaches the text unfiltered: a name is reduced to letters, digits and
underscores, cut, and changed until it is no word of the language and no other name in scope.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 48

_WORDS: Final = """
auto break case char const continue default do double else enum extern float for goto if inline
int long register restrict return short signed sizeof static struct switch typedef union unsigned
void volatile while asm typeof bool true false complex imaginary thread_local alignas alignof
constexpr nullptr static_assert and or not xor bitand bitor compl new delete class template this
private public protected virtual namespace using try catch throw operator friend mutable explicit
export typename wchar_t main unix linux errno stdin stdout stderr assert NULL EOF signbit isnan
isinf omp_get_thread_num status workspace slice r
"""
RESERVED: Final = frozenset(_WORDS.split())
"""Words that are not names, and names that the text uses itself."""


def safe(name: str) -> str:
    """The name as an identifier."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name[:LONGEST]) or "_"
    if text[0].isdigit() or text[0] == "_":
        text = "v" + text
    if text in RESERVED or _LIBRARY.match(text):
        text += "_"
    return text


_MATH: Final = """
sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log10 log2
log1p logb ilogb pow sqrt cbrt hypot erf erfc tgamma lgamma ceil floor trunc round lround llround
rint lrint llrint nearbyint fmod fdim fmax fmin fma fabs abs labs llabs modf frexp ldexp scalbn
scalbln copysign nan nextafter nexttoward remainder remquo j0 j1 jn y0 y1 yn gamma drem
significand signgam finite scalb pow10 exp10 sincos
"""
_HELPERS: Final = """
load store gather scatter splat stream ramp select min max floordiv floormod round rounded truncated
reinterpret narrow widen check checked from to abs rsqrt sigmoid exp log sqrt tanh erf floor ceil
power prefetch product quotient sin cos log1p expm1 ldexp some
"""
_LIBRARY: Final = re.compile(
    rf"""(?x) ^ (?: intrinsic_.* | u?int(?:8|16|32|64)?_t | size_t | ptrdiff_t
    | (?: {"|".join(_MATH.split())} )[fl]? | (?: {"|".join(_HELPERS.split())} )_.*
    | [A-Z0-9_]+_(?: MAX | MIN | WIDTH ) | (?: M | FP | MATH )_.* | math_errhandling
    | HUGE.* | INFINITY | S?NANF?[0-9]*X?
    | (?: u?int | b?float | bool )[0-9]*x[0-9]+.* | .*_kernel ) $"""
)
"""Names of the C library that a text may call, its constants (which are macros), and names that
helpers may have."""


class Names:
    """The names in scope: each variable and buffer of the program has one."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self.variables: dict[str, list[str]] = {}
        self.arrays: dict[str, list[str]] = {}

    def push(self, name: str, buffer: bool = False) -> str:
        """Enter a scope in which `name` is a loop variable (or a buffer); its name in the text."""
        text = self.fresh(name)
        (self.arrays if buffer else self.variables).setdefault(name, []).append(text)
        return text

    def fresh(self, name: str) -> str:
        """A name in the text that no other has, until it is released."""
        text = base = safe(name)
        number = 2
        while text in self.taken:
            text = f"{base}_{number}" if base[-1] != "_" else f"{base}{number}"
            number += 1
        self.taken.add(text)
        return text

    def release(self, text: str) -> None:
        """Have a name in the text free again."""
        self.taken.discard(text)

    def has(self, name: str) -> bool:
        """Tell whether a buffer of that name is in scope."""
        return bool(self.arrays.get(name))

    def pop(self, name: str, buffer: bool = False) -> None:
        """Leave the scope that `push` entered last for this name."""
        self.release((self.arrays if buffer else self.variables)[name].pop())

    def buffer(self, name: str) -> str:
        """The text of a buffer; a parameter gets one when it is first asked for."""
        return self.arrays[name][-1] if self.arrays.get(name) else self.push(name, buffer=True)

    def variable(self, name: str) -> str:
        """The text of a loop variable."""
        return self.variables[name][-1]
