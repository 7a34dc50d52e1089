"""Properties of schedules, as tasks ask for them: counts of the interpreter, loops, remarks.

Each is a `Requirement`: what is wanted, how to look for it, and the same as lines of a script.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np

from minitensor import codegen, ir
from minitensor.arith import simplified_linear
from minitensor.runtime import explained
from minitensor.schedule import Schedule

from .tasks import Requirement, small_arrays

_WIDE = codegen.Target("c", num_cores=2, vector_bits=256)
"""The machine that remarks are about: the same wherever an answer is checked."""
_STEPS = 32
"""Iterations of a loop that strides are looked for in."""
_WIDE_TEXT = "mt.Target('c', num_cores=2, vector_bits=256)"


def accesses(
    kind: Literal["loads", "stores"], buffer: str, most: int, least: int = 0
) -> Requirement:
    """So many loads or stores of elements of a buffer in one run, counted by the interpreter."""

    def look(s: Schedule) -> str | None:
        names = [b.name for b in s.program.outputs]
        _, counts = ir.interpret(s.program, small_arrays(s.program), names)
        found = getattr(counts, kind).get(buffer, 0)
        return None if least <= found <= most else f"there are {found:,}"

    wanted = f"at most {most:,}" if least == 0 else f"{least:,} to {most:,}"
    if least == most:
        wanted = f"{most:,}"
    lines = (
        "_, counts = mt.interpret(s, *arrays, counts=True)",
        f"found = counts.{kind}.get({buffer!r}, 0)",
        f"assert {least} <= found <= {most}, f'{{found}} {kind} of {buffer}'",
    )
    return Requirement(f"{kind} of {buffer} are {wanted}", look, lines)


def accesses_after_passes(kind: Literal["loads", "stores"], buffer: str, most: int) -> Requirement:
    """So many loads or stores in the program that the passes make for a machine of 256-bit vectors:
    without those that stay in registers.
    """

    def look(s: Schedule) -> str | None:
        after = codegen.lowered(s.program, _WIDE)
        names = [b.name for b in s.program.outputs]
        _, counts = ir.interpret(after, small_arrays(s.program), names)
        found = getattr(counts, kind).get(buffer, 0)
        return None if found <= most else f"there are {found:,}"

    lines = (
        f"after = mt.codegen.lowered(s.program, {_WIDE_TEXT})",
        "_, counts = mt.interpret(after, *arrays, counts=True)",
        f"found = counts.{kind}.get({buffer!r}, 0)",
        f"assert found <= {most}, f'{{found}} {kind} of {buffer}'",
    )
    what = f"{kind} of {buffer} that are left after all passes are at most {most:,}"
    return Requirement(what, look, lines)


def full_vectors(buffer: str, lanes: int, least: int) -> Requirement:
    """So many elements of a buffer stored by vectors of so many lanes, on a machine of 256-bit
    vectors; or no stores to it at all.
    """

    def look(s: Schedule) -> str | None:
        if buffer not in ir.stored_buffers(s.program.body):
            return None
        found = stored_by_lanes(codegen.lowered(s.program, _WIDE), buffer).get(lanes, 0)
        return None if found >= least else f"they store {found:,}"

    lines = (
        f"from {__name__} import stored_by_lanes",
        f"after = mt.codegen.lowered(s.program, {_WIDE_TEXT})",
        f"found = stored_by_lanes(after, {buffer!r})",
        f"assert found.get({lanes}, 0) >= {least}, found",
    )
    what = f"vectors of {lanes} lanes store at least {least:,} elements of {buffer}"
    return Requirement(what, look, lines)


def stored_by_lanes(program: ir.Program, buffer: str) -> dict[int, int]:
    """The elements of a buffer that a program after all passes stores, by the lanes of the vectors
    that hold them.
    """
    found: dict[int, int] = {}

    def visit(stmt: ir.Node, times: int) -> None:
        if isinstance(stmt, ir.Store) and stmt.buffer == buffer:
            lanes = stmt.value.dtype.lanes
            found[lanes] = found.get(lanes, 0) + times * lanes
        inside = times * stmt.extent if isinstance(stmt, ir.For) else times
        for child in ir.children(stmt):
            if isinstance(child, ir.Stmt):
                visit(child, inside)

    visit(program.body, 1)
    return found


def loop_kind(block: str, kind: str, innermost: bool = False) -> Requirement:
    """A loop of a kind ("parallel", "vectorize", "unroll") around a block; or the innermost one."""

    def look(s: Schedule) -> str | None:
        loops = ir.paths(s.program).get(block)
        if loops is None:
            return f"there is no block {block}"
        kinds = [loop.kind.value for loop in loops]
        found = kinds[-1:] if innermost else kinds
        return None if kind in found else f"its loops are {', '.join(kinds) or 'none'}"

    which = "the innermost loop" if innermost else "a loop"
    kinds = f"[loop.kind.value for loop in ir.paths(s.program)[{block!r}]]"
    lines = (
        f"kinds = {kinds}{'[-1:]' if innermost else ''}",
        f"assert {kind!r} in kinds, kinds",
    )
    return Requirement(f"{which} around {block} is of kind {kind}", look, lines)


def gone(block: str) -> Requirement:
    """A block that was inlined: it is no longer there."""

    def look(s: Schedule) -> str | None:
        return None if block not in s.get_blocks() else "it is still there"

    return Requirement(
        f"{block} has no loops of its own", look, (f"assert {block!r} not in s.get_blocks()",)
    )


def inside(block: str, other: str) -> Requirement:
    """A block that is computed under a loop of another one."""

    def look(s: Schedule) -> str | None:
        places = ir.paths(s.program)
        if block not in places or other not in places:
            return f"there is no block {block if block not in places else other}"
        shared = {loop.var for loop in places[block]} & {loop.var for loop in places[other]}
        return None if shared else "they share no loop"

    loops = "{{loop.var for loop in ir.paths(s.program)[{0!r}]}}"
    lines = (f"assert {loops.format(block)} & {loops.format(other)}",)
    return Requirement(f"{block} is computed under a loop of {other}", look, lines)


def held(most: int) -> Requirement:
    """Temporaries that take at most so many bytes at a time, as code generation allocates them."""

    def look(s: Schedule) -> str | None:
        found = held_by(s.program)
        return None if found <= most else f"they take {found:,}"

    lines = (
        "target = mt.Target('c', num_cores=2, vector_bits=256)",
        "body = mt.codegen.lowered(s.program, target, mt.codegen.PASSES[:3]).body",
        "found = sum(n.buffer.nbytes for n in ir.walk(body) if isinstance(n, ir.Alloc))",
        f"assert found <= {most}, f'{{found}} bytes'",
    )
    return Requirement(f"temporaries take at most {most:,} bytes at a time", look, lines)


def held_by(program: ir.Program) -> int:
    """The bytes of all temporaries, each shrunk to what an iteration of its loop touches."""
    body = codegen.lowered(program, _WIDE, codegen.PASSES[:3]).body  # up to shrink_storage
    return sum(n.buffer.nbytes for n in ir.walk(body) if isinstance(n, ir.Alloc))


def no_remark(kind: str) -> Requirement:
    """Code without a remark of a kind of docs/explain.md, for a machine of 256-bit vectors."""

    def look(s: Schedule) -> str | None:
        found = [r for r in explained(s.program, _WIDE, None).remarks if r.kind == kind]
        return f"there is one: {found[0].text}" if found else None

    lines = (
        "from minitensor.runtime import explained",
        f"remarks = explained(s.program, {_WIDE_TEXT}, None).remarks",
        f"assert not [r for r in remarks if r.kind == {kind!r}], remarks",
    )
    return Requirement(f"code generation has no remark {kind!r}", look, lines)


def that(what: str, test: Callable[[Schedule], bool], *lines: str) -> Requirement:
    """Any property: a sentence, a test, and lines that assert it of `s`."""
    return Requirement(what, lambda s: None if test(s) else "it is not so", lines)


def near(got: object, want: float, relative: float = 1e-6) -> bool:
    """Test for a finite number, of any numeric type, that differs from `want` by rounding only."""
    if isinstance(got, np.ndarray) and got.size == 1:
        got = got.reshape(-1)[0]
    if isinstance(got, (bool, np.bool_)) or not isinstance(got, (int, float, np.number)):
        return False
    try:
        distance = abs(float(got) - want)
    except (OverflowError, TypeError, ValueError):
        return False
    return bool(distance <= relative * max(1.0, abs(want)))


def numbers_of(got: object, count: int) -> list[float] | None:
    """The numbers of a list, tuple or array of so many; None for anything else, and for NaN."""
    if isinstance(got, np.ndarray):
        got = got.tolist()
    if not isinstance(got, (list, tuple)) or len(got) != count:
        return None
    if not all(isinstance(v, (int, float, np.integer, np.floating)) for v in got):
        return None
    try:
        found = [float(v) for v in got]
    except OverflowError:
        return None
    return found if all(v == v for v in found) else None


def visited(program: ir.Program, buffer: str) -> list[tuple[int, ...]]:
    """The indices of a buffer that are stored to, in the order of the stores; an init is none.

    Parallel iterations and lanes are taken one after the other.
    """
    return list(_stores(program.body, buffer, {}))


def _stores(stmt: ir.Stmt, buffer: str, values: dict[str, int]) -> Iterator[tuple[int, ...]]:
    if isinstance(stmt, ir.For):
        for number in range(stmt.extent):
            yield from _stores(stmt.body, buffer, {**values, stmt.var: number})
    elif isinstance(stmt, ir.Block):
        written = [
            s
            for s in ir.stmts_of(stmt.body)
            if (isinstance(s, ir.Store) and s.buffer == buffer)
            or (isinstance(s, ir.Reduce) and buffer in s.buffers)
        ]
        if written and ir.evaluate(stmt.predicate, values):
            bound = {i.var: int(ir.evaluate(i.binding, values)) for i in stmt.iters}
            for store in written:
                yield tuple(int(ir.evaluate(index, bound)) for index in store.indices)
    elif isinstance(stmt, ir.Seq):
        for child in stmt.stmts:
            yield from _stores(child, buffer, values)


def order(
    buffer: str, wanted: Sequence[tuple[int, ...]], what: str, lines: Sequence[str]
) -> Requirement:
    """Stores to a buffer in an order; `lines` are Python that assign it to `want`."""

    def look(s: Schedule) -> str | None:
        found = visited(s.program, buffer)
        at = next((n for n, (a, b) in enumerate(zip(found, wanted)) if a != b), None)
        if at is not None:
            there, right = f"{buffer}{list(found[at])}", f"{buffer}{list(wanted[at])}"
            return f"store number {at + 1} is to {there}, and not to {right}"
        return None if len(found) == len(wanted) else f"there are {len(found)} stores"

    script = (
        f"from {__name__} import visited",
        *lines,
        f"found = visited(s.program, {buffer!r})",
        "assert found == want, list(zip(found, want))",
    )
    return Requirement(what, look, script)


def guards(most: int) -> Requirement:
    """So many conditions that blocks are guarded by, in the whole program."""

    def look(s: Schedule) -> str | None:
        found = sum(len(ir.conjuncts(b.predicate)) for b in s.program.blocks.values())
        return None if found <= most else f"there are {found}"

    wanted = f"at most {most}" if most else "0"
    lines = (
        "found = sum(len(ir.conjuncts(b.predicate)) for b in s.program.blocks.values())",
        f"assert found <= {most}, found",
    )
    return Requirement(f"the conditions of guards are {wanted}", look, lines)


def loads_in_code(most: int) -> Requirement:
    """So many elements that the generated code loads, other than from registers, in one run."""

    def look(s: Schedule) -> str | None:
        code = codegen.lowered(s.program, _WIDE)
        names = [b.name for b in s.program.outputs]
        _, counts = ir.interpret(code, small_arrays(s.program), names)
        found = sum(n for scope, n in counts.scope_loads.items() if scope != "register")
        return None if found <= most else f"it loads {found:,}"

    lines = (
        f"code = mt.codegen.lowered(s.program, {_WIDE_TEXT})",
        "_, counts = ir.interpret(code, arrays, [b.name for b in s.program.outputs])",
        "found = sum(n for scope, n in counts.scope_loads.items() if scope != 'register')",
        f"assert found <= {most}, found",
    )
    return Requirement(f"the code loads at most {most:,} elements from memory", look, lines)


def innermost_strides(block: str, most: int) -> Requirement:
    """Strides of all accesses in the innermost loop around a block, in elements."""

    def look(s: Schedule) -> str | None:
        if block not in s.get_blocks():
            return f"there is no block {block}"
        found = strides_in(s.program, block)
        far = [f"{ir.print_name(name)} by {n}" for name, n in found.items() if not 0 <= n <= most]
        return f"an iteration moves {', '.join(far)}" if far else None

    lines = (
        f"from {__name__} import strides_in",
        f"found = strides_in(s.program, {block!r})",
        f"assert all(0 <= n <= {most} for n in found.values()), found",
    )
    return Requirement(f"strides of the innermost loop around {block} are 0 to {most}", look, lines)


def strides_in(program: ir.Program, block: str) -> dict[str, int]:
    """Of each buffer that a block accesses: the elements from one iteration of the innermost loop
    to the next, the farthest of several. Loops of one iteration are none.
    """
    loops = [loop for loop in ir.paths(program)[block] if loop.extent > 1]
    node = program.blocks[block]
    zero = {loop.var: ir.Const(0, ir.INDEX) for loop in ir.paths(program)[block]}
    bound = {i.var: i.binding for i in node.iters}
    found: dict[str, int] = {}
    for name, indices in _accesses(node.body):
        steps = ir.strides_of(program.buffers[name])
        places = []
        for at in range(min(_STEPS, loops[-1].extent) if loops else 1):
            values = {**zero, loops[-1].var: ir.Const(at, ir.INDEX)} if loops else zero
            index = [ir.substitute(ir.substitute(i, bound), values) for i in indices]
            places.append(sum(simplified_linear(i).constant * n for i, n in zip(index, steps)))
        moves = [b - a for a, b in itertools.pairwise(places)]
        found[name] = max([*moves, found.get(name, 0)], key=abs)
    return found


def _accesses(body: ir.Stmt) -> list[tuple[str, tuple[ir.Expr, ...]]]:
    """The buffers and indices of all accesses in the body of a block."""
    found = []
    for node in ir.walk(body):
        if isinstance(node, (ir.Load, ir.Store)):
            found.append((node.buffer, node.indices))
        elif isinstance(node, ir.Reduce):
            found += [(name, node.indices) for name in node.buffers]
    return found


def temporaries(most: int) -> Requirement:
    """So many elements that all temporaries in memory have together in the generated code, those of
    one thread.
    """

    def look(s: Schedule) -> str | None:
        sizes = temporaries_in(s.program)
        found = sum(sizes.values())
        text = ", ".join(f"{name} {n:,}" for name, n in sizes.items())
        return None if found <= most else f"there are {found:,} ({text})"

    lines = (
        f"from {__name__} import temporaries_in",
        "sizes = temporaries_in(s.program)",
        f"assert sum(sizes.values()) <= {most}, sizes",
    )
    return Requirement(f"temporaries have at most {most:,} elements in memory", look, lines)


def temporaries_in(program: ir.Program) -> dict[str, int]:
    """The elements of each temporary that the generated code has in memory."""
    found: dict[str, int] = {}
    sizes = {ir.print_name(b.name): b.dtype.bits // 8 for b in program.temporaries}
    for memory in codegen.report_of(program, _WIDE).storage:
        if memory.where != "registers" and memory.buffer in sizes:
            found[memory.buffer] = -(-memory.size // max(1, sizes[memory.buffer]))
    return found
