"""Sketches: schedules whose structure is derived by rules, and whose numbers are left open.

Read in this order: `predicates` (what a block is like), `state`, `tiling`, `rules` (Ansor's);
`operands`, `factors`, `layouts`, `register_tiles`, `padding`, `windows`, `row_sums`, `row_chains`,
`transposed`, `stages`, `transforms`, `default` (ours); `derive`.
"""

from minitensor.search.sketch.derive import Sketch, generate_sketches
from minitensor.search.sketch.rules import Rule, Verdict
from minitensor.search.sketch.state import Derived, State

__all__ = ["Derived", "Rule", "Sketch", "State", "Verdict", "generate_sketches"]
