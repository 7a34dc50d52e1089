"""The worker of `run`: it runs the kernel in a folder, and replies with the faults."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from minitensor.errors import MinitensorError
from minitensor.runtime import Parent, find_toolchain, load_kernel
from minitensor.sanitize.builds import Sanitizer, load_sanitized
from minitensor.sanitize.run import run_sanitized


def main() -> None:
    """Serve the process that started this one."""
    with Parent.connected() as parent:
        for request in parent.requests():
            parent.send(_reply(Sanitizer(request["sanitizer"]), Path(request["folder"])))


def _reply(sanitizer: Sanitizer, folder: Path) -> dict[str, Any]:
    emitted, arrays = load_kernel(folder)
    try:
        (kernel,) = load_sanitized(sanitizer, [emitted], find_toolchain())
        found = run_sanitized(sanitizer, kernel, list(arrays.values())).faults
    except MinitensorError as failure:
        return {"error": failure.message}
    return {"faults": [asdict(fault) for fault in found]}


if __name__ == "__main__":
    main()
