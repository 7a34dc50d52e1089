"""Processes that are copies of one that has imported minitensor and done nothing else: a test that
needs a process of its own, with other variables, need not wait for the imports again.

    with Copies() as copies:
        done = copies.run(["-m", "minitensor", "doctor"], environment, folder)

Run as a process, `python -m tests.run.runtime.copied`, it is the one that is copied.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
ALONE = {"OPENBLAS_NUM_THREADS": "1"}
"""Variables that leave numpy one thread: more would not be copied."""
COMMAND = "import sys\nfrom minitensor.cli import main\nsys.exit(main())\n"
PATIENCE = 300
"""Seconds after which a copy is ended by a signal."""


class Copies:
    """A process that copies itself, seen from the one that asks."""

    def __init__(self):
        self.scratch, self.count = tempfile.TemporaryDirectory(), 0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.run.runtime.copied"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ALONE, "PYTHONPATH": f"{ROOT}{os.pathsep}{self.scratch.name}"},
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()
        self.scratch.cleanup()

    def run(self, words, environment, folder):
        """What `subprocess.run` gives for Python with these words: "-c" and a text, or "-m" and
        "minitensor", and the rest.
        """
        kind, what, *rest = words
        assert kind == "-c" or (kind, what) == ("-m", "minitensor")
        scratch, self.count = Path(self.scratch.name), self.count + 1
        text = what if kind == "-c" else COMMAND
        (scratch / f"text_{self.count}.py").write_text(text)
        streams = [str(scratch / f"std{name}") for name in ("out", "err")]
        asked = [f"text_{self.count}", rest, environment, str(folder), streams]
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        status = json.loads(self.process.stdout.readline())
        texts = []
        for path in map(Path, streams):
            texts.append(path.read_text(errors="replace"))
            path.unlink()
        return subprocess.CompletedProcess(words, status, *texts)


def main():
    """Make a copy for each line of stdin, and print how it ended."""
    importlib.import_module("minitensor.cli")
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            become(*asked)
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def become(module, words, environment, folder, streams):
    """Do in this process what a new one would do with the text of a module."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, name in enumerate([os.devnull, *streams]):
        opened = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    signal.alarm(PATIENCE)
    sys.argv = ["-c", *words]
    importlib.invalidate_caches()
    importlib.import_module(module)


if __name__ == "__main__":
    main()
