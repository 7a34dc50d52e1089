"""Kernels in processes that are not as usual: forked, without memory, with a broken compiler."""

import multiprocessing
import os
import sys

import numpy as np
import pytest

import minitensor as mt


def doubled(threads=2, n=64):
    A = mt.placeholder((n,), name="A")
    C = mt.compute((n,), lambda i: A[i] * 2, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    outer, _ = s.split("i", [None, 8])
    s.parallel(outer)
    return mt.build(s, mt.Target("c", num_cores=threads))


KERNEL = {}


def called_in_child(scale):
    array = np.full(64, scale, "f")
    results = [KERNEL["built"](array) for _ in range(3)]
    return float(sum(r[5] for r in results)), KERNEL["built"].time(array, number=1).median > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_parallel_kernel_runs_in_a_forked_child():
    """The child has none of the threads that OpenMP believes it has."""
    kernel = KERNEL["built"] = doubled()
    array = np.arange(64, dtype="f")
    assert np.array_equal(kernel(array), array * 2)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(called_in_child, [1, 2]).get(timeout=30) == [(6, True), (12, True)]
    assert np.array_equal(kernel(array), array * 2)


def test_an_output_larger_than_memory():
    kernel = mt.build(mt.lower([mt.compute((1 << 40,), lambda i: 1.0, name="C")], name="huge"))
    with pytest.raises(mt.ExecutionError, match="huge: no memory for C, which needs 4,398,046,5"):
        kernel()


def test_temporaries_larger_than_memory():
    B = mt.compute((1 << 40,), lambda i: i * 2, name="B")
    C = mt.compute((1,), lambda i: B[i] + B[(1 << 40) - 1], name="C")
    kernel = mt.build(mt.lower([C], name="huge"))
    with pytest.raises(mt.ExecutionError, match="huge: no memory for its temporaries"):
        kernel()


def test_the_interpreter_without_memory():
    program = mt.lower([mt.compute((1 << 40,), lambda i: 1.0, name="C")])
    with pytest.raises(mt.ExecutionError, match=r"no memory for C: float32\[1099511627776\]"):
        mt.interpret(program)


def test_interpret_takes_the_inputs_only():
    A = mt.placeholder((2,), name="A")
    program = mt.lower([A, mt.compute((2,), lambda i: A[i], name="C")])
    with pytest.raises(mt.ArgumentError, match=r"expected 1 array \(A\), but got 2"):
        mt.interpret(program, np.zeros(2, "f"), np.zeros(2, "f"))


@pytest.mark.slow
def test_a_library_that_does_not_load_is_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path / "cache"))
    wrapper = tmp_path / "cc"
    wrapper.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, subprocess, sys\n"
        "done = subprocess.call(['cc', *sys.argv[1:]])\n"
        f"broken = pathlib.Path({str(tmp_path / 'broken')!r})\n"
        "if 'kernel.c' in sys.argv and broken.exists():\n"
        "    pathlib.Path('kernel.so').write_text('half')\n"
        "sys.exit(done)\n"
    )
    wrapper.chmod(0o755)
    (tmp_path / "broken").touch()
    monkeypatch.setenv("CC", str(wrapper))
    with pytest.raises(mt.CompileError, match="cannot load"):
        doubled(n=72)
    (tmp_path / "broken").unlink()
    array = np.ones(72, "f")
    assert np.array_equal(doubled(n=72)(array), array * 2)


def test_no_folder_at_all(monkeypatch):
    def fail(*args, **kwargs):
        raise FileNotFoundError(2, "No usable temporary directory")

    monkeypatch.delenv("MINITENSOR_CACHE_DIR")
    monkeypatch.setenv("HOME", "/proc/1/nowhere")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("tempfile.mkdtemp", fail)
    with pytest.raises(mt.CompileError, match="no folder for temporary files either"):
        doubled(n=88)


def test_debugging_checks_every_pass(monkeypatch):
    seen = []
    record = lambda *given, check, **named: seen.append(check)
    monkeypatch.setattr("minitensor.api.generate", record)
    interpreted = lambda *given, **named: mt.build(program, "interpreter")
    monkeypatch.setattr("minitensor.api.load", interpreted)
    program = mt.lower([mt.compute((2,), lambda i: 1.0, name="C")])
    for value, expected in (("", []), ("0", []), ("1", [True])):
        monkeypatch.setenv("MINITENSOR_DEBUG", value)
        mt.build(program)
        assert seen == expected


def test_debugging_shows_what_each_pass_changes(monkeypatch, capfd):
    A = mt.placeholder((6,), name="A")
    program = mt.lower([A, mt.compute((6,), lambda i: A[i] + 1.0, name="B")])
    s = mt.Schedule(program)
    s.unroll("i")
    for value, said in (("1", False), ("2", True)):
        monkeypatch.setenv("MINITENSOR_DEBUG", value)
        mt.build(s)
        text = capfd.readouterr().err
        assert ("B[5] = A[5] + 1.0" in text) == said
        assert ("unroll_loops" in text) == said
