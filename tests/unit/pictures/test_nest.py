"""Nested boxes."""

import itertools

import pytest

from minitensor import ir, pictures
from minitensor.pictures import nest
from tests.unit.pictures.common import HOSTILE, SVG, operator, parsed, product, scheduled, texts


def test_loops_blocks_and_kinds():
    picture = pictures.nest_picture(scheduled().program)
    root = parsed(picture)
    boxes = [
        e for e in root.iter(SVG + "rect") if "box" in e.get("class", "") and e.get("rx") == "5"
    ]
    assert [e.get("class").split()[1] for e in boxes] == ["blue", "grey", "green", "orange"]
    drawn = texts(root)
    for text in (
        "i_0 = 0 … 3",
        "parallel",
        "vectorize",
        "C[i_0*4 + i_1, j] += A[i_0*4 + i_1, k] * B[k, j]",
    ):
        assert text in drawn
    assert "A  float32[16, 8]   input" in drawn
    assert "    k = 0 … 7  (serial)\n        i_1 = 0 … 3  (unroll)" in picture.text


def test_boxes_lie_in_their_parents():
    root = parsed(pictures.nest_picture(scheduled().program))
    boxes = [e for e in root.iter(SVG + "rect") if e.get("rx") == "5"]
    sides = [[float(e.get(n)) for n in ("x", "y", "width", "height")] for e in boxes]
    for (x, y, w, h), (a, b, c, d) in itertools.pairwise(sides):
        assert x <= a and y <= b and a + c <= x + w and b + d <= y + h
    assert sides[0][0] + sides[0][2] <= float(root.get("width"))


def test_marks():
    marks = ir.Marks({"k": "iterations conflict"}, {"C": "writes C"})
    picture = pictures.nest_picture(product(), marks)
    assert {"iterations conflict", "← writes C"} <= set(texts(parsed(picture)))
    assert "k = 0 … 7  (serial, iterations conflict)" in picture.text


@pytest.mark.parametrize("name", ["conv2d", "softmax", "argmax", "cumsum", "attention"])
def test_operators(name):
    if name == "attention":
        name = "transpose_batch_matmul_softmax"
    assert len(texts(parsed(pictures.nest_picture(operator(name))))) > 5


def test_500_blocks_are_counted():
    block = next(iter(product().blocks.values()))
    stores = tuple(ir.For(f"i{n}", 16, ir.Block(f"b{n}", (), block.body)) for n in range(500))
    program = product().replace(body=ir.Seq(stores))
    picture = pictures.nest_picture(program)
    assert len(picture.svg()) < 300_000
    left = f"{500 - nest.BOXES // 2:,}"
    assert f"Left out: {left} more loops and {left} more blocks." in texts(parsed(picture))
    assert "Left out" in picture.text


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(name):
    picture = pictures.nest_picture(product(names=(name, "B", "C")))
    assert "<script" not in picture.svg() and len(picture.svg()) < 20_000
    parsed(picture)


def test_a_shared_expression_is_not_printed():
    program = product()
    value = ir.Load("A", (ir.const(0, ir.INDEX),) * 2, ir.FLOAT32)
    for _ in range(60):  # 2**60 operations, were it printed
        value = value + value
    index = (ir.const(0, ir.INDEX),) * 2
    program = program.replace(body=ir.Block("C", (), ir.Store("C", index, value)))
    assert any(
        "more than 2,000 operations" in t for t in texts(parsed(pictures.nest_picture(program)))
    )
