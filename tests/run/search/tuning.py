"""Run as a process: a search that is at work until it is ended from outside.

    python -m tests.run.search.tuning WHAT

Prints "at work" when it begins. The exit status is 7 after Ctrl-C.
"""

import os
import signal
import sys
import time

from minitensor.search.runner import Runner, Settings
from tests.run.search.bad_kernels import kernel, task

HANGS = """
#define _GNU_SOURCE
#include <unistd.h>
int hangs(const float *A, float *B, void *workspace) { for (volatile int i = 0;; i++) {} }
int ends(const float *A, float *B, void *workspace) { return 0; }
int forks_away_and_hangs(const float *A, float *B, void *workspace) {
    for (int i = 0; i < 3; i++)
        if (fork() == 0) {
            if (i) setsid();
            for (;;) pause();
        }
    for (;;) pause();
}
"""
LONG = "".join(
    f"double f{n}(double *x) {{ double s = 0; for (int i = 0; i < 64; i++) {{ "
    + " ".join(f"s += x[i + {k}] * x[{k} * i];" for k in range(60))
    + " } return s; }\n"
    for n in range(400)
)
"""What a compiler has to think about."""


def main(what):
    settings = Settings(time_limit=300, compile_limit=300)
    work = task()
    with Runner(work, settings) as runner:
        if what == "holds_the_pipe":
            ends = HANGS.replace("for (volatile int i = 0;; i++)", "return 0;")
            list(runner.measure([kernel("hangs", work, ends)]))
        print("at work", flush=True)
        if what == "compiles":
            list(runner.measure([kernel("f0", work, LONG)]))
        if what == "holds_the_pipe":
            if os.fork() == 0:  # it has the ends of all pipes now, and outlives its parent
                time.sleep(60)
                os._exit(0)
            list(runner.measure([kernel("hangs", work, HANGS)]))
        list(runner.measure([kernel(what, work, HANGS)]))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if started in the background
    try:
        main(sys.argv[1])
    except KeyboardInterrupt:
        sys.exit(7)
