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
HIDES = "options that cannot be checked"
LONG = "only the short spelling"
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
    "-mdaz-ftz": FLUSHES,
    "-ffp-model=fast": FLUSHES,
    "-mpc32": "how the whole Python process rounds",
    "--fast-math": LONG,
    "--optimize=fast": LONG,
    "--machine=daz-ftz": LONG,
    "--machine daz-ftz": LONG,
    "--plugin=evil.so": LONG,
    "--for-linker -plugin": LONG,
    "-Xlinker -plugin": HIDES,
    "-Wa,-a=/tmp/evil": HIDES,
    "-Wp,-MD,/tmp/evil": HIDES,
    "-mllvm -load=evil.so": HIDES,
    "-T evil.ld": HIDES,
    "-l:crtfastmath.o": RUNS_CODE,
    "-gcc-toolchain /tmp/evil": RUNS_CODE,
    "-include /tmp/evil.h": OTHER,
    "-save-temps": OTHER,
    "-fdump-tree-all=/tmp/evil": OTHER,
    "-fopt-info-vec=/tmp/evil": OTHER,
    "-fprofile-generate": OTHER,
    "-MMD": OTHER,
    "-###": OTHER,
    "-fsanitize=address": "must be there before Python starts",
    "-z execstack": "stacks of the whole Python process",
    "-fvisibility=hidden": "could not find the kernel",
    "/usr/lib/crtfastmath.o": "it names a file",
    "mine.c": "it names a file",
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


@pytest.mark.parametrize("flag", [f for f, why in REFUSED.items() if why != "it names a file"])
def test_cc_may_not_hold_them_either(monkeypatch, flag):
    monkeypatch.setenv("CC", f"gcc -m64 {flag}")
    with pytest.raises(errors.ArgumentError, match=re.escape(f"expected CC without {flag[:2]}")):
        find_toolchain()


@pytest.mark.parametrize("flag", ["-I /a", "-L /b -lm", "-D NAME", "--sysroot=/c", "--param a=1"])
def test_flags_may_have_their_value_in_the_next_word(monkeypatch, flag):
    monkeypatch.setenv("CFLAGS", flag)
    assert extra_flags() == tuple(flag.split())


@pytest.mark.parametrize("flag", ["-fno-fast-math", "-Os", "-std=gnu17", "-ffinite-math-only"])
def test_flags_that_only_look_alike_are_taken(monkeypatch, flag):
    monkeypatch.setenv("CFLAGS", flag)
    assert extra_flags() == (flag,)


@pytest.mark.parametrize("variable", ["CC", "CFLAGS"])
def test_unfinished_quotes_are_an_argument_error(monkeypatch, variable):
    monkeypatch.setenv(variable, "gcc 'unfinished")
    with pytest.raises(errors.ArgumentError, match=f"No closing quotation.*but got {variable}="):
        compiler_named() if variable == "CC" else extra_flags()
