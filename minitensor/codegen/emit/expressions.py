"""Expressions of the C family: scalars, vectors, and conditions for each lane.

Narrow floats (float16, bfloat16) are computed in float and rounded after each operation, integers
narrower than int after each operation too, so that a value never carries more than its type holds.
A vector of conditions is held as integers as wide as what it selects from: all ones or all zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from minitensor import arith, ir
from minitensor.codegen.emit import masks, products, scalars, vectors
from minitensor.codegen.emit.addresses import Addresses
from minitensor.codegen.emit.c_types import (
    compute_type,
    computed,
    element_type,
    int_twin,
    is_narrow_float,
    number,
    of_lanes,
    widest,
)
from minitensor.codegen.emit.guarded import KEEP_SCALAR, reads_under_condition
from minitensor.codegen.emit.helpers import Definition, Helpers
from minitensor.codegen.emit.mathematics import defined
from minitensor.codegen.emit.precedence import (
    AND,
    ATOM,
    BITS,
    COMMA,
    EQUAL,
    LESS,
    MASK_COMPARISON,
    OR,
    PRECEDENCE,
    PRODUCT,
    SHIFT,
    SUM,
    SYMBOL,
    TERNARY,
    UNARY,
    power_of_two,
    wrap,
)
from minitensor.errors import LoweringError


class Expressions(Addresses):
    """Writes expressions, with the buffers and the ranges of variables in scope."""

    def __init__(self, helpers: Helpers, params: Sequence[ir.Buffer] = ()) -> None:
        super().__init__(params)
        self.helpers = helpers
        self.ranges: dict[str, arith.Interval] = {}
        self.checks: list[str] = []
        """The message of each check at run time."""
        self.has_masks = False
        """True if the machine can leave out lanes of a load (see `guarded`)."""
        self.plain_constants = False
        """True if a vector of equal constants, as an operand, is written as the one constant."""
        self.fuses = False
        """True if any product may be fused with a sum (see `products`)."""
        self.updated = ""
        """The buffer that is stored to: products may be fused with a sum with its elements."""
        self.unread: frozenset[str] = frozenset()
        """The buffers that nothing is computed from."""

    @classmethod
    def of_definitions(cls, helpers: Helpers) -> Expressions:
        """A writer of the functions that are defined in the IR's terms."""
        fresh = Expressions(helpers)
        fresh.plain_constants = fresh.fuses = True
        return fresh

    def result(self, value: ir.Expr) -> str:
        """The result of such a function, which is not fused with what its caller does."""
        self.fuses = False
        text = self.expr(value) if products.is_fused(value) else ""
        self.fuses = True
        return text or self.expr(value)

    def stored(self, value: ir.Expr) -> str:
        """A value as memory holds it."""
        dtype = value.dtype
        if dtype.lanes > 1:
            if dtype.scalar == ir.BOOL:
                vector = self.helpers.vector(of_lanes("int8", dtype))
                wanted = self.helpers.vector(dtype)
                return f"({wanted})({self.mask(value, 8)} & (({vector}){{0}} + 1))"
            if is_narrow_float(dtype):
                return self._call_of(vectors.narrow, dtype)(value)
            return self._whole(value)
        if dtype.is_packed:
            return self._call_of(scalars.PACKED[dtype][1])(value)
        if dtype == "float16":
            return f"(_Float16){self.expr(value, UNARY)}"
        return self._whole(value)

    def _whole(self, value: ir.Expr) -> str:
        """A value that is stored as it is."""
        return self.unrounded(value) if self.updated in self.unread else self.expr(value)

    def storage_type(self, dtype: ir.DType) -> str:
        """The type of an element in memory."""
        if dtype.lanes > 1:
            return self.helpers.vector(dtype)
        return element_type(dtype)

    # ---- expressions

    def expr(self, expr: ir.Expr, outer: int = COMMA) -> str:
        """An expression as an operand of something of precedence `outer`."""
        if expr.dtype.lanes > 1:
            return self._vector_expr(expr, outer)
        match expr:
            case ir.Var(name):
                return self.names.variable(name)
            case ir.Const():
                return self._constant(expr, outer)
            case ir.Binary():
                return self._binary(expr, outer)
            case ir.Unary("not", a):
                return f"!{self.expr(a, UNARY)}"
            case ir.Unary(_, a):
                return self._rounded(expr.dtype, f"-{self.expr(a, UNARY)}", UNARY, outer)
            case ir.Select(condition, a, b):
                a_text, b_text = self.expr(a, OR), self.expr(b, TERNARY)
                if expr.dtype == ir.INDEX and isinstance(a, ir.Const) and isinstance(b, ir.Const):
                    a_text = f"(int64_t){a_text}"
                return wrap(f"{self.expr(condition, OR)} ? {a_text} : {b_text}", TERNARY, outer)
            case ir.Cast():
                return self._cast(expr, outer)
            case ir.Load():
                return self._load(expr)
            case ir.Call():
                return self._call(expr)
        raise LoweringError(f"{ir.print_expr(expr)} cannot be emitted")

    def _constant(self, const: ir.Const, outer: int) -> str:
        text = number(const.value, const.dtype)
        return f"({text})" if text.startswith("-") and outer > SUM else text

    def _binary(self, expr: ir.Binary, outer: int) -> str:
        op, a, b = expr.op, expr.a, expr.b
        if op in ("//", "%"):
            return self._division(expr, outer)
        if op in ("min", "max"):
            return self._call_of(scalars.extremum, op, compute_type(a.dtype))(a, b)
        if not self.fuses and (factors := products.factors(expr)) is not None:
            return self._rounded(expr.dtype, self._product(expr.dtype, factors), ATOM, outer)
        mine = PRECEDENCE[op]
        if op in ir.BITWISE:
            text = self._bitwise(expr, compute_type(of_lanes(f"uint{a.dtype.bits}", a.dtype)))
            return wrap(f"({compute_type(a.dtype)})({text})", UNARY, outer)
        symbol = SYMBOL.get(op, op)
        if op == "+" and isinstance(b, ir.Const) and b.value < 0 and b.dtype.kind != "uint":
            symbol, b = "-", ir.Const(-b.value, b.dtype)
        if op == "or":  # compilers ask for parentheses around && inside ||
            left, right = (
                OR if isinstance(e, ir.Binary) and e.op == "or" else EQUAL for e in (a, b)
            )
        else:
            left, right = mine, mine + 1
        text = f"{self._side(expr, a, left)} {symbol} {self._side(expr, b, right)}"
        if op in ir.COMPARISONS or op in SYMBOL:
            return wrap(text, mine, outer)
        return self._rounded(expr.dtype, text, mine, outer)

    def _side(self, expr: ir.Binary, operand: ir.Expr, outer: int) -> str:
        """An operand of an operation: a product as such where it cannot or may be fused."""
        if expr.op not in ("+", "-"):
            return self.unrounded(operand, outer)
        other = expr.b if operand is expr.a else expr.a
        is_step = isinstance(other, ir.Load) and other.buffer == self.updated
        return self.unrounded(operand, outer) if is_step else self.expr(operand, outer)

    def unrounded(self, expr: ir.Expr, outer: int = COMMA) -> str:
        """An expression where no sum follows, or one that a product may be fused with."""
        if not products.is_fused(expr):
            return self.expr(expr, outer)
        assert isinstance(expr, ir.Binary)
        text = f"{self.unrounded(expr.a, PRODUCT)} {expr.op} {self.unrounded(expr.b, UNARY)}"
        return wrap(text, PRODUCT, outer)

    def _product(self, dtype: ir.DType, factors: tuple[ir.Expr, ir.Expr]) -> str:
        """A product that is not fused with anything."""
        name = self.helpers.need(products.product, computed(dtype))
        return f"{name}({', '.join(self.unrounded(factor) for factor in factors)})"

    def _rounded(self, dtype: ir.DType, text: str, mine: int, outer: int) -> str:
        """The result of an operation brought back to its type, where C computed in a wider one."""
        if is_narrow_float(dtype):
            return f"{self.helpers.need(scalars.rounded, dtype)}({text})"
        if dtype.is_integer and dtype.bits < 32:
            return wrap(f"({element_type(dtype)})({text})", UNARY, outer)
        return wrap(text, mine, outer)

    def _division(self, expr: ir.Binary, outer: int) -> str:
        """Floor division or its remainder; plain C where nothing is negative."""
        dtype = expr.dtype
        divisor = expr.b
        power = power_of_two(divisor)
        if power is not None and dtype.kind == "int":
            return self._rounded(dtype, *self._shifted(expr, power), outer)
        positive = isinstance(divisor, ir.Const) and divisor.value > 0
        unsigned = dtype.kind == "uint" or arith.interval_of(expr.a, self.ranges).lo >= 0
        if positive and unsigned and (dtype == ir.INDEX or dtype.kind == "uint"):
            symbol = "/" if expr.op == "//" else "%"
            text = f"{self.expr(expr.a, PRODUCT)} {symbol} {self.expr(divisor, UNARY)}"
            return self._rounded(dtype, text, PRODUCT, outer)
        text = self._call_of(scalars.division, expr.op, compute_type(dtype))(expr.a, divisor)
        return self._rounded(dtype, text, ATOM, outer)

    def _bitwise(self, expr: ir.Binary, unsigned: str) -> str:
        """An operation on the bits; a shift is by less than the width, and to the left unsigned."""
        a, b = self.expr(expr.a, UNARY), self.expr(expr.b, UNARY)
        if expr.op in ir.SHIFTS:
            last = expr.dtype.bits - 1
            b = str(int(expr.b.value) & last) if isinstance(expr.b, ir.Const) else f"({b} & {last})"
        return f"{f'({unsigned}){a}' if expr.op == '<<' else a} {expr.op} {b}"

    def _shifted(self, expr: ir.Binary, power: int) -> tuple[str, int]:
        """Floor division by 2^power, or its remainder, on the bits; with the precedence."""
        operand = self.expr(expr.a, PRODUCT)  # compilers ask for parentheses around a sum
        if expr.op == "//":
            return f"{operand} >> {power}", SHIFT
        return f"{operand} & {number((1 << power) - 1, expr.dtype.scalar)}", BITS

    def _cast(self, expr: ir.Cast, outer: int) -> str:
        source, target = expr.a.dtype, expr.dtype
        if target == ir.BOOL:
            return wrap(f"{self.expr(expr.a, EQUAL)} != 0", EQUAL, outer)
        if target == "float16" and source == "float64":  # in one step, not through float
            wide = self.helpers.need(scalars.widened, target)
            return f"{wide}((_Float16){self.expr(expr.a, UNARY)})"
        if target == "float64" and compute_type(source) == "float":
            return self._call_of(scalars.widened, ir.DType.of("float32"))(expr.a)
        if is_narrow_float(target):
            return self._call_of(scalars.rounded, target)(expr.a)
        if compute_type(source) == compute_type(target):
            return self.expr(expr.a, outer)
        if source.is_float and not target.is_float:
            whole = self._call_of(scalars.truncated, computed(source), widest(target))(expr.a)
            if target.bits == 64:
                return whole
            return wrap(f"({compute_type(target)}){whole}", UNARY, outer)
        return wrap(f"({compute_type(target)}){self.expr(expr.a, UNARY)}", UNARY, outer)

    def _load(self, load: ir.Load) -> str:
        text = self.element(load.buffer, load.indices)
        if load.dtype.is_packed:
            return f"{self.helpers.need(scalars.PACKED[load.dtype][0])}({text})"
        if load.dtype == ir.DType.of("float16"):
            return f"{self.helpers.need(scalars.widened, load.dtype)}({text})"
        return text

    def _call(self, call: ir.Call) -> str:
        if call.function == "in_bounds":
            return self._index_check(call)
        dtype = call.dtype
        if call.function == "reinterpret":
            source, target = compute_type(call.args[0].dtype), compute_type(dtype)
            return self._call_of(scalars.reinterpret, source, target)(*call.args)
        return self._rounded(dtype, self._function(call), ATOM, COMMA)

    def _function(self, call: ir.Call) -> str:
        """A call of a function that is defined in the IR's terms, or of the C library's."""
        dtype = computed(call.dtype)
        name = defined(self.helpers, call.function, dtype, Expressions.of_definitions)
        if name is None and dtype.lanes == 1:
            name = scalars.called(self.helpers, call.function, call.dtype)
        elif name is None:
            name = self.helpers.need(vectors.library, call.function, dtype)
        return f"{name}({', '.join(self.expr(a) for a in call.args)})"

    def _index_check(self, call: ir.Call) -> str:
        index, extent = call.args
        assert isinstance(extent, ir.Const)
        self.checks.append(f"the index {ir.print_expr(index)} is outside [0, {extent.value})")
        name = self.helpers.need(scalars.check_index)
        return f"{name}({self.expr(index)}, {extent.value}, &status, {len(self.checks)})"

    def _call_of(self, helper: Callable[..., Definition], *about: object) -> Callable[..., str]:
        """Writes a call of a helper, given the arguments of the call."""
        name = self.helpers.need(helper, *about)
        return lambda *args: f"{name}({', '.join(self.expr(a) for a in args)})"

    # ---- vectors

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
                return self._call_of(vectors.splat, dtype)(a)
            case ir.Ramp(base, stride) | ir.Cast(_, ir.Ramp(base, stride)) if not dtype.is_float:
                return f"{self.helpers.need(vectors.ramp, dtype)}({self.expr(base)}, {stride})"
            case ir.Load():
                return self._vector_load(expr)
            case ir.Lanes(var, count, a):
                return self._lanes(kind, var, count, a)
            case ir.Binary() if not self.fuses and (factors := products.factors(expr)):
                text = self._product(expr.dtype, factors)
                return self._rounded_vector(expr.dtype, text, ATOM, outer)
            case ir.Binary(op, a, b) if op in "+-*/":
                mine = PRECEDENCE[op]
                text = f"{self._side(expr, a, mine)} {op} {self._side(expr, b, mine + 1)}"
                return self._rounded_vector(expr.dtype, text, mine, outer)
            case ir.Binary("//" | "%", _, b) if (power := power_of_two(b)) is not None:
                text, mine = self._shifted(expr, power)
                return wrap(text, mine, outer)
            case ir.Binary(op) if op in ir.BITWISE:
                unsigned = self.helpers.vector(of_lanes(f"uint{dtype.bits}", dtype))
                return f"({kind})({self._bitwise(expr, unsigned)})"
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
                test = self.mask(condition, dtype.bits)
                return f"{name}({test}, {self.expr(a)}, {self.expr(b)})"
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
            step = self.step(buffer, load.indices)
            name = self.helpers.need(vectors.load if step == 1 else vectors.gather, load.dtype)
            target = self.address(load.buffer, load.indices)
            target = f"{name}({target}{'' if step == 1 else f', {step}'})"
        else:
            target = self.element(load.buffer, load.indices)
        if is_narrow_float(load.dtype):
            return f"{self.helpers.need(vectors.widen, load.dtype)}({target})"
        return target

    def _lanes(self, kind: str, var: str, count: int, a: ir.Expr) -> str:
        """Collect a vector lane by lane."""
        with self.looping(var, count) as name:
            each = f"r[{name}] = {self.expr(a)};"
        if self.has_masks and reads_under_condition(a):
            each = f"{KEEP_SCALAR} {each}"
        loop = f"for (int64_t {name} = 0; {name} < {count}; ++{name}) {{ {each} }}"
        return f"({{ {kind} r; {loop} r; }})"

    @contextmanager
    def looping(self, var: str, extent: int) -> Iterator[str]:
        """Have a loop's variable in scope; gives its name in the text."""
        outside = self.ranges.get(var)
        self.ranges[var] = arith.extent_range(extent)
        yield self.names.push(var)
        self.names.pop(var)
        if outside is None:
            del self.ranges[var]
        else:
            self.ranges[var] = outside

    def _vector_cast(self, a: ir.Expr, target: ir.DType, kind: str) -> str:
        if a.dtype.scalar == ir.BOOL:
            twin = int_twin(computed(target))
            ones = self.helpers.vector(twin)
            text = f"({self.mask(a, twin.bits)} & (({ones}){{0}} + 1))"
            if ones != kind:
                text = f"__builtin_convertvector({text}, {kind})"
            return text
        source = self.helpers.vector(computed(a.dtype))
        text = self.expr(a)
        if target.scalar == "float16" and a.dtype.scalar == "float64":  # not through float
            half, widen = self.helpers.vector(target), self.helpers.need(vectors.widen, target)
            return f"{widen}(__builtin_convertvector({text}, {half}))"
        if source != kind and a.dtype.is_float and not target.is_float:
            name = self.helpers.need(vectors.truncated, computed(a.dtype), widest(target))
            text = f"{name}({text})"
            if target.bits < 64:
                text = f"__builtin_convertvector({text}, {kind})"
        elif source != kind:
            text = f"__builtin_convertvector({text}, {kind})"
        if is_narrow_float(target) and target != a.dtype:
            return self._rounded_vector(target, text, ATOM, COMMA)
        return text

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
