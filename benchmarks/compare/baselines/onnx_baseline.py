"""onnxruntime: the workload as an ONNX graph of a few nodes, on its CPU provider.

With all operands as inputs; and, where some are weights, once more with those as constants of the
graph, which it packs when it loads the graph. Inputs and outputs are bound to the shared arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from benchmarks.compare.implementation import Implementation
from benchmarks.compare.work import Work, pad_of, stride_of

Node = tuple[str, Sequence[str], str, Mapping[str, Any]]
"""Operator, its inputs, its output, its attributes."""

SPIN_SECONDS: Final = 0.08
"""Its threads wait in a busy loop for 40 ms after a call."""

_OPSET: Final = 17
_IR_VERSION: Final = 9


def implementations(
    name: str, work: Work, threads: int, options: Mapping[str, Any]
) -> Iterator[Implementation]:
    """All operands as inputs; then with the weights as constants."""
    nodes, extra = _graph(work)
    if nodes:
        yield _implementation(name, work, threads, nodes, extra, ())
        if work.constants:
            yield _implementation(f"{name} bound", work, threads, nodes, extra, work.constants)


def _implementation(
    name: str,
    work: Work,
    threads: int,
    nodes: Sequence[Node],
    extra: Mapping[str, np.ndarray],
    constants: Sequence[str],
) -> Implementation:
    import onnx  # noqa: PLC0415 - optional
    import onnxruntime  # noqa: PLC0415 - optional

    given = dict(zip(work.names, work.inputs))
    out = work.output()
    held = {**extra, **{n: given.pop(n) for n in constants}}
    real = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, list(x), [y], **attributes) for op, x, y, attributes in nodes],
        work.kind,
        [onnx.helper.make_tensor_value_info(n, real, a.shape) for n, a in given.items()],
        [onnx.helper.make_tensor_value_info("out", real, out.shape)],
        [onnx.numpy_helper.from_array(array, n) for n, array in held.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", _OPSET)])
    model.ir_version = _IR_VERSION
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    for n, array in given.items():
        binding.bind_cpu_input(n, array)
    binding.bind_output("out", "cpu", 0, np.float32, out.shape, out.ctypes.data)
    return Implementation(
        name,
        lambda: session.run_with_iobinding(binding),
        lambda _: out,
        bound=bool(constants),
        spin=SPIN_SECONDS,
        note=f"constants: {', '.join(constants)}" if constants else "",
    )


def _graph(work: Work) -> tuple[list[Node], dict[str, np.ndarray]]:
    """The nodes, and arrays that are no operands; no nodes where ONNX has no such operator."""
    x = work.names
    extra: dict[str, np.ndarray] = {}
    nodes: list[Node] = []
    match work.kind:
        case "matmul" | "batch_matmul" | "matvec":
            nodes = [("MatMul", x, "out", {})]
        case "matmul_bias_relu":
            nodes = [("Gemm", x, "sum", {}), ("Relu", ["sum"], "out", {})]
        case "conv" | "depthwise":
            nodes = _convolution(work)
        case "softmax":
            nodes = [("Softmax", x, "out", {"axis": 1})]
        case "attention":
            extra["scale"] = np.array(1 / np.sqrt(work.inputs[0].shape[-1]), np.float32)
            nodes = [
                ("Transpose", x[1:2], "keys", {"perm": [0, 2, 1]}),
                ("MatMul", [x[0], "keys"], "products", {}),
                ("Mul", ["products", "scale"], "scores", {}),
                ("Softmax", ["scores"], "parts", {"axis": 2}),
                ("MatMul", ["parts", x[2]], "out", {}),
            ]
        case "layer_norm":
            nodes = [("LayerNormalization", x, "out", {"axis": 1, "epsilon": 1e-5})]
        case "transposed":
            sizes = {
                "pads": [pad_of(work.parameters)] * 4,
                "strides": [stride_of(work.parameters)] * 2,
            }
            nodes = [("ConvTranspose", x, "out", sizes)]
        case "row_sum" | "column_sum" | "full_sum":
            axes = {"row_sum": [1], "column_sum": [0], "full_sum": [0, 1]}[work.kind]
            extra["axes"] = np.array(axes, np.int64)
            nodes = [("ReduceSum", [*x, "axes"], "out", {"keepdims": 0})]
        case "transpose_add":
            turned: Node = ("Transpose", x[:1], "turned", {"perm": [1, 0]})
            nodes = [turned, ("Add", ["turned", x[1]], "out", {})]
        case "elementwise":
            extra = {
                name: np.array(value, np.float32)
                for name, value in (("scale", 1.5), ("shift", 0.5), ("less", 2.0))
            }
            nodes = [
                ("Mul", [x[0], "scale"], "scaled", {}),
                ("Add", ["scaled", "shift"], "shifted", {}),
                ("Mul", ["shifted", x[0]], "product", {}),
                ("Sub", ["product", "less"], "lowered", {}),
                ("Relu", ["lowered"], "out", {}),
            ]
    return nodes, extra


def _convolution(work: Work) -> list[Node]:
    attributes = {
        "pads": [pad_of(work.parameters)] * 4,
        "strides": [stride_of(work.parameters)] * 2,
        "group": work.inputs[0].shape[1] if work.kind == "depthwise" else 1,
    }
    if len(work.names) == 2:
        return [("Conv", work.names, "out", attributes)]
    return [("Conv", work.names, "conv", attributes), ("Relu", ["conv"], "out", {})]
