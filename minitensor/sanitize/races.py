"""Races, found exactly: two iterations of a parallel loop touch a byte, and one of them writes it.

The kernel is compiled without OpenMP, so that its iterations run one after the other, and each
counts as a thread of its own. The compiler's `-fsanitize=thread` puts a call in front of each
access; `races.c` takes the calls. What is found does not depend on how many cores there are or when
they run, and there is no false alarm: libtsan does not see the barriers of libgomp.

An iteration's own memory is no cause of races: temporaries that live in the loop, and what the
functions it calls have on the stack. A parallel loop inside another runs serially in our kernels,
and is no parallel loop here either. Not seen: accesses by inline assembly, by masked vector
instructions (intrinsics of the CPU) and by other libraries, which only the body of an intrinsic can
contain. Atomic accesses are no part of a race.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from minitensor.codegen import Emitted, Target, generate
from minitensor.errors import ExecutionError
from minitensor.ir import Buffer, print_name
from minitensor.runtime import (
    NativeKernel,
    element_at,
    element_name,
    find_toolchain,
    load_function,
    native_target,
    pointer_to,
)
from minitensor.sanitize.builds import Sanitizer, load_sanitized, runtime_library
from minitensor.sanitize.fault import Outcome, Race, program_of
from minitensor.sanitize.guards import GuardedRun
from minitensor.sanitize.memory import address_of

_MOST: Final = 256
_FIELDS: Final = 7
_one_at_a_time: Final = threading.Lock()


def check_races(what: Any, *arrays: object, target: str | Target = "c") -> list[Race]:
    """Run a program, or a schedule's, on arrays, and say where iterations of parallel loops race.

    what    an mt.Schedule or a program
    arrays  one for each input, in call order
    target  "c" or an mt.Target; with one core, as with two

    Returns nothing if there is no race in this run: the first one of each loop, buffer, and kind.
    Raises CompileError without a compiler, ArgumentError for arrays that do not fit.
    """
    program = program_of(what)
    exact = several_cores(native_target(Target.of(target)))
    emitted = generate(program, exact, hooks=True)
    (kernel,) = load_sanitized(Sanitizer.RACES, [emitted], find_toolchain())
    return [fault for fault in run_watched(kernel, arrays).faults if isinstance(fault, Race)]


def several_cores(target: Target) -> Target:
    """The target, with two cores if it has one: a text for one core has no parallel loops."""
    cores = max(2, target.num_cores or 2)
    return Target(target.kind, cores, target.vector_bits)


def run_watched(kernel: NativeKernel, inputs: Sequence[object]) -> Outcome:
    """Run a kernel that `load_sanitized(Sanitizer.RACES, …)` gave, and look for races.

    inputs  one array for each input, in call order; they are copied

    It runs between guard pages, so that accesses outside buffers are found as well. Raises
    ArgumentError for an array that does not fit.
    """
    run = GuardedRun(kernel, inputs, 0)
    start, finish = _runtime()
    bounds = [len(run.arrays)]
    for array in run.arrays.values():
        bounds += [address_of(array), address_of(array) + array.nbytes]
    given = np.array(bounds, np.uint64)
    found = np.zeros((_MOST, _FIELDS), np.int64)
    with _one_at_a_time:
        if start(pointer_to(given)) != 0:
            raise _no_memory()
        try:
            status, faults = run.run()
        finally:
            count = finish(pointer_to(found))
    if count < 0:
        raise _no_memory()
    races = [_race(kernel.emitted, row) for row in found[:count].tolist()]
    return Outcome(status, run.outputs, (*races, *faults))


def _no_memory() -> ExecutionError:
    return ExecutionError("no memory to remember who touched what; check smaller arrays", "memory")


def _runtime() -> tuple[Callable[..., int], Callable[..., int]]:
    path = runtime_library(Sanitizer.RACES, find_toolchain())
    return load_function(path, "races_start", 1), load_function(path, "races_finish", 1)


def _race(emitted: Emitted, row: list[int]) -> Race:
    number, memory, offset, first, second, first_writes, second_writes = row
    loop = emitted.loops[number]
    buffer = _memory(emitted, memory)
    index = element_at(buffer, offset) if buffer is not None else ()
    place = (
        element_name(buffer, index) if buffer is not None else "memory of no buffer (is it static?)"
    )
    did = ["writes" if w else "reads" for w in (first_writes, second_writes)]
    name = print_name(emitted.name or emitted.entry)
    if did[0] == did[1]:
        what = f"iterations {first} and {second} of the parallel loop {print_name(loop)} both write"
        text = f"{what} {place}"
    else:
        where = f"of the parallel loop {print_name(loop)}"
        text = f"iteration {first} {where} {did[0]} {place}, which iteration {second} {did[1]}"
    return Race(
        kind="race",
        message=f"{name}: {text}",
        buffer=buffer.name if buffer is not None else "",
        index=index,
        loop=loop,
        iterations=(first, second),
        writes=(bool(first_writes), bool(second_writes)),
    )


def _memory(emitted: Emitted, number: int) -> Buffer | None:
    known = (*emitted.params, *emitted.memory)
    return known[number] if 0 <= number < len(known) else None
