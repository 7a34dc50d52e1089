"""Sketches: schedules whose structure is derived by rules, and whose numbers are left open.

Read in this order: `rule` (states and rules), `blocks` (properties of blocks), `ansor` (Ansor's
rules); `factors`, `tiles`, `windows`, `rows`, `columns`, `transforms` (ours); `gpu_factors`, `gpu`
(Ansor's for a GPU); `derive`; `accelerator` (a template, not rules).
"""

# fmt: off
from minitensor.search.sketch.accelerator import Plan, accelerator_schedule, accelerator_template
from minitensor.search.sketch.derive import DEFAULT as DEFAULT_RULES
from minitensor.search.sketch.derive import RULES, Rules, Sketch, branch_weights, check_rules
from minitensor.search.sketch.derive import generate_sketches
from minitensor.search.sketch.rule import Rule, SketchRule, Verdict
from minitensor.search.sketch.rule import Derived, State

__all__ = [
    "DEFAULT_RULES", "RULES", "Derived", "Plan", "Rule", "Rules", "Sketch", "SketchRule", "State",
    "Verdict", "accelerator_schedule", "accelerator_template", "branch_weights", "check_rules",
    "generate_sketches",
]
