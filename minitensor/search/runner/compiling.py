"""From C text to a library, in whichever process."""

from __future__ import annotations

import time
from typing import Any

from minitensor.errors import CompileError, MinitensorError
from minitensor.runtime import compile_library, find_toolchain
from minitensor.search.runner.quiet import compiling


def compile_text(source: str, time_limit: float) -> dict[str, Any]:
    """Compile C text, or take it from the cache: {"library", "command"}, paths and words.

    Where that fails {"error", "command", "details", "seconds"}: the message, what the compiler
    printed, and how long it took.
    Nothing is timed meanwhile. Any executor may run this: it takes and gives plain data.
    """
    start = time.monotonic()
    try:
        with compiling():
            compiled = compile_library(source, find_toolchain(), time_limit)
    except CompileError as failure:
        return {
            "error": failure.message,
            "command": list(failure.command),
            "details": failure.stderr,
            "seconds": time.monotonic() - start,
        }
    except MinitensorError as failure:
        return {"error": failure.message, "command": [], "details": "", "seconds": 0.0}
    return {"library": str(compiled.path), "command": list(compiled.command)}
