"""Answers that misbehave cost their task, a sentence, and nothing else; in real processes."""

import pathlib
import random
import sys
import time

import pytest

import tutorials
from minitensor.runtime.descendants import processes
from tutorials import check_task, find

LESSON = find("01")
DEFINE, RECOMPUTE, _ = LESSON.tasks
ROOT = pathlib.Path(tutorials.__file__).parent
RIGHT = """
import minitensor as mt

def define(n):
    A = mt.placeholder((n + 2,), "float32", name="A")
    R = mt.compute((n,), lambda i: 3 * A[i + 1] - A[i] - A[i + 2], name="R")
    return mt.lower([A, R])
"""

MISBEHAVING = {
    "nothing": ("", "does not define define"),
    "a syntax error": ("def define(n:\n", "01_tasks.py, line 1: SyntaxError"),
    "not utf-8": ("define = '\udcff'", "SyntaxError"),
    "no import": ("def define(n):\n    return mt.lower([])", "line 2: NameError"),
    "no function": ("define = 3", "not callable"),
    "no argument": ("def define():\n    pass", "TypeError"),
    "an exception": ("def define(n):\n    1 / 0", "ZeroDivisionError"),
    "an end": ("import sys\nsys.exit(0)", "SystemExit"),
    "a hard end": ("import os\ndef define(n):\n    os._exit(0)", "ended with status 0"),
    "a crash": ("import ctypes\ndef define(n):\n    ctypes.string_at(0)", "SIGSEGV"),
    "a stop": (
        "import os, signal\ndef define(n):\n    os.kill(os.getpid(), signal.SIGSTOP)",
        "SIGSTOP",
    ),
    "a loop": ("def define(n):\n    while True: pass", "did not end"),
    "a loop at import": ("while True: pass", "did not end"),
    "a sleep": ("import time\ndef define(n):\n    time.sleep(1e6)", "did not end"),
    "a recursion": ("def define(n):\n    return define(n)", "RecursionError"),
    "a gigabyte of text": (
        "def define(n):\n    for _ in range(10**6): print('x' * 1000)",
        "prints more than",
    ),
    "a gigabyte of text, past Python": (
        "import os\ndef define(n):\n    for _ in range(10**3): os.write(1, b'x' * 10**6)",
        "File too large",
    ),
    "memory": ("def define(n):\n    return bytearray(10**11)", "memory"),
    "a fork": ("import os\ndef define(n):\n    os.fork()", "starts another process"),
    "a command": ("import os\ndef define(n):\n    os.system('true')", "starts another process"),
    "a program": (
        "import subprocess\ndef define(n):\n    subprocess.run(['true'])",
        "starts another process",
    ),
    "the judge": (
        "from tutorials.judges.lesson_01 import TASKS\ndefine = None",
        "it imports",
    ),
    "the answers": ("from tests.course.answers.lesson_01 import define", "it imports"),
    "another result": (
        "import tutorials.course.check as c\nc.judged = lambda *a: ('', '')\n"
        "def define(n):\n    return 3",
        "a program is wanted",
    ),
    "an object": (
        "class C:\n    def __repr__(self): 1 / 0\ndef define(n):\n    return C()",
        "wanted",
    ),
    "an exception without text": (
        "class E(Exception):\n    def __str__(self): 1 / 0\ndef define(n):\n    raise E",
        "E",
    ),
    "a depth": (
        "def define(n):\n    x = []\n    for _ in range(10**5): x = [x]\n    return x",
        "wanted",
    ),
    "a forged reply": (
        "import os\ndef define(n):\n    os.write(3, b'{\"answers\": 3}\\n')\n    os._exit(0)",
        "",
    ),
    "a reply that is too deep": (
        "import os\nfor fd in range(3, 20):\n    try: os.write(fd, b'[' * 10**5 + b'\\n')\n"
        "    except OSError: pass\ntime = 0\nwhile True: pass",
        "no message",
    ),
    "a reply without end": (
        "import os\nfor fd in range(3, 20):\n    try:\n"
        "        while True: os.write(fd, b' ' * 10**5)\n    except OSError: pass\n",
        "",
    ),
    "a long text": ("def define(n):\n    return 'x' * 10**8", "it returns more than"),
    "a class with a long name": (
        "C = type('a\\n\\x1b[31m' + 'x' * 9999, (), {})\ndef define(n):\n    return C()",
        "wanted",
    ),
}


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(type(DEFINE), "seconds", 2.0)


def checked(text, folder):
    file = folder / "01_tasks.py"
    file.write_text(text, encoding="utf-8", errors="surrogateescape")
    return check_task(LESSON, DEFINE, file)


NAMED = (
    *("nothing", "a syntax error", "a sleep", "a gigabyte of text", "a fork", "the judge"),
    *("another result", "a crash", "a hard end"),
)
"""The others are more of the same."""
PARAMETERS = [n if n in NAMED else pytest.param(n, marks=pytest.mark.whole) for n in MISBEHAVING]


@pytest.mark.slow
@pytest.mark.parametrize("name", PARAMETERS)
def test_it_costs_the_task_and_a_sentence(name, tmp_path):
    text, part = MISBEHAVING[name]
    began = time.monotonic()
    found = checked(text, tmp_path)
    assert not found.passed and part in found.lacking and len(found.lacking) < 500
    assert "\n" not in found.lacking and time.monotonic() - began < 15
    assert {p.name for p in tmp_path.iterdir()} <= {"01_tasks.py"}


@pytest.mark.slow
def test_a_right_answer_passes_and_what_is_missing_is_told(tmp_path):
    assert checked(RIGHT, tmp_path).passed
    assert "there is no file" in check_task(LESSON, DEFINE, tmp_path / "none.py").lacking
    assert "there is no file" in check_task(LESSON, DEFINE, tmp_path / ("x" * 5000)).lacking


@pytest.mark.slow
@pytest.mark.parametrize("how", ["open({file!r}, 'w')", "os.remove({file!r})"])
def test_the_judges_cannot_be_written_over(how, tmp_path):
    file = str(ROOT / "judges" / "lesson_01.py")
    text = f"import os\n{how.format(file=file)}\n{RIGHT}"
    assert "writes to lesson_01.py" in checked(text, tmp_path).lacking


@pytest.mark.slow
def test_what_was_written_over_is_put_back(tmp_path):
    file = ROOT / "judges" / "__init__.py"
    before = file.read_bytes()
    text = (
        "import ctypes\n"
        f"libc = ctypes.CDLL(None)\nhandle = libc.open({str(file).encode()!r}, 513)\n"
        f"libc.write(handle, b'broken', 6)\n{RIGHT}"
    )
    found = checked(text, tmp_path)
    assert "wrote over tutorials/judges/__init__.py" in found.lacking
    assert file.read_bytes() == before


@pytest.mark.slow
def test_a_students_own_files_are_safe(tmp_path):
    (tmp_path / "notes").write_text("mine")
    text = f"import shutil\nshutil.rmtree({str(tmp_path)!r})\n{RIGHT}"
    found = checked(text, tmp_path)
    assert found.passed or "writes" in found.lacking or "does not define" in found.lacking


@pytest.mark.slow
def test_nothing_is_left_running(tmp_path):
    text = (
        "import ctypes, time\nlibc = ctypes.CDLL(None)\n"
        "if libc.fork() == 0:\n    libc.setsid()\n    time.sleep(1000)\n"
    )
    before = {pid for pid, _ in processes("stat")}
    checked(text + RIGHT, tmp_path)
    left = {pid for pid, data in processes("cmdline") if b"course.submission" in data} - before
    assert not left


def test_what_is_printed_is_kept(tmp_path):
    found = checked("print('hello')\n" + RIGHT.replace("3 *", "2 *"), tmp_path)
    assert "hello" in found.printed and "R[0] is" in found.lacking
    assert "mt.interpret(got" in found.script


def test_what_is_withheld_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(type(RECOMPUTE), "without", ("Schedule.compute_inline",))
    file = tmp_path / "a.py"
    file.write_text("def recompute(s):\n    s.compute_inline('P')\n")
    # the other process has its own class: what it withholds is what the judge's module says
    assert check_task(LESSON, RECOMPUTE, file).passed


FROM_A_JUDGE = {
    "the stack": (
        "import sys\ndef digits(*a):\n    frame = sys._getframe(1)\n"
        "    return frame.f_locals['self' if 'self' in frame.f_locals else 'task'].expected(*a)"
    ),
    "a module": (
        "import tutorials as c\ndef digits(*a):\n"
        "    return c.judges.lesson_06.TASKS[0].expected(*a)"
    ),
    "the collector": (
        "import gc\ndef digits(*a):\n"
        "    found = [o for o in gc.get_objects() if type(o).__name__ == 'Digits']\n"
        "    return found[0].expected(*a)"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FROM_A_JUDGE)
def test_what_is_expected_is_not_in_the_process(name, tmp_path):
    lesson, file = find("06"), tmp_path / "a.py"
    file.write_text(FROM_A_JUDGE[name])
    found = check_task(lesson, lesson.tasks[0], file)
    assert "AttributeError" in found.lacking


@pytest.mark.slow
def test_what_is_withheld_is_nowhere(tmp_path):
    lesson, file = find("03"), tmp_path / "a.py"
    file.write_text("from minitensor.ir.evaluate import evaluate\n")
    assert "is to do without" in check_task(lesson, lesson.tasks[1], file).lacking
    lesson = find("20")
    file.write_text("from tutorials.course.costs import table\npropose = table('conv-1x1')")
    assert "is to do without" in check_task(lesson, lesson.tasks[2], file).lacking


@pytest.mark.slow
def test_modules_of_a_students_folder_are_no_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "random.py").write_text("raise SystemError")
    (tmp_path / "tests_of_mine.py").write_text("")
    lines = RIGHT.replace("(n):\n", "(n):\n    import tests_of_mine\n\n")
    assert checked(lines, tmp_path).passed or sys.version_info < (3, 11)


@pytest.mark.slow
def test_a_script_runs_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("def define(n):\n    return 3")
    script = check_task(LESSON, DEFINE, pathlib.Path("a.py")).script
    assert repr(str(tmp_path / "a.py")) in script


def test_hidden_cases_follow_the_seed():
    drawn = [str(DEFINE.cases(random.Random(f"{seed}:01:define"))) for seed in "aab"]
    assert drawn[0] == drawn[1] != drawn[2]
