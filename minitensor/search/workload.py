"""Workloads: the identity of a definition, and the number of its operations.

A workload is a lowered program. Its key is what records are found by, so it must not depend on the
process that computes it, and two programs may share one only if the same traces mean the same on
both. Traces name loops, blocks and buffers; these names are therefore part of it: the same product
with its tensors called X, Y, Z is another workload. The name of the program is not.

With the names of a workload it can be told whether a program is the same under others
(`key_under`); `renaming` rewrites its traces.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Final

from minitensor import ir
from minitensor.phrasebook import no_program

KEY_DIGITS: Final = 32
"""Hexadecimal digits of a key."""


def workload_key(program: ir.Program) -> str:
    """The key of a definition: 32 hexadecimal digits, the same in every process.

    It covers the structure of the program (loops, expressions, shapes, dtypes) and every name in
    it that a trace could mention, with those that must not be given again.

    Raises ArgumentError for what is no program.
    """
    if not isinstance(program, ir.Program):
        raise no_program("program", program)
    return _key(program)


@ir.fact
def _key(program: ir.Program) -> str:
    return key_under(program, names_of(program))


@ir.fact
def _structure(program: ir.Program) -> str:
    ir.make_room(program.body)
    return ir.structural_hash(program)


def key_under(program: ir.Program, names: Sequence[str]) -> str:
    """The key that a program would have under other names, in the order of `names_of`."""
    parts = [_structure(program), list(names), sorted(program.retired)]
    return hashlib.sha256(json.dumps(parts).encode("ascii")).hexdigest()[:KEY_DIGITS]


def names_of(program: ir.Program) -> list[str]:
    """The names of buffers, loops, blocks and iters, in the order of the text."""
    return [name for _, name in named_parts(program)]


def named_parts(program: ir.Program) -> list[tuple[str, str]]:
    """The same, each behind what it names."""
    found = [("buffer", buffer.name) for buffer in program.params + program.temporaries]
    for node in ir.walk(program.body):
        match node:
            case ir.For(var):
                found.append(("loop", var))
            case ir.Iter(var):
                found.append(("iter", var))
            case ir.Block(name):
                found.append(("block", name))
            case ir.Alloc(buffer):
                found.append(("buffer", buffer.name))
    return found


def operations(program: ir.Program) -> int:
    """Operations of a program as it is written: 2 for each product that is summed; 0 if none is.

    This is how operations are counted for matrix products and convolutions, whatever a schedule
    computes twice.
    """
    count = 0
    for block in program.blocks.values():
        for node in ir.walk(block.body):
            if isinstance(node, ir.Reduce) and ir.operator_of(node.reducer) == "+":
                products = [n for n in ir.walk(node.values[0]) if _is_product(n)]
                count += 2 * math.prod(i.extent for i in block.iters) if products else 0
    return count


def _is_product(node: object) -> bool:
    return isinstance(node, ir.Binary) and node.op == "*" and node.dtype.kind != "index"
