"""Helpers on vectors: memory, lanes, extremes, conversions, and functions lane by lane."""

from __future__ import annotations

from minitensor import ir
from minitensor.codegen.emit import scalars
from minitensor.codegen.emit.c_types import compute_type, element_type, int_twin, of_lanes
from minitensor.codegen.emit.helpers import Definition, Helpers, function
from minitensor.codegen.emit.instructions import with_instruction
from minitensor.codegen.remarks import missed_call


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


def gather(helpers: Helpers, dtype: ir.DType) -> Definition:
    """The vector of elements that are `step` apart."""
    kind = helpers.vector(dtype)
    elements = ", ".join(f"p[{lane} * step]" for lane in range(dtype.lanes))
    params = f"const {element_type(dtype)} *p, int64_t step"
    return function(kind, f"gather_{kind}", params, f"return ({kind}){{{elements}}};")


def scatter(helpers: Helpers, dtype: ir.DType) -> Definition:
    """The lanes of a vector stored `step` apart."""
    kind = helpers.vector(dtype)
    stores = [f"p[{lane} * step] = x[{lane}];" for lane in range(dtype.lanes)]
    params = f"{element_type(dtype)} *p, int64_t step, {kind} x"
    return function("void", f"scatter_{kind}", params, *stores)


def splat(helpers: Helpers, dtype: ir.DType) -> Definition:
    """The vector with one number in all lanes."""
    kind = helpers.vector(dtype)
    same = ", ".join(["x"] * dtype.lanes)
    return function(
        kind, f"splat_{kind}", f"{element_type(dtype)} x", f"return ({kind}){{{same}}};"
    )


def ramp(helpers: Helpers, dtype: ir.DType) -> Definition:
    """The vector base, base + stride, …"""
    kind, spread = helpers.vector(dtype), helpers.need(splat, dtype)
    numbers = ", ".join(map(str, range(dtype.lanes)))
    body = f"return {spread}(base) + ({kind}){{{numbers}}} * {spread}(stride);"
    return function(kind, f"ramp_{kind}", "int64_t base, int64_t stride", body)


def select(helpers: Helpers, dtype: ir.DType) -> Definition:
    """`a` in the lanes where the mask is set, `b` in the others."""
    kind, mask = helpers.vector(dtype), helpers.vector(int_twin(dtype))
    body = [f"return ({kind})((mask & ({mask})a) | (~mask & ({mask})b));"]
    if dtype.is_float and dtype.lanes >= 4:  # compilers make a blend, min or max of this loop
        choose = "y[i] = mask[i] ? a[i] : b[i];"
        body = [f"{kind} y;", f"for (int i = 0; i < {dtype.lanes}; ++i) {choose}", "return y;"]
    return function(kind, f"select_{kind}", f"{mask} mask, {kind} a, {kind} b", *body)


def extremum(helpers: Helpers, op: str, dtype: ir.DType) -> Definition:
    """The smaller or larger in each lane; see `scalars.extremum`."""
    kind, choice = helpers.vector(dtype), helpers.need(select, dtype)
    value = f"{choice}(a {'<' if op == 'min' else '>'} b, a, b)"
    if dtype.is_float:  # b where one of them is NaN, but for a NaN in a
        value = f"{choice}(a != a, a, {value})"
    name, text = function(kind, f"{op}_{kind}", f"{kind} a, {kind} b", f"return {value};")
    return name, with_instruction(text, op, dtype, ("a", "b"))


def division(helpers: Helpers, op: str, dtype: ir.DType) -> Definition:
    """`scalars.division` in each lane."""
    call = helpers.need(scalars.division, op, element_type(dtype))
    return _each_lane(helpers, scalars.DIVISIONS[op], call, dtype, 2)


def library(helpers: Helpers, name: str, dtype: ir.DType) -> Definition:
    """A function of the C library in each lane."""
    if name == "abs" and dtype.kind == "int":
        kind, choice = helpers.vector(dtype), helpers.need(select, dtype)
        return function(kind, f"abs_{kind}", f"{kind} x", f"return {choice}(x < 0, -x, x);")
    call = scalars.called(helpers, name, dtype.scalar)
    return _each_lane(helpers, name, call, dtype, 2 if name == "power" else 1)


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
    body: tuple[str, ...] = (f"return __builtin_convertvector(x, {wide});",)
    if dtype.scalar == "bfloat16":
        bits = helpers.vector(of_lanes("uint32", dtype))
        body = (f"return ({wide})(__builtin_convertvector(x, {bits}) << 16);",)
    elif dtype.is_packed:
        body = _by_lane(helpers.need(scalars.PACKED[dtype.scalar][0]), wide, dtype.lanes)
    return function(wide, f"widen_{kind}", f"{kind} x", *body)


def narrow(helpers: Helpers, dtype: ir.DType) -> Definition:
    """Narrow floats from float32."""
    kind, wide = helpers.vector(dtype), helpers.vector(of_lanes("float32", dtype))
    body: tuple[str, ...] = (f"return __builtin_convertvector(x, {kind});",)
    if dtype.is_packed:
        body = _by_lane(helpers.need(scalars.PACKED[dtype.scalar][1]), kind, dtype.lanes)
    return function(kind, f"narrow_{kind}", f"{wide} x", *body)


def rounded(helpers: Helpers, dtype: ir.DType) -> Definition:
    """float32 rounded to what narrow floats can hold."""
    wide, name = helpers.vector(of_lanes("float32", dtype)), f"rounded_{dtype}"
    body = f"return {helpers.need(widen, dtype)}({helpers.need(narrow, dtype)}(x));"
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
