"""What every kernel has, seen on one that the interpreter runs."""

import numpy as np
import pytest

from minitensor import errors
from minitensor.ir import FLOAT32, INDEX, Block, Buffer, Const, Load, Program, Store
from minitensor.runtime import InterpreterKernel, Kernel, interpreter_kernel


def test_what_a_kernel_says_of_itself(adder):
    kernel = adder()
    assert isinstance(kernel, Kernel)
    assert kernel.name == "add"
    assert [b.name for b in kernel.params] == ["A", "B", "D"]
    assert kernel.target.kind == "interpreter"
    assert kernel.command == []
    assert "D[D_0, D_1] = A[D_0, D_1] + B[D_0, D_1]" in kernel.source
    assert repr(kernel) == (
        "<InterpreterKernel add(A: float32[2, 3], B: float32[2, 3], D: float32[2, 3]) "
        "for 'interpreter'>"
    )


def test_interpreter_has_no_assembly(adder):
    with pytest.raises(errors.CompileError, match='makes no machine code; build with target="c"'):
        adder().assembly()


def program(value):
    """D = value, without axes."""
    block = Block("D", (), Store("D", (), value))
    params = (Buffer("A", (2,), FLOAT32), Buffer("D", (), FLOAT32))
    return Program("constant", params, (), block)


def test_interpreter_kernel_of_a_program():
    kernel = interpreter_kernel(program(Load("A", (Const(1, INDEX),), FLOAT32)))
    assert isinstance(kernel, InterpreterKernel)
    assert kernel.target.num_cores == 1 and kernel.target.vector_bits == 0
    assert kernel(np.array([1, 2], "float32"))[()] == 2


def test_interpreter_keeps_its_checks():
    kernel = interpreter_kernel(program(Load("A", (Const(2, INDEX),), FLOAT32)))
    with pytest.raises(errors.ExecutionError, match="outside A") as caught:
        kernel(np.ones(2, "float32"))
    assert caught.value.kind == "out of bounds"


def test_a_prepared_call_writes_where_it_was_told_each_time(adder):
    a, b, d = np.ones((2, 3), "float32"), np.ones((2, 3), "float32"), np.empty((2, 3), "float32")
    call = adder().prepare(a, b, d)
    assert (d == 2).all()
    a[...] = 5
    call()
    assert (d == 6).all()


def test_a_wrong_call_cannot_be_prepared(adder):
    with pytest.raises(errors.ArgumentError):
        adder().prepare(np.ones((2, 3), "float32"))


def test_a_call_that_fails_cannot_be_prepared():
    kernel = interpreter_kernel(program(Load("A", (Const(7, INDEX),), FLOAT32)))
    with pytest.raises(errors.ExecutionError):
        kernel.prepare(np.ones(2, "float32"))
