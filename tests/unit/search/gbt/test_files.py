"""Trees as files: what is written is read back, and nothing else is."""

import json
import os

import numpy as np
import pytest

from minitensor.errors import ArgumentError
from minitensor.search import GradientBoostedTrees
from minitensor.search.gbt import trees as module
from minitensor.search.gbt.tree import FIELDS

NAN = float("nan")


@pytest.fixture(scope="module")
def trees():
    random = np.random.default_rng(0)
    features = random.normal(size=(300, 6))
    features[random.random(features.shape) < 0.1] = NAN
    found = GradientBoostedTrees(n_trees=4, max_depth=4)
    return found.fit(features, random.uniform(5, 9, 300))


@pytest.fixture
def data(trees):
    return json.loads(trees.to_json())


def same(one, other):
    features = np.random.default_rng(1).normal(size=(40, one.columns))
    assert one.predict(features).tobytes() == other.predict(features).tobytes()
    assert one.to_json() == other.to_json() and one.text() == other.text()


@pytest.mark.parametrize("objective", ["squared", "rank"])
def test_what_is_written_is_read(objective, tmp_path):
    X = np.random.default_rng(0).normal(size=(80, 3))
    found = GradientBoostedTrees(objective, n_trees=3).fit(X, X[:, 0])
    same(found, GradientBoostedTrees.from_json(found.to_json()))
    for target in (tmp_path / "m.json", str(tmp_path / "m.json")):
        found.save(target)
        same(found, GradientBoostedTrees.load(target))
    assert os.listdir(tmp_path) == ["m.json"]
    none = GradientBoostedTrees(objective).fit(np.ones((2, 3)), [1.0, 1.0])
    same(none, GradientBoostedTrees.from_json(none.to_json()))
    with pytest.raises(ArgumentError, match="call fit"):
        GradientBoostedTrees().save(tmp_path / "empty.json")


def test_an_existing_file_is_replaced_only_as_a_whole(trees, tmp_path, monkeypatch):
    path = tmp_path / "m.json"
    path.write_text("before")
    monkeypatch.setattr(module.Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        trees.save(path)
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["m.json"]


def test_files_that_hold_no_trees(tmp_path):
    with pytest.raises(FileNotFoundError):
        GradientBoostedTrees.load(tmp_path / "none.json")
    with pytest.raises(IsADirectoryError):
        GradientBoostedTrees.load(tmp_path)
    (tmp_path / "m.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ArgumentError, match=r"m\.json: not minitensor trees"):
        GradientBoostedTrees.load(tmp_path / "m.json")


def refused(data):
    text = data if isinstance(data, str) else json.dumps(data)
    with pytest.raises(ArgumentError, match="not minitensor trees"):
        GradientBoostedTrees.from_json(text)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "1", "{", "[" * 100_000, '{"a": 1}'])
def test_text_that_holds_no_trees(text):
    refused(text)


def test_the_format_of_before_says_what_to_do():
    text = '{"format": "minitensor cost model", "version": 1, "columns": 3, "trees": []}'
    with pytest.raises(ArgumentError, match="fit the trees again"):
        GradientBoostedTrees.from_json(text)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", "other"), ("version", 1), ("columns", 2), ("columns", None), ("start", NAN),
        ("start", "x"), ("origin", None), ("scale", float("inf")), ("trees", None),
        ("trees", [1]), ("trees", [{}]), ("objective", "cubed"),
    ],
)  # fmt: skip
def test_wrong_fields(data, key, value):
    refused({**data, key: value})
    del data[key]
    refused(data)


@pytest.mark.parametrize("name", FIELDS)
def test_wrong_arrays_of_a_tree(data, name):
    tree = data["trees"][1]
    for wrong in (tree[name][:-1], [], 1, None, [tree[name]]):
        refused({**data, "trees": [{**tree, name: wrong}]})
    if FIELDS[name].kind != "b":
        refused({**data, "trees": [{**tree, name: ["text"] * len(tree[name])}]})
    if FIELDS[name].kind == "f":
        refused({**data, "trees": [{**tree, name: [NAN, *tree[name][1:]]}]})
