"""All tests in two processes at once, as a machine of two cores can: what `make test` runs.

    python -m tests.halves [--quick] [arguments for pytest]

    --quick  what `make quick` runs: no property tests, and none that takes long

What only computes runs beside what builds, starts processes and measures, of which one thing at a
time is done. The output of the second half is shown as it comes, that of the first at the end. The
exit status is 0 if both succeed; without them, `python -m pytest` runs the same tests.
"""

import subprocess
import sys
import tempfile

COMPUTING = ("tests/unit", "tests/property", "tests/course", "tests/outside", "tutorials")
RUNNING = ("tests/run", "tests/gpu")
"""All folders with tests between them (see tests/unit/test_halves.py). The first half has the
lessons too, so that both take about as long.
"""
QUICK = ("-m", "not slow and not whole")
MOVED = "tests/unit/search"
"""What the second half does of the first's when they are quick: it has less to do then."""


def main(arguments: list[str]) -> int:
    """Run both; end both if interrupted."""
    computing, running = COMPUTING, RUNNING
    if arguments[:1] == ["--quick"]:
        computing = (*computing[:1], f"--ignore={MOVED}")
        running = (*running[:1], MOVED)
        arguments = [*QUICK, *arguments[1:]]
    pytest = [sys.executable, "-m", "pytest", *arguments]
    with tempfile.TemporaryFile() as kept:
        print(f"both at once: {' '.join(computing)}, and {' '.join(running)}:", flush=True)
        first = subprocess.Popen([*pytest, *computing], stdout=kept, stderr=subprocess.STDOUT)
        try:
            second = subprocess.call([*pytest, *running])
            first.wait()
        except BaseException:
            first.kill()
            first.wait()
            raise
        finally:
            kept.seek(0)
            print(f"\n{' '.join(computing)}:", flush=True)
            sys.stdout.buffer.write(kept.read())
            sys.stdout.flush()
    return int(first.returncode != 0 or second != 0)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
