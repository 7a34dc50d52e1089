"""Hidden tasks of a lecturer's own file; the first is the one of docs/teaching.md."""

import json
import pathlib
import re

import pytest

from minitensor.cli.main import main

DOCUMENT = pathlib.Path(__file__).parents[3] / "docs/teaching.md"
HIDDEN = re.search(r'```python\n("""hidden_06.*?)```', DOCUMENT.read_text(), re.S)[1]
RIGHT = "def innermost(sizes):\n    return (1, *sizes)[-1]\n"
WRONG = "def innermost(sizes):\n    return sizes[-1]\n"


@pytest.fixture
def hidden(tmp_path):
    """A lecturer's folder with the file."""
    path = tmp_path / "mine" / "hidden_06.py"
    path.parent.mkdir()
    path.write_text(HIDDEN)
    return path


@pytest.fixture
def student(tmp_path):
    """A student's folder."""
    folder = tmp_path / "student"
    folder.mkdir()
    return folder


def checked(capsys, student, answer, hidden, *words):
    """The status of a check, what it says as JSON, and what it prints besides."""
    (student / "06_tasks.py").write_text(answer)
    command = ["course", "check", "06", "--dir", str(student), "--hidden", str(hidden), *words]
    status = main([*command, "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_right_and_wrong_answers(capsys, student, hidden):
    only = "--task", "innermost"
    status, found = checked(capsys, student, RIGHT, hidden, *only)
    assert status == 0 and (found["points"], found["of"]) == (2, 2)
    status, found = checked(capsys, student, WRONG, hidden, *only)
    (task,) = found["tasks"]
    assert status == 1 and task["hidden"] and "IndexError" in task["lacking"]
    assert "answer = run_file" in task["script"]
    assert sorted(p.name for p in student.iterdir() if "progress" not in p.name) == ["06_tasks.py"]
    assert all("innermost" not in p.read_text() for p in student.iterdir() if "tasks" not in p.name)


@pytest.mark.slow
def test_they_come_after_the_tasks_of_the_lesson(capsys, student, hidden, tmp_path):
    written = tmp_path / "results.json"
    status, found = checked(capsys, student, RIGHT, hidden, "--gradescope", str(written))
    assert status == 1
    assert [task["task"] for task in found["tasks"]][-2:] == ["strips", "innermost"]
    assert [task["hidden"] for task in found["tasks"]] == [False] * 4 + [True]
    tests = json.loads(written.read_text())["tests"]
    assert [test["visibility"] for test in tests] == ["visible"] * 4 + ["hidden"]


def test_an_answer_cannot_ask_the_judge(capsys, student, hidden):
    peeking = (
        "import gc\n"
        "def innermost(sizes):\n"
        "    judges = [c for c in gc.get_objects() if isinstance(c, type)\n"
        "              and c.__name__ == 'Innermost']\n"
        "    return judges[0]().expected(sizes)\n"
    )
    status, found = checked(capsys, student, peeking, hidden, "--task", "innermost")
    assert status == 1 and "Error" in found["tasks"][0]["lacking"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, "there is no file"),
        ("def f(:", "line 1: SyntaxError"),
        ("x = 1\n", "has no tasks: TASKS = (MyTask(), …)"),
        ("TASKS = ()\n", "has no tasks"),
        ("TASKS = (1,)\n", "TASKS has 1, which is no Task"),
        (HIDDEN.replace("Innermost(),)", "Innermost,)"), "make one: MyTask()"),
        (HIDDEN.replace("Innermost(),)", "Innermost(), Innermost())"), "two tasks have one name"),
        (HIDDEN.replace('"innermost"', '"in most"'), "a task needs a name"),
        (HIDDEN.replace('"innermost"', '"tile"'), "has a task tile of its own"),
        (HIDDEN.replace("def cases", "def others"), "abstract method"),
    ],
)
def test_files_that_are_refused(capsys, student, hidden, text, part):
    if text is None:
        hidden.unlink()
    else:
        hidden.write_text(text)
    (student / "06_tasks.py").write_text(RIGHT)
    assert main(["course", "check", "06", "--dir", str(student), "--hidden", str(hidden)]) == 1
    assert part in capsys.readouterr().err


def test_they_are_for_one_lesson(capsys, student, hidden):
    assert main(["course", "check", "--dir", str(student), "--hidden", str(hidden)]) == 2
    assert "--hidden is for one lesson" in capsys.readouterr().err
