"""The compile cache: from C text to a shared library, once.

An entry is three files of the cache folder, named by a digest of all that the code depends on:

    <key>.so      the library
    <key>.json    the key, its digest, the command, and the name of the source file; written last
    <key>.c       the source, for people to read

Any number of processes may use the folder, and none locks it: an entry is made elsewhere and moved
into place whole, and a library that is not the one its record describes is made again. Two that
make the same entry at once replace each other's; either is good.
Not here: removing old entries. The folder may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from minitensor.codegen import intrinsics_in
from minitensor.errors import CompileError
from minitensor.runtime.folder import cache_folder, keep, read_entry, scratch_folder
from minitensor.runtime.machine import cpu_fingerprint
from minitensor.runtime.process import first_error, run_compiler
from minitensor.runtime.toolchain import Toolchain
from minitensor.version import __version__

logger = logging.getLogger("minitensor")

TIME_LIMIT: Final = 20.0
"""Seconds for one run of the compiler."""
MAX_SOURCE: Final = 2_000_000
"""Bytes of C text; beyond, a compiler takes minutes."""

_CRASHED: Final = "internal compiler error"
_CAREFUL: Final = "-fno-tree-vectorize"

_SOURCE: Final = "kernel.c"
_OBJECT: Final = "kernel.so"
_ASSEMBLY: Final = "kernel.s"
_RECORD: Final = "kernel.json"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A shared library in the cache, and the command that made it (from a file kernel.c)."""

    path: Path
    command: tuple[str, ...]


def compile_library(source: str, toolchain: Toolchain, time_limit: float = TIME_LIMIT) -> Compiled:
    """The library that the compiler makes of C text, taken from the cache if it is there.

    A compiler that crashes is asked once more, without its vectorizer, where most of its faults
    are: the kernel's own vectors stay. One warning is logged, and `command` says so.

    Raises CompileError if the compiler fails, takes more than `time_limit` seconds, or the text
    has more than MAX_SOURCE bytes. Nothing is then left in the cache.
    """
    command = toolchain.command(_SOURCE, _OBJECT)
    folder = cache_folder()
    key = _key(source, command, toolchain)
    used = _command_of(folder, key)
    if used is None:
        used = _make(source, command, folder, key, time_limit)
    return Compiled(folder / f"{key}.so", tuple(used))


def compile_assembly(
    source: str, toolchain: Toolchain, time_limit: float = TIME_LIMIT, *, origins: bool = False
) -> str:
    """The assembly text that the compiler makes of C text, with the flags of a kernel.

    origins  see `Toolchain.assembly_command`

    Raises as `compile_library`.
    """
    command = toolchain.assembly_command(_SOURCE, _ASSEMBLY, origins)
    with scratch_folder(cache_folder()) as scratch:
        _compile(source, command, scratch / _ASSEMBLY, time_limit)
        return (scratch / _ASSEMBLY).read_text(encoding="utf-8", errors="replace")


def _key(source: str, command: list[str], toolchain: Toolchain) -> str:
    compiler = (toolchain.version, toolchain.triple, toolchain.identity)
    facts = [__version__, source, command, *compiler, cpu_fingerprint()]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _command_of(folder: Path, key: str) -> list[str] | None:
    """What made an entry; None unless it is there and its library is the one that was recorded."""
    try:
        record = json.loads(read_entry(folder / f"{key}.json"))
        library = read_entry(folder / f"{key}.so")
    except (OSError, ValueError, RecursionError):
        return None
    match record:
        case {"key": found, "sha256": digest, "command": [*command]} if found == key:
            return command if digest == hashlib.sha256(library).hexdigest() else None
    return None


def _make(source: str, command: list[str], folder: Path, key: str, time_limit: float) -> list[str]:
    """Make an entry; returns the command that did."""
    with scratch_folder(folder) as scratch:
        used = _compile_anyhow(source, command, scratch / _OBJECT, time_limit)
        digest = hashlib.sha256((scratch / _OBJECT).read_bytes()).hexdigest()
        record = {"key": key, "sha256": digest, "command": used, "source": f"{key}.c"}
        (scratch / _RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")
        for made in (_SOURCE, _OBJECT, _RECORD):
            keep(scratch / made, folder / (key + Path(made).suffix))
    return used


def _compile_anyhow(source: str, command: list[str], output: Path, time_limit: float) -> list[str]:
    """Compile, if need be without what the compiler crashes in; returns the command that worked."""
    begun = time.monotonic()
    try:
        _compile(source, command, output, time_limit)
        return command
    except CompileError as failure:
        if _CRASHED not in failure.stderr:
            raise
        careful = [*command, _CAREFUL]
        try:
            left = max(1.0, time_limit - (time.monotonic() - begun))
            _compile(source, careful, output, left)
        except CompileError:
            raise failure from None
        crash = first_error(failure.stderr)
    logger.warning("%s crashed (%s); the kernel was compiled with %s", command[0], crash, _CAREFUL)
    return careful


def _compile(source: str, command: list[str], output: Path, time_limit: float) -> None:
    """Run the command, which makes `output`, in its folder."""
    text = source.encode("utf-8")
    if len(text) > MAX_SOURCE:
        raise CompileError(
            f"the C text has {len(text):,} bytes, and at most {MAX_SOURCE:,} are compiled; "
            "unroll less",
            command,
        )
    (output.parent / _SOURCE).write_bytes(text)
    done = run_compiler(command, output.parent, time_limit)
    if done.status != 0 or not output.is_file():
        raise CompileError(
            f"{command[0]} failed with status {done.status}: {first_error(done.stderr)}; "
            f"{_advice(source)}",
            command,
            done.stderr,
        )


def _advice(source: str) -> str:
    """Whom to suspect when a text does not compile: first what a user wrote of it."""
    bodies = list(dict.fromkeys(intrinsics_in(source)))
    if not bodies:
        return "check CC and CFLAGS, and report it if they are not the reason"
    one = len(bodies) == 1
    return (
        f"the text holds the {'body' if one else 'bodies'} of the intrinsic{'' if one else 's'} "
        f"{', '.join(bodies)}, which may be the reason; if not, check CC and CFLAGS"
    )


def is_whole(compiled: Compiled) -> bool:
    """Whether a library is there still, as it was made."""
    return _command_of(compiled.path.parent, compiled.path.stem) is not None


def discard(compiled: Compiled) -> None:
    """Remove an entry that turned out not to load: the next build compiles anew."""
    for suffix in (".json", ".so"):
        with contextlib.suppress(OSError):
            compiled.path.with_suffix(suffix).unlink()
