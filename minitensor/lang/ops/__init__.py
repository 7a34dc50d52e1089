"""Operators as functions of whole tensors: what networks are made of.

    y = mt.ops.relu(mt.ops.conv2d(x, w, bias=b, stride=1, padding=1))

Shapes follow numpy's rules, names and arguments PyTorch's, and meanings those of ONNX. Each result
is a tensor like any other: it can be lowered, read by an `mt.compute`, or traced into a graph.
Not here: gradients, and operators whose shapes depend on values.
"""

# fmt: off
from typing import NoReturn as _NoReturn

from minitensor.phrasebook import unknown_name as _unknown_name
from minitensor.lang.ops.bitserial import bitserial_conv2d, bitserial_dense
from minitensor.lang.ops.conv import (
    avg_pool, conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d,
    max_pool,
)
from minitensor.lang.ops.elementwise import (
    abs, add, cast, ceil, clip, cos, div, equal, erf, exp, floor, gelu, greater, hard_sigmoid,
    hard_swish, identity, leaky_relu, less, log, logical_and, logical_not, logical_or, maximum,
    minimum, mul, neg, power, reciprocal, relu, round, rsqrt, sigmoid, silu, sin, sqrt, sub, tanh,
    where,
)
from minitensor.lang.ops.int4 import matmul_int4
from minitensor.lang.ops.linear import gemm, matmul
from minitensor.lang.ops.operator import OPERATORS, Operator
from minitensor.lang.ops.quantized import (
    conv_integer, dequantize, matmul_integer, qlinear_conv, qlinear_matmul, quantize, requantize,
)
from minitensor.lang.ops.reduce import (
    argmax, argmin, batch_norm, global_avg_pool, layer_norm, reduce_max, reduce_mean, reduce_min,
    reduce_sum, softmax, top_k, top_k_indices,
)
from minitensor.lang.ops.shape import (
    broadcast_to, concat, gather, gather_elements, pad, reshape, slice, split, transpose, upsample,
)

__all__ = [
    "OPERATORS", "Operator", "abs", "add", "argmax", "argmin", "avg_pool", "batch_norm",
    "bitserial_conv2d", "bitserial_dense", "broadcast_to", "cast", "ceil", "clip", "concat",
    "conv1d", "conv2d", "conv3d", "conv_integer", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "cos", "dequantize", "div", "equal", "erf", "exp", "floor", "gather",
    "gather_elements", "gelu", "gemm", "global_avg_pool", "greater", "hard_sigmoid", "hard_swish",
    "identity", "layer_norm", "leaky_relu", "less", "log", "logical_and", "logical_not",
    "logical_or", "matmul", "matmul_int4", "matmul_integer", "max_pool", "maximum", "minimum",
    "mul", "neg", "pad", "power", "qlinear_conv", "qlinear_matmul", "quantize", "reciprocal",
    "reduce_max", "reduce_mean", "reduce_min", "reduce_sum", "relu", "requantize", "reshape",
    "round", "rsqrt", "sigmoid", "silu", "sin", "slice", "softmax", "split", "sqrt", "sub", "tanh",
    "top_k", "top_k_indices", "transpose", "upsample", "where",
]


def __getattr__(name: str) -> _NoReturn:
    raise _unknown_name("ops", name, "mt.ops", __all__)
