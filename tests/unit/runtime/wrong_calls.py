"""Wrong calls of a kernel, generated from its parameters: each with what the error must say.

for call in wrong_calls(kernel):      # the same ones each time
    with pytest.raises(ArgumentError, match=call.message):
        kernel(*call.arrays, **call.named)
"""

from __future__ import annotations

import array
import datetime
import decimal
import fractions
import pathlib
import random
import re
import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from minitensor.errors import ArgumentError
from minitensor.ir import Buffer, numpy_dtype, print_name
from tests.unit.runtime import liars

MARK = 7
"""What outputs are filled with; 7 is no result of what the kernels compute from their inputs."""

DTYPES = [
    *("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "g"),
    *("c8", "c16", "G", "S4", "U2", "O", "V4", "M8[s]", "m8[ns]"),
    [("x", "f4")],
    [("x", "f4"), ("y", "i4")],
    ("f4", (2,)),
]


@dataclass(frozen=True)
class WrongCall:
    """One call that must be refused.

    about    which parameter is wrong, and how; no two calls of a kernel have the same
    arrays   the arguments by position
    message  what the error must match
    """

    about: str
    arrays: tuple[Any, ...]
    message: str
    named: dict[str, Any] = field(default_factory=dict)


def right_arrays(kernel, outputs=True):
    """Arrays that fit: inputs of zeros, outputs full of MARK."""
    written = set(kernel._signature.outputs)
    return [
        filled(buffer, MARK if n in written else 0)
        for n, buffer in enumerate(kernel.params)
        if outputs or n not in written
    ]


def filled(buffer: Buffer, value):
    """An array for a parameter, full of one value."""
    return np.full(buffer.shape, value).astype(numpy_dtype(buffer.dtype), order="C")


def wrong_calls(kernel):
    """Every wrong call, in a fixed order."""
    rng = random.Random(kernel.name)
    written = set(kernel._signature.outputs)
    for n, buffer in enumerate(kernel.params):
        for about, value, message in wrong_values(buffer, n in written):
            arrays = right_arrays(kernel)
            arrays[n] = value
            whole = rf"^{re.escape(print_name(kernel.name))}: expected {re.escape(buffer.name)} "
            whole += rf".*but got .*{message}"
            yield WrongCall(f"{buffer.name} {about}", tuple(arrays), whole)
            if n not in written and rng.random() < 0.3:  # also where outputs are left out
                short = [a for k, a in enumerate(arrays) if k not in written]
                yield WrongCall(f"{buffer.name} {about}, no outputs", tuple(short), whole)
    yield from wrong_counts(kernel)
    yield from overlapping(kernel)


# ---- one argument


def wrong_values(buffer: Buffer, is_output: bool):
    """(what is wrong, the value, what the end of the message matches) for one parameter."""
    right = filled(buffer, 0)
    yield from no_arrays(buffer, right)
    for about, value in wrong_dtypes(right):
        yield f"dtype {about}", value, re.escape(f"{buffer.name}.dtype=")
    for about, value, shape in wrong_shapes(right):
        yield f"shape {about}", value, re.escape(f"{buffer.name}.shape={shape}; ")
    for about, value in wrong_strides(right):
        yield f"strides {about}", value, re.escape(f"{buffer.name}.strides={value.strides}; ")
    for about, value in misaligned(right):
        yield f"aligned {about}", value, "an address of 0x"
    if is_output:
        for about, value in read_only(right):
            yield f"read-only {about}", value, "a read-only one; pass np.empty"


def no_arrays(buffer, right):
    """What is no array, and what lends none."""
    given = re.escape(f"{buffer.name}=")
    plain = [
        *(None, True, 3, -1, 10**400, 2.5, float("nan"), 1j, "text", "A\nB", b"bytes"),
        *(bytearray(64), memoryview(right), array.array("f", [1, 2]), [], (), {}, set()),
        *(right.tolist(), [right], (right,), {"a": right}, range(6), iter([1]), slice(None)),
        *(Ellipsis, NotImplemented, object(), int, np, np.ndarray, len, lambda: right),
        *(np.dtype("f4"), np.float32(1), np.int8(1), np.bool_(1), np.str_("a"), np.void(b"ab")),
        *(np.datetime64("2020-01-01"), datetime.date(2020, 1, 1), pathlib.Path("a")),
        *(decimal.Decimal(1), fractions.Fraction(1, 2), types.SimpleNamespace(shape=right.shape)),
        *(buffer, liars.Raising(), liars.Posing(right), liars.Unprintable(), liars.Multiline()),
        liars.OnlyArray(right),
    ]
    for n, value in enumerate(plain):
        yield f"no array {n}", value, f"(?:{given}|=)"
    lenders = {
        "masked": np.ma.masked_array(right),
        "mask of all": np.ma.masked_array(right, mask=True),
        "masked constant": np.ma.masked,
    }
    for about, value in lenders.items():
        yield about, value, r"\(Masked(?:Array|Constant)\); pass"
    for about, value in {**broken_interfaces(right), **broken_capsules(right)}.items():
        yield f"lender {about}", value, f"{given}.*; pass a numpy array, or an object with"


def broken_interfaces(right):
    """Answers to `__array_interface__` that numpy takes for none."""
    address = right.__array_interface__["data"][0]
    found = {
        "of None": liars.Says(None),
        "of a number": liars.Says(3),
        "of a text": liars.Says("interface"),
        "of a list": liars.Says([]),
        "empty": liars.Says({}),
        "without a type": liars.Lender(right, typestr=liars.Lender),
        "without a shape": liars.Lender(right, shape=liars.Lender),
        "type of nonsense": liars.Lender(right, typestr="<q99"),
        "type of None": liars.Lender(right, typestr=None),
        "shape of text": liars.Lender(right, shape="23"),
        "shape of fractions": liars.Lender(right, shape=(2.5,)),
        "negative shape": liars.Lender(right, shape=(-1, 3)),
        "shape beyond memory": liars.Lender(right, shape=(2**40, 2**40)),
        "shape of huge numbers": liars.Lender(right, shape=(10**400,)),
        "strides of text": liars.Lender(right, strides="12"),
        "too many strides": liars.Lender(right, strides=(4,) * (right.ndim + 1)),
        "address of text": liars.Lender(right, data=("0x10", False)),
        "address of a fraction": liars.Lender(right, data=(0.5, False)),
        "address of three": liars.Lender(right, data=(address, False, 1)),
        "address beyond memory": liars.Lender(right, data=(1 << 70, False)),
    }
    if right.size:
        found |= {
            "address of 0": liars.Lender(right, data=(0, False)),
            "no bytes": liars.Lender(right, data=b"", strides=None),
            "one byte short": liars.Lender(right, data=bytes(right.nbytes - 1), strides=None),
            "behind its bytes": liars.Lender(right, data=bytes(right.nbytes), offset=8),
            "before its bytes": liars.Lender(right, data=bytes(right.nbytes), offset=-8),
            "before all of memory": liars.Lender(right, data=bytes(right.nbytes), offset=-(2**70)),
            "bytes of its own, too few": liars.Holder(right, bytes(right.nbytes - 1)),
            "that has no bytes": liars.Lender(right, data=None),
            "with a mask": liars.Lender(right, mask=right),
        }
    for failure in FAILURES:
        found[f"that raises {type(failure).__name__}"] = liars.Says(failure)
    return found


FAILURES = [
    ValueError("no\nline"),
    TypeError("no"),
    RuntimeError("no"),
    KeyError("no"),
    OSError("no"),
    MemoryError(),
    RecursionError(),
    ZeroDivisionError("no"),
    StopIteration(),
    BufferError("no"),
    AssertionError(),
]


def broken_capsules(right):
    """Answers to `__dlpack__` that numpy takes for none."""
    found = {
        "dlpack of None": liars.Capsule(None),
        "dlpack of a number": liars.Capsule(3),
        "dlpack of an array": liars.Capsule(right),
        "dlpack of another capsule": liars.Capsule(datetime.datetime_CAPI),
    }
    if right.dtype.kind != "b":  # of which older versions of numpy make no capsules
        found["dlpack on a GPU"] = liars.Capsule(liars.on_gpu(right), (2, 0))
        found["dlpack of address 0"] = liars.Capsule(liars.on_gpu(right, 0))
    for failure in FAILURES:
        found[f"dlpack that raises {type(failure).__name__}"] = liars.Capsule(failure)
    return found


def wrong_dtypes(right):
    """Arrays of every other dtype, and of the other byte order."""
    for name in DTYPES:
        dtype = np.dtype(name)
        shape = right.shape if dtype.subdtype is None else right.shape[:-1]
        value = np.zeros(shape, dtype)
        if value.dtype == right.dtype:
            continue
        yield str(name), value
        if np.dtype(name).itemsize == right.itemsize and name != "O":
            yield f"{name} by interface", liars.Lender(value)
    if right.dtype.itemsize > 1:
        swapped = right.astype(right.dtype.newbyteorder())
        yield "byte order", swapped
        yield "byte order by interface", liars.Lender(swapped)
        yield "byte order of a subclass", liars.posing_as(right, swapped)
        yield "byte order in memory", np.zeros(right.shape, right.dtype.newbyteorder("S"))
    double = np.zeros(right.shape, "c16")
    yield "that poses", liars.posing_as(right, double)
    yield "of a record", np.zeros(right.shape, [("x", right.dtype)]).view(np.recarray)


def wrong_shapes(right):
    """Arrays with an axis more or less, longer or shorter, or in another order."""
    shapes = {(*right.shape, 1), (1, *right.shape), (*right.shape, 0), (right.size,), (), (0,)}
    shapes |= {right.shape[1:], right.shape[:-1], right.shape[::-1], right.shape * 2, (1,)}
    shapes |= {(1,) * 20, (0,) * 3}
    for axis, extent in enumerate(right.shape):
        for other in {extent - 1, extent + 1, extent * 2, 1, 0} - {-1}:
            shapes.add((*right.shape[:axis], other, *right.shape[axis + 1 :]))
        if axis:
            swapped = list(right.shape)
            swapped[axis - 1], swapped[axis] = swapped[axis], swapped[axis - 1]
            shapes.add(tuple(swapped))
    for shape in sorted(shapes - {right.shape}):
        yield f"{shape}", np.zeros(shape, right.dtype), shape
        if len(shape) == right.ndim:
            yield f"{shape} posing", liars.posing_as(right, np.zeros(shape, right.dtype)), shape
    for huge in ((2**20, 2**20), (2**40,), (2**29, 2**29)):
        yield f"huge {huge}", np.broadcast_to(np.zeros((), right.dtype), huge), huge


def wrong_strides(right):
    """Views of the right shape whose elements are not one after the other."""
    every = (slice(None),)
    views = {}
    for axis, extent in enumerate(right.shape):
        front, behind = every * axis, every * (right.ndim - axis - 1)
        twice = np.repeat(right, 2, axis)
        views[f"step of 2 on axis {axis}"] = twice[(*front, slice(None, None, 2), *behind)]
        views[f"step of -2 on axis {axis}"] = twice[(*front, slice(None, None, -2), *behind)]
        views[f"part of axis {axis}"] = twice[(*front, slice(0, extent), *behind)]
        views[f"end of axis {axis}"] = twice[(*front, slice(extent, None), *behind)]
        views[f"axis {axis} backwards"] = right[(*front, slice(None, None, -1), *behind)]
        one = right[(*front, slice(0, 1), *behind)]
        if extent:
            views[f"axis {axis} broadcast"] = np.broadcast_to(one, right.shape)
        moved = np.moveaxis(np.zeros((extent, *np.delete(right.shape, axis)), right.dtype), 0, axis)
        views[f"axis {axis} outermost"] = moved
    views["one element"] = np.broadcast_to(np.zeros((), right.dtype), right.shape)
    views["column major"] = np.asfortranarray(right)
    wide = np.zeros((*right.shape, 2), right.dtype)
    views["part of a pair"] = wide[..., 0]
    record = np.zeros(right.shape, [("x", right.dtype), ("y", right.dtype)])
    views["field of a record"] = record["x"]
    for about, value in views.items():
        if value.shape == right.shape and not value.flags.c_contiguous:
            yield about, value
            yield f"{about} of a subclass", value.view(np.matrix if right.ndim == 2 else Plain)


class Plain(np.ndarray):
    """A subclass that adds nothing."""


def misaligned(right):
    """Arrays that start between two multiples of their alignment."""
    for offset in range(1, right.dtype.alignment):
        memory = np.zeros(right.nbytes + 16, np.uint8)
        start = -memory.ctypes.data % 8 + offset
        value = np.ndarray(right.shape, right.dtype, memory, start)
        if not value.flags.aligned:
            yield f"at {offset}", value
            yield f"at {offset} posing", liars.posing_as(right, value)


def read_only(right):
    """Arrays that must not be written to, each for another reason."""
    locked = right.copy()
    locked.flags.writeable = False
    yield "flag", locked
    yield "view", locked.view()
    yield "reshaped", locked.ravel().reshape(right.shape)
    yield "subclass", locked.view(Plain)
    yield "posing", liars.posing_as(right, locked)
    yield (
        "bytes",
        np.frombuffer(bytes(right.nbytes + 8), right.dtype, right.size).reshape(right.shape),
    )
    yield "interface", liars.Lender(locked)
    yield "interface that says so", liars.Lender(right, data=(right.ctypes.data, True))
    whole = np.ndarray(right.shape, right.dtype, memoryview(bytes(right.nbytes + 1)))
    yield "buffer", whole


# ---- several arguments


def wrong_counts(kernel):
    """Too few arrays, too many, and arrays by keyword."""
    right = right_arrays(kernel)
    inputs = right_arrays(kernel, outputs=False)
    names = ", ".join(b.name for n, b in enumerate(kernel.params))
    for count in range(len(right) + 4):
        if count not in (len(right), len(inputs)):
            message = rf"expected {len(inputs)} arrays? \(.*\(.*{names}\), but got {count}$"
            yield WrongCall(f"{count} arrays", tuple((right * 10)[:count]), message)
    yield WrongCall("a tuple of arrays", (tuple(right), *right[1:]), "but got .*=")
    yield WrongCall("a generator", (*right[:-1], (a for a in right)), r"but got .*\(generator\)")
    by_keyword = rf"expected its arrays by position \({names}\), but got "
    for n, buffer in enumerate(kernel.params):
        rest = tuple(right[:n] + right[n + 1 :])
        for others, given in enumerate((rest, tuple(inputs), tuple(right), ())):
            about = f"{buffer.name} by keyword, others {others}"
            yield WrongCall(about, given, by_keyword + buffer.name, {buffer.name: right[n]})
    for name in ("out", "self", "shape", "number", "A\nB", "", "if", "x" * 1000):
        yield WrongCall(f"keyword {name!r}", tuple(right), by_keyword, {name: right[-1]})
    everything = {b.name: a for b, a in zip(kernel.params, right)}
    yield WrongCall("all by keyword", (), by_keyword, everything)


def overlapping(kernel):
    """An output in the memory of another parameter: all of it, or as little as one byte."""
    written = kernel._signature.outputs
    for output in written:
        for other, there in enumerate(kernel.params):
            here = kernel.params[output]
            if other == output or 0 in here.shape or 0 in there.shape:
                continue
            for about, pair in shared_memory(here, there):
                for dress, dressed in DRESSES.items():
                    arrays = right_arrays(kernel)
                    arrays[output], arrays[other] = dressed(pair[0]), pair[1]
                    about_all = f"{here.name} {about} {there.name} {dress}"
                    names = f"(?:{here.name}|{there.name})"
                    message = rf"expected {names} in memory of its own, but got one that overlaps "
                    yield WrongCall(about_all, tuple(arrays), message + names)


DRESSES = {
    "": lambda array: array,
    "by interface": liars.Lender,
    "as a subclass": lambda array: array.view(Plain),
}


def shared_memory(here: Buffer, there: Buffer):
    """(how, two arrays that overlap) for two parameters of any shape and dtype."""
    a, b = (numpy_dtype(buffer.dtype) for buffer in (here, there))
    sizes = [int(np.prod(x.shape)) * d.itemsize for x, d in ((here, a), (there, b))]
    step = max(a.itemsize, b.itemsize)
    memory = np.zeros(sum(sizes) + 4 * step + 64, np.uint8)
    base = -memory.ctypes.data % 16 + -(-sizes[0] // step) * step

    def at(buffer, dtype, start):
        return np.ndarray(buffer.shape, dtype, memory, start)

    starts = {"is": base, "ends in": base - sizes[0] + step, "starts in": base + sizes[1] - step}
    for about, start in starts.items():
        start -= start % a.itemsize - base % a.itemsize
        pair = at(here, a, start), at(there, b, base)
        if all(x.flags.aligned for x in pair) and np.shares_memory(*pair):
            yield about, pair


# ---- checking them


def check_refused(kernel, call, how=lambda kernel: kernel):
    """The call is refused as it says, and every array is as it was.

    how  what is called of a kernel: the kernel, or one of its methods
    """
    before = [(a, a.copy()) for a in call.arrays if type(a) is np.ndarray and a.size < 10_000]
    with pytest.raises(ArgumentError, match=call.message) as caught:
        how(kernel)(*call.arrays, **call.named)
    text = str(caught.value)
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, ValueError)
    assert text.isprintable() and len(text) < 800, text
    for given, copy in before:
        assert (given == copy).all()
