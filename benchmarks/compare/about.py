"""The circumstances of a measurement: all that it takes to judge or repeat it."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.compare.baselines import BASELINES
from benchmarks.compare.launch import environment
from minitensor.runtime import RULE, Pace, cpu_name, find_toolchain, usable_cores
from minitensor.version import __version__


def about(pace: Pace, baselines: Sequence[str]) -> dict[str, Any]:
    """The date, the machine, the compiler and its flags, versions, the environment, the rule."""
    toolchain = find_toolchain()
    release = ".".join(platform.release().split(".")[:2])  # the rest names a builder's machine
    versions = {"minitensor": __version__, "Python": platform.python_version()}
    for baseline in map(BASELINES.__getitem__, baselines):
        versions |= baseline.versions
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": {
            "cpu": cpu_name(),
            "cores": usable_cores(),
            "system": f"{platform.system()} {release} {platform.machine()}",
            "load": list(os.getloadavg()),
            "vector_bits": toolchain.vector_bits,
        },
        "compiler": {
            "version": toolchain.version,
            "flags": [*toolchain.flags, *toolchain.libraries],
        },
        "versions": versions,
        "environment": {
            **environment(0),
            **{name: "the number of threads" for name, n in environment(0).items() if n == "0"},
            "TVM_BIND_THREADS": "0",
        },
        "rule": RULE,
        "pace": asdict(pace),
    }
