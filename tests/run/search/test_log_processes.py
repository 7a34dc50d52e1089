"""Logs of real processes: killed, out of space, short of memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import minitensor
from minitensor.search import Report
from tests.made_records import filled, made

ROOT = Path(minitensor.__file__).parents[1]


def python(*words, status=0):
    """What a Python process prints as JSON."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, check=False
    )
    assert done.returncode == status, done.stderr.decode()
    return json.loads(done.stdout or "null")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "words"),
    [
        (20, ()),
        (10, ("--compact",)),
        pytest.param(100, (), marks=pytest.mark.whole),
        pytest.param(100, ("--compact",), marks=pytest.mark.whole),
    ],
    ids=str,
)
def test_many_kills_of_four_writers(kills, words, tmp_path):
    path = tmp_path / "tuning.jsonl"
    found = python("-m", "tests.stress_log", "--kills", str(kills), "--out", path, *words)
    assert found["acknowledged"] > 5 * kills
    # what was written and not yet acknowledged: at most one for each kill, and for each at the end
    assert 0 <= found["records"] - found["acknowledged"] <= kills + 4
    expected = {"lost": 0, "repeated": 0, "changed": 0, "damaged": 0, "unknown": 0}
    assert {name: found[name] for name in expected} == expected
    done = subprocess.run(
        [sys.executable, "-m", "minitensor", "log", "verify", path],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert b"damaged line" not in done.stdout
    assert f"{found['records']:,} records".encode() in done.stdout


@pytest.mark.slow
def test_a_few_kills(tmp_path):
    path = tmp_path / "tuning.jsonl"
    found = python("-m", "tests.stress_log", "--kills", "8", "--compact", "--out", path)
    assert found["acknowledged"] > 20
    assert found["lost"] == found["damaged"] == 0


KILLED_IN_WRITE = """
import os, signal, sys
from minitensor.search import Log
from tests.made_records import made

write = os.write
def half(descriptor, data):
    write(descriptor, data[: int(sys.argv[2])])
    os.kill(os.getpid(), signal.SIGKILL)

os.write = half
Log(sys.argv[1]).append(made(1))
"""


@pytest.mark.slow
@pytest.mark.parametrize("taken", [1, 100])
def test_killed_in_the_middle_of_a_write(log, taken):
    filled(log, made(0))
    python("-c", KILLED_IN_WRITE, log.path, str(taken), status=-9)
    assert log.read() == ([made(0)], Report(good=1, torn=1, unfinished=True))
    log.append(made(2))
    assert log.read() == ([made(0), made(2)], Report(good=2, torn=1))
    log.compact()
    assert log.verify() == Report(good=2)


KILLED_IN_REWRITE = """
import os, signal, sys
from minitensor.search import Log

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(os, sys.argv[2], killed)
Log(sys.argv[1]).prune(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["fsync", "rename"])
def test_killed_in_the_middle_of_a_rewrite(log, moment):
    filled(log, made(0), made(1))
    python("-c", KILLED_IN_REWRITE, log.path, moment, status=-9)
    log.append(made(2))
    assert log.read() == ([made(0), made(1), made(2)], Report(good=3))
    assert log.prune(1).kept == 1
    assert os.listdir(log.path.parent) == [log.path.name]


NO_SPACE = """
import json, os, resource, sys
from minitensor.errors import TuningError
from minitensor.search import Log
from tests.made_records import made

log = Log(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
written, said = 0, []
for seed in range(40):
    try:
        log.append(made(seed))
        written += 1
    except TuningError as error:
        said.append(str(error))
try:
    log.compact()
except TuningError as error:
    said.append(str(error))
print(json.dumps([written, said]))
"""


@pytest.mark.slow
def test_no_space_left(log):
    """The system takes a part of a write: that is taken back, and what was there stays."""
    written, said = python("-c", NO_SPACE, log.path)
    assert 10 < written < 40
    assert len(said) == 40 - written
    assert said[0].startswith(f"cannot write to the log {log.path}: File too large; free some")
    assert log.read() == ([made(n) for n in range(written)], Report(good=written))
    assert log.path.stat().st_size <= 10_000
    log.append(made(99))
    assert log.verify() == Report(good=written + 1)


MEMORY = """
import json, resource, sys
from minitensor.search import Log

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
records, report = Log(sys.argv[1]).read()
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([len(records), report.damaged, after - before]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("byte", [b"x", b"["])
def test_a_line_of_100_megabytes_takes_little_memory(log, byte):
    filled(log, made(0))
    with open(log.path, "ab") as file:
        for _ in range(100):
            file.write(byte * 1_000_000)
        file.write(b"\n")
    log.append(made(1))
    good, damaged, grown = python("-c", MEMORY, log.path)
    assert (good, damaged) == (2, 1)
    kilobytes = grown if sys.platform == "linux" else grown // 1024
    assert kilobytes < 20_000
