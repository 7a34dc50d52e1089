"""Calls that do not fit, and names of other systems: answered in words."""

import inspect

import pytest

import minitensor as mt
from minitensor.answers import answered
from minitensor.phrasebook import PHRASES

A = mt.placeholder((4, 4), name="A")
B = mt.compute((4, 4), lambda i, j: A[i, j] * 2, name="B")
PROGRAM = mt.lower([A, B])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mt.compute((4,), lambda i: A[i, 0], attrs={}), r"attrs=, which is TVM's; here"),
        (lambda: mt.lower([A, B], simple_mode=True), r"simple_mode=, which is TVM's"),
        (lambda: mt.build(PROGRAM, opt_level=3), r"build\(\) has no opt_level="),
        (lambda: mt.explain(PROGRAM, foo=1), r"explain\(\) has no foo="),
        (lambda: mt.tune(PROGRAM, verbose=1), r"verbose=.* here it is progress="),
        (
            lambda: mt.placeholder(),
            r"placeholder\(\): missing .* its parameters are \(shape, dtype",
        ),
        (lambda: mt.compute((4,)), r"compute\(\): missing a required argument: 'fcompute'"),
        (lambda: mt.build(), r"build\(\): missing a required argument: 'what'"),
        (lambda: mt.build("net.onnx"), r"mt.graph.from_onnx\(path\)"),
        (lambda: mt.Schedule(mt.graph.trace(mt.ops.relu, x=((2,), "float32"))), "several kernels"),
    ],
)
def test_calls(call, message):
    with pytest.raises(mt.ArgumentError, match=message):
        call()


@pytest.mark.parametrize(
    ("owner", "name", "message"),
    [
        (mt, "load", "torch's; here it is mt.load_best"),
        (mt, "tl", "Triton's"),
        (A, "softmax", r"mt.ops.softmax\(C, axis=-1\)"),
        (mt.search, "tuner", "mt.search has no tuner; there is tune"),
        (mt.graph, "load_onnx", "there is from_onnx"),
        (mt.ops, "conv2", "there is conv2d"),
        (mt.testing, "foo", "mt.testing has no foo"),
        (mt.Schedule(PROGRAM), "store_at", "Halide's"),
    ],
)
def test_names(owner, name, message):
    with pytest.raises(AttributeError, match=message):
        getattr(owner, name)


def test_an_error_from_inside_stays_as_it_is():
    @answered
    def broken(x):
        return x + "text"

    with pytest.raises(TypeError, match="unsupported operand"):
        broken(1)
    assert inspect.signature(mt.compute).parameters.keys() == {"shape", "fcompute", "name"}


def test_results_answer_too():
    assert {"print_best", "apply_best", "get_best_config"} <= PHRASES["result"].keys()
    empty = object.__new__(mt.search.TuneResult)
    with pytest.raises(AttributeError, match=r"a TuneResult has no print_best, which is TVM's"):
        _ = empty.print_best


def test_a_tensor_shows_its_expression():
    k = mt.reduce_axis(4, name="k")
    C = mt.compute((4, 4), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
    assert repr(A) == "Tensor(A: float32[4, 4])"
    assert repr(C) == "Tensor(C: float32[4, 4]; C[i, j] = sum(A[i, k] * B[k, j]))"
    long = mt.compute((4, 4), lambda i, j: sum((A[i, j] * n for n in range(40)), 0.0), name="D")
    assert len(repr(long)) < 200 and repr(long).endswith("…)")


class Notebook(list):
    """The output of a notebook."""

    __module__ = "ipykernel.iostream"

    def write(self, text):
        self.append(text)

    def flush(self):
        """Nothing to do."""

    def isatty(self):
        return False


def test_differences_have_colours_in_notebooks(monkeypatch, capsys):
    s = mt.Schedule(PROGRAM)
    s.parallel("i")
    s.show(diff=True)
    assert "\x1b[" not in capsys.readouterr().out
    stream = Notebook()
    monkeypatch.setattr("sys.stdout", stream)
    s.show(diff=True)
    assert "\x1b[31m-" in "".join(stream) and "\x1b[32m+" in "".join(stream)


def test_pictures_inline():
    shown = mt.Schedule(PROGRAM).show(html=True)
    assert shown._repr_html_().count("<svg") == len(shown) >= 2


def test_an_explanation_is_shown_whole():
    text = mt.explain(PROGRAM)
    assert repr(text) == str(text)
