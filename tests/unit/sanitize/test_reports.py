"""What sanitizers say, as faults: no compiler needed."""

from dataclasses import replace

import pytest

from minitensor.codegen import Emitted, Target
from minitensor.errors import ArgumentError, CompileError
from minitensor.ir import Buffer, DType
from minitensor.runtime import Toolchain
from minitensor.runtime.fault import element_at, element_name
from minitensor.sanitize import Fault, Race, Sanitizer, environment, read_report, toolchain_for
from minitensor.sanitize.fault import program_of

A = Buffer("A", (4, 8), DType.of("float32"))
T = Buffer("T", (4,), DType.of("int8"))
EMITTED = Emitted(
    source="line one\n  A[9] = 1;\n",
    entry="k_kernel",
    params=(A,),
    outputs=frozenset({"A"}),
    checks=("i is outside",),
    workspace=128,
    target=Target("c", 2, 256),
    name="k",
    loops=("i",),
    memory=(T,),
)
MEMORY = "checked memory 0 is [0x1000,0x1080)\nchecked memory 1 is [0x2000,0x2004)\n"


def report(address, access="WRITE of size 4", kind="heap-buffer-overflow"):
    return (
        "==7==ERROR: AddressSanitizer: "
        f"{kind} on address {address} at pc 0x7 bp 0x7 sp 0x7\n{access} at {address} thread T0\n"
        "    #0 0x7f in k_kernel /cache/build-x/kernel.c:2\n    #1 0x7f in GOMP_parallel (x.so)\n"
        + MEMORY
    )


@pytest.mark.parametrize(
    ("address", "access", "message", "buffer"),
    [
        (
            "0x1080",
            "WRITE of size 4",
            "k writes 4 bytes outside A: float32[4, 8], 0 bytes after",
            "A",
        ),
        (
            "0x0ffc",
            "READ of size 1",
            "k reads 1 bytes outside A: float32[4, 8], 4 bytes before",
            "A",
        ),
        (
            "0x2007",
            "READ of size 64",
            "k reads 64 bytes outside T: int8[4], 3 bytes after its",
            "T",
        ),
        ("0x1024", "READ of size 4", "k reads 4 bytes at A[1, 1], which is not in use", "A"),
        ("0x99999999", "READ of size 4", "k reads 4 bytes outside every buffer", ""),
    ],
)
def test_an_address_is_told_from_the_nearest_buffer(address, access, message, buffer):
    fault = read_report("noise\n" + report(address, access), EMITTED)
    assert fault is not None
    assert fault.message.startswith(message)
    assert fault.message.endswith(" (heap-buffer-overflow), line 2 of its text: A[9] = 1;")
    assert (fault.kind, fault.buffer, fault.line) == ("out of bounds", buffer, 2)


def test_a_crash_and_a_local_array():
    crash = "==1==ERROR: AddressSanitizer: SEGV on unknown address 0x77777777777 (pc 0x1)\n"
    fault = read_report(crash, EMITTED)
    assert fault == Fault("crash", "k touches memory outside every buffer (SEGV)")
    local = report("0x5000", kind="stack-buffer-overflow") + (
        "  This frame has 1 object(s):\n"
        "    [48, 80) 'V' (line 7) <== Memory access at offset 80 overflows this variable\n"
    )
    fault = read_report(local, EMITTED)
    assert fault is not None
    assert (fault.buffer, "outside the local array V" in fault.message) == ("V", True)


def test_undefined_behaviour():
    text = "x\n/c/kernel.c:2:14: runtime error: shift exponent 40 is too large\nmore\n"
    told = "k: shift exponent 40 is too large, line 2 of its text: A[9] = 1;"
    assert read_report(text, EMITTED) == Fault("undefined", told, line=2)
    beyond = read_report("kernel.c:99:1: runtime error: division by zero", EMITTED)
    assert beyond == Fault("undefined", "k: division by zero, line 99 of its text", line=99)


@pytest.mark.parametrize("text", ["", "Traceback ...", "ERROR: something", "runtime error"])
def test_anything_else_is_no_report(text):
    assert read_report(text, EMITTED) is None


# ---- elements


def test_the_element_of_an_offset():
    assert element_at(A, 0) == (0, 0)
    assert element_at(A, 4 * 31 + 3) == (3, 7)
    assert element_at(Buffer("s", (), DType.of("float64")), 5) == ()
    padded = replace(A, alignment=((0, 16, 0),))
    assert element_at(padded, 4 * 17) == (1, 1)
    assert element_at(padded, 4 * 8) == ()  # between two rows
    wide = Buffer("v", (3,), DType.of("float32").with_lanes(4))
    assert element_at(wide, 16) == (1,)
    assert element_name(A, (1, 2)) == "A[1, 2]"
    assert element_name(A, ()) == "A"


def test_faults_are_read_by_people():
    race = Race("race", "k: iterations 0 and 1 both write A[3]", "A", (3,), loop="i")
    assert str(race) == race.message
    assert isinstance(race, Fault)


# ---- builds

GCC = Toolchain(
    words=("/usr/bin/gcc",),
    family="gcc",
    version="gcc 12",
    triple="x86_64-linux-gnu",
    flags=("-O2", "-fopenmp", "-Wall"),
    libraries=("-lm",),
    native="-march=native",
    openmp=("-fopenmp",),
    vector_bits=256,
    vector_registers=16,
    float16=True,
)


def test_guards_run_the_code_that_others_run():
    assert toolchain_for(Sanitizer.GUARDS, GCC) is GCC
    assert environment(Sanitizer.GUARDS, GCC) == {}
    assert not Sanitizer.GUARDS.hooks


def test_races_are_compiled_without_openmp_and_linked_without_libtsan(monkeypatch):
    monkeypatch.setattr("minitensor.sanitize.builds.library_of", lambda name, t: f"/c/{name}.so")
    words = toolchain_for(Sanitizer.RACES, GCC).command("kernel.c", "kernel.so")
    assert "-fopenmp" not in words
    assert words.index("-O2") < words.index("-O1")
    assert "-fsanitize=thread" in words
    assert "-nodefaultlibs" in words
    assert words[words.index("kernel.c") + 1 :] == ["/c/races.so", "-lm", "-lc", "-lgcc"]
    clang = toolchain_for(Sanitizer.RACES, replace(GCC, family="clang"))
    assert "-nodefaultlibs" not in clang.command("kernel.c", "kernel.so")


def test_other_systems_are_told_so(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    for sanitizer in (Sanitizer.RACES, Sanitizer.ADDRESS):
        with pytest.raises(CompileError, match="works on Linux only; this is darwin"):
            toolchain_for(sanitizer, GCC)


# ---- what goes to another process


def test_what_can_be_checked():
    with pytest.raises(ArgumentError, match=r"expected a schedule or a program .*, but got what=3"):
        program_of(3)
