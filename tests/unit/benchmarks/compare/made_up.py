"""Made-up results: nothing is measured."""

from benchmarks.compare.results import Entry, Report, Result, Run
from minitensor.runtime import Limits

LIMITS = Limits(1, 512, 100.0, 100.0, 30.0, 28.0, 29.0)
ABOUT = {
    "date": "2026-11-21 13:05 UTC",
    "machine": {"cpu": "Some CPU (R) 9", "cores": 2, "system": "Linux", "load": [0, 0, 0]},
    "compiler": {"version": "gcc 12", "flags": ["-O2"]},
    "versions": {"numpy": "2.0"},
    "environment": {},
    "rule": "in turns",
    "pace": {"rounds": 3, "burst": 0.04, "warm": 0.01, "least_calls": 3},
}


def entry(name, *fastest, bound=False):
    return Entry(name, list(fastest), list(fastest), bound)


def matmul(**changes):
    """1 GFLOP: 10, 20 and 12.5 ms of ours; bound 9 ms; the machine does 100 GFLOP/s."""
    entries = [
        entry("ours", 0.010, 0.020, 0.0125),
        entry("ours bound", 0.009, 0.009, 0.009, bound=True),
        entry("numpy", 0.020, 0.050, 0.015),
        entry("onnxruntime", 0.011, 0.011, 0.011),
        entry("onnxruntime bound", 0.0081, 0.0081, 0.0081, bound=True),
    ]
    values = {
        "key": "matmul-8",
        "name": "matmul 8",
        "kind": "matmul",
        "parameters": {"m": 8, "n": 8, "k": 8},
        "flop": 10**9,
        "bytes": 10**6,
        "entries": entries,
        "roof": [100e9, 50e9, 100e9],
        "dropped": {"tvm": "RuntimeError: no\nmore lines"},
    }
    return Result(**{**values, **changes})


def copying():
    entries = [entry("ours", 0.1, 0.1), entry("numpy", 0.2, 0.2)]
    return Result("copy", "copying", "elementwise", {"n": 1}, 0, 2 * 10**9, entries, [25e9, 25e9])


def report():
    runs = [Run(1, [0], LIMITS, [matmul(), copying()]), Run(2, [0, 1], LIMITS, [matmul()])]
    return Report(dict(ABOUT), runs)
