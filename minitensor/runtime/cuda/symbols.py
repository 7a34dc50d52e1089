"""Names for what the emulator reports by address: shared arrays, kernels, lines of the text.

The programs nm and addr2line, which come with the compiler, read the library; the types of shared
arrays are in the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from minitensor.errors import CompileError
from minitensor.runtime.folder import cache_folder, scratch_folder
from minitensor.runtime.process import run_compiler
from minitensor.runtime.toolchain import Toolchain

_SECONDS: Final = 20.0
_SIZES: Final = {
    "double": 8,
    "int64_t": 8,
    "uint64_t": 8,
    "uint16_t": 2,
    "int16_t": 2,
    "uint8_t": 1,
    "int8_t": 1,
    "unsigned char": 1,
    "bool": 1,
}
"""Bytes of an element by its C type; 4 for others."""
_DECLARED: Final = re.compile(
    r"__global__ [^{;]*?\b(?P<kernel>\w+)\((?!\d)"
    r"|__shared__\s+(?:__align__\(\d+\)\s+)?(?P<kind>[\w ]*\w)\s+(?P<array>\w+)\s*[\[;]"
    r"|(?P<item>\w+) \*(?:const )?(?P<part>\w+) = \(\w+ \*\)"
    r"\(?shared_memory(?: \+ (?P<place>\d+))?\)?;"
)
"""Kernels of a text, and the arrays in shared memory that each of them declares."""
_SYMBOL: Final = re.compile(r"^([0-9a-f]+) (?:([0-9a-f]+) )?(\w) (\S+)$", re.MULTILINE)
_SOURCE: Final = re.compile(r"(?:^|/)kernel\.c:(\d+)")


@dataclass(frozen=True, slots=True)
class SharedArray:
    """An array in shared memory.

    place   its address in the library; of a part of dynamic shared memory, its offset
    size    in bytes, where that is known
    item    bytes of an element
    kernel  that declares it, where that is known
    """

    name: str
    place: int
    size: int
    item: int
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class Symbols:
    """The names in a library.

    arrays   the shared arrays of a size that the text declares
    parts    those in dynamic shared memory, by kernels
    kernels  the functions, by address
    """

    arrays: tuple[SharedArray, ...]
    parts: Mapping[str, tuple[SharedArray, ...]]
    kernels: Mapping[int, str]


@functools.lru_cache(maxsize=64)
def symbols_of(library: Path, source: str, toolchain: Toolchain) -> Symbols:
    """The names in the library of a text. Raises CompileError without the program nm."""
    listed = _SYMBOL.findall(_output(toolchain, "nm", "-S", "--defined-only", str(library)))
    places = {name: int(place, 16) for place, _, _, name in listed}
    start, stop = places.get("__start_shared", 0), places.get("__stop_shared", 0)
    declared, parts = _declared(source)
    arrays = []
    for place, size, _, symbol in listed:
        inside = size and start <= int(place, 16) < stop
        if not inside or re.search(r"E\d+gap_\d+$", symbol):
            continue
        name, item = symbol, 4
        for array in declared:
            function, own = (f"{len(word)}{word}" for word in (array.kernel, array.name))
            if re.search(rf"{function}E{own}(_\d+)?$", symbol):
                name, item = array.name, array.item
        arrays.append(SharedArray(name, int(place, 16), int(size, 16), item))
    if declared and not arrays:
        raise CompileError(f"{library} has no symbols; remove from CC the flag that strips them")
    kernels = {int(place, 16): name for place, _, kind, name in listed if kind == "T"}
    return Symbols(tuple(arrays), parts, kernels)


def _declared(
    source: str,
) -> tuple[list[SharedArray], dict[str, tuple[SharedArray, ...]]]:
    """The static shared arrays that a text declares, and the parts of dynamic shared memory."""
    kernel = ""
    arrays: list[SharedArray] = []
    parts: dict[str, tuple[SharedArray, ...]] = {}
    for found in _DECLARED.finditer(source):
        if found["kernel"]:
            kernel = found["kernel"]
        elif found["array"]:
            arrays.append(SharedArray(found["array"], 0, 0, _SIZES.get(found["kind"], 4), kernel))
        else:
            place, item = int(found["place"] or 0), _SIZES.get(found["item"], 4)
            part = SharedArray(found["part"], place, 0, item, kernel)
            parts[kernel] = (*parts.get(kernel, ()), part)
    return arrays, parts


def lines_of(library: Path, addresses: Iterable[int], toolchain: Toolchain) -> dict[int, int]:
    """The line of the text for each return address in a library; 0 where it is not known."""
    wanted = sorted(set(addresses) - {0})
    lines = dict.fromkeys([0, *wanted], 0)
    if not wanted:
        return lines
    words = [f"{address - 1:#x}" for address in wanted]
    printed = _output(toolchain, "addr2line", "-a", "-i", "-e", str(library), *words)
    address = 0
    for line in printed.splitlines():
        found = _SOURCE.search(line)
        if line.startswith("0x"):
            address = int(line, 16) + 1
        elif found and not lines[address]:  # the innermost call that is of the text itself
            lines[address] = int(found[1])
    return lines


def _output(toolchain: Toolchain, program: str, *arguments: str) -> str:
    """The output of one of the programs that come with the compiler."""
    with scratch_folder(cache_folder()) as folder:
        asked = run_compiler([*toolchain.words, f"-print-prog-name={program}"], folder, _SECONDS)
        path = asked.stdout.strip() or program
        done = run_compiler([path, *arguments], folder, _SECONDS)
    if done.status != 0:
        raise CompileError(f"{path} failed with status {done.status}", [path], done.stderr)
    return done.stdout
