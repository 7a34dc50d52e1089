"""Conditions of a well-formed program. Checked after lowering, after each primitive and each pass.

    V1  names are strings, and those of loops, blocks and buffers unique, each kind for itself
        (without blocks, names are no handles any more: then it is enough that a loop hides no
        other)
    V2  every buffer that is accessed is declared, with as many indices as axes
    V3  every variable is bound: loops in bindings and predicates, iters inside blocks
    V4  types agree: operands, indices, conditions, stores, reducers; nodes hold what they should
    V5  extents, shapes and alignments are in range
    V6  a block stands in no other block; init and ORDERED or REDUCE iters go together; bindings and
        predicates do not depend on data
    V7  a GPU index is bound once on a path; barriers stand between statements, not in blocks; what
        the threads along an index combine stands in a loop bound to it
    V8  parameters live in global memory

Not here: whether bindings stay inside their domain and accesses inside their buffers. That needs
reasoning (`arith`); the interpreter checks it as it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn, get_args

from minitensor.errors import VerifyError, shown
from minitensor.ir.dtype import BOOL, FLOAT32, INDEX, DType
from minitensor.ir.expr import (
    BITWISE,
    COMPARISONS,
    FUNCTIONS,
    LOGICAL,
    Binary,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Lanes,
    Load,
    Ramp,
    Select,
    Unary,
    Var,
)
from minitensor.ir.facts import Note, fact
from minitensor.ir.printer import Marks, print_expr, print_name
from minitensor.ir.program import Program, nests, print_program, survey_all
from minitensor.ir.stmt import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    For,
    If,
    IterKind,
    LoopKind,
    Prefetch,
    Reduce,
    Reducer,
    Scope,
    Seq,
    Stmt,
    Store,
    Tensorized,
    ThreadReduce,
)
from minitensor.ir.visit import loads

OPERATORS = frozenset(get_args(BinaryOp))
PYTHON_TYPES = {"float": float, "int": int, "uint": int, "index": int, "bool": bool}


@fact
def verify(program: Program) -> None:
    """Raise VerifyError, naming the rule, if the program is malformed.

    That it is well-formed is a fact: it is found once.
    """
    try:
        _Verifier(program).check()
    except (AttributeError, TypeError, ValueError, KeyError) as problem:
        text = f"a node does not hold what it should ({problem})"
        raise VerifyError(f"{shown(program.name)} breaks V4: {text}") from problem


_sound_with: Final = Note[dict[str, Buffer]]()
"""The buffers that a nest accesses, as they were declared where it was found well-formed last. With
the same buffers it is still, if the names in it are unique."""
_value_sound_with: Final = Note[tuple[dict[str, DType], dict[str, Buffer]]]()
"""The variables and buffers with which a value was found well-formed last."""
_is_sound: Final = Note[bool]()
"""True for a buffer that was found well-formed."""


class _Verifier:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.buffers: dict[str, Buffer] = {}
        self.loops: set[str] = set()
        self.blocks: set[str] = set()
        self.block: Block | None = None
        self.met: dict[str, Buffer] = {}
        self.lasting = True

    def fail(self, rule: str, message: str) -> NoReturn:
        marks = Marks(blocks={self.block.name: message}) if self.block is not None else Marks()
        raise VerifyError(
            f"{print_name(self.program.name)} breaks {rule}: {message}",
            lambda: self.picture(marks),
        )

    def picture(self, marks: Marks) -> str:
        """The program as text, if that much of it is right."""
        try:
            return print_program(self.program, marks)
        except (AttributeError, TypeError, ValueError, KeyError, VerifyError) as problem:
            return f"(it cannot be printed: {problem})"

    def string(self, name: object) -> None:
        """A name is one."""
        if not isinstance(name, str):
            raise VerifyError(f"{shown(self.program.name)} breaks V1: {shown(name)} is no name")

    def check(self) -> None:
        self.string(self.program.name)
        for buffer in self.program.params:
            if buffer.scope is not Scope.GLOBAL:
                self.fail(
                    "V8", f"parameter {print_name(buffer.name)} is in scope {buffer.scope.value}"
                )
        buffers = self.program.params + self.program.temporaries
        self.buffers = {b.name: b for b in buffers if _is_sound.of(b)}
        if len(self.buffers) < len(buffers):
            self.buffers = {}
            for buffer in buffers:
                self.declare(buffer)
        unique: bool | None = None
        for nest in nests(self.program):
            sound = _sound_with.of(nest)
            if sound is not None and sound.items() <= self.buffers.items():
                unique = survey_all(self.program).unique if unique is None else unique
                if unique:
                    continue
            self.met, self.lasting = {}, True
            self.statement(nest, {}, ())
            if self.lasting:
                _sound_with.keep(nest, self.met)
        if self.program.constants:
            for name in sorted(self.program.constants - {b.name for b in self.program.inputs}):
                self.fail("V8", f"constant {print_name(name)} is no input")

    def declare(self, buffer: Buffer) -> None:
        self.string(buffer.name)
        if buffer.name in self.buffers:
            self.fail("V1", f"two buffers are called {print_name(buffer.name)}")
        if any(type(n) is not int or n < 0 for n in buffer.shape):
            self.fail("V5", f"buffer {print_name(buffer.name)} has shape {buffer.shape}")
        for axis, factor, offset in buffer.alignment:
            if not (0 <= axis < len(buffer.shape) and factor > 0 and 0 <= offset < factor):
                self.fail("V5", f"{print_name(buffer.name)} has alignment {buffer.alignment}")
        self.buffers[buffer.name] = buffer
        _is_sound.keep(buffer, True)

    # ---- statements

    def statement(self, stmt: Stmt, scope: dict[str, DType], path: tuple[For, ...]) -> None:
        match stmt:
            case For():
                self.loop(stmt, scope, path)
            case Seq(stmts):
                for child in stmts:
                    self.statement(child, scope, path)
            case Block():
                self.enter_block(stmt, scope, path)
            case Store(buffer, indices, value):
                self.access(buffer, indices, scope)
                stored = self.value(value, scope)
                held = self.held(buffer, indices)
                if stored.scalar != held.scalar or stored.lanes not in (1, held.lanes):
                    self.fail("V4", f"{stored} is stored in {print_name(buffer)}")
            case Reduce():
                self.reduce(stmt, scope)
            case If(condition, then, otherwise):
                self.condition(condition, scope)
                self.statement(then, scope, path)
                if otherwise is not None:
                    self.statement(otherwise, scope, path)
            case Alloc(buffer, body):
                self.lasting = False
                self.declare(buffer)
                self.statement(body, scope, path)
                del self.buffers[buffer.name]
            case Prefetch(buffer, indices):
                self.access(buffer, indices, scope)
                if any(index.dtype.lanes > 1 for index in indices):
                    self.fail("V4", f"several elements of {print_name(buffer)} are prefetched")
            case Tensorized(_, operands, axes, body):
                for operand, along in zip(operands, axes):
                    self.expr(operand, scope)
                    rank = len(operand.indices)
                    if any(axis is not None and not 0 <= axis < rank for axis in along):
                        self.fail("V2", f"{print_expr(operand)} has no axes {along}")
                self.statement(body, scope, path)
            case Barrier():
                if self.block is not None or not any(loop.kind.is_thread for loop in path):
                    self.fail("V7", "a barrier stands in a block, or outside all thread loops")
            case ThreadReduce(reducer, thread, buffers):
                for buffer in buffers:
                    self.access(buffer, (), scope)
                self.reducer(reducer, buffers, [r.dtype for r in reducer.identity])
                if self.block is not None or all(loop.kind is not thread for loop in path):
                    self.fail(
                        "V7",
                        f"{thread.value} threads combine {print_name(buffers[0])} in a block, or "
                        "outside a loop bound to it",
                    )
            case _:
                self.fail("V4", f"{stmt!r} is not a statement")

    def loop(self, loop: For, scope: dict[str, DType], path: tuple[For, ...]) -> None:
        if loop.var in (self.loops if self.program.blocks else scope):
            self.fail("V1", f"two loops are called {print_name(loop.var)}")
        self.string(loop.var)
        self.loops.add(loop.var)
        self.lasting = self.lasting and self.block is None
        if type(loop.extent) is not int or loop.extent < 0:
            self.fail("V5", f"loop {print_name(loop.var)} has extent {loop.extent!r}")
        unique = loop.kind.is_bound and loop.kind is not LoopKind.VTHREAD
        if unique and any(outer.kind is loop.kind for outer in path):
            self.fail("V7", f"{loop.kind.value} is bound twice around {print_name(loop.var)}")
        self.statement(loop.body, {**scope, loop.var: INDEX}, (*path, loop))

    def enter_block(self, block: Block, scope: dict[str, DType], path: tuple[For, ...]) -> None:
        if self.block is not None:
            self.fail("V6", f"block {print_name(block.name)} stands in another block")
        self.block = block
        if block.name in self.blocks:
            self.fail("V1", "two blocks have this name")
        self.string(block.name)
        self.blocks.add(block.name)
        inner: dict[str, DType] = {}
        for i in block.iters:
            if i.var in inner:
                self.fail("V1", f"two iters are called {print_name(i.var)}")
            if type(i.extent) is not int or i.extent < 0:
                self.fail("V5", f"iter {print_name(i.var)} has extent {i.extent!r}")
            if self.expr(i.binding, scope) != INDEX:
                self.fail("V4", f"iter {print_name(i.var)} is bound to {print_expr(i.binding)}")
            inner[i.var] = INDEX
        self.condition(block.predicate, scope)
        for part in (block.predicate, *(i.binding for i in block.iters)):
            if not isinstance(part, (Var, Const)) and loads(part):
                self.fail("V6", f"{print_expr(part)} depends on data")
        carries = any(i.kind is not IterKind.SPATIAL for i in block.iters)
        if block.init is not None:
            self.statement(block.init, inner, path)
        elif isinstance(block.body, Reduce) and not carries:
            self.fail("V6", "a reduction over nothing has no init")
        self.statement(block.body, inner, path)
        self.block = None

    def reduce(self, stmt: Reduce, scope: dict[str, DType]) -> None:
        for buffer in stmt.buffers:
            self.access(buffer, stmt.indices, scope)
        values = [self.value(value, scope) for value in stmt.values]
        self.reducer(stmt.reducer, stmt.buffers, values)

    def reducer(self, reducer: Reducer, buffers: tuple[str, ...], values: Sequence[DType]) -> None:
        """A reducer combines values into one element of each of the buffers."""
        width = len(reducer.lhs)
        sizes = {len(part) for part in (reducer.rhs, reducer.results, reducer.identity)}
        if sizes | {len(buffers), len(values)} != {width}:
            self.fail(
                "V4", f"reducer {print_name(reducer.name)} does not combine {len(values)} values"
            )
        for buffer, found, identity in zip(buffers, values, reducer.identity):
            if not found == identity.dtype == self.buffers[buffer].dtype:
                self.fail("V4", f"{found} is reduced into {print_name(buffer)}")
        own = {v.name: v.dtype for v in reducer.lhs + reducer.rhs}
        for old, new, identity, result in zip(
            reducer.lhs, reducer.rhs, reducer.identity, reducer.results
        ):
            types = {old.dtype, new.dtype, self.expr(identity, {}), self.expr(result, own)}
            if len(types) > 1:
                self.fail("V4", f"reducer {print_name(reducer.name)} combines {sorted(types)}")

    # ---- expressions

    def access(self, buffer: str, indices: tuple[Expr, ...], scope: dict[str, DType]) -> None:
        declared = self.buffers.get(buffer)
        if declared is None:
            self.fail("V2", f"buffer {print_name(buffer)} is not declared")
        if len(indices) != len(declared.shape):
            self.fail(
                "V2",
                f"{print_name(buffer)} has {len(declared.shape)} axes, "
                f"but is accessed with {len(indices)} indices",
            )
        self.met[buffer] = declared
        for index in indices:
            if self.expr(index, scope).scalar != INDEX:
                self.fail("V4", f"{print_expr(index)} is not an index expression")
        widths = {i.dtype.lanes for i in indices} - {1}
        if len(widths) > 1:
            self.fail("V4", f"the indices of {print_name(buffer)} have {widths} lanes")

    def condition(self, expr: Expr, scope: dict[str, DType]) -> None:
        if self.expr(expr, scope) != BOOL:
            self.fail("V4", f"the condition {print_expr(expr)} is not a bool")

    def value(self, value: Expr, scope: dict[str, DType]) -> DType:
        """The type of a value that is stored, after checking all of it. With the same variables
        and buffers it is well-formed in another value too, as where a block is inlined.
        """
        outside, self.met = self.met, {}
        found = self.expr(value, scope)
        _value_sound_with.keep(value, (scope, self.met))
        self.met = outside | self.met
        return found

    def expr(self, expr: Expr, scope: dict[str, DType]) -> DType:
        """The expression's type, after checking all of it."""
        sound = _value_sound_with.of(expr)
        if sound is not None and sound[0] == scope and sound[1].items() <= self.buffers.items():
            self.met |= sound[1]
            return expr.dtype
        match expr:
            case Var(name, dtype):
                if scope.get(name) != dtype:
                    self.fail("V3", f"variable {print_name(name)} is not bound here")
            case Const(value, dtype):
                if type(value) is not PYTHON_TYPES.get(dtype.kind) or (
                    dtype.is_integer and not dtype.min_value <= value <= dtype.max_value
                ):
                    self.fail("V4", f"{value!r} is no constant of type {dtype}")
            case Unary(op, a):
                wanted = self.expr(a, scope)
                if op not in ("-", "not"):
                    self.fail("V4", f"{op} is not an operation")
                if (op == "not") != (wanted.kind == "bool"):
                    self.fail("V4", f"{op} of {wanted}")
            case Binary(op, a, b):
                self.binary(op, self.expr(a, scope), self.expr(b, scope), expr)
            case Select(condition, a, b):
                if self.expr(condition, scope).scalar != BOOL:
                    self.fail("V4", f"the condition {print_expr(condition)} is not a bool")
                if self.expr(a, scope) != self.expr(b, scope):
                    self.fail("V4", f"the two sides of {print_expr(expr)} differ in type")
                if condition.dtype.lanes not in (1, a.dtype.lanes):
                    self.fail("V4", f"{print_expr(expr)} selects {a.dtype} by {condition.dtype}")
                if expr.lazy and condition.dtype.lanes > 1:
                    self.fail("V4", f"{print_expr(expr)} is lazy in each lane: use Lanes")
            case Cast(dtype, a):
                if self.expr(a, scope).lanes != dtype.lanes:
                    self.fail("V4", f"{print_expr(expr)} converts {a.dtype}")
            case Broadcast(a, lanes):
                self.lanes(lanes, self.expr(a, scope))
            case Load(buffer, indices, dtype):
                self.access(buffer, indices, scope)
                if dtype != self.held(buffer, indices):
                    self.fail("V4", f"{print_expr(expr)} is loaded as {dtype}")
            case Call():
                self.call(expr, [self.expr(a, scope) for a in expr.args])
            case Ramp(base, stride, lanes):
                if not self.expr(base, scope).is_integer or type(stride) is not int:
                    self.fail("V4", f"{print_expr(expr)} does not count integers")
                self.lanes(lanes, base.dtype)
            case Lanes(var, lanes, a):
                self.lanes(lanes, self.expr(a, {**scope, var: INDEX}))
            case _:
                self.fail("V4", f"{expr!r} is not an expression")
        return expr.dtype

    def call(self, call: Call, args: list[DType]) -> None:
        function, dtype = call.function, call.dtype
        if len(args) != FUNCTIONS.get(function):
            self.fail("V4", f"{function} does not take {len(args)} arguments")
        if function == "reinterpret":
            (found,) = args
            numbers = {found.kind, dtype.kind} <= {"float", "int", "uint"}
            same = (found.bits, found.lanes) == (dtype.bits, dtype.lanes) and dtype.bits >= 32
            if not (numbers and same):
                self.fail("V4", f"reinterpret of {found} as {dtype}")
            return
        if any(found != dtype for found in args):
            self.fail("V4", f"the arguments of {print_expr(call)} are not {dtype}")
        fits = {
            "in_bounds": dtype.scalar == INDEX,
            "abs": dtype.kind != "bool",
            "popcount": dtype.kind in ("int", "uint"),
            "ldexp": dtype.scalar == FLOAT32,
            "sin_far": dtype.scalar == FLOAT32,
            "cos_far": dtype.scalar == FLOAT32,
        }
        if not fits.get(function, dtype.is_float):
            self.fail("V4", f"{function} of {dtype}")

    def held(self, buffer: str, indices: tuple[Expr, ...]) -> DType:
        """The type of what an access reads or writes: a vector if an index is one."""
        dtype = self.buffers[buffer].dtype
        lanes = max((i.dtype.lanes for i in indices), default=1)
        return dtype.with_lanes(lanes) if lanes > 1 else dtype

    def lanes(self, lanes: int, of: DType) -> None:
        """A vector is made of a positive number of scalars."""
        if type(lanes) is not int or lanes < 1:
            self.fail("V5", f"a vector has {lanes!r} lanes")
        if of.lanes != 1:
            self.fail("V4", f"a vector of {of}")

    def binary(self, op: str, a: DType, b: DType, expr: Expr) -> None:
        if a != b:
            self.fail("V4", f"the operands of {print_expr(expr)} are {a} and {b}")
        if op not in OPERATORS:
            self.fail("V4", f"{op} is not an operation")
        if op == "/" and not a.is_float:
            self.fail("V4", f"/ of {a}: use // for integers")
        logical = a.kind == "bool"
        integer_only = op in ("//", "%")
        if (op in LOGICAL) != logical and not (logical and op in COMPARISONS):
            self.fail("V4", f"{op} of {a}")
        if integer_only and not a.is_integer:
            self.fail("V4", f"{op} of {a}: floor division is for integers")
        if op in BITWISE and a.kind not in ("int", "uint"):
            self.fail("V4", f"{op} of {a}: it is for integers that are no indices")
