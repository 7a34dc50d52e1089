"""What an emitted text defines before its function: types, and small functions by name.

A helper is asked for by name (`need("max_float32x16")`), and its text follows from the name. Only
those that are used are defined, each after those that it uses itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

import numpy as np

from minitensor import ir
from minitensor.codegen.emit.hooks import DECLARATIONS
from minitensor.codegen.emit.instructions import with_instruction
from minitensor.codegen.emit.lines import broken
from minitensor.codegen.remarks import missed_call
from minitensor.errors import LoweringError

_ELEMENT: Final = {
    "float64": "double",
    "float32": "float",
    "float16": "_Float16",
    "bfloat16": "uint16_t",
    "bool": "uint8_t",
    "index": "int64_t",
}
_SUFFIX: Final = {"float64": "", "float32": "f", "float16": "f", "bfloat16": "f"}
_LIBRARY: Final = {
    "sqrt": "sqrt",
    "abs": "fabs",
    "floor": "floor",
    "ceil": "ceil",
    "round": "rint",
    "power": "pow",
}


def element_type(dtype: ir.DType) -> str:
    """The C type of an element in memory."""
    return _ELEMENT.get(dtype.scalar) or f"{dtype.scalar}_t"


def compute_type(dtype: ir.DType) -> str:
    """The C type in which an element is computed: float for narrow floats."""
    if dtype.is_float:
        return "double" if dtype.bits == 64 else "float"
    return element_type(dtype)


def int_twin(dtype: ir.DType) -> ir.DType:
    """The signed integer type of the same width, in which a mask for such elements is held."""
    return ir.DType.of(f"int{dtype.bits}")


def vector_name(dtype: ir.DType, lanes: int) -> str:
    """The name of a vector type, such as float32x16."""
    return f"{dtype.scalar}x{lanes}"


class Helpers:
    """The types and functions one text needs."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        """The definitions, in the order in which they must come."""

    def lines(self) -> list[str]:
        """The definitions, line by line; bodies of intrinsics as they were declared."""
        return [
            part
            for name, text in self.texts.items()
            for line in text.splitlines()
            for part in ([line] if name.startswith("intrinsic_") else broken(line))
        ]

    def need(self, name: str) -> None:
        """Ask for a helper by its name."""
        if name not in self.texts:
            text = self.definition(name)
            self.texts[name] = text

    def vector(self, dtype: ir.DType, lanes: int) -> str:
        """Ask for a vector type; its name."""
        name = vector_name(ir.DType.of("int64") if dtype == ir.INDEX else dtype, lanes)
        self.need(name)
        return name

    def function(self, name: str, dtype: ir.DType) -> str:
        """The C function that computes one of `expr.FUNCTIONS` on scalars of a type."""
        if name == "abs" and dtype.is_integer:
            helper = f"abs_{compute_type(dtype)}"
            self.need(helper)
            return helper
        if name in ("rsqrt", "sigmoid"):
            helper = f"{name}_{compute_type(dtype)}"
            self.need(helper)
            return helper
        self.need("math")
        return _LIBRARY[name] + _SUFFIX[dtype.scalar]

    def number(self, value: float, dtype: ir.DType) -> str:
        """A number as a literal."""
        if dtype.is_float:
            return _float_literal(float(value), dtype)
        number = ir.const(value, dtype).value
        assert isinstance(number, int)
        if dtype.kind == "uint":
            return f"{number}{'ull' if dtype.bits == 64 else 'u'}" if number > 127 else f"{number}"
        if number == -(1 << 63):
            return "(-9223372036854775807ll - 1)"
        return f"{number}ll" if abs(number) >= 1 << 31 else f"{number}"

    # ---- definitions

    def definition(self, name: str) -> str:
        """The text that defines a helper; asks for what it uses first."""
        for pattern, make in _DEFINITIONS:
            found = re.fullmatch(pattern, name)
            if found is not None:
                return make(self, *found.groups())
        raise LoweringError(f"{name} has no definition for this target")


def _float_literal(value: float, dtype: ir.DType) -> str:
    suffix = "" if dtype.bits == 64 else "f"
    if value != value:
        return f'__builtin_nan{suffix}("")'
    with np.errstate(over="ignore"):
        held = ir.constant_value(value, dtype)
    if math.isinf(held):
        return f"{'-' if held < 0 else ''}__builtin_inf{suffix}()"
    return f"{float(held)!r}" if dtype.bits == 64 else f"{np.float32(held)!s}f"


def _vector_type(helpers: Helpers, element: str, lanes: str) -> str:
    dtype = ir.DType.of(element)
    kind, count = element_type(dtype), int(lanes)
    size, align = dtype.bits // 8 * count, dtype.bits // 8
    name = vector_name(dtype, count)
    unaligned = f"vector_size({size}), aligned({align}), may_alias"
    return (
        f"typedef {kind} {name} __attribute__((vector_size({size})));\n"
        f"typedef {kind} {name}_u __attribute__(({unaligned}));"
    )


def _vector(helpers: Helpers, element: str, lanes: str) -> tuple[str, ir.DType, int]:
    dtype = ir.DType.of(element)
    return helpers.vector(dtype, int(lanes)), dtype, int(lanes)


def _load(helpers: Helpers, element: str, lanes: str) -> str:
    kind, dtype, _ = _vector(helpers, element, lanes)
    return (
        f"static inline {kind} load_{kind}(const {element_type(dtype)} *p) {{\n"
        f"    return *(const {kind}_u *)p;\n}}"
    )


def _store(helpers: Helpers, element: str, lanes: str) -> str:
    kind, dtype, _ = _vector(helpers, element, lanes)
    return (
        f"static inline void store_{kind}({element_type(dtype)} *p, {kind} x) {{\n"
        f"    *({kind}_u *)p = x;\n}}"
    )


def _gather(helpers: Helpers, element: str, lanes: str) -> str:
    kind, dtype, count = _vector(helpers, element, lanes)
    elements = ", ".join(f"p[{lane} * step]" for lane in range(count))
    return (
        f"static inline {kind} gather_{kind}(const {element_type(dtype)} *p, int64_t step) {{\n"
        f"    return ({kind}){{{elements}}};\n}}"
    )


def _scatter(helpers: Helpers, element: str, lanes: str) -> str:
    kind, dtype, count = _vector(helpers, element, lanes)
    stores = "".join(f"    p[{lane} * step] = x[{lane}];\n" for lane in range(count))
    return (
        f"static inline void scatter_{kind}({element_type(dtype)} *p, int64_t step, {kind} x) "
        f"{{\n{stores}}}"
    )


def _splat(helpers: Helpers, element: str, lanes: str) -> str:
    kind, dtype, count = _vector(helpers, element, lanes)
    same = ", ".join(["x"] * count)
    return (
        f"static inline {kind} splat_{kind}({element_type(dtype)} x) {{\n"
        f"    return ({kind}){{{same}}};\n}}"
    )


def _ramp(helpers: Helpers, element: str, lanes: str) -> str:
    kind, _, count = _vector(helpers, element, lanes)
    helpers.need(f"splat_{kind}")
    numbers = ", ".join(map(str, range(count)))
    return (
        f"static inline {kind} ramp_{kind}(int64_t base, int64_t stride) {{\n"
        f"    return splat_{kind}(base) + ({kind}){{{numbers}}} * splat_{kind}(stride);\n}}"
    )


def _select(helpers: Helpers, element: str, lanes: str) -> str:
    kind, dtype, count = _vector(helpers, element, lanes)
    mask = helpers.vector(int_twin(dtype), count)
    head = f"static inline {kind} select_{kind}({mask} mask, {kind} a, {kind} b) {{\n"
    if dtype.is_float and count >= 4:  # compilers know this loop: it becomes a blend, min or max
        return (
            f"{head}    {kind} y;\n    for (int i = 0; i < {count}; ++i) "
            "y[i] = mask[i] ? a[i] : b[i];\n    return y;\n}"
        )
    return f"{head}    return ({kind})((mask & ({mask})a) | (~mask & ({mask})b));\n}}"


def _vector_extremum(helpers: Helpers, op: str, element: str, lanes: str) -> str:
    kind, dtype, count = _vector(helpers, element, lanes)
    helpers.need(f"select_{kind}")
    sign = "<" if op == "min" else ">"
    value = f"select_{kind}(a {sign} b, a, b)"
    if dtype.is_float:  # b where one of them is NaN, but for a NaN in a
        value = f"select_{kind}(a != a, a, {value})"
    head = f"static inline {kind} {op}_{kind}({kind} a, {kind} b) {{"
    text = f"{head}\n    return {value};\n}}"
    return with_instruction(text, op, dtype.with_lanes(count), ("a", "b"))


def _extremum(helpers: Helpers, op: str, kind: str) -> str:
    sign = "<" if op == "min" else ">"
    head = f"static inline {kind} {op}_{kind}({kind} a, {kind} b) {{\n"
    if kind not in ("float", "double"):
        return f"{head}    return a {sign} b ? a : b;\n}}"
    # two questions, not one with "or": for a thousand of those in a row GCC takes minutes
    return f"{head}    {kind} y = a {sign} b ? a : b;\n    return a != a ? a : y;\n}}"


def _scalar_division(helpers: Helpers, op: str, kind: str) -> str:
    """Floor division made total: x // 0 = x % 0 = 0, and the least integer // -1 wraps."""
    head = f"static inline {kind} {op}_{kind}({kind} a, {kind} b) {{\n    if (b == 0) return 0;\n"
    if kind.startswith("u"):
        return head + f"    return a {'/' if op == 'floordiv' else '%'} b;\n}}"
    if op == "floordiv":
        wrap = f"    if (b == -1) return ({kind})(0 - (u{kind})a);\n"
        return head + wrap + "    return a / b - (a % b != 0 && (a < 0) != (b < 0));\n}"
    wrap = "    if (b == -1) return 0;\n"
    return (
        head
        + wrap
        + f"    {kind} r = a % b;\n    return r != 0 && (r < 0) != (b < 0) ? r + b : r;\n}}"
    )


def _reinterpret(helpers: Helpers, source: str, target: str) -> str:
    return (
        f"static inline {target} reinterpret_{source}_as_{target}({source} x) {{\n"
        f"    union {{ {source} from; {target} to; }} same = {{x}};\n    return same.to;\n}}"
    )


def _each_lane(helpers: Helpers, name: str, kind: str, count: int, call: str, arity: int) -> str:
    """A vector function that calls a scalar one for each lane."""
    missed_call(name.removesuffix(f"_{kind}"), call, count)
    parameters = ", ".join(f"{kind} {p}" for p in "xy"[:arity])
    arguments = ", ".join(f"{p}[i]" for p in "xy"[:arity])
    return (
        f"static inline {kind} {name}({parameters}) {{\n"
        f"    for (int i = 0; i < {count}; ++i) x[i] = {call}({arguments});\n"
        f"    return x;\n}}"
    )


def _vector_division(helpers: Helpers, op: str, element: str, lanes: str) -> str:
    kind, dtype, count = _vector(helpers, element, lanes)
    scalar = f"{op}_{element_type(dtype)}"
    helpers.need(scalar)
    return _each_lane(helpers, f"{op}_{kind}", kind, count, scalar, 2)


def _vector_function(helpers: Helpers, function: str, element: str, lanes: str) -> str:
    kind, dtype, count = _vector(helpers, element, lanes)
    if function == "abs" and dtype.kind == "int":
        helpers.need(f"select_{kind}")
        return (
            f"static inline {kind} abs_{kind}({kind} x) {{\n"
            f"    return select_{kind}(x < 0, -x, x);\n}}"
        )
    scalar = helpers.function(function, dtype)
    arity = 2 if function == "power" else 1
    return _each_lane(helpers, f"{function}_{kind}", kind, count, scalar, arity)


def _integer_abs(helpers: Helpers, kind: str) -> str:
    body = f"({kind})(x < 0 ? 0 - (u{kind})x : (u{kind})x)"
    return f"static inline {kind} abs_{kind}({kind} x) {{\n    return {body};\n}}"


def _check_index(helpers: Helpers) -> str:
    return (
        "static inline int64_t check_index(int64_t i, int64_t extent, int *status, int check) {\n"
        "    if ((uint64_t)i < (uint64_t)extent) return i;\n"
        "    __atomic_store_n(status, check, __ATOMIC_RELAXED);\n"
        "    return 0;\n}"
    )


def _from_bfloat16(helpers: Helpers) -> str:
    return (
        "static inline float from_bfloat16(uint16_t bits) {\n"
        "    union { uint32_t u; float f; } x = {(uint32_t)bits << 16};\n"
        "    return x.f;\n}"
    )


def _to_bfloat16(helpers: Helpers) -> str:
    return (
        "static inline uint16_t to_bfloat16(float value) {\n"
        "    union { float f; uint32_t u; } x = {value};\n"
        "    if (value != value) return (uint16_t)(x.u >> 16 | 0x40);\n"
        "    return (uint16_t)((x.u + 0x7fff + (x.u >> 16 & 1)) >> 16);\n}"
    )


def _round_bfloat16(helpers: Helpers) -> str:
    helpers.need("from_bfloat16")
    helpers.need("to_bfloat16")
    return (
        "static inline float rounded_bfloat16(float x) {\n"
        "    return from_bfloat16(to_bfloat16(x));\n}"
    )


def _round_float16(helpers: Helpers) -> str:
    return "static inline float rounded_float16(float x) {\n    return (float)(_Float16)x;\n}"


def _widen(helpers: Helpers, element: str, lanes: str) -> str:
    kind, _, count = _vector(helpers, element, lanes)
    wide = helpers.vector(ir.DType.of("float32"), count)
    if element == "float16":
        body = f"return __builtin_convertvector(x, {wide});"
    else:
        bits = helpers.vector(ir.DType.of("uint32"), count)
        body = f"return ({wide})(__builtin_convertvector(x, {bits}) << 16);"
    return f"static inline {wide} widen_{kind}({kind} x) {{\n    {body}\n}}"


def _narrow(helpers: Helpers, element: str, lanes: str) -> str:
    kind, _, count = _vector(helpers, element, lanes)
    wide = helpers.vector(ir.DType.of("float32"), count)
    if element == "float16":
        body = f"    return __builtin_convertvector(x, {kind});\n"
    else:
        helpers.need("to_bfloat16")
        body = (
            f"    {kind} y;\n    for (int i = 0; i < {count}; ++i) y[i] = to_bfloat16(x[i]);\n"
            "    return y;\n"
        )
    return f"static inline {kind} narrow_{kind}({wide} x) {{\n{body}}}"


def _round_vector(helpers: Helpers, element: str, lanes: str) -> str:
    kind, _, count = _vector(helpers, element, lanes)
    wide = helpers.vector(ir.DType.of("float32"), count)
    helpers.need(f"narrow_{kind}")
    helpers.need(f"widen_{kind}")
    return (
        f"static inline {wide} rounded_{kind}({wide} x) {{\n"
        f"    return widen_{kind}(narrow_{kind}(x));\n}}"
    )


def _truncated(helpers: Helpers, element: str) -> str:
    kind, f = compute_type(ir.DType.of(element)), "" if element == "float64" else "f"
    return (
        f"static inline int64_t truncated_{element}({kind} x) {{\n"
        f"    return x >= -0x1p63{f} && x < 0x1p63{f} ? (int64_t)x : 0;\n}}"
    )


def _truncated_to_uint64(helpers: Helpers, element: str) -> str:
    kind, f = compute_type(ir.DType.of(element)), "" if element == "float64" else "f"
    helpers.need(f"truncated_{element}")
    return (
        f"static inline uint64_t truncated_{element}_to_uint64({kind} x) {{\n"
        f"    return x >= 0x1p63{f} && x < 0x1p64{f} ? (uint64_t)x : "
        f"(uint64_t)truncated_{element}(x);\n}}"
    )


def _truncated_vector(helpers: Helpers, element: str, lanes: str) -> str:
    kind, dtype, count = _vector(helpers, element, lanes)
    mask = helpers.vector(int_twin(dtype), count)
    wide = helpers.vector(ir.DType.of("int64"), count)
    f = "" if element == "float64" else "f"
    return (
        f"static inline {wide} truncated_{kind}({kind} x) {{\n"
        f"    {mask} fits = (x >= -0x1p63{f}) & (x < 0x1p63{f});\n"
        f"    return __builtin_convertvector(({kind})(fits & ({mask})x), {wide});\n}}"
    )


def _truncated_vector_to_uint64(helpers: Helpers, element: str, lanes: str) -> str:
    kind, _, count = _vector(helpers, element, lanes)
    wide = helpers.vector(ir.DType.of("uint64"), count)
    helpers.need(f"truncated_{element}_to_uint64")
    return (
        f"static inline {wide} truncated_{kind}_to_uint64({kind} x) {{\n"
        f"    {wide} y;\n    for (int i = 0; i < {count}; ++i) "
        f"y[i] = truncated_{element}_to_uint64(x[i]);\n    return y;\n}}"
    )


def _thread_number(helpers: Helpers) -> str:
    return (
        "#ifdef _OPENMP\n#include <omp.h>\n#else\n"
        "static inline int omp_get_thread_num(void) {\n    return 0;\n}\n#endif"
    )


_V: Final = r"((?:float|bfloat|u?int)\d+|bool)x(\d+)"
_DEFINITIONS: Final[tuple[tuple[str, Callable[..., str]], ...]] = (
    (_V, _vector_type),
    (rf"load_{_V}", _load),
    (rf"store_{_V}", _store),
    (rf"gather_{_V}", _gather),
    (rf"scatter_{_V}", _scatter),
    (rf"splat_{_V}", _splat),
    (rf"ramp_{_V}", _ramp),
    (rf"select_{_V}", _select),
    (rf"truncated_{_V}", _truncated_vector),
    (rf"truncated_{_V}_to_uint64", _truncated_vector_to_uint64),
    (r"truncated_(float\d+)", _truncated),
    (r"truncated_(float\d+)_to_uint64", _truncated_to_uint64),
    (rf"widen_{_V}", _widen),
    (rf"narrow_{_V}", _narrow),
    (rf"rounded_{_V}", _round_vector),
    (rf"(min|max)_{_V}", _vector_extremum),
    (rf"(floordiv|floormod)_{_V}", _vector_division),
    (rf"({'|'.join(_LIBRARY)})_{_V}", _vector_function),
    (r"(min|max)_(\w+)", _extremum),
    (r"(floordiv|floormod)_(\w+)", _scalar_division),
    (r"abs_(\w+)", _integer_abs),
    (r"reinterpret_(\w+)_as_(\w+)", _reinterpret),
    (r"check_index", _check_index),
    (r"from_bfloat16", _from_bfloat16),
    (r"to_bfloat16", _to_bfloat16),
    (r"rounded_bfloat16", _round_bfloat16),
    (r"rounded_float16", _round_float16),
    (r"math", lambda helpers: "#include <math.h>"),
    (r"thread_number", _thread_number),
    (r"hooks", lambda helpers: DECLARATIONS),
)
"""Patterns of names, and what makes a definition from their groups; the first that fits counts."""
