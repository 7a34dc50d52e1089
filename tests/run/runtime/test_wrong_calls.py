"""Calls that must be refused, generated: none of them enters native code, and right ones still do.

A trap stands where native functions stand. The calls, and kernels for them, are those of
tests/unit/runtime/test_wrong_calls.py, which has the interpreter run them.
"""

import numpy as np
import pytest

import minitensor as mt
from minitensor.runtime import find_toolchain
from tests.unit.runtime.test_wrong_calls import PROGRAMS, SMALL, Trap, check_right_call
from tests.unit.runtime.wrong_calls import check_refused, wrong_calls, wrong_values


def trapped(kernel, monkeypatch):
    """The trap in front of a kernel's native function."""
    trap = Trap(kernel._function)
    monkeypatch.setattr(kernel, "_function", trap)
    return trap


@pytest.fixture(params=SMALL)
def program(request):
    """One of the programs, if the compiler has its types."""
    if request.param == "half" and not find_toolchain().float16:
        pytest.skip("this compiler has no 16-bit floats")
    return PROGRAMS[request.param]()


@pytest.mark.many
@pytest.mark.slow
def test_wrong_calls_do_not_enter_native_code(program, monkeypatch):
    kernel = mt.build(program)
    trap = trapped(kernel, monkeypatch)
    entries = [kernel, kernel.prepare, kernel.time]
    for number, call in enumerate(wrong_calls(kernel)):
        how = entries[number % (2 if call.named else 3)]  # the keywords of `time` are its own
        check_refused(kernel, call, lambda _, how=how: how)
        if number % 100 == 0:
            assert trap.entered == 0
            check_right_call(kernel, program, trap)
    assert trap.entered == 0
    check_right_call(kernel, program, trap)


def test_what_cannot_be_bound_enters_nothing(monkeypatch):
    program = PROGRAMS["product"]()
    kernel = mt.build(program)
    built = []
    monkeypatch.setattr(kernel, "_origin", (program, built.append))
    trap = trapped(kernel, monkeypatch)
    for buffer in program.inputs:
        for about, value, message in wrong_values(buffer, False):
            expected = rf"^product: expected {buffer.name} .*but got .*{message}"
            with pytest.raises(mt.ArgumentError, match=expected):
                kernel.bind(**{buffer.name: value})
            assert not built, about
    assert trap.entered == 0
    check_right_call(kernel, program, trap)


def test_wrong_calls_of_a_kernel_with_constants(monkeypatch):
    program = PROGRAMS["product"]()
    a, b = np.ones((2, 3), "f4"), np.ones((3, 4), "f4")
    bound = mt.build(program).bind(B=b)
    trap = trapped(bound._kernel, monkeypatch)
    count = 0
    for call in wrong_calls(bound):
        check_refused(bound, call)
        count += 1
    assert count > 300 and trap.entered == 0
    trap.open = True
    np.testing.assert_array_equal(bound(a), a @ b)
    assert trap.entered == 1


def test_a_huge_kernel_is_refused_before_its_outputs_are_made(monkeypatch):
    kernel = mt.build(PROGRAMS["huge"]())
    trap = trapped(kernel, monkeypatch)
    one = np.zeros((), "f4")
    for wrong in (None, one, np.broadcast_to(one, kernel.params[0].shape)):
        with pytest.raises(mt.ArgumentError, match=r"^huge: expected A "):
            kernel(wrong, wrong)
    assert trap.entered == 0
