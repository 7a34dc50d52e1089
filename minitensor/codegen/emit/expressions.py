"""Expressions of the C family: scalars, vectors, and conditions for each lane.

Narrow floats (float16, bfloat16) are computed in float and rounded after each operation, integers
narrower than int after each operation too, so that a value never carries more than its type holds.
A vector of conditions is held as integers as wide as what it selects from: all ones or all zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from minitensor import arith, ir
from minitensor.codegen.emit import products, scalars
from minitensor.codegen.emit.addresses import Addresses
from minitensor.codegen.emit.c_types import (
    compute_type,
    computed,
    element_type,
    is_narrow_float,
    number,
    of_lanes,
    widest,
)
from minitensor.codegen.emit.helpers import Definition, Helpers
from minitensor.codegen.emit.mathematics import defined
from minitensor.codegen.emit.precedence import (
    ATOM,
    BITS,
    COMMA,
    EQUAL,
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

    status = "&status"
    """The place where checks at run time keep the number of one that fails."""

    def __init__(self, helpers: Helpers, params: Sequence[ir.Buffer] = ()) -> None:
        super().__init__(params)
        self.helpers = helpers
        self.dialect = helpers.dialect
        self.ranges: dict[str, arith.Interval] = {}
        self.checks: list[str] = []
        """The message of each check at run time."""
        self.plain_constants = False
        """True if a vector of equal constants, as an operand, is written as the one constant."""
        self.fuses = False
        """True if any product may be fused with a sum (see `products`)."""
        self.updated = ""
        """The buffer that is stored to: products may be fused with a sum with its elements."""
        self.unread: frozenset[str] = frozenset()
        """The buffers that nothing is computed from."""
        self.constant: dict[str, tuple[str, int]] = {}
        """The variables in scope that are stored to once; what all lanes of a vector are."""

    @classmethod
    def of_definitions(cls, helpers: Helpers) -> Expressions:
        """A writer of the functions that are defined in the IR's terms."""
        fresh = cls(helpers)
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
        if dtype in self.dialect.packed:
            return self._call_of(self.dialect.packed[dtype][1])(value)
        if dtype == "float16":
            return f"(_Float16){self.expr(value, UNARY)}"
        return self._whole(value)

    def _whole(self, value: ir.Expr) -> str:
        """A value that is stored as it is."""
        return self.unrounded(value) if self.updated in self.unread else self.expr(value)

    def named(self, value: ir.Expr) -> str:
        """A value as a variable holds it that is used again and does not change."""
        return self.stored(value)

    def storage_type(self, dtype: ir.DType) -> str:
        """The type of an element in memory."""
        return self.dialect.element_type(dtype)

    # ---- expressions

    def expr(self, expr: ir.Expr, outer: int = COMMA) -> str:
        """An expression as an operand of something of precedence `outer`."""
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
            clips = a.dtype.is_float and isinstance(a, ir.Binary) and a.op in ("min", "max")
            helper = scalars.second_bound if clips else scalars.extremum
            return self._call_of(helper, op, compute_type(a.dtype))(a, b)
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
        name = self.helpers.need(self.dialect.product, computed(dtype))
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
            half = self.dialect.halved.format(self.expr(expr.a, UNARY))
            return f"{self._widening(target)}({half})"
        if target == "float64" and compute_type(source) == "float":
            return self._call_of(self.dialect.widened, ir.DType.of("float32"))(expr.a)
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
        if is_narrow_float(load.dtype):
            return f"{self._widening(load.dtype)}({text})"
        return text

    def _widening(self, dtype: ir.DType) -> str:
        """The conversion of a narrow float, as memory holds it, to float."""
        packed = self.dialect.packed.get(dtype)
        if packed is not None:
            return self.helpers.need(packed[0])
        return self.helpers.need(self.dialect.widened, dtype)

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
        name = defined(self.helpers, call.function, dtype)
        name = name or self._library(call.function, call.dtype)
        return f"{name}({', '.join(self.expr(a) for a in call.args)})"

    def _library(self, name: str, dtype: ir.DType) -> str:
        """The name of a function of the C library, on numbers of a type."""
        return scalars.called(self.helpers, name, dtype)

    def _index_check(self, call: ir.Call) -> str:
        index, extent = call.args
        assert isinstance(extent, ir.Const)
        self.checks.append(f"the index {ir.print_expr(index)} is outside [0, {extent.value})")
        name = self.helpers.need(self.dialect.check_index)
        return f"{name}({self.expr(index)}, {extent.value}, {self.status}, {len(self.checks)})"

    def _call_of(self, helper: Callable[..., Definition], *about: object) -> Callable[..., str]:
        """Writes a call of a helper, given the arguments of the call."""
        name = self.helpers.need(helper, *about)
        return lambda *args: f"{name}({', '.join(self.expr(a) for a in args)})"

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
