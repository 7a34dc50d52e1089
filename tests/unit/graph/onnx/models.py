"""Small ONNX models, made node by node."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FLOAT = TensorProto.FLOAT


def model(nodes, inputs, outputs, constants=None, opset=17, name="net"):
    """A model: inputs by name, shapes or arrays; names of outputs; arrays by name."""
    given = [
        helper.make_tensor_value_info(one, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
        for one, (shape, dtype) in inputs.items()
    ]
    wanted = [helper.make_tensor_value_info(one, 0, None) for one in outputs]
    kept = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(nodes, name, given, wanted, kept)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8
    return made


def single(kind, arrays, constants=(), outputs=1, opset=17, **attributes):
    """A model of one node. Operands are arrays, by number; those in `constants` are known; None is
    left out.
    """
    names = ["" if array is None else f"i{n}" for n, array in enumerate(arrays)]
    results = [f"o{n}" for n in range(outputs)]
    node = helper.make_node(kind, names, results, name="the_node", **attributes)
    known = {f"i{n}": arrays[n] for n in constants}
    given = {
        f"i{n}": (array.shape, array.dtype)
        for n, array in enumerate(arrays)
        if array is not None and n not in constants
    }
    return model([node], given, results, known, opset)
