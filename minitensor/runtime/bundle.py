"""A kernel's text and its arrays in a folder, for another process: C, JSON and .npy files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from minitensor.codegen import Emitted, Target
from minitensor.ir import Buffer, DType, Scope, numpy_dtype

SOURCE: Final = "kernel.c"
_FACTS: Final = "kernel.json"
_BUFFERS: Final = ("params", "memory")


def save_kernel(folder: Path, emitted: Emitted, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a text, and the arrays of some of its parameters, by name."""
    facts = {field.name: getattr(emitted, field.name) for field in fields(Emitted)}
    del facts["source"], facts["kernels"], facts["aligned"]  # none, for C
    facts |= {name: [_buffer_as_json(b) for b in facts[name]] for name in _BUFFERS}
    facts |= {"outputs": sorted(emitted.outputs), "target": asdict(emitted.target)}
    facts["arrays"] = [n for n, b in enumerate(emitted.params) if b.name in arrays]
    for number in facts["arrays"]:
        buffer = emitted.params[number]
        array = np.ascontiguousarray(arrays[buffer.name]).reshape(buffer.shape)
        kept = array.view(numpy_dtype(buffer.dtype))  # bfloat16 is uint16 to a kernel
        np.save(folder / f"{number}.npy", kept, allow_pickle=False)
    (folder / SOURCE).write_text(emitted.source, encoding="utf-8")
    (folder / _FACTS).write_text(json.dumps(facts), encoding="utf-8")


def load_kernel(folder: Path) -> tuple[Emitted, dict[str, np.ndarray]]:
    """The text and the arrays that `save_kernel` wrote."""
    facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
    given = facts.pop("arrays")
    facts |= {name: [_buffer_from_json(b) for b in facts[name]] for name in _BUFFERS}
    facts = {name: tuple(v) if isinstance(v, list) else v for name, v in facts.items()}
    facts |= {"outputs": frozenset(facts["outputs"]), "target": Target(**facts["target"])}
    emitted = Emitted(source=(folder / SOURCE).read_text(encoding="utf-8"), **facts)
    arrays = {
        emitted.params[n].name: np.load(folder / f"{n}.npy", allow_pickle=False) for n in given
    }
    return emitted, arrays


def _buffer_as_json(buffer: Buffer) -> dict[str, Any]:
    return {"name": buffer.name, "shape": buffer.shape, "dtype": str(buffer.dtype)}


def _buffer_from_json(kept: Mapping[str, Any]) -> Buffer:
    dtype = DType.of(kept["dtype"])
    return Buffer(kept["name"], tuple(kept["shape"]), dtype, Scope.GLOBAL)
