"""The bars, from made-up results."""

import json
import sys

import pytest

from benchmarks import bars
from benchmarks.compare.results import Report, Run
from tests.unit.benchmarks.compare.made_up import ABOUT, entry, matmul, report

SIZES = {"m": 1024, "n": 1024, "k": 1024}


def found(*runs):
    return {(v.bar, v.threads): v for v in bars.verdicts(Report(dict(ABOUT), list(runs)))}


def test_a_product_against_numpy_the_peak_and_one_thread():
    one = matmul(parameters=SIZES)
    entries = [entry("ours", 0.0068, 0.0068, 0.0068), entry("numpy", 0.01, 0.01, 0.01)]
    two = matmul(parameters=SIZES, entries=entries)
    seen = found(Run(1, [], None, [one]), Run(2, [], None, [two]))
    against = seen["matmul 1024: ours against numpy", 1]
    assert (against.value, against.word) == (2.0, "met")
    assert against.at_most == pytest.approx(2.0)
    assert seen["matmul 1024: of the FMA peak", 1].value == pytest.approx(1.0)
    gained = seen["matmul 1024: 2 threads against 1", 2]
    assert gained.value == pytest.approx(0.0125 / 0.0068)
    assert gained.word == "MISSED"
    assert seen["matmul 512: ours against numpy", 1].word == "not measured"


def test_odd_sizes_against_even_ones():
    odd = matmul(parameters={"m": 997, "n": 1009, "k": 1013}, flop=9 * 10**8)
    seen = found(Run(1, [], None, [matmul(parameters=SIZES), odd]))
    value = seen["matmul 997x1009x1013: of the rate at 1024", 1]
    assert value.value == pytest.approx(0.9)


def test_bound_against_bound_and_unbound_where_nobody_has_weights():
    sizes = {"c": 64, "f": 64, "h": 56, "w": 56, "kernel": 3, "stride": 1, "padding": 1}
    conv = matmul(kind="conv", parameters=sizes)
    unbound = [entry("ours", 1.0, 1.0, 1.0), entry("onnxruntime", 2.0, 2.0, 2.0)]
    depthwise = matmul(kind="depthwise", parameters={"c": 128, "h": 56}, entries=unbound)
    seen = found(Run(1, [], None, [conv, depthwise]))
    name = "ours bound against onnxruntime bound"
    assert seen[f"conv 3x3 64->64 56x56: {name}", 1].value == pytest.approx(0.9)
    assert seen[f"depthwise 128 56x56: {name}", 1].value == 2.0
    assert seen["conv 3x3 64->64 56x56: ours against torch", 1].value is None


def run_with(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["bars", *map(str, words)])
    return bars.main()


def test_the_command(monkeypatch, tmp_path, capsys):
    path = tmp_path / "results.json"
    path.write_text(json.dumps(report().to_json()))
    assert run_with(monkeypatch, path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["bar", "threads", "wanted", "measured", "at", "most"]
    assert run_with(monkeypatch, path, "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["verdict"] == "not measured"


def test_other_files(monkeypatch, tmp_path, capsys):
    path = tmp_path / "results.json"
    assert run_with(monkeypatch, path) == 1
    path.write_text("{}")
    assert run_with(monkeypatch, path) == 1
    assert capsys.readouterr().err.count("cannot read") == 2
