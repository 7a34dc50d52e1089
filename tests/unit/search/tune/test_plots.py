"""The pictures of a search (extra `[ui]`)."""

import dataclasses
import sys

import numpy as np
import pytest

import minitensor as mt
from minitensor.errors import ArgumentError, MinitensorError
from minitensor.search.tune import plots, roofline
from minitensor.search.tune.result import importances
from minitensor.search.tune.roofline import Roofline
from tests.unit.search.tune.made import LIMITS, found, product, searched

Figure = pytest.importorskip("matplotlib.figure").Figure
NAMES = ["curve", "predicted", "importance", "roofline"]
PNG = b"\x89PNG\r\n\x1a\n"
ROOF = Roofline(2 * 48**3, 3 * 4 * 48**2, LIMITS)


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    monkeypatch.setattr(roofline, "known_limits", lambda threads: LIMITS)


@pytest.fixture
def result():
    return found()[0]


def pictures(result, roof=ROOF):
    ranked = importances(result.model)
    return plots.Pictures("product", result.tried, result.seconds, roof, ranked)


@pytest.fixture
def axes():
    return Figure().add_subplot()


@pytest.mark.slow
def test_all_pictures(result, tmp_path):
    folder = tmp_path / "a" / "b"
    paths = result.plot(folder)
    assert [path.name for path in paths] == [f"{name}.png" for name in NAMES]
    assert all(path.read_bytes().startswith(PNG) for path in paths)
    assert result.plot(str(folder)) == paths  # over those of before


@pytest.mark.slow
def test_without_a_model_and_without_limits(tmp_path, monkeypatch):
    result, _ = searched(product(16), trials=8, strategy="random")
    assert [p.stem for p in result.plot(tmp_path)] == ["curve", "roofline"]
    monkeypatch.setattr(roofline, "known_limits", lambda threads: None)
    assert [p.stem for p in result.plot(tmp_path)] == ["curve"]


def lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def test_the_curve_has_every_candidate(result, axes):
    assert pictures(result)._curve(axes)
    drawn = lines(axes)
    worked = [t for t in result.tried if t.status == "ok"]
    assert list(drawn["measured"].get_xdata()) == [t.number for t in worked]
    assert list(drawn["failed"].get_xdata()) == [t.number for t in result.tried if t.status != "ok"]
    best = drawn["best until then"].get_ydata()
    assert len(best) == len(result.tried)
    assert (np.diff(best) >= 0).all()
    assert best[-1] == pytest.approx(ROOF.rate(result.seconds))
    assert "known from the log" not in drawn


def test_what_the_log_knew_is_drawn_apart(result, axes):
    tried = tuple(dataclasses.replace(t, known=t.number <= 8) for t in result.tried)
    assert pictures(dataclasses.replace(result, tried=tried))._curve(axes)
    assert max(lines(axes)["known from the log"].get_xdata()) <= 8


def test_a_curve_that_begins_with_failures(result, axes):
    tried = tuple(
        dataclasses.replace(t, status="crashed", seconds=float("inf")) if t.number < 4 else t
        for t in result.tried
    )
    assert pictures(dataclasses.replace(result, tried=tried))._curve(axes)
    best = lines(axes)["best until then"].get_ydata()
    assert np.isnan(best[:3]).all() and not np.isnan(best[3:]).any()


def test_the_peak_is_drawn_where_it_is_near(result, axes):
    near = dataclasses.replace(LIMITS, peak=2 * ROOF.rate(result.seconds))
    pictures(result, dataclasses.replace(ROOF, limits=near))._curve(axes)
    assert axes.get_ylim()[1] > near.peak
    assert any(line.get_linestyle() == "--" for line in axes.get_lines())


def test_predictions_are_those_made_before_measuring(result, axes):
    assert pictures(result)._predicted(axes)
    (dots,) = axes.collections
    guessed = [t for t in result.tried if t.guess is not None and t.status == "ok"]
    assert guessed and all(t.number > 8 for t in guessed)  # the first round had no model
    expected = [(ROOF.rate(t.seconds), t.guess) for t in guessed]
    assert np.allclose(dots.get_offsets(), expected)


def test_importance(result, axes):
    assert pictures(result)._importance(axes)
    bars = [bar.get_width() for bar in axes.patches]
    assert bars == sorted(bars, reverse=True)
    assert 0 < len(bars) <= plots.FEATURES
    assert len(axes.get_yticklabels()) == len(bars)


def test_the_roof_has_its_ridge_where_the_limits_meet(result, axes):
    assert pictures(result)._roofline(axes)
    x, y = axes.get_lines()[0].get_data()
    assert (x[1], y[1]) == (10.0, 100.0)
    assert y[0] == pytest.approx(10.0 * x[0])
    assert y[2] == 100.0


def test_where_bytes_count_the_bandwidth_is_the_roof(axes):
    program = mt.lower(mt.workloads.softmax(m=8, n=8), name="softmax")
    result, _ = searched(program, trials=8, strategy="random")
    assert pictures(result, Roofline(0, 512, LIMITS))._roofline(axes)
    assert list(axes.get_lines()[0].get_xdata()) == [10.0, 10.0]
    assert axes.get_xlabel().startswith("GB/s")


def test_names_are_not_read_as_formulas(result, tmp_path):
    sheet = Figure()
    dataclasses.replace(pictures(result), name="$x_$")._curve(sheet.add_subplot())
    sheet.savefig(tmp_path / "a.png")


def test_without_matplotlib(result, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MinitensorError, match=r"matplotlib: python -m pip install 'minitensor\[ui"):
        result.plot(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_folders_that_cannot_be(result, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArgumentError, match="file cannot be written: File exists"):
        result.plot(tmp_path / "file")
    with pytest.raises(ArgumentError, match="cannot be written: Not a directory"):
        result.plot(tmp_path / "file" / "below")
    for wrong in (3, None, "", "a\0b", b"bytes"):
        with pytest.raises(ArgumentError, match="the path of a folder"):
            result.plot(wrong)
    (tmp_path / "curve.png").mkdir()
    with pytest.raises(ArgumentError, match="cannot be written: Is a directory"):
        result.plot(tmp_path)
