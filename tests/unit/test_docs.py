"""The documents say what the code says."""

import ast
import importlib
import pathlib
import re

import pytest

import minitensor as mt

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("primitives", "primitives.md"),
        ("rules", "rules.md"),
        ("cheat_sheet", "cheat_sheet.md"),
        ("pictures", "pictures/nest.svg"),
        ("tutorials", "../tutorials/README.md"),
    ],
)
def test_a_page_that_is_written_from_the_code_is_up_to_date(name, page, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    module = importlib.import_module(f"docs.make_{name}")
    assert (ROOT / "docs" / page).read_text() == module.text(), f"run python -m docs.make_{name}"


def pages():
    """All documents."""
    own = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "tutorials/README.md"]
    return [*own, *sorted((ROOT / "docs").rglob("*.md"))]


def test_links_in_documents_lead_somewhere():
    for page in pages():
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_paths_named_in_the_map_exist():
    text = (ROOT / "docs" / "architecture.md").read_text()
    packages = "ir|arith|lang|schedule|codegen|runtime|sanitize|search|testing"
    for path in re.findall(rf"`((?:{packages})/[\w/]+\.py)`", text):
        assert (ROOT / "minitensor" / path).exists(), path


def test_the_reading_path_is_some_3000_lines_of_files_that_exist():
    text = (ROOT / "docs" / "architecture.md").read_text()
    path = text.split("## A reading path")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\S+)` \| (\d+) \|", path, re.MULTILINE)
    lengths = [len((ROOT / name).read_text().splitlines()) for name, _ in rows]
    assert len(rows) >= 10 and 2500 <= sum(lengths) <= 3500
    for (name, stated), length in zip(rows, lengths):
        assert abs(int(stated) - length) <= 40, f"{name} has {length} lines"


def test_every_pass_has_a_row_in_the_map():
    text = (ROOT / "docs" / "architecture.md").read_text()
    for name, _ in (*mt.codegen.PASSES, *mt.codegen.CUDA_PASSES):
        assert f"| {name.removesuffix(' again')} |" in text, name


def test_every_kind_of_remark_is_explained():
    kinds: set[str] = set()
    for path in sorted((ROOT / "minitensor").rglob("*.py")):
        kinds |= set(re.findall(r"""(?:missed|Remark)\(\s*"(\w+)",""", path.read_text()))
    assert {"vector", "gather", "spills"} <= kinds
    page = (ROOT / "docs" / "explain.md").read_text()
    assert kinds <= set(re.findall(r"^### `(\w+)`", page, re.MULTILINE))


def test_every_primitive_is_a_method_with_its_docstring():
    for name, primitive in mt.schedule.REGISTRY.items():
        method = getattr(mt.Schedule, name)
        assert method.__doc__ == primitive.function.__doc__
        assert "Preserves" in method.__doc__ or "Returns" in method.__doc__


@pytest.mark.slow
def test_docstrings_begin_with_a_noun_or_a_verb():
    question = re.compile(r"(What|How|Whether|Where|Who|Why|Which|When|That|Nothing|Everything)\b")
    for path in sorted((ROOT / "minitensor").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            body = getattr(node, "body", None)
            for statement in body if isinstance(body, list) else []:
                text = getattr(getattr(statement, "value", None), "value", None)
                if isinstance(statement, ast.Expr) and isinstance(text, str):
                    assert not question.match(text.strip()), f"{path}:{statement.lineno}"
