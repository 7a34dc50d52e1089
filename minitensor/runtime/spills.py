"""Vector registers that spill, as the compiler's own assembly shows them.

A variable that finds no register lives on the stack: a vector move stores it there and another
loads it again, in every iteration. Compilers say in comments which operands those are (gcc:
`%sfp`; clang: `64-byte Spill`). Where a text has no such comments, every vector move to or from the
stack counts. Lines (`.loc`) lead from an instruction to the C text, and from there to the loop.
Understood are x86-64 in AT&T syntax, and AArch64; other machines give no spills.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

MACHINES: Final = ("x86_64", "amd64", "aarch64", "arm64")
"""The machines whose assembly is understood, as a compiler's triple names them."""

_LABEL: Final = re.compile(r"^([.\w$]+):")
_INSTRUCTION: Final = re.compile(r"^\s+([a-z][\w.]*)(?:\s+(.*?))?\s*$")
_COMMENT: Final = re.compile(r"(?:\s|^)(?:#(?![-\d:])|//|;).*$")
"""`#` in front of a digit is a number of AArch64."""
_FILE: Final = re.compile(r'^\s+\.file\s+(\d+)\s+.*"kernel\.c"')
_LINE: Final = re.compile(r"^\s+\.loc\s+(\d+)\s+(\d+)")
_FRAME: Final = re.compile(r"^\s+movq\s+%rsp,\s*%rbp\b|^\s+(?:mov|add)\s+x29,\s*sp\b")
_JUMP: Final = re.compile(r"^(?:j[a-z]+|b|b\.[a-z]+|b[a-z]{2}|cbn?z|tbn?z)$")
_CALL: Final = re.compile(r"^(?:callq?|blr?)$")
_SCALAR: Final = re.compile(r"^(?!.*broadcast).*s[sd]$|^v?mov[dq]$")
"""Instructions of x86 on a single number, which is in a vector register as well."""
_MARKS: Final = re.compile(r"%sfp|\d+-byte (?:Folded )?(?:Spill|Reload)")
_MARKING: Final = re.compile(
    r"%sfp|\d+-byte (?:Folded )?(?:Spill|Reload)|options passed|\.ident.*clang"
)
"""The parts of a text by which a compiler that marks spills is recognized."""

_X86_STACK: Final = re.compile(r"-?\w*\(%(rsp|rbp)\b[^)]*\)")
_X86_VECTOR: Final = re.compile(r"%([xyz])mm\d+")
_X86_BITS: Final = {"x": 128, "y": 256, "z": 512}
_ARM_STACK: Final = re.compile(r"\[(sp|x29)\b[^\]]*\]")
_ARM_VECTOR: Final = re.compile(r"(?<![\w.])([qvz])\d+")
_ARM_MOVES: Final = re.compile(r"^(ld|st)[a-z0-9]*$")

_FOR: Final = re.compile(r"^(\s*)for \(int64_t (\w+) = 0; \w+ < \d+; \+\+\w+\) \{$")


@dataclass(frozen=True, slots=True)
class Spills:
    """The vector moves between registers and the stack in one innermost loop, or outside of those.

    loop       the variable of the loop in the C text; "" where no loop is found
    innermost  whether it is a loop without another inside: its moves are repeated the most
    loads      how many vectors come from the stack in one iteration
    stores     how many go there
    bits       of the widest of them
    calls      how many calls of functions are inside: they may use every vector register, so that
               what is in one is put aside
    """

    loop: str
    innermost: bool
    loads: int
    stores: int
    bits: int
    calls: int = 0

    @property
    def moves(self) -> int:
        """Loads and stores."""
        return self.loads + self.stores


@dataclass(frozen=True, slots=True)
class _Move:
    at: int
    line: int
    is_load: bool
    bits: int
    count: int = 1


@dataclass(slots=True)
class _Function:
    """The moves and loops of one function; places are numbers of lines of the assembly.

    loops   (first, last) place of what a jump back repeats
    calls   places of calls
    lines   (place, line of the C text) of each instruction
    """

    moves: list[_Move]
    loops: list[tuple[int, int]]
    calls: list[int]
    lines: list[tuple[int, int]]


def find_spills(assembly: str, source: str = "") -> tuple[Spills, ...]:
    """The spills of a kernel, those of innermost loops first and the most frequent first.

    assembly  text of a compiler, best made with `Toolchain.assembly_command(origins=True)`
    source    the C text, for the names of loops
    """
    around = _loops_of_lines(source)
    counts: dict[tuple[str, bool], list[_Move]] = {}
    calls: dict[str, int] = {}
    for function in _functions(assembly.splitlines(), bool(_MARKING.search(assembly))):
        innermost = _innermost(function.loops)
        for move in function.moves:
            loop = next((x for x in innermost if x[0] <= move.at <= x[1]), None)
            if loop is None:
                name = (around.get(move.line) or ("",))[-1]
            else:
                name = _name(loop, function.lines, around)
                calls[name] = sum(loop[0] <= at <= loop[1] for at in function.calls)
            counts.setdefault((name, loop is not None), []).append(move)
    found = [
        Spills(
            loop=name,
            innermost=inside,
            loads=sum(m.count for m in moves if m.is_load),
            stores=sum(m.count for m in moves if not m.is_load),
            bits=max(m.bits for m in moves),
            calls=calls.get(name, 0) if inside else 0,
        )
        for (name, inside), moves in counts.items()
    ]
    return tuple(sorted(found, key=lambda s: (not s.innermost, -s.moves, s.loop)))


def understood(triple: str) -> bool:
    """Test whether the assembly of a machine is understood."""
    return triple.partition("-")[0] in MACHINES


def _functions(lines: Sequence[str], marked: bool) -> Iterator[_Function]:
    """The functions of a text, one for each that `.cfi_startproc` or a type directive begins."""
    start = 0
    for n, line in enumerate(lines):
        if re.match(r"^\s+(?:\.cfi_endproc|\.size\s)", line) and n > start:
            yield _function(lines, start, n, marked)
            start = n
    yield _function(lines, start, len(lines), marked)


def _function(lines: Sequence[str], start: int, end: int, marked: bool) -> _Function:
    found = _Function([], [], [], [])
    labels: dict[str, int] = {}
    text = lines[start:end]
    framed = any(_FRAME.match(line) for line in text)
    own = {number for line in lines for number in _FILE.findall(line)}
    current = 0
    for at, line in enumerate(text, start):
        label = _LABEL.match(line)
        if label:
            labels[label[1]] = at
            continue
        place = _LINE.match(line)
        if place:
            # a line of another file is that of what it was inlined into, as far as loops go
            current = int(place[2]) if not own or place[1] in own else current
            continue
        instruction = _INSTRUCTION.match(_COMMENT.sub("", line))
        if instruction is None or instruction[1].startswith("."):
            continue
        name, operands = instruction[1], instruction[2] or ""
        found.lines.append((at, current))
        if _CALL.match(name):
            found.calls.append(at)
        elif _JUMP.match(name):
            target = operands.rpartition(",")[2].strip()
            if target in labels:
                found.loops.append((labels[target], at))
        elif not marked or _MARKS.search(line):
            move = _move(name, operands, framed, at, current)
            if move is not None:
                found.moves.append(move)
    return found


def _move(name: str, operands: str, framed: bool, at: int, line: int) -> _Move | None:
    """The move of a vector to or from the stack that an instruction does, if it does one."""
    stack = _X86_STACK.search(operands)
    vectors = _X86_VECTOR.findall(operands)
    if stack and vectors and not _SCALAR.match(name) and (stack[1] == "rsp" or framed):
        is_load = "," in operands[stack.end() :]  # AT&T: the destination comes last
        return _Move(at, line, is_load, max(_X86_BITS[v] for v in vectors))
    stack = _ARM_STACK.search(operands)
    kind = _ARM_MOVES.match(name)
    vectors = _ARM_VECTOR.findall(operands)
    if stack and kind and vectors and (stack[1] == "sp" or framed):
        return _Move(at, line, kind[1] == "ld", 128, len(vectors))  # ldp and stp move two
    return None


def _innermost(loops: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The loops without another inside; jumps to one label are one loop."""
    ends: dict[int, int] = {}
    for first, last in loops:
        ends[first] = max(last, ends.get(first, last))
    every = list(ends.items())
    return [a for a in every if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in every)]


def _name(
    loop: tuple[int, int],
    lines: Iterable[tuple[int, int]],
    around: Mapping[int, tuple[str, ...]],
) -> str:
    """The loop of the C text that most of the instructions come from, where they are in one."""
    votes: dict[str, int] = {}
    for at, line in lines:
        if loop[0] <= at <= loop[1] and around.get(line):
            name = around[line][-1]
            votes[name] = votes.get(name, 0) + 1
    return max(votes, key=lambda name: votes[name]) if votes else ""


def _loops_of_lines(source: str) -> dict[int, tuple[str, ...]]:
    """For each line of emitted C the variables of the loops around it, outermost first."""
    found: dict[int, tuple[str, ...]] = {}
    open_loops: list[tuple[int, str]] = []
    for number, line in enumerate(source.splitlines(), start=1):
        indent = len(line) - len(line.lstrip())
        while line.strip() and open_loops and indent <= open_loops[-1][0] and line.strip() == "}":
            open_loops.pop()
        opening = _FOR.match(line)
        if opening:
            open_loops.append((len(opening[1]), opening[2]))
        found[number] = tuple(name for _, name in open_loops)
    return found
