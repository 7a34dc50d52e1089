"""Programs put together by hand from what no node may hold: text for numbers, numbers for names."""

import sys

import pytest

from minitensor.errors import VerifyError
from minitensor.ir import (
    FLOAT32,
    INDEX,
    Binary,
    Block,
    Buffer,
    Call,
    Cast,
    Const,
    DType,
    For,
    Iter,
    IterKind,
    Load,
    Program,
    Ramp,
    Seq,
    Store,
    Var,
    verify,
)

TEXT = '1); system("x"); (1'


def odd(value=None, index=None, dtype=FLOAT32, extent=4, name="i", **buffer):
    """C[v] = A[v] with something wrong in it."""
    v = Var("v", INDEX)
    value = Load("A", (v,), FLOAT32) if value is None else value
    store = Store("C", (v if index is None else index,), value)
    block = Block("C", (Iter("v", 4, IterKind.SPATIAL, Var("i", INDEX)),), store)
    params = (Buffer("A", (4,), FLOAT32), Buffer("C", (4,), dtype, **buffer))
    return Program("p", params, (), For(name, extent, block))


A0 = Load("A", (Var("v", INDEX),), FLOAT32)
ODD = {
    "a constant of text": lambda: odd(Const(TEXT, FLOAT32)),
    "an index of text": lambda: odd(index=Const(TEXT, INDEX)),
    "an index of 65 bits": lambda: odd(index=Const(1 << 63, INDEX)),
    "a number that is no int": lambda: odd(index=Const(type("I", (int,), {})(3), INDEX)),
    "an extent of text": lambda: odd(extent=TEXT),
    "an operation of text": lambda: odd(Binary(TEXT, A0, A0)),
    "a function of text": lambda: odd(Call(TEXT, (A0,), FLOAT32)),
    "a conversion to text": lambda: odd(Cast(TEXT, A0)),
    "a conversion to no type": lambda: odd(Cast(DType(TEXT), A0)),
    "elements of text": lambda: odd(dtype=TEXT),
    "elements of no type": lambda: odd(dtype=DType(TEXT)),
    "a scope of text": lambda: odd(scope=TEXT),
    "an alignment of text": lambda: odd(alignment=((TEXT, TEXT, TEXT),)),
    "an alignment that is none": lambda: odd(alignment=TEXT),
    "a shape of text": lambda: Program("p", (Buffer("A", (TEXT,), FLOAT32),), (), Seq(())),
    "text for a value": lambda: odd(TEXT),
    "text for a body": lambda: Program("p", (Buffer("A", (4,), FLOAT32),), (), TEXT),
    "text for parameters": lambda: Program("p", TEXT, (), Seq(())),
    "a step of text": lambda: odd(index=Ramp(Const(0, INDEX), TEXT, 4)),
    "a number for a program's name": lambda: Program(3, (), (), Seq(())),
    "a number for a loop's name": lambda: odd(name=3),
    "nothing for a buffer's name": lambda: Program("p", (Buffer(None, (), FLOAT32),), (), Seq(())),
}


@pytest.mark.parametrize("name", ODD)
def test_nodes_that_hold_what_they_should_not(name):
    program = ODD[name]()
    for _ in range(2):  # it is not remembered as well-formed
        with pytest.raises(VerifyError, match=r"breaks V[145]: ") as caught:
            verify(program)
        assert "\n" not in caught.value.message


def test_a_verified_program_is_not_looked_at_again(monkeypatch):
    program = odd()
    verify(program)
    monkeypatch.setattr(sys.modules[verify.__module__], "_Verifier", None)
    verify(program)
    with pytest.raises(VerifyError, match="not callable"):
        verify(program.replace(name="q"))
