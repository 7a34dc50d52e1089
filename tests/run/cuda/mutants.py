"""Bugs planted in texts that code generation wrote: in each line where one is possible."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from minitensor.codegen import Emitted


@dataclass(frozen=True)
class Mutant:
    """A text with one bug.

    bug   "no barrier", "no guard", "merged" (two threads write the element of one of them) or
          "swapped" (threads write each other's elements)
    line  the line that is changed, as it was
    """

    bug: str
    line: str
    emitted: Emitted


def mutants(emitted: Emitted) -> Iterator[Mutant]:
    """Texts with a bug that threads can see: what only touches their own arrays is let be."""
    lines = emitted.source.splitlines()
    seen = {b.name for b in emitted.params} | set(
        re.findall(r"__shared__ .*?(\w+)\[", emitted.source)
    )
    begin = next(n for n, line in enumerate(lines) if "__global__" in line)
    for n in range(begin, len(lines)):
        line = lines[n]
        if "__syncthreads();" in line:
            yield _changed(emitted, lines, n, "no barrier", line.replace("__syncthreads();", ";"))
        alone = re.match(r"( *)if \(.*?\) (\w+\[.*;)$", line)
        if alone:
            yield _changed(emitted, lines, n, "no guard", alone[1] + alone[2])
        elif re.match(r" *if \(", line):
            end = next(m for m in range(n, len(lines)) if lines[m].endswith(") {"))
            if set(re.findall(r"(\w+)\[", lines[end + 1])) & seen:
                opened = f"{line[: len(line) - len(line.lstrip())]}if (true) {{"
                yield _changed(emitted, lines, n, "no guard", opened, end)
        stored = re.match(r" *(\w+)\[(.*?)\] =", line)
        if stored and stored[1] in seen and re.search(r"\btx\b", stored[2]):
            for bug, other in (("merged", "(tx / 2 * 2)"), ("swapped", "(tx ^ 1)")):
                index = re.sub(r"\btx\b", other, stored[2])
                changed = line.replace(f"[{stored[2]}] =", f"[{index}] =", 1)
                yield _changed(emitted, lines, n, bug, changed)


def _changed(
    emitted: Emitted, lines: list[str], n: int, bug: str, line: str, end: int | None = None
) -> Mutant:
    last = n if end is None else end
    source = "\n".join([*lines[:n], line, *lines[last + 1 :], ""])
    return Mutant(bug, " ".join(lines[n : last + 1]).strip(), replace(emitted, source=source))


def renamed(texts: dict[str, Emitted]) -> dict[str, Emitted]:
    """The same texts as one, each under a name of its own."""
    parts = []
    for name, one in texts.items():
        text = one.source.partition('#include "device.h"')[2]
        for kernel in one.kernels:
            text = re.sub(rf"\b{kernel.name}\b", f"{name}_{kernel.name}", text)
        parts.append(re.sub(rf"\b{one.entry}\b", f"{name}_{one.entry}", text))
    source = '#include "device.h"\n' + "\n".join(parts)
    return {
        name: replace(
            one,
            source=source,
            entry=f"{name}_{one.entry}",
            kernels=tuple(replace(k, name=f"{name}_{k.name}") for k in one.kernels),
        )
        for name, one in texts.items()
    }
