"""Run as a process: kernels built, loaded and called; what the process was before and after.

    python -m tests.run.runtime.hosted COUNT        the kernels, of which CFLAGS may say how
    python -m tests.run.runtime.hosted COUNT FILE   the library FILE loaded instead of them

The last line on stdout is JSON: a pair for everything that differs, {} if nothing does.
"""

from __future__ import annotations

import ctypes
import decimal
import gc
import json
import locale
import logging
import os
import platform
import random
import resource
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np

STATUS = (
    "SigPnd",
    "SigBlk",
    "SigIgn",
    "SigCgt",
    "ShdPnd",
    "Umask",
    "NoNewPrivs",
    "Seccomp",
)
"""Fields of /proc/self/status. SigQ is none: it counts the signals of all the user's processes."""
STICKY = 0x3F
"""The bits of MXCSR that say which exceptions there were since someone last looked."""


def floating_point():
    """How this thread calculates: control words, and what they lead to."""
    control = ctypes.create_string_buffer(256)
    assert ctypes.CDLL(None).fegetenv(control) == 0
    words = np.frombuffer(control.raw, np.uint32)
    state = {"rounding": ctypes.CDLL(None).fegetround()}
    if platform.machine() in ("x86_64", "AMD64"):  # glibc: the x87 environment, then MXCSR
        state |= {"x87": int(words[0]) & 0xFFFF, "mxcsr": int(words[7]) & ~STICKY}
    elif platform.machine() == "aarch64":
        state["fpcr"] = int(words[0])
    for kind, tiny in ((np.float32, 1e-40), (np.float64, 1e-310)):
        small = np.full(33, tiny, kind)
        third = np.ones(3, kind) / kind(3)
        state[kind.__name__] = [(small * kind(0.5)).tobytes().hex(), third.tobytes().hex()]
    state["long double"] = (np.longdouble(1) / np.longdouble(3)).tobytes()[:10].hex()
    state["python"] = [(5e-324 * 1.0).hex(), (2.2250738585072014e-308 / 2).hex(), (1 / 3).hex()]
    return state


def environment_of_c():
    """The environment as C code sees it."""
    variables = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    found = []
    while variables[len(found)] is not None:
        found.append(variables[len(found)].decode("utf-8", "replace"))
    return found


def files():
    """What every open descriptor is; the one that lists them is gone by then."""
    return {
        number: os.readlink(f"/proc/self/fd/{number}")
        for number in os.listdir("/proc/self/fd")
        if os.path.lexists(f"/proc/self/fd/{number}")
    }


def of_linux():
    """What only Linux tells."""
    lines = dict(
        line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines()
    )
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    return {
        "status": {key: lines[key] for key in STATUS if key in lines},
        "stack": [words[1] for words in maps if words[-1] == "[stack]"],
        "writable code": [words for words in maps if "w" in words[1] and "x" in words[1]],
        "descriptors": files(),
        "affinity": sorted(os.sched_getaffinity(0)),
    }


def state():
    """Everything of this process that is not minitensor's."""
    mask = os.umask(0)
    os.umask(mask)
    kind, *numbers = np.random.get_state()
    found = {
        "floating point": floating_point(),
        "handlers": {n.name: repr(signal.getsignal(n)) for n in signal.Signals},
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "wake-up": signal.set_wakeup_fd(-1),
        "timers": [signal.getitimer(n) for n in (signal.ITIMER_REAL, signal.ITIMER_PROF)],
        "environ": dict(os.environ),
        "environ of C": environment_of_c(),
        "folder": os.getcwd(),
        "umask": mask,
        "nice": os.nice(0),
        "limits": {
            name: resource.getrlimit(getattr(resource, name))
            for name in dir(resource)
            if name.startswith("RLIMIT_")
        },
        "random": repr(random.getstate()),
        "numpy.random": [kind, *map(repr, map(np.ndarray.tolist, map(np.asarray, numbers)))],
        "locale": locale.setlocale(locale.LC_ALL),
        "time zone": time.tzname,
        "decimal": repr(decimal.getcontext()),
        "path": list(sys.path),
        "loggers": {
            name: [repr(logger.handlers), logger.level, logger.propagate, logger.disabled]
            for name, logger in (
                ("root", logging.getLogger()),
                ("minitensor", logging.getLogger("minitensor")),
            )
        },
        "warnings": repr(warnings.filters),
        "numpy": [np.geterr(), repr(np.geterrcall()), repr(np.get_printoptions())],
        "streams": [repr(sys.stdin), repr(sys.stdout), repr(sys.stderr)],
        "hooks": [repr(h) for h in (sys.excepthook, sys.displayhook, threading.excepthook)],
        "tracing": [repr(sys.gettrace()), repr(sys.getprofile())],
        "interpreter": [sys.getrecursionlimit(), sys.getswitchinterval()],
        "gc": [gc.isenabled(), gc.get_threshold(), len(gc.callbacks)],
        "threads of Python": sorted(thread.name for thread in threading.enumerate()),
        "children": children(),
    }
    return found | (of_linux() if sys.platform.startswith("linux") else {})


def children():
    """Whether a child waits to be noticed, or runs."""
    try:
        return str(os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        return "none"


def kernels(count):
    """Build and call so many different kernels; each result is compared with numpy's."""
    import minitensor as mt  # noqa: PLC0415 - its import is watched too

    functions = [(mt.exp, np.exp), (mt.tanh, np.tanh), (mt.sqrt, np.sqrt), (mt.log, np.log)]
    for number in range(count):
        ours, theirs = functions[number % len(functions)]
        size = 64 + number
        A = mt.placeholder((4, size), name="A")
        C = mt.compute((4, size), lambda i, j: ours(A[i, j]) * 0.5, name="C")
        s = mt.Schedule(mt.lower([A, C], name=f"kernel_{number}"))
        i, j = s.get_loops("C")
        _, j_1 = s.split(j, [None, 8])
        s.vectorize(j_1)
        if number % 2:
            s.parallel(i)
        given = np.linspace(0.25, 2, 4 * size, dtype="f").reshape(4, size)
        result = mt.build(s, mt.Target("c", num_cores=2))(given)
        np.testing.assert_allclose(result, theirs(given) * np.float32(0.5), rtol=1e-5)


def main(count, library=None):
    """The differences."""
    random.seed(1)
    np.random.seed(1)
    state()  # the first look makes what looking needs
    first = threading.Thread(target=int)  # glibc catches a signal of its own from then on
    first.start()
    first.join()
    before = state()
    if library is None:
        kernels(int(count))
    else:
        ctypes.CDLL(library)
    after = state()
    return {name: [before[name], after[name]] for name in before if before[name] != after[name]}


if __name__ == "__main__":
    print("\n" + json.dumps(main(*sys.argv[1:]), default=str))
