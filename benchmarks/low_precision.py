"""Products of bytes, searched, beside the same products of float32 and beside onnxruntime.

    python -m benchmarks.low_precision                      six drawn products and layers
    python -m benchmarks.low_precision --seed 3 --trials 64 --threads 1
    python -m benchmarks.low_precision --few                products of a few bits

Extents are drawn from a seed, small factors and odd ones among them. Weights are constants, as in a
network: here they are bound (`Kernel.bind`), there they are initializers. A row is timed in turns,
the median of several rounds. onnxruntime takes part if it is installed; "wrong" says that its sums
are not those of numpy: on processors without VNNI it multiplies bytes with an instruction that
saturates. `--few` has codes of 2 bits times codes of 1 beside bytes, and 4-bit weights beside
float32; their weights are bound, too.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Final, NamedTuple

import numpy as np

import minitensor as mt
from benchmarks.common import geometric_mean, machine, markdown_table, seconds
from minitensor import ops

ROUNDS: Final = 15
EXTENTS: Final = (48, 64, 77, 96, 128, 160, 200, 256, 300, 384, 512)
CHANNELS, SIDES = (16, 24, 32, 48, 64, 96), (14, 20, 27, 28, 56)


class Row(NamedTuple):
    """An operator of bytes, and the same of floats.

    name      with its extents
    program   of bytes: the data first, then the weights
    floats    of float32, the operands in the same order
    onnx      the operator of ONNX, and its attributes
    """

    name: str
    program: mt.Program
    floats: mt.Program
    onnx: tuple[str, dict[str, Any]]


def product(m: int, n: int, k: int) -> Row:
    """A product of matrices."""
    made = []
    for left, right, multiply in (
        ("uint8", "int8", ops.matmul_integer),
        ("float32", "float32", ops.matmul),
    ):
        a, b = mt.placeholder((m, k), left, name="a"), mt.placeholder((k, n), right, name="b")
        made.append(mt.lower([a, b, multiply(a, b)], name="product"))
    return Row(f"product {m}x{n}x{k}", made[0], made[1], ("MatMulInteger", {}))


def convolution(channels: int, side: int, filters: int, kernel: int) -> Row:
    """A convolution that keeps the size of the image."""
    made, padding = [], kernel // 2
    for left, right, convolve in (
        ("uint8", "int8", ops.conv_integer),
        ("float32", "float32", ops.conv2d),
    ):
        x = mt.placeholder((1, channels, side, side), left, name="x")
        w = mt.placeholder((filters, channels, kernel, kernel), right, name="w")
        made.append(mt.lower([x, w, convolve(x, w, padding=padding)], name="convolution"))
    name = f"convolution {kernel}x{kernel} {channels}->{filters} {side}x{side}"
    return Row(name, made[0], made[1], ("ConvInteger", {"pads": [padding] * 4}))


def drawn(seed: int) -> list[Row]:
    """Three products and three convolutions."""
    rng = random.Random(seed)
    products = [product(*(rng.choice(EXTENTS) for _ in range(3))) for _ in range(3)]
    layers = [
        convolution(rng.choice(CHANNELS), rng.choice(SIDES), rng.choice(CHANNELS), kernel)
        for kernel in (1, 3, 3)
    ]
    return products + layers


def few_bits(size: int, depth: int) -> list[tuple[str, mt.Program, mt.Program]]:
    """Products of a few bits, each with the product that it takes the place of."""
    x, w = (mt.placeholder((size, size), "uint8", name=name) for name in "xw")
    bits = mt.lower([x, w, ops.bitserial_dense(x, w)], name="bits")
    row = mt.placeholder((1, depth), "float32", name="x")
    codes = mt.placeholder((depth, depth // 2), "uint8", name="w")
    scale = mt.placeholder((depth, depth // 32), "float32", name="scale")
    int4 = mt.lower([row, codes, scale, ops.matmul_int4(row, codes, scale)], name="int4")
    return [
        (f"2 bits x 1 bit, {size}³", bits, product(size, size, size).program),
        (f"4-bit weights, {depth}²", int4, product(1, depth, depth).floats),
    ]


def compared(
    name: str, program: mt.Program, other: mt.Program, trials: int, target: mt.Target
) -> list[str]:
    """The line of a product of a few bits."""
    calls = [ours(one, trials, target) for one in (program, other)]
    wanted = mt.build(program, target=target)(*arrays_of(program))
    if not np.allclose(calls[0](), wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max()):
        raise AssertionError(f"{name}: the searched kernel is wrong")
    rounds = [[min(seconds(call, 3)) for call in calls] for _ in range(ROUNDS)]
    mine, others = (median(times) for times in zip(*rounds))
    return [name, f"{1e3 * mine:.3f}", f"{1e3 * others:.3f}", f"{others / mine:.2f}"]


def arrays_of(program: mt.Program) -> list[np.ndarray]:
    """Any bytes, or as floats."""
    rng = np.random.default_rng(0)
    limits = {"uint8": (0, 256), "int8": (-128, 128)}
    return [
        rng.integers(*limits.get(str(b.dtype), (-128, 128)), b.shape).astype(str(b.dtype))
        for b in program.inputs
    ]


def ours(program: mt.Program, trials: int, target: mt.Target) -> Callable[[], Any]:
    """The call of the kernel that a search finds, its weights bound."""
    data, *weights = arrays_of(program)
    kernel = mt.tune(program, trials=trials, target=target, progress=False).kernel()
    bound = kernel.bind(**{b.name: own for b, own in zip(program.inputs[1:], weights)})
    return lambda: bound(data)


def onnxruntime(row: Row, threads: int) -> Callable[[], Any] | None:
    """The call of onnxruntime; None where it is not installed."""
    try:
        import onnx  # noqa: PLC0415
        import onnxruntime as runtime  # noqa: PLC0415
    except ImportError:
        return None
    data, weights = arrays_of(row.program)
    (result,) = row.program.outputs
    made = onnx.helper.make_node(row.onnx[0], ["x", "w"], ["y"], **row.onnx[1])
    graph = onnx.helper.make_graph(
        [made],
        "row",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, data.shape)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, result.shape)],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8
    )
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    session = runtime.InferenceSession(model.SerializeToString(), options)
    return lambda: session.run(None, {"x": data})[0]


def measured(row: Row, trials: int, threads: int) -> list[str]:
    """The line of a row."""
    target = mt.Target("c", num_cores=threads)
    calls = [ours(row.program, trials, target), ours(row.floats, trials, target)]
    peer = onnxruntime(row, threads)
    calls += [peer] if peer is not None else []
    wanted = mt.build(row.program, target=target)(*arrays_of(row.program))
    if not np.array_equal(calls[0](), wanted):
        raise AssertionError(f"{row.name}: the searched kernel is wrong")
    rounds = [[min(seconds(call, 3)) for call in calls] for _ in range(ROUNDS)]
    mine, floats, *others = (median(times) for times in zip(*rounds))
    line = [row.name, f"{1e3 * mine:.3f}", f"{1e3 * floats:.3f}", f"{floats / mine:.2f}"]
    if peer is None:
        return [*line, "", "", ""]
    right = "" if np.array_equal(peer(), wanted) else "wrong"
    return [*line, f"{1e3 * others[0]:.3f}", f"{others[0] / mine:.2f}", right]


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the extents (default: 0)")
    parser.add_argument("--trials", type=int, default=48, help="of each search (default: 48)")
    parser.add_argument("--threads", type=int, default=2, help="of each kernel (default: 2)")
    parser.add_argument("--few", action="store_true", help="products of a few bits instead")
    arguments = parser.parse_args(argv)
    if arguments.few:
        target = mt.Target("c", num_cores=arguments.threads)
        lines = [compared(*row, arguments.trials, target) for row in few_bits(1024, 4096)]
        print(machine())
        print("\n".join(markdown_table([["product", "ms", "otherwise, ms", "ratio"], *lines])))
        return
    head = ["operator", "bytes, ms", "float32, ms", "ratio", "onnxruntime, ms", "ratio", ""]
    rows = [measured(row, arguments.trials, arguments.threads) for row in drawn(arguments.seed)]
    print(machine())
    print("\n".join(markdown_table([head, *rows])))
    for at, name in ((3, "float32"), (5, "onnxruntime")):
        ratios = [float(row[at]) for row in rows if row[at]]
        if ratios:
            print(f"{name}: geometric mean {geometric_mean(ratios):.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
