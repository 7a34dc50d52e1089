"""The commands of the Makefile say what is missing."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
TARGETS = ["demo", "test", "whole", "quick", "fuzz", "lint", "types", "bench", "docs"]
EXTRAS = {"demo": "[onnx]", "bench": "[onnx]", "docs": "[docs]"}
EXTRAS |= dict.fromkeys(("lint", "types"), "[test,dev]")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.fixture
def make(tmp_path):
    """A function that runs make in a folder with the Makefile and nothing to install.

    The variables by which one make tells another that it runs below it are left out: the
    tests are themselves a target of the Makefile.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    environ.pop("MFLAGS", None)
    for name in ("Makefile", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)

    def run(*words):
        return subprocess.run(
            ["make", *words],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


def program(path, text):
    """A shell script that can be started."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_all_targets_are_tried_here():
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert {*TARGETS, "clean"} == set(phony.split())


@pytest.mark.parametrize("target", TARGETS)
def test_packages_that_cannot_be_installed(target, make, tmp_path):
    pip = 'case "$*" in *"pip install"*) echo "no network" >&2; exit 1;; esac'
    program(tmp_path / ".venv/bin/python", pip)
    done = make(target)
    assert done.returncode == 2
    assert "no network" in done.stderr
    needed = f"minitensor{EXTRAS.get(target, '[test]')}"
    assert f"pip cannot install what this command needs, {needed}: it says why above" in done.stdout
    assert f"PIP_NO_INDEX=1 PIP_FIND_LINKS={tmp_path}/wheels make" in done.stdout
    assert not [path for path in (tmp_path / ".venv").iterdir() if path.name != "bin"]


def test_an_environment_without_pip(make, tmp_path):
    program(tmp_path / ".venv/bin/python", "exit 1")
    done = make("demo")
    assert done.returncode == 2
    assert "no pip, so it is not whole: make clean, then again" in done.stdout


def test_no_python(make):
    done = make("demo", "PYTHON=no-such-python")
    assert done.returncode == 2
    assert "there is no no-such-python on PATH; set PYTHON=" in done.stdout


def test_a_python_that_is_too_old(make, tmp_path):
    done = make("demo", f"PYTHON={program(tmp_path / 'old', 'exit 1')}")
    assert done.returncode == 2
    assert "minitensor needs Python 3.10 or newer" in done.stdout


def test_an_environment_that_cannot_be_made_is_taken_away(make, tmp_path):
    half = 'case "$*" in *venv*) mkdir -p .venv/bin; touch .venv/bin/python; exit 1;; esac'
    done = make("demo", f"PYTHON={program(tmp_path / 'half', half)}")
    assert done.returncode == 2
    assert "apt install python3-venv" in done.stdout
    assert not (tmp_path / ".venv").exists()


def test_arguments_are_passed_on(make, tmp_path):
    program(tmp_path / ".venv/bin/python", 'echo "python $*"')
    assert make("demo", "ARGS=--quick --json").stdout.splitlines()[-1] == (
        "python -m tutorials.demo --quick --json"
    )
