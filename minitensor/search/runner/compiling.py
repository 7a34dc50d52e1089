"""From C text to a library, in whichever process."""

from __future__ import annotations

from typing import Any

from minitensor.errors import CompileError, MinitensorError
from minitensor.runtime import compile_library, find_toolchain
from minitensor.search.runner.quiet import compiling


def compile_text(source: str, time_limit: float) -> dict[str, Any]:
    """Compile C text, or take it from the cache: {"library", "command"}, paths and words.

    Where that fails {"error", "command", "details"}: the message, and what the compiler printed.
    Nothing is timed meanwhile. Any executor may run this: it takes and gives plain data.
    """
    try:
        with compiling():
            compiled = compile_library(source, find_toolchain(), time_limit)
    except CompileError as failure:
        return {
            "error": failure.message,
            "command": list(failure.command),
            "details": failure.stderr,
        }
    except MinitensorError as failure:
        return {"error": failure.message, "command": [], "details": ""}
    return {"library": str(compiled.path), "command": list(compiled.command)}
