"""The roofline (extra `[ui]`)."""

from __future__ import annotations

from minitensor.cli.bench.results import Report


def check(path: str) -> None:
    """Placeholder."""


def draw(report: Report, path: str) -> None:
    """Placeholder."""
