"""The texts of lessons: their parts, tasks and pictures. That they run is held in tutorials/."""

import ast
import re

import pytest

from tutorials import lessons
from tutorials.course.lessons import PICTURES

LESSONS = lessons()


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
class TestLesson:
    def test_it_has_all_parts_in_order(self, lesson):
        prose = "\n".join(c.text for c in lesson.cells if c.kind == "markdown")
        parts = ("# ", "**You will be able to**", "**Predict first.**", "## Pitfalls")
        places = [prose.index(part) for part in (*parts, "## Tasks", "## Sources")]
        assert places == sorted(places) and places[0] == 0
        headings = re.findall(r"^## .+$", prose, re.M)
        assert headings[-3:] == ["## Pitfalls", "## Tasks", "## Sources"]
        assert len(headings) >= 5

    def test_its_code_is_python_with_loops_by_hand_and_assertions(self, lesson):
        code = [c.text for c in lesson.cells if c.kind == "code"]
        nodes = [node for text in code for node in ast.walk(ast.parse(text))]
        assert sum(isinstance(n, ast.Assert) for n in nodes) >= 4
        assert any(isinstance(n, ast.FunctionDef) and ast.get_docstring(n) for n in nodes)
        assert max(len(line) for line in lesson.text.splitlines()) <= 100

    def test_it_names_its_tasks_in_the_order_of_their_judges(self, lesson):
        text = lesson.text.split("## Tasks")[1].split("## Sources")[0]
        named = re.findall(r"^# \d\. `(\w+)\(", text, re.M)
        assert named == [task.name for task in lesson.tasks]
        assert all(re.search(rf"^def {n}\(", lesson.stubs.read_text(), re.M) for n in named)
        assert f"minitensor course check {lesson.number}" in text

    def test_its_pictures_are_kept(self, lesson):
        drawn = re.findall(r"^picture\(\s*\"(\w+)\"", lesson.text, re.M)
        assert drawn and all(name.startswith(f"{lesson.number}_") for name in drawn)
        kept = {p.stem for p in PICTURES.glob(f"{lesson.number}_*.svg")}
        assert set(drawn) == kept

    def test_it_takes_an_evening_at_most(self, lesson):
        assert 15 <= lesson.minutes <= 180
