"""Every benchmark, in one table."""

from __future__ import annotations

from benchmarks import cached_build, call_overhead, compile_time, import_time, replay
from benchmarks.common import Figure, main

MEASURES = (
    replay.measure,
    cached_build.measure,
    call_overhead.measure,
    import_time.measure,
    compile_time.measure,
)


def measure() -> list[Figure]:
    return [figure for one in MEASURES for figure in one()]


if __name__ == "__main__":
    main(measure, __doc__)
