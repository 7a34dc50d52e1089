"""A kernel run in a process of its own, which it may take along.

The parent compiles the kernel, writes the arrays to files (without pickle), and starts

    python -m minitensor.sanitize FOLDER

which runs it and leaves what it found in the folder, as JSON. A process that dies, or never ends,
is a fault too.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from minitensor import ir
from minitensor.codegen import Emitted, Target, generate
from minitensor.errors import MinitensorError, unexpected
from minitensor.runtime import (
    cache_folder,
    compile_library,
    find_toolchain,
    native_target,
    scratch_folder,
)
from minitensor.sanitize.address import read_report, run_with_address_sanitizer
from minitensor.sanitize.builds import (
    Sanitizer,
    environment,
    load_sanitized,
    time_limit_for,
    toolchain_for,
)
from minitensor.sanitize.fault import Fault
from minitensor.sanitize.guards import run_guarded
from minitensor.sanitize.subject import inputs_of, program_of

TIME_LIMIT: Final = 60.0
"""Seconds for a run, unless said otherwise."""
_JOB: Final = "job.json"
_ANSWER: Final = "answer.json"
_ERRORS: Final = "stderr"
_LONGEST: Final = 1 << 20


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
    """What a text does wrong on these inputs; it runs in a new process.

    Raises ArgumentError for an array that does not fit, CompileError if the text does not compile,
    MinitensorError if the process cannot do its work.
    """
    accepted = inputs_of(emitted, inputs)
    toolchain = find_toolchain()
    limit = time_limit_for(sanitizer)
    compile_library(emitted.source, toolchain_for(sanitizer, toolchain), limit)
    folder = cache_folder()
    with scratch_folder(folder) as scratch:
        for number, array in enumerate(accepted):
            np.save(scratch / f"{number}.npy", array, allow_pickle=False)
        job = {"sanitizer": sanitizer.value, "inputs": len(accepted), "emitted": _as_json(emitted)}
        (scratch / _JOB).write_text(json.dumps(job), encoding="utf-8")
        variables = {
            **os.environ,
            **environment(sanitizer, toolchain),
            "MINITENSOR_CACHE_DIR": str(folder),
            "PYTHONPATH": os.pathsep.join(_python_path()),
        }
        ended = _run(scratch, variables, time_limit)
        answer, errors = _read(scratch / _ANSWER), _read(scratch / _ERRORS)
    return _faults(emitted, ended, answer, errors, time_limit)


def _python_path() -> list[str]:
    """Where the process finds this package, wherever it runs."""
    return [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]


def _run(folder: Path, variables: dict[str, str], time_limit: float) -> int | None:
    """The exit status of the process, None if it was stopped."""
    with (folder / _ERRORS).open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "minitensor.sanitize", str(folder)],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
    with process:
        try:
            return process.wait(time_limit)
        except BaseException as failure:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(failure, subprocess.TimeoutExpired):
                raise
            return None


def _read(path: Path) -> str:
    """The start of a file, "" if it is missing."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as stream:
        return stream.read(_LONGEST).decode("utf-8", errors="replace")
    return ""


def _faults(
    emitted: Emitted, ended: int | None, answer: str, errors: str, time_limit: float
) -> list[Fault]:
    name = ir.print_name(emitted.name or emitted.entry)
    if ended is None:
        return [Fault("crash", f"{name} did not end within {time_limit:g} s and was stopped")]
    if answer:
        told = json.loads(answer)
        if "error" in told:
            raise MinitensorError(told["error"])
        return [Fault(**{**f, "index": tuple(f["index"])}) for f in told["faults"]]
    fault = read_report(errors, emitted)
    if fault is not None:
        return [fault]
    if ended < 0:
        text = f"{name} is killed by {signal.Signals(-ended).name}"
        return [Fault("crash", f"{text}: it touches memory far outside every buffer")]
    last = errors.strip().rpartition("\n")[2] or "nothing on stderr"
    raise MinitensorError(f"{name}: the process that ran it ended with status {ended}: {last}")


# ---- in the process


def main(folder: Path) -> None:
    """Run the job in a folder, and leave there what is found."""
    job = json.loads((folder / _JOB).read_text(encoding="utf-8"))
    sanitizer = Sanitizer(job["sanitizer"])
    inputs = [
        np.load(folder / f"{number}.npy", allow_pickle=False) for number in range(job["inputs"])
    ]
    answer: dict[str, Any]
    try:
        (kernel,) = load_sanitized(sanitizer, [_from_json(job["emitted"])], find_toolchain())
        run = run_guarded if sanitizer is Sanitizer.GUARDS else run_with_address_sanitizer
        answer = {"faults": [asdict(fault) for fault in run(kernel, inputs).faults]}
    except MinitensorError as failure:
        answer = {"error": failure.message}
    (folder / "answer").write_text(json.dumps(answer), encoding="utf-8")
    os.replace(folder / "answer", folder / _ANSWER)


def _as_json(emitted: Emitted) -> dict[str, Any]:
    """What a process needs to know of a text."""
    return {
        "source": emitted.source,
        "entry": emitted.entry,
        "params": [_buffer_as_json(b) for b in emitted.params],
        "outputs": sorted(emitted.outputs),
        "checks": emitted.checks,
        "workspace": emitted.workspace,
        "target": {f.name: getattr(emitted.target, f.name) for f in fields(Target)},
        "name": emitted.name,
    }


def _from_json(told: dict[str, Any]) -> Emitted:
    return Emitted(
        source=told["source"],
        entry=told["entry"],
        params=tuple(_buffer_from_json(b) for b in told["params"]),
        outputs=frozenset(told["outputs"]),
        checks=tuple(told["checks"]),
        workspace=told["workspace"],
        target=Target(**told["target"]),
        name=told["name"],
    )


def _buffer_as_json(buffer: ir.Buffer) -> dict[str, Any]:
    return {"name": buffer.name, "shape": buffer.shape, "dtype": str(buffer.dtype)}


def _buffer_from_json(told: dict[str, Any]) -> ir.Buffer:
    return ir.Buffer(
        told["name"], tuple(told["shape"]), ir.DType.of(told["dtype"]), ir.Scope.GLOBAL
    )
