"""Pictures of graphs, plans and profiles: what is in them, and what is left out."""

from xml.etree import ElementTree

import numpy as np
import pytest

import minitensor as mt
from minitensor import ops
from minitensor.graph import Step, plan_memory
from minitensor.graph.drawing import MOST, graph_picture, memory_picture, profile_picture
from minitensor.graph.profile import Profile, Row


def boxes(picture):
    root = ElementTree.fromstring(picture.svg())
    return [e for e in root.iter() if "box" in e.get("class", "").split()]


def test_a_graph_has_a_box_for_each_kernel():
    net = mt.graph.trace(
        lambda x, w: ops.softmax(ops.relu(ops.matmul(x, w)), axis=1),
        x=((4, 8), "float32"),
        w=np.ones((8, 8), "f"),
    )
    for graph, count in ((net, 3), (net.fuse(), 2)):
        picture = graph_picture(graph)
        assert len(boxes(picture)) == count
        assert f"3 operators in {count} kernels" in picture.title
        assert picture.body.count("curve") == count - 1


def test_a_long_graph_is_cut_with_a_word():
    def chain(x):
        for _ in range(MOST + 5):
            x = ops.neg(x)
        return x

    picture = graph_picture(mt.graph.trace(chain, x=((2,), "float32")))
    assert len(boxes(picture)) == MOST and "the last 5 of them left out" in picture.title


def test_a_plan_has_a_box_for_each_value_with_its_name():
    steps = [Step("a", (), ("<a>",), {}), Step("b", ("<a>",), ("b",), {})]
    picture = memory_picture(plan_memory(steps, {"<a>": 6400, "b": 640}, ["b"]))
    assert len(boxes(picture)) == 2
    assert "&lt;a&gt;" in picture.svg() and "<a>" not in picture.svg()
    assert "over 3 steps" in picture.title
    assert boxes(memory_picture(plan_memory([], {}, []))) == []


def test_a_profile_has_a_bar_for_each_kernel():
    rows = tuple(Row(f"k{n}", "y", (2, 3), "the log", n * 1e-3, 10**6, 100) for n in range(1, 4))
    picture = profile_picture(Profile(rows))
    assert picture.body.count("soft") == 3
    assert "3 kernels, 6 ms" in picture.title and "k2 2x3" in picture.svg()


def test_a_graph_is_shown_as_text_a_picture_and_a_page(capsys, tmp_path):
    net = mt.graph.trace(lambda x: ops.relu(ops.neg(x)), x=((4, 8), "float32")).fuse()
    assert net.show() is None
    assert capsys.readouterr().out == f"{net}\n"
    assert "<svg" in net.show(html=True)._repr_html_()
    assert net.show(html=tmp_path / "net.html") is None
    page = (tmp_path / "net.html").read_text("utf-8")
    assert "<svg" in page and "2 operators in 1 kernels" in page and "The graph" in page
    assert capsys.readouterr().out == ""
    with pytest.raises(mt.ArgumentError):
        net.show(html=tmp_path / "missing" / "net.html")
