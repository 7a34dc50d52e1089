"""Run as a process: builds and commands with hostile text, under the eyes of an audit hook.

    python -m tests.run.watched FIRST COUNT FOLDER

The last line on stdout is JSON: which processes were started, and which files were opened to be
written, from the first build on; and what went wrong.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys

import numpy as np

import minitensor as mt
from minitensor.cli import main
from tests.hostile import HOSTILE
from tests.unit.hostile_schedule import COUNT, arrays, benign, scheduled

PROCESSES = {
    *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"),
    *("os.startfile", "pty.spawn"),
}
"""Events that are a process begun by other means than subprocess."""

started: list[list[str]] = []
others: list[str] = []
written: list[str] = []
watching = False


def watch(event, arguments):
    """What Python tells of."""
    if not watching:
        return
    if event == "subprocess.Popen":
        started.append([os.fsdecode(word) for word in arguments[1]])
    elif event in PROCESSES:
        others.append(event)
    elif event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        written.append(str(arguments[0]))


def builds(first, count):
    """Kernels of schedules whose names are hostile, the first of them benign: what went wrong."""
    wrong = []
    given = arrays()
    expected = mt.build(scheduled(benign))(*given)
    for start in range(first, min(first + count, len(HOSTILE)), COUNT):
        names = (HOSTILE * 2)[start : start + COUNT]
        results = mt.build(scheduled(lambda n, names=names: names[n]))(*given)
        if not all(np.array_equal(a, b) for a, b in zip(results, expected)):
            wrong.append(f"names {start}: other results")
    return wrong


def commands(first, count):
    """Command lines with hostile words, each text in two of five: what went wrong."""
    wrong = []
    for number, text in enumerate(HOSTILE[first : first + count], first):
        lines = (
            ["compile", "matmul", "--small", text.lstrip("-")],  # not --output
            ["compile", text, "--assembly"],
            ["compile", "matmul", "--size", f"m=4,n=4,k=4,dtype={text}", "--assembly"],
            ["explain", "matmul", "--small", "--trace=" + text],
            ["show", "matmul", "--small", "--lowered", "--target", text],
        )
        for words in (lines[number % 5], lines[(number + 1 + number // 5 % 4) % 5]):
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                status = main(words)
            if status not in (0, 1, 2) or "Traceback" in said.getvalue():
                wrong.append(f"{words}: {status} {said.getvalue()[-500:]}")
    return wrong


def report(first, count, folder):
    """Everything, as JSON."""
    global watching  # noqa: PLW0603 - a hook cannot be removed
    os.chdir(folder)
    sys.addaudithook(watch)
    watching = True
    wrong = builds(first, count) + commands(first, count)
    watching = False
    return json.dumps({"started": started, "others": others, "written": written, "wrong": wrong})


if __name__ == "__main__":
    print("\n" + report(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
