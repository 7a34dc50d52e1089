"""Kernels between guard pages, in memory that holds nothing: the code is the one that others run.

A kernel runs twice. The first time every buffer ends where a guard page begins, the second time it
begins where one ends; outputs and scratch memory hold other patterns each time. So what is found is

    out of bounds   a guard page was touched
    unwritten       an element of an output holds the pattern still, or what was computed from it
    unsteady        an element differs between the runs: something was read that nothing wrote, or
                    threads race
    input changed   an input does not hold what it held
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minitensor import ir
from minitensor.runtime import NativeKernel
from minitensor.sanitize.between import GuardedRun, bits_of_nothing, first_of
from minitensor.sanitize.fault import Fault, Outcome, element_name
from minitensor.sanitize.memory import bits_of


def run_guarded(kernel: NativeKernel, inputs: Sequence[object]) -> Outcome:
    """Run a kernel twice between guard pages.

    inputs  one array for each input, in call order; they are copied

    Raises ArgumentError for an array that does not fit. An access beyond a guard (64 KB, and at
    least the size of the buffer) may end the process.
    """
    runs = [GuardedRun(kernel, inputs, which) for which in (0, 1)]
    (first, faults), (second, more) = [run.run() for run in runs]
    faults += [fault for fault in more if fault not in faults]
    if first != second:
        text = f"{ir.print_name(kernel.name)} returns {first}, and then {second}"
        faults.append(Fault("unsteady", text))
    if first == second == 0:
        for buffer in kernel.params:
            if buffer.name in kernel.emitted.outputs:
                a, b = (run.arrays[buffer.name] for run in runs)
                faults.extend(_compare(kernel.name, buffer, a, b))
    return Outcome(first, runs[0].outputs, tuple(faults))


def _compare(kernel: str, buffer: ir.Buffer, a: np.ndarray, b: np.ndarray) -> list[Fault]:
    """What two runs say about an output."""
    a_bits, b_bits = bits_of(a), bits_of(b)
    unwritten = (a_bits == bits_of_nothing(buffer, 0)) & (b_bits == bits_of_nothing(buffer, 1))
    index = first_of(unwritten)
    name = ir.print_name(kernel)
    faults = []
    if index is not None:
        text = f"{name} does not write {element_name(buffer, index)}"
        count = int(unwritten.sum())
        more = f", nor {count - 1} others" if count > 1 else ""
        faults.append(Fault("unwritten", text + more, buffer.name, index))
    differs = (a_bits != b_bits) & ~unwritten & ~(_is_nan(buffer, a) & _is_nan(buffer, b))
    index = first_of(differs)
    if index is not None:
        values = f"{a[index]} in one run and {b[index]} in another"
        reason = "it reads what nothing wrote, or threads race"
        text = f"{name} computes {element_name(buffer, index)} as {values}: {reason}"
        faults.append(Fault("unsteady", text, buffer.name, index))
    return faults


def _is_nan(buffer: ir.Buffer, array: np.ndarray) -> np.ndarray:
    if buffer.dtype == ir.BFLOAT16:
        nan: np.ndarray = (array & 0x7FFF) > 0x7F80
        return nan
    return np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)
