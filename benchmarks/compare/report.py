"""Results as text: a block for each workload, a summary, and a Markdown file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.common import markdown_table
from benchmarks.compare.results import OWN, Entry, Report, Result, Run
from minitensor.cli.console import Console, aligned, counted

Rows = list[tuple[str, ...]]


def threads_text(threads: int) -> str:
    """ "1 thread", "2 threads"."""
    return counted(threads, "thread")


def block(result: Result, run: Run, console: Console) -> str:
    """One workload: a line for each implementation, and who is missing."""
    title = console.styled(f"{result.name}, {threads_text(run.threads)}", "bold")
    lines = [title, *_indented(aligned(_implementations(result), right=(1, 2, 3, 4, 5)))]
    for name, reason in result.dropped.items():
        first, *_ = reason.splitlines() or [""]
        lines.append(console.styled(f"  {name}: {first}", "yellow"))
    return "\n".join(lines)


def _implementations(result: Result) -> Rows:
    own = [e for e in map(result.entry, OWN) if e is not None]
    head = ("", "ms", result.unit, "of machine", *(f"{e.name} is" for e in own))
    rows: Rows = [head]
    for entry in result.entries:
        ratios = ["" if entry in own else f"{e.times_as_fast_as(entry):.2f} x" for e in own]
        rows.append((entry.name, *figures(result, entry), *ratios))
    return rows


def figures(result: Result, entry: Entry) -> tuple[str, str, str]:
    """Milliseconds, rate, and the part of what the machine gives."""
    part = result.of_roof(entry)
    return (
        f"{entry.seconds * 1e3:.4g}",
        f"{result.rate(entry):.4g}",
        "" if part is None else f"{part:.0%}".replace("%", " %"),
    )


def summary_rows(run: Run) -> Rows:
    """A line for each of ours in each workload, against the best of those that knew no more."""
    head = ("workload", "", "ms", "rate", "", "of machine", "best baseline", "ms", "ours is")
    rows: Rows = [head]
    for result in run.results:
        for own in filter(None, map(result.entry, OWN)):
            best = result.best_baseline(own)
            ms, rate, part = figures(result, own)
            against = ("", "", "")
            if best is not None:
                against = (
                    best.name,
                    f"{best.seconds * 1e3:.4g}",
                    f"{own.times_as_fast_as(best):.2f} x",
                )
            rows.append((result.name, own.name, ms, rate, result.unit, part, *against))
    return rows


def summary(report: Report, console: Console) -> str:
    """The summary of every run."""
    lines: list[str] = []
    for run in report.runs:
        rows = summary_rows(run)
        if len(rows) > 1:
            lines += ["", console.styled(f"Summary, {threads_text(run.threads)}", "bold")]
            lines += _indented(aligned(rows, right=(2, 3, 5, 7, 8)))
    if report.interrupted:
        lines += ["", "Interrupted: these are the workloads that were finished."]
    return "\n".join(lines)


def about_lines(about: dict[str, Any]) -> Iterator[str]:
    """Where and how it was measured."""
    machine, compiler, pace = about["machine"], about["compiler"], about["pace"]
    yield f"{machine['cpu']}, {machine['cores']} usable cores; {machine['system']}"
    yield f"{compiler['version']}: {' '.join(compiler['flags'])}"
    yield "; ".join(f"{name} {version}" for name, version in about["versions"].items())
    yield (
        f"{counted(pace['rounds'], 'round')}, bursts of {pace['burst'] * 1e3:g} ms and at least "
        f"{counted(pace['least_calls'], 'call')}"
    )


def markdown(report: Report) -> str:
    """The whole report as a Markdown file."""
    about = report.about
    lines = [f"# {about['machine']['cpu']}, {about['date']}", ""]
    lines += [f"- {line}" for line in about_lines(about)]
    lines += [f"- {about['rule']}"]
    lines += [f"- limits: {run.limits}" for run in report.runs if run.limits]
    lines += [
        "",
        '"Of machine": of the FMA peak, or of the best memory bandwidth, measured in the same '
        "rounds; more than 100 % of the bandwidth means that operands stay in a cache. The best "
        "baseline is the fastest of those that knew as much beforehand: `bound` means that the "
        'weights were given before the call. "1.10 x" is 1.1 times as fast.',
    ]
    for run in report.runs:
        if run.results:
            lines += ["", f"## {threads_text(run.threads)}", ""]
            lines += markdown_table(summary_rows(run))
            lines += ["", "Milliseconds, in brackets GFLOP/s or GB/s:", ""]
            lines += markdown_table(_wide(run))
            lines += _missing(run)
    if report.interrupted:
        lines += ["", "Interrupted before the end."]
    return "\n".join(lines) + "\n"


def _wide(run: Run) -> Rows:
    """A column for each implementation."""
    names = list(dict.fromkeys(e.name for result in run.results for e in result.entries))
    rows: Rows = [("workload", *names)]
    for result in run.results:
        cells = []
        for entry in map(result.entry, names):
            text = "-"
            if entry is not None:
                text = f"{entry.seconds * 1e3:.4g} ({result.rate(entry):.3g})"
            cells.append(text)
        rows.append((result.name, *cells))
    return rows


def _missing(run: Run) -> list[str]:
    lines = [
        f"- {result.name}, {name}: {(reason.splitlines() or [''])[0]}"
        for result in run.results
        for name, reason in result.dropped.items()
    ]
    return ["", "Not there:", "", *lines] if lines else []


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]
