"""The outcome of a schedule, for people: loops, buffers, remarks, registers, and measured spills.

`codegen.report` has the work of the passes; the assembly shows that of the compiler. Both are
put into words here. What the remarks mean and what to do is in docs/explain.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from minitensor import ir
from minitensor.codegen import PASSES, Passes, Remark, Report, Target, report_of, safe
from minitensor.errors import CompileError
from minitensor.runtime.cache import compile_assembly
from minitensor.runtime.spills import Spills, find_spills, understood
from minitensor.runtime.toolchain import Toolchain

_GAP: Final = "  "
_IN: Final = {
    "registers": "in registers",
    "stack": "on the stack",
    "workspace": "in the workspace",
    "output": "in the memory of an output",
}
_DEEPEST: Final = 56
"""Columns for the loops; what they became stands to the right."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The report on a kernel, with what was measured.

    report      what code generation did
    spills      what the compiler's assembly shows, by the user's loops; None if not measured
    unmeasured  why not
    """

    report: Report
    spills: tuple[Spills, ...] | None
    unmeasured: str = ""

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The remarks of code generation, and one for each innermost loop that spills."""
        measured = [self._spill_remark(s) for s in self.spills or () if s.innermost]
        return (*self.report.remarks, *measured)

    def _spill_remark(self, spills: Spills) -> Remark:
        text = f"{spills.moves} vector moves to and from the stack in an innermost iteration"
        advice = "make the tile smaller, or read fewer operands at once"
        if spills.calls:
            text += ", around the call of a function, which may use every vector register"
            advice = "compute the function in a loop of its own"
        for pressure in self.report.pressures:
            if ir.print_name(pressure.loop) == spills.loop and pressure.needed > pressure.available:
                tiles = " and ".join(pressure.tiles)
                text += f": the tile of {tiles} needs {pressure.needed} registers, "
                text += f"and the machine has {pressure.available}"
                advice = next((n.advice for n in self.report.remarks if n.kind == "registers"), "")
        return Remark(
            "spills", spills.loop or ir.print_name(self.report.program.name), text, advice
        )

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        report = self.report
        target = report.emitted.target
        return {
            "name": ir.print_name(report.program.name),
            "target": target.as_dict(),
            "loops": [
                {
                    "name": ir.print_name(name),
                    "kind": site.loop.kind.value,
                    "extent": site.loop.extent,
                    "became": list(report.outcomes.get(name, ())),
                }
                for name, site in ir.loop_sites(report.program).items()
            ],
            "storage": [asdict(memory) for memory in report.storage],
            "workspace": report.emitted.workspace,
            "remarks": [asdict(remark) for remark in self.remarks],
            "registers": [
                {
                    "loop": ir.print_name(p.loop),
                    "tiles": dict(p.tiles),
                    "operands": p.operands,
                    "available": p.available,
                }
                for p in report.pressures
            ],
            "spills": None if self.spills is None else [asdict(s) for s in self.spills],
            "unmeasured": self.unmeasured,
            "operations": report.operations,
            "argument_bytes": report.argument_bytes,
        }


def explained(
    program: ir.Program, target: Target, toolchain: Toolchain | None, passes: Passes = PASSES
) -> Explanation:
    """The explanation of a program for a target with nothing left open.

    toolchain  the compiler whose assembly is looked at, and whose machine has the registers; None
               if there is none, which leaves the spills unmeasured

    Raises ArgumentError for a target that is not C.
    """
    registers = None
    if toolchain is not None and (target.vector_bits or 0) <= toolchain.vector_bits:
        registers = toolchain.vector_registers
    report = report_of(program, target, registers, passes)
    if toolchain is None:
        return Explanation(report, None, "there is no C compiler")
    try:
        return Explanation(report, measured_spills(report, toolchain))
    except CompileError as failure:
        return Explanation(report, None, failure.message)


def measured_spills(report: Report, toolchain: Toolchain) -> tuple[Spills, ...]:
    """The spills in what a compiler makes of a kernel, by the loops' names in the program.

    Raises CompileError if it fails, or makes assembly that is not understood.
    """
    if not understood(toolchain.triple):
        raise CompileError(
            f"spills are looked for in assembly of x86-64 and AArch64, not of {toolchain.triple}",
            toolchain.words,
        )
    source = report.emitted.source
    names = {safe(name): ir.print_name(name) for name in ir.loop_sites(report.program)}
    found = find_spills(compile_assembly(source, toolchain, origins=True), source)
    return tuple(replace(s, loop=names.get(s.loop, s.loop)) for s in found)


# ---- words


def _lines(explanation: Explanation) -> Iterator[str]:
    report = explanation.report
    target = report.emitted.target
    threads = f"{target.num_cores} thread{'' if target.num_cores == 1 else 's'}"
    vectors = f"vectors of {target.vector_bits} bits" if target.vector_bits else "no vectors"
    yield f"{ir.print_name(report.program.name)} for {target.kind!r}: {threads}, {vectors}"
    yield ""
    yield "loops"
    yield from _aligned(list(_tree(report.program.body, report.outcomes, 1)))
    yield ""
    yield "buffers"
    yield from _aligned([(f"{_GAP}{a}", b) for a, b in _buffers(report)])
    yield ""
    yield "work"
    yield f"{_GAP}{_work(report)}"
    yield ""
    yield "vector registers"
    yield from (f"{_GAP}{line}" for line in _registers(explanation))
    yield ""
    yield "remarks"
    remarks = explanation.remarks
    yield from (f"{_GAP}{remark.kind}: {remark}" for remark in remarks)
    if not remarks:
        yield f"{_GAP}none: everything is as scheduled"


def _aligned(rows: list[tuple[str, str]]) -> Iterator[str]:
    width = min(_DEEPEST, max((len(left) for left, right in rows if right), default=0))
    for left, right in rows:
        yield f"{left.ljust(width)}  {right}".rstrip()


def _tree(
    stmt: ir.Stmt, outcomes: Mapping[str, tuple[str, ...]], depth: int
) -> Iterator[tuple[str, str]]:
    """The loops and blocks, each with what it became."""
    margin = _GAP * depth
    if isinstance(stmt, ir.For):
        how = "range" if stmt.kind is ir.LoopKind.SERIAL else stmt.kind.value
        head = f"{margin}for {ir.print_name(stmt.var)} in {how}({stmt.extent}):"
        yield head, ", ".join(outcomes.get(stmt.var, ()))
        yield from _tree(stmt.body, outcomes, depth + 1)
    elif isinstance(stmt, ir.Seq):
        for child in stmt.stmts:
            yield from _tree(child, outcomes, depth)
    elif isinstance(stmt, ir.Block):
        yield f"{margin}{ir.print_name(stmt.name)}", ""


def _buffers(report: Report) -> Iterator[tuple[str, str]]:
    outputs = {b.name for b in report.program.outputs}
    for buffer in report.program.params:
        kind = "output" if buffer.name in outputs else "input"
        yield _typed(buffer), f"{_bytes(buffer.nbytes)}, {kind}"
    typed = {ir.print_name(b.name): _typed(b) for b in report.program.temporaries}
    for memory in report.storage:
        copies = f", {memory.copies} copies" if memory.copies > 1 else ""
        size = f"{_bytes(memory.size)} {_IN[memory.where]}{copies}"
        yield typed.get(memory.buffer, memory.buffer), size


def _typed(buffer: ir.Buffer) -> str:
    return f"{ir.print_name(buffer.name)}: {ir.print_type(buffer)}"


def _bytes(size: int) -> str:
    for unit, step in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= step:
            return f"{size / step:.3g} {unit}"
    return f"{size} bytes"


def _work(report: Report) -> str:
    operations, size = report.operations, report.argument_bytes
    text = f"{operations:,} operations on {_bytes(size)} of arguments"
    return f"{text}: {operations / size:.3g} operations a byte at the most" if size else text


def _registers(explanation: Explanation) -> Iterator[str]:
    for pressure in explanation.report.pressures:
        tiles = ", ".join(f"{count} for {name}" for name, count in pressure.tiles.items())
        yield (
            f"{ir.print_name(pressure.loop)} needs {pressure.needed} of {pressure.available}: "
            f"{tiles}, {pressure.operands} for operands"
        )
    if explanation.spills is None:
        yield f"spills are not measured: {explanation.unmeasured}"
    elif not explanation.spills:
        yield "no spills in the compiler's assembly"
    rest = [s for s in explanation.spills or () if not s.innermost]
    for spills in explanation.spills or ():
        if spills.innermost:
            loop = f"the innermost loop of {spills.loop}" if spills.loop else "an innermost loop"
            yield f"spills in {loop}: {_moves([spills])}"
    if rest:
        yield f"spills outside of innermost loops: {_moves(rest)}"


def _moves(spills: Sequence[Spills]) -> str:
    loads, stores = sum(s.loads for s in spills), sum(s.stores for s in spills)
    bits = max(s.bits for s in spills)
    return f"{loads} vectors of up to {bits} bits loaded from the stack, {stores} stored there"
