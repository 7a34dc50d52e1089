"""Definitions read from the text that was written, and texts that are refused."""

import pytest

import minitensor as mt
from minitensor import ir
from minitensor.lang import definition_as_python, program_from_python
from minitensor.lang.from_python import DEEPEST, LONGEST_LINE
from minitensor.lang.workloads.registry import WORKLOADS
from minitensor.search import workload_key
from minitensor.testing import drawn, programs
from tests.hostile import HOSTILE
from tests.sent import imported

HEAD = "A = mt.placeholder((4, 6), 'float32', name='A')\n"
TAIL = "\nprogram = mt.lower([A, B], name='main')"


def of(value, line="B = mt.compute((4, 6), lambda i, j: {}, name='B')"):
    """A definition with an expression in it."""
    return HEAD + line.format(value) + TAIL


@pytest.mark.parametrize("name", WORKLOADS)
def test_named_operators(name):
    program = mt.lower(WORKLOADS[name].function(**WORKLOADS[name].small), name=name)
    made = program_from_python(definition_as_python(program))
    assert made == program
    assert workload_key(made) == workload_key(program)


@pytest.mark.slow
def test_drawn_programs_are_what_python_makes_of_the_text():
    found = [drawn(programs(), f"read {n}") for n in range(150)]
    same = 0
    for program in found:
        text = definition_as_python(program)
        made = program_from_python(text)
        assert made == imported(f"import minitensor as mt\n{text}").program, text
        same += workload_key(made) == workload_key(program)
    assert same >= 140  # where a constant took the place of a read, a stage may go or move


def several():
    A = mt.placeholder((5, 8), "int32", name="A")
    k = mt.reduce_axis(8, name="k")
    combine = mt.comm_reducer(lambda x, y: (x[0] + y[0], mt.maximum(x[1], y[1])), (0, -9), "both")
    S, M = mt.compute((5,), lambda i: combine((A[i, k], A[i, k]), axis=k), name=("S", "M"))
    n = mt.reduce_axis(3, name="n")
    F, G = mt.update(
        (5,),
        lambda F, G, i: (G[i], F[i] + G[i] * S[i]),
        axis=n,
        init=lambda i: (M[i], 1),
        dtype="int32",
        name=("F", "G"),
    )
    Z = mt.compute((), lambda: mt.if_then_else(A[0, 0] > 0, float("inf"), -1.5), name="Z")
    P = mt.compute((5,), lambda i: mt.argmax(A[i, k].astype("float64"), axis=k), name="P")
    bits = lambda i: (A[i, 0] ^ A[i, 1] & 7 | 9) + (A[i, 2] << 3) - (3 >> (A[i, 3] & 1))
    return mt.lower([A, F, G, Z, P, mt.compute((5,), bits, name="B")], name="several")


def test_all_that_can_be_written():
    program = several()
    text = definition_as_python(program)
    assert program_from_python(text) == imported(f"import minitensor as mt\n{text}").program
    assert workload_key(program_from_python(text)) == workload_key(program)


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_of_any_text_come_back_or_are_refused(name):
    A = mt.placeholder((3,), name=name)
    program = mt.lower([A, mt.compute((3,), lambda i: A[i] + 1, name=f"{name}2")], name=name)
    try:
        assert program_from_python(definition_as_python(program)).params == program.params
    except mt.ArgumentError as refusal:
        assert len(definition_as_python(program)) > LONGEST_LINE, refusal


REFUSED = {
    "A[i, j].__class__": "the attribute __class__",
    "A.shape": "the attribute shape",
    "mt.search": "the attribute search",
    "mt.build(A)": "the attribute build",
    "mt.lower([A])": "attribute lower",
    "mt.exp.__globals__": "attribute __globals__",
    "A[i, j].astype.__self__": "attribute __self__",
    "A[i, j].node": "attribute node",
    "A[i, j].astype(*'f')": "attribute astype",
    "A[i, j].astype(dtype='int32')": "attribute astype",
    "A.astype('int32')": "attribute astype",
    "__import__('os').system('true')": "attribute system",
    "__import__('os')": "the name __import__",
    "open('file', 'w')": "the name open",
    "float('1e9')": "the name float",
    "float": "the name float",
    "getattr(A, 'name')": "the name getattr",
    "[A[i, j] for i in j]": "a list comp",
    "(A[i, j] for i in j)": "a generator exp",
    "{'a': 1}": "a dict",
    "{1}": "a set",
    "f'{A}'": "a joined str",
    "b'a'": "a constant",
    "...": "a constant",
    "None": "a constant",
    "1j": "a constant",
    "(x := A[i, j])": "a named expr",
    "A[i, j] if i else 0": "an if exp",
    "A[i, j] and 1": "a bool op",
    "not A[i, j]": "an unary op",
    "~i": "an unary op",
    "+i": "an unary op",
    "A[i, j] ** 2": "a bin op",
    "A[i, j] @ 2": "a bin op",
    "9 ** 9 ** 9": "a bin op",
    "9 * 9": "arithmetic with numbers alone",
    "1 << 999999999": "arithmetic with numbers alone",
    "'a' * 999999999": "arithmetic with",
    "(0,) * 999999999": "arithmetic with a tuple",
    "A[i, j] + 'a'": "arithmetic with a constant",
    "A + A": "arithmetic with the name A",
    "-'a'": "arithmetic with",
    "1 < 2": "arithmetic with numbers alone",
    "0 < i < 3": "a compare",
    "i is j": "a compare",
    "i in A": "a compare",
    "9" * 30: "a number of more than 64 bits",
    "A[i, j, 0]": "has 2 axes",
    "A[0:1, j]": "a slice",
    "A[i, 99]": "the axis has extent",
    "A[99 + i, j]": "out of bounds",
    "A[*i]": "",
    "i[0]": "a subscript",
    "'abc'[0]": "a subscript",
    "(i, j)[7]": "a subscript",
    "(i, j)[True]": "a subscript",
    "unknown": "the name unknown",
    "mt": "the name mt",
    "lambda: i": "returned function",
    "(lambda: i)()": "a lambda",
    "mt.exp(lambda: i)": "",
    "mt.exp(*A)": "a starred",
    "mt.exp(**A)": "",
    "mt.exp(i, j, i)": "TypeError",
    "mt.exp(x=i, x=i)": "",
    "mt.power(i, 8)": "attribute power",
    "mt.abs(i)": "attribute abs",
    "mt.const('a', 'int32')": "expected a number",
    "mt.const(1, 'object')": "",
    "mt.sum(A[i, j], axis=A)": "",
    "A[i, j].astype('object')": "",
    "(": "",
    "A[i, j]; import os": "",
    "A[i, j], name='B')\nimport os\nC = (0": "line 4",
    "A[i, j]\\\n": "",
    "\x00": "",
    "\ud800": "",
    "yield i": "",
    "(yield i)": "a yield",
    "(await i)": "",
}


@pytest.mark.parametrize("value", REFUSED, ids=range(len(REFUSED)))
def test_other_expressions_are_refused(value):
    with pytest.raises(mt.ArgumentError) as refusal:
        program_from_python(of(value))
    assert "line " in refusal.value.message and REFUSED[value] in refusal.value.message


STATEMENTS = {
    "import os": "an import",
    "from os import system as B": "an import from",
    "def B(): pass": "a function def",
    "class B: pass": "a class def",
    "B: int = mt.placeholder((1,), 'int32', name='B')": "an ann assign",
    "B = C = mt.placeholder((1,), 'int32', name='B')": "an assign",
    "B += mt.placeholder((1,), 'int32', name='B')": "an aug assign",
    "mt.placeholder((1,), 'int32', name='B')": "an expr",
    "B = A": "the name A",
    "B = 1": "a constant",
    "B = lambda i: i": "a lambda",
    "mt = mt.placeholder((1,), 'int32', name='B')": "an assignment to the name mt",
    "float = mt.placeholder((1,), 'int32', name='B')": "an assignment to the name float",
    "mt.compute = mt.placeholder((1,), 'int32', name='B')": "an assignment to the attribute",
    "A[0] = mt.placeholder((1,), 'int32', name='B')": "an assignment to a subscript",
    "B, C = mt.placeholder((1,), 'int32', name='B')": "",
    "*B, = mt.placeholder((1,), 'int32', name='B')": "",
    "B = mt.search.tune(A)": "attribute tune",
    "B = mt.workloads.matmul()": "attribute matmul",
    "B = mt.intrinsic('a', [A], 'system(0);')": "attribute intrinsic",
    "B = os.placeholder((1,))": "attribute placeholder",
    "B = mt.compute((4,), lambda mt: A[mt, 0], name='B')": "a lambda",
    "B = mt.compute((4,), lambda i=0: A[i, 0], name='B')": "a lambda",
    "B = mt.compute((4,), lambda *i: A[i[0], 0], name='B')": "a lambda",
    "B = mt.compute((4,), lambda i, i: A[i, 0], name='B')": "a lambda",
    "B = mt.compute((4,), lambda i, /: A[i, 0], name='B')": "a lambda",
    "B = mt.compute((4,), A, name='B')": "a function of the indices",
    "B = mt.compute((4,), print, name='B')": "the name print",
    "B = mt.placeholder((2 ** 99,), 'int32')": "a bin op",
    "B = mt.placeholder((1 << 62, 1 << 62), 'int32')": "arithmetic with numbers",
    "B = mt.placeholder((4611686018427387904,), 'int32')": "at most",
    "B = mt.placeholder((1,), 'int32', color='B')": "has no color=",
    "if 1: B = 2": "an if",
    "while 1: pass": "a while",
    "pass": "a pass",
    "": "expected one assignment",
    "# nothing": "expected one assignment",
    " B = 1": "unexpected indent",
}


@pytest.mark.parametrize("line", STATEMENTS, ids=range(len(STATEMENTS)))
def test_other_statements_are_refused(line):
    with pytest.raises(mt.ArgumentError) as refusal:
        program_from_python(HEAD + line + TAIL)
    assert refusal.value.message.startswith("line 2 of a definition: ")
    assert STATEMENTS[line] in refusal.value.message


@pytest.mark.parametrize(
    "text",
    [
        of("+".join(["A[i, j]"] * 900)),
        of("(" * 90 + "A[i, j]" + ")" * 90 + "(" * 3000),
        of("-" * 5000 + "A[i, j]"),
        of("not " * 1900 + "A[i, j]"),
        of("A" + ".b" * 3900),
        of("A" + "[0]" * 2000),
        of("lambda: " * 900 + "i"),
        of("i if i else " * 600 + "i"),
        of("mt.abs(" * 80 + "i" + ")" * 80),
        of("mt.power(" * 80 + "A[i, j].astype('int32')" + ", 8)" * 80),
        of("9" * 7000),
        "x" * 1_000_000,
        "(" * 1_000_000,
        "-" * 1_000_000,
        "\n" * 1_000_000,
        HEAD + "x = mt.reduce_axis(4, name='x')\n" * 3000,
    ],
    ids=range(16),
)
def test_long_and_deep_texts_are_refused(text):
    with pytest.raises(mt.ArgumentError, match=r"too|at most|not of|depth|limit"):
        program_from_python(text)


def test_what_is_as_long_and_as_deep_as_is_allowed():
    deep = of("+".join(["A[i, j]"] * (DEEPEST - 20)))
    assert isinstance(program_from_python(deep), ir.Program)
    lines = "x = mt.reduce_axis(4, name='x')\n" * 1000
    assert isinstance(program_from_python(lines + of("A[i, j]")), ir.Program)


@pytest.mark.parametrize("text", [None, 3, b"A", ["A"]])
def test_what_is_no_text(text):
    with pytest.raises(mt.ArgumentError, match="expected text"):
        program_from_python(text)


def test_a_text_without_a_program():
    with pytest.raises(mt.ArgumentError, match=r"must assign what mt\.lower makes to program"):
        program_from_python(HEAD.strip())
    with pytest.raises(mt.ArgumentError, match="to other"):
        program_from_python(of("A[i, j]"), "other")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts(text):
    with pytest.raises(mt.ArgumentError, match="definition"):
        program_from_python(text)
