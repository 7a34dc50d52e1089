"""A small residual network: from an ONNX file to one function that calls its kernels."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import minitensor as mt
from minitensor.cli.console import Console, aligned, indented
from minitensor.cli.errors import CommandError
from minitensor.codegen import Target
from minitensor.looks import readable_count, readable_seconds
from minitensor.runtime import Pace, interleave

IMAGE: Final = (1, 3, 64, 64)
CLOSE: Final = 1e-4
"""Of the largest element, by which a result may differ from that of the ONNX reference."""
UNTUNED, TUNED, RIVAL = "without a search", "tuned now", "onnxruntime"
ABSENT: Final = (
    "The third part reads an ONNX file, for which the package onnx is needed: "
    "pip install 'minitensor[onnx]'."
)


@dataclass(frozen=True, slots=True)
class Network:
    """What was found.

    kernels  of a call; and of operators before they were fused
    seconds  of the fastest call of each implementation, in turns
    """

    operators: int
    kernels: int
    seconds: Mapping[str, float]

    def described(self) -> dict[str, Any]:
        """As JSON."""
        times = {name: seconds * 1e3 for name, seconds in self.seconds.items()}
        return {"operators": self.operators, "kernels": self.kernels, "ms": times}

    def rows(self) -> Iterator[Sequence[str]]:
        """A line for each implementation."""
        first = self.seconds[UNTUNED]
        for name, seconds in self.seconds.items():
            ratio = "" if name == UNTUNED else f"{first / seconds:.2f} x {UNTUNED}"
            yield name, readable_seconds(seconds), ratio


def show(budget: float, target: Target, pace: Pace, console: Console) -> Network | None:
    """Read it, fuse it, build it, tune it for some seconds; None where onnx is missing.

    Raises CommandError for a result that is wrong.
    """
    console.heading(f"3  A residual network, from ONNX: an image {list(IMAGE)}, 10 classes")
    try:
        import onnx  # noqa: PLC0415 - an extra
        import onnx.reference  # noqa: PLC0415
    except ImportError:
        console.paragraph(ABSENT)
        return None
    model = residual(onnx)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "residual.onnx"
        onnx.save(model, path)
        graph = mt.graph.from_onnx(path).optimize()
        fused = graph.fuse()
        _code(console, 'graph = mt.graph.from_onnx("residual.onnx").optimize().fuse()')
        for group in fused.kernels:
            operators = " + ".join(fused.node(name).operator for name in group)
            console.print(f"    {operators:<24}{fused.node(group[-1]).result}")
        console.paragraph(
            f"Each line is a kernel: {len(graph.nodes)} operators are {len(fused.kernels)} kernels."
        )
        untuned = mt.build(fused, target)
        size, least = (
            readable_count(n, "B") for n in (untuned.memory.arena, untuned.memory.lower_bound)
        )
        console.paragraph(
            f"What is alive between them shares an arena of {size}; no plan needs less than "
            f"{least}."
        )
        call = f"result = mt.tune(graph, time_limit={budget:g})\nmodel = result.model()"
        _code(console, call)
        result = mt.tune(fused, target, time_limit=budget, progress=False)
        if result.interrupted:  # Ctrl-C ends the demo, not one search only
            raise KeyboardInterrupt
        console.print(indented(str(result.explain())))
        image = np.random.default_rng(0).standard_normal(IMAGE).astype("f")
        wanted = reference(onnx, model, image)
        calls = {UNTUNED: untuned, TUNED: result.model()}
        for name, one in calls.items():
            off = np.abs(one(image) - wanted).max() / np.abs(wanted).max()
            if off > CLOSE:
                raise CommandError(f"the network, {name}, is off by {off:.1e} of the largest score")
        turns = {name: one.prepare(image, np.empty_like(wanted)) for name, one in calls.items()}
        turns |= _rival(path, image, target)
        timed = interleave([_Call(name, call) for name, call in turns.items()], pace)
    found = Network(
        len(graph.nodes), len(fused.kernels), {n: min(t.fastest) for n, t in timed.items()}
    )
    console.print()
    for line in aligned(list(found.rows()), right=(1, 2)):
        console.print(f"  {line}".rstrip())
    return found


@dataclass(frozen=True, slots=True)
class _Call:
    """One that takes turns; see `interleave`."""

    name: str
    call: Callable[[], object]
    spin: float = 0.05


def _rival(path: Path, image: np.ndarray, target: Target) -> dict[str, Callable[[], object]]:
    """onnxruntime, if it is installed."""
    try:
        import onnxruntime  # noqa: PLC0415 - a rival
    except ImportError:
        return {}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = target.num_cores or 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return {RIVAL: lambda: session.run(None, {"image": image})}


def reference(onnx: Any, model: Any, image: np.ndarray) -> np.ndarray:
    """What the package onnx computes."""
    return np.asarray(onnx.reference.ReferenceEvaluator(model).run(None, {"image": image})[0])


def _code(console: Console, call: str) -> None:
    console.print()
    console.print(indented(console.code(call)))
    console.print()


def residual(onnx: Any) -> Any:
    """The network as a model of the package onnx: a stem, three residual blocks, a classifier."""
    helper, rng = onnx.helper, np.random.default_rng(1)
    nodes: list[Any] = []
    weights: list[Any] = []

    def weight(*shape: int) -> str:
        name = f"w{len(weights)}"
        scale = (2 / max(1, int(np.prod(shape[1:])))) ** 0.5
        array = (scale * rng.standard_normal(shape)).astype("f")
        weights.append(onnx.numpy_helper.from_array(array, name))
        return name

    def node(operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator.lower()}{len(nodes)}"
        nodes.append(helper.make_node(operator, list(inputs), [name], name, **attributes))
        return name

    def conv(x: str, channels: int, filters: int, size: int, stride: int = 1) -> str:
        given = weight(filters, channels, size, size), weight(filters)
        pads = [size // 2] * 4
        return node("Conv", x, *given, strides=[stride] * 2, pads=pads, kernel_shape=[size] * 2)

    x, channels = node("Relu", conv("image", 3, 32, 3, 2)), 32
    for filters, stride in ((32, 1), (64, 2), (128, 2)):
        inner = conv(node("Relu", conv(x, channels, filters, 3, stride)), filters, filters, 3)
        skip = x if stride == 1 else conv(x, channels, filters, 1, stride)
        x, channels = node("Relu", node("Add", inner, skip)), filters
    pooled = node("Flatten", node("GlobalAveragePool", x))
    scores = node("Gemm", pooled, weight(10, channels), weight(10), transB=1)
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "residual",
        [helper.make_tensor_value_info("image", kind, IMAGE)],
        [helper.make_tensor_value_info(scores, kind, (1, 10))],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    return made
