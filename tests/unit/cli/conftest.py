"""Commands run in this process; nothing here may need a compiler."""

import json

import pytest

import minitensor as mt
from minitensor.cli import main

PROGRAM = """
import minitensor as mt

program = mt.lower(mt.workloads.matmul(m=8, n=8, k=4), name="product")
s = mt.Schedule(program)
i_0, i_1 = s.split(s.get_loops("C")[0], [None, 4])
s.unroll(i_1)
number = 3
"""


class Done:
    """What a command left: its status and what it printed."""

    def __init__(self, status, printed):
        self.status, self.out, self.err = status, printed.out, printed.err

    def json(self):
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path / "cache"))
    for variable in ("CC", "CFLAGS", "OMP_NUM_THREADS", "NO_COLOR"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def run(capsys):
    """Runs a command line; errors never come as exceptions."""

    def command(*words):
        return Done(main([str(word) for word in words]), capsys.readouterr())

    return command


@pytest.fixture
def user_file(tmp_path):
    """A file with a program, a schedule, and something else."""
    path = tmp_path / "mine.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def trace_file(tmp_path):
    """A trace for the matmul operator at its small size (m=7, n=6, k=5)."""
    s = mt.Schedule(mt.lower(mt.workloads.matmul(m=7, n=6, k=5), name="matmul"))
    i, j, k = s.get_loops("C")
    j_0, j_1 = s.split(j, [None, 2])
    s.reorder(i, j_0, k, j_1)
    s.vectorize(j_1)
    path = tmp_path / "trace.json"
    path.write_text(s.trace.to_json())
    return path
