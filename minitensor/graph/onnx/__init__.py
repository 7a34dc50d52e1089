"""Graphs from ONNX files.

Read in this order: `read` (the file, its inputs, what is wrong with it), `fold` (what is known
without inputs, by numpy), `convert` (operators as those of `mt.ops`) with `windows`
(convolutions, pools, resizing). The package onnx reads files, and nothing else of it is used.
"""

from minitensor.graph.onnx.read import from_onnx
from minitensor.graph.onnx.convert import CONVERTERS

__all__ = ["CONVERTERS", "from_onnx"]
