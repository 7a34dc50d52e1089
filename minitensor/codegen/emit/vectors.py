"""Helpers on vectors: memory, lanes, extremes, conversions, and functions lane by lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from minitensor import ir
from minitensor.codegen.emit import scalars
from minitensor.codegen.emit.bits import popcount
from minitensor.codegen.emit.c_types import (
    compute_type,
    conversion_steps,
    element_type,
    int_twin,
    number,
    of_lanes,
    whole,
)
from minitensor.codegen.emit.helpers import Definition, Helpers, function
from minitensor.codegen.emit.instructions import with_instruction
from minitensor.codegen.remarks import missed_call

HELD: Final = 512
"""Bits of the vectors that are kept in registers by name."""


def loading(dtype: ir.DType, step: int) -> tuple[Any, ...]:
    """The helper that loads so many lanes `step` apart, and what it is about."""
    if step == 2:
        return every_second, dtype, dtype.lanes
    if step != 1:
        return gather, dtype, dtype.lanes
    return (load, dtype) if dtype == whole(dtype) else (load_part, dtype, dtype.lanes)


def repeated(helpers: Helpers, dtype: ir.DType, times: int) -> Definition:
    """Load neighbours, each into so many lanes in a row."""
    kind, part = helpers.vector(dtype), dtype.with_lanes(dtype.lanes // times)
    numbers = [n // times for n in range(dtype.lanes)]
    return function(
        kind,
        f"repeated_{times}_{kind}",
        f"const {element_type(dtype)} *p",
        f"{helpers.vector(part)} x = {helpers.need(load, part)}(p);",
        *_picked(kind, numbers),
    )


def _picked(kind: str, numbers: Sequence[int]) -> list[str]:
    """The lines that return some lanes of a vector x, each as often as it is named."""
    return [
        "#if defined(__clang__) || __GNUC__ >= 12",
        f"return __builtin_shufflevector(x, x, {', '.join(map(str, numbers))});",
        "#else",
        f"return ({kind}){{{', '.join(f'x[{n}]' for n in numbers)}}};",
        "#endif",
    ]


def can_be_held(dtype: ir.DType) -> bool:
    """Return whether `held` is worth its place: for floats in the 32 registers of 512 bits."""
    return dtype.is_float and dtype.bits in (32, 64) and dtype.bits * dtype.lanes == HELD


def held(helpers: Helpers, dtype: ir.DType) -> Definition:
    """A vector that is loaded once. GCC loads it anew for each use otherwise, as an operand of what
    is computed: loads of 512 bits take longer than products and sums then.
    """
    kind = helpers.vector(dtype)
    name, text = function(kind, f"held_{kind}", f"{kind} x", "return x;")
    return name, with_instruction(text, "held", dtype, ("x",))


def storing(dtype: ir.DType, step: int) -> tuple[Any, ...]:
    """The helper that stores so many lanes `step` apart, and what it is about."""
    if step != 1:
        return scatter, dtype, dtype.lanes
    return (store, dtype) if dtype == whole(dtype) else (store_part, dtype, dtype.lanes)


def load(helpers: Helpers, dtype: ir.DType) -> Definition:
    """The vector at an address."""
    kind = helpers.vector(dtype)
    body = f"return *(const {kind}_u *)p;"
    return function(kind, f"load_{kind}", f"const {element_type(dtype)} *p", body)


def store(helpers: Helpers, dtype: ir.DType) -> Definition:
    """A vector stored at an address."""
    kind = helpers.vector(dtype)
    params = f"{element_type(dtype)} *p, {kind} x"
    return function("void", f"store_{kind}", params, f"*({kind}_u *)p = x;")


def converted(helpers: Helpers, source: ir.DType, target: ir.DType) -> Definition:
    """The lanes of one type as those of another, by an instruction of some processors."""
    kind, name = helpers.vector(target), f"{target}_of_{source}"
    value = "x"
    for step in conversion_steps(source, target):
        value = f"__builtin_convertvector({value}, {helpers.vector(step)})"
    _, text = function(kind, name, f"{helpers.vector(source)} x", f"return {value};")
    return name, with_instruction(text, f"of {source.scalar}", target, ("x", kind))


def load_part(helpers: Helpers, dtype: ir.DType, count: int) -> Definition:
    """The vector whose first `count` lanes are at an address; nothing behind them is read."""
    kind, params = helpers.vector(dtype), f"const {element_type(dtype)} *p"
    elements = ", ".join(f"p[{lane}]" for lane in range(count))
    body = [f"return ({kind}){{{elements}}};"]
    if dtype.bits < 32:
        half = dtype.with_lanes(dtype.lanes // 2)
        read, last = helpers.need(load, half), count - half.lanes
        order = [n if n < half.lanes else n + dtype.lanes - count for n in range(count)]
        order += [0] * (dtype.lanes - count)
        both = f"{read}(p), {read}(p + {last})"
        joined = f"return __builtin_shufflevector({both}, {', '.join(map(str, order))});"
        body = ["#if defined(__clang__) || __GNUC__ >= 12", joined, "#else", *body, "#endif"]
    name, text = function(kind, f"load_{count}_{kind}", params, *body)
    element = "int" if dtype.bits == 32 else "long long"
    first = ", ".join(["-1"] * count)
    size = dtype.bits // 8 * dtype.lanes
    mask = f"({element} __attribute__((vector_size({size})))){{{first}}}"
    return name, with_instruction(text, "load_part", dtype, ("p", kind, mask, str(2**count - 1)))


def store_part(helpers: Helpers, dtype: ir.DType, count: int) -> Definition:
    """The first `count` lanes of a vector stored at an address; nothing behind them is written."""
    kind = helpers.vector(dtype)
    params = f"{element_type(dtype)} *p, {kind} x"
    body = [f"p[{lane}] = x[{lane}];" for lane in range(count)]
    if dtype.bits < 32:
        half = dtype.with_lanes(dtype.lanes // 2)
        write, last = helpers.need(store, half), count - half.lanes
        body = [
            f"{write}({place}, {helpers.need(lanes_of, half, dtype.lanes, begin)}(x));"
            for place, begin in (("p", 0), (f"p + {last}", last))
        ]
    name, text = function("void", f"store_{count}_{kind}", params, *body)
    return name, with_instruction(text, "store_part", dtype, ("p", "x", str(2**count - 1)))


def gather(helpers: Helpers, dtype: ir.DType, count: int) -> Definition:
    """The vector whose first `count` lanes are elements that are `step` apart."""
    kind = helpers.vector(dtype)
    elements = ", ".join(f"p[{lane} * step]" for lane in range(count))
    params = f"const {element_type(dtype)} *p, int64_t step"
    name = f"gather_{_part(count, dtype)}{kind}"
    return function(kind, name, params, f"return ({kind}){{{elements}}};")


def every_second(helpers: Helpers, dtype: ir.DType, count: int) -> Definition:
    """The vector whose first `count` lanes are every second element from an address on: two vectors
    that have all of them, of which the second ends with the last, so that nothing behind is read.
    Of small elements, 512 bits are two halves: few processors have an instruction for more.
    """
    kind, lanes = helpers.vector(dtype), dtype.lanes
    name, params = f"every_second_{_part(count, dtype)}{kind}", f"const {element_type(dtype)} *p"
    if dtype.bits < 32 and dtype.bits * lanes > 256:
        half = dtype.with_lanes(lanes // 2)
        parts = [helpers.need(every_second, half, n) for n in (lanes // 2, count - lanes // 2)]
        both = f"{{{parts[0]}(p), {parts[1]}(p + {lanes})}}"
        union = f"union {{ {helpers.vector(half)} part[2]; {kind} whole; }} x = {{{both}}};"
        return function(kind, name, params, union, "return x.whole;")
    if 2 * count - 1 < lanes:
        return function(kind, name, params, f"return {_every_second(kind, count)};")
    read, mask = helpers.need(load, dtype), helpers.vector(int_twin(dtype))
    begin = 2 * count - 1 - lanes
    places = [2 * n if 2 * n < lanes else 2 * n - begin + lanes for n in range(count)]
    order = ", ".join(map(str, places + [0] * (lanes - count)))
    return function(
        kind,
        name,
        params,
        "#ifdef __clang__",
        f"return {_every_second(kind, count)};",
        "#else",
        f"return __builtin_shuffle({read}(p), {read}(p + {begin}), ({mask}){{{order}}});",
        "#endif",
    )


def _every_second(kind: str, count: int) -> str:
    return f"({kind}){{{', '.join(f'p[{2 * n}]' for n in range(count))}}}"


def scatter(helpers: Helpers, dtype: ir.DType, count: int) -> Definition:
    """The first `count` lanes of a vector stored `step` apart."""
    kind = helpers.vector(dtype)
    stores = [f"p[{lane} * step] = x[{lane}];" for lane in range(count)]
    params = f"{element_type(dtype)} *p, int64_t step, {kind} x"
    return function("void", f"scatter_{_part(count, dtype)}{kind}", params, *stores)


def _part(count: int, dtype: ir.DType) -> str:
    return "" if count == dtype.lanes else f"{count}_"


def splat(helpers: Helpers, dtype: ir.DType) -> Definition:
    """The vector with one number in all lanes."""
    kind = helpers.vector(dtype)
    same = ", ".join(["x"] * dtype.lanes)
    return function(
        kind, f"splat_{kind}", f"{element_type(dtype)} x", f"return ({kind}){{{same}}};"
    )


def lanes_of(helpers: Helpers, dtype: ir.DType, lanes: int, begin: int = 0) -> Definition:
    """Some lanes of a vector that has more of them, from lane `begin` on."""
    kind, whole_kind = helpers.vector(dtype), helpers.vector(dtype.with_lanes(lanes))
    count = whole(dtype).lanes
    numbers = range(begin, begin + count)
    return function(
        kind,
        f"lanes_{begin}_{count}_{whole_kind}",
        f"{whole_kind} x",
        *_picked(kind, numbers),
    )


def ramp(helpers: Helpers, dtype: ir.DType) -> Definition:
    """The vector base, base + stride, …"""
    kind, spread = helpers.vector(dtype), helpers.need(splat, dtype)
    numbers = ", ".join(map(str, range(dtype.lanes)))
    body = f"return {spread}(base) + ({kind}){{{numbers}}} * {spread}(stride);"
    return function(kind, f"ramp_{kind}", "int64_t base, int64_t stride", body)


def select(helpers: Helpers, dtype: ir.DType) -> Definition:
    """`a` in the lanes where the mask is set, `b` in the others: on the bits, which compilers take
    for a blend. A loop over the lanes would be cut in two where they prefer shorter vectors.
    """
    kind, mask = helpers.vector(dtype), helpers.vector(int_twin(dtype))
    body = f"return ({kind})((mask & ({mask})a) | (~mask & ({mask})b));"
    name, text = function(kind, f"select_{kind}", f"{mask} mask, {kind} a, {kind} b", body)
    return name, with_instruction(text, "select", dtype, ("mask", "a", "b", kind))


def some(helpers: Helpers, dtype: ir.DType) -> Definition:
    """Tell whether a mask is set in some lane."""
    kind, lanes = helpers.vector(dtype), range(dtype.lanes)
    body = f"return ({' | '.join(f'mask[{lane}]' for lane in lanes)}) != 0;"
    name, text = function("int", f"some_{kind}", f"{kind} mask", body)
    return name, with_instruction(text, "some", dtype, ("mask",))


RARELY: Final = {"sin_far", "cos_far"}
"""Functions that are only called where some lane needs them."""


def chosen(helpers: Helpers, symbol: str, dtype: ir.DType) -> Definition:
    """`a` in the lanes of floats where it is less ("<") or greater (">") than `b`, else `b`."""
    kind, choice = helpers.vector(dtype), helpers.need(select, dtype)
    name, body = _CHOSEN[symbol], f"return {choice}(a {symbol} b, a, b);"
    own, text = function(kind, f"{name}_{kind}", f"{kind} a, {kind} b", body)
    return own, with_instruction(text, name, dtype, ("a", "b"))


_CHOSEN: Final = {"<": "lesser", ">": "greater"}


def is_choice(p: ir.Expr, q: ir.Expr, a: ir.Expr, b: ir.Expr) -> bool:
    """Tell whether `a if p < q else b` is of floats, and of the two that are compared."""
    return p.dtype.is_float and ((p == a and q == b) or (p == b and q == a))


def extremum(helpers: Helpers, op: str, dtype: ir.DType) -> Definition:
    """The smaller or larger in each lane; see `scalars.extremum`."""
    kind, choice = helpers.vector(dtype), helpers.need(select, dtype)
    symbol = "<" if op == "min" else ">"
    value = f"{choice}(b {symbol} a, b, a)"
    if dtype.is_float:
        value = f"{choice}(b != b, b, {helpers.need(chosen, symbol, dtype)}(b, a))"
    name, text = function(kind, f"{op}_{kind}", f"{kind} a, {kind} b", f"return {value};")
    return name, with_instruction(text, op, dtype, ("a", "b"))


def division(helpers: Helpers, op: str, dtype: ir.DType) -> Definition:
    """`scalars.division` in each lane."""
    call = helpers.need(scalars.division, op, element_type(dtype))
    return _each_lane(helpers, scalars.DIVISIONS[op], call, dtype, 2)


def is_quotient_by(expr: ir.Expr) -> bool:
    """Tell whether an expression divides by a constant with which compilers multiply instead."""
    match expr:
        case ir.Binary("//" | "%", _, ir.Broadcast(ir.Const(value))):
            return expr.dtype.is_integer and value > 0
    return False


def division_by(helpers: Helpers, op: str, dtype: ir.DType, divisor: int) -> Definition:
    """Floor division by a positive constant, or its remainder, in each lane: of 8 bits in 16; of
    64, which vectors do not multiply so far, lane by lane.
    """
    kind, by = helpers.vector(dtype), number(divisor, dtype)
    name = f"{scalars.DIVISIONS[op]}_{kind}_by_{divisor}"
    if dtype.bits == 8:
        wide = of_lanes(f"{dtype.kind}16", dtype)
        call = helpers.need(division_by, op, wide, divisor)
        value = f"{call}(__builtin_convertvector(x, {helpers.vector(wide)}))"
        body = f"return __builtin_convertvector({value}, {kind});"
        return function(kind, name, f"{kind} x", body)
    if dtype.bits == 64:
        call = helpers.need(scalars.division, op, element_type(dtype))
        each = f"for (int i = 0; i < {dtype.lanes}; ++i) x[i] = {call}(x[i], {by});"
        return function(kind, name, f"{kind} x", each, "return x;")
    quotient = f"{kind} q = x / ({kind}){{{', '.join([by] * dtype.lanes)}}};"
    if op == "//":
        below = f" + ({kind})(x - q * {by} < 0)" if dtype.kind == "int" else ""
        lines = [quotient, f"return q{below};"]
    else:
        below = f" + (({kind})(r < 0) & {by})" if dtype.kind == "int" else ""
        lines = [quotient, f"{kind} r = x - q * {by};", f"return r{below};"]
    return function(kind, name, f"{kind} x", *lines)


def library(helpers: Helpers, name: str, dtype: ir.DType) -> Definition:
    """A function of the C library in each lane."""
    if name == "abs":
        return _absolute(helpers, dtype)
    if name == "popcount":
        return popcount(helpers, dtype)
    call = scalars.called(helpers, name, dtype.scalar)
    own, text = _each_lane(helpers, name, call, dtype, 2 if name == "power" else 1)
    return own, with_instruction(text, name, dtype, ("x",))


def _absolute(helpers: Helpers, dtype: ir.DType) -> Definition:
    """The absolute value in each lane; of floats, the bits without the sign."""
    kind, mask = helpers.vector(dtype), helpers.vector(int_twin(dtype))
    value = f"{helpers.need(select, dtype)}(x < 0, -x, x)"
    if dtype.is_float:
        value = f"({kind})(({mask})x & {number((1 << (dtype.bits - 1)) - 1, int_twin(dtype))})"
    return function(kind, f"abs_{kind}", f"{kind} x", f"return {value};")


def _each_lane(helpers: Helpers, name: str, call: str, dtype: ir.DType, arity: int) -> Definition:
    """A function of vectors that calls one of scalars for each lane."""
    missed_call(name, call, dtype.lanes)
    kind = helpers.vector(dtype)
    parameters = ", ".join(f"{kind} {p}" for p in "xy"[:arity])
    arguments = ", ".join(f"{p}[i]" for p in "xy"[:arity])
    each = f"for (int i = 0; i < {dtype.lanes}; ++i) x[i] = {call}({arguments});"
    return function(kind, f"{name}_{kind}", parameters, each, "return x;")


def _by_lane(call: str, kind: str, lanes: int) -> tuple[str, str, str]:
    """The body of a function whose result has the value of a call in each lane."""
    each = f"for (int i = 0; i < {lanes}; ++i) y[i] = {call}(x[i]);"
    return f"{kind} y;", each, "return y;"


def widen(helpers: Helpers, dtype: ir.DType) -> Definition:
    """Narrow floats in float32."""
    kind, wide = helpers.vector(dtype), helpers.vector(of_lanes("float32", dtype))
    body = f"return __builtin_convertvector(x, {wide});"
    if dtype.scalar == "bfloat16":
        bits = helpers.vector(of_lanes("uint32", dtype))
        body = f"return ({wide})(__builtin_convertvector(x, {bits}) << 16);"
    name, text = function(wide, f"widen_{kind}", f"{kind} x", body)
    return name, with_instruction(text, "widen", dtype, ("x", wide))


def narrow(helpers: Helpers, dtype: ir.DType) -> Definition:
    """Narrow floats from float32."""
    kind, wide = helpers.vector(dtype), helpers.vector(of_lanes("float32", dtype))
    value = f"{helpers.need(_to_bfloat16, dtype)}(x)" if dtype.is_packed else "x"
    body = f"return __builtin_convertvector({value}, {kind});"
    name, text = function(kind, f"narrow_{kind}", f"{wide} x", body)
    return name, with_instruction(text, "narrow", dtype, ("x", kind))


def _to_bfloat16(helpers: Helpers, dtype: ir.DType) -> Definition:
    """The bits of `scalars.to_bfloat16`, each in 32."""
    wide, bits = (helpers.vector(of_lanes(name, dtype)) for name in ("float32", "uint32"))
    choice = helpers.need(select, of_lanes("uint32", dtype))
    return function(
        bits,
        f"{dtype}_bits",
        f"{wide} x",
        f"{bits} u = ({bits})x;",
        f"return {choice}(x != x, u >> 16 | 0x40, (u + 0x7fff + (u >> 16 & 1)) >> 16);",
    )


def rounded(helpers: Helpers, dtype: ir.DType) -> Definition:
    """float32 rounded to what narrow floats can hold."""
    wide, name = helpers.vector(of_lanes("float32", dtype)), f"rounded_{dtype}"
    body = f"return {helpers.need(widen, dtype)}({helpers.need(narrow, dtype)}(x));"
    if dtype.is_packed:
        body = f"return ({wide})({helpers.need(_to_bfloat16, dtype)}(x) << 16);"
    return function(wide, name, f"{wide} x", body)


def truncated(helpers: Helpers, source: ir.DType, target: ir.DType) -> Definition:
    """`scalars.truncated` in each lane."""
    kind = helpers.vector(source)
    if target.scalar == "uint64":
        wide = helpers.vector(of_lanes("uint64", source))
        call = helpers.need(scalars.truncated, source.scalar, target.scalar)
        name = f"truncated_{kind}_to_uint64"
        return function(wide, name, f"{kind} x", *_by_lane(call, wide, source.lanes))
    mask, wide = helpers.vector(int_twin(source)), helpers.vector(of_lanes("int64", source))
    f = "" if compute_type(source) == "double" else "f"
    fits = f"{mask} fits = (x >= -0x1p63{f}) & (x < 0x1p63{f});"
    body = f"return __builtin_convertvector(({kind})(fits & ({mask})x), {wide});"
    return function(wide, f"truncated_{kind}", f"{kind} x", fits, body)
