"""Layer 4: the cost of a GPU kernel, computed from its program without running it.

In reading order: `kernels` (the accesses and statements of an SPMD program), `warps` (the addresses
of the lanes of a warp: sectors, bank conflicts), `reuse` (loads that stay in registers),
`instructions`, `residency` (occupancy), `footprint` (bytes through caches), `latency`, `rates` (how
fast each GPU is), `remarks`, `result` and `cost` (the time, and what bounds it), `draw`.
Modules are imported when one of their names is first used.
"""

# fmt: off
import importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from minitensor.gpu.cost import cost_of, registers_of
    from minitensor.gpu.draw import access_pictures
    from minitensor.gpu.instructions import Instructions
    from minitensor.gpu.kernels import Kernel, Site, kernels_of
    from minitensor.gpu.residency import Occupancy, occupancy
    from minitensor.gpu.rates import RATES, Rates
    from minitensor.gpu.result import Cost, KernelCost
    from minitensor.gpu.warps import Traffic, addresses, bank_cycles, executions, traffic_of

_MODULES = (
    "cost", "draw", "instructions", "kernels", "rates", "residency", "result", "warps",
)

__all__ = [
    "RATES", "Cost", "Instructions", "Kernel", "KernelCost", "Occupancy", "Rates", "Site",
    "Traffic", "access_pictures", "addresses", "bank_cycles", "cost_of", "executions", "kernels_of",
    "occupancy", "registers_of", "traffic_of",
]


def __getattr__(name: str) -> _Any:
    for module in _MODULES if name in __all__ else ():
        found = importlib.import_module(f"{__name__}.{module}")
        if hasattr(found, name):
            return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
