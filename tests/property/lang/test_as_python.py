"""Definitions as Python: every operator inside every other comes back as it was."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

import minitensor as mt
from minitensor import ir
from minitensor.lang import definition_as_python
from tests.sent import imported

INTEGERS = {
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
}
OPERATORS = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "<": lambda x, y: x < y,
    "==": lambda x, y: x == y,
    "neg": lambda x, y: -x,
    "min": mt.minimum,
    "and": mt.logical_and,
    "not": lambda x, y: mt.logical_not(x),
    "select": lambda x, y: mt.select(x < y, x, y),
    "if": lambda x, y: mt.if_then_else(x < y, y, x),
    "cast": lambda x, y: x.astype("int32"),
    "narrow": lambda x, y: x.astype("float16"),
    "exp": lambda x, y: mt.exp(x),
    **INTEGERS,
}


def applied(name, x, y):
    """An operator applied to numbers of a type that it takes."""
    if name in INTEGERS:
        x, y = (v if v.dtype in ("int32", "index") else v.astype("int32") for v in (x, y))
    elif name not in ("and", "not"):
        x, y = (v.astype("int32") if v.dtype == "bool" else v for v in (x, y))
    return OPERATORS[name](x, y)


def program_of(build):
    """The definition of `build(a, b, n, i)`: two float32, an int32, an index."""
    A, B = (mt.placeholder((5,), "float32", name=name) for name in "AB")
    N = mt.placeholder((5,), "int32", name="N")
    C = mt.compute((5,), lambda i: build(A[i], B[i], N[i], i), name="C")
    return mt.lower([A, B, N, C])


def again(program):
    text = definition_as_python(program)
    return imported(f"import minitensor as mt\n{text}").program, text


def test_every_operator_inside_every_other():
    for outer, inner in itertools.product(OPERATORS, repeat=2):
        for build in (
            lambda a, b, n, i, p=outer, q=inner: applied(p, applied(q, a, b), n),
            lambda a, b, n, i, p=outer, q=inner: applied(p, a, applied(q, n, b)),
            lambda a, b, n, i, p=outer, q=inner: applied(p, applied(q, i, n), applied(q, n, i)),
        ):
            program = program_of(build)
            made, text = again(program)
            assert made == program, f"{outer}({inner}): {text}"


NUMBERS = st.sampled_from((-3, 2, -1.5, 0.25))
TREES = st.recursive(
    st.sampled_from("abni"),
    lambda below: st.tuples(st.sampled_from(sorted(OPERATORS)), below, below | NUMBERS),
    max_leaves=8,
)


def value_of(tree, names):
    if isinstance(tree, tuple):
        name, x, y = tree
        return applied(name, value_of(x, names), value_of(y, names))
    if isinstance(tree, str):
        return names[tree]
    return mt.const(tree, "int32" if isinstance(tree, int) else "float32")


def computes_with_numbers_alone(program):
    """True if simplification left an operation on constants: Python gives another constant."""
    for node in ir.walk(program.body):
        below = [part for part in ir.children(node) if hasattr(part, "dtype")]
        divides = isinstance(node, ir.Binary) and node.op in INTEGERS
        if divides and isinstance(below[1], ir.Const) and below[1].value == 0:
            return True
        if below and all(isinstance(part, ir.Const) for part in below):
            return True
    return False


@settings(max_examples=150, deadline=None)
@given(TREES)
def test_drawn_trees(tree):
    try:
        program = program_of(lambda a, b, n, i: value_of(tree, {"a": a, "b": b, "n": n, "i": i}))
    except mt.MinitensorError:  # a division by a constant 0
        return
    if not computes_with_numbers_alone(program):
        made, text = again(program)
        assert made == program, text


def test_a_constant_index_is_written_in_terms_of_an_index():
    """As what it was before it was simplified: a conversion and a selection keep its type."""
    for build in (
        lambda a, b, n, i: a * (i - i + 1).astype("float32"),
        lambda a, b, n, i: mt.select(a < b, i - i + 3, i),
    ):
        program = program_of(build)
        made, text = again(program)
        assert made == program, text
