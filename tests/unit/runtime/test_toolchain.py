"""Finding a compiler, and what is said where there is none."""

import dataclasses
import os
import time

import pytest

import minitensor as mt
from minitensor import errors
from minitensor.runtime import cpu_name, diagnose, find_toolchain, machine, toolchain, usable_cores
from minitensor.runtime.folder import remember
from minitensor.runtime.machine import cpu_fingerprint


@pytest.fixture
def bin_folder(tmp_path, monkeypatch):
    """An empty PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def script(path, text="exit 0"):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_no_compiler_says_how_to_get_one(bin_folder):
    with pytest.raises(errors.CompileError) as caught:
        find_toolchain()
    message = str(caught.value)
    assert "no C compiler is found on PATH (tried cc, gcc, clang)" in message
    for advice in ("apt install gcc", "dnf install gcc", "xcode-select --install", "in CC"):
        assert advice in message
    assert 'target="interpreter" works without a compiler' in message
    assert caught.value.command == () and "\n" not in message


def test_missing_compiler_of_cc_is_not_replaced_by_another(bin_folder, monkeypatch):
    script(bin_folder / "gcc")
    monkeypatch.setenv("CC", "icc -fast")
    with pytest.raises(errors.CompileError, match="CC='icc -fast': no program 'icc' is found"):
        find_toolchain()


def test_names_are_tried_in_order(bin_folder):
    script(bin_folder / "clang")
    assert toolchain._find_compiler() == (str(bin_folder / "clang"),)
    script(bin_folder / "cc")
    assert toolchain._find_compiler() == (str(bin_folder / "cc"),)


def test_cc_may_have_several_words(bin_folder, monkeypatch):
    script(bin_folder / "ccache")
    monkeypatch.setenv("CC", "ccache gcc -m64")
    assert toolchain._find_compiler() == (str(bin_folder / "ccache"), "gcc", "-m64")


def test_relative_compiler_is_found_from_another_folder(bin_folder, monkeypatch):
    script(bin_folder / "cc")
    monkeypatch.chdir(bin_folder.parent)
    monkeypatch.setenv("CC", "bin/cc")
    (word,) = toolchain._find_compiler()
    assert os.path.isabs(word) and os.path.samefile(word, bin_folder / "cc")


def test_compiler_that_makes_nothing_is_refused(bin_folder, cache):
    path = script(bin_folder / "cc", "echo 'cannot find crt1.o' >&2; exit 1")
    with pytest.raises(errors.CompileError, match="cannot make a shared library") as caught:
        find_toolchain()
    assert caught.value.command == (str(path),)
    assert "cannot find crt1.o" in caught.value.stderr
    assert list(cache.iterdir()) == []


def test_program_that_is_no_compiler_is_refused(bin_folder):
    script(bin_folder / "cc", "echo tcc 0.9")
    with pytest.raises(errors.CompileError, match=r"is neither gcc nor clang \(tcc 0\.9\)"):
        find_toolchain()


def test_compiler_that_does_not_answer_is_stopped(bin_folder, monkeypatch):
    monkeypatch.setattr(toolchain, "_PROBE_SECONDS", 0.2)
    script(bin_folder / "cc", "exec /bin/sleep 60")
    with pytest.raises(errors.CompileError, match=r"did not end within 0\.2 s"):
        find_toolchain()


def test_key_follows_the_file_behind_every_word(bin_folder, monkeypatch):
    real = script(bin_folder / "gcc-12")
    (bin_folder / "gcc").symlink_to(real)
    script(bin_folder / "ccache")
    words = (str(bin_folder / "ccache"), "gcc")
    before = toolchain._key(words, ())
    assert toolchain._key(words, ()) == before
    assert toolchain._key(words, ("-g",)) != before
    script(real, "exit 1 # a newer version")
    assert toolchain._key(words, ()) != before


def test_a_program_of_the_same_size_and_date_is_another(bin_folder):
    path = script(bin_folder / "gcc", "exit 0")
    (bin_folder / "as").symlink_to(script(bin_folder / "assembler"))
    for changed, text in ((path, "exit 1"), (bin_folder / "assembler", "exit 2")):
        before, found = toolchain._key(("gcc",), ()), os.stat(changed)
        time.sleep(0.02)  # a file system counts time in steps
        script(changed, text)
        os.utime(changed, ns=(found.st_atime_ns, found.st_mtime_ns))
        assert os.stat(changed).st_size == found.st_size
        assert os.stat(changed).st_mtime_ns == found.st_mtime_ns
        assert toolchain._key(("gcc",), ()) != before


@pytest.mark.parametrize("name", toolchain._READ_BY_COMPILERS)
def test_where_a_compiler_looks_is_part_of_the_key(bin_folder, monkeypatch, name):
    monkeypatch.delenv(name, raising=False)
    without = toolchain._key(("gcc",), ())
    monkeypatch.setenv(name, "/somewhere")
    before = toolchain._key(("gcc",), ())
    monkeypatch.setenv(name, "/elsewhere")
    assert len({without, before, toolchain._key(("gcc",), ())}) == 3


@pytest.mark.parametrize("file", ["crtfastmath.o", "crtprec32.o"])
def test_a_compiler_that_would_change_the_process_makes_nothing(bin_folder, tmp_path, file):
    compiled = tmp_path / "compiled"
    script(
        bin_folder / "cc",
        f'case "$*" in *"-###") echo "ld /lib/{file} x.o" >&2;; *-shared*) > {compiled};; esac',
    )
    with pytest.raises(errors.CompileError, match=f"links {file[:7]}.* whole Python process"):
        find_toolchain()
    assert not compiled.exists()


@pytest.mark.parametrize("what", ["a folder", "not executable"])
def test_cc_that_is_no_program(bin_folder, monkeypatch, what):
    path = bin_folder / "thing"
    path.mkdir() if what == "a folder" else path.write_text("#!/bin/sh\n")
    monkeypatch.setenv("CC", str(path))
    with pytest.raises(errors.CompileError, match=f"thing' is {what}, not a program"):
        find_toolchain()


@pytest.mark.parametrize("bits, macros", [
    (512, {"__AVX512F__": "1", "__AVX__": "1", "__SSE2__": "1"}),
    (256, {"__AVX__": "1", "__SSE2__": "1"}),
    (128, {"__SSE2__": "1"}),
    (128, {"__ARM_NEON": "1", "__ARM_FEATURE_SVE_BITS": "0"}),
    (1024, {"__ARM_NEON": "1", "__ARM_FEATURE_SVE_BITS": "1024"}),
    (0, {}),
])  # fmt: skip
def test_vector_bits(bits, macros):
    assert toolchain._vector_bits(macros) == bits


SOME = toolchain.Toolchain(
    ("cc",), "gcc", "cc 1", "x86_64", ("-O2",), ("-lm",), "", (), 128, 16, False
)


def test_recorded_answers_are_read_back(cache):
    assert toolchain._recall("key") is None
    remember("key", dataclasses.asdict(SOME))
    assert toolchain._recall("key") == SOME


@pytest.mark.parametrize("document", [{}, {"words": []}, {"unknown": 1}])
def test_answers_of_another_form_count_as_none(cache, document):
    remember("key", document)
    assert toolchain._recall("key") is None


def test_this_machine():
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)
    assert cpu_name() == cpu_name().strip() != ""
    assert len(cpu_fingerprint()) == 64
    assert SOME.cpu == cpu_name() and SOME.num_cores == 1
    assert dataclasses.replace(SOME, openmp=("-fopenmp",)).num_cores == usable_cores()


@pytest.mark.slow
def test_code_for_another_cpu_is_made_but_not_loaded(monkeypatch, cache):
    """It would end Python by a signal."""
    A = mt.placeholder((8,), name="A")
    program = mt.lower([A, mt.compute((8,), lambda i: A[i] * A[i] + 1.0, name="C")])
    for module in (machine, toolchain):
        monkeypatch.setattr(module, "INSTRUCTIONS", {"__SSE2__": "vectors of the future"})
    monkeypatch.setattr(machine, "_about_cpu", lambda: {"flags": "fpu sse2"})
    monkeypatch.setenv("CFLAGS", "-march=x86-64")
    if not toolchain.find_toolchain().triple.startswith("x86_64"):
        pytest.skip("not an x86-64")
    with pytest.raises(mt.CompileError, match="lacks: vectors of the future: the first call would"):
        mt.build(program)
    (finding,) = [f for f in diagnose() if f.name == "vector registers"]
    assert finding.ok is False and "vectors of the future" in finding.detail
    monkeypatch.setenv("CFLAGS", "")
    mt.build(program)
