"""The roofline."""

import pytest

from benchmarks.compare import plot
from benchmarks.compare.results import Report, Run
from minitensor.cli.errors import CommandError
from tests.unit.benchmarks.compare.made_up import ABOUT, LIMITS, copying, matmul, report

pytest.importorskip("matplotlib")


@pytest.mark.parametrize(
    "runs",
    [
        report().runs,
        [Run(1, [], LIMITS, [matmul()])],
        [Run(1, [], LIMITS, [copying()])],
        [Run(1, [], LIMITS, [matmul(entries=[])])],
        [Run(1, [])],
    ],
    ids=["all", "compute", "memory", "no entries", "nothing"],
)
def test_a_picture_is_drawn(runs, tmp_path):
    path = tmp_path / "roof.png"
    plot.draw(Report(dict(ABOUT), runs), str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_bound_baseline_has_the_colour_of_the_other():
    looks = plot._looks(["numpy", "onnxruntime", "onnxruntime bound", "ours"])
    assert looks["onnxruntime"][0] == looks["onnxruntime bound"][0] != looks["numpy"][0]


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(CommandError, match="cannot write"):
        plot.draw(report(), str(tmp_path / "nowhere" / "roof.png"))


def test_names_keep_apart():
    assert plot.apart([]) == []
    assert plot.apart([0.2, 0.9]) == [0.2, 0.9]
    close = plot.apart([0.5, 0.5, 0.5, 0.99, 0.99])
    assert close == pytest.approx([0.5, 0.57, 0.64, 0.88, 0.95])
    many = plot.apart([0.9] * 40)
    assert min(many) > 0
    assert many == sorted(many)
