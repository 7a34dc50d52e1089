"""The baselines by name; each optional package is imported in one file, and only when it is timed.

numpy and scipy's OpenBLAS, torch (eager and compiled), onnxruntime, TVM from its tuning records.
None but numpy is a dependency, nor an extra.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.compare.baselines import (
    numpy_baseline,
    onnx_baseline,
    openblas,
    torch_baseline,
    tvm_baseline,
)
from benchmarks.compare.implementation import Implementation
from benchmarks.compare.work import Work

Enter = Callable[[str, Work, int, Mapping[str, Any]], Iterator[Implementation]]
"""Name of the baseline, work, number of threads and options to implementations."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A library to compare with.

    name      on the command line
    packages  distributions that it needs, by the names they are imported and installed by
    enter     gives the implementations
    asked     timed only if it is named: it takes long to prepare
    """

    name: str
    packages: Mapping[str, str]
    enter: Enter
    asked: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """Packages that would have to be installed first."""
        return tuple(
            installed
            for imported, installed in self.packages.items()
            if importlib.util.find_spec(imported) is None
        )

    @property
    def versions(self) -> dict[str, str]:
        """The versions of its packages by name; those that are missing left out."""
        missing = self.missing
        return {
            name: importlib.metadata.version(name)
            for name in self.packages.values()
            if name not in missing
        }


_ALL: Final = (
    Baseline("numpy", {"numpy": "numpy"}, numpy_baseline.implementations),
    Baseline("openblas-avx512", {"scipy": "scipy"}, openblas.implementations),
    Baseline("torch", {"torch": "torch"}, torch_baseline.implementations),
    Baseline("inductor", {"torch": "torch"}, torch_baseline.implementations, asked=True),
    Baseline(
        "onnxruntime",
        {"onnx": "onnx", "onnxruntime": "onnxruntime"},
        onnx_baseline.implementations,
    ),
    Baseline("tvm", {"tvm": "apache-tvm"}, tvm_baseline.implementations),
)
BASELINES: Final[Mapping[str, Baseline]] = {baseline.name: baseline for baseline in _ALL}

__all__ = ["BASELINES", "Baseline"]
