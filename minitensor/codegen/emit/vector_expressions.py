"""Vectors of the C dialect (GNU vector extensions), and conditions for each lane.

A vector of conditions is held as integers as wide as what it selects from: all ones or all zeros.
"""

from __future__ import annotations

import math

from minitensor import arith, ir
from minitensor.codegen.emit import bits, masks, products, quantised, vectors
from minitensor.codegen.emit.c_types import (
    computed,
    conversion_steps,
    int_twin,
    is_narrow_float,
    of_lanes,
    whole,
    widest,
)
from minitensor.codegen.emit.expressions import Expressions
from minitensor.codegen.emit.guarded import KEEP_SCALAR, reads_under_condition
from minitensor.codegen.emit.instructions import converts
from minitensor.codegen.emit.precedence import (
    AND,
    ATOM,
    COMMA,
    EQUAL,
    LESS,
    MASK_COMPARISON,
    OR,
    PRECEDENCE,
    SUM,
    TERNARY,
    UNARY,
    power_of_two,
    wrap,
)
from minitensor.codegen.emit.quantised import Quantised
from minitensor.codegen.lanes import numbers, repeats
from minitensor.errors import LoweringError


class VectorExpressions(Expressions):
    """Writes expressions of scalars and of vectors."""

    has_masks = False
    """True if the machine can leave out lanes of a load (see `guarded`)."""

    def stored(self, value: ir.Expr) -> str:
        """A value as memory holds it."""
        dtype = value.dtype
        if dtype.lanes == 1:
            return super().stored(value)
        if dtype.scalar == ir.BOOL:
            vector = self.helpers.vector(of_lanes("int8", dtype))
            wanted = self.helpers.vector(dtype)
            return f"({wanted})({self.mask(value, 8)} & (({vector}){{0}} + 1))"
        if is_narrow_float(dtype):  # what is stored need not be rounded before
            text = _argument(self.expr(value), f"rounded_{dtype}")
            return f"{self.helpers.need(vectors.narrow, dtype)}({text})"
        return self._whole(value)

    def named(self, value: ir.Expr) -> str:
        """A value as a variable holds it that is used again and does not change."""
        text = self.stored(value)
        if isinstance(value, ir.Load) and value.indices and vectors.can_be_held(value.dtype):
            return f"{self.helpers.need(vectors.held, value.dtype)}({text})"
        return text

    def storage_type(self, dtype: ir.DType) -> str:
        """The type of an element in memory."""
        return self.helpers.vector(dtype) if dtype.lanes > 1 else super().storage_type(dtype)

    def expr(self, expr: ir.Expr, outer: int = COMMA) -> str:
        """An expression as an operand of something of precedence `outer`."""
        if expr.dtype.lanes > 1:
            return self._vector_expr(expr, outer)
        return super().expr(expr, outer)

    def _library(self, name: str, dtype: ir.DType) -> str:
        if dtype.lanes > 1:
            return self.helpers.need(vectors.library, name, computed(dtype))
        return super()._library(name, dtype)

    def _vector_expr(self, expr: ir.Expr, outer: int) -> str:
        """A vector, of the type in which its elements are computed."""
        if expr.dtype.scalar == ir.BOOL:
            raise LoweringError(f"{ir.print_expr(expr)} is a condition, not a value")
        dtype = computed(expr.dtype)
        kind = self.helpers.vector(dtype)
        match expr:
            case ir.Var(name):
                return self.names.variable(name)
            case ir.Broadcast(ir.Const() as a) if self.plain_constants and outer > AND:
                return self._constant(a, outer)
            case ir.Broadcast(a):
                return self._lower_part(a, dtype) or self._call_of(vectors.splat, dtype)(a)
            case ir.Ramp(base, stride) | ir.Cast(_, ir.Ramp(base, stride)) if not dtype.is_float:
                return f"{self.helpers.need(vectors.ramp, dtype)}({self.expr(base)}, {stride})"
            case ir.Load():
                return self._vector_load(expr)
            case ir.Lanes(var, count, a):
                if known := numbers(expr, self.ranges):
                    return f"({kind}){{{', '.join(map(str, known))}}}"
                return self._repeated(expr) or self._lanes(kind, var, count, a)
            case ir.Binary() if not self.fuses and (factors := products.factors(expr)):
                text = self._product(expr.dtype, factors)
                return self._rounded_vector(expr.dtype, text, ATOM, outer)
            case ir.Binary(op, a, b) if op in "+-*/":
                mine = PRECEDENCE[op]
                text = f"{self._side(expr, a, mine)} {op} {self._side(expr, b, mine + 1)}"
                return self._rounded_vector(expr.dtype, text, mine, outer)
            case ir.Binary(op, a, ir.Broadcast(b)) if bits.is_shift_of_bytes(expr):
                power = power_of_two(b) if op == "//" else None
                name = self.helpers.need(bits.shift_of_bytes, "<<" if op == "<<" else ">>", dtype)
                return f"{name}({self.expr(a)}, {self.expr(b) if power is None else power})"
            case ir.Binary("//" | "%", _, b) if (power := power_of_two(b)) is not None:
                text, mine = self._shifted(expr, power)
                return wrap(text, mine, outer)
            case ir.Binary(op) if op in ir.BITWISE:
                unsigned = self.helpers.vector(of_lanes(f"uint{dtype.bits}", dtype))
                return f"({kind})({self._bitwise(expr, unsigned)})"
            case ir.Binary(op, a, ir.Broadcast(ir.Const(divisor))) if vectors.is_quotient_by(expr):
                return self._call_of(vectors.division_by, op, dtype, int(divisor))(a)
            case ir.Binary(op, a, b):
                helper = vectors.extremum if op in ("min", "max") else vectors.division
                text = self._call_of(helper, op, dtype)(a, b)
                return self._rounded_vector(expr.dtype, text, ATOM, outer)
            case ir.Unary(_, a):
                return wrap(f"-{self.expr(a, UNARY)}", UNARY, outer)
            case ir.Select(condition, a, b) if condition.dtype.lanes == 1:
                text = f"{self.expr(condition, OR)} ? {self.expr(a, OR)} : {self.expr(b, TERNARY)}"
                return wrap(text, TERNARY, outer)
            case ir.Select(ir.Binary("<", p, q), a, b) if vectors.is_choice(p, q, a, b):
                return self._call_of(vectors.chosen, "<" if a == p else ">", dtype)(a, b)
            case ir.Select(condition, a, b):
                name = self.helpers.need(vectors.select, dtype)
                test, other = self.mask(condition, dtype.bits), self.expr(b)
                text = f"{name}({test}, {self.expr(a)}, {other})"
                if isinstance(a, ir.Call) and a.function in vectors.RARELY:
                    some = self.helpers.need(vectors.some, int_twin(dtype))
                    return wrap(f"{some}({test}) ? {text} : {other}", TERNARY, outer)
                return text
            case ir.Cast(target, a):
                return self._vector_cast(a, target, kind)
            case ir.Call("reinterpret", (a,)):
                return wrap(f"({kind}){self.expr(a, UNARY)}", UNARY, outer)
            case ir.Call():
                return self._rounded_vector(expr.dtype, self._function(expr), ATOM, outer)
        raise LoweringError(f"{ir.print_expr(expr)} cannot be emitted")

    def _rounded_vector(self, dtype: ir.DType, text: str, mine: int, outer: int) -> str:
        if is_narrow_float(dtype):
            return f"{self.helpers.need(vectors.rounded, dtype)}({text})"
        return wrap(text, mine, outer)

    def _vector_load(self, load: ir.Load) -> str:
        buffer = self.buffers[load.buffer]
        if buffer.dtype.lanes == 1:
            step = self.distance(buffer, load.indices)
            loading = vectors.loading(load.dtype, step)
            name = self.helpers.need(*loading)
            target = self.address(load.buffer, load.indices)
            apart = ""
            if loading[0] is vectors.gather:
                apart = f", {self.step(buffer, load.indices)}"
            target = f"{name}({target}{apart})"
        else:
            of_one = self.is_variable(load.buffer)  # and not of an array of vectors
            target = self.element(load.buffer, () if of_one else load.indices)
            if of_one and whole(load.dtype).lanes < buffer.dtype.lanes:
                (begin,) = load.indices
                assert isinstance(begin, ir.Const)
                lanes = buffer.dtype.lanes, int(begin.value)
                name = self.helpers.need(vectors.lanes_of, load.dtype, *lanes)
                target = f"{name}({target})"
        if is_narrow_float(load.dtype):
            return f"{self.helpers.need(vectors.widen, load.dtype)}({target})"
        return target

    def _repeated(self, lanes: ir.Lanes) -> str:
        """Lanes that read neighbours, several in a row the same one; "" for any other."""
        times, load = repeats(lanes, self.ranges), lanes.a
        if not times or not isinstance(load, ir.Load) or is_narrow_float(load.dtype):
            return ""
        if self.buffers[load.buffer].dtype.lanes > 1:
            return ""
        start = {lanes.var: ir.Const(0)}
        first = tuple(arith.simplify(ir.substitute(i, start)) for i in load.indices)
        name = self.helpers.need(vectors.repeated, lanes.dtype, times)
        return f"{name}({self.address(load.buffer, first)})"

    def _lanes(self, kind: str, var: str, count: int, a: ir.Expr) -> str:
        """Collect a vector lane by lane."""
        with self.looping(var, count) as name:
            each = f"r[{name}] = {self.expr(a)};"
        if self.has_masks and reads_under_condition(a):
            each = f"{KEEP_SCALAR} {each}"
        loop = f"for (int64_t {name} = 0; {name} < {count}; ++{name}) {{ {each} }}"
        return f"({{ {kind} r; {loop} r; }})"

    def _vector_cast(self, a: ir.Expr, target: ir.DType, kind: str) -> str:
        if a.dtype.scalar == ir.BOOL:
            twin = int_twin(computed(target))
            text = f"({self.mask(a, twin.bits)} & (({self.helpers.vector(twin)}){{0}} + 1))"
            return self._converted(text, twin, computed(target))
        source = self.helpers.vector(computed(a.dtype))
        if isinstance(a, ir.Ramp) and target.is_float and self._is_short(a):
            near = of_lanes("int32", target)
            text = f"{self.helpers.need(vectors.ramp, near)}({self.expr(a.base)}, {a.stride})"
            text = self._converted(text, near, computed(target))
            return self._rounded_vector(target, text, ATOM, COMMA)
        narrow = a.dtype.is_float and not target.is_float and target.bits < 32
        if narrow and (found := Quantised.of(a)) is not None:
            return self._quantised(found, target)
        text = self.expr(a)
        if target.scalar == "float16" and a.dtype.scalar == "float64":  # not through float
            half, widen = self.helpers.vector(target), self.helpers.need(vectors.widen, target)
            return f"{widen}(__builtin_convertvector({text}, {half}))"
        if narrow and _is_clamped(a):
            near = of_lanes("int32", target)  # NaN becomes -2^31 there, of which 16 bits are 0
            text = self._converted(text, computed(a.dtype), near)
            text = self._converted(text, near, target)
        elif source != kind and a.dtype.is_float and not target.is_float:
            name = self.helpers.need(vectors.truncated, computed(a.dtype), widest(target))
            text = f"{name}({text})"
            text = self._converted(text, widest(target), computed(target))
        elif source != kind:
            text = self._converted(text, computed(a.dtype), computed(target))
        if is_narrow_float(target) and target != a.dtype:
            return self._rounded_vector(target, text, ATOM, COMMA)
        return text

    def _quantised(self, found: Quantised, target: ir.DType) -> str:
        """A float that is rounded and saturated, as an integer."""
        dtype, near = found.value.dtype, of_lanes("int32", target)
        ends = found.low + found.zero, found.high + found.zero
        saturates = target.scalar == "uint8" and target.lanes == 8
        saturates &= ends[0] == 0 and ends[1] <= 255  # beyond that a cast wraps
        text = self.expr(found.clamped(below=not saturates))
        if (q := found.quotient) is not None:
            numbers = (q.divisor, q.high_part, q.low_part)
            others = ", ".join(self.expr(found.same(number)) for number in numbers)
            text = f"{self.helpers.need(quantised.quotient, dtype)}({text}, {others})"
        if found.zero:
            rounded = self.helpers.need(vectors.library, "round", dtype)
            text = f"{rounded}({text}) + {self.expr(found.same(found.zero), SUM)}"
            text = self._converted(text, dtype, near)
        else:
            text = f"{self.helpers.need(quantised.nearest, dtype)}({text})"
        if saturates:
            return f"{self.helpers.need(quantised.saturated, target)}({text})"
        return self._converted(text, near, computed(target))

    def _is_short(self, ramp: ir.Ramp) -> bool:
        """Tell whether 32 bits hold all of a ramp."""
        base = arith.linear_of(ramp.base).interval(self.ranges)
        ends = [end + step for end in (base.lo, base.hi) for step in (0, ramp.stride * ramp.lanes)]
        return -(1 << 31) <= min(ends) <= max(ends) < 1 << 31

    def _converted(self, text: str, source: ir.DType, target: ir.DType) -> str:
        """A vector with its lanes as another type. No step is wider than to twice the bits, or to
        half of them, but by an instruction: GCC 12 takes lanes of a byte to 32 bits one by one.
        """
        steps, source = conversion_steps(source, target), whole(source)
        while steps:
            known = [n for n, step in enumerate(steps) if converts(source, whole(step))]
            step = whole(steps[known[-1] if known else 0])
            if known:
                text = f"{self.helpers.need(vectors.converted, source, step)}({text})"
            else:
                text = f"__builtin_convertvector({text}, {self.helpers.vector(step)})"
            del steps[: known[-1] + 1 if known else 1]
            source = step
        return text

    def _lower_part(self, number: ir.Expr, dtype: ir.DType) -> str:
        """The first lanes of a variable with the number in all of its lanes; "" if there is none.

        To spread it again, from a register, takes an instruction of the units that multiply.
        """
        text = self.expr(number) if isinstance(number, ir.Load) and not number.indices else ""
        if text in self.constant:
            for name, (spread, lanes) in self.constant.items():
                if spread == text and lanes > dtype.lanes:
                    return f"{self.helpers.need(vectors.lanes_of, dtype, lanes)}({name})"
        return ""

    def mask(self, expr: ir.Expr, bits: int) -> str:
        """A condition for each lane, as integers of `bits` bits: all ones or all zeros."""
        own = masks.width_of(expr, bits)
        return self._widened(self._mask(expr, own), expr, own, bits)

    def _widened(self, mask: str, condition: ir.Expr, own: int, bits: int) -> str:
        kind = self.helpers.vector(of_lanes(f"int{bits}", condition.dtype))
        return mask if own == bits else f"__builtin_convertvector({mask}, {kind})"

    def _mask(self, expr: ir.Expr, bits: int) -> str:
        """A mask whose parts are put together in `bits` bits."""
        dtype = of_lanes(f"int{bits}", expr.dtype)
        match expr:
            case ir.Binary("and" | "or" as op, a, b):
                symbol = "&" if op == "and" else "|"
                return f"({self._mask(a, bits)} {symbol} {self._mask(b, bits)})"
            case ir.Unary("not", a):
                return f"(~{self._mask(a, bits)})"
            case ir.Broadcast(a):
                return f"{self.helpers.need(vectors.splat, dtype)}(-({self.expr(a)}))"
            case ir.Select(condition, a, b) if condition.dtype.lanes == 1:
                yes, no = self._mask(a, bits), self._mask(b, bits)
                return f"({self.expr(condition, OR)} ? {yes} : {no})"
            case ir.Select(condition, a, b):
                test = self._mask(condition, bits)
                return f"(({test} & {self._mask(a, bits)}) | (~{test} & {self._mask(b, bits)}))"
            case ir.Binary(op, a, b) if op in ir.COMPARISONS and a.dtype.scalar != ir.BOOL:
                text = f"({self.expr(a, LESS)} {op} {self.expr(b, LESS)})"
            case ir.Binary(op, a, b):
                text = f"({self._mask(a, 8)} {MASK_COMPARISON[op]} {self._mask(b, 8)})"
            case ir.Load():
                text = f"({self._vector_load(expr)} != 0)"
            case ir.Lanes(var, count, a):
                byte = self.helpers.vector(of_lanes("int8", dtype))
                text = f"({self._lanes(byte, var, count, a)} != 0)"
            case ir.Cast(_, a) | ir.Call(_, (a,)):
                text = f"({self.expr(a, EQUAL)} != 0)"
            case _:
                raise LoweringError(f"{ir.print_expr(expr)} cannot be emitted")
        return self._widened(text, expr, masks.own_width(expr), bits)


def _argument(text: str, function: str) -> str:
    """The argument of a call of a function, if a text is nothing else; else the text."""
    head, depth = f"{function}(", 0
    for place, letter in enumerate(text if text.startswith(head) else ""):
        depth += (letter == "(") - (letter == ")")
        if letter == ")" and not depth:
            return text[len(head) : place] if place + 1 == len(text) else text
    return text


def _is_clamped(expr: ir.Expr) -> bool:
    """Tell whether a float is NaN or in the range of an int32, by constants that clamp it."""
    least, most = _reached(expr)
    return least >= -(2.0**31) and most < 2.0**31


def _reached(expr: ir.Expr) -> tuple[float, float]:
    """The least and the greatest value of a float, as far as maxima and minima tell."""
    match expr:
        case ir.Broadcast(a):
            return _reached(a)
        case ir.Const(value):
            return float(value), float(value)
        case ir.Binary("min" | "max" as op, a, b):
            pick = min if op == "min" else max
            (a_least, a_most), (b_least, b_most) = _reached(a), _reached(b)
            return pick(a_least, b_least), pick(a_most, b_most)
    return -math.inf, math.inf
