"""Pictures of a search whose costs are made up."""

import dataclasses
import re
from collections import Counter

import numpy as np
import pytest

import minitensor as mt
from minitensor.errors import ArgumentError, TuningError
from minitensor.runtime import cpu_name
from minitensor.search import (
    GradientBoostedTrees,
    Host,
    ensemble_picture,
    generate_sketches,
    new_record,
    sketches_picture,
)
from minitensor.search.pictures import curves, groups_of, replay, report, searched_of
from minitensor.search.pictures.trees import tree_branch
from minitensor.search.tune import roofline
from minitensor.search.tune.roofline import Roofline
from tests.unit.pictures.common import SVG, operator, parsed, texts
from tests.unit.search.tune.made import LIMITS, TARGET, found, product, searched

ROOFS = {"L1": 400.0, "L2": 100.0, "L3": 5.0}
ROOF = Roofline(2 * 48**3, 3 * 4 * 48**2, LIMITS)
TRIALS = 12


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    monkeypatch.setattr(roofline, "known_limits", lambda threads: LIMITS)
    monkeypatch.setattr(replay, "known_limits", lambda threads: LIMITS)
    monkeypatch.setattr(report, "cache_bandwidths", lambda threads: ROOFS)


@pytest.fixture(scope="module")
def result():
    return found()[0]


@pytest.fixture(scope="module")
def records(result):
    """The first candidates of the search, as a log has them."""
    made = []
    for t in result.tried[:TRIALS]:
        times = [t.seconds] if t.status == "ok" else []
        one = new_record(
            result.program, TARGET, t.trace, seconds=times, status=t.status, error=t.error
        )
        made.append(dataclasses.replace(one, host=Host(cpu_name(), 2)))
    return made


def drawn(pictures):
    return {picture.name: picture for picture in pictures}


def test_a_report(result, tmp_path):
    path = result.report(tmp_path / "report.html")
    text = path.read_text()
    titles = [
        "The learning curve",
        "Which sketches were tried",
        "Predicted and measured",
        "The roofline",
        "The loops of product",
    ]
    for title in [*titles, "Bytes under each loop", "The derivation of", "Tree 1 of 5"]:
        assert f"<h2>{title}" in text
    assert "The best schedule" in text and "of which 5 failed." in text
    assert len(text) < 1_000_000 and not re.search(r"<script|src=|url\(", text)
    with pytest.raises(ArgumentError, match="cannot be written"):
        result.report(tmp_path)


def test_the_charts_are_shown_and_written(result, tmp_path):
    names = ["curve", "tried", "predicted", "roofline"]
    shown = result.plot()
    assert [picture.name for picture in shown] == names
    assert shown._repr_html_().count("<svg") == 4
    assert result.plot(tmp_path / "a" / "b") == shown
    assert result.plot(str(tmp_path / "a" / "b")) == shown  # over those of before
    files = {path.name: path.read_text() for path in (tmp_path / "a" / "b").iterdir()}
    assert files == {f"{picture.name}.svg": picture.svg() for picture in shown}


def test_a_search_without_a_model_and_without_limits(monkeypatch):
    plain, _ = searched(product(16), trials=8, strategy="random")
    assert "predicted" not in drawn(plain.plot()) and "roofline" in drawn(plain.plot())
    monkeypatch.setattr(roofline, "known_limits", lambda threads: None)
    assert not {"predicted", "roofline"} & drawn(plain.plot()).keys()


def test_folders_that_cannot_be(result, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArgumentError, match="file: it is a file, no folder"):
        result.plot(tmp_path / "file")
    with pytest.raises(ArgumentError, match="below: Not a directory"):
        result.plot(tmp_path / "file" / "below")
    for wrong in (3, "", "a\0b", b"bytes"):
        with pytest.raises(ArgumentError, match="the path of a folder"):
            result.plot(wrong)
    (tmp_path / "curve.svg").mkdir()
    with pytest.raises(ArgumentError, match="cannot be written: Is a directory"):
        result.plot(tmp_path)


def test_the_curve(result):
    picture = curves.curve_picture(result.tried, ROOF, result.seconds)
    root = parsed(picture)
    worked = sum(t.status == "ok" for t in result.tried)
    assert len(list(root.iter(SVG + "circle"))) == worked + 1  # and one in the legend
    assert {"measured", "failed", "best until then", "GFLOP/s", "candidate"} <= set(texts(root))
    assert "after 40 candidates." in picture.text
    assert "candidate 1: number 1: " in picture.text


def test_predicted(result):
    picture = curves.predicted_picture(result.tried, ROOF)
    parsed(picture)
    assert "Rank correlation with the measured speeds: " in picture.text
    unknown = [dataclasses.replace(t, guess=None) for t in result.tried]
    assert curves.predicted_picture(unknown, ROOF) is None


def test_the_roofline_has_roofs_of_caches(result):
    picture = curves.roofline_picture(result.tried, ROOF, result.seconds, ROOFS)
    words = set(texts(parsed(picture)))
    assert {"L1 400 GB/s", "L2 100 GB/s", "memory 10 GB/s", "multiply-adds 100 GFLOP/s"} <= words
    assert not any(word.startswith("L3") for word in words)  # slower than memory: a busy machine
    assert "L1: 400 GB/s" in picture.text and "Left out: L3, measured slower" in picture.text
    none = dataclasses.replace(ROOF, limits=None)
    assert curves.roofline_picture(result.tried, none, result.seconds) is None


def test_the_roofline_of_bytes(result):
    roof = dataclasses.replace(ROOF, flop=0)
    picture = curves.roofline_picture(result.tried, roof, result.seconds, ROOFS)
    assert "GB/s of the arguments" in texts(parsed(picture))


def test_the_derivation():
    sketches = generate_sketches(operator("conv2d"), TARGET)
    picture = sketches_picture(sketches)
    words = texts(parsed(picture))
    for n in range(1, len(sketches) + 1):
        assert sum(word.startswith(f"sketch {n}: ") for word in words) == 1
    assert "  conv: cache write" in picture.text


def test_a_tree(result):
    picture = ensemble_picture(result.model, 2)
    words = texts(parsed(picture))
    tree = result.model.trees[1]
    assert words.count("yes") == words.count("no") == tree.leaves - 1
    assert picture.title == "Tree 2 of 5 of the cost model"
    with pytest.raises(ArgumentError, match="an integer from 1 to 5"):
        ensemble_picture(result.model, 6)


def test_leaves_are_coloured_by_their_value():
    X = np.random.default_rng(0).normal(size=(80, 2))
    tree = GradientBoostedTrees(n_trees=1, max_depth=3).fit(X, np.exp(X[:, 0])).trees[0]
    pending, leaves = [tree_branch(tree, ["<tile>", "la\nnes"])], []
    while pending:
        one = pending.pop()
        pending += one.below
        assert [b.edge for b in one.below] in ([], ["yes", "no"])
        leaves += [] if one.below else [one]
    assert len(leaves) == tree.leaves
    for leaf in leaves:
        assert leaf.colour == ("blue" if leaf.lines[0].startswith("+") else "orange")
    assert len({leaf.fill for leaf in leaves}) > 2


def test_a_log_with_the_definition(records, result):
    searched = searched_of(records, result.program)
    names = list(drawn(searched.pictures()))
    first = ["curve", "predicted", "roofline", "nest", "footprint", "sketches", "tree"]
    assert names == first
    assert [t.guess is None for t in searched.tried] == [n < 8 for n in range(TRIALS)]
    assert searched.schedule.trace == min(result.tried[:TRIALS], key=lambda t: t.seconds).trace
    assert "trained with those before" in drawn(searched.pictures())["predicted"].text


def test_which_sketches_were_tried(result):
    tried = [dataclasses.replace(t, candidate=None) for t in result.tried[:2]]
    chosen = result.tried[2:]
    own = Counter(t.candidate.sketch for t in chosen)
    picture = curves.tried_picture([*tried, *chosen])
    assert f"{len(own)} sketches were tried." in picture.text
    for sketch, count in own.items():
        assert f"sketch {sketch + 1}: {count} candidate" in picture.text
    alike = [t for t in chosen if t.candidate.sketch == chosen[0].candidate.sketch]
    assert curves.tried_picture(alike) is None
    many = [
        dataclasses.replace(t, candidate=dataclasses.replace(t.candidate, sketch=n % 9))
        for n, t in enumerate(chosen * 3)
    ]
    assert ">others<" in curves.tried_picture(many).svg()


def test_a_log_alone(records):
    searched = searched_of(records)
    assert list(drawn(searched.pictures())) == ["curve"]
    assert any("Without the definition" in line for line in searched.sentences())
    assert "s.split" in searched.steps


def test_another_machine(records, result):
    moved = [dataclasses.replace(r, host=Host("another <cpu>", 4)) for r in records]
    searched = searched_of(moved, result.program)
    assert "roofline" not in drawn(searched.pictures())
    assert "it was measured on another &lt;cpu&gt;" in searched.page()


def test_nothing_that_worked(records):
    failed = [dataclasses.replace(r, status="crash", seconds=()) for r in records]
    with pytest.raises(TuningError, match="12 records, and no candidate that worked"):
        searched_of(failed)
    with pytest.raises(TuningError, match="0 records"):
        searched_of([])


def test_records_that_are_refused(records):
    other = mt.lower(mt.workloads.matmul(m=7, n=7, k=7), name="other")
    searched = searched_of(records, other)
    assert "curve" in drawn(searched.pictures())


def test_hostile_records(records):
    bad = '<script>"\x00' + "x" * 5000
    hostile = [dataclasses.replace(r, name=bad, change=bad[:900]) for r in records]
    page = searched_of(hostile).page()
    assert "<script" not in page and len(page) < 100_000


def test_many_candidates_are_thinned(result):
    tried = [dataclasses.replace(result.tried[0], number=n + 1) for n in range(20_000)]
    picture = curves.curve_picture(tried, ROOF, result.seconds)
    assert len(picture.svg()) < 300_000


def test_groups(records):
    other = [dataclasses.replace(r, workload="0" * 32) for r in records[:3]]
    assert sorted(len(group) for group in groups_of([*records, *other])) == [3, TRIALS]
