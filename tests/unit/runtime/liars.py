"""Objects that pretend to be arrays, and subclasses of arrays that say what is not so."""

from __future__ import annotations

import ctypes

import numpy as np


class Lender:
    """Lends an array by `__array_interface__`, with some of its items replaced."""

    def __init__(self, array, **changes):
        self.array, self.changes = array, changes

    @property
    def __array_interface__(self):
        items = {**self.array.__array_interface__, **self.changes}
        return {name: item for name, item in items.items() if item is not Lender}


class Says:
    """Gives the same answer, whatever it is, as its `__array_interface__`."""

    def __init__(self, answer):
        self.answer = answer

    @property
    def __array_interface__(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Capsule:
    """Gives the same answers to the two questions of DLPack."""

    def __init__(self, answer, device=(1, 0)):
        self.answer, self.device = answer, device

    def __dlpack__(self, **options):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def __dlpack_device__(self):
        return self.device


class OnlyArray:
    """Makes an array when asked, as old tensor libraries do: it lends no memory."""

    def __init__(self, array):
        self.array = array

    def __array__(self, *args, **kwargs):
        return self.array


class Raising:
    """Every attribute raises."""

    def __getattribute__(self, name):
        raise RuntimeError(f"no {name}\nfor you")


class Posing:
    """Says that its class is numpy's."""

    def __init__(self, array):
        self.array = array

    @property
    def __class__(self):
        return np.ndarray

    def view(self, *args):
        return self.array


class Unprintable:
    """Has no text."""

    def __repr__(self):
        raise RecursionError("again")


class Multiline:
    """Has a text with everything in it that a message of one line must not hold."""

    def __repr__(self):
        return "one\ntwo\x00\x1b[31m\u202e" + "x" * 1000


class Viewing(np.ndarray):
    """A subclass whose `view`, `shape`, `dtype` and `flags` are those of another array."""

    other = np.zeros((1,))

    def view(self, *args):
        return self.other

    shape = property(lambda self: self.other.shape)
    dtype = property(lambda self: self.other.dtype)
    flags = property(lambda self: self.other.flags)
    strides = property(lambda self: self.other.strides)


def posing_as(right, wrong):
    """The wrong array, as a subclass that answers every question as the right one would."""
    kind = type("Lying", (Viewing,), {"other": right})
    return np.ndarray.view(wrong, kind)


class Holder:
    """Lends the bytes that it holds itself: its interface names no address."""

    def __init__(self, array, held):
        self.interface = {**array.__array_interface__, "data": None, "strides": None}
        self.held = held

    @property
    def __array_interface__(self):
        return self.interface

    def __buffer__(self, flags):
        return memoryview(self.held)


class Changing:
    """Lends one array when it is first asked, and another one from then on."""

    def __init__(self, first, then):
        self.answers = [then, first]

    @property
    def __array_interface__(self):
        answer = self.answers[-1]
        self.answers = self.answers[:1]
        return answer.__array_interface__


class _Tensor(ctypes.Structure):
    """The front of what a DLPack capsule holds."""

    _fields_ = (("data", ctypes.c_void_p), ("device", ctypes.c_int32))


def on_gpu(array, address=None):
    """A capsule that says that the array is in the memory of a GPU (or at another address)."""
    capsule = array.__dlpack__()
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(read(capsule, b"dltensor"))
    if address is None:
        tensor.device = 2
    else:
        tensor.data = address
    return capsule
