"""Translated lessons are the English ones: the same cells, the same code, the same tasks."""

import ast
import re

import pytest

from tutorials import find, languages, lessons
from tutorials.course.lessons import cells_of

TRANSLATED = [(code, one) for code in languages() if code != "en" for one in lessons(code)]
IDS = [f"{code}-{one.number}" for code, one in TRANSLATED]


class Wordless(ast.NodeTransformer):
    """Leaves out what is for people: docstrings, and texts that are printed."""

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.body = node.body[ast.get_docstring(node) is not None :]
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "print":
            node.args = [ast.Constant("…") if is_text(x) else wordless(x) for x in node.args]
        return node


def is_text(node):
    """Test for a plain text."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def wordless(node):
    """A printed value; of an f-string, what is computed in it."""
    if not isinstance(node, ast.JoinedStr):
        return node
    return ast.JoinedStr([part for part in node.values if not isinstance(part, ast.Constant)])


def code_of(text):
    """The code of a cell, without the words."""
    return ast.dump(Wordless().visit(ast.parse(text)))


def differences(original, translated):
    """The cells, counted from 1, in which two lessons differ beyond their words."""
    pairs = list(zip(original, translated))
    found = [n for n, (a, b) in enumerate(pairs, 1) if a.kind != b.kind or marks(a) != marks(b)]
    if len(original) != len(translated):
        found.append(len(pairs) + 1)
    return found


def marks(cell):
    """The part of a cell that no language changes: code, or levels of headings and items."""
    if cell.kind == "code":
        return code_of(cell.text)
    return re.findall(r"^(#+|-|\d+\.) ", cell.text, re.M)


def test_there_are_translations():
    assert "zh" in languages()


@pytest.mark.parametrize(("code", "lesson"), TRANSLATED, ids=IDS)
class TestTranslation:
    def test_cells_are_those_of_the_original(self, code, lesson):
        original = find(lesson.number)
        assert lesson.name == original.name
        assert differences(original.cells, lesson.cells) == []

    def test_its_tasks_are_the_same_and_in_order(self, code, lesson):
        named = re.findall(r"^# \d\. `(\w+)\(", lesson.text, re.M)
        assert named == [task.name for task in find(lesson.number).tasks]
        assert f"minitensor course check {lesson.number}" in lesson.text

    def test_names_in_its_prose_are_those_of_the_original(self, code, lesson):
        for one, other in zip(find(lesson.number).cells, lesson.cells):
            if one.kind == "markdown":
                assert named(one.text) == named(other.text)

    def test_it_is_translated(self, code, lesson):
        for one, other in zip(find(lesson.number).cells, lesson.cells):
            assert one.kind == "code" or one.text != other.text

    def test_its_lines_are_not_long(self, code, lesson):
        assert max(map(len, lesson.text.splitlines())) <= 100


def named(text):
    """The pieces of code in prose; in another language their order may differ."""
    return sorted(set(re.findall(r"`([^`]+)`", text)))


ONE = '# %% [markdown]\n# # A title\n\n# %%\ndef f():\n    """A word."""\n    print("a", 1)\n'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (ONE.replace("A word", "又一词").replace('"a"', '"词"').replace("A title", "标题"), []),
        (ONE.replace('"a", 1', '"a", 2'), [2]),
        (ONE.replace("# # A title", "# ## A title"), [1]),
        (ONE + "\n# %%\nf()\n", [3]),
        (ONE.replace("# %%\ndef", "# %% [markdown]\n# def"), [2]),
    ],
)
def test_differences_are_found(text, found):
    assert differences(cells_of(ONE), cells_of(text)) == found
