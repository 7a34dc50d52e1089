"""The kernels of bad_kernels.c as candidates, and what should become of each."""

import os
from pathlib import Path

import minitensor as mt
from minitensor.codegen import Emitted
from minitensor.search.runner import Status, Task

SOURCE = Path(__file__).with_suffix(".c").read_text(encoding="utf-8")
COUNT = 4096
GOOD = ("ok_0", "ok_1", "ok_2", "ok_3")
BAD = {
    "crashes": Status.CRASH,
    "aborts": Status.CRASH,
    "exits": Status.EXIT,
    "divides": Status.CRASH,
    "overflows_the_stack": Status.CRASH,
    "hangs": Status.TIMEOUT,
    "stops": Status.STOPPED,
    "forks": Status.PROCESSES,
    "forks_away": Status.PROCESSES,
    "forks_and_dies": Status.CRASH,
    "writes_beyond": Status.BOUNDS,
    "reads_beyond": Status.BOUNDS,
    "changes_its_input": Status.WRONG,
    "fast_nan": Status.WRONG,
    "fast_incomplete": Status.INCOMPLETE,
    "fast_nothing": Status.INCOMPLETE,
    "fast_wrong": Status.WRONG,
    "fast_once": Status.INCOMPLETE,
    "rounds_up": Status.WRONG,
    "allocates": Status.MEMORY,
    "writes_a_file": Status.CRASH,
    "prints": Status.INCOMPLETE,
    "garbles": Status.INVALID,
    "closes": Status.EXIT,
    "returns_a_check": Status.CHECK,
    "kills_its_parent": Status.CRASH,
}
"""All but one, which takes long."""
FAST = tuple(name for name in BAD if name.startswith("fast_"))


def doubled():
    """B = 2 * A, of COUNT floats."""
    a = mt.placeholder((COUNT,), "float32", name="A")
    return mt.lower([a, mt.compute((COUNT,), lambda i: a[i] * 2.0, name="B")], name="doubled")


def task():
    """What the kernels should compute, on one core."""
    return Task.of(doubled(), mt.Target("c", num_cores=1))


def kernel(name, task, source=SOURCE):
    """A kernel as a candidate."""
    return Emitted(
        source=source,
        entry=name,
        params=task.params,
        outputs=task.outputs,
        checks=(),
        workspace=0,
        target=task.target,
        name=name,
    )


def processes_with(text, file="maps"):
    """The other processes that have this text in a file of /proc: by default, in the path of what
    they have loaded.
    """
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            told = Path("/proc", pid, file).read_text()
        except OSError:
            continue
        if int(pid) != os.getpid() and text in told:
            found.append(int(pid))
    return found
