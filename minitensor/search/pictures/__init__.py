"""Pictures of a search, and its report: one HTML file (docs/pictures.md).

`trees` (the derivation of sketches, a tree of a cost model), `curves` (the learning curve,
predicted against measured, the roofline), `report` (all of them on a page), `replay` (a report from
a log alone), `tasks` (the search for a network).
"""

from minitensor.search.pictures.replay import about, groups_of, searched_of
from minitensor.search.pictures.report import Searched
from minitensor.search.pictures.tasks import Layer, tasks_picture
from minitensor.search.pictures.trees import ensemble_picture, sketches_picture

__all__ = [
    "Layer", "Searched", "about", "ensemble_picture", "groups_of", "searched_of",
    "sketches_picture", "tasks_picture",
]  # fmt: skip
