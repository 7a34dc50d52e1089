"""Every test has a cache folder of its own; kernels are built from C written by hand."""

import os
import sys
from pathlib import Path

import pytest

from minitensor.codegen import Emitted, Target
from minitensor.ir import Buffer, DType
from minitensor.runtime import find_toolchain

ROOT = Path(__file__).parents[3]

ADD = """
int calls = 0;
int add(float *a, float *b, float *d, void *workspace) {
    calls++;
    for (int i = 0; i < 6; i++) d[i] = a[i] + b[i];
    return 0;
}
int how_often(void *unused) { return calls; }
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(folder))
    for variable in ("CFLAGS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)
    return folder


@pytest.fixture
def toolchain(cache):
    return find_toolchain()


@pytest.fixture
def emit():
    """Makes an Emitted of C text, by default of one that adds two arrays."""

    def make(
        source=ADD,
        entry="add",
        names="ABD",
        shape=(2, 3),
        dtype="float32",
        outputs=("D",),
        checks=(),
        workspace=0,
    ):
        params = tuple(Buffer(name, shape, DType.of(dtype)) for name in names)
        target = Target("c", num_cores=2, vector_bits=0)
        return Emitted(source, entry, params, frozenset(outputs), checks, workspace, target)

    return make


@pytest.fixture
def logging_compiler(tmp_path, monkeypatch, toolchain):
    """A CC that writes a line to a log each time it is started; returns the function that counts.

    `extra`, if given, is shell text that runs before the compiler for kernels (not for questions).
    """

    def make(extra=""):
        log, script = tmp_path / "log", tmp_path / "bin" / "logged-cc"
        script.parent.mkdir(exist_ok=True)
        script.write_text(
            f'#!/bin/sh\necho "$@" >> {log}\n'
            f'case "$*" in *kernel.c*) {extra or ":"} ;; esac\n'
            f'exec {" ".join(toolchain.words)} "$@"\n'
        )
        script.chmod(0o755)
        monkeypatch.setenv("CC", str(script))
        return lambda: len(log.read_text().splitlines()) if log.exists() else 0

    return make


@pytest.fixture
def python_command():
    """The words and environment that run Python text in a new process."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    return lambda text: ([sys.executable, "-c", text], {**os.environ, "PYTHONPATH": path})
