"""The named operators by name, each with a small size and one worth timing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from minitensor.lang.workloads import attention, basic, conv, conv_variants, linear, norm, pool
from minitensor.lang.workloads.arguments import Tensors
from minitensor.lang.workloads.winograd import conv2d_winograd


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """An operator under a name, with arguments to try it with.

    name         its key in WORKLOADS
    function     gives the tensors for `lower`: `function(**small)`
    description  one line
    small        keyword arguments for a program that is quick even in the interpreter
    benchmark    keyword arguments for one that is worth timing
    """

    name: str
    function: Callable[..., Tensors]
    description: str
    small: Mapping[str, Any]
    benchmark: Mapping[str, Any]


_MATMUL: Final = {"m": 7, "n": 6, "k": 5}, {"m": 1024, "n": 1024, "k": 1024}
_MATRIX: Final = {"m": 5, "n": 7}, {"m": 4096, "n": 4096}
_ATTENTION: Final = {"b": 1, "length": 128, "heads": 12, "dim": 64}
_RESNET: Final = {"n": 1, "c": 64, "h": 56, "w": 56, "f": 64, "kernel": 3, "padding": 1}
_IMAGE: Final = {"n": 1, "c": 3, "h": 7, "w": 6, "f": 4, "kernel": 3, "padding": 1}
_POOL: Final = (
    {"n": 1, "c": 2, "h": 7, "w": 6, "kernel": 3, "stride": 2, "padding": 1},
    {"n": 1, "c": 64, "h": 112, "w": 112, "kernel": 3, "stride": 2, "padding": 1},
)


def _row(
    function: Callable[..., Tensors],
    description: str,
    small: Mapping[str, Any],
    benchmark: Mapping[str, Any],
    name: str = "",
) -> Workload:
    return Workload(name or function.__name__, function, description, small, benchmark)


# fmt: off
_ALL: Final = (
    _row(linear.matmul, "matrix product (GMM)", *_MATMUL),
    _row(linear.matmul_bias_relu, "matrix product, bias, rectifier: a dense layer", *_MATMUL),
    _row(linear.batch_matmul, "a matrix product for each element of a batch",
         {"b": 2, "m": 5, "n": 4, "k": 3}, {"b": 12, "m": 128, "n": 128, "k": 64}),
    _row(attention.transpose_batch_matmul, "queries times keys of multi-head attention (TBG)",
         {"b": 1, "length": 5, "heads": 2, "dim": 3}, _ATTENTION),
    _row(attention.transpose_batch_matmul_softmax,
         "attention scores: queries times keys, scaled, softmax (TBS)",
         {"b": 1, "length": 5, "heads": 2, "dim": 4}, _ATTENTION),
    _row(conv.conv1d, "convolution over one axis (C1D)",
         {"n": 1, "c": 3, "w": 9, "f": 4, "kernel": 3, "stride": 2, "padding": 1},
         {"n": 1, "c": 64, "w": 256, "f": 128, "kernel": 3, "stride": 2, "padding": 1}),
    _row(conv.conv2d, "convolution over images (C2D)", _IMAGE, _RESNET),
    _row(conv.conv2d, "convolution over images, channels last",
         {**_IMAGE, "layout": "NHWC"}, {**_RESNET, "layout": "NHWC"}, "conv2d_nhwc"),
    _row(conv.conv3d, "convolution over volumes (C3D)",
         {"n": 1, "c": 2, "d": 3, "h": 4, "w": 5, "f": 2, "kernel": 3, "padding": 1},
         {"n": 1, "c": 64, "d": 16, "h": 14, "w": 14, "f": 64, "kernel": 3, "padding": 1}),
    _row(conv.conv2d, "convolution in which groups of channels do not mix (GRP)",
         {**_IMAGE, "c": 4, "f": 6, "groups": 2}, {**_RESNET, "groups": 4}, "grouped_conv2d"),
    _row(conv.conv2d, "convolution with holes in its window (DIL)",
         {**_IMAGE, "padding": 2, "dilation": 2},
         {**_RESNET, "padding": 2, "dilation": 2}, "dilated_conv2d"),
    _row(conv.depthwise_conv2d, "convolution of each channel with its own window (DEP)",
         {"n": 1, "c": 3, "h": 7, "w": 6, "kernel": 3, "padding": 1},
         {"n": 1, "c": 128, "h": 56, "w": 56, "kernel": 3, "padding": 1}),
    _row(conv_variants.conv2d_transpose, "transposed convolution: the gradient of one (T2D)",
         {"n": 1, "c": 3, "h": 3, "w": 4, "f": 2, "kernel": 4, "stride": 2, "padding": 1},
         {"n": 1, "c": 512, "h": 4, "w": 4, "f": 256, "kernel": 4, "stride": 2, "padding": 1}),
    _row(conv_variants.capsule_conv2d, "convolution whose elements are 4 x 4 matrices (CAP)",
         {"n": 1, "c": 2, "h": 4, "w": 3, "f": 2, "kernel": 3, "padding": 1, "capsule": 2},
         {"n": 1, "c": 32, "h": 16, "w": 16, "f": 32, "kernel": 3, "stride": 2, "padding": 1}),
    _row(conv2d_winograd, "3 x 3 convolution with fewer products, in tiles",
         {"n": 1, "c": 2, "h": 5, "w": 4, "f": 2, "padding": 1, "tile": 2},
         {"n": 1, "c": 64, "h": 56, "w": 56, "f": 64, "padding": 1, "tile": 4}),
    _row(conv.conv2d_bias_relu, "convolution, bias, rectifier", _IMAGE, _RESNET),
    _row(conv.conv2d_bias_bn_relu, "convolution, bias, batch normalisation, rectifier (CBR)",
         _IMAGE, _RESNET),
    _row(pool.max_pool2d, "maximum of each window of an image", *_POOL),
    _row(pool.avg_pool2d, "mean of each window of an image", *_POOL),
    _row(pool.global_avg_pool2d, "mean of each channel of an image",
         {"n": 1, "c": 3, "h": 5, "w": 4}, {"n": 16, "c": 512, "h": 7, "w": 7}),
    _row(norm.matrix_norm, "Frobenius norm of each matrix of a batch (NRM)",
         {"b": 2, "m": 5, "n": 4}, {"b": 1, "m": 1024, "n": 1024}),
    _row(norm.softmax, "softmax of each row", {"m": 5, "n": 7}, {"m": 4096, "n": 1024}),
    _row(norm.layer_norm, "each row brought to mean 0 and variance 1",
         {"m": 5, "n": 8}, {"m": 4096, "n": 1024}),
    _row(basic.row_sum, "sum of each row", *_MATRIX),
    _row(basic.full_sum, "sum of all elements", *_MATRIX),
    _row(basic.argmax, "where in each row its maximum is", *_MATRIX),
    _row(basic.elementwise_chain, "five operations on each element, one stage each",
         {"shape": 13}, {"shape": 1 << 24}),
    _row(basic.transpose_add, "a transposed matrix plus a matrix", *_MATRIX),
    _row(basic.stencil2d, "a box blur in two stages, 3 x 1 and 1 x 3",
         {"h": 7, "w": 6}, {"h": 2050, "w": 2050}),
    _row(basic.cumsum, "running sums along each row: a scan",
         {"m": 3, "n": 7}, {"m": 4096, "n": 4096}),
)
# fmt: on

WORKLOADS: Final[dict[str, Workload]] = {workload.name: workload for workload in _ALL}
"""Every named operator, and a few settings of conv2d that have names of their own."""
