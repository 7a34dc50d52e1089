"""The report of a search: its pictures on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from minitensor.errors import CompileError, printable
from minitensor.ir import print_name
from minitensor.looks import shortened
from minitensor.pictures import (
    Picture,
    footprint_picture,
    known_caches,
    nest_picture,
    page_of,
)
from minitensor.runtime import cache_bandwidths
from minitensor.schedule import Schedule
from minitensor.search.gbt import GradientBoostedTrees
from minitensor.search.log import counted
from minitensor.search.pictures.curves import (
    curve_picture,
    predicted_picture,
    roofline_picture,
    tried_picture,
)
from minitensor.search.pictures.trees import ensemble_picture, sketches_picture
from minitensor.search.records import OK
from minitensor.search.sketch import Sketch
from minitensor.search.tried import Tried
from minitensor.search.tune.roofline import Roofline


@dataclass(frozen=True)
class Searched:
    """All that a report shows.

    name      of the program
    tried     every candidate in order
    seconds   of the best
    roofline  of the program
    schedule  the best one; None if it is not known
    model     what was learnt; None if nothing was, and whatever is no trees is not drawn
    sketches  what the rules derive
    steps     of the best, as Python
    notes     sentences on what is left out
    guessed   the way in which the model's scores were made
    """

    name: str
    tried: Sequence[Tried]
    seconds: float
    roofline: Roofline
    schedule: Schedule | None
    model: object
    sketches: Sequence[Sketch]
    steps: str
    notes: Sequence[str] = field(default_factory=tuple)
    guessed: str = "before they were measured"

    def charts(self) -> list[Picture]:
        """The pictures of what was tried; what cannot be drawn is left out."""
        roof, tried = self.roofline, self.tried
        found = (
            curve_picture(tried, roof, self.seconds),
            tried_picture(tried),
            predicted_picture(tried, roof, self.guessed),
            roofline_picture(tried, roof, self.seconds, self._cache_roofs()),
        )
        return [picture for picture in found if picture is not None]

    def pictures(self) -> list[Picture]:
        """The charts, and what is known of the best schedule, the sketches and the model."""
        found: list[Picture | None] = [*self.charts()]
        if self.schedule is not None:
            program = self.schedule.program
            found += [nest_picture(program), footprint_picture(program, caches=known_caches())]
        if self.sketches:
            found.append(sketches_picture(self.sketches))
        if isinstance(self.model, GradientBoostedTrees) and self.model.trees:
            found.append(ensemble_picture(self.model))
        return [picture for picture in found if picture is not None]

    def _cache_roofs(self) -> Mapping[str, float]:
        """The bandwidths of the caches of this machine, if the search was done here."""
        if self.roofline.limits is None:
            return {}
        try:
            return cache_bandwidths(self.roofline.limits.threads)
        except CompileError:
            return {}

    def sentences(self) -> list[str]:
        """The result in words, and what is left out."""
        failed = sum(t.status != OK for t in self.tried)
        head = f"{self.roofline.figures(self.seconds)}: the fastest of "
        head += counted(len(self.tried), "candidate")
        return [head + (f", of which {failed:,} failed." if failed else "."), *self.notes]

    def page(self) -> str:
        """The report as one HTML page."""
        steps = shortened(self.steps, lines=400)
        title = f"The search of {printable(print_name(self.name))}"
        return page_of(title, self.pictures(), self.sentences(), [("The best schedule", steps)])
