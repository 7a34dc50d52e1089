"""The resources that a kernel of a GPU takes, as nvcc's assembler (ptxas -v) says them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from minitensor.looks import Shown

_ENTRY: Final = re.compile(r"Compiling entry function '(.+?)' for 'sm_\w+'")
_PROPERTIES: Final = re.compile(r"Function properties for (\S+)")
_NUMBERS: Final = {
    "stack": re.compile(r"(\d+) bytes stack frame"),
    "stores": re.compile(r"(\d+) bytes spill stores"),
    "loads": re.compile(r"(\d+) bytes spill loads"),
    "registers": re.compile(r"Used (\d+) registers"),
    "deep": re.compile(r"(\d+) bytes cumulative stack size"),
    "shared": re.compile(r"(\d+)(?:\+\d+)? bytes smem"),
    "constant": re.compile(r"(\d+) bytes cmem\[\d+\]"),
}


@dataclass(frozen=True, slots=True, repr=False)
class Resources(Shown):
    """The resources of a kernel.

    registers  of a thread
    spills     bytes that a thread stores and loads because registers do not suffice
    stack      bytes of a thread's own memory: arrays that are indexed by what is not constant
    shared     bytes of shared memory that the text declares
    constant   bytes of constant memory; 0 where nvcc does not say (13 does not)
    """

    registers: int
    spills: int
    stack: int
    shared: int
    constant: int

    def __str__(self) -> str:
        return (
            f"{self.registers} registers, {self.spills} bytes spilled, {self.stack} of stack, "
            f"{self.shared} shared, {self.constant} constant"
        )


def read_resources(printed: str) -> dict[str, Resources]:
    """The resources of each kernel, from what nvcc printed with -Xptxas=-v."""
    found: dict[str, dict[str, int]] = {}
    entries: list[str] = []
    about: dict[str, int] = {}  # the numbers of the function that the lines are about
    for line in printed.splitlines():
        entry, properties = _ENTRY.search(line), _PROPERTIES.search(line)
        if entry:
            entries.append(entry[1])
            about = found.setdefault(entry[1], {})
        elif properties:
            about = found.setdefault(properties[1], {})
        elif "Used " in line and entries:  # follows the properties of what the entry calls, too
            about = found[entries[-1]]
        for name, pattern in _NUMBERS.items():
            for number in pattern.findall(line):
                about[name] = about.get(name, 0) + int(number)
    return {name: _resources(found[name]) for name in entries}


def _resources(numbers: dict[str, int]) -> Resources:
    def of(name: str) -> int:
        return numbers.get(name, 0)

    spills, stack = of("stores") + of("loads"), max(of("stack"), of("deep"))
    return Resources(of("registers"), spills, stack, of("shared"), of("constant"))
