"""CC and CFLAGS come from the user's environment: split without a shell, and not all accepted."""

import re

import pytest

from minitensor import errors
from minitensor.runtime import find_toolchain
from minitensor.runtime.flags import compiler_named, extra_flags


@pytest.mark.parametrize(
    "value, words",
    [
        ("", ()),
        ("  ", ()),
        ("gcc", ("gcc",)),
        ("ccache gcc -m64", ("ccache", "gcc", "-m64")),
        ("'/opt/my tools/cc' -v", ("/opt/my tools/cc", "-v")),
        ("gcc; touch x", ("gcc;", "touch", "x")),
    ],
)
def test_words_of_cc(monkeypatch, value, words):
    monkeypatch.setenv("CC", value)
    assert compiler_named() == words


@pytest.mark.parametrize("value", ["gcc; touch {}", "$(touch {})", "`touch {}`", "x && touch {}"])
def test_cc_is_never_read_by_a_shell(monkeypatch, tmp_path, value):
    witness = tmp_path / "witness"
    monkeypatch.setenv("CC", value.format(witness))
    with pytest.raises(errors.CompileError, match=r"no program .* is found") as caught:
        find_toolchain()
    assert caught.value.command == ()
    assert not witness.exists()


def test_useful_cflags_are_taken(monkeypatch):
    monkeypatch.setenv("CFLAGS", "-g -march=x86-64-v3 -DNAME='a b' -fopenmp -O3 -isystem /opt/i")
    assert extra_flags() == (
        "-g", "-march=x86-64-v3", "-DNAME=a b", "-fopenmp", "-O3", "-isystem", "/opt/i",
    )  # fmt: skip


RUNS_CODE = "it loads or runs other code"
OTHER = "it changes what is compiled"
FLUSHES = "flush tiny numbers to zero in the whole Python process"
REFUSED = {
    "-fplugin=evil.so": RUNS_CODE,
    "-fplugin-arg-evil-x=1": RUNS_CODE,
    "-fpass-plugin=evil.so": RUNS_CODE,
    "-wrapper evil,arg": RUNS_CODE,
    "-B/tmp/evil": RUNS_CODE,
    "-B /tmp/evil": RUNS_CODE,
    "-specs=evil": RUNS_CODE,
    "--specs=evil": RUNS_CODE,
    "-fuse-ld=/tmp/evil": RUNS_CODE,
    "--ld-path=/tmp/evil": RUNS_CODE,
    "@/tmp/evil": "options that cannot be checked",
    "-Xclang -load": "options that cannot be checked",
    "-Wl,-plugin,evil.so": "options that cannot be checked",
    "-o elsewhere": OTHER,
    "-oelsewhere": OTHER,
    "-x c++": OTHER,
    "-xc++": OTHER,
    "-E": OTHER,
    "-S": OTHER,
    "-c": OTHER,
    "-": OTHER,
    "-ffast-math": FLUSHES,
    "-Ofast": FLUSHES,
    "-funsafe-math-optimizations": FLUSHES,
}


@pytest.mark.parametrize("flag, reason", REFUSED.items())
def test_cflags_that_are_refused(monkeypatch, flag, reason):
    value = f"-O3 {flag} -g"
    monkeypatch.setenv("CFLAGS", value)
    with pytest.raises(errors.ArgumentError, match=re.escape(reason)) as caught:
        extra_flags()
    message = str(caught.value)
    assert message.startswith(f"expected CFLAGS without {flag.split()[0]} (")
    assert message.endswith(f"but got CFLAGS={value!r} (str)")


@pytest.mark.parametrize("flag", ["-fno-fast-math", "-Os", "-std=gnu17", "-ffinite-math-only"])
def test_flags_that_only_look_alike_are_taken(monkeypatch, flag):
    monkeypatch.setenv("CFLAGS", flag)
    assert extra_flags() == (flag,)


@pytest.mark.parametrize("variable", ["CC", "CFLAGS"])
def test_unfinished_quotes_are_an_argument_error(monkeypatch, variable):
    monkeypatch.setenv(variable, "gcc 'unfinished")
    with pytest.raises(errors.ArgumentError, match=f"No closing quotation.*but got {variable}="):
        compiler_named() if variable == "CC" else extra_flags()
