"""Reading ONNX files: shapes, what exporters write, and what is wrong with a file."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

import minitensor as mt  # noqa: E402
from tests.unit.graph.onnx.models import model, single  # noqa: E402

X = np.zeros((2, 3), "float32")


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs, outputs, name=f"a_{kind}", **attributes)


def refused(made, message, **options):
    with pytest.raises(mt.ArgumentError, match=message):
        mt.graph.from_onnx(made, **options)


def test_a_file_gives_its_graph_and_names(tmp_path):
    made = single("Relu", [X])
    path = tmp_path / "my-net.onnx"
    onnx.save(made, path)
    for source in (path, str(path), made):
        net = mt.graph.from_onnx(source)
        assert [value.name for value in net.inputs] == ["i0"]
        assert net.outputs == ("o0",)
    assert mt.graph.from_onnx(path).name == "my_net"


def test_weights_in_a_file_of_their_own(tmp_path):
    made = single("Add", [X, np.arange(300 * 3, dtype="float32").reshape(300, 1, 3)], (1,))
    path = tmp_path / "net.onnx"
    onnx.save(made, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    net = mt.graph.from_onnx(path)
    assert net.constants["i1"][299, 0, 2] == 899
    (tmp_path / "weights.bin").unlink()
    refused(path, "weights.bin")


def test_computed_shapes_are_known():
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Unsqueeze", ["n", "first"], ["n1"]),
        node("Concat", ["n1", "rest"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["y"]),
    ]
    constants = {"zero": np.int64(0), "first": np.array([0]), "rest": np.array([-1])}
    net = mt.graph.from_onnx(model(nodes, {"x": ((2, 3, 4), "float32")}, ["y"], constants))
    assert [one.operator for one in net.nodes] == ["reshape"]
    assert net.values["y"].shape == (2, 12)


def test_open_extents_need_shapes():
    made = model([node("Relu", ["x"], ["y"])], {"x": (("batch", 3), "float32")}, ["y"])
    refused(made, r"leaves extents open: x \[batch, 3\]; .*shapes=\{'x': \(1, …\)\}")
    assert mt.graph.from_onnx(made, shapes={"x": (5, 3)}).values["y"].shape == (5, 3)
    refused(made, "the file fixes axis 1 at 3", shapes={"x": (5, 4)})
    for wrong in ((5,), 5, (0, 3), ("a", 3), None):
        refused(made, r"2 extents >= 1", shapes={"x": wrong})
    refused(made, "shapes names z; the inputs are x", shapes={"z": (1,)})


def test_all_that_is_not_supported_is_named_at_once():
    nodes = [
        node("Loop", ["x"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["x", "w"], ["c"], mystery=1),
        node("Unique", ["x"], ["d", "e"]),
        helper.make_node("FusedGelu", ["x"], ["f"], name="theirs", domain="com.vendor"),
    ]
    constants = {"w": np.zeros((1, 3, 1), "float32"), "k": np.array([1])}
    made = model(nodes, {"x": ((1, 3, 4), "float32")}, ["b"], constants)
    with pytest.raises(mt.ArgumentError) as failure:
        mt.graph.from_onnx(made)
    text = str(failure.value)
    for part in (
        "operator Loop: a_Loop",
        "Conv with mystery: a_Conv",
        "operator Unique: a_Unique",
        "operator com.vendor.FusedGelu: theirs",
        "docs/networks.md",
    ):
        assert part in text
    assert "Relu" not in text  # it reads what is not there


@pytest.mark.parametrize(
    ("kind", "arrays", "constants", "attributes", "message"),
    [
        ("Reshape", [X, np.array([3, 2])], (), {}, "Reshape whose shape depends on data"),
        ("Pad", [X, np.array([0] * 4)], (1,), {"mode": "reflect"}, "Pad with mode='reflect'"),
        ("MaxPool", [np.zeros((1, 1, 9), "f")], (), {"kernel_shape": [2], "dilations": [2]},
         "MaxPool with dilations"),
        ("Cast", [X], (), {"to": TensorProto.STRING}, "the type string"),
        ("MatMul", [X, X], (), {}, r"the_node \(MatMul\): ops.matmul: a is"),
        ("Concat", [X, X], (), {}, "Concat without axis"),
        ("Relu", [X, X], (), {}, r"the_node \(Relu\) is malformed"),
    ],
)  # fmt: skip
def test_nodes_that_are_refused(kind, arrays, constants, attributes, message):
    refused(single(kind, arrays, constants, **attributes), message)


def test_malformed_graphs():
    inputs = {"x": ((2,), "float32")}
    cycle = [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])]
    refused(model(cycle, inputs, ["b"]), "a_Add reads b, which no node before it computes")
    refused(model([], inputs, ["y"]), "no node computes the output y")
    strings = model([], {}, [])
    strings.graph.input.append(helper.make_tensor_value_info("s", TensorProto.STRING, [1]))
    refused(strings, "the input s is of type string")


def test_weights_that_are_no_numbers():
    weights = np.array([[1, np.nan, np.nan]], "float32")
    refused(single("Add", [X, weights], (1,)), "the constant i1 has 2 NaN of its elements")


def test_versions():
    refused(single("Relu", [X], opset=8), "version 8 of ONNX's operators, and versions 9 to")
    refused(single("Relu", [X], opset=99), "version 99")


class TestFiles:
    def test_that_are_not_there(self, tmp_path):
        refused(tmp_path / "nothing.onnx", "there is no file .*nothing.onnx")
        refused(tmp_path, "is a folder")

    def test_that_are_no_models(self, tmp_path):
        path = tmp_path / "text.onnx"
        path.write_text("this is not a model, whatever it is called" * 9)
        refused(path, "no ONNX file")
        path.write_bytes(b"")
        refused(path, "no ONNX file")

    def test_that_are_cut_short(self, tmp_path):
        path = tmp_path / "cut.onnx"
        whole = single("Add", [X, np.ones((2, 3), "float32")], (1,)).SerializeToString()
        for length in range(1, len(whole), 7):
            path.write_bytes(whole[:length])
            with pytest.raises(mt.MinitensorError):
                mt.graph.from_onnx(path)

    @pytest.mark.parametrize("wrong", [None, 3, [], {"graph": 1}, b"x"])
    def test_that_are_none(self, wrong):
        refused(wrong, "the path of an .onnx file, or a model|there is no file")
