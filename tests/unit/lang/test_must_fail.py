"""Programs that must fail while they are written down: each with its message, word for word.

Whatever failed, the tensors it was written with can be used as before.
"""

import types

import numpy as np
import pytest

import minitensor as mt
from minitensor.errors import ArgumentError, LoweringError


def tensors():
    """What the programs are made of: A, B, I, M to read, and an axis k of B's extent."""
    return types.SimpleNamespace(
        A=mt.placeholder((4, 6), name="A"),
        B=mt.placeholder((6,), name="B"),
        I=mt.placeholder((4,), "int32", name="I"),
        M=mt.placeholder((4,), "bool", name="M"),
        k=mt.reduce_axis(6, name="k"),
    )


def element(function, shape=(4,)):
    """A tensor C whose elements are that function of the tensors and the indices."""
    if len(shape) == 2:
        return lambda t: mt.compute(shape, lambda i, j: function(t, i, j), name="C")
    return lambda t: mt.compute(shape, lambda i: function(t, i), name="C")


def lowered(function, shape=(4,)):
    """The program of such a tensor."""
    return lambda t: mt.lower([t.A, t.B, t.I, t.M, element(function, shape)(t)])


def total(t, i):
    """A sum of the row i of A."""
    return mt.sum(t.A[i, t.k], axis=t.k)


WHOLE = (
    "a reduction (sum) must be the whole expression of its tensor: give it an mt.compute of its "
    "own and use that tensor here"
)
NO_TRUTH = "has no truth value: it is symbolic: its value is known only when the kernel runs"
BOUNDS = "Pad with mt.if_then_else, or make the domain smaller"
DTYPES = "expected one of float64, float32, float16, bfloat16, int64, int32, int16, int8, uint64, "

MUST_FAIL = {
    # indices
    "too few indices": (element(lambda t, i: t.A[i]), "A has 2 axes (4, 6), but is indexed with 1"),
    "too many indices": (
        element(lambda t, i: t.B[i, i, i]),
        "B has 1 axes (6,), but is indexed with 3: B[i, i, i]",
    ),
    "an index beyond the end": (
        element(lambda t, i: t.A[4, i]),
        "index 0 of A is 4, but the axis has extent 4 (indices count from 0 and do not wrap",
    ),
    "an index from the end": (element(lambda t, i: t.B[-1]), "index 0 of B is -1, but the axis"),
    "an index of floats": (
        element(lambda t, i: t.B[t.B[i]]),
        "expected an integer as index 0 of B, but got B[i] of type float32",
    ),
    "an index of bools": (
        element(lambda t, i: t.B[t.M[i]]),
        "expected an integer as index 0 of B, but got M[i] of type bool",
    ),
    "half an index": (
        element(lambda t, i: t.B[1.5]),
        "expected an integer or a symbolic integer, but got index_0_of_B=1.5 (float)",
    ),
    "a tensor as an index": (
        element(lambda t, i: t.B[t.I]),
        "expected a number or a symbolic value as index 0 of B, but got the tensor I; index it",
    ),
    "a slice": (element(lambda t, i: t.B[0:2]), "but got index_0_of_B=slice(0, 2, None) (slice)"),
    "no index": (element(lambda t, i: t.B[None]), "but got index_0_of_B=None (NoneType)"),
    "a sum as an index": (element(lambda t, i: t.B[mt.sum(t.I[t.k], axis=t.k)]), WHOLE),
    # out of bounds
    "beyond the end": (
        lowered(lambda t, i: t.B[i + 3]),
        f"C: B[i + 3] is out of bounds: index 0 goes from 3 to 6, but axis 0 of B has extent 6. "
        f"{BOUNDS}",
    ),
    "before the start": (lowered(lambda t, i: t.B[i - 1]), "C: B[i - 1] is out of bounds: index 0"),
    "every second element": (lowered(lambda t, i: t.B[i * 2]), "goes from 0 to 6, but axis 0 of B"),
    "a matrix the other way": (
        lowered(lambda t, i, j: t.A[j, i], (4, 6)),
        "C: A[j, i] is out of bounds: index 0 goes from 0 to 5, but axis 0 of A has extent 4",
    ),
    "an axis along another": (
        lowered(lambda t, i: mt.sum(t.A[t.k, i], axis=t.k)),
        "C: A[k, i] is out of bounds: index 0 goes from 0 to 5, but axis 0 of A has extent 4",
    ),
    "numbers beyond 64 bits": (
        lowered(lambda t, i: t.B[i * (1 << 40) * (1 << 40) % 6]),
        "reaches 3626777458843887524118528, which 64-bit integers cannot hold",
    ),
    # values
    "a tensor as a value": (
        element(lambda t, i: t.B),
        "the function of C returned Tensor, which is not a symbolic value or a number; index it: B",
    ),
    "a sum of tensors": (
        element(lambda t, i: t.A + 1),
        "expected a symbolic value, but got the tensor A; index it: A[...]",
    ),
    "text": (element(lambda t, i: "x"), "the function of C returned str, which is not a symbolic"),
    "nothing": (element(lambda t, i: None), "the function of C returned NoneType, which is not"),
    "a tuple of one value": (
        element(lambda t, i: (t.B[i],)),
        "expected a symbolic value, or a tuple of at least 2 for as many tensors, but got one of 1",
    ),
    "an array": (element(lambda t, i: np.ones(3)), "the function of C returned ndarray, which is"),
    "a loop over a tensor": (
        element(lambda t, i: sum(x for x in t.B)),
        "Tensor(B: float32[6]) cannot be iterated over; index it inside mt.compute",
    ),
    # functions
    "a function of too few": (
        lambda t: mt.compute((4, 6), lambda i: t.B[i]),
        "expected a function of 2 indices (one for each axis of the shape), but got one of 1: (i)",
    ),
    "a function of too many": (
        lambda t: mt.compute((4,), lambda i, j: t.B[i]),
        "expected a function of 1 indices (one for each axis of the shape), but got one of 2",
    ),
    "a function of keywords": (
        lambda t: mt.compute((4,), lambda *, i: t.B[i]),
        "expected a function of 1 indices",
    ),
    "no function": (
        lambda t: mt.compute((4,), 3),
        "expected a function of the indices, but got fcompute=3 (int)",
    ),
    # reductions
    "an axis that is not reduced": (
        element(lambda t, i: t.A[i, t.k]),
        "k is neither an index of C nor a reduction axis given to its reduction: C = A[i, k]",
    ),
    "the axis of another": (
        element(lambda t, i: mt.sum(t.A[i, t.k] * t.B[mt.reduce_axis(6, name="z")], axis=t.k)),
        "z is neither an index of C nor a reduction axis given to its reduction",
    ),
    "an index as an axis": (
        element(lambda t, i: mt.sum(t.A[i, t.k], axis=i)),
        "expected mt.reduce_axis objects (an index of the tensor is not one), but got axis=i",
    ),
    "no axes": (
        element(lambda t, i: mt.sum(t.A[i, t.k], axis=[])),
        "expected at least one reduction axis, but got axis=[] (list)",
    ),
    "an axis twice": (
        element(lambda t, i: mt.sum(t.A[i, t.k], axis=[t.k, t.k])),
        "expected each reduction axis once, but got axis=[k, k] (list)",
    ),
    "None for an axis": (
        element(lambda t, i: mt.sum(t.A[i, t.k], axis=None)),
        "expected mt.reduce_axis objects, but got axis=None (NoneType)",
    ),
    "a sum and more": (element(lambda t, i: total(t, i) + 1), WHOLE),
    "a sum of sums": (element(lambda t, i: mt.sum(total(t, i), axis=t.k)), WHOLE),
    "a sum in a choice": (element(lambda t, i: mt.select(t.M[i], total(t, i), 0.0)), WHOLE),
    "a sum of a tensor": (
        element(lambda t, i: mt.sum(t.A, axis=t.k)),
        "expected a symbolic value, but got the tensor A",
    ),
    "a reducer of one": (
        element(lambda t, i: mt.comm_reducer(lambda a: a, 0.0)(t.A[i, t.k], axis=t.k)),
        "expected a function of two values, but got combine=",
    ),
    "a reducer of text": (
        element(lambda t, i: mt.comm_reducer(lambda a, b: "x", 0.0)(t.A[i, t.k], axis=t.k)),
        "expected a symbolic value, but got combine(x, y)='x' (str)",
    ),
    "an identity of text": (
        element(lambda t, i: mt.comm_reducer(lambda a, b: a + b, "x")(t.A[i, t.k], axis=t.k)),
        "expected a number, but got identity='x' (str)",
    ),
    # types
    "% of floats": (
        element(lambda t, i: t.B[i] % 2.0),
        "% is for integers, but got float32; write mt.floor(a / b) for floats",
    ),
    "// of floats": (element(lambda t, i: t.B[i] // 2.0), "// is for integers, but got float32"),
    "if of an element": (element(lambda t, i: t.B[i] if t.M[i] else 0.0), f"M[i] {NO_TRUTH}"),
    "if of a comparison": (element(lambda t, i: 1.0 if i < 2 else 0.0), f"i < 2 {NO_TRUTH}"),
    "a chain of comparisons": (element(lambda t, i: 0 < i < 2), f"0 < i {NO_TRUTH}"),
    "text to choose": (
        element(lambda t, i: mt.select(t.M[i], t.B[i], "x")),
        "expected a number or a symbolic value, but got operand='x' (str)",
    ),
    "a number that does not fit": (
        element(lambda t, i: t.I[i] + 2**40),
        "the number 1099511627776 does not fit int32; convert with .astype",
    ),
    "an unknown type to convert to": (
        element(lambda t, i: t.B[i].astype("float128")),
        DTYPES,
    ),
    # placeholders and axes
    "a negative extent": (
        lambda t: mt.placeholder((-1,)),
        "expected extents that are integers >= 0, but got shape=(-1,) (tuple)",
    ),
    "half an extent": (lambda t: mt.placeholder((2.5,)), "but got shape=(2.5,) (tuple)"),
    "a shape of text": (
        lambda t: mt.placeholder("4"),
        "expected a tuple of extents, but got shape='4' (str)",
    ),
    "no shape": (lambda t: mt.placeholder(None), "expected a tuple of extents, but got shape=None"),
    "too many elements": (
        lambda t: mt.placeholder((1 << 41,)),
        "expected at most 2**40 elements, but got shape=(2199023255552,) (tuple)",
    ),
    "too many axes": (lambda t: mt.placeholder((1,) * 33), "expected at most 32 axes, but got"),
    "an unknown type": (lambda t: mt.placeholder((2,), "int"), "bool, but got dtype='int' (str)"),
    "no type": (lambda t: mt.placeholder((2,), None), "bool, but got dtype=None (NoneType)"),
    "a number for a name": (
        lambda t: mt.placeholder((2,), name=3),
        "expected a string of at most 10000 characters, but got name=3 (int)",
    ),
    "an axis that ends before it starts": (
        lambda t: mt.reduce_axis((3, 1)),
        "expected an extent or a pair (start, stop) with start <= stop, but got dom=(3, 1) (tuple)",
    ),
    "half an axis": (lambda t: mt.reduce_axis(2.5), "but got dom=2.5 (float)"),
    "an axis of three": (lambda t: mt.reduce_axis((0, 1, 2)), "but got dom=(0, 1, 2) (tuple)"),
    # programs
    "no tensors": (lambda t: mt.lower([]), "nothing to compute: the list of tensors is empty"),
    "placeholders alone": (
        lambda t: mt.lower([t.A, t.B]),
        "nothing to compute: every tensor listed is a placeholder",
    ),
    "a tensor twice": (lambda t: mt.lower([t.A, *[right(t)] * 2]), "D is listed twice among the"),
    "an input that is not listed": (
        lambda t: mt.lower([t.B, right(t)]),
        "the placeholder A is needed, but is not among the tensors given to lower",
    ),
    "a number for a tensor": (lambda t: mt.lower([t.A, 3]), "expected tensors, but got tensors=3"),
    "text for tensors": (lambda t: mt.lower("A"), "expected a list of tensors, but got tensors="),
    "a pair for a tensor": (
        lambda t: mt.lower([t.A, (t.A, t.B)]),
        "expected tensors, but got a tuple of them",
    ),
    # updates
    "an update of the wrong rank": (
        lambda t: mt.update((4,), lambda W, i: W[i, i], name="W"),
        "W has 1 axes (4,), but is indexed with 2: W[i, i]",
    ),
    "an update of nothing": (
        lambda t: mt.lower([t.A, mt.update((4,), lambda W, i: W[i] + 1.0, name="W")]),
        "the first visit of W reads W before anything was written; give what it holds before as",
    ),
}
"""What is written, and what the message holds."""


def right(t):
    """A tensor that is right: the sums of the rows of A."""
    return mt.compute((4,), lambda i: mt.sum(t.A[i, t.k], axis=t.k), name="D")


@pytest.mark.parametrize("name", MUST_FAIL)
def test_programs_that_must_fail(name):
    write, message = MUST_FAIL[name]
    t = tensors()
    for _ in range(2):  # the second time as the first
        with pytest.raises((ArgumentError, LoweringError)) as caught:
            write(t)
        assert message in caught.value.message
        assert "\n" not in caught.value.message
        assert len(caught.value.message) < 500
    program = mt.lower([t.A, right(t)])
    a = np.arange(24, dtype="f4").reshape(4, 6)
    np.testing.assert_array_equal(mt.interpret(program, a), a.sum(1))


def test_there_are_at_least_sixty():
    assert len(MUST_FAIL) >= 60
    assert len({message for _, message in MUST_FAIL.values()}) >= 60
