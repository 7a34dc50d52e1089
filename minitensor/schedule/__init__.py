"""Layer 3: the primitives, their legality, traces and decisions. The user says *how* here.

A primitive is a pure function from a program to a program; `Schedule` records what was applied.
Read in this order: `primitive` (the record of one), `edit` (finding and replacing statements),
`dependence` (which iterations may change places), `loops`, `execution`, `inline`, `insertion`,
`compute_at`, `cache`, `rfactor`, `layout`, `tensorize`, `decisions`, then `invariants`, `decided`,
`trace` and `schedule`.
"""

# fmt: off
from minitensor.schedule.decided import Decided, Derived, Ref
from minitensor.schedule.decisions import ROOT, compute_locations, divisors, draw_factors
from minitensor.schedule.layout import IndexMap
from minitensor.schedule.primitive import Primitive, Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene
from minitensor.schedule.schedule import REGISTRY, Schedule, Trace
from minitensor.schedule.trace import Step

__all__ = [
    "REGISTRY", "ROOT", "Decided", "Derived", "IndexMap", "Primitive", "Ref", "Rewritten", "Scene",
    "Schedule", "Step", "Trace", "compute_locations", "divisors", "draw_factors", "primitive",
    "refuse",
]
