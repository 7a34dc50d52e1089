"""What each group of steps of a schedule by hand is worth: from the definition to the best.

    python -m benchmarks.steps                        every workload of tutorials.schedules
    python -m benchmarks.steps matmul-512 'conv-*'    some of them

A figure is the fastest of a few calls: this is about factors, for teaching. For ratios to others
see `benchmarks.compare`. Uses as many threads as OMP_NUM_THREADS says, or all cores.
"""

from __future__ import annotations

import argparse
import fnmatch
from collections.abc import Iterator

import numpy as np

import minitensor as mt
from benchmarks.common import machine
from benchmarks.compare.work import normal_arrays
from minitensor.runtime import Clock, Pace, native_target, take_turn
from tutorials.schedules import HAND_SCHEDULES, HandSchedule, scheduled

PACE = Pace(burst=0.0, least_calls=5)


def timed_steps(hand: HandSchedule, target: mt.Target) -> Iterator[tuple[str, float]]:
    """The title of each group of steps, the definition first, and seconds of a call after it."""
    titles = ["as written"]
    titles += [title for title, _ in hand.steps(mt.Schedule(hand.define()), target)]
    program = hand.define()
    arrays = list(normal_arrays([b.shape for b in program.inputs]))
    arrays += [np.empty(b.shape, np.float32) for b in program.outputs]
    for steps, title in enumerate(titles):
        call = mt.build(scheduled(hand, target, steps), target).prepare(*arrays)
        yield title, min(take_turn(call, PACE, Clock()))


def main() -> None:
    parser = argparse.ArgumentParser(description="time each group of steps of the hand schedules")
    parser.add_argument("names", nargs="*", default=["*"], metavar="NAME")
    wanted = parser.parse_args().names
    chosen = [key for key in HAND_SCHEDULES if any(fnmatch.fnmatch(key, name) for name in wanted)]
    if not chosen:
        parser.error(
            f"no workload is called {' or '.join(wanted)}; there are {', '.join(HAND_SCHEDULES)}"
        )
    target = native_target(mt.Target("c"))
    print(machine())
    for key in chosen:
        hand = HAND_SCHEDULES[key]
        print(f"\n{hand.name}, {target.num_cores} threads", flush=True)
        first = None
        for title, seconds in timed_steps(hand, target):
            first = first or seconds
            work, unit = (hand.flop, "GFLOP/s") if hand.flop else (hand.bytes, "GB/s")
            rate = work / seconds / 1e9
            line = f"  {title:18} {seconds * 1e3:10.3f} ms {rate:8.2f} {unit:7}"
            print(f"{line} {first / seconds:8.1f} x", flush=True)


if __name__ == "__main__":
    main()
