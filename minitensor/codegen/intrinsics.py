"""The text of intrinsics in C: one function for each that a kernel uses, called per nest.

The body is the one text of a user that reaches the source as it is. It comes from a declaration in
this process, never from a trace; everything around it (names, types, the order of parameters) is
made here from what `lang.intrinsic` has checked.
"""

from __future__ import annotations

from minitensor.codegen.helpers import element_type
from minitensor.errors import LoweringError
from minitensor.ir import DECLARED, SEPARATOR, Buffer, Intrinsic, Tensorized, print_name, strides_of

PREFIX = "intrinsic_"


def declared(key: str) -> Intrinsic:
    """The intrinsic with that key. Raises LoweringError if this process has not declared it."""
    found = DECLARED.get(key)
    if found is None:
        raise LoweringError(
            f"this process has not declared the intrinsic {print_name(key)} (see mt.intrinsic)"
        )
    return found


def function_name(intrinsic: Intrinsic) -> str:
    """The name of the C function; no name of a program begins so (see `names.safe`)."""
    name, _, digest = intrinsic.key.partition(SEPARATOR)
    return f"{PREFIX}{name}_{digest[:8]}"


def parameters(intrinsic: Intrinsic) -> list[str]:
    """The parameters of the C function: for each operand a pointer to its first element, and the
    strides of its axes in elements.
    """
    found = []
    for operand in intrinsic.operands:
        const = "" if operand.name == intrinsic.output else "const "
        found.append(f"{const}{element_type(operand.dtype)} *restrict {operand.name}")
        found.extend(f"int64_t {operand.name}_stride{n}" for n in range(len(operand.shape)))
    return found


def definition(intrinsic: Intrinsic) -> str:
    """The C function, with every alternative of the body; the preprocessor takes one."""
    lines = []
    for header in intrinsic.includes:
        lines += [f"#if __has_include(<{header}>)", f"#include <{header}>", "#endif"]
    lines.append("__attribute__((always_inline))")
    listed = ",\n    ".join(parameters(intrinsic))
    lines.append(f"static inline void {function_name(intrinsic)}(\n    {listed}) {{")
    *special, portable = intrinsic.bodies
    word = "#if"
    for body in special:
        lines += [f"{word} {body.condition}", body.text]
        word = "#elif"
    lines += ["#else", portable.text, "#endif"] if special else [portable.text]
    lines.append("}")
    return "\n".join(lines)


def relied_on(stmt: Tensorized, buffer: str) -> int | None:
    """The first axis of a buffer whose stride the intrinsic relies on; None if there is none.

    That stride comes from the extents of the axes behind it.
    """
    found = []
    for operand, axes, strides in zip(stmt.operands, stmt.axes, declared(stmt.intrinsic).strides):
        if operand.buffer == buffer:
            found += [a for a, s in zip(axes, strides) if a is not None and s is not None]
    return min(found, default=None)


def operand_strides(stmt: Tensorized, position: int, buffer: Buffer) -> list[int]:
    """The strides of one operand in its buffer, as it is laid out in the end."""
    wanted = declared(stmt.intrinsic).strides[position]
    there = strides_of(buffer)
    found = []
    for axis, relied in zip(stmt.axes[position], wanted):
        stride = (relied or 0) if axis is None else there[axis]
        if relied not in (None, stride):
            raise LoweringError(
                f"{print_name(stmt.intrinsic)} relies on stride {relied}, but "
                f"{print_name(buffer.name)} has {stride}"
            )
        found.append(stride)
    return found
