"""Pages, charts and trees."""

import re
import subprocess
import sys

import pytest

import minitensor as mt
from minitensor import pictures
from minitensor.pictures.svg import cleaned, columns
from tests.unit.pictures.common import HOSTILE, SVG, parsed, product, scheduled, texts


def test_a_page_loads_nothing_and_has_each_picture_with_its_text():
    drawn, notes = pictures.program_pictures(scheduled().program)
    text = pictures.page_of("a page", drawn, notes, [("code", "for i in range(3):")])
    assert text.count("<svg") == text.count("<details>") == len(drawn)
    assert not re.search(r"<script|<link|<img|@import|url\(|src=", text)
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in text and "prefers-color-scheme:dark" in text
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for name in re.findall(r'aria-labelledby="([^"]+)"', text):
        assert set(name.split()) <= set(ids)


def test_output_depends_on_the_input_alone():
    pages = {
        pictures.page_of("a", pictures.program_pictures(scheduled().program)[0]) for _ in range(2)
    }
    assert len(pages) == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(name):
    program = product(names=(name, "B", "C")).replace(name=name)
    drawn, notes = pictures.program_pictures(program)
    text = pictures.page_of(name, drawn, [*notes, name], [(name, name)])
    assert "<script" not in text and ' onload="' not in text
    assert len(text) < 500_000
    text.encode()
    for picture in drawn:
        parsed(picture)


def test_text_is_cut_by_columns():
    assert pictures.fitted("abc", 3) == "abc"
    assert pictures.fitted("abcd", 3) == "ab…"
    assert columns("日本") == 4 and pictures.fitted("日本語", 5) == "日本…"
    assert pictures.fitted("a\nb", 9) == "a b" and cleaned("a\x07\ud800") == "a??"
    assert len(pictures.fitted("x" * 10**7, 40)) == 40


def test_axes():
    ticks = pictures.Axis(0, 120, "t").ticks()
    assert [text for _, text in ticks] == ["0", "20", "40", "60", "80", "100", "120"]
    ticks = pictures.Axis(0.5, 600, "t", True).ticks()
    assert [t for _, t in ticks][:4] == ["0.5", "1", "2", "5"] or [t for _, t in ticks] == [
        "1",
        "10",
        "100",
    ]
    assert len(pictures.Axis(1e-9, 1e9, "t", True).ticks()) <= 9
    assert pictures.Axis(3, 3, "t").part(3) == 0
    assert pictures.Axis(1, 100, "t", True).part(10) == pytest.approx(0.5)
    assert pictures.Axis(1, 100, "t", True).part(0) == 0


def test_a_chart():
    chart = pictures.Chart(pictures.Axis(0, 10, "x"), pictures.Axis(0, 5, "y"))
    chart.points([(1, 1), (2, 2)], "blue", "measured")
    chart.points([(3, 0)], "orange", "failed", "cross")
    chart.line([(0, 0), (10, 5)], "red", "best")
    chart.note("<b>", 1, 1)
    root = parsed(chart.picture("chart", "A chart", "its text"))
    assert {"measured", "failed", "best", "<b>", "x", "y"} <= set(texts(root))
    assert len(list(root.iter(SVG + "circle"))) == 3


def test_a_tree_is_pruned():
    root = pictures.Branch(["root"])
    level = [root]
    for _ in range(9):
        level = [b for one in level for b in one.below or grown(one)]
    picture = pictures.tree_picture("tree", "A tree", root)
    parsed(picture)
    assert "Left out: " in picture.text and "more nodes" in picture.text
    assert picture.svg().count('class="ground"') < 200


def grown(branch):
    branch.below = [pictures.Branch(["a"], "yes"), pictures.Branch(["b"], "no")]
    return branch.below


@pytest.mark.slow
def test_pictures_are_imported_when_one_is_drawn():
    code = "import sys, minitensor; print([m for m in sys.modules if 'pictures.' in m])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        pictures.nothing  # noqa: B018


def test_what_is_no_page_is_not_written_over(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("precious")
    with pytest.raises(mt.ArgumentError, match=r"mine\.py is there, and no page of minitensor"):
        pictures.write(mine, pictures.page_of("a", []))
    assert mine.read_text() == "precious"
    page = tmp_path / "page.html"
    for title in ("first", "second"):
        pictures.write(page, pictures.page_of(title, []))
        assert f"<title>{title}</title>" in page.read_text()
