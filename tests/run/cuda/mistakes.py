"""Kernels with one mistake each, which the checked emulator must report.

    python -m tests.run.cuda.mistakes [--json FILE]

Each barrier of each kernel is deleted, each condition dropped; a store that several threads reach
gets the index of a neighbour (two of them write one element), an access of shared memory that of
the last thread for the first. A mutant is *caught* if the emulator reports a fault in some order of
threads. Some have none: threads exchange their elements on both sides of a barrier, or do more than
they must on what only they see. Then either the *values* are wrong, or the mutant is *equivalent*.
A race or barrier that the interpreter alone reports is *missed*.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from minitensor import ir
from minitensor.codegen import Target, lowered
from minitensor.codegen.emit.cuda import emit_cuda
from minitensor.codegen.emit.emitter import Part
from minitensor.errors import ExecutionError
from minitensor.runtime import ORDERS, find_toolchain, load_emulated
from tests.run.cuda.cooperating import COOPERATING

TARGET = Target("cuda-emulator", 1, 0, "a100")
Change = tuple[str, ir.Node]
"""Another node, and the change in words."""
ENDS = ("caught", "values", "equivalent", "missed")
KINDS = ("barrier", "guard", "writers", "owners")
TOGETHER = 40
"""Kernels of one text."""


@dataclass(frozen=True)
class Mutant:
    """A program with a mistake.

    kind  one of KINDS
    what  was changed
    """

    kernel: str
    kind: str
    what: str
    program: ir.Program


@dataclass(frozen=True)
class Result:
    """The end of a mutant, one of ENDS, and the message."""

    mutant: Mutant
    end: str
    said: str = ""


def mutants_of(name: str, program: ir.Program) -> Iterator[Mutant]:
    """All mutants of a program after all passes."""
    edits = [
        *_at_each(program, _is_barrier, "barrier", lambda node: [("barrier()", ir.NOTHING)]),
        *_at_each(program, _is_guard, "guard", _unguarded),
        *_at_each(program, lambda node: _is_shared_store(program, node), "writers",
                  lambda node: _indices(program, node, lambda var, extent: var // 2)),
        *_at_each(program, lambda node: _is_shared(program, node), "owners",
                  lambda node: _indices(program, node, lambda var, extent: extent - 1 - var)),
    ]  # fmt: skip
    for kind, what, body in edits:
        yield Mutant(name, kind, what, program.replace(body=body))


def _at_each(
    program: ir.Program,
    wanted: Callable[[ir.Node], bool],
    kind: str,
    changes: Callable[[ir.Node], list[Change]],
) -> Iterator[tuple[str, str, ir.Stmt]]:
    """The body with one of the wanted nodes changed, for each of them and each of its changes."""
    total = sum(wanted(node) for node in ir.walk(program.body))
    for number in range(total):
        for way in range(8):
            seen, what = -1, ""

            def one(node: ir.Node, number: int = number, way: int = way) -> ir.Node:
                nonlocal seen, what
                seen += wanted(node)
                if not wanted(node) or seen != number:
                    return node
                options = changes(node)
                if way >= len(options):
                    return node
                what = options[way][0]
                return options[way][1]

            body = ir.rewrite(program.body, one)
            if not what:
                break
            yield kind, f"{number}, {what}", body


def _is_barrier(node: ir.Node) -> bool:
    return isinstance(node, ir.Barrier)


def _is_guard(node: ir.Node) -> bool:
    return isinstance(node, ir.If) and node.otherwise is None


def _unguarded(node: ir.Node) -> list[Change]:
    """An If without each of its conditions."""
    assert isinstance(node, ir.If)
    parts = ir.conjuncts(node.condition)
    found: list[Change] = []
    for part in parts:
        left = [other for other in parts if other is not part]
        dropped = ir.If(ir.conjunction(left), node.then) if left else node.then
        first = ir.print_stmt(node.then).strip().splitlines()[0].strip()
        found.append((f"if {ir.print_expr(part)}: {first}", dropped))
    return found


def _scopes(program: ir.Program) -> dict[str, ir.Scope]:
    found = {b.name: b.scope for b in program.params}
    allocated = (node.buffer for node in ir.stmts_of(program.body) if isinstance(node, ir.Alloc))
    return found | {b.name: b.scope for b in allocated}


def _is_shared_store(program: ir.Program, node: ir.Node) -> bool:
    """Tell whether threads see what a statement stores."""
    seen = (ir.Scope.GLOBAL, ir.Scope.SHARED)
    return isinstance(node, ir.Store) and _scopes(program)[node.buffer] in seen


def _is_shared(program: ir.Program, node: ir.Node) -> bool:
    if not isinstance(node, (ir.Load, ir.Store)):
        return False
    return _scopes(program)[node.buffer] is ir.Scope.SHARED


def _indices(
    program: ir.Program, node: ir.Node, change: Callable[[ir.Expr, int], ir.Expr]
) -> list[Change]:
    """An access with each thread index that it has in its indices changed."""
    assert isinstance(node, (ir.Load, ir.Store))
    found: list[Change] = []
    for loop in ir.loops_of(program.body):
        used = any(loop.var in ir.free_vars(index) for index in node.indices)
        if loop.kind.is_thread and used and loop.extent > 1:
            new = {loop.var: change(ir.Var(loop.var), loop.extent)}
            indices = tuple(ir.substitute(index, new) for index in node.indices)
            before = ", ".join(map(ir.print_expr, node.indices))
            after = ", ".join(map(ir.print_expr, indices))
            what = f"{type(node).__name__} {node.buffer}[{before}] -> [{after}]"
            found.append((what, replace(node, indices=indices)))
    return found


# ---- running


def arrays_of(program: ir.Program) -> list[np.ndarray]:
    """Arrays for the inputs, of values that differ as far as their types allow."""
    rng = np.random.default_rng(0)
    made = []
    for buffer in program.inputs:
        size = int(np.prod(buffer.shape))
        values = rng.permutation(size) % (16 if size > 120 else 120)
        made.append(ir.pack(values.reshape(buffer.shape), buffer.dtype))
    return made


def loaded(programs: list[ir.Program]):  # type: ignore[no-untyped-def]
    """For each program its kernels, one for each order of threads."""
    text = emit_cuda([Part(program, program, TARGET) for program in programs])
    tools = find_toolchain()
    orders = [load_emulated(text, tools, check=True, order=order, seed=1) for order in ORDERS]
    return list(zip(*orders))


def outputs_of(kernels, arrays) -> list[list[np.ndarray]]:  # type: ignore[no-untyped-def]
    """The outputs in each order. Raises ExecutionError for a fault."""
    found = []
    for kernel in kernels:
        got = kernel(*arrays)
        found.append(list(got) if isinstance(got, tuple) else [got])
    return found


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    """Tell whether outputs are equal, bit for bit; any NaN equals any other."""
    return all(np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in zip(a, b))


def check(names: list[str], mutants: list[Mutant]) -> tuple[list[str], list[Result]]:
    """Run kernels and mutants of them: the faults of kernels (there must be none), the results."""
    programs = {name: lowered(COOPERATING[name]().program, TARGET) for name in names}
    expected, alarms = {}, []
    for name, kernels in zip(names, loaded(list(programs.values()))):
        arrays = arrays_of(programs[name])
        try:
            first, *others = outputs_of(kernels, arrays)
            wanted, _ = ir.interpret(programs[name], arrays)
            close = all(
                np.allclose(a, b, rtol=1e-5, atol=1e-5) for a, b in zip(first, wanted)
            )  # exp differs
            if not close or not all(same(first, other) for other in others):
                alarms.append(f"{name}: wrong values")
            expected[name] = first
        except ExecutionError as failure:
            alarms.append(str(failure))
    results = []
    for start in range(0, len(mutants), TOGETHER):
        some = mutants[start : start + TOGETHER]
        for mutant, kernels in zip(some, loaded([m.program for m in some])):
            results.append(_result(mutant, kernels, expected.get(mutant.kernel, [])))
    return alarms, results


def _result(mutant: Mutant, kernels, expected: list[np.ndarray]) -> Result:  # type: ignore[no-untyped-def]
    arrays = arrays_of(mutant.program)
    try:
        outputs = outputs_of(kernels, arrays)
    except ExecutionError as failure:
        return Result(mutant, "caught", str(failure.kind))
    said = "other threads access the same as before"
    try:
        ir.interpret(mutant.program, arrays)
    except ExecutionError as failure:
        if failure.kind in ("race", "barrier"):
            return Result(mutant, "missed", failure.message)
        said = failure.message  # of a thread's own memory, or of an index within its buffer
    is_same = all(same(expected, one) for one in outputs)
    return Result(mutant, "equivalent" if is_same else "values", said)


def main() -> None:
    """Print a line for each kernel, and a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    names = given.names or list(COOPERATING)
    alarms, results = [], []
    for name in names:
        program = lowered(COOPERATING[name]().program, TARGET)
        one, found = check([name], list(mutants_of(name, program)))
        alarms += one
        results += found
        counts = Counter(result.end for result in found)
        print(f"{name:42}", *(f"{n} {end}" for end, n in counts.items()), flush=True)
        for result in found:
            if result.end != "caught":
                print(f"    {result.end}: {result.mutant.kind} {result.mutant.what}; {result.said}")
    print(f"\n{'':10}", *(f"{end:>11}" for end in ENDS))
    for kind in KINDS:
        counts = Counter(r.end for r in results if r.mutant.kind == kind)
        print(f"{kind:10}", *(f"{counts[end]:>11}" for end in ENDS))
    print(f"{len(names)} kernels, {len(alarms)} of them reported", *alarms, sep="\n")
    if given.json:
        rows = [[r.mutant.kernel, r.mutant.kind, r.mutant.what, r.end, r.said] for r in results]
        given.json.write_text(json.dumps(rows, indent=1))
    sys.exit(bool(alarms) or any(r.end == "missed" for r in results))


if __name__ == "__main__":
    main()
