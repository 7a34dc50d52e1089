"""What is given in place of a program: the message says how to come to one."""

import re

import numpy as np
import pytest

import minitensor as mt

A, B, C = TENSORS = mt.workloads.matmul(8, 8, 8)
PROGRAM = mt.lower(TENSORS, name="product")
SCHEDULE = mt.Schedule(PROGRAM)


def function():
    return TENSORS


GIVEN = {
    "tensors": (TENSORS, "[A, B, C] (tuple of tensors); lower them first: program = mt.lower([A, "),
    "many": ([A] * 9, "[A, A, A, …, A] (list of tensors); lower them first"),
    "tensor": (C, "; lower it first, after its inputs: program = mt.lower([…, C])"),
    "programs": ([PROGRAM, PROGRAM], "list of 2: give one at a time"),
    "function": (function, "(function); call the function, and give what it returns"),
    "operator": ("matmul", "; operators by name: mt.lower(mt.workloads.matmul(64, 64, 64))"),
    "file": ("mine.py", "; in Python, import the file"),
    "network": ("net.onnx", "; a network is read first"),
    "nothing": (None, "; does the function that made it end without a return?"),
    "array": (np.ones(3), "; arrays go into the kernel: kernel = mt.build(program)"),
    "trace": (SCHEDULE.trace, "=<Trace>; a trace is steps without a program: trace.apply(program)"),
    "kernel": (mt.build(PROGRAM, "interpreter"), "=<Kernel>; a kernel is built already"),
    "scalar": (A[0, 0], "=<Scalar>; one symbolic value is no tensor: put it in mt.compute"),
    "reduction": (mt.sum(A[0, 0], mt.reduce_axis(3)), "=<Reduction>; a reduction is the expressi"),
    "number": (3, "=3 (int)"),
}
CALLS = {
    "build": mt.build,
    "explain": mt.explain,
    "interpret": mt.interpret,
    "verify": mt.verify,
    "gpu_cost": mt.gpu_cost,
    "Schedule": mt.Schedule,
    "tune": mt.tune,
    "load_best": lambda it: mt.load_best("no.jsonl", it),
    "generate_sketches": lambda it: mt.search.generate_sketches(it, num_cores=1),
    "extract_features": lambda it: mt.search.extract_features(it),
    "workload_key": lambda it: mt.search.workload_key(it),
    "Task": lambda it: mt.search.Task.of(it),
    "check_races": lambda it: mt.sanitize.check_races(it),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("given", GIVEN)
def test_the_way_to_a_program_is_said(call, given):
    value, said = GIVEN[given]
    with pytest.raises(mt.ArgumentError, match=re.escape(said)) as caught:
        CALLS[call](value)
    assert re.match(
        r"expected (a program|a schedule or a program) \(see mt\.lower\), but got",
        (caught.value.message),
    )
    assert "…" not in caught.value.message or given in ("many", "tensor", "function")


@pytest.mark.parametrize("call", ["Schedule", "tune", "generate_sketches", "load_best"])
def test_a_search_starts_from_a_definition(call):
    with pytest.raises(mt.ArgumentError, match=r"=<Schedule>; .* s\.history\[0\]$"):
        CALLS[call](SCHEDULE)
    assert isinstance(SCHEDULE.history[0], mt.Program)


def test_what_is_advised_works():
    sketch = mt.search.generate_sketches(PROGRAM, target="c", num_cores=1)[0]
    with pytest.raises(mt.ArgumentError, match=r"=<Sketch>; .* sketch\.apply\(seed=0\) is a sched"):
        mt.build(sketch)
    mt.build(sketch.apply(seed=0), "interpreter")
    mt.build(SCHEDULE.trace.apply(PROGRAM), "interpreter")
    mt.build(mt.lower([A, B, C]), "interpreter")


@pytest.mark.parametrize(
    "typed, said",
    [
        (lambda: mt.lower(A, C), r"in one list: mt\.lower\(\[A, B, C\], name='main'\)"),
        (lambda: mt.lower(PROGRAM), r"=<Program>, which is lowered already: print\(program\)"),
        (lambda: mt.lower(SCHEDULE), r"=<Schedule>, which is lowered already: print\(s\.program\)"),
        (lambda: mt.lower(function), r"mt\.lower\(function\(…\)\) of tensors"),
        (lambda: mt.lower("matmul"), r"mt\.lower\(mt\.workloads\.matmul\(64, 64, 64\)\)"),
        (lambda: mt.lower([A, A[0, 0]]), "tensors=<Scalar>; one symbolic value"),
    ],
)
def test_lower_takes_a_list_of_tensors(typed, said):
    with pytest.raises(mt.ArgumentError, match=said):
        typed()
