"""`minitensor network`: each action on a small file, and what is typed wrongly."""

import json

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import minitensor as mt  # noqa: E402
from minitensor.cli.main import main  # noqa: E402
from tests.unit.graph.onnx.models import helper, model  # noqa: E402

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    w = np.random.default_rng(0).integers(-2, 3, (16, 8)).astype("f")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    onnx.save(model(nodes, {"x": (("n", 16), "float32")}, ["y"], {"w": w}), "net.onnx")
    return "net.onnx"


SHAPE = ("--shape", "x=4x16")


def test_show(file, capsys):
    assert main(["network", file, "show", *SHAPE]) == 0
    assert "2 operators, 2 after rewrites, in 1 kernel" in capsys.readouterr().out
    assert main(["network", file, "show", *SHAPE, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"] == [["matmul", "y"]]


def test_run_writes_what_the_interpreter_computes(file, capsys):
    x = np.random.default_rng(1).integers(-2, 3, (4, 16)).astype("f")
    np.save("x.npy", x)
    assert main(["network", file, "run", *SHAPE, "--input", "x=x.npy", "-o", "out"]) == 0
    assert "y: float32[4, 8]" in capsys.readouterr().out
    expected = mt.interpret(mt.graph.from_onnx(file, {"x": (4, 16)}), x)
    np.testing.assert_array_equal(np.load("out/0.npy"), expected)


@pytest.mark.slow
def test_show_and_run_in_another_precision(file, capsys):
    assert main(["network", file, "show", *SHAPE, "--precision", "bf16"]) == 0
    assert "matmul(x_bfloat16, b=w_bfloat16, out_dtype='float32')" in capsys.readouterr().out
    assert main(["network", file, "run", *SHAPE, "--precision", "f16"]) == 0
    assert "y: float32[4, 8]" in capsys.readouterr().out


@pytest.mark.slow
def test_tune_then_profile_and_export(file, capsys):
    words = ["network", file, "tune", *SHAPE, "--trials", "8", "--minutes", "1", "--json"]
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["seconds"] > 0 and len(report["tasks"]) == 1
    assert main(["network", file, "profile", *SHAPE, "--log", report["log"], "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["origin"], row["shape"]) == ("matmul_relu", "the log", [4, 8])
    assert main(["network", file, "export", *SHAPE, "-o", "c"]) == 0
    assert "make builds it" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["nothing.onnx", "show"], 1, "there is no file nothing.onnx"),
        (["net.onnx", "show"], 1, "leaves extents open: x [n, 16]"),
        (["net.onnx", "show", "--shape", "x=4"], 1, "2 extents >= 1"),
        (["net.onnx", "show", "--shape", "x:4"], 2, "expected NAME=1x3x224x224"),
        (["net.onnx", "show", *SHAPE, "--trials", "8"], 2, "--trials is for tune"),
        (["net.onnx", "run", *SHAPE, "--precision", "fp8"], 1, '"bf16", "f16" or "f32"'),
        (["net.onnx", "export", *SHAPE], 2, "export needs -o FOLDER"),
        (["net.onnx", "run", *SHAPE, "--input", "z=x.npy"], 1, "there is no input z"),
        (["net.onnx", "run", *SHAPE, "--input", "x=x.npy"], 1, "cannot read x.npy"),
        (["net.onnx", "run", *SHAPE, "--input", "x=net.onnx"], 1, "it is no .npy file"),
        (["net.onnx", "fly"], 2, "invalid choice: 'fly'"),
        (["net.onnx", "tune", *SHAPE, "--trials", "0"], 1, "trials"),
    ],
)
def test_bad_words(words, status, message, file, capsys):
    assert main(["network", *words]) == status
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
