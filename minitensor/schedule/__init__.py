"""Layer 3: the primitives, their legality, traces and decisions. The user says *how* here.

A primitive is a pure function from a program to a program; `Schedule` records what was applied.
Read in this order: `primitive` (what one is), `locate` and `splice` (finding and replacing),
`legality` (what may run in another order), `loops`, `execution`, `inline`, `place`, `compute_at`,
`cache`, `rfactor`, `layout`, `tensorize`, `decide`, then `trace` and `schedule`.
"""

# fmt: off
from minitensor.schedule.decide import ROOT, compute_locations, divisors, draw_factors
from minitensor.schedule.layout import IndexMap
from minitensor.schedule.primitive import REGISTRY, Primitive, Rewritten, primitive, refuse
from minitensor.schedule.schedule import Schedule, Trace
from minitensor.schedule.trace import Ref, Step

__all__ = [
    "REGISTRY", "ROOT", "IndexMap", "Primitive", "Ref", "Rewritten", "Schedule", "Step", "Trace",
    "compute_locations", "divisors", "draw_factors", "primitive", "refuse",
]
