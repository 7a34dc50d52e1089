"""`minitensor network`: an ONNX file as a graph and a model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from minitensor import runtime
from minitensor.api import build
from minitensor.cli.bench import Call
from minitensor.cli.console import Console, counted
from minitensor.cli.errors import CommandError, UsageError
from minitensor.errors import printable
from minitensor.graph import Graph, Model, from_onnx
from minitensor.ir import numpy_dtype, print_name
from minitensor.looks import readable_seconds
from minitensor.search import NetworkResult, tune

LOG: Final = "tuning.jsonl"
TRIALS: Final = 64
ACTIONS: Final = ("show", "run", "tune", "profile", "export")
INTERRUPTED: Final = 130

TEXT: Final = "show, run, tune, profile or export a network from an ONNX file"
EPILOG: Final = """\
examples:
  minitensor network net.onnx show                    the operators, in the groups of kernels
  minitensor network net.onnx run --input x=x.npy -o folder        outputs as .npy files
  minitensor network net.onnx tune --minutes 30       into tuning.jsonl; then beside onnxruntime,
                                                      where it is installed
  minitensor network net.onnx profile --log tuning.jsonl           the time of each kernel
  minitensor network net.onnx run --precision bf16    products of halves, summed in float32
  minitensor network net.onnx export -o folder        C, weights and a Makefile: no Python
  minitensor network net.onnx show --shape x=1x3x224x224           for extents that are open

Inputs that are not given are drawn at random. docs/networks.md has the operators that are read.
"""


def _shape(word: str) -> dict[str, tuple[int, ...]]:
    """NAME=1x3x224x224 as a shape by its name."""
    name, _, extents = word.rpartition("=")
    parts = extents.split("x")
    if not name or not all(part.isascii() and part.isdigit() for part in parts):
        raise argparse.ArgumentTypeError(f"expected NAME=1x3x224x224, but got {printable(word)!r}")
    return {name: tuple(map(int, parts))}


def _file(word: str) -> dict[str, str]:
    """NAME=FILE.npy as a path by the name of an input."""
    name, _, path = word.partition("=")
    if not name or not path:
        raise argparse.ArgumentTypeError(f"expected NAME=FILE.npy, but got {printable(word)!r}")
    return {name: path}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("file", metavar="FILE.onnx", help="the network")
    parser.add_argument("action", choices=ACTIONS, help="what to do with it")
    parser.add_argument(
        "--shape",
        type=_shape,
        action="add",
        metavar="NAME=AxB",
        help="of an input; may be repeated",
    )
    parser.add_argument(
        "--input", type=_file, action="add", metavar="NAME=FILE", help="an array; may be repeated"
    )
    text = "bf16 or f16: of the operands of products and convolutions"
    parser.add_argument("--precision", metavar="P", help=text)
    parser.add_argument("--log", metavar="FILE", help=f"of searches (tune: {LOG})")
    parser.add_argument(
        "--trials", type=int, metavar="N", help=f"of a kernel, on average (tune: {TRIALS})"
    )
    parser.add_argument("--minutes", type=float, metavar="T", help="of all searches (tune)")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="for outputs, or for the C")


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Read the network, and do what was asked."""
    _check(arguments)
    graph = from_onnx(arguments.file, arguments.shape)
    if arguments.precision is not None:
        graph = graph.in_precision(arguments.precision)
    acts: Mapping[str, Callable[[argparse.Namespace, Console, Graph], int]] = {
        "show": _show, "run": _run, "tune": _tune, "profile": _profile, "export": _export,
    }  # fmt: skip
    return acts[arguments.action](arguments, console, graph)


def _check(arguments: argparse.Namespace) -> None:
    """Raise UsageError for an option that the action would not look at."""
    for option, actions in (
        ("trials", ("tune",)),
        ("minutes", ("tune",)),
        ("output", ("run", "export")),
        ("input", ("run", "profile", "tune")),
    ):
        if getattr(arguments, option) is not None and arguments.action not in actions:
            raise UsageError(f"--{option} is for {', '.join(actions)}")
    if arguments.action == "export" and not arguments.output:
        raise UsageError("export needs -o FOLDER")
    if arguments.minutes is not None and not arguments.minutes >= 0:
        raise UsageError("--minutes must be 0 or more")


def _arrays(arguments: argparse.Namespace, graph: Graph) -> dict[str, np.ndarray]:
    """An array for each input. Raises CommandError for a file that is none."""
    given, rng = dict(arguments.input or {}), np.random.default_rng(0)
    names = [value.name for value in graph.inputs]
    for name in given:
        if name not in names:
            listed = ", ".join(map(print_name, names))
            raise CommandError(f"there is no input {print_name(name)}; the inputs are {listed}")
    arrays = {}
    for value in graph.inputs:
        if value.name in given:
            arrays[value.name] = _loaded(given[value.name])
            continue
        dtype = np.dtype(numpy_dtype(value.dtype))
        drawn = rng.integers(0, 2, value.shape) if dtype.kind != "f" else rng.random(value.shape)
        arrays[value.name] = np.asarray(drawn, dtype)
    return arrays


def _loaded(path: str) -> np.ndarray:
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as failure:
        reason = getattr(failure, "strerror", None) or "it is no .npy file"
        raise CommandError(f"cannot read {printable(path)}: {reason}") from None
    if not isinstance(found, np.ndarray):
        raise CommandError(f"cannot read {printable(path)}: it holds several arrays")
    return found


def _show(arguments: argparse.Namespace, console: Console, graph: Graph) -> int:
    fused = graph.optimize().fuse()
    if arguments.json:
        console.json(
            {
                "name": graph.name,
                "nodes": len(graph.nodes),
                "optimized": len(fused.nodes),
                "kernels": [list(group) for group in fused.kernels],
            }
        )
        return 0
    console.print(str(fused))
    console.print(
        f"\n{counted(len(graph.nodes), 'operator')}, {len(fused.nodes)} after rewrites, in "
        f"{counted(len(fused.kernels), 'kernel')}"
    )
    return 0


def _run(arguments: argparse.Namespace, console: Console, graph: Graph) -> int:
    model = build(graph, log=arguments.log)
    found = model(**_arrays(arguments, graph))
    results = found if isinstance(found, tuple) else (found,)
    report: list[dict[str, Any]] = []
    for number, (name, array) in enumerate(zip(model.graph.outputs, results)):
        report.append({"name": name, "shape": list(array.shape), "dtype": str(array.dtype)})
        if arguments.output:
            path = Path(arguments.output) / f"{number}.npy"
            _saved(path, array)
            report[-1]["file"] = str(path)
    if arguments.json:
        console.json(report)
        return 0
    for one, array in zip(report, results):
        console.print(f"{print_name(one['name'])}: {one['dtype']}{one['shape']}")
        console.print(f"    {np.array2string(array.reshape(-1)[:6], precision=4)}")
    return 0


def _saved(path: Path, array: np.ndarray) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, array, allow_pickle=False)
    except OSError as failure:
        raise CommandError(f"cannot write {printable(str(path))}: {failure.strerror}") from None


def _profile(arguments: argparse.Namespace, console: Console, graph: Graph) -> int:
    profile = build(graph, log=arguments.log).profile(*_arrays(arguments, graph).values())
    if arguments.json:
        console.json([{**_plain(row), "shape": list(row.shape)} for row in profile.rows])
    else:
        console.print(str(profile))
    return 0


def _plain(row: Any) -> dict[str, Any]:
    names = ("name", "output", "origin", "seconds", "flops", "nbytes")
    return {name: getattr(row, name) for name in names}


def _export(arguments: argparse.Namespace, console: Console, graph: Graph) -> int:
    model = build(graph, log=arguments.log)
    model.export(arguments.output)
    if arguments.json:
        console.json({"folder": arguments.output})
    else:
        console.print(f"{printable(arguments.output)}: make builds it, and needs no Python")
    return 0


def _tune(arguments: argparse.Namespace, console: Console, graph: Graph) -> int:
    trials = TRIALS if arguments.trials is None else arguments.trials
    limit = None if arguments.minutes is None else 60 * arguments.minutes
    log = arguments.log or LOG
    result: NetworkResult = tune(
        graph, trials=trials, time_limit=limit, log=log, progress=not arguments.json
    )
    model, arrays = result.model(), _arrays(arguments, graph)
    ours, theirs = _in_turns(model, arguments.file, arrays)
    if arguments.json:
        console.json(
            {
                "seconds": ours,
                "onnxruntime": theirs,
                "log": log,
                "tasks": [
                    {"name": t.name, "count": t.count, "first": t.first, "seconds": t.seconds}
                    for t in result.tasks
                ],
            }
        )
    else:
        console.print(result.explain())
        console.print(f"\nminitensor   {readable_seconds(ours):>9}")
        if theirs is not None:
            console.print(
                f"{'onnxruntime':12} {readable_seconds(theirs):>9} {theirs / ours:6.2f} x"
            )
        else:
            print("(with onnxruntime installed, it is timed beside it)", file=sys.stderr)
    return INTERRUPTED if result.interrupted else 0


def _in_turns(
    model: Model, path: str, arrays: Mapping[str, np.ndarray]
) -> tuple[float, float | None]:
    """Seconds of a call of ours, and of onnxruntime where it is installed and takes the model."""
    turns = [Call("ours", model.prepare(*arrays.values(), *_outputs(model)))]
    theirs = _onnxruntime(path, model.target.num_cores or 1)
    if theirs is not None:
        turns.append(Call("theirs", lambda: theirs.run(None, dict(arrays))))
    found = runtime.interleave(turns, runtime.Pace(), pause=(model.target.num_cores or 1) > 1)
    return found["ours"].seconds, found["theirs"].seconds if "theirs" in found else None


def _outputs(model: Model) -> list[np.ndarray]:
    """Memory for the outputs of a model."""
    buffers = model.params[len(model.graph.inputs) :]
    return [np.empty(buffer.shape, numpy_dtype(buffer.dtype)) for buffer in buffers]


def _onnxruntime(path: str, threads: int) -> Any:
    """A session of onnxruntime; None where it is not installed, or does not take the model."""
    try:
        import onnxruntime  # noqa: PLC0415 - a peer, never needed
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception:  # of onnxruntime: operators that it lacks
        return None
