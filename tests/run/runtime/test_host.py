"""What loads kernels stays as it was: arithmetic, signals, environment, files, and all the rest."""

import json
import os
import subprocess
import sys

import pytest

import minitensor as mt
from minitensor.runtime import find_toolchain
from tests.parts import times
from tests.run.runtime.conftest import ROOT

KERNELS = times(20, 50)


def changes(*words, **variables):
    """What differs in a process after it did what `tests.run.runtime.hosted` describes."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    done = subprocess.run(
        [sys.executable, "-m", "tests.run.runtime.hosted", *map(str, words)],
        env={**os.environ, "PYTHONPATH": path, **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(("flags", "count"), [("", KERNELS), ("-O3", KERNELS // 10)])
def test_many_kernels_leave_the_process_as_it_was(cache, flags, count):
    assert changes(count, CFLAGS=flags) == {}
    assert len(list(cache.glob("*.so"))) == count


CONSTRUCTORS = {
    "rounding": ("fenv.h", "fesetround(FE_UPWARD);", "floating point"),
    "a handler": ("signal.h", "signal(SIGUSR1, SIG_IGN);", "status"),
    "a variable": ("stdlib.h", 'setenv("X", "1", 1);', "environ of C"),
    "the folder": ("unistd.h", 'if (chdir("/")) _exit(9);', "folder"),
    "a file": ("fcntl.h", 'open("/dev/null", O_RDONLY);', "descriptors"),
    "the umask": ("sys/stat.h", "umask(0123);", "umask"),
    "the locale": ("locale.h", 'setlocale(LC_ALL, "C");', "locale"),
}
"""Header, statements that are run when a library is loaded, and where the change is seen."""


def library(folder, text, *flags):
    """A shared library of C text."""
    (folder / "c.c").write_text(text)
    words = [*find_toolchain().words, "-shared", "-fPIC", *flags, "-o", folder / "c.so"]
    subprocess.run([*words, folder / "c.c"], check=True)
    return folder / "c.so"


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("what", CONSTRUCTORS)
def test_the_watcher_sees_changes(tmp_path, what):
    header, statements, place = CONSTRUCTORS[what]
    text = f"#include <{header}>\n__attribute__((constructor)) void f(void) {{ {statements} }}\n"
    assert place in changes(0, library(tmp_path, text), LC_ALL="C.UTF-8")


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["-ffast-math", "-mpc32"])
def test_the_watcher_sees_what_refused_flags_would_do(tmp_path, flag):
    toolchain = find_toolchain()
    if toolchain.family != "gcc" or not toolchain.triple.startswith("x86_64-linux"):
        pytest.skip("the flag links such code with gcc on x86-64 Linux")
    assert "floating point" in changes(0, library(tmp_path, "int x;", flag))


REFUSED = (
    *("-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-mdaz-ftz", "-mpc32"),
    *("--fast-math", "--optimize=fast", "--machine=daz-ftz", "--machine daz-ftz"),
    *("-Xlinker -lfast", "-Wl,crtfastmath.o", "-l:crtfastmath.o", "@{folder}/flags"),
    *("-fplugin=evil.so", "-wrapper touch,{folder}/x", "-B{folder}", "-specs={folder}/flags"),
    *("-fsanitize=address", "-z execstack", "-include {folder}/flags"),
)


@pytest.fixture
def witness(tmp_path):
    """A compiler that writes down how it is called."""
    (tmp_path / "flags").write_text("-ffast-math")
    script = tmp_path / "witness"
    script.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexec cc "$@"\n')
    script.chmod(0o755)
    return script


def built():
    A = mt.placeholder((8,), name="A")
    return mt.build(mt.lower([A, mt.compute((8,), lambda i: A[i] * 3, name="C")]))


@pytest.mark.parametrize("flags", REFUSED)
@pytest.mark.parametrize("variable", ["CC", "CFLAGS"])
def test_flags_that_change_the_process_start_nothing(
    cache, witness, tmp_path, monkeypatch, flags, variable
):
    given = "-O2 " + flags.format(folder=tmp_path)
    monkeypatch.setenv("CC", f"{witness} {given}" if variable == "CC" else str(witness))
    monkeypatch.setenv("CFLAGS", given if variable == "CFLAGS" else "")
    start = flags.split()[0].format(folder=tmp_path)
    with pytest.raises(mt.ArgumentError) as caught:
        built()
    assert caught.value.message.startswith(f"expected {variable} without {start} (")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["flags", "witness"]


@pytest.mark.parametrize("flag", ["-ffast-math", "-mpc64", "-O1 -funsafe-math-optimizations"])
def test_a_script_that_adds_such_flags_is_found_out(cache, witness, tmp_path, monkeypatch, flag):
    toolchain = find_toolchain()
    if toolchain.family != "gcc" or not toolchain.triple.startswith("x86_64-linux"):
        pytest.skip("the flag links such code with gcc on x86-64 Linux")
    witness.write_text(witness.read_text().replace("exec cc", f"exec cc {flag}"))
    monkeypatch.setenv("CC", str(witness))
    with pytest.raises(mt.CompileError, match=r"links crt\w+, which .* whole Python process"):
        built()
    calls = (tmp_path / "calls").read_text().splitlines()
    assert all(line.endswith("-###") for line in calls if "probe.c" in line)
