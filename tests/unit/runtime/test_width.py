"""The choice of the width of vectors. Nothing is timed: a script in place of a compiler says which
instructions there are, and makes programs that print what a test wants to be measured.
"""

import logging

import pytest

from minitensor.codegen import Target
from minitensor.runtime import diagnose, find_toolchain, native_target, probe_toolchain, toolchain
from minitensor.runtime.width import (
    faster_width,
    multiply_adds,
    preferred_width,
    program,
    read_rates,
)

AVX512VL = "#define __AVX512VL__ 1"
COMPILER = r"""#!/bin/sh
PATH=/usr/bin:/bin
output= shared= macros= wide=yes
while [ $# -gt 0 ]; do
    case "$1" in
        -o) output="$2"; shift;;
        -shared) shared=yes;;
        -dM) macros=yes;;
        -mno-avx512f) wide=;;
        -dumpmachine) echo x86_64-linux-gnu;;
        --version) echo cc 1;;
    esac
    shift
done
if [ "$macros" ]; then
    printf '#define __GNUC__ 12\n#define __SSE2__ 1\n#define __AVX__ 1\n'
    [ -z "$wide" ] || printf '#define __AVX512F__ 1\n%s\n' 'MORE'
elif [ "$output" ] && [ -z "$shared" ]; then
    echo made >> "$0.made"
    printf '#!/bin/sh\n%s\n' 'PROGRAM' > "$output" && chmod +x "$output"
elif [ "$output" ]; then
    : > "$output"
fi
"""


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Makes a compiler for a machine with AVX-512, by what the program does that it makes."""

    def make(program, more=AVX512VL):
        path = tmp_path / "cc"
        path.write_text(COMPILER.replace("PROGRAM", program).replace("MORE", more))
        path.chmod(0o755)
        monkeypatch.setenv("CC", str(path))
        return tmp_path / "cc.made"

    return make


@pytest.mark.parametrize("narrow, wide, bits", [
    (120.0, 240.0, 512),
    (100.0, 100.0, 512),
    (105.0, 100.0, 512),
    (105.1, 100.0, 256),
    (200.0, 100.0, 256),
    (0.0, 0.0, 512),
])  # fmt: skip
def test_narrow_vectors_must_be_clearly_faster(narrow, wide, bits):
    assert faster_width([narrow, wide]) == bits


@pytest.mark.parametrize("printed, rates", [
    ("118.250 60.000\n", (118.25, 60.0)),
    ("118.250 60.000", ()),
    ("118.250\n", ()),
    ("nan inf\n", ()),
    ("", ()),
])  # fmt: skip
def test_what_the_program_prints(printed, rates):
    assert read_rates(printed) == rates


@pytest.mark.parametrize("words, bits", [
    ([], None),
    (["-O3", "-march=native"], None),
    (["-mprefer-vector-width=256"], 256),
    (["-mprefer-vector-width=512", "-mprefer-vector-width=128"], 128),
    (["-mprefer-vector-width=none"], None),
])  # fmt: skip
def test_the_width_that_flags_ask_for(words, bits):
    assert preferred_width(words) == bits


def test_chains_are_independent_of_each_other():
    text = multiply_adds(256, 3, 1000)
    assert "int fma_256_3(" in text and "vector_size(32)" in text and "i < 1000" in text
    assert "s0 = s0 * x + y; s1 = s1 * x + y; s2 = s2 * x + y;" in text
    assert "fma_256_12(" in program() and "fma_512_12(" in program()


@pytest.mark.slow
@pytest.mark.parametrize("rates, more, bits, registers", [
    ("100.000 200.000", AVX512VL, 512, 32),
    ("200.000 100.000", AVX512VL, 256, 32),
    ("200.000 100.000", "", 256, 16),
])  # fmt: skip
def test_the_faster_width_is_that_of_targets(compiler, rates, more, bits, registers):
    made = compiler(f"echo {rates}", more)
    found = find_toolchain()
    assert (found.vector_bits, found.vector_registers) == (bits, registers)
    assert f"-mprefer-vector-width={bits}" in found.flags
    assert native_target(Target("c", num_cores=1)) == Target("c", 1, bits)
    assert native_target(Target("c", num_cores=1, vector_bits=128)).vector_bits == 128
    assert made.read_text() == "made\n"
    (finding,) = (f for f in diagnose() if f.name == "vector registers")
    narrow, wide = (figure.partition(".")[0] for figure in rates.split())
    assert f"{registers} of {bits} bits" in finding.detail
    assert f"{wide} GFLOP/s with 512 bits, {narrow} with 256" in finding.detail


def test_another_process_does_not_measure_again(compiler, monkeypatch):
    made = compiler("echo 200.000 100.000")
    first = find_toolchain()
    monkeypatch.setattr(toolchain, "_known", {})
    again = find_toolchain()
    assert again == first and again.rates == (200.0, 100.0)
    assert made.read_text() == "made\n"
    probe_toolchain()
    assert made.read_text() == "made\nmade\n"


@pytest.mark.slow
@pytest.mark.parametrize("program", ["exit 1", "echo nothing", "kill -SEGV $$"])
def test_a_measurement_that_fails_leaves_the_choice_to_the_compiler(compiler, program):
    compiler(program)
    found = find_toolchain()
    assert (found.vector_bits, found.vector_registers, found.rates) == (512, 32, ())
    assert not any(flag.startswith("-mprefer") for flag in found.flags)
    (finding,) = (f for f in diagnose() if f.name == "vector registers")
    assert "32 of 512 bits" in finding.detail and "GFLOP/s" not in finding.detail


def test_instructions_that_are_not_there_are_not_used(compiler, caplog):
    compiler("kill -ILL $$")
    with caplog.at_level(logging.WARNING, "minitensor"):
        found = find_toolchain()
    assert (found.vector_bits, found.vector_registers) == (256, 16)
    assert "-mno-avx512f" in found.flags
    assert "this machine has no AVX-512" in caplog.text


def test_the_width_of_cflags_is_taken_without_a_measurement(compiler, monkeypatch):
    made = compiler("echo 100.000 200.000")
    monkeypatch.setenv("CFLAGS", "-mprefer-vector-width=256")
    found = find_toolchain()
    assert (found.vector_bits, found.vector_registers, found.rates) == (256, 32, ())
    assert [f for f in found.flags if "prefer" in f] == ["-mprefer-vector-width=256"]
    monkeypatch.setenv("CFLAGS", "-mno-avx512f")
    found = find_toolchain()
    assert (found.vector_bits, found.vector_registers) == (256, 16)
    assert not made.exists()


def test_machines_that_cflags_name_are_not_changed(compiler, monkeypatch):
    compiler("kill -ILL $$")
    monkeypatch.setenv("CFLAGS", "-march=sapphirerapids")
    found = find_toolchain()
    assert found.vector_bits == 512 and "-mno-avx512f" not in found.flags
