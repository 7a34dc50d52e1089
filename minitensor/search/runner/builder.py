"""The process that compiles: what a compiler starts ends with the one who wanted it.

    python -m minitensor.search.runner.builder THREADS

Its standard input is lines of JSON {"id": …, "source": …, "time_limit": …}, and it answers each, in
any order, with what `compile_text` gives. It ends with its input, or with the process that started
it, and so do the compilers, in the middle of their work.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from minitensor.search.runner.compiling import compile_text
from minitensor.search.runner.family import end_children, inherit_orphans

_TICK_MS: Final = 200
_lock: Final = threading.Lock()


def main() -> None:
    """Serve on the standard streams."""
    output, parent = os.dup(sys.stdout.fileno()), os.getppid()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    inherit_orphans()
    pool = ThreadPoolExecutor(int(sys.argv[1]))
    poll, rest = select.poll(), b""
    poll.register(0, select.POLLIN)
    while os.getppid() == parent:
        if not poll.poll(_TICK_MS):
            continue
        read = os.read(0, 1 << 20)
        if not read:
            break
        *whole, rest = (rest + read).split(b"\n")
        for line in whole:
            pool.submit(_answer, json.loads(line), output)
    pool.shutdown(wait=False, cancel_futures=True)
    _lock.acquire(timeout=1)  # nothing is answered any more
    end_children()
    os._exit(0)


def _answer(job: dict[str, Any], output: int) -> None:
    told: dict[str, Any]
    try:
        told = compile_text(job["source"], job["time_limit"])
    except Exception as failure:  # a job without an answer would be waited for
        told = {"error": f"{type(failure).__name__}: {failure}", "command": [], "details": ""}
    line = json.dumps({"id": job["id"], **told}).encode() + b"\n"
    with _lock:
        while line:
            line = line[os.write(output, line) :]


if __name__ == "__main__":
    main()
