"""The code in the documents runs."""

import pathlib
import re

import pytest
from hypothesis import Phase, settings

import minitensor as mt
from minitensor.search import Status
from minitensor.search.sketch.derive import RULES
from tests.sent import imported

pytestmark = pytest.mark.usefixtures("processes")

DOCS = pathlib.Path(__file__).parents[2] / "docs"

OTHERS = {"cost_model", "records", "sanitizers", "teaching"}
"""Pages whose code runs in the tests of what they are about."""


def code_of(page):
    """All code of a page, as one module."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S)
    assert blocks
    return "\n".join(blocks)


@pytest.fixture
def any_failure():
    """Hypothesis does not look for a small one, which takes it most of the time."""
    before = settings.default
    settings.register_profile("any failure", before, phases=(Phase.explicit, Phase.generate))
    settings.load_profile("any failure")
    yield
    settings.load_profile("minitensor")
    assert settings.default == before


@pytest.mark.slow
@pytest.mark.usefixtures("any_failure")
def test_testing(capsys):
    imported(code_of("testing.md"))
    printed = capsys.readouterr().out
    assert "is read before written" in printed or "is not" in printed or ", not " in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        *("define", "expressions", "schedule", "build", "errors", "search", "testing"),
        *("sanitize", "ops", "graph", "accelerator"),
    ],
)
def test_examples_of_the_reference(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    imported(code_of(f"reference/{page}.md"))


GUIDES = [
    *("guide_schedule", "guide_template", "guide_measuring", "learned", "transfer", "faq"),
    "low_precision",
]


@pytest.mark.slow
@pytest.mark.parametrize("page", GUIDES)
def test_guides(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    imported(code_of(f"{page}.md"))


@pytest.mark.slow
@pytest.mark.parametrize("page", ["networks", "tasks"])
def test_networks(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    imported(code_of(f"{page}.md"))


@pytest.mark.slow
def test_accelerator(capsys):
    imported(code_of("accelerator.md"))
    printed = capsys.readouterr().out
    one, two = (float(part) for part in re.findall(r"([0-9.]+)% of the array's peak", printed)[:2])
    assert one < two
    assert "A token is missing" in printed


def test_explain(capsys):
    first = """import minitensor as mt
schedule = mt.Schedule(mt.lower(mt.workloads.matmul(m=16, n=16, k=16)))
kernel = mt.build(schedule)
"""
    imported(first + code_of("explain.md"))
    assert "vector registers" in capsys.readouterr().out


@pytest.mark.slow
def test_pictures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = """import minitensor as mt
program = mt.lower(mt.workloads.matmul(m=16, n=16, k=16), name="product")
s = mt.Schedule(program)
result = mt.tune(program, trials=2, progress=False)
"""
    imported(first + code_of("pictures.md"))
    drawn = {path.name: path.read_text() for path in tmp_path.glob("*.html")}
    assert set(drawn) == {"nest.html", "report.html", "refused.html"}
    assert all("<svg" in page for page in drawn.values())


def test_every_page_with_code_is_run():
    with_code = {p.stem for p in DOCS.rglob("*.md") if "\n```python\n" in p.read_text()}
    text = pathlib.Path(__file__).read_text().partition("OTHERS =")[2].partition('"""Pages')[2]
    assert {page for page in with_code if f'"{page}' not in text} == OTHERS


def test_extending(capsys):
    imported(code_of("extending.md"))
    printed = capsys.readouterr().out
    assert 'halve("j") breaks R1: the loop has an even extent (5 iterations)' in printed
    assert "instead: split it with tail='guard'" in printed
    assert "--- fewer_copies: no difference" in printed


@pytest.mark.slow
def test_tensorize(capsys):
    page = "tensorize.md"
    imported(code_of(page))
    printed = capsys.readouterr().out
    assert "breaks R8" in printed
    quoted = "B[k_0*4 + k_1, j_0*16 + j_1] is read where the intrinsic has b[j, k]"
    assert quoted in printed
    assert "axis 0 differs, k_1 where the intrinsic has j_1" in printed
    assert "in tensorize(16):" in printed
    text = (DOCS / page).read_text().replace("\n", " ")
    assert quoted in text


@pytest.mark.slow
def test_cuda(capsys):
    page = "cuda.md"
    imported(code_of(page))
    printed = capsys.readouterr().out
    shown = re.findall(r"^    extern.*?^    }$", (DOCS / page).read_text(), re.M | re.S)
    assert len(shown) == 1
    assert re.sub(r"^    ", "", shown[0], flags=re.M) in printed


def test_features(capsys):
    page = "features.md"
    imported(code_of(page))
    *table, extents, distances = capsys.readouterr().out.splitlines()
    quoted = (DOCS / page).read_text()
    assert len(table) == 14
    assert "```\n" + "\n".join(table) + "\n```" in quoted
    assert f"# {extents}" in quoted
    assert distances == "[16896.0, 12.0, 12.0, 12.0]"


@pytest.mark.slow
def test_measurement(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path / "cache"))
    imported(code_of("measurement.md"))
    *lines, failures, seconds = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ok"] * 3
    assert failures == "[]"
    assert 0 < float(seconds) < 1e-2


@pytest.mark.slow
def test_evolution(capsys):
    imported(code_of("evolution.md"))
    first, *found = capsys.readouterr().out.splitlines()
    assert first.startswith("Candidate(sketch=")
    assert len(found) == 3


@pytest.mark.slow
def test_tuners(private_cache):
    imported(code_of("tuners.md") + "\nassert len(result.tried) == 8\n")


@pytest.mark.slow
def test_tuning(capsys, tmp_path, monkeypatch, private_cache):
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(private_cache))
    monkeypatch.chdir(tmp_path)
    imported(code_of("tuning.md"))
    first, _, *explained = capsys.readouterr().out.splitlines()
    assert float(first.split()[0]) > 0
    assert "its decisions" in explained and "what was tried" in explained
    assert explained[-1].split()[0] == "8"
    tried = len(mt.search.Log("tuning.jsonl").read()[0])
    assert tried in (8, 9)  # the winner of the finals once more, if it is another


def test_measurement_lists_every_status():
    text = (DOCS / "measurement.md").read_text()
    rows = re.findall(r"^\| ([a-z ]+) \|", text, re.M)
    assert set(rows) == {s.value for s in Status if s is not Status.OK} | {"status"}


def test_sketches(capsys):
    page = "sketches.md"
    imported(code_of(page))
    printed = capsys.readouterr().out
    quoted = re.findall(r"^    ((?:relu|conv|pad) .*)$", (DOCS / page).read_text(), re.M)
    assert len(quoted) == 3
    assert "\n".join(quoted) in printed
    assert "C  mine  some rows at a time" in printed


def test_sketches_lists_every_rule():
    rules = re.findall(r"^\| ([a-z -]+) \|", (DOCS / "sketches.md").read_text(), re.M)
    known = {rule.name for rules in RULES.values() for own in rules.values() for rule in own}
    assert set(rules) - {"rule", "threads"} == known  # threads: the end of each for a GPU
