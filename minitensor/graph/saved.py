"""Models in a folder: C with a header, weights and a Makefile; and back, without compiling.

    NAME.c, NAME.h   all kernels, and two functions: NAME_load(path of the weights), NAME(arrays…)
    weights.bin      the constants as the kernels want them, each at a multiple of 64 bytes
    main.c           reads inputs from files and writes outputs to files
    Makefile         builds ./NAME from these with any C compiler that has GNU vectors
    model.json       what Python has to know
    model.so         the library, for the processor in model.json (`save` only)

A folder appears whole or not at all.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from minitensor import ir
from minitensor.codegen import Target, comment, generate_together, safe
from minitensor.errors import ArgumentError, unexpected
from minitensor.graph.assemble import Task
from minitensor.graph.driver import ENTRY, POINTERS, Call, Place, driver_text
from minitensor.graph.memory import Plan
from minitensor.graph.nodes import Nodes
from minitensor.graph.running import RunningModel
from minitensor.runtime import (
    aligned_empty,
    compile_library,
    cpu_fingerprint,
    find_toolchain,
    load_function,
)

VERSION: Final = 1
ALIGNMENT: Final = 64
COMPILE_SECONDS: Final = 600.0
"""For all kernels in one text."""

_C_TYPES: Final = {"float32": "float", "float64": "double", "bool": "uint8_t"}


class Model(Protocol):
    """A model, as it is written: see `mt.graph.Model`."""

    name: str
    params: tuple[ir.Buffer, ...]
    target: Target
    graph: Nodes
    tasks: tuple[Task, ...]
    calls: tuple[Call, ...]
    weights: tuple[np.ndarray, ...]
    memory: Plan
    flush_denormals: bool


def export(model: Model, folder: str | os.PathLike[str]) -> None:
    """See `Model.export`."""
    _write(model, folder, library=False)


def save(model: Model, folder: str | os.PathLike[str]) -> None:
    """See `Model.save`."""
    _write(model, folder, library=True)


def load(folder: str | os.PathLike[str]) -> RunningModel:
    """A model that `Model.save` or `Model.export` wrote. Nothing is compiled where the folder has
    the library of this processor.

    Raises ArgumentError for a folder that is none of a model, or is damaged; CompileError if it has
    to be compiled and cannot be.
    """
    place = _path(folder)
    try:
        facts = json.loads((place / "model.json").read_text(encoding="utf-8"))
        if facts["version"] != VERSION:
            raise ArgumentError(
                f"{place} has a model of version {facts['version']}, and this is {VERSION}: save "
                "it again"
            )
        text = (place / facts["source"]).read_text(encoding="utf-8")
        held = np.fromfile(place / "weights.bin", np.uint8)
        if len(held) != facts["bytes"]:
            raise ValueError(f"weights.bin has {len(held):,} bytes in place of {facts['bytes']:,}")
        inputs, outputs = ([_buffer_of(one) for one in facts[k]] for k in ("inputs", "outputs"))
        calls = [_call_of(one) for one in facts["calls"]]
        target = Target(**facts["target"])
        arena, scratch, offsets = facts["arena"], facts["scratch"], facts["offsets"]
        name, machine, checks = facts["name"], facts["machine"], facts["checks"]
    except FileNotFoundError as failure:
        raise ArgumentError(
            f"{place} is no folder of a model: there is no {Path(str(failure.filename)).name}"
        ) from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as failure:
        raise ArgumentError(f"the model in {place} is damaged: {failure}; save it again") from None
    library, command = place.resolve() / "model.so", []
    if machine != _machine() or not library.exists():
        compiled = compile_library(text, find_toolchain(), COMPILE_SECONDS)
        library, command = Path(compiled.path), list(compiled.command)
    weights = aligned_empty((max(len(held), 1),), np.dtype(np.uint8))
    weights[: len(held)] = held
    function = load_function(library, f"{safe(name)}_{ENTRY}", POINTERS)
    places = [weights[offset:] for offset in offsets]
    return RunningModel(
        name, inputs, outputs, target, text, command, function, calls, places, (arena, scratch),
        (), checks,
    )  # fmt: skip


def _path(folder: object) -> Path:
    """The path of a folder. Raises ArgumentError for what is none."""
    if not isinstance(folder, (str, os.PathLike)):
        raise unexpected("the path of a folder", "folder", folder)
    return Path(folder)


def _machine() -> str:
    """The processor and the flags that a library is for."""
    return f"{cpu_fingerprint()} {' '.join(find_toolchain().flags)}"


def _write(model: Model, folder: str | os.PathLike[str], library: bool) -> None:
    place = _path(folder)
    if place.exists():
        raise ArgumentError(f"{place} exists already: name a new folder, or remove it first")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    except OSError as failure:
        raise ArgumentError(f"{place} cannot be made: {failure.strerror}") from None
    try:
        _fill(model, scratch, library)
        scratch.chmod(0o755)
        scratch.rename(place)
    except OSError as failure:
        raise ArgumentError(f"{place} cannot be written: {failure.strerror}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _fill(model: Model, folder: Path, library: bool) -> None:
    name, toolchain = safe(model.name), find_toolchain()
    parts = generate_together([(task.late, model.target) for task in model.tasks])
    offsets, end = [], 0
    for array in model.weights:
        offsets.append(end)
        end += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    scratch = max((part.workspace for part in parts), default=0)
    entries = [part.entry for part in parts]
    driver = driver_text(
        model.calls, f"{name}: all kernels in order", model.flush_denormals,
        f"{name}_{ENTRY}", entries,
    )  # fmt: skip
    sizes = {"arena": model.memory.arena, "scratch": scratch, "bytes": end}
    kernels = parts[0].source if parts else ""
    text = "\n".join([kernels, driver, *_interface(model, name, sizes, offsets)])
    with (folder / "weights.bin").open("wb") as file:
        for array in model.weights:
            file.write(array.tobytes())
            file.write(bytes(-array.nbytes % ALIGNMENT))
    flags = " ".join(flag for flag in toolchain.flags if re.fullmatch(r"[\w=.+-]+", flag))
    (folder / f"{name}.c").write_text(text, encoding="utf-8")
    (folder / f"{name}.h").write_text("\n".join(_header(model, name)), encoding="utf-8")
    (folder / "main.c").write_text(_main(model, name), encoding="utf-8")
    (folder / "Makefile").write_text(
        f"CC ?= cc\nCFLAGS ?= {flags}\n\n{name}: main.c {name}.c {name}.h\n"
        f"\t$(CC) $(CFLAGS) -o $@ main.c {name}.c -lm\n",
        encoding="utf-8",
    )
    if library:
        compiled = compile_library(text, toolchain, COMPILE_SECONDS)
        shutil.copyfile(compiled.path, folder / "model.so")
    target = model.target
    facts = {
        "version": VERSION, "name": model.name, "source": f"{name}.c", "machine": _machine(),
        "inputs": [_as_json(b) for b in model.params[: len(model.graph.inputs)]],
        "outputs": [_as_json(b) for b in model.params[len(model.graph.inputs) :]],
        "calls": [_call_as_json(call) for call in model.calls],
        "checks": [list(part.checks) for part in parts], "offsets": offsets, **sizes,
        "target": {"kind": "c", "num_cores": target.num_cores, "vector_bits": target.vector_bits},
    }  # fmt: skip
    (folder / "model.json").write_text(json.dumps(facts), encoding="utf-8")


# ---- C


def _type(buffer: ir.Buffer) -> str:
    """The type of an array's elements in the header."""
    dtype = str(buffer.dtype)
    return _C_TYPES.get(dtype, "uint16_t" if dtype.startswith(("b", "f")) else f"{dtype}_t")


def _arrays(model: Model) -> list[tuple[str, ir.Buffer, str]]:
    """The parameters of the function: their declarations, buffers and names."""
    count, found = len(model.graph.inputs), []
    for n, buffer in enumerate(model.params):
        own = f"{'in' if n < count else 'out'}{n if n < count else n - count}"
        const = "const " if n < count else ""
        found.append((f"{const}{_type(buffer)} *{own}", buffer, own))
    return found


def _prototypes(model: Model, name: str) -> tuple[str, str]:
    declared = ", ".join(text for text, _, _ in _arrays(model))
    return f"int {name}_load(const char *path)", f"int {name}({declared})"


def _header(model: Model, name: str) -> Iterator[str]:
    guard = f"MINITENSOR_{name.upper()}_H"
    first, second = _prototypes(model, name)
    yield f"#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n"
    yield "// Reads the weights once; 0, or -1 where they cannot be read or there is no memory."
    yield f"{first};\n"
    for _, buffer, own in _arrays(model):
        shape = f"{buffer.dtype}{list(buffer.shape)}"
        yield from comment(f"{own}  {ir.print_name(buffer.name)}: {shape}")
    yield "// Returns 0; else a check failed, such as an index out of bounds. Not for several"
    yield "// threads at a time: the memory between kernels is one."
    yield f"{second};\n\n#endif"


def _interface(
    model: Model, name: str, sizes: dict[str, int], offsets: Sequence[int]
) -> Iterator[str]:
    first, second = _prototypes(model, name)
    listed = ", ".join(map(str, offsets)) or "0"
    arrays = ", ".join(f"(char *){own}" for _, _, own in _arrays(model))
    yield f"""
#include <stdio.h>
#include <stdlib.h>

static char *model_weights[{max(len(offsets), 1)}], *model_arena, *model_scratch;

{first}
{{
    static const int64_t offsets[] = {{ {listed} }};
    int64_t size = {sizes["bytes"]};
    char *held = aligned_alloc({ALIGNMENT}, size + {ALIGNMENT});
    model_arena = aligned_alloc({ALIGNMENT}, {_rounded(sizes["arena"])});
    model_scratch = aligned_alloc({ALIGNMENT}, {_rounded(sizes["scratch"])});
    FILE *file = fopen(path, "rb");
    if (!held || !model_arena || !model_scratch || !file) return -1;
    int64_t found = fread(held, 1, size + 1, file);
    fclose(file);
    if (found != size) return -1;
    for (int n = 0; n < {len(offsets)}; n++) model_weights[n] = held + offsets[n];
    return 0;
}}

{second}
{{
    char *io[] = {{ {arrays} }};
    return {name}_{ENTRY}(io, model_arena, model_weights, 0, model_scratch, 0);
}}
"""


def _rounded(size: int) -> int:
    return max(1, -(-size // ALIGNMENT)) * ALIGNMENT


_MAIN: Final = """\
// ./NAME weights.bin WORDS
#include "NAME.h"

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = %d, INPUTS = %d };

int main(int count, char **words)
{
    static const size_t sizes[] = { SIZES };
    void *arrays[COUNT];
    if (count != COUNT + 2 || NAME_load(words[1])) {
        fprintf(stderr, "usage: NAME weights.bin WORDS\\n");
        return 2;
    }
    for (int n = 0; n < COUNT; n++) {
        arrays[n] = aligned_alloc(64, sizes[n] + 64 - sizes[n] %% 64);
        if (n >= INPUTS) continue;
        FILE *file = fopen(words[n + 2], "rb");
        if (!file || fread(arrays[n], 1, sizes[n], file) != sizes[n]) {
            fprintf(stderr, "cannot read %%s\\n", words[n + 2]);
            return 1;
        }
        fclose(file);
    }
    if (NAME(GIVEN)) return 1;
    for (int n = INPUTS; n < COUNT; n++) {
        FILE *file = fopen(words[n + 2], "wb");
        if (!file || fwrite(arrays[n], 1, sizes[n], file) != sizes[n]) return 1;
        fclose(file);
    }
    return 0;
}
"""


def _main(model: Model, name: str) -> str:
    arrays = _arrays(model)
    text = _MAIN % (len(arrays), len(model.graph.inputs))
    for word, put in (
        ("NAME", name),
        ("WORDS", " ".join(f"{own}.bin" for _, _, own in arrays)),
        ("SIZES", ", ".join(str(buffer.nbytes) for _, buffer, _ in arrays)),
        ("GIVEN", ", ".join(f"arrays[{n}]" for n in range(len(arrays)))),
    ):
        text = text.replace(word, put)
    return text


# ---- JSON


def _as_json(buffer: ir.Buffer) -> list[Any]:
    return [buffer.name, list(buffer.shape), str(buffer.dtype)]


def _buffer_of(kept: Any) -> ir.Buffer:
    name, shape, dtype = kept
    if not isinstance(name, str):
        raise unexpected("a name", "name", name)
    return ir.Buffer(name, tuple(shape), ir.DType.of(dtype))


def _call_as_json(call: Call) -> list[Any]:
    places = [[place.kind, place.number] for place in call.arguments]
    return [call.name, call.kernel, places, list(call.outputs), call.about]


def _call_of(kept: Any) -> Call:
    name, kernel, places, outputs, about = kept
    return Call(name, kernel, tuple(Place(*place) for place in places), tuple(outputs), about)
