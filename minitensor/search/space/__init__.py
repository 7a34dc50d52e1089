"""The space of a search: sketches, their open decisions, and annotation.

Read in this order: `candidate` (a candidate as numbers), `open` (the knobs of a sketch, and from a
trace back to the candidate), `template` (the sketches of a user's function), `annotate` (threads,
vectors, straight code), `choices` (drawing and changing candidates), `resources` (of a GPU),
`space` (all of it), `adapted` (from schedules of alike programs), `words` (for people).
"""

# fmt: off
from minitensor.search.space.adapted import adapted
from minitensor.search.space.candidate import (
    GRANULARITY, UNROLL, USUAL, Candidate, Knob, Move, Mutations, Value, weighted,
)
from minitensor.search.space.space import MOST_LOCATIONS, Plan, Space
from minitensor.search.space.words import changes, decisions, move_name

__all__ = [
    "GRANULARITY", "MOST_LOCATIONS", "UNROLL", "USUAL", "Candidate", "Knob", "Move", "Mutations",
    "Plan", "Space", "Value", "adapted", "changes", "decisions", "move_name", "weighted",
]
