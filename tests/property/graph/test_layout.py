"""Layouts: programs laid out anew compute the same elements, and the choice is the best."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import minitensor as mt
from minitensor import ops
from minitensor.graph.layout import (
    block_in,
    cheapest,
    default_layouts,
    images,
    results_of,
    touched_by,
)
from minitensor.lang import lower, placeholder
from minitensor.lang.relaid import relaid, relaid_shape


def moved(array, block):
    """An array in a layout, by numpy."""
    if not block:
        return array
    n, c, *spatial = array.shape
    split = array.reshape(n, c // block, block, *spatial)
    order = np.moveaxis(split, 2, -1)
    return np.ascontiguousarray(order.reshape(relaid_shape(array.shape, block)))


WINDOWS = {
    "conv2d": lambda x, w: ops.conv2d(x, w, stride=2, padding=1),
    "grouped": lambda x, w: ops.conv2d(x, w, groups=2, padding=((0, 1), (1, 0))),
    "depthwise": lambda x, w: ops.conv2d(x, w, groups=x.shape[1], dilation=2, padding=1),
    "transposed": lambda x, w: ops.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
    "transposed, grouped": lambda x, w: ops.conv_transpose2d(x, w, groups=2, dilation=(2, 1)),
    "max_pool": lambda x, w: ops.max_pool(x, kernel=2, stride=1, padding=1),
    "avg_pool": lambda x, w: ops.avg_pool(x, kernel=(3, 2), stride=1),
    "elementwise": lambda x, w: ops.relu(ops.add(x, ops.mul(x, x))),
    "padded": lambda x, w: ops.pad(x, before=(0, 1, 0, 2), after=(0, 1, 1, 0)),
    "slices": lambda x, w: ops.slice(
        x, starts=(0, 1, 0, 1), stops=(1, 3, 4, 5), steps=(1, 1, 2, 2)
    ),
    "transpose": lambda x, w: ops.transpose(x, axes=(0, 3, 2, 1)),
    "reshape": lambda x, w: ops.reshape(x, shape=(1, 5, 4, 4)),
    "softmax": lambda x, w: ops.softmax(x, axis=1),
    "concat": lambda x, w: ops.concat([x, ops.relu(x)], axis=1),
    "flat": lambda x, w: ops.reshape(ops.relu(x), shape=(1, 80)),
}
WEIGHTS = {"conv2d": (6, 4, 3, 3), "grouped": (6, 2, 2, 2), "depthwise": (8, 1, 2, 2)}
WEIGHTS |= {"transposed": (4, 6, 3, 3), "transposed, grouped": (4, 3, 2, 2)}


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


@pytest.mark.many
@pytest.mark.parametrize("name", WINDOWS)
@given(data=st.data())
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_operators_compute_the_same(name, data):
    x = placeholder((1, 4, 4, 5), name="x")
    w = placeholder(WEIGHTS.get(name, (1,)), name="w")
    y = WINDOWS[name](x, w)
    own = data.draw(st.sampled_from([0, *divisors(4)]))
    result = data.draw(st.sampled_from([0, *divisors(y.shape[1])])) if len(y.shape) > 2 else 0
    used = [w] if name in WEIGHTS else []
    plain = lower([x, *used, y])
    blocks = {t: b for t, b in ((x, own), (y, result)) if b}
    constants = used if data.draw(st.booleans()) else []
    params = relaid([x, *used, y], blocks, constants)
    assert params[0].shape == relaid_shape(x.shape, own)
    program = lower(params, "laid_out", params[1:-1] if constants else [])
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, b.shape).astype("f") for b in plain.inputs]
    expected = mt.interpret(plain, *arrays)
    found = mt.interpret(program, moved(arrays[0], own), *arrays[1:])
    np.testing.assert_allclose(found, moved(expected, result), rtol=1e-5, atol=1e-5)


def test_weights_are_packed_with_channels_innermost():
    x, w = placeholder((1, 32, 6, 6), name="x"), placeholder((64, 32, 3, 3), name="w")
    y = ops.conv2d(x, w, padding=1)
    params = relaid([x, w, y], {x: 16, y: 8}, [w])
    program = lower(params, "conv", [params[1]])
    packed = next(b for b in program.temporaries if b.name == "w_packed")
    assert packed.shape == (8, 2, 3, 3, 16, 8)
    assert [b.shape for b in program.params] == [
        (1, 2, 6, 6, 16), (64, 32, 3, 3), (1, 8, 6, 6, 8)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def net():
    rng = np.random.default_rng(0)
    shapes = {"a": (8, 3, 3, 3), "b": (8, 8, 1, 1), "c": (12, 8, 3, 3), "d": (2, 108)}
    weights = {name: rng.integers(-2, 3, shape).astype("f") for name, shape in shapes.items()}

    def function(x, a, b, c, d):
        first = ops.relu(ops.conv2d(x, a, padding=1))
        second = ops.add(ops.conv2d(first, b), first)
        third = ops.conv2d(second, c, stride=2, padding=1)
        pooled = ops.max_pool(third, kernel=2, stride=1)
        return ops.matmul(ops.reshape(pooled, shape=(1, 108)), ops.transpose(d, axes=(1, 0)))

    return mt.graph.trace(function, x=((1, 3, 8, 8), "float32"), **weights).grouped()


def test_images_are_what_windows_slide_over(net):
    found = images(net)
    assert [len(net.values[name].shape) for name in found] == [4] * 4
    assert set(found).isdisjoint(net.outputs)
    words = mt.graph.trace(
        lambda x: ops.softmax(ops.mul(x, x), axis=3), x=((1, 4, 8, 8), "float32")
    )
    assert images(words.grouped()) == ()


def test_layouts_for_all_by_name(net):
    last = net.lay_out("NHWC")
    assert {last.values[n].shape[1] == b for n, b in last.layouts.items()} == {True}
    assert "NHWC" in str(last) and last.verify() is None
    blocked = net.lay_out("NCHW8c").layouts
    assert set(blocked.values()) == {4, 8}  # 12 has no block of 8, and 8 is the whole of 8
    assert net.lay_out("NCHW").layouts == {} and net.layouts is None
    assert not net.equals(last) and last.equals(net.lay_out("NHWC"))
    assert [block_in((1, c), 16) for c in (3, 16, 20, 24, 32, 64)] == [0, 16, 4, 8, 16, 16]


def test_channels_lie_last_without_a_log_where_they_fill_vectors(net):
    channels = {name: net.values[name].shape[1] for name in images(net)}
    assert set(channels.values()) == {8, 12}
    assert default_layouts(net) == {name: n for name, n in channels.items() if n == 8}
    model = mt.build(net)
    assert model.graph.layouts == default_layouts(net) and net.layouts is None
    assert mt.build(net.lay_out("NCHW")).graph.layouts == {}
    x = np.random.default_rng(1).integers(-2, 3, (1, 3, 8, 8)).astype("f")
    np.testing.assert_array_equal(model(x), mt.interpret(net, x))


@pytest.mark.parametrize("wrong", [None, 3, "net", placeholder((1, 8, 4, 4), name="x")])
def test_layouts_of_what_is_no_graph(wrong):
    for function in (mt.graph.default_layouts, mt.graph.images):
        with pytest.raises(mt.ArgumentError, match="a graph"):
            function(wrong)


def test_models_are_right_in_every_layout(net):
    x = np.random.default_rng(1).integers(-2, 3, (1, 3, 8, 8)).astype("f")
    expected = mt.interpret(net, x)
    for layouts in ("NHWC", "NCHW4c", {images(net)[1]: 2, images(net)[2]: 12}):
        np.testing.assert_array_equal(mt.interpret(net.lay_out(layouts), x), expected)
    np.testing.assert_array_equal(mt.build(laid := net.lay_out("NCHW4c"))(x), expected)
    np.testing.assert_array_equal(mt.build(laid, check=True)(x), expected)


@pytest.mark.parametrize(
    ("layouts", "part"),
    [
        ("NHCW", "NCHW16c"),
        ("NCHW16", "NCHW16c"),
        ("NCHW2c", "at least 4"),
        (16, "the name of a layout"),
        ({"nothing": 8}, "node"),
        ({"conv2d": 5}, "divisor of its channels"),
        ({"conv2d": -1}, "divisor of its channels"),
        ({"matmul": 1}, "divisor"),
        ({"conv2d": True}, "divisor"),
    ],
)
def test_other_layouts_are_refused(net, layouts, part):
    with pytest.raises(mt.MinitensorError) as caught:
        net.lay_out(layouts)
    assert part in str(caught.value)


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_the_cheapest_is_the_best_of_all(seed):
    draw = random.Random(seed)

    def function(x, w):
        known = [ops.relu(ops.conv2d(x, w, padding=1))]
        for _ in range(draw.randint(1, 4)):
            a, b = draw.choice(known), draw.choice(known)
            known.append(ops.add(ops.conv2d(a, w, padding=1), b))
        total = known[0]
        for one in known[1:]:
            total = ops.add(total, one)
        return ops.reduce_sum(total, axes=(1, 2, 3))

    w = np.ones((4, 4, 3, 3), "f")
    graph = mt.graph.trace(function, x=((1, 4, 4, 4), "float32"), w=w).fuse("none")
    choices = {name: (0, 4, 2)[: draw.randint(1, 3)] for name in images(graph)}
    costs = {}

    def cost(group, layouts):
        return costs.setdefault((group, tuple(sorted(layouts.items()))), draw.random())

    def total(layouts):
        return sum(
            cost(
                group,
                {n: layouts[n] for n in touched_by(graph, group) if n in choices},
            )
            for group in graph.kernels
        )

    found = cheapest(graph, choices, cost)
    names = list(choices)
    every = [dict(zip(names, p)) for p in itertools.product(*choices.values())][:1000]
    assert total(dict.fromkeys(names, 0) | found) <= min(map(total, every)) + 1e-9


def test_a_layout_that_is_impossible_is_not_taken(net):
    choices = dict.fromkeys(images(net), (0, 4))
    first = results_of(net, net.kernels[0])[0]

    def cost(group, layouts):
        return float("inf") if layouts.get(first) == 0 else 1.0

    assert cheapest(net, choices, cost) == {first: 4}
