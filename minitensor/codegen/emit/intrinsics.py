"""The C text of intrinsics: one function for each that a kernel uses, called per nest.

The body is the one text of a user that reaches the source as it is. It comes from a declaration in
this process, never from a trace; everything around it (names, types, the order of parameters) is
made here from what `lang.intrinsic` has checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from minitensor import ir
from minitensor.codegen.emit.c_types import element_type
from minitensor.codegen.emit.helpers import FUNCTION, Definition
from minitensor.codegen.target import Emitted, Target

PREFIX = "intrinsic_"


def function_name(intrinsic: ir.Intrinsic) -> str:
    """The name of the C function; no name of a program begins so (see `names.safe`)."""
    name, _, digest = intrinsic.key.partition(ir.SEPARATOR)
    return f"{PREFIX}{name}_{digest[:8]}"


def intrinsics_in(source: str) -> list[str]:
    """The names of the intrinsics whose bodies are in a text."""
    return re.findall(rf"^static inline void {PREFIX}(\w+)_[0-9a-f]{{8}}\($", source, re.MULTILINE)


def parameters(intrinsic: ir.Intrinsic) -> list[str]:
    """The parameters of the C function: for each operand a pointer to its first element, and the
    strides of its axes in elements.
    """
    found = []
    for operand in intrinsic.operands:
        const = "" if operand.name == intrinsic.output else "const "
        found.append(f"{const}{element_type(operand.dtype)} *restrict {operand.name}")
        found.extend(f"int64_t {operand.name}_stride{n}" for n in range(len(operand.shape)))
    return found


def definition(intrinsic: ir.Intrinsic) -> Definition:
    """The C function, with every alternative of the body; the preprocessor takes one."""
    name = function_name(intrinsic)
    lines = []
    for header in intrinsic.includes:
        lines += [f"#if __has_include(<{header}>)", f"#include <{header}>", "#endif"]
    lines.append("__attribute__((always_inline))")
    listed = ",\n    ".join(parameters(intrinsic))
    lines.append(f"static inline void {name}(\n    {listed}) {{")
    *special, portable = intrinsic.bodies
    word = "#if"
    for body in special:
        lines += [f"{word} {body.condition}", body.text]
        word = "#elif"
    lines += ["#else", portable.text, "#endif"] if special else [portable.text]
    lines.append("}")
    return name, "\n".join(lines)


def cuda_definition(intrinsic: ir.Intrinsic) -> Definition:
    """The CUDA function, which the threads of a warp call together."""
    name = function_name(intrinsic)
    found = []
    for operand in intrinsic.operands:
        const = "" if operand.name == intrinsic.output else "const "
        narrow = operand.dtype.is_float and operand.dtype.bits == 16
        kind = "uint16_t" if narrow else element_type(operand.dtype)
        pointer = f"{const}{kind} *__restrict__ {operand.name}"
        if operand.name in intrinsic.fragments:
            pointer = f"{kind} *{operand.name}"
        found.append(pointer)
        if operand.name not in intrinsic.fragments:
            found.extend(f"int64_t {operand.name}_stride{n}" for n in range(len(operand.shape)))
    listed = ",\n    ".join(found)
    head = f"{FUNCTION} void {name}(\n    {listed}) {{"
    return name, f"{head}\n{intrinsic.cuda}\n    __syncwarp();\n}}"


def emit_alone(
    intrinsic: ir.Intrinsic, body: ir.Body, sizes: Mapping[str, int], target: Target
) -> Emitted:
    """A kernel that calls one body of an intrinsic once, for testing it.

    sizes  how many elements the arrays have, for each operand

    Its parameters are arrays for the operands, then `where`: for each operand the position of its
    first element, and its strides; and `ran`, which becomes 1 if the body's condition holds here.
    The arrays are numbered, so that operands may have any name.
    """
    alone = replace(intrinsic, bodies=(body, ir.Body(None, "")) if body.condition else (body,))
    arrays, arguments, count = [], [], 0
    for number, operand in enumerate(intrinsic.operands):
        const = "" if operand.name == intrinsic.output else "const "
        arrays.append(f"{const}{element_type(operand.dtype)} *restrict array_{number}")
        arguments.append(f"array_{number} + where[{count}]")
        strides = range(count + 1, count + 1 + len(operand.shape))
        arguments.extend(f"where[{n}]" for n in strides)
        count = strides.stop
    listed = ",\n    ".join(
        [*arrays, "const int64_t *restrict where", "int32_t *restrict ran", "void *workspace"]
    )
    name, text = definition(alone)
    source = f"""\
#include <stddef.h>
#include <stdint.h>

{text}

int alone_kernel(
    {listed}) {{
#if {body.condition or 1}
    ran[0] = 1;
#else
    ran[0] = 0;
#endif
    {name}({", ".join(arguments)});
    return 0;
}}
"""
    flat = [
        ir.Buffer(f"array_{number}", (sizes[b.name],), b.dtype)
        for number, b in enumerate(intrinsic.operands)
    ]
    where = ir.Buffer("where", (count,), ir.DType.of("int64"))
    ran = ir.Buffer("ran", (1,), ir.DType.of("int32"))
    names = [b.name for b in intrinsic.operands]
    outputs = frozenset((f"array_{names.index(intrinsic.output)}", "ran"))
    params = (*flat, where, ran)
    return Emitted(source, "alone_kernel", params, outputs, (), 0, target, intrinsic.name)
