"""The hand schedules for GPUs: built, checked and timed in one call of at most eight minutes.

    python -m benchmarks.gpu                        all of them, for the GPU of this machine
    python -m benchmarks.gpu 'matmul-*'             some of them
    python -m benchmarks.gpu --device a100          for a GPU of the table
    python -m benchmarks.gpu --save benchmarks/results

Without a GPU all are built and the resources of their kernels reported, and nothing is timed.

nvcc compiles up to twelve in a run. A result is compared with torch in float64 on the GPU (with
numpy on the CPU, where torch is missing) before anything is timed, on standard normal numbers. Then
ours and torch, whose products are cuBLAS's and whose convolutions cuDNN's, have turns: in each
round both run for 20 ms or more, timed by events on the GPU, after calls that are not counted.
Quoted are the medians over the rounds. TF32 is off: float32 is computed in float32. The bandwidth
of the memory is that of a copy of 1 GiB on the GPU, both ways counted, in the same process.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

import minitensor as mt
from benchmarks.common import geometric_mean, markdown_table
from benchmarks.compare.baselines.torch_baseline import plain
from benchmarks.compare.work import TOLERANCE, expect
from minitensor import ir
from minitensor.codegen import Emitted, generate
from minitensor.runtime import (
    CudaKernel,
    Resources,
    cuda_of,
    find_nvcc,
    load_cuda_together,
    native_target,
    to_device,
)
from minitensor.version import __version__
from tutorials.schedules import GPU_SCHEDULES, HandSchedule, scheduled

IN_A_RUN: Final = 12
"""Kernels that nvcc compiles in one run."""
LIMIT: Final = 470.0
"""Seconds after which nothing more is measured."""
ROUNDS, ROUND_SECONDS = 7, 0.02
COPIED: Final = 1 << 30
"""Bytes of the copy that the memory is measured with."""
NARROW: Final = 2e-2
"""The tolerance for products of 16-bit floats, relative to the largest element."""


@dataclass
class Outcome:
    """The outcome for a schedule.

    kernels    the resources of each kernel, with its grid and block
    spilled    bytes that its kernels spill, and their stack
    wrong      how its result is wrong; "" if it is right or was not looked at
    failure    why it was not built or not run
    ours, torch  seconds of a call in each round
    """

    key: str
    name: str
    flop: int
    bytes: int
    kernels: list[dict[str, Any]] = field(default_factory=list)
    failure: str = ""
    wrong: str = ""
    ours: list[float] = field(default_factory=list)
    torch: list[float] = field(default_factory=list)

    @property
    def over_torch(self) -> float | None:
        """Times as fast as torch: the median over the rounds."""
        ratios = [theirs / mine for mine, theirs in zip(self.ours, self.torch)]
        return median(ratios) if ratios else None


@dataclass
class Report:
    """All outcomes, and the circumstances.

    compiled   seconds of nvcc for all, and the number of kernels
    bandwidth  bytes a second of a copy, None without a GPU
    """

    device: str
    gpu: str
    nvcc: str
    torch: str
    date: str
    minitensor: str = __version__
    compiled: float = 0.0
    bandwidth: float | None = None
    outcomes: list[Outcome] = field(default_factory=list)


def measured(
    chosen: Mapping[str, HandSchedule], device: str | None, limit: float = LIMIT
) -> Report:
    """Build, check and time schedules; what fails is in the report."""
    begun = time.monotonic()
    target = native_target(mt.Target("cuda", device=device))
    nvcc = find_nvcc()
    gpu, why_not = _gpu()
    torch = _torch() if gpu else None
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    report = Report(
        device=str(target.device),
        gpu=gpu or f"none: {why_not}",
        nvcc=nvcc.version,
        torch=str(torch.__version__) if torch else "",
        date=now,
    )
    built = _built(chosen, target, report)
    if not gpu:
        return report
    report.bandwidth = _bandwidth()
    for outcome in report.outcomes:
        kernel = built.get(outcome.key)
        if kernel is None:
            continue
        if time.monotonic() - begun > limit:
            outcome.failure = f"not run: {limit:.0f} s were over"
            continue
        try:
            _run(chosen[outcome.key], kernel, outcome, torch)
        except Exception as failure:  # one that fails is named, and the others are measured
            outcome.failure = f"{type(failure).__name__}: {failure}".splitlines()[0]
    return report


# ---- building


def _built(
    chosen: Mapping[str, HandSchedule], target: mt.Target, report: Report
) -> dict[str, CudaKernel]:
    """The kernels of the schedules that can be built."""
    texts: dict[str, Emitted] = {}
    for key, hand in chosen.items():
        outcome = Outcome(key, hand.name, hand.flop, hand.bytes)
        report.outcomes.append(outcome)
        try:
            s = scheduled(hand, target)
            texts[key] = generate(s.program, target, s.trace.as_python())
        except mt.MinitensorError as failure:
            outcome.failure = failure.message
    begun = time.monotonic()
    kernels: dict[str, CudaKernel] = {}
    outcomes = {outcome.key: outcome for outcome in report.outcomes}
    for keys in _parts(list(texts), IN_A_RUN):
        try:
            kernels |= zip(keys, load_cuda_together([texts[key] for key in keys]))
        except mt.CompileError:
            for key in keys:  # one by one, to find which it was
                try:
                    kernels |= zip([key], load_cuda_together([texts[key]]))
                except mt.CompileError as failure:
                    outcomes[key].failure = failure.message
    report.compiled = time.monotonic() - begun
    for key, kernel in kernels.items():
        outcomes[key].kernels = list(_kernels(kernel))
    return kernels


def _parts(keys: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def _kernels(kernel: CudaKernel) -> Iterator[dict[str, Any]]:
    for shape in kernel.emitted.kernels:
        taken: Resources = kernel.resources[shape.name]
        yield {**asdict(shape), **asdict(taken), "shared": max(shape.shared, taken.shared)}


# ---- running


def _gpu() -> tuple[str, str]:
    """The name of the GPU, or "" and the reason why there is none."""
    try:
        cuda = cuda_of(find_nvcc().library)
        return (cuda.name if cuda.count else ""), ""
    except mt.MinitensorError as failure:
        return "", failure.message


def _torch() -> Any:
    """torch with a GPU, set to compute float32 in float32; None if it is missing."""
    try:
        import torch  # noqa: PLC0415 - optional
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return torch


def _bandwidth() -> float:
    """Bytes a second of a copy on the GPU, read and written ones."""
    cuda = cuda_of(find_nvcc().library)
    one, other = cuda.allocate(COPIED), cuda.allocate(COPIED)
    cuda.fill(one.address, COPIED)

    def copy() -> None:
        cuda.copy(other.address, one.address, COPIED)

    copy()
    return 2 * COPIED / median(cuda.seconds(copy) for _ in range(ROUNDS))


def _run(hand: HandSchedule, kernel: CudaKernel, outcome: Outcome, torch: Any) -> None:
    """Check a kernel, and time it beside torch."""
    buffers = [p for p in kernel.params if p.name not in kernel.emitted.outputs]
    floats = [_normal(buffer, n) for n, buffer in enumerate(buffers)]
    given = [_stored(array, buffer) for array, buffer in zip(floats, buffers)]
    inputs = [to_device(array) for array in given]
    result = kernel(*inputs)
    (output,) = (p for p in kernel.params if p.name in kernel.emitted.outputs)
    found = _loaded(result.numpy(), output)
    rounded = [_loaded(array, buffer) for array, buffer in zip(given, buffers)]
    exact, allowed = _expected(hand, rounded, torch)
    if any(buffer.dtype.bits == 16 for buffer in buffers):
        allowed = NARROW * float(np.abs(exact).max())
    off = float(np.abs(found.reshape(exact.shape) - exact).max())
    if not off <= allowed:  # NaN is not
        outcome.wrong = f"off by {off:.3g}, where {allowed:.3g} is allowed"
        return
    calls: dict[str, Callable[[], object]] = {"ours": kernel.prepare(*inputs, result)}
    if torch is not None:
        function = plain(torch, hand.kind, hand.parameters)
        tensors = [_tensor(torch, array, buffer) for array, buffer in zip(given, buffers)]
        calls["torch"] = lambda: function(*tensors)
    for name, times in _in_turns(calls).items():
        setattr(outcome, name, times)


def _normal(buffer: ir.Buffer, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(buffer.shape, dtype=np.float32)


def _stored(array: np.ndarray, buffer: ir.Buffer) -> np.ndarray:
    """Numbers as a kernel takes them: bfloat16 as its bits."""
    if str(buffer.dtype) != "bfloat16":
        return array.astype(ir.numpy_dtype(buffer.dtype))
    bits = array.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def _loaded(array: np.ndarray, buffer: ir.Buffer) -> np.ndarray:
    """Their values."""
    if str(buffer.dtype) == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


def _tensor(torch: Any, array: np.ndarray, buffer: ir.Buffer) -> Any:
    tensor = torch.from_numpy(array.view(np.int16) if array.dtype == np.uint16 else array).cuda()
    return tensor.view(torch.bfloat16) if str(buffer.dtype) == "bfloat16" else tensor


def _expected(
    hand: HandSchedule, inputs: Sequence[np.ndarray], torch: Any
) -> tuple[np.ndarray, float]:
    """The result in float64, and how far an element may be off."""
    if torch is None or hand.kind.endswith("_sum"):
        return expect(hand.kind, inputs, hand.parameters)
    exact = [torch.from_numpy(array).cuda().double() for array in inputs]
    found = plain(torch, hand.kind, hand.parameters)(*exact).cpu().numpy()
    return found, TOLERANCE * float(np.abs(found).max())


def _in_turns(calls: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    """The seconds of a call of each, in rounds in which each has a turn."""
    cuda = cuda_of(find_nvcc().library)

    def lap(call: Callable[[], object], number: int) -> float:
        def work() -> None:
            for _ in range(number):
                call()

        return cuda.seconds(work) / number

    numbers = {}
    for name, call in calls.items():
        lap(call, 2)  # cuDNN chooses among its ways now
        numbers[name] = max(1, math.ceil(ROUND_SECONDS / max(lap(call, 3), 1e-7)))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for n in range(ROUNDS):
        for name in sorted(calls, reverse=n % 2 == 1):
            lap(calls[name], max(1, numbers[name] // 10))
            times[name].append(lap(calls[name], numbers[name]))
    return times


# ---- telling


def table(report: Report) -> list[str]:
    """The report as lines."""
    count = sum(len(outcome.kernels) for outcome in report.outcomes)
    a_kernel = f" ({report.compiled / count:.2f} s a kernel)" if count else ""
    yielded = [
        f"for {report.device}; GPU: {report.gpu}",
        f"{report.nvcc}: {count} kernels in {report.compiled:.1f} s{a_kernel}; "
        f"minitensor {report.minitensor}, torch {report.torch or 'none'}; {report.date}",
    ]
    if report.bandwidth is None:
        yielded.append("nothing was timed: there is no GPU")
    else:
        yielded.append(f"a copy of 1 GiB: {report.bandwidth / 1e9:.0f} GB/s")
    head = ("schedule", "kernels", "registers", "spills", "stack", "shared", "µs", "rate")
    rows: list[tuple[str, ...]] = [(*head, "of copy", "x torch", "")]
    rows += [_row(outcome, report.bandwidth) for outcome in report.outcomes]
    ratios = [o.over_torch for o in report.outcomes if o.over_torch is not None]
    mean = [f"geometric mean over torch: {geometric_mean(ratios):.2f}"] if ratios else []
    return [*yielded, "", *markdown_table(rows), *mean]


def _row(outcome: Outcome, bandwidth: float | None) -> tuple[str, ...]:
    def most(name: str) -> str:
        return str(max((kernel[name] for kernel in outcome.kernels), default="-"))

    taken = [str(len(outcome.kernels)), *(most(n) for n in ("registers", "spills", "stack"))]
    shared = max((k["shared"] + k["dynamic"] for k in outcome.kernels), default=0)
    times = ["-"] * 4
    if outcome.ours:
        seconds = median(outcome.ours)
        rate = f"{outcome.bytes / seconds / 1e9:.0f} GB/s"
        if outcome.flop:
            rate = f"{outcome.flop / seconds / 1e12:.2f} TFLOP/s"
        copy = f"{outcome.bytes / seconds / bandwidth:.0%}" if bandwidth else "-"
        ratio = outcome.over_torch
        times = [f"{seconds * 1e6:.1f}", rate, copy, "-" if ratio is None else f"{ratio:.2f}"]
    return (outcome.name, *taken, str(shared), *times, outcome.failure or outcome.wrong)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 if a schedule is wrong or cannot be built."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=["*"], help="schedules, with wildcards")
    parser.add_argument("--device", help="the GPU of the table to build for")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="write JSON there")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    chosen = {
        key: hand
        for key, hand in GPU_SCHEDULES.items()
        if any(fnmatch.fnmatch(key, name) for name in given.names)
    }
    if not chosen:
        parser.error(f"no schedule is called so; there are {', '.join(GPU_SCHEDULES)}")
    try:
        report = measured(chosen, given.device, given.limit)
    except mt.MinitensorError as failure:
        parser.error(failure.message)
    text = json.dumps(asdict(report), indent=1)
    print(text if given.json else "\n".join(table(report)))
    if given.save:
        stamp = report.date.replace("-", "").replace(":", "").replace(" UTC", "").replace(" ", "-")
        (given.save / f"gpu-{report.device}-{stamp}.json").write_text(text + "\n", encoding="utf-8")
    return int(any(outcome.failure or outcome.wrong for outcome in report.outcomes))


if __name__ == "__main__":
    raise SystemExit(main())
