"""A lecturer's copy of the course: another name, another judge, another lesson; no repository."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import minitensor
import tutorials

RIGHT = """
import minitensor as mt

def define(n):
    A = mt.placeholder((n + 2,), "float32", name="A")
    R = mt.compute((n,), lambda i: 3 * A[i + 1] - A[i] - A[i + 2], name="R")
    return mt.lower([A, R])
"""


def ran(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(minitensor.__file__).parents[1])
    command = [sys.executable, *words]
    variables = {**os.environ, "PYTHONPATH": root}
    return subprocess.run(
        command, cwd=folder, env=variables, check=False, capture_output=True, text=True
    )


@pytest.mark.slow
def test_a_copy_is_used_under_its_own_name(tmp_path):
    copy = tmp_path / "my_copy"
    shutil.copytree(Path(tutorials.__file__).parent, copy)
    judge = copy / "judges" / "lesson_01.py"
    judge.write_text(judge.read_text().replace('name, text = "define"', 'name, text = "defined"'))
    lesson = copy / "01_first_kernel.py"
    lesson.write_text(lesson.read_text() + "# ours\n")

    started = ran(tmp_path, "-m", "my_copy", "start", "student")
    told = " ".join(started.stdout.split())
    assert started.returncode == 0, started.stderr
    assert "python -m my_copy check 01 --dir student" in told
    assert (tmp_path / "student" / "01_first_kernel.py").read_text().endswith("# ours\n")
    assert "python -m my_copy check 01" in (tmp_path / "student" / "README.md").read_text()

    tasks = tmp_path / "student" / "01_tasks.py"
    words = ("-m", "my_copy", "check", "01", "--task", "defined", "--dir", "student")
    tasks.write_text(RIGHT.replace("define(", "defined("))
    right = ran(tmp_path, *words)
    assert right.returncode == 0 and "1 of 1 point" in right.stdout, right.stdout + right.stderr

    tasks.write_text("from minitensor_course.judges.lesson_01 import TASKS\ndefined = None\n")
    assert "it imports minitensor_course" in ran(tmp_path, *words).stdout

    tasks.write_text(RIGHT.replace("define(", "defined(").replace("3 *", "2 *"))
    assert "R[0] is" in ran(tmp_path, *words).stdout
    shown = ran(tmp_path / "student", "shown/01_defined.py")
    assert shown.returncode == 1 and "AssertionError" in shown.stderr


def test_no_file_of_the_course_names_the_package_that_it_is():
    root = Path(tutorials.__file__).parent
    files = [p for p in root.rglob("*.py") if not p.name[0].isdigit()]
    lines = [line for p in files for line in p.read_text().splitlines()]
    named = (
        "from tutorials",
        "import tutorials",
        "from minitensor_course",
        "import minitensor_course",
    )
    assert len(files) > 50 and not [line for line in lines if line.strip().startswith(named)]


@pytest.mark.slow
def test_without_the_course_a_sentence_says_how_to_get_it(tmp_path):
    text = (
        "import sys\nfrom importlib import metadata\n"
        "metadata.entry_points = lambda **_: ()\n"
        "from minitensor.cli import main\nsys.exit(main(['course', 'list']))\n"
    )
    found = ran(tmp_path, "-c", text)
    assert found.returncode == 1 and "the command course is not installed" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.slow
def test_a_command_that_cannot_be_imported_is_a_sentence(tmp_path):
    text = (
        "import sys\nfrom importlib import metadata\n"
        "point = metadata.EntryPoint('course', 'not_there.command', 'minitensor.commands')\n"
        "metadata.entry_points = lambda **_: (point,)\n"
        "from minitensor.cli import main\nsys.exit(main(['course', 'list']))\n"
    )
    found = ran(tmp_path, "-c", text)
    assert found.returncode == 1 and "cannot be imported: No module named" in found.stderr
    assert "Traceback" not in found.stderr
