"""Expressions of the C family: scalars, vectors, and conditions for each lane.

Narrow floats (float16, bfloat16) are computed in float and rounded after each operation, integers
narrower than int after each operation too, so that a value never carries more than its type holds.
A vector of conditions is held as integers as wide as what it selects from: all ones or all zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from minitensor import arith, ir
from minitensor.codegen.emit.guarded import KEEP_SCALAR, reads_under_condition
from minitensor.codegen.emit.helpers import (
    Helpers,
    compute_type,
    element_type,
    int_twin,
    vector_name,
)
from minitensor.codegen.emit.mathematics import define
from minitensor.codegen.emit.names import Names
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
from minitensor.codegen.emit.storage import computed, is_narrow_float, lane_step, truncation
from minitensor.codegen.remarks import missed_gather
from minitensor.errors import LoweringError


class Expressions:
    """Writes expressions; knows the buffers and the ranges of variables in scope."""

    def __init__(self, program: ir.Program, helpers: Helpers) -> None:
        self.program = program
        self.parameters: Mapping[str, ir.Buffer] = {b.name: b for b in program.params}
        self.helpers = helpers
        self.names = Names()
        self.buffers: dict[str, ir.Buffer] = dict(self.parameters)
        self.ranges: dict[str, arith.Interval] = {}
        self.checks: list[str] = []
        """What each check made at run time says when it fails."""
        self.has_masks = False
        """Whether the machine can leave out lanes of a load (see `guarded`)."""
        self.plain_constants = False
        """Whether a vector of equal constants, as an operand, is written as the one constant."""

    def stored(self, value: ir.Expr) -> str:
        """A value as memory holds it."""
        dtype, lanes = value.dtype.scalar, value.dtype.lanes
        if lanes > 1:
            if dtype == ir.BOOL:
                vector = self.helpers.vector(ir.DType.of("int8"), lanes)
                wanted = self.helpers.vector(ir.BOOL, lanes)
                return f"({wanted})({self.mask(value, 8)} & ({vector}){{0}} + 1)"
            if is_narrow_float(dtype):
                return self._helper(f"narrow_{vector_name(dtype, lanes)}", value)
            return self.expr(value)
        if dtype == ir.DType.of("bfloat16"):
            return self._helper("to_bfloat16", value)
        if dtype == ir.DType.of("float16"):
            return f"(_Float16){self.expr(value, UNARY)}"
        return self.expr(value)

    def storage_type(self, dtype: ir.DType) -> str:
        """The type of an element in memory."""
        if dtype.lanes > 1:
            return self.helpers.vector(dtype.scalar, dtype.lanes)
        return element_type(dtype)

    # ---- addresses

    def element(self, name: str, indices: tuple[ir.Expr, ...]) -> str:
        """An element as an lvalue; for a vector access, the first of them."""
        buffer = self.buffers[name]
        text = self.names.buffer(name)
        if not buffer.shape and name not in self.parameters:
            return text
        flat = self.flat_index(buffer, indices)
        return f"{text}[{flat}]"

    def step(self, buffer: ir.Buffer, indices: tuple[ir.Expr, ...]) -> int:
        """The distance in elements between neighbouring lanes of a vector access."""
        distance = lane_step(buffer, indices)
        if distance != 1:
            missed_gather(buffer.name, distance)
        return distance

    def flat_index(self, buffer: ir.Buffer, indices: tuple[ir.Expr, ...]) -> str:
        """The position of an element, counted in elements."""
        total = arith.linear_of(ir.Const(0))
        for index, stride in zip(indices, ir.strides_of(buffer)):
            scalar = index.base if isinstance(index, ir.Ramp) else index
            total = total.plus(arith.linear_of(scalar), stride)
        return self.expr(total.expr())

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
                text = f"{self.expr(condition, OR)} ? {self.expr(a, OR)} : {self.expr(b, TERNARY)}"
                return wrap(text, TERNARY, outer)
            case ir.Cast():
                return self._cast(expr, outer)
            case ir.Load():
                return self._load(expr)
            case ir.Call():
                return self._call(expr)
        raise LoweringError(f"{ir.print_expr(expr)} cannot be emitted")

    def _constant(self, const: ir.Const, outer: int) -> str:
        dtype, value = const.dtype, const.value
        if dtype.kind == "bool":
            return "1" if value else "0"
        text = self.helpers.number(value, dtype)
        return f"({text})" if text.startswith("-") and outer > SUM else text

    def _binary(self, expr: ir.Binary, outer: int) -> str:
        op, a, b = expr.op, expr.a, expr.b
        if op in ("//", "%"):
            return self._division(expr, outer)
        if op in ("min", "max"):
            kind = compute_type(a.dtype)
            self.helpers.need(f"{op}_{kind}")
            return f"{op}_{kind}({self.expr(a)}, {self.expr(b)})"
        mine = PRECEDENCE[op]
        symbol = SYMBOL.get(op, op)
        if op == "+" and isinstance(b, ir.Const) and b.value < 0 and b.dtype.kind != "uint":
            symbol, b = "-", ir.Const(-b.value, b.dtype)
        if op == "or":  # compilers ask for parentheses around && inside ||
            left, right = (
                OR if isinstance(e, ir.Binary) and e.op == "or" else EQUAL for e in (a, b)
            )
        else:
            left, right = mine, mine + 1
        text = f"{self.expr(a, left)} {symbol} {self.expr(b, right)}"
        if op in ir.COMPARISONS or op in SYMBOL:
            return wrap(text, mine, outer)
        return self._rounded(expr.dtype, text, mine, outer)

    def _rounded(self, dtype: ir.DType, text: str, mine: int, outer: int) -> str:
        """The result of an operation brought back to its type, where C computed in a wider one."""
        if is_narrow_float(dtype):
            self.helpers.need(f"rounded_{dtype}")
            return f"rounded_{dtype}({text})"
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
        name = f"{'floordiv' if expr.op == '//' else 'floormod'}_{compute_type(dtype)}"
        self.helpers.need(name)
        text = f"{name}({self.expr(expr.a)}, {self.expr(divisor)})"
        return self._rounded(dtype, text, ATOM, outer)

    def _shifted(self, expr: ir.Binary, power: int) -> tuple[str, int]:
        """Floor division by 2^power, or its remainder, on the bits; with the precedence."""
        operand = self.expr(expr.a, PRODUCT)  # compilers ask for parentheses around a sum
        if expr.op == "//":
            return f"{operand} >> {power}", SHIFT
        return f"{operand} & {self.helpers.number((1 << power) - 1, expr.dtype.scalar)}", BITS

    def _cast(self, expr: ir.Cast, outer: int) -> str:
        source, target = expr.a.dtype, expr.dtype
        if target == ir.BOOL:
            return wrap(f"{self.expr(expr.a, EQUAL)} != 0", EQUAL, outer)
        if target == "float16" and source == "float64":  # in one step, not through float
            return wrap(f"(float)(_Float16){self.expr(expr.a, UNARY)}", UNARY, outer)
        if is_narrow_float(target):
            self.helpers.need(f"rounded_{target}")
            return f"rounded_{target}({self.expr(expr.a)})"
        if compute_type(source) == compute_type(target):
            return self.expr(expr.a, outer)
        if source.is_float and not target.is_float:
            name = truncation(str(computed(source)), target)
            whole = self._helper(name, expr.a)
            if target.bits == 64:
                return whole
            return wrap(f"({compute_type(target)}){whole}", UNARY, outer)
        return wrap(f"({compute_type(target)}){self.expr(expr.a, UNARY)}", UNARY, outer)

    def _load(self, load: ir.Load) -> str:
        text = self.element(load.buffer, load.indices)
        if load.dtype == ir.DType.of("bfloat16"):
            self.helpers.need("from_bfloat16")
            return f"from_bfloat16({text})"
        if load.dtype == ir.DType.of("float16"):
            return f"(float){text}"
        return text

    def _call(self, call: ir.Call) -> str:
        if call.function == "in_bounds":
            return self._index_check(call)
        dtype = call.dtype
        if call.function == "reinterpret":
            source, target = compute_type(call.args[0].dtype), compute_type(dtype)
            return self._helper(f"reinterpret_{source}_as_{target}", *call.args)
        name = self._defined(call.function, dtype) or self.helpers.function(call.function, dtype)
        text = f"{name}({', '.join(self.expr(a) for a in call.args)})"
        return self._rounded(dtype, text, ATOM, COMMA)

    def _defined(self, function: str, dtype: ir.DType) -> str | None:
        """The name of a function that is defined in the IR's terms; asks for its text."""

        def writer() -> Expressions:
            fresh = Expressions(self.program, self.helpers)
            fresh.plain_constants = True
            return fresh

        return define(function, computed(dtype.scalar).with_lanes(dtype.lanes), writer)

    def _index_check(self, call: ir.Call) -> str:
        index, extent = call.args
        assert isinstance(extent, ir.Const)
        self.checks.append(f"the index {ir.print_expr(index)} is outside [0, {extent.value})")
        self.helpers.need("check_index")
        number = len(self.checks)
        return f"check_index({self.expr(index)}, {extent.value}, &status, {number})"

    def _helper(self, name: str, *args: ir.Expr) -> str:
        """A call of a helper function."""
        self.helpers.need(name)
        return f"{name}({', '.join(self.expr(a) for a in args)})"

    # ---- vectors

    def _vector_expr(self, expr: ir.Expr, outer: int) -> str:
        """A vector, of the type in which its elements are computed."""
        dtype, lanes = expr.dtype.scalar, expr.dtype.lanes
        if dtype == ir.BOOL:
            raise LoweringError(f"{ir.print_expr(expr)} is a condition, not a value")
        kind = self.helpers.vector(computed(dtype), lanes)
        match expr:
            case ir.Var(name):
                return self.names.variable(name)
            case ir.Broadcast(ir.Const() as a) if self.plain_constants and outer > AND:
                return self._constant(a, outer)
            case ir.Broadcast(a):
                self.helpers.need(f"splat_{kind}")
                return f"splat_{kind}({self.expr(a)})"
            case ir.Ramp(base, stride):
                self.helpers.need(f"ramp_{kind}")
                return f"ramp_{kind}({self.expr(base)}, {stride})"
            case ir.Load():
                return self._vector_load(expr)
            case ir.Lanes(var, count, a):
                return self._lanes(kind, var, count, a)
            case ir.Binary(op, a, b) if op in "+-*/":
                mine = PRECEDENCE[op]
                text = f"{self.expr(a, mine)} {op} {self.expr(b, mine + 1)}"
                return self._rounded_vector(expr.dtype, text, mine, outer)
            case ir.Binary("//" | "%", _, b) if (power := power_of_two(b)) is not None:
                text, mine = self._shifted(expr, power)
                return wrap(text, mine, outer)
            case ir.Binary(op, a, b):
                name = {"//": "floordiv", "%": "floormod"}.get(op, op)
                text = self._helper(f"{name}_{kind}", a, b)
                return self._rounded_vector(expr.dtype, text, ATOM, outer)
            case ir.Unary(_, a):
                return wrap(f"-{self.expr(a, UNARY)}", UNARY, outer)
            case ir.Select(condition, a, b) if condition.dtype.lanes == 1:
                text = f"{self.expr(condition, OR)} ? {self.expr(a, OR)} : {self.expr(b, TERNARY)}"
                return wrap(text, TERNARY, outer)
            case ir.Select(condition, a, b):
                self.helpers.need(f"select_{kind}")
                test = self.mask(condition, computed(dtype).bits)
                return f"select_{kind}({test}, {self.expr(a)}, {self.expr(b)})"
            case ir.Cast(_, a):
                return self._vector_cast(a, dtype, lanes, kind)
            case ir.Call("reinterpret", (a,)):
                return wrap(f"({kind}){self.expr(a, UNARY)}", UNARY, outer)
            case ir.Call(function, args):
                self._defined(function, expr.dtype)
                text = self._helper(f"{function}_{kind}", *args)
                return self._rounded_vector(expr.dtype, text, ATOM, outer)
        raise LoweringError(f"{ir.print_expr(expr)} cannot be emitted")

    def _rounded_vector(self, dtype: ir.DType, text: str, mine: int, outer: int) -> str:
        if is_narrow_float(dtype):
            name = f"rounded_{vector_name(dtype.scalar, dtype.lanes)}"
            self.helpers.need(name)
            return f"{name}({text})"
        return wrap(text, mine, outer)

    def _vector_load(self, load: ir.Load) -> str:
        dtype, lanes = load.dtype.scalar, load.dtype.lanes
        target = self.element(load.buffer, load.indices)
        kind = self.helpers.vector(dtype, lanes)
        buffer = self.buffers[load.buffer]
        if buffer.dtype.lanes == 1:
            step = self.step(buffer, load.indices)
            name = f"load_{kind}" if step == 1 else f"gather_{kind}"
            self.helpers.need(name)
            target = f"{name}(&{target}{'' if step == 1 else f', {step}'})"
        if is_narrow_float(dtype):
            name = f"widen_{vector_name(dtype, lanes)}"
            self.helpers.need(name)
            return f"{name}({target})"
        return target

    def _lanes(self, kind: str, var: str, count: int, a: ir.Expr) -> str:
        """Collect a vector lane by lane."""
        with self.looping(var, count) as name:
            each = f"r[{name}] = {self.expr(a)};"
        if self.has_masks and reads_under_condition(a):
            each = f"{{ {KEEP_SCALAR} {each} }}"
        return f"({{ {kind} r; for (int64_t {name} = 0; {name} < {count}; ++{name}) {each} r; }})"

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

    def _vector_cast(self, a: ir.Expr, target: ir.DType, lanes: int, kind: str) -> str:
        if a.dtype.scalar == ir.BOOL:
            twin = int_twin(computed(target))
            ones = self.helpers.vector(twin, lanes)
            text = f"({self.mask(a, twin.bits)} & ({ones}){{0}} + 1)"
            if ones != kind:
                text = f"__builtin_convertvector({text}, {kind})"
            return text
        source = self.helpers.vector(computed(a.dtype.scalar), lanes)
        text = self.expr(a)
        if target == "float16" and a.dtype.scalar == "float64":  # in one step, not through float
            half = self.helpers.vector(target, lanes)
            self.helpers.need(f"widen_{half}")
            return f"widen_{half}(__builtin_convertvector({text}, {half}))"
        if source != kind and a.dtype.is_float and not target.is_float:
            name = truncation(source, target)
            self.helpers.need(name)
            text = f"{name}({text})"
            if target.bits < 64:
                text = f"__builtin_convertvector({text}, {kind})"
        elif source != kind:
            text = f"__builtin_convertvector({text}, {kind})"
        if is_narrow_float(target) and target != a.dtype.scalar:
            return self._rounded_vector(target.with_lanes(lanes), text, ATOM, COMMA)
        return text

    def mask(self, expr: ir.Expr, bits: int) -> str:
        """A condition for each lane, as integers of `bits` bits: all ones or all zeros."""
        lanes = expr.dtype.lanes
        kind = self.helpers.vector(ir.DType.of(f"int{bits}"), lanes)
        match expr:
            case ir.Binary("and" | "or" as op, a, b):
                symbol = "&" if op == "and" else "|"
                return f"({self.mask(a, bits)} {symbol} {self.mask(b, bits)})"
            case ir.Unary("not", a):
                return f"(~{self.mask(a, bits)})"
            case ir.Broadcast(a):
                self.helpers.need(f"splat_{kind}")
                return f"splat_{kind}(-({self.expr(a)}))"
            case ir.Select(condition, a, b) if condition.dtype.lanes == 1:
                yes, no = self.mask(a, bits), self.mask(b, bits)
                return f"({self.expr(condition, OR)} ? {yes} : {no})"
            case ir.Select(condition, a, b):
                test = self.mask(condition, bits)
                return f"(({test} & {self.mask(a, bits)}) | (~{test} & {self.mask(b, bits)}))"
            case ir.Binary(op, a, b) if op in ir.COMPARISONS and a.dtype.scalar != ir.BOOL:
                own = computed(a.dtype.scalar).bits
                text = f"({self.expr(a, LESS)} {op} {self.expr(b, LESS)})"
            case ir.Binary(op, a, b):
                own = 8
                text = f"({self.mask(a, 8)} {MASK_COMPARISON[op]} {self.mask(b, 8)})"
            case ir.Load():
                own = 8
                text = f"({self._vector_load(expr)} != 0)"
            case ir.Lanes(var, count, a):
                own = 8
                byte = self.helpers.vector(ir.DType.of("int8"), lanes)
                text = f"({self._lanes(byte, var, count, a)} != 0)"
            case ir.Cast(_, a) | ir.Call(_, (a,)):
                own = computed(a.dtype.scalar).bits
                text = f"({self.expr(a, EQUAL)} != 0)"
            case _:
                raise LoweringError(f"{ir.print_expr(expr)} cannot be emitted")
        if own == bits:
            return text
        return f"__builtin_convertvector({text}, {kind})"
