"""Models as files. What is read may be damaged or made to do harm: all of it is checked.

A tree is a few arrays of one length, in which a child's place follows from its parent's; so no file
can make a cycle, and none takes more memory than a small multiple of its length, which is bounded.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import secrets
import stat
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from minitensor.errors import ArgumentError, unexpected
from minitensor.search.gbt.arguments import MOST_COLUMNS
from minitensor.search.gbt.tree import FIELDS, LARGEST_VALUE, MOST_NODES, Tree, check

FORMAT: Final = "minitensor cost model"
VERSION: Final = 1
LARGEST_FILE: Final = 1 << 25
"""Bytes, also of what an npz holds when unpacked. All that `check` lets pass fits, in JSON too."""
LONGEST_INT: Final = 20
DEEPEST_TEXT: Final = 8

Parts = tuple[int, float, tuple[Tree, ...]]
"""The columns, the start and the trees of a model."""
Arrays = Mapping[str, npt.NDArray[Any]]


def to_json(columns: int, start: float, trees: Sequence[Tree]) -> str:
    """As JSON text."""
    listed = [{name: getattr(tree, name).tolist() for name in FIELDS} for tree in trees]
    data = {
        "format": FORMAT,
        "version": VERSION,
        "columns": columns,
        "start": start,
        "trees": listed,
    }
    return json.dumps(data, allow_nan=False)


def from_json(text: str) -> Parts:
    """What `to_json` wrote. Raises ArgumentError for anything else."""
    if not isinstance(text, str) or len(text) > LARGEST_FILE:
        raise unexpected(f"JSON text of at most {LARGEST_FILE} characters", "text", text)
    try:
        _check_nesting(text)
        data = json.loads(text, parse_int=_short_int)
        _check_keys(data, ("format", "version", "columns", "start", "trees"))
        if data["format"] != FORMAT or data["version"] != VERSION:
            raise ValueError(f"not version {VERSION} of the format")
        if not isinstance(data["trees"], list):
            raise ValueError("trees are no list")
        trees = [_tree_of_lists(tree) for tree in data["trees"]]
        return _checked(data["columns"], data["start"], trees)
    except (ValueError, OverflowError, RecursionError) as problem:
        raise ArgumentError(f"not a {FORMAT}: {problem}") from None


def to_npz(columns: int, start: float, trees: Sequence[Tree]) -> bytes:
    """As an npz archive: the arrays of all trees one behind the other, and their lengths."""
    arrays: dict[str, Any] = {
        name: np.concatenate([np.empty(0, dtype), *(getattr(tree, name) for tree in trees)])
        for name, dtype in FIELDS.items()
    }
    arrays["sizes"] = np.array([len(tree.feature) for tree in trees], np.int64)
    arrays["version"], arrays["columns"] = np.array([VERSION]), np.array([columns])
    arrays["start"] = np.array([start])
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def from_npz(data: bytes) -> Parts:
    """What `to_npz` wrote. Raises ArgumentError for anything else."""
    try:
        arrays = _arrays(data)
        if arrays["version"].tolist() != [VERSION]:
            raise ValueError(f"not version {VERSION} of the format")
        for name in ("columns", "start"):
            if len(arrays[name]) != 1:
                raise ValueError(f"{name} is not one number")
        lengths = {len(arrays[name]) for name in FIELDS}
        sizes = arrays["sizes"].tolist()
        if min(sizes, default=1) < 1 or lengths != {sum(sizes)}:
            raise ValueError("arrays of other lengths than the trees")
        ends = list(accumulate(sizes, initial=0))
        trees = [
            Tree(**{name: arrays[name][first:last].copy() for name in FIELDS})
            for first, last in pairwise(ends)
        ]
        return _checked(int(arrays["columns"][0]), float(arrays["start"][0]), trees)
    except _DAMAGE as problem:
        raise ArgumentError(f"not a {FORMAT}: {problem}") from None


def save(path: str | os.PathLike[str], columns: int, start: float, trees: Sequence[Tree]) -> None:
    """Write a file, complete or not at all. Raises ArgumentError for its name's end, OSError."""
    target = Path(path)
    if target.suffix == ".json":
        data = to_json(columns, start, trees).encode("ascii")
    elif target.suffix == ".npz":
        data = to_npz(columns, start, trees)
    else:
        raise unexpected("a name that ends in .json or .npz", "path", str(path))
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with beside.open("xb") as file:
            file.write(data)
        beside.replace(target)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def load(path: str | os.PathLike[str]) -> Parts:
    """What `save` wrote. Raises ArgumentError if it is something else, OSError if unreadable."""
    source = Path(path)
    if not stat.S_ISREG(source.stat().st_mode):
        raise unexpected("a file", "path", str(path))
    with source.open("rb") as file:
        data = file.read(LARGEST_FILE + 1)
    try:
        if len(data) > LARGEST_FILE:
            raise ArgumentError(f"not a {FORMAT}: more than {LARGEST_FILE} bytes")
        if data.startswith(b"PK"):
            return from_npz(data)
        return from_json(data.decode("ascii", "replace"))
    except ArgumentError as problem:
        raise ArgumentError(f"{source}: {problem.message}") from None


_DAMAGE: Final = (
    ValueError,
    OverflowError,
    LookupError,
    EOFError,
    OSError,
    RuntimeError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What zipfile raises for archives that are none, encrypted, cut off, or made by hand."""
_HEADER: Final = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|][fib][148])', 'fortran_order': False, "
    rb"'shape': \(([0-9]{1,9}),\), \} *\n",
    re.DOTALL,
)
"""Before the numbers of an array of one axis, as numpy writes it."""
_ARRAYS: Final = {
    "version": np.dtype(np.int64),
    "columns": np.dtype(np.int64),
    "sizes": np.dtype(np.int64),
    "start": np.dtype(np.float64),
    **FIELDS,
}


def _arrays(data: bytes) -> Arrays:
    """The arrays of an archive that has just those. Raises one of `_DAMAGE`."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if sorted(m.filename for m in members) != sorted(f"{name}.npy" for name in _ARRAYS):
            raise ValueError("other arrays than those of a model")
        if sum(member.file_size for member in members) > LARGEST_FILE:
            raise ValueError(f"more than {LARGEST_FILE} bytes when unpacked")
        found = {}
        for member in members:
            name = member.filename.removesuffix(".npy")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{name} is compressed in a way that numpy does not use")
            with archive.open(member) as file:  # read() without a size may unpack 2 GiB
                found[name] = _array(name, file.read(member.file_size + 1))
        return found


def _array(name: str, data: bytes) -> npt.NDArray[Any]:
    """The array of a .npy file. Raises ValueError."""
    header = _HEADER.match(data)
    dtype = _ARRAYS[name]
    if header is None or header[1].decode() != np.lib.format.dtype_to_descr(dtype):
        raise ValueError(f"{name} is no array of {dtype}")
    if len(data) - header.end() != int(header[2]) * dtype.itemsize:
        raise ValueError(f"{name} is not as long as it says")
    if dtype == np.bool_ and set(data[header.end() :]) - {0, 1}:
        raise ValueError(f"{name} has a byte that is neither true nor false")
    return np.frombuffer(data, dtype, offset=header.end())


def _checked(columns: Any, start: Any, trees: Sequence[Tree]) -> Parts:
    """The parts, if they make a model. Raises ValueError."""
    if type(columns) is not int or not 0 <= columns <= MOST_COLUMNS:
        raise ValueError("a number of columns out of range")
    if type(start) not in (int, float) or not abs(start) <= LARGEST_VALUE:
        raise ValueError("a start that is no finite number")
    if sum(len(tree.feature) for tree in trees) > MOST_NODES:
        raise ValueError(f"more than {MOST_NODES} nodes")
    for number, tree in enumerate(trees, start=1):
        try:
            check(tree, columns)
        except ValueError as problem:
            raise ValueError(f"tree {number}: {problem}") from None
    return columns, float(start), tuple(trees)


def _tree_of_lists(lists: Any) -> Tree:
    """A tree whose arrays have the right types. Raises ValueError, OverflowError."""
    _check_keys(lists, FIELDS)
    return Tree(**{name: _of_list(name, lists[name], FIELDS[name]) for name in FIELDS})


_TYPES: Final[Mapping[str, set[type]]] = {"i": {int}, "f": {int, float}, "b": {bool}}


def _of_list(name: str, values: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if not isinstance(values, list) or not set(map(type, values)) <= _TYPES[dtype.kind]:
        raise ValueError(f"{name} is no list of numbers of its type")
    if dtype.kind == "i" and values and not -(2**31) <= min(values) <= max(values) < 2**31:
        raise ValueError(f"{name} has an integer out of range")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is found
        return np.array(values, np.float64 if dtype.kind == "f" else dtype).astype(dtype)


def _check_keys(values: Any, names: Any) -> None:
    if not isinstance(values, dict) or set(values) != set(names):
        raise ValueError(f"expected an object of {', '.join(names)}")


def _short_int(digits: str) -> int:
    if len(digits) > LONGEST_INT:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


def _check_nesting(text: str) -> None:
    """Raise ValueError for more brackets than trees can have, or deeper ones.

    json goes as deep as Python's recursion limit lets it, which a program may have raised to where
    the stack ends. (No text in a model has a bracket.)
    """
    if text.count("[") + text.count("{") > MOST_NODES:
        raise ValueError("more brackets than any model has")
    steps = (1 if bracket in "[{" else -1 for bracket in re.findall(r"[][{}]", text))
    if max(accumulate(steps), default=0) > DEEPEST_TEXT:
        raise ValueError("brackets that nest deeper than in any model")
