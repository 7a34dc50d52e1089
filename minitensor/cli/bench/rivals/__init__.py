"""Everybody else, by name. Each optional package is imported in one file, and only when it plays.

numpy and scipy's OpenBLAS, torch (eager and compiled), onnxruntime, TVM from its tuning records.
None but numpy is a dependency, nor an extra: whoever wants to compare installs them.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from minitensor.cli.bench.contender import Contender
from minitensor.cli.bench.rivals import numpy_rival, onnx_rival, openblas, torch_rival, tvm_rival
from minitensor.cli.bench.work import Work

Enter = Callable[[str, Work, int, Mapping[str, Any]], Iterator[Contender]]
"""The contenders of a rival, by its name, for a work, a number of threads and the options."""


@dataclass(frozen=True, slots=True)
class Rival:
    """Somebody to measure against.

    name      on the command line
    packages  distributions that it needs, by the names they are imported and installed by
    enter     gives the contenders
    asked     whether it takes part only if it is named: what takes long to prepare
    """

    name: str
    packages: Mapping[str, str]
    enter: Enter
    asked: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """What would have to be installed first."""
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
    Rival("numpy", {"numpy": "numpy"}, numpy_rival.contenders),
    Rival("openblas-avx512", {"scipy": "scipy"}, openblas.contenders),
    Rival("torch", {"torch": "torch"}, torch_rival.contenders),
    Rival("inductor", {"torch": "torch"}, torch_rival.contenders, asked=True),
    Rival(
        "onnxruntime",
        {"onnx": "onnx", "onnxruntime": "onnxruntime"},
        onnx_rival.contenders,
    ),
    Rival("tvm", {"tvm": "apache-tvm"}, tvm_rival.contenders),
)
RIVALS: Final[Mapping[str, Rival]] = {rival.name: rival for rival in _ALL}

__all__ = ["RIVALS", "Rival"]
