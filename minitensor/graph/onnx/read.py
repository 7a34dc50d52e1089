"""Reading ONNX: the file, its inputs and weights, its nodes one after another.

Each value is an array, as far as it is known without the inputs, or else a tensor that operators
of `mt.ops` made; so shapes are inferred by making tensors, what a file says of them is not asked,
and the shape computations of exporters are gone. All that is not supported is named at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from minitensor.errors import ArgumentError, MinitensorError, is_integer, unexpected
from minitensor.graph.graph import Graph
from minitensor.graph.nodes import frozen
from minitensor.graph.onnx.convert import CONVERTERS, Context, NotSupportedError
from minitensor.graph.onnx.fold import FOLDERS
from minitensor.graph.trace import graph_of
from minitensor.ir import print_name
from minitensor.lang import Tensor, placeholder

OLDEST: Final = 9
NEWEST: Final = 23
"""The versions of ONNX's own operators that are known."""
MOST_NAMED: Final = 12
"""The most nodes that one error lists."""


def from_onnx(
    model: str | os.PathLike[str] | Any, shapes: Mapping[str, Sequence[int]] | None = None
) -> Graph:
    """The graph of an ONNX model.

    model   the path of a file, or a model object of the package onnx
    shapes  the shapes of inputs, by name: needed where the file leaves extents open

    Needs the package onnx (the extra `onnx`). Raises ArgumentError for a file that is not there, or
    is none of ONNX; for open extents without `shapes`; for operators, attributes and types that are
    not supported, all of them at once, with the names of their nodes.
    """
    proto, title = _model(model)
    _check_versions(proto)
    reader = _Reader(proto, dict(shapes or {}))
    return reader.graph(title)


def _onnx() -> Any:
    try:
        import onnx  # noqa: PLC0415 - an extra
        import onnx.numpy_helper  # noqa: PLC0415
    except ImportError as failure:
        raise ArgumentError(
            f"reading ONNX needs the package onnx ({failure}): pip install 'minitensor[onnx]'"
        ) from None
    return onnx


def _model(model: Any) -> tuple[Any, str]:
    """The model as onnx has it, with its external data, and a name for its graph."""
    if not isinstance(model, (str, os.PathLike)):
        if not hasattr(getattr(model, "graph", None), "node"):
            raise unexpected("the path of an .onnx file, or a model of the package onnx", "model",
                             model)  # fmt: skip
        return model, model.graph.name or "graph"
    onnx, path = _onnx(), os.fspath(model)
    try:
        found = onnx.load(path)
    except FileNotFoundError as failure:
        missing = os.fspath(failure.filename or path)
        what = "there is no file" if missing == path else f"{path} has its weights in"
        rest = "" if missing == path else ", which is not there: files of external data go along"
        raise ArgumentError(f"{what} {missing}{rest}") from None
    except IsADirectoryError:
        raise ArgumentError(f"{path} is a folder, not an .onnx file") from None
    except OSError as failure:
        raise ArgumentError(f"{path} cannot be read: {failure.strerror or failure}") from None
    except Exception as failure:  # of protobuf, and of onnx for external data
        reason = str(failure).splitlines()[0] if str(failure) else type(failure).__name__
        if "xternal" in reason or "ValidationError" in type(failure).__name__:
            raise ArgumentError(f"{path}: {reason}") from None
        raise ArgumentError(
            f"{path} is no ONNX file, or it is cut short ({reason}): export it again"
        ) from None
    if not found.graph.node and not found.graph.output:
        raise ArgumentError(f"{path} is no ONNX file, or an empty one: it has no graph")
    stem = os.path.splitext(os.path.basename(path))[0]
    return found, stem


def _check_versions(proto: Any) -> None:
    for used in proto.opset_import:
        if used.domain in ("", "ai.onnx") and not OLDEST <= used.version <= NEWEST:
            raise ArgumentError(
                f"the model has version {used.version} of ONNX's operators, and versions {OLDEST} "
                f"to {NEWEST} are read: export it with opset_version=17, or convert it by "
                "onnx.version_converter"
            )


class _Reader:
    """The values of a model, as they become known."""

    def __init__(self, proto: Any, shapes: dict[str, Any]) -> None:
        self.proto, self.onnx = proto, _onnx()
        versions = {used.domain: used.version for used in proto.opset_import}
        self.opset = versions.get("", versions.get("ai.onnx", NEWEST))
        self.values: dict[str, Any] = {"": None}
        self.constants: dict[int, np.ndarray] = {}
        self.faults: dict[str, list[str]] = {}
        """Faults, each with the names of the nodes that have it."""
        self.made: dict[int, tuple[np.ndarray, Tensor]] = {}
        """The constant of each array, by its id; the array stays alive with it."""
        for kept in proto.graph.initializer:
            self.values[kept.name] = self.array(kept)
        self.names = {id(array): name for name, array in self.values.items()}
        self.inputs = self._inputs(shapes)

    def array(self, kept: Any) -> np.ndarray:
        """A constant of the file. Raises ArgumentError where its data is not there."""
        try:
            found: np.ndarray = self.onnx.numpy_helper.to_array(kept)
        except Exception as failure:  # bytes that are missing, external data that was not loaded
            reason = str(failure).splitlines()[0] if str(failure) else type(failure).__name__
            raise ArgumentError(
                f"the constant {print_name(kept.name)} cannot be read: {reason}"
            ) from None
        return found

    def _inputs(self, shapes: dict[str, Any]) -> list[Tensor]:
        made: list[Tensor] = []
        open_: list[str] = []
        given = [value for value in self.proto.graph.input if value.name not in self.values]
        names = [value.name for value in given]
        for name in shapes:
            if name not in names:
                listed = ", ".join(map(print_name, names)) or "none"
                raise ArgumentError(f"shapes names {print_name(name)}; the inputs are {listed}")
        for value in given:
            kind = value.type.tensor_type
            dims = [d.dim_value or None for d in kind.shape.dim]
            if value.name in shapes:
                dims = _fitting(value.name, shapes[value.name], dims)
            if None in dims:
                extents = [d.dim_value or d.dim_param or "?" for d in kind.shape.dim]
                open_.append(f"{print_name(value.name)} [{', '.join(map(str, extents))}]")
                continue
            tensor = placeholder(tuple(dims), self._dtype(value.name, kind.elem_type), value.name)
            self.values[value.name] = tensor
            made.append(tensor)
        if open_:
            example = open_[0].split(" ")[0]
            raise ArgumentError(
                f"the model leaves extents open: {'; '.join(open_)}; a graph has fixed ones: "
                f"from_onnx(…, shapes={{{example!r}: (1, …)}})"
            )
        return made

    def _dtype(self, name: str, kind: int) -> str:
        try:
            found = str(self.onnx.helper.tensor_dtype_to_np_dtype(kind).name)
            placeholder((), found)
        except (KeyError, TypeError, ValueError, MinitensorError):
            label = self.onnx.TensorProto.DataType.Name(kind).lower()
            raise ArgumentError(
                f"the input {print_name(name)} is of type {label}, which no kernel has"
            ) from None
        return found

    def tensor(self, value: Any, name: str = "constant") -> Tensor:
        """A value as a tensor: an array becomes a constant of the graph, the same one each time."""
        if isinstance(value, Tensor):
            return value
        if id(value) not in self.made:
            own = self.names.get(id(value), name)
            made = placeholder(value.shape, str(value.dtype), own)
            if value.dtype.kind == "f" and np.isnan(value).any():
                raise ArgumentError(
                    f"the constant {print_name(own)} has {np.count_nonzero(np.isnan(value)):,} NaN "
                    "of its elements: training has diverged, or the file is damaged; export it "
                    "again"
                )
            self.constants[id(made)] = frozen(made.name, value)
            self.made[id(value)] = value, made
        return self.made[id(value)][1]

    def graph(self, title: str) -> Graph:
        """All nodes converted, and the graph that they make."""
        for node in self.proto.graph.node:
            self._convert(node)
        if self.faults:
            lines = [
                f"{what}: {', '.join(names[:MOST_NAMED])}{', …' if len(names) > MOST_NAMED else ''}"
                for what, names in self.faults.items()
            ]
            raise ArgumentError(
                "the model has what is not supported (docs/networks.md lists what is):\n    "
                + "\n    ".join(lines)
            )
        outputs = []
        for value in self.proto.graph.output:
            if value.name not in self.values:
                raise ArgumentError(f"no node computes the output {print_name(value.name)}")
            made = self.tensor(self.values[value.name], value.name)
            if made not in self.inputs and id(made) not in self.constants:
                made.name = value.name
            outputs.append(made)
        name = (
            title
            if title.isidentifier()
            else "".join(c if c.isascii() and c.isalnum() else "_" for c in title)
        )
        return graph_of(name or "graph", self.inputs, self.constants, outputs)

    def _convert(self, node: Any) -> None:
        """The outputs of a node; a fault, and None for them, if it is not supported."""
        missing = [name for name in node.input if name not in self.values]
        own = node.name or (node.output[0] if node.output else node.op_type)
        if missing:
            raise ArgumentError(
                f"{print_name(own)} reads {print_name(missing[0])}, which no node before it "
                "computes: the nodes are in a cycle, or out of order"
            )
        context = Context(self, node)
        inputs = [self.values[name] for name in node.input]
        if any(value is _UNKNOWN for value in inputs):
            results: Any = [_UNKNOWN] * len(node.output)
        else:
            results = self._results(context, inputs, own)
        for name, value in zip(node.output, results):
            if name:
                self.values[name] = value

    def _results(self, context: Context, inputs: list[Any], own: str) -> Sequence[Any]:
        kind = context.kind
        known = all(not isinstance(value, Tensor) for value in inputs)
        try:
            if known and kind in FOLDERS:
                with np.errstate(all="ignore"):  # infinities in masks are meant
                    found = FOLDERS[kind](context, *inputs)
            elif kind in CONVERTERS:
                found = CONVERTERS[kind](context, *inputs)
            else:
                raise NotSupportedError(f"the operator {kind}")
            context.check()
        except NotSupportedError as fault:
            self.faults.setdefault(str(fault), []).append(print_name(own))
            return [_UNKNOWN] * len(context.outputs)
        except MinitensorError as failure:
            failure.message = f"{print_name(own)} ({kind}): {failure.message}"
            raise
        except (TypeError, ValueError, LookupError) as failure:
            raise ArgumentError(f"{print_name(own)} ({kind}) is malformed: {failure}") from failure
        return found if isinstance(found, (list, tuple)) else [found]


_UNKNOWN: Final = object()
"""The value of what is not supported: what reads it is not looked at."""


def _fitting(name: str, wanted: Any, dims: list[int | None]) -> list[int | None]:
    """A shape that a user gave, if the file leaves room for it."""
    try:
        found = list(wanted)
    except TypeError:
        found = [None]
    if len(found) != len(dims) or not all(is_integer(extent, 1) for extent in found):
        raise unexpected(f"{len(dims)} extents >= 1", f"shapes[{name!r}]", wanted)
    for axis, (extent, fixed) in enumerate(zip(found, dims)):
        if fixed is not None and extent != fixed:
            raise ArgumentError(
                f"shapes[{name!r}]={tuple(found)}: the file fixes axis {axis} at {fixed}"
            )
    return found
