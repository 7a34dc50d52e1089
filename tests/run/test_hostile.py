"""Kernels with hostile names are compiled and run; no process but the compiler is started.

tests/unit/test_hostile.py has what the texts look like.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from minitensor.runtime import find_toolchain
from tests.hostile import HOSTILE
from tests.parts import some
from tests.unit.hostile_schedule import COUNT

ROOT = pathlib.Path(__file__).parents[2]
PART = 9 * COUNT


def watched(folder, first, count):
    """What tests/run/watched.py reports of a process of its own, with a cache of its own."""
    (folder / "here").mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MINITENSOR_CACHE_DIR": str(folder / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "tests.run.watched", str(first), str(count)]
    done = subprocess.run(
        [*command, str(folder / "here")],
        env=environment,
        capture_output=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def harmless(tmp_path_factory):
    """The command lines of the compiler where no text is hostile."""
    folder = tmp_path_factory.mktemp("harmless")
    report = watched(folder, len(HOSTILE), 0)
    assert report["wrong"] == report["others"] == []
    assert report["started"]
    return commands_of(report, folder)


def commands_of(report, folder):
    """The command lines that were started; the program that measures vectors is in a folder of the
    cache that has another name each time.
    """
    cache = f"{folder}/cache/build-"
    return {
        tuple(pathlib.Path(word).name if word.startswith(cache) else word for word in command)
        for command in report["started"]
    }


def assembly_of(toolchain):
    """The command lines that `compile --assembly` may start."""
    return {
        tuple(toolchain.assembly_command("kernel.c", "kernel.s", origins)) for origins in (0, 1)
    }


@pytest.mark.slow
@pytest.mark.parametrize("first", some(range(0, len(HOSTILE), PART), lambda number: number == 0))
def test_no_process_but_the_compiler(first, tmp_path, harmless):
    report = watched(tmp_path, first, PART)
    assert report["wrong"] == []
    assert report["others"] == []
    assert commands_of(report, tmp_path) <= harmless | assembly_of(find_toolchain())
    inside = (str(tmp_path), "/dev/null")
    assert [path for path in report["written"] if not path.startswith(inside)] == []
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.slow
def test_the_watch_sees_what_it_should(tmp_path):
    """Other processes and files would have been reported."""
    text = f"""
import os, subprocess, sys
from tests.run import watched
sys.addaudithook(watched.watch)
watched.watching = True
subprocess.run(["true"])
os.system("true")
if os.fork() == 0:
    os._exit(0)
os.wait()
os.spawnlp(os.P_WAIT, "true", "true")
os.posix_spawn("/bin/sh", ["sh", "-c", "true"], os.environ)
os.wait()
open({str(tmp_path / "made")!r}, "w").close()
watched.watching = False
print(watched.started, watched.others, watched.written)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True
    )
    for seen in ("['true']", "os.system", "os.fork", "os.posix_spawn", str(tmp_path / "made")):
        assert seen in done.stdout
