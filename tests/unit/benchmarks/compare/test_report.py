"""Results as text."""

import io

import pytest

from benchmarks.compare.report import about_lines, block, markdown, summary
from minitensor.cli.console import Console
from tests.unit.benchmarks.compare.made_up import ABOUT, report


@pytest.fixture
def console():
    return Console(io.StringIO(), colour=False, width=100)


BLOCK = """\
matmul 8, 1 thread
                       ms  GFLOP/s  of machine  ours is  ours bound is
  ours               12.5       80       100 %
  ours bound            9    111.1       111 %
  numpy                20       50        50 %   2.00 x         2.22 x
  onnxruntime          11    90.91        91 %   0.88 x         1.22 x
  onnxruntime bound   8.1    123.5       123 %   0.65 x         0.90 x
  tvm: RuntimeError: no"""


def test_a_block(console):
    run = report().runs[0]
    assert block(run.results[0], run, console) == BLOCK


def test_the_summary_has_a_line_for_each_of_ours(console):
    made = report()
    made.interrupted = True
    text = summary(made, console)
    assert "Summary, 1 thread\n" in text
    assert "Summary, 2 threads\n" in text
    ours, bound, copying = text.splitlines()[3:6]
    assert ours.split()[:3] == ["matmul", "8", "ours"]
    assert ours.endswith("onnxruntime         11   0.88 x")
    assert "ours bound" in bound
    assert " ".join(copying.split()) == "copying ours 100 20 GB/s 80 % numpy 200 2.00 x"
    assert text.endswith("Interrupted: these are the workloads that were finished.")


def test_markdown_says_where_and_how_and_who_is_missing():
    text = markdown(report())
    assert text.startswith("# Some CPU (R) 9, 2026-11-21 13:05 UTC\n")
    for part in (
        "gcc 12: -O2",
        "numpy 2.0",
        "in turns",
        "limits: 100 GFLOP/s",
        "3 rounds",
    ):
        assert part in text
    assert "| matmul 8 | ours | 12.5 | 80 | GFLOP/s | 100 % | onnxruntime | 11 | 0.88 x |" in text
    assert "| copying | 100 (20) | - | 200 (10) | - | - |" in text
    assert "- matmul 8, tvm: RuntimeError: no\n" in text


def test_one_round_is_one_round():
    pace = {"rounds": 1, "burst": 0.01, "least_calls": 1}
    *_, line = about_lines({**ABOUT, "pace": pace})
    assert line == "1 round, bursts of 10 ms and at least 1 call"
