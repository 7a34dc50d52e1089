"""What follows from the rounds, and the file."""

import json

import pytest

from benchmarks.compare.results import Report, Run, summary
from minitensor.errors import ArgumentError
from tests.unit.benchmarks.compare.made_up import copying, matmul, report


def test_what_is_quoted_is_the_median_of_the_rounds():
    result = matmul()
    assert result.entry("ours").seconds == 0.0125
    assert result.rate(result.entry("ours")) == pytest.approx(80.0)
    assert result.entry("torch") is None


def test_a_ratio_is_the_median_of_those_within_the_rounds():
    result = matmul()
    assert result.entry("ours").times_as_fast_as(result.entry("numpy")) == 2.0  # of 2, 2.5 and 1.2


def test_the_machine_is_compared_within_the_rounds_too():
    result = matmul()
    assert result.of_roof(result.entry("ours")) == pytest.approx(1.0)  # of 1, 1 and 0.8
    assert matmul(roof=[]).of_roof(result.entry("ours")) is None


def test_memory_is_counted_in_bytes():
    result = copying()
    assert (result.unit, result.work) == ("GB/s", 2 * 10**9)
    assert result.rate(result.entry("ours")) == pytest.approx(20.0)
    assert result.of_roof(result.entry("ours")) == pytest.approx(0.8)


def test_the_best_baseline_knew_no_more_than_ours():
    result = matmul()
    assert result.best_baseline(result.entry("ours")).name == "onnxruntime"
    assert result.best_baseline(result.entry("ours bound")).name == "onnxruntime bound"
    alone = matmul(entries=[result.entry("ours")])
    assert alone.best_baseline(alone.entry("ours")) is None


def test_the_summary_has_every_ratio():
    found = summary(matmul())
    assert found["ours"]["times_as_fast_as"] == {
        "onnxruntime bound": 0.648,
        "onnxruntime": 0.88,
        "numpy": 2.0,
    }
    assert found["ours"]["rate"] == 80.0
    assert found["ours bound"]["best_baseline"] == "onnxruntime bound"


def test_a_report_survives_its_file():
    written = json.dumps(report().to_json())
    again = Report.from_json(written)
    assert json.dumps(again.to_json()) == written
    assert again.about["machine"]["cpu"] == "Some CPU (R) 9"
    assert [r.key for _, r in again.each()] == ["matmul-8", "copy", "matmul-8"]


def test_the_form_of_the_file():
    values = report().to_json()
    assert (values["format"], values["version"]) == ("minitensor bench", 1)
    assert {"date", "machine", "compiler", "versions", "rule", "pace"} <= set(values)
    first = values["runs"][0]
    assert set(first) == {"threads", "cores", "limits", "results"}
    assert set(first["results"][0]) == {
        *("key", "name", "kind", "parameters", "flop", "bytes"),
        *("entries", "roof", "dropped", "summary"),
    }
    assert first["results"][0]["entries"][0]["fastest"] == [0.010, 0.020, 0.0125]


def test_a_run_without_limits_survives_too():
    interrupted = Report({}, [Run(1, [])], interrupted=True)
    again = Report.from_json(json.dumps(interrupted.to_json()))
    assert again.interrupted
    assert again.runs[0].limits is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "3", "{}"),
        '{"format": "minitensor bench", "version": 7, "runs": []}',
        '{"format": "minitensor bench", "version": 1, "interrupted": false, "runs": [{}]}',
    ],
)
def test_other_files_are_refused(text):
    with pytest.raises(ArgumentError, match=r"no results of|expected results of version"):
        Report.from_json(text)
