"""What a search chooses from: sketches, their open decisions, and annotation.

Read in this order: `choices` (a candidate as numbers), `open` (what a sketch leaves open),
`annotate` (threads, vectors, straight code), `space` (drawing and changing candidates).
"""

# fmt: off
from minitensor.search.space.choices import GRANULARITY, UNROLL, Choices, Knob, Mutations, Value
from minitensor.search.space.space import MOST_LOCATIONS, Plan, Space

__all__ = [
    "GRANULARITY", "MOST_LOCATIONS", "UNROLL", "Choices", "Knob", "Mutations", "Plan", "Space",
    "Value",
]
