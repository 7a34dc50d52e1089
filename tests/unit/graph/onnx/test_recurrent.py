"""LSTM, GRU and RNN against their formulas in the specification of ONNX."""

import numpy as np
import pytest

pytest.importorskip("onnx")

import minitensor as mt
from minitensor.graph.onnx import recurrent
from tests.unit.graph.onnx.models import helper, model

STEPS, BATCH, WIDTH, HIDDEN = 4, 2, 3, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DIRECTIONS = {"forward": [1], "reverse": [-1], "bidirectional": [1, -1]}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def one_step(kind, x, w, r, wb, rb, h, cell, late):
    """The new h and c from one row of inputs, in float64."""
    if kind == "RNN":
        return np.tanh(x @ w.T + h @ r.T + wb + rb), cell
    if kind == "LSTM":
        i, o, f, new = np.split(x @ w.T + h @ r.T + wb + rb, 4, axis=1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(new)
        return sigmoid(o) * np.tanh(cell), cell
    (wz, wr, wh), (rz, rr, rh) = np.split(w, 3), np.split(r, 3)
    (bz, br, bh), (cz, cr, ch) = np.split(wb, 3), np.split(rb, 3)
    z, reset = sigmoid(x @ wz.T + h @ rz.T + bz + cz), sigmoid(x @ wr.T + h @ rr.T + br + cr)
    kept = reset * (h @ rh.T + ch) if late else (reset * h) @ rh.T + ch
    return (1 - z) * np.tanh(x @ wh.T + bh + kept) + z * h, cell


def expected(kind, direction, x, w, r, b, h, cell, late):
    """All h, the last h, and the last c, of each direction."""
    every, last = np.zeros((STEPS, len(w), BATCH, HIDDEN)), []
    for d, way in enumerate(DIRECTIONS[direction]):
        state = h[d], cell[d]
        for t in range(STEPS)[::way]:
            half = len(b[d]) // 2
            state = one_step(kind, x[t], w[d], r[d], b[d][:half], b[d][half:], *state, late)
            every[t, d] = state[0]
        last.append(state)
    return every, np.array([s[0] for s in last]), np.array([s[1] for s in last])


def network(kind, direction="forward", bias=True, state=True, **attributes):
    """The file, and its arrays."""
    rng = np.random.default_rng(len(kind + direction))
    ways, rows = len(DIRECTIONS[direction]), GATES[kind] * HIDDEN
    shapes = {"w": (ways, rows, WIDTH), "r": (ways, rows, HIDDEN)}
    shapes |= {"b": (ways, 2 * rows)} if bias else {}
    shapes |= {"h": (ways, BATCH, HIDDEN), "cell": (ways, BATCH, HIDDEN)} if state else {}
    arrays = {name: rng.standard_normal(shape).astype("f") for name, shape in shapes.items()}
    if kind != "LSTM":
        arrays.pop("cell", None)
    names = ["x", "w", "r", "b" if bias else "", ""]
    names += [name for name in ("h", "cell") if name in arrays]
    outputs = ["y", "y_h", "y_c"][: 3 if kind == "LSTM" else 2]
    made = helper.make_node(
        kind, names, outputs, hidden_size=HIDDEN, direction=direction, **attributes
    )
    inputs = {"x": ((STEPS, BATCH, WIDTH), "float32")}
    return model([made], inputs, outputs, arrays), arrays


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("kind", "attributes"),
    [("LSTM", {}), ("RNN", {}), ("GRU", {}), ("GRU", {"linear_before_reset": 1})],
)
@pytest.mark.parametrize("full", [True, False])
def test_the_formulas(kind, attributes, direction, full):
    made, arrays = network(kind, direction, full, full, **attributes)
    net = mt.graph.from_onnx(made)
    x = np.random.default_rng(7).standard_normal((STEPS, BATCH, WIDTH)).astype("f")
    zero = np.zeros((len(arrays["w"]), BATCH, HIDDEN))
    b = arrays.get("b", np.zeros((len(arrays["w"]), 2 * GATES[kind] * HIDDEN)))
    state = arrays.get("h", zero), arrays.get("cell", zero)
    late = attributes.get("linear_before_reset", 0)
    wanted = expected(kind, direction, x, arrays["w"], arrays["r"], b, *state, late)
    for graph in (net, net.optimize().fuse()):
        for one, other in zip(mt.interpret(graph, x), wanted):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_weights_are_kept_once():
    made, arrays = network("GRU")
    net = mt.graph.from_onnx(made)
    kept = sum(array.size for array in net.constants.values())
    assert kept == sum(array.size for array in arrays.values())


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"activations": ["Relu", "Tanh", "Tanh"]}, "LSTM with the activations Relu, Tanh, Tanh"),
        ({"layout": 1}, "LSTM with layout=1"),
        ({"clip": 3.0}, "LSTM with clip"),
        ({"input_forget": 1}, "LSTM with input_forget=1"),
    ],
)
def test_what_is_not_supported(attributes, message):
    with pytest.raises(mt.ArgumentError, match=message):
        mt.graph.from_onnx(network("LSTM", **attributes)[0])


def test_a_direction_that_is_none():
    made, _ = network("LSTM")
    (attribute,) = (one for one in made.graph.node[0].attribute if one.name == "direction")
    attribute.CopyFrom(helper.make_attribute("direction", "sideways"))
    with pytest.raises(mt.ArgumentError, match="LSTM with direction='sideways'"):
        mt.graph.from_onnx(made)


def test_the_usual_activations_may_be_named():
    made, _ = network("LSTM", activations=["Sigmoid", "Tanh", "Tanh"])
    assert mt.graph.from_onnx(made).equals(mt.graph.from_onnx(network("LSTM")[0]))


def test_a_long_sequence_is_refused(monkeypatch):
    monkeypatch.setattr(recurrent, "MOST_STEPS", STEPS - 1)
    with pytest.raises(mt.ArgumentError, match="RNN over 4 steps, more than 3"):
        mt.graph.from_onnx(network("RNN")[0])


def test_weights_that_depend_on_data():
    node = helper.make_node("RNN", ["x", "x", "x"], ["y"], hidden_size=WIDTH)
    with pytest.raises(mt.ArgumentError, match="RNN whose weights depends on data"):
        mt.graph.from_onnx(model([node], {"x": ((1, WIDTH, WIDTH), "float32")}, ["y"], {}))
