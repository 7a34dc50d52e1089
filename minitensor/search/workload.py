"""Workloads: the identity of a definition, and the number of its operations.

A workload is a lowered program. Its key is what records are found by, so it must not depend on the
process that computes it, and two programs may share one only if the same traces mean the same on
both. Traces name loops, blocks and buffers; these names are therefore part of it: the same product
with its tensors called X, Y, Z is another workload. The name of the program is not.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Final

from minitensor import ir
from minitensor.errors import unexpected

KEY_DIGITS: Final = 32
"""Hexadecimal digits of a key."""


def workload_key(program: ir.Program) -> str:
    """The key of a definition: 32 hexadecimal digits, the same in every process.

    It covers the structure of the program (loops, expressions, shapes, dtypes) and every name in
    it that a trace could mention, with those that must not be given again.

    Raises ArgumentError for what is no program.
    """
    if not isinstance(program, ir.Program):
        raise unexpected("a program (see mt.lower)", "program", program)
    return _key(program)


@ir.fact
def _key(program: ir.Program) -> str:
    ir.make_room(program.body)
    parts = [ir.structural_hash(program), _names(program), sorted(program.retired)]
    return hashlib.sha256(json.dumps(parts).encode("ascii")).hexdigest()[:KEY_DIGITS]


def _names(program: ir.Program) -> list[str]:
    """The names of buffers, loops, blocks and iters, in the order of the text."""
    names = [buffer.name for buffer in program.params + program.temporaries]
    for node in ir.walk(program.body):
        match node:
            case ir.For(var) | ir.Iter(var):
                names.append(var)
            case ir.Block(name):
                names.append(name)
            case ir.Alloc(buffer):
                names.append(buffer.name)
    return names


def multiply_adds(program: ir.Program) -> int:
    """Operations of a program as it is written: 2 for each product that is summed; 0 if none is.

    This is how operations are counted for matrix products and convolutions, whatever a schedule
    computes twice.
    """
    count = 0
    for block in program.blocks.values():
        for node in ir.walk(block.body):
            if isinstance(node, ir.Reduce) and node.reducer.name == "sum":
                products = [n for n in ir.walk(node.values[0]) if _is_product(n)]
                count += 2 * math.prod(i.extent for i in block.iters) if products else 0
    return count


def _is_product(node: object) -> bool:
    return isinstance(node, ir.Binary) and node.op == "*" and node.dtype.kind != "index"
