"""AddressSanitizer and UndefinedBehaviorSanitizer: planted faults are found and named."""

import re
from dataclasses import replace

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import Target, generate
from minitensor.errors import CompileError
from minitensor.runtime import find_toolchain, native_target
from minitensor.sanitize import Sanitizer, check_address, load_sanitized, toolchain_for
from minitensor.sanitize.run import run_apart
from tests.parts import some
from tests.run.sanitize.texts import inputs_of, text

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def address_sanitizer():
    try:
        toolchain_for(Sanitizer.ADDRESS, find_toolchain())
    except CompileError as missing:
        pytest.skip(missing.message)


def faults(emitted):
    return run_apart(Sanitizer.ADDRESS, emitted, inputs_of(emitted))


COPY = "for (int j = 0; j < 64; ++j) C[j] = A[j];\n"
TEMPORARY = """
float *restrict T = (float *)(workspace + 64);
checked_memory(2, T, 40);
T[0] = A[0];
WRONG
checked_gone(2, T, 40);
"""


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            "C[1] = A[(int)A[63] + 1];",
            "reads 4 bytes outside A: float32[64], 0 bytes after",
        ),
        ("C[1] = A[(int)A[0] - 1];", "reads 4 bytes outside A: float32[64], 4 bytes before it"),
        ("C[(int)A[63] + 2] = 1;", "writes 4 bytes outside C: float32[64], 4 bytes after its end"),
        ("C[(int)A[0] - 1] = 1;", "writes 4 bytes outside C: float32[64], 4 bytes before it"),
        ("((char *)C)[256] = 1;", "writes 1 bytes outside C: float32[64], 0 bytes after its end"),
        (
            "memcpy(C + 1, A, 256);",
            "writes 256 bytes outside C: float32[64], 0 bytes after",
        ),
    ],
)
def test_accesses_outside_of_parameters(wrong, words):
    (fault,) = faults(text(COPY + wrong))
    assert fault.kind == "out of bounds"
    assert fault.message.startswith(f"by_hand {words}")
    assert " (heap-buffer-overflow), line " in fault.message
    assert fault.message.endswith(wrong)
    assert fault.buffer in ("A", "C")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("T[(int)A[10]] = 1;", "writes 4 bytes outside T: float32[10], 0 bytes after its end"),
        ("C[0] = T[(int)A[0] - 1];", "reads 4 bytes outside T: float32[10], 4 bytes before it"),
        ("checked_gone(2, T, 40); C[0] = T[3];", "reads 4 bytes at T[3], which is not in use"),
    ],
)
def test_accesses_outside_of_temporaries_in_the_workspace(wrong, words):
    T = text("").params[0]
    memory = [replace(T, name="T", shape=(10,))]
    body = COPY + TEMPORARY.replace("WRONG", wrong)
    (fault,) = faults(text(body, memory=memory, workspace=192))
    assert fault.message.startswith(f"by_hand {words} (use-after-poison)")
    assert fault.buffer == "T"


def test_accesses_outside_of_local_arrays():
    """The compiler sees the bound of an array that it knows; a pointer into it, only ASan does."""
    body = COPY + "float T[8]; float *p = T; CALL; C[0] = p[(int)A[8]];"
    body = body.replace("CALL", '__asm__ volatile("" : "+r"(p) : : "memory")')
    (fault,) = faults(text(body))
    assert "outside the local array T (stack-buffer-overflow)" in fault.message
    (fault,) = faults(text(COPY + "float T[8]; C[0] = T[(int)A[8]];"))
    assert "index 8 out of bounds for type 'float [8]'" in fault.message


@pytest.mark.many
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("C[0] = 1 << (int)A[40];", "shift exponent 40 is too large for 32-bit type 'int'"),
        ("C[0] = 7 / (int)A[0];", "division by zero"),
        ("C[0] = 7 % (int)A[0];", "division by zero"),
        ("C[0] = (int8_t)(A[10] * 30);", "300 is outside the range of representable values"),
        (
            "C[0] = (int)(A[0] / A[0]);",
            "outside the range of representable values of type 'int'",
        ),
        ("C[0] = *(const float *)((const char *)A + 2);", "load of misaligned address"),
        ("int v[(int)A[0] - 1]; v[0] = 1; C[0] = v[0];", "variable length array bound"),
        ("C[0] = __builtin_ctz((int)A[0]);", "passing zero to ctz()"),
        ("if (A[0] == 0) __builtin_unreachable();", "execution reached an unreachable program"),
    ],
)
def test_undefined_behaviour(wrong, words):
    (fault,) = faults(text(COPY + wrong))
    assert fault.kind == "undefined"
    assert words in fault.message
    assert fault.line > 0
    assert wrong.partition(";")[0] in fault.message


def test_what_is_defined_in_our_kernels_is_no_fault():
    fine = [
        "C[0] = (int)A[1] + 2147483647;",  # wraps
        "C[0] = -2147483647 - 1 - (int)A[1];",
        "C[0] = (int8_t)(int)(A[10] * 30);",
        "C[0] = A[1] / A[0];",  # inf
        "C[0] = -(int)A[1] << 3;",
        "typedef float U __attribute__((vector_size(32), aligned(4), may_alias));"
        "*(U *)(C + 1) = *(const U *)(A + 3);",
    ]
    assert faults(text(COPY + "\n".join(fine))) == []  # a fault would show its line


@pytest.mark.parametrize("n", some([1, 5, 63, 1000], lambda n: n in (0, 2)))
def test_arrays_of_any_size_end_where_they_end(n):
    copy = f"for (int j = 0; j < {n}; ++j) C[j] = A[j];"
    assert faults(text(copy, A="uint8", C="uint8", n=n)) == []
    (fault,) = faults(text(f"{copy} C[{n}] = 1;", A="uint8", C="uint8", n=n))
    assert f"writes 1 bytes outside C: uint8[{n}], 0 bytes after its end" in fault.message


def test_empty_arrays():
    assert faults(text("return 0;", n=0)) == []


def test_a_null_pointer():
    (fault,) = faults(text(COPY + "C[0] = *(volatile float *)(size_t)A[0];"))
    assert fault.kind == "crash"
    assert "C[0] = *(volatile float *)(size_t)A[0];" in fault.message


def test_far_outside():
    (fault,) = faults(text(COPY + "C[(long)A[63] << 30] = 1;"))
    assert fault.kind == "crash"
    assert "outside every buffer (SEGV)" in fault.message


# ---- kernels of programs


def scheduled(dtype="float32"):
    """Parallel loops, vectors, temporaries: in the workspace, one a thread, in registers."""
    A = mt.placeholder((8, 1500), dtype, name="A")
    T = mt.compute((8, 1500), lambda i, j: A[i, j] + 1, name="T")
    U = mt.compute((8, 1500), lambda i, j: T[i, j] * 2, name="U")
    V = mt.compute((8, 1500), lambda i, j: U[i, j] + A[7 - i, 1499 - j], name="V")
    W = mt.compute((8, 1500), lambda i, j: V[i, j] * V[i, 1499 - j], name="W")
    s = mt.Schedule(mt.lower([A, W], name="many"))
    s.compute_at("V", s.get_loops("W")[0])
    s.compute_at("U", s.get_loops("V")[-1])
    s.parallel(s.get_loops("W")[0])
    s.parallel(s.get_loops("T")[0])
    s.vectorize(s.split(s.get_loops("T")[1], [None, 8])[1])
    return s


@pytest.mark.parametrize("dtype", ["float32", "int16", "float16"])
def test_a_good_schedule(dtype):
    array = np.ones((8, 1500), dtype)
    assert check_address(scheduled(dtype), array, target=Target("c", num_cores=2)) == []


def test_each_threads_temporary_has_bounds():
    target = native_target(Target("c", num_cores=2))
    emitted = generate(scheduled().program, target, hooks=True)
    assert "omp_get_thread_num() * 6080" in emitted.source  # 6000 bytes, to 64, and a gap
    source, count = re.subn(r" V\[(\w+)\] =", r" V[\1 + 15] =", emitted.source)
    assert count == 1
    wrong = replace(emitted, source=source)
    (fault,) = run_apart(Sanitizer.ADDRESS, wrong, [np.ones((8, 1500), np.float32)])
    assert fault.buffer == "V"
    assert "writes 4 bytes outside V" in fault.message


def test_a_kernel_is_not_loaded_without_the_library():
    with pytest.raises(CompileError, match=r"started with it; start one with environment\("):
        load_sanitized(Sanitizer.ADDRESS, [text(COPY)], find_toolchain())


def test_a_compiler_without_the_library(tmp_path):
    wrapper = tmp_path / "cc"
    wrapper.write_text('#!/bin/sh\ncase "$*" in -print-file-name=*) echo "${1#*=}";; esac\n')
    wrapper.chmod(0o700)
    lacking = replace(find_toolchain(), words=(str(wrapper),))
    with pytest.raises(CompileError, match=r"has no AddressSanitizer here: .* install") as refused:
        toolchain_for(Sanitizer.ADDRESS, lacking)
    assert "apt install" in str(refused.value)
