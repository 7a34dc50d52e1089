"""Models as files: what is written is read back, and nothing else is."""

import io
import json
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from minitensor.errors import ArgumentError
from minitensor.search.gbt import Booster, Model, files
from minitensor.search.gbt.tree import FIELDS, MOST_NODES

NAN = float("nan")


@pytest.fixture(scope="module")
def model():
    random = np.random.default_rng(0)
    features = random.normal(size=(300, 6))
    features[random.random(features.shape) < 0.1] = NAN
    return Booster(trees=4, depth=4).fit(features, np.arange(300) // 2, random.uniform(0, 1, 150))


@pytest.fixture
def data(model):
    return json.loads(model.to_json())


def same(one, other):
    assert (one.columns, one.start) == (other.columns, other.start)
    assert len(one.trees) == len(other.trees)
    for a, b in zip(one.trees, other.trees):
        for name, dtype in FIELDS.items():
            assert getattr(b, name).dtype == dtype
            assert getattr(a, name).tobytes() == getattr(b, name).tobytes()
    features = np.random.default_rng(1).normal(size=(40, one.columns))
    assert one.predict_rows(features).tobytes() == other.predict_rows(features).tobytes()


def test_json(model):
    same(model, Model.from_json(model.to_json()))
    same(model, Model.from_json(json.dumps(json.loads(model.to_json()), indent=3)))


@pytest.mark.parametrize("name", ["m.json", "m.npz", "a b.c.npz"])
def test_files(model, tmp_path, name):
    path = tmp_path / name
    for target in (path, str(path)):
        model.save(target)
        same(model, Model.load(target))
    assert os.listdir(tmp_path) == [name]
    with path.open("rb") as file:
        assert file.read(2) == (b"PK" if name.endswith("npz") else b'{"')


def test_npz_is_what_numpy_reads(model, tmp_path):
    model.save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {"version", "columns", "start", "sizes", *FIELDS}
        assert arrays["sizes"].tolist() == [len(tree.feature) for tree in model.trees]
        np.savez_compressed(tmp_path / "again.npz", **arrays)
    same(model, Model.load(tmp_path / "again.npz"))


def test_a_model_without_trees(tmp_path):
    none = Booster().fit(np.ones((2, 3)), [0, 1], [1.0, 1.0])
    for name in ("m.json", "m.npz"):
        none.save(tmp_path / name)
        loaded = Model.load(tmp_path / name)
        assert loaded.trees == () and (loaded.columns, loaded.start) == (3, 1.0)


def test_an_existing_file_is_replaced_only_as_a_whole(model, tmp_path, monkeypatch):
    path = tmp_path / "m.json"
    path.write_text("before")
    monkeypatch.setattr(files.Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        model.save(path)
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["m.json"]


def test_names_and_places(model, tmp_path):
    with pytest.raises(ArgumentError, match=r"\.json or \.npz"):
        model.save(tmp_path / "model.pkl")
    with pytest.raises(FileNotFoundError):
        model.save(tmp_path / "nowhere" / "m.npz")
    with pytest.raises(FileNotFoundError):
        Model.load(tmp_path / "none.json")
    with pytest.raises(ArgumentError, match="expected a file"):
        Model.load(tmp_path)
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(ArgumentError, match="expected a file"):
        Model.load(tmp_path / "pipe.json")
    (tmp_path / "m.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ArgumentError, match=r"m\.json: not a minitensor cost model"):
        Model.load(tmp_path / "m.json")


def test_the_largest_model_fits_into_a_file():
    """What a Booster may make can be saved, and what is saved can be loaded."""
    longest = {"feature": 65535, "threshold": -1.1754943508222875e-38, "missing_left": False}
    longest |= dict.fromkeys(("value", "gain", "cover"), -1.2345678901234567e-101)
    longest |= {"rows": 2**22}
    text = sum(len(json.dumps(value)) + 2 for value in longest.values())
    assert text * MOST_NODES + 10**4 <= files.LARGEST_FILE
    packed = sum(dtype.itemsize for dtype in FIELDS.values())
    assert packed * MOST_NODES + 10**5 <= files.LARGEST_FILE


def refused(data):
    text = data if isinstance(data, str) else json.dumps(data)
    with pytest.raises(ArgumentError, match=r"not a minitensor cost model|JSON text"):
        Model.from_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", "null", "1", '"text"', "{", "[[", "nonsense", "\x00", '{"a": 1}',
        "[" * 100_000, "[" * 1_000_000, '{"a":' * 100_000, "9" * 5_000, "[" + "1," * 50,
        '{"format": "minitensor cost model", "version": 1}', "\ud800",
    ],
    ids=lambda text: repr(text[:20]),
)  # fmt: skip
def test_text_that_is_no_model(text):
    refused(text)


def test_other_things_than_text():
    for value in (None, 5, b"{}", ["{}"]):
        with pytest.raises(ArgumentError, match="JSON text"):
            Model.from_json(value)
    with pytest.raises(ArgumentError, match="characters"):
        Model.from_json(" " * (files.LARGEST_FILE + 1))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", "other"), ("version", 2), ("version", "1"), ("columns", 5), ("columns", -1),
        ("columns", 6.0), ("columns", True), ("columns", 10**30), ("columns", 2**16 + 1),
        ("start", NAN), ("start", float("inf")), ("start", 1e300), ("start", "0"),
        ("start", None), ("start", 10**400), ("trees", None), ("trees", {}), ("trees", [1]),
        ("trees", [[]]), ("trees", [{}]), ("more", 1),
    ],
)  # fmt: skip
def test_wrong_fields(data, key, value):
    refused({**data, key: value})


def test_a_field_that_is_missing(data):
    for key in data:
        refused({name: value for name, value in data.items() if name != key})
    for name in FIELDS:
        refused({**data, "trees": [{k: v for k, v in data["trees"][0].items() if k != name}]})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("feature", 6), ("feature", -2), ("feature", 1.0), ("feature", True), ("feature", 2**31),
        ("feature", 10**19), ("feature", None), ("feature", [1]), ("threshold", NAN),
        ("threshold", 1e39), ("threshold", "1"), ("threshold", 10**400), ("missing_left", 1),
        ("missing_left", "true"), ("value", float("inf")), ("value", -1e61), ("value", {}),
        ("gain", NAN), ("cover", 1e100), ("rows", -1), ("rows", 2**31), ("rows", 0.5),
    ],
)  # fmt: skip
def test_wrong_numbers_in_a_tree(data, name, value):
    data["trees"][1][name][0] = value
    refused(data)


def test_trees_of_wrong_shapes(data):
    tree = data["trees"][0]
    for name in FIELDS:
        refused({**data, "trees": [{**tree, name: tree[name][:-1]}]})
        refused({**data, "trees": [{**tree, name: []}]})
        refused({**data, "trees": [{**tree, name: 1}]})
    refused({**data, "trees": [{name: values[:-1] for name, values in tree.items()}]})
    refused({**data, "trees": [{name: [] for name in tree}]})


def test_more_nodes_than_any_model_has(data, monkeypatch):
    nodes = sum(len(tree["feature"]) for tree in data["trees"])
    for most, right in ((nodes, True), (nodes - 1, False)):
        monkeypatch.setattr(files, "MOST_NODES", most)
        if right:
            Model.from_json(json.dumps(data))
        else:
            refused(data)


def npz(members, **options):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


@pytest.fixture
def members(model):
    with zipfile.ZipFile(io.BytesIO(files.to_npz(model.columns, model.start, model.trees))) as a:
        return {name: a.read(name) for name in a.namelist()}


def refused_npz(data):
    with pytest.raises(ArgumentError, match="not a minitensor cost model"):
        files.from_npz(data)


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def test_members_that_are_not_those(members):
    files.from_npz(npz(members.items()))
    files.from_npz(npz(members.items(), compression=zipfile.ZIP_DEFLATED))
    for name in members:
        refused_npz(npz((n, c) for n, c in members.items() if n != name))
    refused_npz(npz([*members.items(), ("more.npy", b"")]))
    refused_npz(npz([]))
    renamed = [("../" + n if n == "value.npy" else n, c) for n, c in members.items()]
    refused_npz(npz(renamed))
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = npz([*members.items(), ("value.npy", members["value.npy"])])
    refused_npz(twice)


def test_compressions_that_numpy_does_not_use(members):
    """zipfile unpacks these without a limit."""
    for kind in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        refused_npz(npz(members.items(), compression=kind))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY\x01\x00",
        npy(np.array([1.0, 2.0])),
        npy(np.array([[1.0]])),
        npy(np.array([1.0], np.float32)),
        npy(np.array([1.0], ">f8")),
        npy(np.array([None, {}], object)),
        npy(np.array(["text"])),
        npy(np.array([1.0]))[:-1],
        npy(np.array([1.0])) + b"\0",
        npy(np.array([1.0])).replace(b"(1,)", b"(2,)"),
        npy(np.array([1.0])).replace(b"(1,)", b"(-1,)"),
        npy(np.array([1.0])).replace(b"(1,), }      ", b"(999999999,), }"),
        npy(np.array([1.0])).replace(b"'<f8'", b"__i__"),
        npy(np.array([NAN])),
    ],
)
def test_a_member_that_is_no_such_array(members, content):
    refused_npz(npz({**members, "start.npy": content}.items()))


def test_arrays_that_make_no_trees(members):
    sizes = np.frombuffer(members["sizes.npy"][-8 * 4 :], np.int64)
    for wrong in (
        [*sizes[:-1], sizes[-1] + 1],
        [*sizes, -1],
        [*sizes, 0],
        [sizes.sum() + 5, -5],
        [2**62, 2**62, 2**62, 2**62, *sizes],
        [],
        np.ones(sizes.sum(), np.int64),
    ):
        refused_npz(npz({**members, "sizes.npy": npy(np.array(wrong, np.int64))}.items()))
    for name, value in (("version", 2), ("columns", 3), ("columns", -1), ("columns", 2**40)):
        refused_npz(npz({**members, f"{name}.npy": npy(np.array([value]))}.items()))
    neither = bytearray(members["missing_left.npy"])
    neither[-1] = 2
    refused_npz(npz({**members, "missing_left.npy": bytes(neither)}.items()))


def test_archives_that_are_damaged(members):
    data = npz(members.items())
    for cut in (2, 30, len(data) // 2, len(data) - 1):
        refused_npz(data[:cut])
    refused_npz(b"PK" + bytes(1000))
    refused_npz(data[:300] + b"damage" + data[306:])
    encrypted = bytearray(data)
    start = data.index(b"PK\x01\x02")
    encrypted[start + 8] |= 1
    encrypted[6] |= 1
    refused_npz(bytes(encrypted))


def bomb(members, size, said=None):
    """An archive in which a few kilobytes unpack to `size` bytes, while it says `said`."""
    data = npz({**members, "start.npy": bytes(size)}.items(), compression=zipfile.ZIP_DEFLATED)
    if said is None:
        return data
    return data.replace(struct.pack("<I", size), struct.pack("<I", said))


@pytest.mark.parametrize("said", [None, 128])
def test_a_bomb_takes_no_memory(members, said):
    data = bomb(members, 60_000_000, said)
    assert len(data) < 200_000
    tracemalloc.start()
    try:
        refused_npz(data)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_file_that_is_too_long(tmp_path):
    path = tmp_path / "m.npz"
    with path.open("wb") as file:
        file.write(b"PK")
        file.truncate(10 * files.LARGEST_FILE)
    tracemalloc.start()
    try:
        with pytest.raises(ArgumentError, match="more than"):
            Model.load(path)
        assert tracemalloc.get_traced_memory()[1] < 3 * files.LARGEST_FILE
    finally:
        tracemalloc.stop()
