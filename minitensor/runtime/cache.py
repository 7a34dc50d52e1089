"""Compiling, once: the libraries of kernels are entries of the cache.

    kernel-<digest>.so      the library
    kernel-<digest>.c       the source (.cu for a device)
    kernel-<digest>.json    their digests, the command, what the compiler printed, and facts about
                            the source

Not here: removing old entries.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from minitensor.codegen import intrinsics_in
from minitensor.errors import CompileError
from minitensor.runtime.folder import (
    cache_folder,
    entry_name,
    read_entry,
    recall,
    scratch_folder,
    store,
)
from minitensor.runtime.process import Finished, first_error, run_compiler

logger = logging.getLogger("minitensor")

TIME_LIMIT: Final = 20.0
"""Seconds for one run of the compiler."""
MAX_SOURCE: Final = 2_000_000
"""Bytes of text; beyond, a compiler takes minutes."""

_CRASHED: Final = "internal compiler error"

_OBJECT: Final = "kernel.so"
_ASSEMBLY: Final = "kernel.s"


class Compiler(Protocol):
    """A toolchain as the cache needs it."""

    @property
    def source(self) -> str:
        """The name of a file of source, such as kernel.c."""

    @property
    def careful(self) -> tuple[str, ...]:
        """The flags to try where it crashes without them; none if there are none."""

    @property
    def key(self) -> tuple[str, ...]:
        """All that its code depends on, but for the command."""

    def command(self, source: str, output: str) -> list[str]:
        """The words that compile a file to a shared library."""

    def assembly_command(self, source: str, output: str, origins: bool = False) -> list[str]:
        """The words that compile a file to assembly text; `origins` adds lines of the source."""

    def advice(self, stderr: str) -> str:
        """The step to take, where it failed and printed this."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A shared library in the cache.

    path     of the library
    command  the command that made it, from a file of the source
    source   the text
    facts    about it, as they were kept with it
    printed  by the compiler
    """

    path: Path
    command: tuple[str, ...]
    source: str
    facts: Mapping[str, Any]
    printed: str = ""


def compile_library(source: str, toolchain: Compiler, time_limit: float = TIME_LIMIT) -> Compiled:
    """The library that the compiler makes of a text, taken from the cache if it is there.

    A compiler that crashes is started once more, without its vectorizer, where most of its faults
    are: the kernel's own vectors stay. One warning is logged, and `command` shows it.

    Raises CompileError if the compiler fails, takes more than `time_limit` seconds, or the text
    has more than MAX_SOURCE bytes. Nothing is then left in the cache.
    """
    return compile_generated([source], lambda: (source, {}), toolchain, time_limit)


def compile_generated(
    depends: Sequence[str],
    generate: Callable[[], tuple[str, dict[str, Any]]],
    toolchain: Compiler,
    time_limit: float = TIME_LIMIT,
) -> Compiled:
    """As `compile_library`, of a text that is generated only if its library is not in the cache.

    depends     all that the text depends on
    generate    returns the text, and facts that are kept with it
    time_limit  seconds to generate and compile
    """
    begun = time.monotonic()
    command = toolchain.command(toolchain.source, _OBJECT)
    name = entry_name("kernel", *depends, command, toolchain.key)
    compiled = _recall(name)
    if compiled is None:
        source, facts = generate()
        left = round(max(min(1.0, time_limit), time_limit - (time.monotonic() - begun)), 1)
        compiled = _make(name, source, facts, toolchain, left)
    return compiled


def compile_assembly(
    source: str, toolchain: Compiler, time_limit: float = TIME_LIMIT, *, origins: bool = False
) -> str:
    """The assembly text that the compiler makes of a text, with the flags of a kernel.

    origins  see `Compiler.assembly_command`

    Raises as `compile_library`.
    """
    command = toolchain.assembly_command(toolchain.source, _ASSEMBLY, origins)
    with scratch_folder(cache_folder()) as scratch:
        _compile(source, command, scratch / _ASSEMBLY, toolchain, time_limit)
        return (scratch / _ASSEMBLY).read_text(encoding="utf-8", errors="replace")


def _recall(name: str) -> Compiled | None:
    """An entry; None unless its library and its source are those that were recorded."""
    document = recall(name)
    if document is None:
        return None
    folder = cache_folder()
    library = folder / f"{name}.so"
    try:
        source = library.with_suffix(document["suffix"])
        text = read_entry(source)
        if document["digests"] != [_digest(read_entry(library)), _digest(text)]:
            return None
        command, facts = tuple(document["command"]), document["facts"]
        return Compiled(library, command, text.decode(), facts, document["printed"])
    except (OSError, LookupError):
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _make(
    name: str, source: str, facts: dict[str, Any], toolchain: Compiler, time_limit: float
) -> Compiled:
    """Make an entry."""
    with scratch_folder(cache_folder()) as scratch:
        library = scratch / _OBJECT
        used, printed = _compile_anyhow(source, library, toolchain, time_limit)
        digests = [_digest(library.read_bytes()), _digest(source.encode())]
        document = {"digests": digests, "command": used, "facts": facts, "printed": printed}
        document["suffix"] = Path(toolchain.source).suffix
        store(name, document, scratch, scratch / toolchain.source, library)
    return Compiled(cache_folder() / f"{name}.so", tuple(used), source, facts, printed)


def _compile_anyhow(
    source: str, output: Path, toolchain: Compiler, time_limit: float
) -> tuple[list[str], str]:
    """Compile, if need be without what the compiler crashes in; returns the command that worked,
    and what it printed.
    """
    begun = time.monotonic()
    command = toolchain.command(toolchain.source, output.name)
    try:
        return command, _compile(source, command, output, toolchain, time_limit).stderr
    except CompileError as failure:
        if _CRASHED not in failure.stderr or not toolchain.careful:
            raise
        careful = [*command, *toolchain.careful]
        try:
            left = max(1.0, time_limit - (time.monotonic() - begun))
            done = _compile(source, careful, output, toolchain, left)
        except CompileError:
            raise failure from None
        crash, added = first_error(failure.stderr), " ".join(toolchain.careful)
    logger.warning("%s crashed (%s); the kernel was compiled with %s", command[0], crash, added)
    return careful, done.stderr


def _compile(
    source: str, command: list[str], output: Path, toolchain: Compiler, time_limit: float
) -> Finished:
    """Run the command, which makes `output`, in its folder."""
    text = source.encode("utf-8")
    if len(text) > MAX_SOURCE:
        raise CompileError(
            f"the C text has {len(text):,} bytes, and at most {MAX_SOURCE:,} are compiled; "
            "unroll less",
            command,
        )
    (output.parent / toolchain.source).write_bytes(text)
    done = run_compiler(command, output.parent, time_limit)
    if done.status != 0 or not output.is_file():
        raise CompileError(
            f"{command[0]} failed with status {done.status}: {first_error(done.stderr)}; "
            f"{_advice(source, toolchain.advice(done.stderr))}",
            command,
            done.stderr,
        )
    return done


def _advice(source: str, otherwise: str) -> str:
    """Whom to suspect when a text does not compile: first what a user wrote of it."""
    bodies = list(dict.fromkeys(intrinsics_in(source)))
    if not bodies:
        return otherwise
    one = len(bodies) == 1
    return (
        f"the text holds the {'body' if one else 'bodies'} of the intrinsic{'' if one else 's'} "
        f"{', '.join(bodies)}, which may be the reason; if not, {otherwise}"
    )


def is_whole(compiled: Compiled) -> bool:
    """Test whether a library is still there, as it was made."""
    return _recall(compiled.path.stem) is not None


def discard(compiled: Compiled) -> None:
    """Remove an entry that turned out not to load: the next build compiles anew."""
    for suffix in (".json", ".so"):
        with contextlib.suppress(OSError):
            compiled.path.with_suffix(suffix).unlink()
