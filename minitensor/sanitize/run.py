"""One run of a kernel under a sanitizer: in this process, or in one of its own, which may crash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from minitensor import ir
from minitensor.codegen import Emitted, Target, generate
from minitensor.errors import MinitensorError, unexpected
from minitensor.runtime import (
    Fault,
    NativeKernel,
    Reason,
    Worker,
    WorkerError,
    cache_folder,
    compile_library,
    find_toolchain,
    native_target,
    save_kernel,
    scratch_folder,
)
from minitensor.sanitize.address import read_report, run_with_address_sanitizer
from minitensor.sanitize.builds import Sanitizer, environment, time_limit_for, toolchain_for
from minitensor.sanitize.fault import Outcome, inputs_of, program_of
from minitensor.sanitize.guards import run_guarded
from minitensor.sanitize.races import run_watched

TIME_LIMIT: Final = 60.0
"""Seconds for a run, unless said otherwise."""
WORKER: Final = "minitensor.sanitize"


def run_sanitized(sanitizer: Sanitizer, kernel: NativeKernel, inputs: Sequence[object]) -> Outcome:
    """Run a kernel that `load_sanitized` gave for this sanitizer.

    inputs  one array for each input, in call order; they are copied

    With Sanitizer.ADDRESS a fault ends the process; its stderr is for `read_report`. With the
    others only an access far outside every buffer does. Raises ArgumentError for an array that does
    not fit.
    """
    run = {
        Sanitizer.GUARDS: run_guarded,
        Sanitizer.ADDRESS: run_with_address_sanitizer,
        Sanitizer.RACES: run_watched,
    }[sanitizer]
    return run(kernel, inputs)


def check_memory(
    what: Any, *arrays: object, target: str | Target = "c", time_limit: float = TIME_LIMIT
) -> list[Fault]:
    """Run a program, or a schedule's, between guard pages, and say what it did wrong.

    what        an mt.Schedule or a program
    arrays      one for each input, in call order
    target      "c" or an mt.Target
    time_limit  seconds; a kernel that takes longer is stopped, which is a fault

    Found are accesses outside buffers, elements of outputs that are not written, results that
    depend on memory nothing wrote, inputs that changed. Returns nothing if there is none of it.
    Raises CompileError without a compiler, ArgumentError for arrays that do not fit.
    """
    return _check(Sanitizer.GUARDS, what, arrays, target, time_limit)


def check_address(
    what: Any, *arrays: object, target: str | Target = "c", time_limit: float = TIME_LIMIT
) -> list[Fault]:
    """Run a program, or a schedule's, under AddressSanitizer and UndefinedBehaviorSanitizer.

    Takes what `check_memory` takes. Returns the first thing found, or nothing.
    Raises as `check_memory`, and CompileError if the compiler has no AddressSanitizer.
    """
    return _check(Sanitizer.ADDRESS, what, arrays, target, time_limit)


def _check(
    sanitizer: Sanitizer,
    what: Any,
    arrays: Sequence[object],
    target: str | Target,
    time_limit: float,
) -> list[Fault]:
    program = program_of(what)
    if not time_limit > 0:
        raise unexpected("a positive number of seconds", "time_limit", time_limit)
    exact = native_target(Target.of(target))
    return run_apart(sanitizer, generate(program, exact, hooks=sanitizer.hooks), arrays, time_limit)


def run_apart(
    sanitizer: Sanitizer,
    emitted: Emitted,
    inputs: Sequence[object],
    time_limit: float = TIME_LIMIT,
) -> list[Fault]:
    """The faults of a text on these inputs, run in a new process.

    Raises ArgumentError for an array that does not fit, CompileError if the text does not compile,
    MinitensorError if the process cannot do its work.
    """
    arrays = inputs_of(emitted, inputs)
    toolchain = find_toolchain()
    limit = time_limit_for(sanitizer)
    compile_library(emitted.source, toolchain_for(sanitizer, toolchain), limit)
    with scratch_folder(cache_folder()) as scratch:
        save_kernel(scratch, emitted, arrays)
        with Worker.start(WORKER, variables=environment(sanitizer, toolchain)) as worker:
            worker.send({"sanitizer": sanitizer.value, "folder": str(scratch)})
            try:
                reply = worker.receive(time_limit)
            except WorkerError as failure:
                return [_fault(emitted, failure)]
    if "error" in reply:
        raise MinitensorError(reply["error"])
    return [Fault(**{**f, "index": tuple(f["index"])}) for f in reply["faults"]]


def _fault(emitted: Emitted, failure: WorkerError) -> Fault:
    """The fault for which a kernel's process failed. Raises MinitensorError if it is no fault."""
    fault = read_report(failure.errors, emitted)
    if fault is not None:
        return fault
    text = f"{ir.print_name(emitted.name or emitted.entry)} {failure.message}"
    if failure.reason is Reason.CRASH:
        return Fault("crash", f"{text}; it may touch memory far outside every buffer")
    if failure.reason is Reason.TIMEOUT:
        return Fault("crash", text)
    raise MinitensorError(f"the process that runs {text}")
