"""The loop nest as nested boxes: one for each loop, coloured and named by its kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from minitensor import ir
from minitensor.ir import LoopKind
from minitensor.pictures.svg import Picture, fitted, label, tag, width_of

BOXES: Final = 200
"""The most boxes that are drawn."""
COLUMNS: Final = 76
"""The most characters of a line in a box."""
LINES: Final = 6
"""The most lines of a block."""
BUFFERS: Final = 8
"""The most buffers that are listed."""
LARGE: Final = 2000
"""Nodes of a block from which on its text is not printed: it may use its parts again and again."""

_PAD, _ROW, _GAP, _TOP = 9.0, 17.0, 8.0, 4.0

LOOKS: Final = {
    LoopKind.SERIAL: ("grey", "serial", "one iteration after the other"),
    LoopKind.PARALLEL: ("blue", "parallel", "on the threads of the CPU, in any order"),
    LoopKind.VECTORIZE: ("orange", "vectorize", "together, in the lanes of vectors"),
    LoopKind.UNROLL: ("green", "unroll", "written out, one after the other"),
    LoopKind.TENSORIZE: ("brown", "tensorize", "all at once, by an intrinsic"),
}
"""The colour of a kind of loop, its word, and the way in which its iterations run."""
_BOUND: Final = ("purple", "bound to a GPU index")


def look(kind: LoopKind) -> tuple[str, str, str]:
    """The colour of a kind, its word, and the way in which its iterations run."""
    return LOOKS.get(kind, (_BOUND[0], kind.value, _BOUND[1]))


@dataclass
class _Box:
    """A box with lines at its top and boxes below them; `colour` "" for a block."""

    colour: str
    lines: list[str]
    word: str = ""
    mark: str = ""
    below: list[_Box] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0

    def measure(self) -> None:
        """Find its size from those of the boxes in it."""
        for box in self.below:
            box.measure()
        widths = [width_of(line) for line in self.lines]
        if self.word:
            note = f"  {self.mark}" if self.mark else ""
            widths[0] += width_of(f"   {self.word}{note}")
        inner = [box.width for box in self.below]
        self.width = max([*widths, *inner, 90.0]) + 2 * _PAD
        below = sum(box.height + _GAP for box in self.below)
        self.height = len(self.lines) * _ROW + (below + _TOP if self.below else _GAP)

    def drawn(self, x: float, y: float, width: float) -> Iterator[str]:
        """Its elements, with the left upper corner at (x, y)."""
        style = f"box {self.colour}" if self.colour else "leaf"
        if self.mark:
            style = "box thick red"
        for one in ("ground", style):
            yield tag("rect", x=x, y=y, width=width, height=self.height, rx=5, class_=one)
        at = y + _ROW - 3
        for number, line in enumerate(self.lines):
            bold = "bold" if self.colour and not number else ""
            yield label(line, x + _PAD, at + number * _ROW, bold)
        if self.mark:
            yield label(self.mark, x + _PAD + width_of(self.lines[0] + "  "), at, "hue bold red")
        if self.word:
            yield label(self.word, x + width - _PAD, at, f"hue {self.colour}", "end")
        at = y + len(self.lines) * _ROW + _TOP
        for box in self.below:
            yield from box.drawn(x + _PAD, at, width - 2 * _PAD)
            at += box.height + _GAP

    def text(self, depth: int = 0) -> Iterator[str]:
        """Its lines, indented."""
        for number, line in enumerate(self.lines):
            said = ", ".join(filter(None, (self.word, self.mark))) if not number else ""
            yield "    " * depth + line + (f"  ({said})" if said else "")
        for box in self.below:
            yield from box.text(depth + 1)


class _Maker:
    """Makes boxes of statements while there is room; counts what is left out."""

    def __init__(self, marks: ir.Marks) -> None:
        self.marks, self.room = marks, BOXES
        self.kinds: dict[LoopKind, None] = {}
        self.loops = self.blocks = 0

    def boxes(self, stmt: ir.Stmt, path: tuple[ir.For, ...]) -> list[_Box]:
        """The boxes of a statement."""
        if isinstance(stmt, ir.Seq):
            return [box for one in stmt.stmts for box in self.boxes(one, path)]
        if self.room <= 0:
            self.loops += len(ir.loops_of(stmt))
            self.blocks += len(ir.blocks_of(stmt))
            return []
        self.room -= 1
        if isinstance(stmt, ir.For):
            colour, word, _ = look(stmt.kind)
            self.kinds[stmt.kind] = None
            last = f" … {stmt.extent - 1}" if stmt.extent > 1 else ""
            lines = [f"{ir.print_name(stmt.var)} = 0{last}" if stmt.extent else "no iteration"]
            lines += [fitted(f"{k} = {v}", COLUMNS) for k, v in stmt.annotations]
            mark = fitted(self.marks.loops.get(stmt.var, ""), COLUMNS)
            below = self.boxes(stmt.body, (*path, stmt))
            return [_Box(colour, lines, word, mark, below)]
        name = stmt.name if isinstance(stmt, ir.Block) else ""
        mark = fitted(self.marks.blocks.get(name, ""), COLUMNS)
        lines = statement(stmt, path)
        return [_Box("", lines + ([f"← {mark}"] if mark else []))]

    @property
    def left_out(self) -> str:
        """A sentence on what there was no room for; "" for nothing."""
        if not (self.loops or self.blocks):
            return ""
        return f"Left out: {self.loops:,} more loops and {self.blocks:,} more blocks."


def statement(stmt: ir.Stmt, path: tuple[ir.For, ...]) -> list[str]:
    """The lines of a block in its loops, cut to what is read at a glance."""
    if ir.nodes_in(stmt, LARGE) >= LARGE:
        names = ", ".join(map(ir.print_name, sorted(ir.stored_buffers(stmt))[:3]))
        return [f"{names}[…] = …  (more than {LARGE:,} operations)"]
    whole = ir.print_stmt(ir.nest(path, stmt)).splitlines()
    first = next((n for n, line in enumerate(whole) if not line.lstrip().startswith("for ")), 0)
    depth = len(whole[first]) - len(whole[first].lstrip())
    lines = [fitted(line[depth:], COLUMNS) for line in whole[first:]]
    return (
        lines if len(lines) <= LINES else [*lines[: LINES - 1], f"… {len(lines) - LINES + 1} more"]
    )


def signature(program: ir.Program) -> list[str]:
    """The buffers of a program, a line for each, in columns."""
    written = {buffer.name for buffer in program.outputs}
    kinds = ["output" if b.name in written else "input" for b in program.params]
    kinds += [f"temporary, {b.scope.value}" for b in program.temporaries]
    buffers = (*program.params, *program.temporaries)
    rows = [(ir.print_name(b.name), ir.print_type(b), k) for b, k in zip(buffers, kinds)]
    shown = rows[:BUFFERS]
    first, second = (max((len(row[n]) for row in shown), default=0) for n in (0, 1))
    lines = [fitted(f"{a:{first}}  {b:{second}}  {c}", COLUMNS) for a, b, c in shown]
    return lines + ([f"… {len(rows) - BUFFERS:,} more buffers"] if len(rows) > BUFFERS else [])


def nest_picture(program: ir.Program, marks: ir.Marks | None = None) -> Picture:
    """The loops of a program as nested boxes, its blocks as leaves.

    marks  loops and blocks to point at
    """
    maker = _Maker(marks or ir.Marks())
    boxes = maker.boxes(program.body, ())
    for box in boxes:
        box.measure()
    head, left_out = signature(program), maker.left_out
    keys = [look(kind) for kind in maker.kinds]
    words = [f"{word}: {way}" for _, word, way in dict.fromkeys(keys)]
    lines = [*map(width_of, head), *(width_of(w) + 30 for w in words), width_of(left_out)]
    width = max([box.width for box in boxes] + lines + [240.0]) + 2 * _PAD
    parts = [label(line, _PAD, _ROW * (n + 1), "faint") for n, line in enumerate(head)]
    at = _ROW * len(head) + 2 * _PAD
    for box in boxes:
        parts += box.drawn(_PAD, at, width - 2 * _PAD)
        at += box.height + _GAP
    at += 6
    for (colour, _, _), line in zip(dict.fromkeys(keys), words):
        parts.append(tag("rect", x=_PAD, y=at, width=20, height=11, rx=3, class_=f"box {colour}"))
        parts.append(label(line, _PAD + 28, at + 10, "faint"))
        at += _ROW
    if left_out:
        parts.append(label(left_out, _PAD, at + 10, "bold"))
        at += _ROW
    loops, blocks = len(ir.loop_sites(program)), len(program.blocks)
    counted = f"{loops:,} loop{'s' * (loops != 1)} and {blocks:,} block{'s' * (blocks != 1)}."
    text = [counted, "", *head, "", *_texts(boxes), *([left_out] if left_out else [])]
    name = fitted(ir.print_name(program.name), 40)
    return Picture("nest", f"The loops of {name}", "\n".join(text), width, at + 4, "".join(parts))


def _texts(boxes: Iterable[_Box]) -> Iterator[str]:
    for box in boxes:
        yield from box.text()
