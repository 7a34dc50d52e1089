"""Models in folders: back without compiling, damaged, and as C without Python."""

import json
import shutil
import subprocess

import numpy as np
import pytest

import minitensor as mt
from minitensor import graph, ops
from minitensor.graph import saved


@pytest.fixture(scope="module")
def model():
    def network(x, ids, table, w):
        y = ops.relu(ops.matmul(x, w))
        return y, ops.softmax(ops.add(y, ops.gather(table, ids, axis=0)), axis=1)

    rng = np.random.default_rng(0)
    net = mt.graph.trace(
        network,
        x=((4, 24), "float32"),
        ids=((4,), "int64"),
        table=rng.random((5, 32)).astype("f"),
        w=rng.random((24, 32)).astype("f"),
    )
    return mt.build(net.replace(name="my net"))


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    place = tmp_path_factory.mktemp("saved") / "deep" / "net"
    model.save(place)
    return place


@pytest.fixture
def arrays():
    return np.random.default_rng(1).random((4, 24)).astype("f"), np.array([0, 4, -1, 2])


def same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_loads_without_compiling(model, folder, arrays, monkeypatch):
    monkeypatch.setattr(saved, "compile_library", None)
    loaded = graph.load(folder)
    assert isinstance(loaded, graph.RunningModel)
    same(loaded(*arrays), model(*arrays))
    same(loaded(ids=arrays[1], x=arrays[0]), model(*arrays))
    assert loaded.name == "my net" and [b.name for b in loaded.params[:2]] == ["x", "ids"]
    with pytest.raises(mt.ExecutionError, match=r"'my net', at .*: "):
        loaded(arrays[0], np.array([0, 0, 9, 0]))
    with pytest.raises(mt.ArgumentError, match="of shape"):
        loaded(arrays[0][:2], arrays[1])


@pytest.mark.slow
def test_of_another_machine_it_is_compiled_again(model, folder, arrays, tmp_path):
    place = tmp_path / "net"
    shutil.copytree(folder, place)
    facts = json.loads((place / "model.json").read_text())
    (place / "model.json").write_text(json.dumps({**facts, "machine": "another"}))
    (place / "model.so").write_bytes(b"of another processor")
    same(graph.load(place)(*arrays), model(*arrays))


@pytest.mark.slow
def test_a_folder_appears_whole_or_not_at_all(model, folder, tmp_path, monkeypatch):
    with pytest.raises(mt.ArgumentError, match="exists already"):
        model.save(folder)
    (tmp_path / "file").touch()
    with pytest.raises(mt.ArgumentError, match=r"cannot be made|exists already"):
        model.save(tmp_path / "file" / "net")

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saved.shutil, "copyfile", full)
    with pytest.raises(mt.ArgumentError, match="cannot be written: No space left"):
        model.save(tmp_path / "net")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda place: shutil.rmtree(place), "is no folder of a model: there is no model.json"),
        (lambda place: (place / "model.json").write_text("{"), "is damaged"),
        (lambda place: (place / "model.json").write_text("[]"), "is damaged"),
        (lambda place: (place / "weights.bin").write_bytes(b"x" * 99), "weights.bin has 99 bytes"),
        (lambda place: (place / "weights.bin").unlink(), "there is no weights.bin"),
        (lambda place: change(place, version=9), "a model of version 9, and this is 1"),
        (lambda place: change(place, calls=[["a"]]), "is damaged"),
    ],
)
def test_damaged_folders(damage, message, folder, tmp_path):
    place = tmp_path / "net"
    shutil.copytree(folder, place)
    damage(place)
    with pytest.raises(mt.ArgumentError, match=message):
        graph.load(place)


@pytest.mark.parametrize("wrong", [None, 3, []])
def test_what_is_no_path(wrong, model):
    for call in (graph.load, model.save, model.export):
        with pytest.raises(mt.ArgumentError, match="expected the path of a folder"):
            call(wrong)


def change(place, **changed):
    facts = json.loads((place / "model.json").read_text())
    (place / "model.json").write_text(json.dumps({**facts, **changed}))


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_exported_it_runs_without_python(model, arrays, tmp_path):
    place = tmp_path / "net"
    model.export(place)
    assert not (place / "model.so").exists()
    subprocess.run(["make", "-C", place], check=True, capture_output=True)
    for n, array in enumerate(arrays):
        array.tofile(place / f"in{n}.bin")
    words = ["weights.bin", "in0.bin", "in1.bin", "out0.bin", "out1.bin"]
    program = place / "my_net"
    subprocess.run([program, *words], cwd=place, check=True)
    for n, expected in enumerate(model(*arrays)):
        found = np.fromfile(place / f"out{n}.bin", "f").reshape(expected.shape)
        np.testing.assert_array_equal(found, expected)
    wrong = subprocess.run(
        [program, "nothing.bin"], cwd=place, capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2
    assert "usage: my_net weights.bin in0.bin in1.bin out0.bin out1.bin" in wrong.stderr
