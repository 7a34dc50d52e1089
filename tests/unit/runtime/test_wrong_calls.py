"""Calls that must be refused, generated: more than a thousand, of kernels of every kind.

The kernels are run by the interpreter, which shares all checks with native ones; what would run is
replaced by a trap. tests/run/runtime/test_wrong_calls.py does the same with native code.
"""

import numpy as np
import pytest

import minitensor as mt
from minitensor.runtime import interpreter_kernel
from tests.unit.runtime.wrong_calls import (
    check_refused,
    filled,
    right_arrays,
    wrong_calls,
    wrong_values,
)


def add(shape, dtype, name):
    """D = A + B."""
    A, B = (mt.placeholder(shape, dtype, name=n) for n in "AB")
    D = mt.compute(shape, lambda *i: A[i] + B[i], name="D")
    return mt.lower([A, B, D], name=name)


def product():
    """Parameters of three shapes."""
    A, B = mt.placeholder((2, 3), name="A"), mt.placeholder((3, 4), name="B")
    k = mt.reduce_axis(3, name="k")
    D = mt.compute((2, 4), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="D")
    return mt.lower([A, B, D], name="product")


def both():
    """Two outputs, the first between the inputs, of other dtypes than they."""
    A, B = mt.placeholder((4,), "int16", name="A"), mt.placeholder((2, 2), "uint8", name="B")
    D = mt.compute((4,), lambda i: A[i].astype("float64"), name="D")
    E = mt.compute((2, 2), lambda i, j: B[i, j].astype("int32") + 1, name="E")
    return mt.lower([A, D, B, E], name="both")


def invert():
    """Of booleans."""
    A = mt.placeholder((5,), "bool", name="A")
    return mt.lower([A, mt.compute((5,), lambda i: mt.logical_not(A[i]), name="D")], name="invert")


def constant():
    """No inputs."""
    return mt.lower([mt.compute((3,), lambda i: i, name="D")], name="constant")


PROGRAMS = {
    "product": product,
    "both": both,
    "invert": invert,
    "constant": constant,
    "number": lambda: add((), "float64", "number"),
    "bytes": lambda: add((7,), "int8", "bytes_"),
    "cube": lambda: add((2, 3, 4), "uint16", "cube"),
    "thin": lambda: add((4, 1), "int64", "thin"),
    "half": lambda: add((3, 2), "float16", "half"),
    "brain": lambda: add((3, 2), "bfloat16", "brain"),
    "empty": lambda: add((0, 3), "float32", "empty"),
    "axes": lambda: add((1, 2, 1, 3, 1), "uint32", "axes"),
    "huge": lambda: add((1 << 20, 1 << 20), "float32", "huge"),
}
"""Programs by name; the last is too large to be run."""


SMALL = [name for name in PROGRAMS if name != "huge"]


class Trap:
    """Stands where code would run: it counts, and does nothing unless it is open."""

    def __init__(self, function):
        self.function, self.entered, self.open = function, 0, False

    def __call__(self, *args):
        self.entered += 1
        assert self.open, "a wrong call got through"
        return self.function(*args)


def trapped(kernel, monkeypatch):
    """The trap in front of all that a kernel of the interpreter runs."""
    trap = Trap(kernel._run)
    monkeypatch.setattr(kernel, "_run", trap)
    return trap


def check_right_call(kernel, program, trap):
    """A call with arrays that fit gives what the interpreter says, and enters once."""
    trap.entered, trap.open = 0, True
    arrays = right_arrays(kernel, outputs=False)
    for array in arrays:
        array[...] = 1
    given, expected = kernel(*arrays), mt.interpret(program, *arrays)
    for one, other in zip(*(r if isinstance(r, tuple) else (r,) for r in (given, expected))):
        np.testing.assert_array_equal(one, other, strict=True)
    assert trap.entered == 1
    trap.entered, trap.open = 0, False


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(
    "how", ["__call__", *[pytest.param(h, marks=pytest.mark.slow) for h in ("prepare", "time")]]
)
def test_wrong_calls_run_nothing(name, how, monkeypatch):
    program = PROGRAMS[name]()
    kernel = interpreter_kernel(program)
    trap = trapped(kernel, monkeypatch)
    for number, call in enumerate(wrong_calls(kernel)):
        if call.named and how == "time":
            continue  # its keywords are its own
        check_refused(kernel, call, lambda kernel: getattr(kernel, how))
        if number % 100 == 0:
            assert trap.entered == 0
            check_right_call(kernel, program, trap)
    assert trap.entered == 0
    check_right_call(kernel, program, trap)


def test_there_are_more_than_a_thousand_and_no_two_are_the_same():
    calls = [
        (name, call.about)
        for name in SMALL
        for call in wrong_calls(interpreter_kernel(PROGRAMS[name]()))
    ]
    assert len(set(calls)) == len(calls) >= 1000


def test_they_are_the_same_each_time():
    kernel = interpreter_kernel(product())
    first, second = ([(c.about, c.message) for c in wrong_calls(kernel)] for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", SMALL)
def test_wrong_arrays_are_not_interpreted(name, monkeypatch):
    """mt.interpret checks its arrays as a kernel does."""
    program = PROGRAMS[name]()
    trap = Trap(None)
    monkeypatch.setattr("minitensor.ir.interpret", trap)
    inputs = program.inputs
    for n, buffer in enumerate(inputs):
        for _about, value, message in wrong_values(buffer, False):
            arrays = [filled(b, 0) for b in inputs]
            arrays[n] = value
            expected = rf"^{program.name}: expected {buffer.name} .*but got .*{message}"
            with pytest.raises(mt.ArgumentError, match=expected):
                mt.interpret(program, *arrays)
    for count in {0, len(inputs) + 1, 30} - {len(inputs)}:
        with pytest.raises(mt.ArgumentError, match=rf"arrays? \(.*\), but got {count}$"):
            mt.interpret(program, *[np.zeros(2)] * count)
    assert trap.entered == 0


# ---- arrays that are too large to exist


def test_a_wrong_call_of_a_huge_kernel_takes_no_memory():
    kernel = interpreter_kernel(PROGRAMS["huge"]())
    shape = kernel.params[0].shape
    one = np.zeros((), "f4")
    for wrong in (None, one, np.zeros((2, 3), "f4"), np.broadcast_to(one, shape), np.zeros(0)):
        for arrays in ((wrong, wrong), (wrong, wrong, wrong)):
            with pytest.raises(mt.ArgumentError, match=r"^huge: expected A "):
                kernel(*arrays)


# ---- keywords that Python itself refuses


def test_words_that_a_call_does_not_know():
    kernel = interpreter_kernel(product())
    right = right_arrays(kernel)
    for wrong in ({"numbers": 1}, {"A": right[0]}, {"repeats": 3}):
        with pytest.raises(TypeError, match=next(iter(wrong))):
            kernel.time(*right, **wrong)
        with pytest.raises(TypeError, match=next(iter(wrong))):
            mt.interpret(product(), *right[:2], **wrong)
    with pytest.raises(TypeError):
        kernel.bind(right[0])
    for name in ("self", "kernel", "", "A\nB", "D"):
        with pytest.raises(mt.ArgumentError, match=r"expected names of inputs \(A, B\), but got "):
            kernel.bind(**{name: right[0]})
