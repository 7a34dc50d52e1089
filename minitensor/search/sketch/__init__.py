"""Sketches: schedules whose structure is derived by rules, and whose numbers are left open.

Read in this order: `predicates` (what a block is like), `state`, `tiling`, `rules` (Ansor's);
`operands`, `factors`, `layouts`, `register_tiles`, `padding`, `windows`, `row_sums`, `row_chains`,
`transposed`, `stages`, `transforms`, `default` (ours); `derive`.
"""

# fmt: off
from minitensor.search.sketch.default import DEFAULT as DEFAULT_RULES
from minitensor.search.sketch.derive import RULES, Rules, Sketch, check_rules, generate_sketches
from minitensor.search.sketch.rules import Rule, SketchRule, Verdict
from minitensor.search.sketch.state import Derived, State

__all__ = [
    "DEFAULT_RULES", "RULES", "Derived", "Rule", "Rules", "Sketch", "SketchRule", "State",
    "Verdict", "check_rules", "generate_sketches",
]
