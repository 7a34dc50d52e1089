"""A compiler is given no input, no shell and not for ever; tried with Python in its place."""

import os
import sys
import time
from pathlib import Path

import pytest

from minitensor import errors
from minitensor.runtime import process
from minitensor.runtime.process import run_compiler


def python(code, folder, limit=20.0):
    return run_compiler([sys.executable, "-c", code], folder, limit)


def is_alive(process):
    """Whether a process runs; one that was killed may stay as a zombie until its parent looks."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


def test_status_and_output(tmp_path):
    done = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", tmp_path)
    assert (done.status, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_surroundings(tmp_path):
    code = (
        "import os, sys; print(os.getcwd(), os.environ['TMPDIR'], os.environ['LC_ALL'], "
        "repr(sys.stdin.read()), os.getsid(0) == os.getpid())"
    )
    folder = os.path.realpath(tmp_path)
    assert python(code, Path(folder)).stdout == f"{folder} {folder} C '' True\n"


@pytest.mark.parametrize("name", process._WITHHELD)
def test_variables_that_make_compilers_write_elsewhere_are_withheld(tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    assert name in os.environ
    assert python(f"import os; print({name!r} in os.environ)", tmp_path).stdout == "False\n"


def test_output_that_is_not_text(tmp_path):
    done = python("import sys; sys.stderr.buffer.write(b'\\xff!')", tmp_path)
    assert done.stderr == "\N{REPLACEMENT CHARACTER}!"


def test_program_that_cannot_start(tmp_path):
    with pytest.raises(errors.CompileError, match="cannot be started: No such file") as caught:
        run_compiler([str(tmp_path / "missing"), "-v"], tmp_path, 1.0)
    assert caught.value.command == (str(tmp_path / "missing"), "-v")


@pytest.mark.slow
def test_program_that_does_not_end_is_stopped_with_its_children(tmp_path):
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('child', 'w').write(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    start = time.monotonic()
    with pytest.raises(errors.CompileError, match=r"did not end within 1\.5 s and was stopped"):
        python(code, tmp_path, 1.5)
    assert time.monotonic() - start < 20
    child = int((tmp_path / "child").read_text())
    while is_alive(child) and time.monotonic() - start < 20:
        time.sleep(0.01)
    assert not is_alive(child)
