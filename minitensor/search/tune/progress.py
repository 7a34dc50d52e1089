"""The progress of a search on standard error.

On a terminal a table that is drawn anew (with `rich`), or one line that is rewritten; in a notebook
one output that changes; elsewhere a plain line every few seconds.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TextIO

from minitensor.codegen import Target
from minitensor.errors import printable, unexpected
from minitensor.ir import Program, print_name
from minitensor.search.records import OK, STEADY
from minitensor.search.tune.roofline import Roofline
from minitensor.search.tune.tuner import Progress

BAR: Final = 24
"""Columns of a full bar."""
LABELLED: Final = ("best", "model", "machine", "spent")
"""Headings that stand in a line too: their texts alone do not say what they are of."""
BUSY: Final = 0.25
"""The part of candidates that are interrupted on a machine that is called busy."""
MENTIONED: Final = 3
"""The phases that are named, those that took most."""
EVERY_SECONDS: Final = 5.0
"""Between two plain lines."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The standing of a search, in words.

    name   of the program
    known  headings and texts: what was tried, how many failed, the best, how well the model foresaw
           the last round, trouble with the machine, time; "" for what is not known yet
    done   the part of the candidates that was tried; None before the first is measured
    """

    name: str
    known: Mapping[str, str]
    done: float | None = None

    def line(self) -> str:
        """All of it in one line."""
        known = ((heading, text) for heading, text in self.known.items() if text)
        parts = (f"{h} {text}" if h in LABELLED else text for h, text in known)
        return f"{self.name}: {'; '.join(parts)}"

    def rows(self) -> list[tuple[str, str]]:
        """A heading and its text, for what is known."""
        full = round(BAR * (self.done or 0.0))
        bar = "" if self.done is None else "#" * full + "-" * (BAR - full) + "  "
        known = ((heading, text) for heading, text in self.known.items() if text)
        return [(h, bar + text if h == "tried" else text) for h, text in known]


@dataclass
class Teller:
    """Turns the progress of one search into words.

    name       of the program
    roofline   its roof
    estimated  the GPU for which times are estimates, as nothing is measured; "" if they are not
    """

    name: str
    roofline: Roofline
    estimated: str = ""
    _doubted: bool = False

    def standing(self, progress: Progress) -> Standing:
        """The standing of the search."""
        text = f"{progress.trials:,} of {progress.wanted:,}, "
        text += f"round {progress.round}" if progress.round else "all from the log"
        best = "none yet"
        if math.isfinite(progress.best):
            self._doubt(progress.best)
            best = self.roofline.figures(progress.best)
            if self.estimated:
                best += f" (estimated for {self.estimated}; nothing is measured)"
        correlation = progress.correlation
        goes_on = 0 < progress.eta < math.inf
        known = {
            "tried": text,
            "failed": failures_text(progress.failures),
            "best": best,
            "model": "" if correlation is None else f"rank correlation {correlation:.2f}",
            "machine": machine_text(progress),
            "time": clock(progress.elapsed) + (f", {clock(progress.eta)} left" if goes_on else ""),
            "spent": progress.ledger.shares(MENTIONED),
        }
        return Standing(self.name, known, min(1.0, progress.trials / progress.wanted))

    def _doubt(self, seconds: float) -> None:
        """Have the machine measured anew, once in a search, if a candidate beats it."""
        if not self._doubted:
            before, self.roofline = self.roofline, self.roofline.corrected(seconds)
            self._doubted = self.roofline is not before


def failures_text(failures: Mapping[str, int]) -> str:
    """The number of failures, by kind, the most frequent first; "" for none."""
    total = sum(failures.values())
    if not total:
        return ""
    ordered = sorted(failures.items(), key=lambda item: (-item[1], item[0]))
    kinds = ", ".join(f"{count} {printable(kind)}" for kind, count in ordered if count)
    return f"{total} failed ({kinds})"


def machine_text(progress: Progress) -> str:
    """The trouble with the machine: other programs that run on it, and its drift; "" for none."""
    timed = [t.busy for t in progress.latest if not t.known and t.status == OK]
    parts = []
    if sum(timed) > BUSY * len(timed):
        parts.append(f"busy ({sum(timed)} of {len(timed)} candidates were interrupted)")
    if progress.drift != STEADY:
        parts.append(f"calls take {progress.drift:.2f} times as long as at first")
    return ", ".join(parts)


def clock(seconds: float) -> str:
    """Minutes and seconds, or hours too: 0:07, 12:34, 1:02:03."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# ---- screens


class Screen(Protocol):
    """Shows where a search stands."""

    def show(self, standing: Standing) -> None:
        """Show this in place of what was shown before."""
        ...

    def close(self) -> None:
        """End the display."""
        ...


class Display:
    """Shows a search as it goes. A context; `update` is a callback.

    screen  None to show nothing

    A screen that fails (its terminal is gone) is given up; the search goes on.
    """

    def __init__(self, program: Program, target: Target, screen: Screen | None) -> None:
        self._program, self._target, self._screen = program, target, screen
        self._name = print_name(program.name)
        self._teller: Teller | None = None

    @staticmethod
    def of(progress: bool | None, program: Program, target: Target) -> Display:
        """As it is asked for; None shows on a terminal and in a notebook. Raises ArgumentError."""
        if progress is not None and not isinstance(progress, bool):
            raise unexpected("True, False, or None", "progress", progress)
        return Display(program, target, None if progress is False else screen_of(progress))

    def __enter__(self) -> Display:
        self._show(Standing(self._name, {"tried": "measuring what this machine can do at most"}))
        if self._screen is not None:
            roofline = Roofline.of(self._program, self._target)
            emulated = self._target.kind == "cuda-emulator"
            self._teller = Teller(
                self._name, roofline, self._target.device or "" if emulated else ""
            )
        self._show(Standing(self._name, {"tried": "the first candidates are on their way"}))
        return self

    def __exit__(self, *error: object) -> None:
        self._guarded(lambda screen: screen.close())
        self._screen = None

    def update(self, progress: Progress) -> None:
        """Show where the search stands."""
        if self._teller is not None:
            self._show(self._teller.standing(progress))

    def _show(self, standing: Standing) -> None:
        self._guarded(lambda screen: screen.show(standing))

    def _guarded(self, act: Callable[[Screen], None]) -> None:
        if self._screen is None:
            return
        try:
            act(self._screen)
        except (OSError, ValueError):  # ValueError: the stream was closed
            self._screen = None


def screen_of(progress: bool | None) -> Screen | None:
    """The screen of this process; None for none at all, or none that was asked for."""
    notebook = _notebook()
    if notebook is not None:
        return Notebook(notebook)
    stream: TextIO | None = sys.stderr
    if stream is None:
        return None
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        return _table(stream) or Rewritten(stream)
    return Lines(stream) if progress or stream.isatty() else None


class Lines:
    """A plain line every few seconds."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._next = float("-inf")
        self._waiting: Standing | None = None

    def show(self, standing: Standing) -> None:
        """See Screen."""
        if standing.done is None:  # of interest only where it would stay
            return
        self._waiting = standing
        if self._clock() >= self._next:
            self._print()

    def close(self) -> None:
        """Print what was held back last."""
        self._print()

    def _print(self) -> None:
        if self._waiting is not None:
            self._next = self._clock() + EVERY_SECONDS
            print(self._waiting.line(), file=self._stream, flush=True)
            self._waiting = None


class Rewritten:
    """One line of a terminal, written again and again."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, standing: Standing) -> None:
        """See Screen. What is wider than the terminal is cut: a line that wraps stays."""
        width = shutil.get_terminal_size().columns - 1
        line = standing.line()
        text = line if len(line) <= width else line[: max(0, width - 1)] + "…"
        print(f"\r\x1b[K{text}", end="", file=self._stream, flush=True)

    def close(self) -> None:
        """End the line."""
        print(file=self._stream, flush=True)


class Notebook:
    """One output of a cell, which changes.

    display  the module IPython.display
    """

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None

    def show(self, standing: Standing) -> None:
        """See Screen."""
        width = max(len(heading) for heading, _ in standing.rows())
        lines = [f"{heading:{width}}  {text}" for heading, text in standing.rows()]
        content = {"text/plain": "\n".join([standing.name, *(f"  {line}" for line in lines)])}
        if self._handle is None:
            self._handle = self._display.display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def close(self) -> None:
        """The output stays as it is."""


class Table:
    """A small table of a terminal, drawn by `rich`.

    live  a rich.live.Live that was not started
    draw  makes what rich draws of rows
    """

    def __init__(self, live: Any, draw: Callable[[Standing], Any]) -> None:
        self._live, self._draw = live, draw

    def show(self, standing: Standing) -> None:
        """See Screen."""
        self._live.start()  # nothing, if it has been
        self._live.update(self._draw(standing), refresh=True)

    def close(self) -> None:
        """The last table stays."""
        self._live.stop()


def _table(stream: TextIO) -> Screen | None:
    """A table on a terminal; None without rich."""
    try:
        from rich.console import Console  # noqa: PLC0415 - optional
        from rich.live import Live  # noqa: PLC0415 - optional
        from rich.table import Table as Grid  # noqa: PLC0415 - optional
        from rich.text import Text  # noqa: PLC0415 - optional
    except ImportError:
        return None

    def draw(standing: Standing) -> Any:
        grid = Grid.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column()
        grid.add_row(Text(standing.name, style="bold"), "")
        for heading, text in standing.rows():
            style = {"failed": "yellow", "best": "bold green"}.get(heading, "")
            grid.add_row(f"  {heading}", Text(text, style=style))
        return grid

    # what callbacks print goes above the table, if it is to be seen on the same terminal
    prints = sys.stdout is not None and sys.stdout.isatty()
    console = Console(file=stream)
    return Table(Live(console=console, auto_refresh=False, redirect_stdout=prints), draw)


def _notebook() -> Any:
    """The module IPython.display where this process serves a notebook; else None.

    It is not imported: who runs in a notebook has it.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return sys.modules.get("IPython.display") if hasattr(shell, "kernel") else None
