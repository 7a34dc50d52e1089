"""minitensor: a tensor-program compiler and auto-scheduler that one person can read.

    import minitensor as mt

    A = mt.placeholder((M, K), name="A")                    # what
    B = mt.placeholder((K, N), name="B")
    k = mt.reduce_axis((0, K), name="k")
    C = mt.compute((M, N), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
    program = mt.lower([A, B, C], name="matmul")

    s = mt.Schedule(program)                                # how
    i, j, k = s.get_loops("C")
    jo, ji = s.split(j, [None, 32])
    s.reorder(i, jo, k, ji)
    s.vectorize(ji)

    kernel = mt.build(s)                                    # run
    c = kernel(a, b)

The packages, in the order of processing: `lang` (what), `ir` (the loop nests), `arith` (reasoning
about indices), `schedule` (how), `codegen`, `runtime`. docs/architecture.md is the map.
"""

# fmt: off
import importlib
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from minitensor import interrupt as _interrupt
from minitensor import pictures as _pictures
from minitensor.errors import (
    ArgumentError, CompileError, ExecutionError, LoweringError, MeasureError, MinitensorError,
    ScheduleArgumentError, ScheduleError, TuningError, VerifyError,
)
from minitensor.ir import Intrinsic, Program, from_bfloat16, to_bfloat16
from minitensor.lang import (
    Tensor, argmax, argmin, ceil, comm_reducer, compute, const, cos, erf, exp, expm1, floor,
    if_then_else, intrinsic, intrinsics, log, log1p, logical_and, logical_not, logical_or, lower,
    maximum, minimum, ops, placeholder, popcount, power, prod, reduce_axis, rsqrt, select, sigmoid,
    sin, sqrt, tanh, update, var, workloads,
)
from minitensor.lang import abs_ as abs
from minitensor.lang import all_ as all
from minitensor.lang import any_ as any
from minitensor.lang import max_ as max
from minitensor.lang import min_ as min
from minitensor.lang import round_ as round
from minitensor.lang import sum_ as sum
from minitensor.phrasebook import PHRASES as _PHRASES
from minitensor.phrasebook import unknown_name as _unknown_name
from minitensor.schedule import Schedule, Trace, primitive, refuse
from minitensor.version import __version__

if _TYPE_CHECKING:
    from minitensor import accelerator, graph, sanitize, search, testing
    from minitensor.api import build, explain, gpu_cost, interpret, simplify, verify
    from minitensor.codegen import Target
    from minitensor.runtime import Kernel
    from minitensor.search import apply_history_best, load_best, schedule_for, tune

_LATER = {
    "api": ("build", "explain", "gpu_cost", "interpret", "simplify", "verify"),
    "codegen": ("Target",),
    "runtime": ("Kernel",),
    "search": ("apply_history_best", "load_best", "schedule_for", "tune"),
    "accelerator": (),
    "gpu": (),
    "graph": (),
    "sanitize": (),
    "testing": (),
}
"""The packages that a definition and its schedule do not need, with the names that are here too:
imported when one is first used."""

__all__ = [
    "ArgumentError", "CompileError", "ExecutionError", "Intrinsic", "Kernel", "LoweringError",
    "MeasureError", "MinitensorError", "Program", "Schedule", "ScheduleArgumentError",
    "ScheduleError", "Target", "Tensor", "Trace", "TuningError", "VerifyError", "__version__",
    "abs", "accelerator", "all", "any", "apply_history_best", "argmax", "argmin", "build", "ceil",
    "comm_reducer",
    "compute", "const", "cos", "erf", "exp", "explain", "expm1", "floor", "from_bfloat16",
    "gpu_cost", "graph", "if_then_else", "interpret", "intrinsic", "intrinsics", "load_best", "log",
    "log1p", "logical_and", "logical_not", "logical_or", "lower", "max", "maximum", "min",
    "minimum", "ops", "placeholder", "popcount", "power", "primitive", "prod", "reduce_axis",
    "refuse", "round", "rsqrt", "schedule_for", "search", "select", "sigmoid", "simplify", "sin",
    "sqrt", "sum", "tanh", "testing", "to_bfloat16", "tune", "update", "var", "verify", "workloads",
]


def __dir__() -> list[str]:
    packages = ("arith", "codegen", "errors", "ir", "lang", "runtime", "sanitize", "schedule")
    return sorted({*__all__, *packages, *(name for name in globals() if name.startswith("__"))})


if not _TYPE_CHECKING:  # a checker knows what there is

    def __getattr__(name: str) -> _Any:
        for package, names in _LATER.items():
            if name == package:
                return importlib.import_module(f"{__name__}.{package}")
            if name in names:
                found = getattr(importlib.import_module(f"{__name__}.{package}"), name)
                return globals().setdefault(name, found)
        unknown = _unknown_name("mt", name, "minitensor", __all__)
        if name in _PHRASES["mt"] and _sys._getframe(1).f_code.co_name == "_handle_fromlist":
            raise ImportError(str(unknown), name=__name__)  # from minitensor import name
        raise unknown


def _api() -> _Any:
    return importlib.import_module(f"{__name__}.api")


_pictures.caches_by(lambda: _api().caches())
_pictures.lanes_by(lambda program: _api().lanes(program))
