"""Declaring intrinsics: what a piece of hardware, or of hand-written C, computes.

    a = mt.placeholder((4,), "uint8", name="a")
    b = mt.placeholder((16, 4), "int8", name="b")
    dot = mt.compute((16,), lambda j: mt.sum(…a[k]… * …b[j, k]…, axis=k), name="c")
    dot = mt.intrinsic("dot", [a, b, c], c=[("defined(__AVX512VNNI__)", "…"), "…"])

    s.tensorize(loop, dot)

The meaning is written with tensor expressions; the body is C, with a portable alternative last. The
declaration checks that the meaning is one statement whose operands are accessed along its axes, and
that every name is an identifier of C; the body it takes on trust, for `testing.check_intrinsic` to
test. A body is the one text that reaches the source unfiltered: it can only be given here, in
Python, never by a trace or a file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from minitensor import ir
from minitensor.arith import Simplifier, extent_range
from minitensor.errors import ArgumentError, is_integer, shown, unexpected
from minitensor.lang.lower import lower
from minitensor.lang.tensor import Tensor

Bodies: TypeAlias = str | Sequence[str | tuple[str, str]]

LARGEST: Final = 1 << 20
"""The most statements that one meaning may stand for."""
LONGEST: Final = 1 << 18
"""The most characters of a body."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")
_HEADER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}")
KEYWORDS: Final = frozenset((
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
    "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register",
    "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef",
    "typeof", "union", "unsigned", "void", "volatile", "while", "asm",
))  # fmt: skip
_DEFINED: Final = re.compile(
    r"""(?x) u?int(?:_least|_fast)?(?:8|16|32|64)_t | u?int(?:ptr|max)_t
    | size_t | ptrdiff_t | max_align_t | wchar_t | NULL | offsetof | unix | linux | i386
    | U?INT(?:_LEAST|_FAST)?(?:8|16|32|64)_(?:MIN|MAX) | U?INT(?:PTR|MAX)_(?:MIN|MAX)
    | SIZE_MAX | PTRDIFF_(?:MIN|MAX) | SIG_ATOMIC_(?:MIN|MAX) | W(?:CHAR|INT)_(?:MIN|MAX)
    | U?INT(?:8|16|32|64|MAX)_C"""
)
"""Types and macros of stddef.h and stdint.h, which every text includes, and of gcc itself."""


def intrinsic(
    name: str,
    tensors: Sequence[Tensor],
    c: Bodies,
    *,
    strides: Mapping[str, Sequence[int | None]] | None = None,
    includes: Sequence[str] = (),
    cuda: str = "",
    fragments: Sequence[str] = (),
) -> ir.Intrinsic:
    """Declare an intrinsic, to be used with `Schedule.tensorize`.

    name      an identifier of C, at most 48 characters
    tensors   the operands in the order of the body's parameters, as for `lower`: placeholders, and
              one tensor that is computed from them. A reduction *updates* what it finds there.
    c         the body of a C function, or several: pairs of a preprocessor condition and a body,
              and last one body without a condition. For an operand A of two axes it may use
                  A            the address of the first element that is touched
                  A_stride0    how many elements there are from one index of axis 0 to the next
                  A_stride1
              Elements are as in `Kernel.source`: uint8_t, float, … Nothing is said about alignment;
              the output overlaps no other operand. The body must touch nothing else.
    strides   by operand, the strides that the body relies on, None for any: {"B": [None, 1]}
    includes  C headers that bodies need, each included if the compiler has it: ["immintrin.h"]
    cuda      the body in CUDA, for kernels of a GPU: the 32 threads of a warp execute it together,
              so `threadIdx.x` counts its lanes
    fragments the operands that the registers of a warp hold: the CUDA body has a pointer to the
              elements of its thread, a 32nd of the operand, as the intrinsics that share such an
              operand agree to divide it

    Returns the intrinsic, which is then known in this process by its name.
    Raises ArgumentError or LoweringError for what is not of this form.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise unexpected("an identifier of at most 48 characters", "name", name)
    meaning = lower(tensors, name)
    _check_meaning(meaning)
    made = ir.Intrinsic(
        name,
        meaning,
        _bodies(c),
        tuple(_strides(operand, strides) for operand in meaning.params),
        _headers(includes),
        _cuda_body(cuda),
        _fragments(fragments, meaning),
    )
    unknown = sorted(map(str, set(strides or ()) - {b.name for b in meaning.params}))
    if unknown:
        names = ", ".join(b.name for b in meaning.params)
        raise unexpected(f"operands ({names})", "strides", unknown[0])
    return ir.DECLARED.setdefault(made.key, made)


def _check_meaning(meaning: ir.Program) -> None:
    """Refuse a meaning that is more than one statement over axes."""
    blocks = list(meaning.blocks.values())
    if len(blocks) != 1:
        names = ", ".join(ir.print_name(b.name) for b in blocks)
        raise ArgumentError(f"expected one tensor to be computed, but got {len(blocks)}: {names}")
    (block,) = blocks
    body = block.body
    if not isinstance(body, (ir.Store, ir.Reduce)) or len(ir.stored_buffers(body)) != 1:
        raise ArgumentError(f"{ir.print_name(block.name)} is more than one value for each element")
    written = ir.stored_buffers(body)
    ordered = any(i.kind is ir.IterKind.ORDERED for i in block.iters)
    if ordered or any(load.buffer in written for load in ir.loads(body)):
        raise ArgumentError(f"{ir.print_name(block.name)} is an ordered update, not a reduction")
    for operand in meaning.params:
        if not _NAME.fullmatch(operand.name) or operand.name in KEYWORDS:
            expected = "tensors named by identifiers of C, at most 48 characters long"
            raise unexpected(expected, "name", operand.name)
        if _DEFINED.fullmatch(operand.name):
            expected = "tensors with names that are no types or macros of C"
            raise unexpected(expected, "name", operand.name)
    parameters = [b.name for b in meaning.params]
    parameters += [f"{b.name}_stride{n}" for b in meaning.params for n in range(len(b.shape))]
    for parameter in parameters:
        if parameters.count(parameter) > 1:
            raise unexpected("operands with parameters of different names", "name", parameter)
    size = math.prod(i.extent for i in block.iters)
    if not 2 <= size <= LARGEST:
        raise ArgumentError(f"expected a meaning of 2 to {LARGEST} steps, but got one of {size}")
    _check_accesses(meaning, block)


def _check_accesses(meaning: ir.Program, block: ir.Block) -> None:
    """Each operand is used, from its first element on, at sums of multiples of the axes."""
    simplifier = Simplifier({i.var: extent_range(i.extent) for i in block.iters})
    used = ir.stored_buffers(block.body)
    for load in ir.loads(block.body):
        used.add(load.buffer)
        for index in load.indices:
            form = simplifier.linear(index)
            plain = all(isinstance(a, ir.Var) and step > 0 for a, step in form.terms.items())
            if not plain or form.constant:
                raise ArgumentError(
                    f"{ir.print_expr(load)}: expected sums of positive multiples of the axes as "
                    f"indices, but got {ir.print_expr(index)}"
                )
    for operand in meaning.params:
        if operand.name not in used:
            raise ArgumentError(f"{ir.print_name(operand.name)} is no operand: it is not read")
    values = block.body.values if isinstance(block.body, ir.Reduce) else (block.body.value,)  # type: ignore[union-attr]
    stack: list[Any] = list(values)
    while stack:
        node = stack.pop()
        if isinstance(node, ir.Var):
            raise ArgumentError(f"the value depends on the index {ir.print_name(node.name)} itself")
        stack.extend(() if isinstance(node, ir.Load) else ir.children(node))


def _bodies(c: object) -> tuple[ir.Body, ...]:
    """The alternatives, checked."""
    expected = "a C body, or pairs (condition, body) and a last body without a condition"
    given = [c] if isinstance(c, str) else c
    if not isinstance(given, Sequence) or not given:
        raise unexpected(expected, "c", c)
    found = []
    for position, item in enumerate(given):
        last = position == len(given) - 1
        pair = (None, item) if last else item
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[1], str):
            raise unexpected(expected, "c", item)
        condition, text = pair
        if not last and not (
            isinstance(condition, str)
            and condition.strip()
            and condition.isprintable()
            and "\\" not in condition
        ):
            raise unexpected("a preprocessor condition of one line", "condition", condition)
        if len(text) > LONGEST or "\0" in text or not _encodes(text + (condition or "")):
            raise unexpected(f"text of at most {LONGEST} characters", "c", text)
        found.append(ir.Body(condition, text.strip("\n")))
    return tuple(found)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _strides(
    operand: ir.Buffer, strides: Mapping[str, Sequence[int | None]] | None
) -> tuple[int | None, ...]:
    """The strides required of one operand, one for each of its axes."""
    rank = len(operand.shape)
    if strides is None:
        return (None,) * rank
    if not isinstance(strides, Mapping):
        raise unexpected('strides by operand, such as {"B": [None, 1]}', "strides", strides)
    given = strides.get(operand.name, (None,) * rank)
    right = isinstance(given, Sequence) and not isinstance(given, str) and len(given) == rank
    if not right or not all(s is None or is_integer(s, 1, LARGEST) for s in given):
        each = "1 stride" if rank == 1 else f"{rank} strides"
        expected = f"{each} of at least 1, or None, for {operand.name}"
        raise unexpected(expected, "strides", given)
    return tuple(None if s is None else int(s) for s in given)


def _cuda_body(cuda: object) -> str:
    if not isinstance(cuda, str) or len(cuda) > LONGEST or "\0" in cuda or not _encodes(cuda):
        raise unexpected(f"text of at most {LONGEST} characters", "cuda", cuda)
    return cuda.strip("\n")


def _fragments(fragments: object, meaning: ir.Program) -> tuple[str, ...]:
    """The names of operands of which each thread of a warp has a part."""
    sizes = {b.name: math.prod(b.shape) for b in meaning.params}
    if isinstance(fragments, str) or not isinstance(fragments, Sequence):
        raise unexpected("a list of operands", "fragments", fragments)
    for name in fragments:
        if name not in sizes or sizes[name] % ir.WARP:
            expected = f"operands of which the {ir.WARP} threads of a warp have equal parts"
            raise unexpected(expected, "fragments", name)
    return tuple(fragments)


def _headers(includes: object) -> tuple[str, ...]:
    if isinstance(includes, str) or not isinstance(includes, Sequence):
        raise unexpected("a list of C headers", "includes", includes)
    for header in includes:
        if not isinstance(header, str) or not _HEADER.fullmatch(header):
            raise unexpected("the name of a C header", "includes", shown(header))
    return tuple(includes)
