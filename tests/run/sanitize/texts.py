"""Kernels written as C by hand: what no program emits, and what sanitizers must see."""

import numpy as np

from minitensor.codegen import Emitted, Target
from minitensor.ir import Buffer, DType
from minitensor.runtime import find_toolchain
from minitensor.sanitize import Sanitizer, load_sanitized, run_sanitized

HEAD = """\
#include <stddef.h>
#include <stdint.h>
#include <string.h>
void checked_loop(int number);
void checked_iteration(int64_t iteration);
void checked_end(void);
void checked_memory(int number, void *start, size_t bytes);
void checked_gone(int number, void *start, size_t bytes);
"""


def buffer(name, shape, dtype):
    return Buffer(name, shape, DType.of(dtype))


def text(body, before="", *, A="float32", C="float32", n=64, memory=(), workspace=0):
    """A function of an input A and an output C, both of n elements, that runs `body`."""
    kinds = {"float32": "float", "uint8": "uint8_t", "int32": "int32_t", "int8": "int8_t"}
    source = (
        f"{HEAD}{before}\nint by_hand_kernel(const {kinds[A]} *restrict A, "
        f"{kinds[C]} *restrict C, unsigned char *restrict workspace) {{\n{body}\nreturn 0;\n}}\n"
    )
    return Emitted(
        source=source,
        entry="by_hand_kernel",
        params=(buffer("A", (n,), A), buffer("C", (n,), C)),
        outputs=frozenset({"C"}),
        checks=(),
        workspace=workspace,
        target=Target("c", 2, 0),
        name="by_hand",
        loops=("i",),
        memory=tuple(memory),
    )


def parallel(body, extent=4):
    """A parallel loop over i, as the emitter writes it."""
    loop = f"for (int64_t i = 0; i < {extent}; ++i) {{\nchecked_iteration(i);\n{body}\n}}"
    return f"checked_loop(0);\n{loop}\nchecked_end();"


def inputs_of(emitted):
    return [
        np.arange(np.prod(b.shape), dtype=b.dtype.scalar).reshape(b.shape)
        for b in emitted.params
        if b.name not in emitted.outputs
    ]


def run(sanitizer, emitted):
    (kernel,) = load_sanitized(sanitizer, [emitted], find_toolchain())
    return run_sanitized(sanitizer, kernel, inputs_of(emitted))


def races(body, before="", extent=4, **more):
    """The races of a parallel loop with this body."""
    outcome = run(Sanitizer.RACES, text(parallel(body, extent), before, **more))
    assert outcome.status == 0
    return list(outcome.faults)
