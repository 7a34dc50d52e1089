"""torch, and torch.compile with its compiler inductor.

torch writes into a kept array where the operation takes one (`out=`). Where it does not, the result
is allocated at each call, from a heap that the process never gives back (see `launch`): no page is
touched for the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.compare.implementation import Implementation
from benchmarks.compare.work import Work, pad_of, stride_of


def implementations(
    name: str, work: Work, threads: int, options: Mapping[str, Any]
) -> Iterator[Implementation]:
    """Eager torch, or its compiled form."""
    import torch  # noqa: PLC0415 - optional

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    tensors = [torch.from_numpy(array) for array in work.inputs]
    if name == "inductor":
        compiled = torch.compile(plain(torch, work.kind, work.parameters))
        compiled(*tensors)
        call = lambda: compiled(*tensors)  # noqa: E731
    else:
        call = _eager(torch, work, tensors)
    yield Implementation(name, call, lambda tensor: tensor.numpy())


def plain(torch: Any, kind: str, sizes: Mapping[str, int]) -> Callable[..., Any]:
    """A workload as a user would write it: a function of its tensors."""
    stride, pad = stride_of(sizes), pad_of(sizes)

    def convolved(data: Any, weight: Any, bias: Any = None) -> Any:
        groups = data.shape[1] if kind == "depthwise" else 1
        result = torch.nn.functional.conv2d(data, weight, bias, stride, pad, groups=groups)
        return result if bias is None else torch.relu_(result)

    written: dict[str, Callable[..., Any]] = {
        "matmul": lambda a, b: a @ b,
        "batch_matmul": lambda a, b: a @ b,
        "matvec": lambda a, x: a @ x,
        "matmul_bias_relu": lambda a, b, bias: torch.relu(a @ b + bias),
        "conv": convolved,
        "depthwise": convolved,
        "softmax": lambda x: torch.softmax(x, 1),
        "attention": lambda *x: torch.nn.functional.scaled_dot_product_attention(
            *(one[None] for one in x)  # its fast path is for batches
        ),
        "layer_norm": lambda x, g, b: torch.nn.functional.layer_norm(x, g.shape, g, b, 1e-5),
        "transposed": lambda x, w: torch.nn.functional.conv_transpose2d(x, w, None, stride, pad),
        "row_sum": lambda x: x.sum(1),
        "column_sum": lambda x: x.sum(0),
        "full_sum": lambda x: x.sum(),
        "elementwise": lambda x: torch.relu((x * 1.5 + 0.5) * x - 2),
        "transpose_add": lambda a, b: a.t() + b,
    }
    return written[kind]


def _eager(torch: Any, work: Work, tensors: list[Any]) -> Callable[[], Any]:
    """The fastest way of writing the same without a compiler."""
    out = torch.from_numpy(work.output())
    written: dict[str, Callable[..., Any]] = {
        "matmul": lambda a, b: torch.mm(a, b, out=out),
        "batch_matmul": lambda a, b: torch.bmm(a, b, out=out),
        "matvec": lambda a, x: torch.mv(a, x, out=out),
        "matmul_bias_relu": lambda a, b, bias: torch.addmm(bias, a, b, out=out).relu_(),
        "row_sum": lambda x: torch.sum(x, 1, out=out),
        "column_sum": lambda x: torch.sum(x, 0, out=out),
        "elementwise": lambda x: torch.mul(x, 1.5, out=out).add_(0.5).mul_(x).sub_(2).relu_(),
        "transpose_add": lambda a, b: torch.add(a.t(), b, out=out),
    }
    function = written.get(work.kind) or plain(torch, work.kind, work.parameters)
    return lambda: function(*tensors)
