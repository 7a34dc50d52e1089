"""The compile cache: one compilation for each kernel, no damaged code loaded, no locks."""

import functools
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import minitensor as mt
from minitensor import errors
from minitensor.runtime import build, find_toolchain, folder, load
from minitensor.runtime import cache as cache_module
from minitensor.runtime.cache import compile_library
from tests.run.runtime.conftest import ROOT


def ones():
    return np.ones((2, 3), "float32")


def entries(cache):
    """The names of all that is in the cache but the compiler's answers."""
    return sorted(p.name for p in cache.glob("*") if not p.name.startswith("toolchain-"))


def files_of(compiled):
    return [compiled.path.with_suffix(suffix) for suffix in (".so", ".json", ".c")]


@pytest.fixture
def no_processes(monkeypatch):
    """Call it, and from then on every started process is an error."""

    def forbid(*args, **kwargs):
        raise AssertionError(f"a process was started: {args}")

    return lambda: monkeypatch.setattr(subprocess, "Popen", forbid)


def test_entry_is_a_library_its_record_and_its_source(emit, toolchain, cache):
    source = emit().source
    compiled = compile_library(source, toolchain)
    library, record, text = files_of(compiled)
    assert entries(cache) == sorted(p.name for p in (library, record, text))
    assert text.read_text() == source
    written = json.loads(record.read_text().splitlines()[1])
    assert written["command"] == list(compiled.command)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_second_load_starts_no_process(emit, toolchain, no_processes):
    load(emit(), toolchain)
    no_processes()
    np.testing.assert_array_equal(load(emit(), find_toolchain())(ones(), ones()), ones() * 2)


@pytest.mark.slow
def test_other_source_or_flags_are_other_entries(emit, toolchain, cache, monkeypatch):
    compile_library(emit().source, toolchain)
    compile_library(emit().source + "\n", toolchain)
    assert len(entries(cache)) == 6
    monkeypatch.setenv("CFLAGS", "-O1")
    compiled = compile_library(emit().source, find_toolchain())
    assert len(entries(cache)) == 9
    assert compiled.command.index("-O1") > compiled.command.index("-O2")


def test_other_cpu_is_another_entry(emit, toolchain, cache, monkeypatch):
    first = compile_library(emit().source, toolchain)
    monkeypatch.setattr(folder, "cpu_fingerprint", lambda: "another")
    assert compile_library(emit().source, toolchain).path != first.path


# ---- damaged entries


def truncate(library, _):
    library.write_bytes(library.read_bytes()[:1000])


def flip(library, _):
    content = bytearray(library.read_bytes())
    content[len(content) // 2] ^= 1
    library.write_bytes(content)


def remove(library, _):
    library.unlink()


def replace_by_link(library, _):
    elsewhere = library.with_suffix(".moved")
    library.rename(elsewhere)
    library.symlink_to(elsewhere)


def open_to_others(library, _):
    library.chmod(0o777)


def replace_record_by_link(_, record):
    elsewhere = record.with_suffix(".moved")
    record.rename(elsewhere)
    record.symlink_to(elsewhere)


def empty_record(_, record):
    record.write_text("")


def record_of_another_kind(_, record):
    record.write_text("[1, 2]")


def endless_record(_, record):
    record.write_text("[" * 100_000)


def remove_record(_, record):
    record.unlink()


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        replace_by_link,
        empty_record,
        *[
            pytest.param(damage, marks=pytest.mark.slow)
            for damage in (
                flip,
                remove,
                open_to_others,
                replace_record_by_link,
                record_of_another_kind,
                endless_record,
                remove_record,
            )
        ],
    ],
)
def test_damaged_entry_is_made_again(emit, logging_compiler, damage):
    # unlike `load`, this maps no library: one that is mapped must not be truncated in place
    started = logging_compiler()
    toolchain = find_toolchain()
    compiled = compile_library(emit().source, toolchain)
    library, record, _ = files_of(compiled)
    before, content = started(), library.read_bytes()
    damage(library, record)
    assert compile_library(emit().source, toolchain) == compiled
    assert started() == before + 1
    assert library.read_bytes() == content
    assert not library.is_symlink() and not record.is_symlink()
    compile_library(emit().source, toolchain)
    assert started() == before + 1


def test_library_put_in_place_of_another_is_not_loaded(emit, toolchain):
    other = "int add(float *a, float *b, float *d, void *w) { d[0] = 666; return 0; }"
    mine, theirs = (compile_library(text, toolchain) for text in (emit().source, other))
    os.replace(theirs.path, mine.path)
    np.testing.assert_array_equal(load(emit(), toolchain)(ones(), ones()), ones() * 2)


@pytest.mark.slow
def test_entry_put_in_place_of_another_is_not_loaded(emit, logging_compiler):
    started = logging_compiler()
    toolchain = find_toolchain()
    other = "int add(float *a, float *b, float *d, void *w) { d[0] = 666; return 0; }"
    mine, theirs = (compile_library(text, toolchain) for text in (emit().source, other))
    for own, others in zip(files_of(mine), files_of(theirs)):
        os.replace(others, own)
    before = started()
    np.testing.assert_array_equal(load(emit(), toolchain)(ones(), ones()), ones() * 2)
    assert started() == before + 1


def test_other_version_is_another_entry(emit, toolchain, cache, monkeypatch):
    first = compile_library(emit().source, toolchain)
    monkeypatch.setattr(folder, "__version__", "another")
    assert compile_library(emit().source, toolchain).path != first.path


# ---- failures leave nothing


def test_failing_compiler(emit, toolchain, cache):
    with pytest.raises(errors.CompileError, match=r"failed with status 1: kernel\.c:.*error") as e:
        load(emit("int add( {"), toolchain)
    assert e.value.command[0] == toolchain.words[0] and "kernel.c" in e.value.command
    assert "error" in e.value.stderr
    assert "command: " in str(e.value) and "stderr:" in str(e.value)
    assert entries(cache) == []


CRASH = 'echo "cc: internal compiler error: Segmentation fault" >&2; exit 4'


def test_compiler_that_crashes_is_asked_again_without_its_vectorizer(
    emit, logging_compiler, cache, caplog
):
    started = logging_compiler(
        extra=f'case "$*" in *-fno-tree-vectorize*) ;; *kernel.c*) {CRASH};; esac'
    )
    toolchain = find_toolchain()
    kernel = load(emit(), toolchain)
    np.testing.assert_array_equal(kernel(ones(), ones()), ones() * 2)
    assert "-fno-tree-vectorize" in kernel.command
    (warning,) = caplog.records
    assert "crashed (cc: internal compiler error: Segmentation fault)" in warning.getMessage()
    before = started()
    assert load(emit(), toolchain).command == kernel.command
    assert started() == before


@pytest.mark.slow
def test_compiler_that_always_crashes(emit, logging_compiler, cache):
    logging_compiler(extra=f'case "$*" in *kernel.c*) {CRASH};; esac')
    with pytest.raises(errors.CompileError, match="status 4: cc: internal compiler error") as e:
        load(emit(), find_toolchain())
    assert "-fno-tree-vectorize" not in e.value.command
    assert entries(cache) == []


def test_compiler_that_makes_nothing(emit, logging_compiler, cache):
    logging_compiler(extra="exit 0")
    with pytest.raises(errors.CompileError, match="failed with status 0: no message"):
        load(emit(), find_toolchain())
    assert entries(cache) == []


@pytest.mark.slow
def test_hanging_compiler_is_stopped(emit, logging_compiler, cache):
    logging_compiler(extra="echo > half-written.so; sleep 60")
    toolchain = find_toolchain()
    start = time.monotonic()
    with pytest.raises(errors.CompileError, match=r"did not end within 0\.3 s and was stopped"):
        load(emit(), toolchain, time_limit=0.3)
    assert time.monotonic() - start < 15
    assert entries(cache) == []


def test_interrupted_compilation_leaves_nothing(emit, toolchain, cache, monkeypatch):
    class Interrupted(subprocess.Popen):
        def communicate(self, *args, **kwargs):
            raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        load(emit(), toolchain)
    assert entries(cache) == []


def test_source_of_many_megabytes_is_not_compiled(emit, toolchain, cache, no_processes):
    no_processes()
    with pytest.raises(errors.CompileError, match=r"2,000,0\d\d bytes, and at most 2,000,000"):
        load(emit("/" * cache_module.MAX_SOURCE + emit().source[:50]), toolchain)
    assert entries(cache) == []


def test_missing_function_is_a_compile_error(emit, toolchain):
    with pytest.raises(errors.CompileError, match="cannot load absent from"):
        load(emit(entry="absent"), toolchain)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"none")])
def test_library_that_goes_before_it_is_loaded_is_made_again(emit, toolchain, monkeypatch, spoil):
    real = build.load_function
    spoiled = []

    def load_function(path, *args):
        if len(spoiled) < 2:
            spoiled.append(path)
            spoil(path)
        return real(path, *args)

    monkeypatch.setattr(build, "load_function", load_function)
    np.testing.assert_array_equal(load(emit(), toolchain)(ones(), ones()), ones() * 2)
    assert len(spoiled) == 2


# ---- many processes

WORKER = """
import sys
import numpy as np
from minitensor.codegen import Emitted, Target
from minitensor.ir import FLOAT32, Buffer
from minitensor.runtime import find_toolchain, load

params = (Buffer("A", (4,), FLOAT32), Buffer("D", (4,), FLOAT32))
for n in range(3):
    source = "int f(float *a, float *d, void *w) {"
    source += f" for (int i = 0; i < 4; i++) d[i] = a[i] * {n}; return 0; }}"
    emitted = Emitted(source, "f", params, frozenset("D"), (), 0, Target("c", 1, 0))
    result = load(emitted, find_toolchain())(np.ones(4, "float32"))
    assert (result == n).all(), result
print("done", "pycparser" in sys.modules)
"""


@pytest.mark.slow
def test_many_processes_at_once(cache, python_command):
    words, environment = python_command(WORKER)
    workers = [
        subprocess.Popen(
            words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(8)
    ]
    outputs = [worker.communicate(timeout=60) for worker in workers]
    assert outputs == [("done False\n", "")] * 8
    assert len(entries(cache)) == 9
    assert not list(cache.glob("build-*"))


@pytest.mark.slow
@pytest.mark.parametrize("words, rounds", [((), 20), (("--calm",), 5)])
def test_many_rounds_while_entries_are_removed_and_damaged(words, rounds):
    """`python -m tests.stress_cache` alone does 16 processes x 8 kernels x 50 rounds."""
    command = [sys.executable, "-m", "tests.stress_cache", *words]
    sizes = ["--processes", "4", "--kernels", "4", "--rounds", str(rounds)]
    done = subprocess.run(
        [*command, *sizes], check=False, capture_output=True, text=True, timeout=300, cwd=ROOT
    )
    report = json.loads(done.stdout)
    assert done.returncode == 0, report
    assert report["calls"] == 4 * 4 * rounds
    assert not report["failed"]


@pytest.mark.slow
def test_warm_process_starts_no_compiler(cache, logging_compiler, python_command):
    started = logging_compiler()
    words, environment = python_command(WORKER)
    for expected in ("cold", "warm"):
        before = started()
        subprocess.run(words, env=environment, check=True, capture_output=True, timeout=60)
        assert (started() == before) == (expected == "warm")


def test_cache_may_be_deleted_at_any_time(emit, toolchain, cache):
    kernel = load(emit(), toolchain)
    for path in cache.iterdir():
        path.unlink()
    cache.rmdir()
    np.testing.assert_array_equal(kernel(ones(), ones()), ones() * 2)
    np.testing.assert_array_equal(load(emit(), toolchain)(ones(), ones()), ones() * 2)
    assert Path(cache).is_dir()


@pytest.mark.parametrize("stages, terms", [(40, 1), (1, 60)])
def test_programs_that_differ_behind_what_is_shown_are_other_entries(cache, stages, terms):
    """A key of the text that is shown, which is cut, gave one program the kernel of another."""

    def kernel(last):
        A = stage = mt.placeholder((8,), name="A")
        for n in range(stages):
            stage = mt.compute((8,), lambda i, read=stage: read[i] + 1.0, name=f"T{n}")
        values = [1.0] * (terms - 1) + [last]
        Z = mt.compute(
            (8,), lambda i: functools.reduce(lambda x, c: x * -1.0 + c, values, stage[i])
        )
        return mt.build(mt.lower([A, Z], name="p"))

    zeros = np.zeros(8, "f")
    first, second = kernel(1.0), kernel(5.0)
    assert repr(first) == repr(second)
    assert float(second(zeros)[0]) - float(first(zeros)[0]) == 4.0
