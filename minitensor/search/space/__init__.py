"""What a search chooses from: sketches, their open decisions, and annotation.

Read in this order: `choices` (a candidate as numbers), `open` (what a sketch leaves open),
`annotate` (threads, vectors, straight code), `space`, `vary` (mutation and
crossover).
"""

# fmt: off
from minitensor.search.space.choices import GRANULARITY, UNROLL, Choices, Knob, Value
from minitensor.search.space.space import MOST_LOCATIONS, Plan, Space
from minitensor.search.space.vary import Mutations, crossed, mutated, repaired

__all__ = [
    "GRANULARITY", "MOST_LOCATIONS", "UNROLL", "Choices", "Knob", "Mutations", "Plan", "Space",
    "Value", "crossed", "mutated", "repaired",
]
