"""Guard pages: arrays that end where nothing may be touched, and kernels between them."""

import gc
import mmap
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import Target, generate
from minitensor.runtime import find_toolchain, native_target
from minitensor.sanitize import (
    Sanitizer,
    check_memory,
    guarded_empty,
    load_sanitized,
    run_guarded,
)
from minitensor.sanitize.run import run_apart
from minitensor.testing import assert_equivalent
from tests.run.sanitize.texts import run, text

SHAPES = [(), (0,), (3, 0, 2), (1,), (7, 5), (mmap.PAGESIZE,), (3000, 3)]


# ---- the arrays


@pytest.mark.parametrize("side", ["start", "end"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint64", "bool"])
@pytest.mark.parametrize("shape", SHAPES)
def test_arrays_are_plain_and_flush(shape, dtype, side):
    array = guarded_empty(shape, dtype, side)
    assert array.shape == shape
    assert array.dtype == dtype
    assert array.flags.c_contiguous
    assert array.flags.aligned
    assert array.flags.writeable
    address = array.__array_interface__["data"][0]
    assert (address + (array.nbytes if side == "end" else 0)) % mmap.PAGESIZE == 0
    if array.dtype.kind == "f":
        assert np.isnan(array).all()
    array[...] = 1
    assert (array == 1).all()


@pytest.mark.slow
@pytest.mark.parametrize(("side", "offset"), [("end", 0), ("start", -1)])
def test_a_guard_ends_a_process(side, offset):
    code = (
        "import ctypes, sys\n"
        "from minitensor.sanitize import guarded_empty\n"
        f"a = guarded_empty((5, 3), 'float32', '{side}')\n"
        "start = a.__array_interface__['data'][0]\n"
        f"place = start + ({offset} if '{side}' == 'start' else a.nbytes)\n"
        "print(ctypes.string_at(start, a.nbytes) and 'inside', flush=True)\n"
        "ctypes.string_at(place, 1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.stdout == b"inside\n"
    assert done.returncode == -11


def test_memory_lives_as_long_as_a_view_of_it():
    view = guarded_empty((100,), "int32")[50:]
    gc.collect()
    view[:] = 3
    assert view.sum() == 150


def test_memory_is_given_back():
    def mapped():
        with open("/proc/self/maps", encoding="ascii") as maps:
            return sum(1 for _ in maps)

    before = mapped()
    for _ in range(1000):
        guarded_empty((10,), "float32")
    gc.collect()
    assert mapped() < before + 100


def test_a_wrong_side_and_no_memory():
    with pytest.raises(mt.ArgumentError, match='expected "start" or "end", but got side=\'left\''):
        guarded_empty((3,), "float32", "left")
    with pytest.raises(mt.ExecutionError, match="no memory for an array of"):
        guarded_empty((1 << 60,), "float32")


# ---- kernels by hand


def guarded(body, **more):
    return run(Sanitizer.GUARDS, text(body, **more))


COPY = "for (int j = 0; j < 64; ++j) C[j] = A[j];"


def messages(outcome):
    return [fault.message for fault in outcome.faults]


def test_a_good_kernel_has_no_faults():
    outcome = guarded(COPY)
    assert outcome.status == 0
    assert outcome.faults == ()
    assert outcome.outputs[0].tolist() == list(range(64))


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int32"])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("C[1] = A[64];", "reads outside A: {}[64], 0 bytes after its end"),
        ("C[1] = A[66];", "reads outside A: {}[64], {2} bytes after its end"),
        ("C[1] = A[-1];", "reads outside A: {}[64], {1} bytes before it"),
        ("C[64] = 1;", "writes outside C: {}[64], 0 bytes after its end"),
        ("C[-3] = 1;", "writes outside C: {}[64], {3} bytes before it"),
        ("workspace[128] = 1;", "writes memory outside its scratch memory"),
        ("(void)*(volatile char *)(workspace - 1);", "reads memory outside its scratch memory"),
    ],
)
def test_one_element_outside_is_found_and_named(wrong, words, dtype):
    size = np.dtype(dtype).itemsize
    for elements in "123":
        words = words.replace(f"{{{elements}}}", str(size * int(elements)))
    outcome = guarded(COPY + wrong, A=dtype, C=dtype, workspace=128)
    assert [f.kind for f in outcome.faults] == ["out of bounds"]
    assert messages(outcome) == [f"by_hand {words.format(dtype)}"]


def test_all_that_is_wrong_is_told_at_once():
    outcome = guarded(COPY + "C[64] = A[64]; C[-1] = A[-1];")
    assert len(outcome.faults) == 4
    assert {f.buffer for f in outcome.faults} == {"A", "C"}


def test_thousands_of_accesses_outside():
    outcome = guarded(COPY + "for (int j = 64; j < 16000; ++j) C[j] = 1;", n=64)
    assert {f.buffer for f in outcome.faults} == {"C"}


def test_elements_that_are_not_written():
    outcome = guarded("for (int j = 1; j < 63; ++j) C[j] = A[j];")
    assert messages(outcome) == ["by_hand does not write C[0], nor 1 others"]
    outcome = guarded("for (int j = 0; j < 64; ++j) C[j] = j == 5 ? C[5] + 1 : A[j];")
    assert messages(outcome) == ["by_hand does not write C[5]"]
    outcome = guarded("for (int j = 0; j < 64; ++j) if (j != 7) C[j] = j;", C="int32")
    assert [(f.kind, f.buffer, f.index) for f in outcome.faults] == [("unwritten", "C", (7,))]


def test_nan_that_is_computed_is_no_fault():
    assert guarded("for (int j = 0; j < 64; ++j) C[j] = (j - 3) / 0.0f * 0.0f;").faults == ()


@pytest.mark.parametrize("value", ["((float *)workspace)[5]", "C[9] > 0 ? 7 : 8", "workspace[9]"])
def test_what_depends_on_memory_that_nothing_wrote(value):
    rest = "for (int j = 0; j < 64; ++j) if (j != 3 && j != 9) C[j] = 1;"
    outcome = guarded(f"{rest} C[3] = {value}; C[9] = 2;", C="int32", workspace=64)
    assert [(f.kind, f.buffer, f.index) for f in outcome.faults] == [("unsteady", "C", (3,))]
    assert "it reads what nothing wrote, or threads race" in outcome.faults[0].message


def test_an_input_that_changes():
    outcome = guarded(COPY + "((float *)A)[9] = -1;")
    assert messages(outcome) == ["by_hand changes the input A[9] from 9.0 to -1.0"]
    assert outcome.faults[0].kind == "input changed"


def test_a_status_is_not_a_fault():
    outcome = run(Sanitizer.GUARDS, replace(text("return 3;"), checks=("a", "b", "c")))
    assert (outcome.status, outcome.faults) == (3, ())


def test_a_status_that_depends_on_memory_that_nothing_wrote():
    outcome = guarded("return workspace[0] == 255;", workspace=64)
    assert messages(outcome) == ["by_hand returns 1, and then 0"]


# ---- kernels of programs


def scheduled():
    """Two parallel loops with a large temporary between them."""
    A = mt.placeholder((8, 1024), "float32", name="A")
    T = mt.compute((8, 1024), lambda i, j: A[i, j] + 1, name="T")
    s = mt.Schedule(mt.lower([A, mt.compute((8, 1024), lambda i, j: T[i, 1023 - j] * 2, name="D")]))
    s.parallel("i")
    s.parallel("D_i")
    return s


@pytest.mark.parametrize("cores", [1, 2])
def test_threads_between_guards(cores):
    emitted = generate(scheduled().program, native_target(Target("c", cores)))
    (kernel,) = load_sanitized(Sanitizer.GUARDS, [emitted], find_toolchain())
    array = np.ones((8, 1024), np.float32)
    outcome = run_guarded(kernel, [array])
    assert outcome.faults == ()
    assert (outcome.outputs[0] == 4).all()
    wrong = replace(emitted, source=emitted.source.replace("D_j] =", "D_j + 1] ="))
    (kernel,) = load_sanitized(Sanitizer.GUARDS, [wrong], find_toolchain())
    assert {f.kind for f in run_guarded(kernel, [array]).faults} == {"out of bounds", "unwritten"}


def test_empty_and_scalar_arrays():
    A = mt.placeholder((0, 3), "float32", name="A")
    k = mt.reduce_axis(0, name="k")
    S = mt.compute((), lambda: mt.sum(A[k, 0], axis=k), name="S")
    program = mt.lower([A, mt.compute((0, 3), lambda i, j: A[i, j], name="C"), S])
    (kernel,) = load_sanitized(
        Sanitizer.GUARDS, [generate(program, native_target(Target("c")))], find_toolchain()
    )
    outcome = run_guarded(kernel, [np.empty((0, 3), np.float32)])
    assert outcome.faults == ()
    assert outcome.outputs[1] == 0


# ---- in a process of its own


@pytest.mark.slow
def test_check_memory_of_a_good_schedule():
    assert check_memory(scheduled(), np.ones((8, 1024), np.float32)) == []


@pytest.mark.slow
def test_a_kernel_that_takes_its_process_along():
    far = "C[1 << 30] = 1;"
    (fault,) = run_apart(Sanitizer.GUARDS, text(COPY + far), [np.ones(64, np.float32)])
    assert fault.kind == "crash"
    assert "by_hand was killed by SIGSEGV" in fault.message


@pytest.mark.slow
def test_a_kernel_that_does_not_end():
    endless = text('for (;;) __asm__("");')
    (fault,) = run_apart(Sanitizer.GUARDS, endless, [np.ones(64, np.float32)], time_limit=3)
    assert fault.message == "by_hand did not end within 3 s and was stopped"


@pytest.mark.slow
def test_a_fault_comes_back_from_the_process():
    inputs = [np.ones(64, np.float32)]
    (fault,) = run_apart(Sanitizer.GUARDS, text("for (int j = 0; j < 63; ++j) C[j] = 1;"), inputs)
    assert (fault.kind, fault.buffer, fault.index) == ("unwritten", "C", (63,))


def test_wrong_arguments():
    with pytest.raises(mt.ArgumentError, match="expected a schedule or a program"):
        check_memory("C")
    with pytest.raises(mt.ArgumentError, match="expected A of shape"):
        check_memory(scheduled(), np.ones((8, 8), np.float32))
    with pytest.raises(mt.ArgumentError, match="expected a positive number of seconds"):
        check_memory(scheduled(), np.ones((8, 1024), np.float32), time_limit=0)


@pytest.mark.parametrize(("dtype", "columns"), [("float32", 23), ("float32", 19), ("float64", 11)])
def test_the_rest_of_a_row_of_equal_numbers_ends_where_its_array_does(dtype, columns):
    """GCC stored it as half of a vector, by an instruction that faults for lanes without a bit."""
    A = mt.placeholder((1,), dtype, name="A")
    program = mt.lower([A, mt.compute((2, columns), lambda i, j: A[i // 2], name="C")])
    s = mt.Schedule(program)
    s.unroll("i")
    s.vectorize("j")
    assert_equivalent(program, s, targets=("interpreter", "c"))


def test_lanes_that_a_condition_keeps_from_reading_behind_an_array():
    """GCC made a masked load of them, and a blend of that, which reads a whole vector."""
    A = mt.placeholder((16,), "int32", name="A")
    near = lambda i, by: mt.if_then_else(i < 16 - by, A[i + by], 0)
    far = lambda i: mt.if_then_else(i < 8, A[i * 2], 0)
    P = mt.compute((16,), lambda i: far(i) + A[i] + near(i, 1) + near(i, 2), name="P")
    program = mt.lower([A, P])
    s = mt.Schedule(program)
    s.vectorize("i")
    assert_equivalent(program, s, targets=("interpreter", "c"))
