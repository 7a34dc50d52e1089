"""`minitensor doctor`: what this machine has of what minitensor uses."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any, Final

from minitensor.cli.console import Console
from minitensor.errors import CompileError
from minitensor.runtime import Finding, Limits, diagnose, measure_limits, remember_limits

REQUIRED: Final = ("python", "numpy", "cffi")
"""Required for everything. Without a compiler the interpreter still runs programs."""

TEXT: Final = "say what this machine has, what is missing, and how to get it"
EPILOG: Final = """\
examples:
  minitensor doctor
  minitensor doctor --json
  minitensor doctor --measure                also what it can do: multiply-adds, memory
  CC=clang minitensor doctor                 look at another compiler

Everything is looked for anew, and what is found about the compiler is what kernels are built with
from then on. The exit status is 1 only if something is missing that nothing works without; without
a C compiler, target="interpreter" does.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "--measure", action="store_true", help="measure the FMA peak and the memory bandwidth"
    )


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Print the findings; 1 if something required is missing."""
    findings = diagnose()
    broken = [f.name for f in findings if f.ok is False and f.name in REQUIRED]
    limits = _limits(findings) if arguments.measure else None
    if limits is not None:
        findings.append(Finding("limits", True, str(limits)))
    if arguments.json:
        report: dict[str, Any] = {
            "ready": not broken,
            "findings": [asdict(finding) for finding in findings],
        }
        if arguments.measure:
            report["limits"] = None if limits is None else asdict(limits)
        console.json(report)
        return 1 if broken else 0
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        console.print(f"{_mark(finding, console)}  {finding.name.ljust(width)}  {finding.detail}")
        if finding.advice:
            console.print(" " * (width + 10) + console.styled(finding.advice, "dim"))
    console.print()
    console.print(_verdict(findings, broken))
    return 1 if broken else 0


def _limits(findings: list[Finding]) -> Limits | None:
    """The limits of the machine; None, and a finding, if they cannot be measured."""
    try:
        limits = measure_limits()
        remember_limits(limits)
        return limits
    except CompileError as failure:
        advice = "native code measures it: see C compiler"
        findings.append(Finding("limits", None, failure.message, advice))
        return None


def _mark(finding: Finding, console: Console) -> str:
    if finding.ok:
        return console.styled("ok    ", "green")
    if finding.ok is None:
        return console.styled("-     ", "yellow")
    return console.styled("FAILED", "red")


def _verdict(findings: list[Finding], broken: list[str]) -> str:
    if broken:
        return f"minitensor cannot work: {', '.join(broken)} must be repaired first."
    failed = [finding.name for finding in findings if finding.ok is False]
    if "C compiler" in failed or "cache folder" in failed:
        return (
            'No native code can be built. Programs run all the same, slowly, with target="inter'
            'preter": mt.build(schedule, target="interpreter").'
        )
    if failed:
        return f"minitensor works, but could do better: see {', '.join(failed)}."
    return "minitensor is ready."
