"""The documentation site: its pages, their links, and an example for every public name."""

import pathlib
import re
from types import SimpleNamespace

import pytest

import minitensor as mt
from minitensor import accelerator, graph, sanitize, search, testing
from minitensor.cli.main import main
from tests.unit.test_docs import ROOT, pages

REFERENCE = "\n".join(p.read_text() for p in sorted((ROOT / "docs/reference").glob("*.md")))
EXAMPLES = "\n".join(
    block
    for page in pages()
    for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)
)
OBJECTS = re.findall(r"^::: minitensor\.([\w.]+)$", REFERENCE, re.M)
"""What is documented; where a module has the name of what is in it, by the path of that."""


def documented(prefix):
    """The names that are documented of a package."""
    return {name.split(".")[-1] for name in OBJECTS if name.startswith(prefix)}


def slug(heading):
    """The anchor of a heading."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def anchors(page):
    """The anchors of a page."""
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", page.read_text(), re.M)}


def test_anchors_in_links_exist():
    found = 0
    for page in pages():
        for path, anchor in re.findall(r"\]\(([\w./-]*)#([^)]+)\)", page.read_text()):
            target = (page.parent / path) if path else page
            assert anchor in anchors(target), f"{page.name} links to {path}#{anchor}"
            found += 1
    assert found > 100


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1].split("\ntheme:")[0]
    listed = re.findall(r"[\w/]+\.md", navigation)
    there = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert there | {"index.md", "contributing.md"} == set(listed)
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("module", "prefix", "called"),
    [
        (mt, "", "mt"),
        (search, "search.", "search"),
        (testing, "testing.", "testing"),
        (sanitize, "sanitize.", "sanitize"),
        (graph, "graph.", "graph"),
        (accelerator, "accelerator.", "accelerator"),
    ],
    ids=["minitensor", "search", "testing", "sanitize", "graph", "accelerator"],
)
def test_every_public_name_is_on_a_page_with_an_example(module, prefix, called):
    modules = {"__version__", "accelerator", "graph", "search", "testing"}
    shown = documented(prefix) | (modules if module is mt else set())
    for name in module.__all__:
        assert name in shown, f"::: minitensor.{prefix}{name}"
        if module is mt and name == "testing":
            continue  # imported where it is used
        bare = rf"^from minitensor\.{called} import [^\n]*\b{name}\b"
        assert re.search(rf"\b{called}\.{name}\b|{bare}", EXAMPLES, re.M), f"{prefix}{name}"


def test_every_method_of_a_schedule_is_on_a_page_with_an_example():
    primitives = (ROOT / "docs/primitives.md").read_text()
    own = REFERENCE.split("::: minitensor.Schedule\n")[1].split(":::")[0]
    examples = (ROOT / "docs/reference/schedule.md").read_text()
    for name in (n for n in dir(mt.Schedule) if not n.startswith("_")):
        primitive = name in mt.schedule.REGISTRY
        assert f"\n## {name}\n" in primitives if primitive else re.search(rf"\b{name}\b", own), name
        assert re.search(rf"\b[a-z]+(\(.*\))?\.{name}\b", examples), name


def test_every_command_is_on_a_page(capsys):
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out.split("options:")[0]
    page = (ROOT / "docs/reference/commands.md").read_text()
    assert re.findall(r"^    (\w+) ", listed, re.M) == re.findall(r"^\| `(\w+)` \|", page, re.M)


def test_every_rule_is_broken_once():
    text = (ROOT / "docs/rules.md").read_text()
    for name, primitive in mt.schedule.REGISTRY.items():
        own = [rule for rule in primitive.rules if rule.startswith("R")]
        for rule in own:
            section = text.split(f"### {name} {rule}\n")[1].split("\n### ")[0]
            assert f" breaks {rule}: " in section or (name, rule) == ("cache_write", "R3")


def test_nothing_is_loaded_from_the_network():
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in settings and "- offline" in settings
    for text in [settings, *(p.read_text() for p in (ROOT / "docs/assets").iterdir())]:
        assert not re.search(r"https?://", text)


def test_a_lesson_is_a_page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from docs.lessons import page_of  # noqa: PLC0415

    lesson = (
        '"""Title.\n\nIntroduction.\n"""\n\nimport a\n\n# ---- 1. Part ----\n# Text,\n# more.\n\n'
        "x = 1\n# inside\ny = 2\n\n# After.\n"
    )
    assert page_of(lesson) == (
        "# Title\n\nIntroduction.\n\n```python\nimport a\n```\n\n## 1. Part\n\nText,\nmore.\n\n"
        "```python\nx = 1\n# inside\ny = 2\n```\n\nAfter.\n"
    )


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import no_such_package", "No module named 'no_such_package'"),
        ("import sys\n\nsys.exit('needs a compiler')", "needs a compiler"),
    ],
)
def test_what_a_lesson_that_fails_says_is_shown(code, said, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT)
    from docs import lessons  # noqa: PLC0415

    monkeypatch.setattr(lessons, "KEPT", tmp_path / "build" / "lessons")
    cells = [SimpleNamespace(kind="code", text=text) for text in ("print(1)", code)]
    path = pathlib.Path("14_testing.py")
    lesson = SimpleNamespace(name="14_testing", path=path, text=code, cells=cells)
    with pytest.raises(lessons.LessonError) as failure:
        lessons.outputs(lesson)
    assert str(failure.value).startswith("14_testing.py ends with exit status 1:\n")
    assert said in str(failure.value)
    assert not list(tmp_path.rglob("*.json"))


def test_docstrings_become_markdown(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from docs.docstrings import markdown  # noqa: PLC0415

    text = """Do it: `a*b`, 2**3 <script>.

    f("i")
        for i in range(4):   =>   x
    loop  a loop: one of
          "a"  the first
          "b"  the second,
               longer
    other  another

    Preserves  every output.
    """
    assert markdown(text) == (
        "Do it: `a*b`, 2\\*\\*3 &lt;script>.\n\n"
        '```text\nf("i")\n    for i in range(4):   =>   x\n```\n\n'
        '- `loop`: a loop: one of\n    - `"a"`: the first\n    - `"b"`: the second, longer\n'
        "- `other`: another\n- **Preserves**: every output."
    )
