"""Networks from ONNX files beside other runtimes, in turns.

    python -m benchmarks.networks FOLDER [NAME …] [--log FILE] [--minutes M] [--unfused]
    python -m benchmarks.networks FOLDER [NAME …] --low bytes|bf16

FOLDER, which `benchmarks.exported` fills with five networks, has NAME.onnx, and NAME.npz with
arrays `in_<input>` and `out_<output>`, which a result must equal within 1e-4 of its largest
element. `--minutes` tunes each first, into the log; without a log the kernels run untuned. A ratio
is the time of the other runtime over ours, the median of those within rounds: above 1 we are
ahead. Rivals: onnxruntime; openvino, told to compute in float32; torch and torch.compile, for
those five; with `--unfused` our own kernels, one for each operator, untuned too if there is no log.

With `--low bytes` each network is quantised first, by onnxruntime's static quantiser (QDQ, weights
by channel) from random inputs; with `--low bf16` its products are of bfloat16, here and in
openvino. Results must then equal those of floats within a tenth of the largest element.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import minitensor as mt
from benchmarks.exported import NETWORKS, module
from minitensor import runtime
from minitensor.errors import reason_of

CLOSE, LOW = 1e-4, 0.1
SPIN = 0.05
"""Seconds for which the threads of other runtimes may keep a core busy after a call."""


@dataclass(frozen=True)
class Call:
    """One that takes turns."""

    name: str
    call: Callable[[], object]
    spin: float = SPIN


def rivals(
    path: Path, inputs: Mapping[str, np.ndarray], threads: int, low: str = ""
) -> Iterator[Call]:
    """The other runtimes that are installed."""
    with contextlib.suppress(ImportError):
        import onnxruntime  # noqa: PLC0415

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        yield Call("onnxruntime", lambda: session.run(None, dict(inputs)))
    with contextlib.suppress(ImportError):
        import openvino  # noqa: PLC0415

        core = openvino.Core()
        hint = "bf16" if low == "bf16" else "f32"
        settings = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": threads,
                    "PERFORMANCE_HINT": "LATENCY"}  # fmt: skip
        compiled = core.compile_model(core.read_model(str(path)), "CPU", settings)
        request = compiled.create_infer_request()
        yield Call("openvino", lambda: request.infer(dict(inputs)))
    name = path.stem.partition("-b")[0]
    with contextlib.suppress(ImportError):
        if name in NETWORKS and not low:
            yield from _torch(name, inputs, threads)


def _torch(name: str, inputs: Mapping[str, np.ndarray], threads: int) -> Iterator[Call]:
    import torch  # noqa: PLC0415

    torch.set_num_threads(threads)
    network, given = module(name), [torch.from_numpy(array) for array in inputs.values()]
    compiled = torch.compile(network)
    for title, function in (("torch", network), ("torch.compile", compiled)):
        run = torch.inference_mode()(partial(function, *given))
        try:
            run()
        except Exception as failure:  # it compiles by a compiler of its own, and may find none
            print(f"{name}: no {title}: {reason_of(failure)}", file=sys.stderr)
            continue
        yield Call(title, run)


def quantised(path: Path, folder: Path) -> Path:
    """A network of floats as one of bytes, in a folder: by onnxruntime, from random inputs."""
    from onnxruntime import quantization as q  # noqa: PLC0415
    from onnxruntime.quantization.shape_inference import quant_pre_process  # noqa: PLC0415

    held, rng = np.load(path.with_suffix(".npz"), allow_pickle=False), np.random.default_rng(0)
    shapes = {n.removeprefix("in_"): held[n].shape for n in held.files if n.startswith("in_")}
    given = ({n: rng.standard_normal(s, np.float32) for n, s in shapes.items()} for _ in range(4))

    class Inputs(q.CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> Any:
            return next(given, None)

    ready, made = folder / "ready.onnx", folder / path.name
    quant_pre_process(path, ready, skip_symbolic_shape=True)
    types = {"activation_type": q.QuantType.QUInt8, "weight_type": q.QuantType.QInt8}
    q.quantize_static(
        ready, made, Inputs(), quant_format=q.QuantFormat.QDQ, per_channel=True, **types
    )
    return made


def measured(path: Path, given: argparse.Namespace) -> dict[str, Any]:
    """All that is known of one network, measured as the command line says."""
    held = np.load(path.with_suffix(".npz"), allow_pickle=False)
    with tempfile.TemporaryDirectory() as folder:
        return _measured(
            quantised(path, Path(folder)) if given.low == "bytes" else path, held, given
        )


def _measured(
    path: Path, held: Mapping[str, np.ndarray], given: argparse.Namespace
) -> dict[str, Any]:
    log, low = given.log, given.low
    start = time.perf_counter()
    graph = mt.graph.from_onnx(path)
    graph = (graph.in_precision(low) if low == "bf16" else graph.optimize()).fuse()
    reading = time.perf_counter() - start
    if given.minutes:
        mt.tune(graph, time_limit=60 * given.minutes, log=log, progress=True)
    builds = []
    for _ in range(2):
        start = time.perf_counter()
        model = mt.build(graph, log=log)
        builds.append(time.perf_counter() - start)
    inputs = {v.name: np.ascontiguousarray(held[f"in_{v.name}"]) for v in graph.inputs}
    found = model(**inputs)
    outputs = found if isinstance(found, tuple) else (found,)
    wanted = [held[name] for name in held if name.startswith("out_")]
    off = max(abs(a - b).max() / abs(b).max() for a, b in zip(outputs, wanted))
    if off > (LOW if low else CLOSE):
        raise SystemExit(f"{path.name}: off by {off:.1e} of the largest element")
    threads = model.target.num_cores or 1
    own = [np.empty_like(array) for array in outputs]
    prepared = model.prepare(*inputs.values(), *own)
    calls = [
        Call("minitensor", prepared, runtime.SPIN_SECONDS),
        *rivals(path, inputs, threads, low),
    ]
    if given.unfused:
        apart = mt.build(graph.fuse("none"), log=log)
        alone = apart.prepare(*inputs.values(), *[np.empty_like(array) for array in outputs])
        calls.append(Call("unfused", alone, runtime.SPIN_SECONDS))
    turns = runtime.interleave(calls, runtime.Pace(rounds=given.rounds, burst=0.2))
    profile = model.profile(*inputs.values())
    ours = turns["minitensor"]
    return {
        "name": path.stem,
        "kernels": len(model.calls),
        "tasks": len(model.tasks),
        "off": off,
        "reading": reading,
        "build": builds[1],
        "arena": model.memory.arena / max(model.memory.lower_bound, 1),
        "ms": {name: 1e3 * turn.seconds for name, turn in turns.items()},
        "ratios": {
            name: runtime.ratio(ours.fastest, turn.fastest)
            for name, turn in turns.items()
            if turn is not ours
        },
        "kernel_ms": 1e3 * profile.seconds,
        "untuned": sum(task.origin != "the log" for task in model.tasks),
        "slowest": [
            f"{row.name} {'x'.join(map(str, row.shape))} {1e3 * row.seconds:.3f} ms"
            for row in sorted(profile.rows, key=lambda row: -row.seconds)[:5]
        ],
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = [
        "| network | kernels (distinct, untuned) | ours, ms | others, ms | ratios | off | "
        "read, s | warm build, s | arena / bound |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        others = ", ".join(f"{n} {t:.2f}" for n, t in row["ms"].items() if n != "minitensor")
        ratios = ", ".join(f"{n} **{r:.2f}**" for n, r in row["ratios"].items())
        lines.append(
            f"| {row['name']} | {row['kernels']} ({row['tasks']}, {row['untuned']}) | "
            f"{row['ms']['minitensor']:.2f} | {others} | {ratios} | {row['off']:.0e} | "
            f"{row['reading']:.2f} | {row['build']:.2f} | {row['arena']:.3f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="all in the folder if there are none")
    parser.add_argument("--log", help="of searches")
    parser.add_argument("--minutes", type=float, default=0.0, help="of a search, each")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--unfused", action="store_true", help="beside a kernel for each operator")
    parser.add_argument("--low", choices=("bytes", "bf16"), default="", help="a low precision")
    parser.add_argument("--save", type=Path, help="the table, to this file")
    arguments = parser.parse_args()
    if arguments.minutes and not arguments.log:
        parser.error("--minutes needs --log, which keeps what is found")
    there = sorted(path.stem for path in arguments.folder.glob("*.onnx"))
    names = arguments.names or there
    for name in names if there else [""]:
        if name not in there:
            has = ", ".join(there) or "no network; benchmarks.exported makes five"
            parser.error(f"{arguments.folder} has no {name or '*'}.onnx: it has {has}")
    if arguments.low == "bytes" and importlib.util.find_spec("onnxruntime") is None:
        parser.error("--low bytes needs onnxruntime, which quantises: pip install onnxruntime")
    rows = []
    for name in names:
        path = arguments.folder / f"{name}.onnx"
        rows.append(measured(path, arguments))
        print(table(rows[-1:]).splitlines()[-1], flush=True)
        print("    slowest:", "; ".join(rows[-1]["slowest"]), flush=True)
    print(f"\n{runtime.cpu_name()}, {runtime.usable_cores()} cores\n\n{table(rows)}")
    if arguments.save:
        arguments.save.write_text(f"{table(rows)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
