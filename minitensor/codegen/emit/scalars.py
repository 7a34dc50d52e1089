"""Helpers on scalars: total division, extremes, conversions and the C library."""

from __future__ import annotations

from typing import Final

from minitensor import ir
from minitensor.codegen.emit.c_types import compute_type
from minitensor.codegen.emit.helpers import Definition, Helpers, function

_SUFFIX: Final = {"float64": "", "float32": "f", "float16": "f", "bfloat16": "f"}
LIBRARY: Final = {
    "sqrt": "sqrt",
    "abs": "fabs",
    "floor": "floor",
    "ceil": "ceil",
    "round": "rint",
    "power": "pow",
    "sin": "sin",
    "cos": "cos",
    "log1p": "log1p",
    "expm1": "expm1",
}
"""The functions of the IR that the C library computes, some on float64 only; their names there."""


def called(helpers: Helpers, name: str, dtype: ir.DType) -> str:
    """The C function that computes one of LIBRARY on scalars of a type."""
    if name == "abs" and dtype.is_integer:
        return helpers.need(_integer_abs, compute_type(dtype))
    if name == "popcount":
        return helpers.need(_popcount, compute_type(dtype))
    helpers.need(_math)
    return LIBRARY[name] + _SUFFIX[dtype.scalar]


def _math(helpers: Helpers) -> Definition:
    return "math", "#include <math.h>"


def _integer_abs(helpers: Helpers, kind: str) -> Definition:
    body = f"return ({kind})(x < 0 ? 0 - (u{kind})x : (u{kind})x);"
    return function(kind, f"abs_{kind}", f"{kind} x", body)


def _popcount(helpers: Helpers, kind: str) -> Definition:
    body = f"return ({kind}){helpers.dialect.popcount}((u{kind.removeprefix('u')})x);"
    return function(kind, f"popcount_{kind}", f"{kind} x", body)


def prefetch(helpers: Helpers) -> Definition:
    """The instruction that loads the cache line of an address; nothing where compilers lack it."""
    body = "#ifdef __GNUC__", "__builtin_prefetch(p);", "#endif"
    return function("void", "prefetch_line", "const void *p", *body)


def extremum(helpers: Helpers, op: str, kind: str) -> Definition:
    """The smaller ("min") or larger ("max"); NaN where one is, `a` where they are equal.

    Only `b` is asked about NaN: a comparison with a NaN in `a` fails. Reductions have their result
    in `a`, so the next operation waits for one comparison, not for two.
    """
    value = f"b {'<' if op == 'min' else '>'} a ? b : a;"
    if kind not in ("float", "double"):
        body = [f"return {value}"]
    else:  # two questions, not one with "or": for a thousand of those in a row GCC takes minutes
        body = [f"{kind} y = {value}", "return b != b ? b : y;"]
    return function(kind, f"{op}_{kind}", f"{kind} a, {kind} b", *body)


def second_bound(helpers: Helpers, op: str, kind: str) -> Definition:
    """`extremum` of the result of another one: the end of a clip, min(max(x, 0), 6).

    GCC knows what the second comparison says where the first was true, and so jumps over it; where
    it cannot be told which numbers are out of bounds, every other jump is mispredicted, at the cost
    of ten clips. Of a number from an empty instruction it knows nothing.
    """
    then = helpers.need(extremum, op, kind)
    return function(
        kind, f"{then}_after", f"{kind} a, {kind} b", *_hiding("a"), f"return {then}(a, b);"
    )


def _hiding(name: str) -> tuple[str, ...]:
    """The lines behind which GCC knows nothing of a floating-point variable."""
    return (
        "#if defined(__clang__) || defined(__CUDACC__)",
        "#elif defined(__SSE2__)",
        f'__asm__("" : "+x"({name}));',
        "#elif defined(__aarch64__)",
        f'__asm__("" : "+w"({name}));',
        "#endif",
    )


def division(helpers: Helpers, op: str, kind: str) -> Definition:
    """Floor division ("//") or its remainder made total: x // 0 = x % 0 = 0, and the least integer
    // -1 wraps.
    """
    name, params = f"{DIVISIONS[op]}_{kind}", f"{kind} a, {kind} b"
    zero = "if (b == 0) return 0;"
    if kind.startswith("u"):
        return function(kind, name, params, zero, f"return a {op[0]} b;")
    if op == "//":
        wrap = f"if (b == -1) return ({kind})(0 - (u{kind})a);"
        floor = "return a / b - (a % b != 0 && (a < 0) != (b < 0));"
        return function(kind, name, params, zero, wrap, floor)
    return function(
        kind,
        name,
        params,
        zero,
        "if (b == -1) return 0;",
        f"{kind} r = a % b;",
        "return r != 0 && (r < 0) != (b < 0) ? r + b : r;",
    )


DIVISIONS: Final = {"//": "floordiv", "%": "floormod"}


def reinterpret(helpers: Helpers, source: str, target: str) -> Definition:
    """The value with the bits of another."""
    same = f"union {{ {source} from; {target} to; }} same = {{x}};"
    name = f"reinterpret_{source}_as_{target}"
    return function(target, name, f"{source} x", same, "return same.to;")


def check_index(helpers: Helpers) -> Definition:
    """The index where it is inside; 0 and the number of the check in `status` otherwise."""
    return function(
        "int64_t",
        "check_index",
        "int64_t i, int64_t extent, int *status, int check",
        "if ((uint64_t)i < (uint64_t)extent) return i;",
        "__atomic_store_n(status, check, __ATOMIC_RELAXED);",
        "return 0;",
    )


def from_bfloat16(helpers: Helpers) -> Definition:
    """The float that a bfloat16 stands for."""
    bits = "union { uint32_t u; float f; } x = {(uint32_t)bits << 16};"
    return function("float", "from_bfloat16", "uint16_t bits", bits, "return x.f;")


def to_bfloat16(helpers: Helpers) -> Definition:
    """The nearest bfloat16."""
    return function(
        "uint16_t",
        "to_bfloat16",
        "float value",
        "union { float f; uint32_t u; } x = {value};",
        "if (value != value) return (uint16_t)(x.u >> 16 | 0x40);",
        "return (uint16_t)((x.u + 0x7fff + (x.u >> 16 & 1)) >> 16);",
    )


def rounded(helpers: Helpers, dtype: ir.DType) -> Definition:
    """A float rounded to what a narrow float can hold."""
    packed = helpers.dialect.packed.get(dtype)
    if packed is None:
        wide = helpers.need(helpers.dialect.widened, dtype)
        return function("float", f"rounded_{dtype}", "float x", f"return {wide}((_Float16)x);")
    unpack, pack = (helpers.need(f) for f in packed)
    return function("float", f"rounded_{dtype}", "float x", f"return {unpack}({pack}(x));")


def widened(helpers: Helpers, dtype: ir.DType) -> Definition:
    """A float16 as float, or a float32 as double.

    gcc (12 at least) takes a conversion to a narrower float and back for nothing where several side
    by side become one vector, wherever the two stand: it cannot see through an empty instruction.
    """
    narrow, wide = ("_Float16", "float") if dtype == "float16" else ("float", "double")
    return function(
        wide,
        f"widened_{dtype}",
        f"{narrow} x",
        *_hiding("x"),
        f"return ({wide})x;",
    )


def truncated(helpers: Helpers, source: ir.DType, target: ir.DType) -> Definition:
    """The 64-bit integer that a float is converted to (see `ir.cast`): int64 but for uint64."""
    kind, f = compute_type(source), "" if source == "float64" else "f"
    if target != "uint64":
        body = f"return x >= -0x1p63{f} && x < 0x1p63{f} ? (int64_t)x : 0;"
        return function("int64_t", f"truncated_{source}", f"{kind} x", body)
    signed = helpers.need(truncated, source, ir.DType.of("int64"))
    large = f"x >= 0x1p63{f} && x < 0x1p64{f}"
    body = f"return {large} ? (uint64_t)x : (uint64_t){signed}(x);"
    return function("uint64_t", f"truncated_{source}_to_uint64", f"{kind} x", body)


def thread_number(helpers: Helpers) -> Definition:
    """The number of the running thread, also where the compiler has no OpenMP."""
    return "omp_get_thread_num", (
        "#ifdef _OPENMP\n#include <omp.h>\n#else\n"
        "static inline int omp_get_thread_num(void) {\n    return 0;\n}\n#endif"
    )
