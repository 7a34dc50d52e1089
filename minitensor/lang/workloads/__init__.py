"""The named operators: what papers and courses measure, as tensor expressions.

Each function returns the tensors for `lower`, inputs first and outputs last, in the order of the
call; intermediate stages are not listed. All extents are integers >= 1.

    program = mt.lower(mt.workloads.matmul(m=64, n=64, k=64), name="matmul")

`WORKLOADS` holds them by name, each with a small size and one worth timing. Not here: schedules.
Read in this order: `linear`, `basic`, `norm`, `attention`; `window`, `conv`, `conv_variants`,
`pool`, `winograd`; `registry`.
"""

# fmt: off
from minitensor.lang.workloads.attention import (
    transpose_batch_matmul, transpose_batch_matmul_softmax,
)
from minitensor.lang.workloads.basic import (
    argmax, cumsum, elementwise_chain, full_sum, row_sum, stencil2d, transpose_add,
)
from minitensor.lang.workloads.conv import (
    conv1d, conv2d, conv2d_bias_bn_relu, conv2d_bias_relu, conv3d, depthwise_conv2d,
)
from minitensor.lang.workloads.conv_variants import capsule_conv2d, conv2d_transpose
from minitensor.lang.workloads.linear import batch_matmul, matmul, matmul_bias_relu
from minitensor.lang.workloads.norm import layer_norm, matrix_norm, softmax
from minitensor.lang.workloads.pool import avg_pool2d, global_avg_pool2d, max_pool2d
from minitensor.lang.workloads.registry import WORKLOADS, Workload
from minitensor.lang.workloads.winograd import conv2d_winograd

__all__ = [
    "WORKLOADS", "Workload", "argmax", "avg_pool2d", "batch_matmul", "capsule_conv2d", "conv1d",
    "conv2d", "conv2d_bias_bn_relu", "conv2d_bias_relu", "conv2d_transpose", "conv2d_winograd",
    "conv3d", "cumsum", "depthwise_conv2d", "elementwise_chain", "full_sum", "global_avg_pool2d",
    "layer_norm", "matmul", "matmul_bias_relu", "matrix_norm", "max_pool2d", "row_sum", "softmax",
    "stencil2d", "transpose_add", "transpose_batch_matmul", "transpose_batch_matmul_softmax",
]
