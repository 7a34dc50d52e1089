"""Generated texts kept between processes: to generate one takes longer than to load its library.

An entry is one file of the cache folder, <key>.text, with a digest of key and content. The key is a
digest of the program, the target, and the code that generates (the sizes and times of its files),
so that an entry made by another version is not found.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import minitensor.codegen
from minitensor.codegen import Emitted, Target
from minitensor.errors import CompileError
from minitensor.ir import Program
from minitensor.runtime.folder import cache_folder, keep, scratch_folder, sealed, unsealed
from minitensor.version import __version__

_GENERATOR = ("ir", "arith", "codegen")
"""The packages whose code makes a text of a program."""


def remembered(
    program: Program, target: Target, header: str, make: Callable[[], Emitted]
) -> Emitted:
    """What `make` gives for the program and the target, from the cache if it is there."""
    facts = (__version__, _generator(), repr(program), target, header)
    path = cache_folder() / (hashlib.sha256(repr(facts).encode()).hexdigest() + ".text")
    try:
        kept: dict[str, Any] | None = json.loads(unsealed(path))
    except (OSError, ValueError):
        kept = None
    if kept is None:
        emitted = make()
        _write(path, emitted)
        return emitted
    outputs = frozenset(b.name for b in program.outputs)
    return Emitted.restored(kept, kept["source"], program.params, outputs, target)


@functools.cache
def _generator() -> tuple[tuple[str, int, int], ...]:
    """The files of the generator, with their sizes and times."""
    root = Path(minitensor.codegen.__file__).parents[1]
    files = sorted(p for package in _GENERATOR for p in (root / package).rglob("*.py"))
    return tuple((str(p.relative_to(root)), p.stat().st_size, p.stat().st_mtime_ns) for p in files)


def _write(path: Path, emitted: Emitted) -> None:
    kept = {"source": emitted.source, **emitted.facts()}
    content = json.dumps(kept).encode()
    # where it cannot be kept, the next process generates it again
    with contextlib.suppress(CompileError), scratch_folder(path.parent) as scratch:
        (scratch / path.name).write_bytes(sealed(path.name, content))
        keep(scratch / path.name, path)
