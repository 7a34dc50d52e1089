"""Layer 3: the primitives, their legality, traces and decisions. The user says *how* here.

A primitive is a pure function from a program to a program; `Schedule` records what was applied.
Read in this order: `primitive` (the record of one) and `signature`, `edit` (finding and replacing
statements), `dependence` (which iterations may change places), `loops`, `execution`, `inline`,
`insertion`, `compute_at`, `cache`, `reciprocal`, `widen`, `pad`, `rfactor`, `layout`, `sums`,
`zeros`, `skip_zeros` and `skip_padding`, `tensorize`, `prefetch`, `decisions`, `candidates` and
`sample_tile`, then `invariants`, `step`, `trace` and `schedule`.
"""

# fmt: off
from minitensor.schedule.arguments import BlockName, BufferName, LoopName
from minitensor.schedule.batch import Batch, Bodies, Effect, StepView
from minitensor.schedule.candidates import REQUIREMENT
from minitensor.schedule.decisions import (
    ROOT, compute_locations, divisors, draw_factors, prime_powers,
)
from minitensor.schedule.layout import IndexMap
from minitensor.schedule.primitive import Primitive, Rewritten, primitive
from minitensor.schedule.refusal import refuse
from minitensor.schedule.scene import Scene
from minitensor.schedule.schedule import REGISTRY, Schedule, Trace
from minitensor.schedule.step import Decided, Derived, Ref, Step
from minitensor.schedule.step import resolved as resolved_by

__all__ = [
    "REGISTRY", "REQUIREMENT", "ROOT", "Batch", "BlockName", "Bodies", "BufferName", "Decided",
    "Derived", "Effect", "IndexMap", "LoopName", "Primitive", "Ref", "Rewritten", "Scene",
    "Schedule", "Step", "StepView", "Trace", "compute_locations", "divisors", "draw_factors",
    "prime_powers", "primitive", "refuse", "resolved_by",
]
