"""Operators as functions of whole tensors: what networks are made of.

    y = mt.ops.relu(mt.ops.conv2d(x, w, bias=b, stride=1, padding=1))

Shapes follow numpy's rules, names and arguments PyTorch's, and meanings those of ONNX. Each result
is a tensor like any other: it can be lowered, read by an `mt.compute`, or traced into a graph.
Not here: gradients, and operators whose shapes depend on values.
"""

# fmt: off
from minitensor.lang.ops.operator import OPERATORS, Operator

__all__ = ["OPERATORS", "Operator"]
