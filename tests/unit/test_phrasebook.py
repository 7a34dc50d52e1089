"""Names of other systems: the message says what to write here, and what it says exists."""

import copy
import inspect
import math
import operator
import re

import numpy as np
import pytest

import minitensor as mt
from minitensor.phrasebook import PHRASES


def product(n=8):
    A, B = (mt.placeholder((n, n), name=name) for name in "AB")
    k = mt.reduce_axis(n, name="k")
    C = mt.compute((n, n), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
    return mt.lower([A, B, C]), C


HOLDERS = {
    "mt": lambda: mt,
    "schedule": lambda: mt.Schedule(product()[0]),
    "tensor": lambda: product()[1],
    "kernel": lambda: mt.build(product()[0], target="interpreter"),
}
NAMES = [(holder, name) for holder in HOLDERS for name in PHRASES[holder]]


@pytest.mark.parametrize("holder, name", NAMES)
def test_an_old_name_is_answered_with_the_new_call(holder, name):
    subject, phrase = HOLDERS[holder](), PHRASES[holder][name]
    with pytest.raises(AttributeError) as caught:
        getattr(subject, name)
    assert isinstance(caught.value, mt.MinitensorError)
    assert phrase.here.removeprefix("nothing") in str(caught.value)
    assert all(f"{system}'s" in str(caught.value) for system in phrase.there.split(", ") if system)
    assert not hasattr(subject, name)


def _calls(text, prefix):
    return re.findall(rf"\b{prefix}\.([a-z_A-Z]+)", text)


def test_what_the_phrasebook_says_exists():
    """No answer names what does not exist either."""
    schedule, kernel = HOLDERS["schedule"](), HOLDERS["kernel"]()
    for phrases in PHRASES.values():
        for phrase in phrases.values():
            for name in _calls(phrase.here, "mt"):
                assert hasattr(mt, name), phrase
            for name in _calls(phrase.here, "s"):
                assert name == "sample_" or hasattr(schedule, name), phrase
            for name in _calls(phrase.here, "kernel"):
                assert hasattr(kernel, name), phrase


def test_no_name_of_ours_is_in_it():
    for holder, subject in HOLDERS.items():
        assert not set(PHRASES[holder]) & set(dir(subject()))
    assert not set(PHRASES["tune"]) & set(inspect.signature(mt.tune).parameters)


def test_what_is_misspelt_is_answered_with_what_is_like_it():
    with pytest.raises(AttributeError, match="minitensor has no Scheduler; there is Schedule"):
        mt.Scheduler  # noqa: B018
    with pytest.raises(AttributeError, match="a Schedule has no vectorise; there is vectorize"):
        HOLDERS["schedule"]().vectorise("i")
    with pytest.raises(AttributeError, match="a Kernel has no timing; there is time"):
        HOLDERS["kernel"]().timing()
    with pytest.raises(AttributeError, match=r"^a Tensor has no zzz$"):
        product()[1].zzz  # noqa: B018


def test_names_that_python_asks_for_are_plain():
    for subject in (make() for make in HOLDERS.values()):
        with pytest.raises(AttributeError) as caught:
            subject._ipython_display_  # noqa: B018
        assert not isinstance(caught.value, mt.MinitensorError)
    schedule = HOLDERS["schedule"]()
    assert str(copy.copy(schedule).program) == str(schedule.program)


def test_an_unknown_name_travels_between_processes():
    with pytest.raises(AttributeError) as caught:
        mt.te  # noqa: B018
    again = copy.copy(caught.value)  # by what a process would send
    assert str(again) == str(caught.value) and type(again) is type(caught.value)


def test_a_schedule_is_not_indexed():
    program, C = product()
    with pytest.raises(mt.ArgumentError, match=r"s\[C\] is TVM's; .*s\.split\(i, \[None, 8\]\)"):
        mt.Schedule(program)[C]


@pytest.mark.parametrize(
    "given, call", [({"factor": 8}, "[None, factor]"), ({"nparts": 4}, "[nparts, None]")]
)
def test_the_arguments_of_a_split(given, call):
    s = HOLDERS["schedule"]()
    with pytest.raises(mt.ScheduleError) as caught:
        s.split("i", **given)
    assert call in caught.value.message and caught.value.rule == "A2"
    assert len(s.trace) == 0


@pytest.mark.parametrize("name", PHRASES["tune"])
def test_the_arguments_of_a_search(name):
    with pytest.raises(mt.ArgumentError, match=f"has no {name}="):
        mt.tune(product()[0], **{name: 8})


def test_a_search_does_not_take_what_is_misspelt():
    with pytest.raises(mt.ArgumentError, match="has no trial=; there is trials"):
        mt.tune(product()[0], trial=8)


def test_loops_may_stand_in_a_list():
    s, other = HOLDERS["schedule"](), HOLDERS["schedule"]()
    s.reorder(["k", "i"])
    other.reorder("k", "i")
    assert s.trace == other.trace
    assert s.fuse(list(s.get_loops("C")[:2])) == other.fuse(*other.get_loops("C")[:2])


# ---- the habits of numpy


def value_of(expression, a):
    A = mt.placeholder(a.shape, str(a.dtype), name="A")
    program = mt.lower([A, mt.compute(a.shape, lambda i: expression(A[i]), name="B")])
    return mt.interpret(program, a)


def test_operators_with_numbers_of_numpy():
    a = np.array([-1.5, 0.0, 0.25, 2.5], "f")
    three, four = np.float32(3), np.float32(4)
    for f in (operator.add, operator.sub, operator.mul, operator.truediv):
        ours = value_of(lambda x, f=f: f(three, x + four), a)
        np.testing.assert_array_equal(ours, f(three, a + four))


@pytest.mark.parametrize(
    "function, ours",
    [
        (np.exp, "mt.exp"),
        (np.absolute, "mt.abs"),
        (np.rint, "mt.round"),
        (lambda x: np.maximum(x, 0), "mt.maximum"),
        (lambda x: np.power(x, 2), "mt.power"),
        (lambda x: np.logical_and(x, x), "mt.logical_and"),
    ],
)
def test_functions_of_numpy_are_answered_with_ours(function, ours):
    A = mt.placeholder((4,), name="A")
    with pytest.raises(mt.ArgumentError, match=rf"is symbolic; write {ours}$"):
        mt.compute((4,), lambda i: function(A[i]))
    assert hasattr(mt, ours.removeprefix("mt."))


def test_comparisons_with_numbers_of_numpy():
    a = np.arange(4, dtype="int32")
    for compare in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal):
        ours = value_of(lambda x, f=compare: f(np.int32(2), x).astype("int32"), a)
        assert ours.tolist() == compare(np.int32(2), a).astype("int32").tolist()


def test_functions_that_there_are_not():
    A = mt.placeholder((4,), name="A")
    with pytest.raises(
        mt.ArgumentError, match=r"np\.arctan is for numbers, and A\[i\] is symbolic; see"
    ):
        mt.compute((4,), lambda i: np.arctan(A[i]))
    with pytest.raises(mt.ArgumentError, match=r"a reduction is mt\.sum\(…, axis=k\)"):
        mt.compute((4,), lambda i: np.add.reduce(A[i]))
    with pytest.raises(mt.ArgumentError, match="expected a number or a symbolic value"):
        mt.compute((4,), lambda i: np.ones(4, "f") * A[i])


@pytest.mark.parametrize(
    "reduce, hint",
    [
        (lambda x: mt.max(x, 0), r"mt\.maximum\(a, b\)"),
        (lambda x: mt.min(x, 0.0), r"mt\.minimum\(a, b\)"),
        (lambda x: mt.any(x > 0, x < 1), r"mt\.logical_or\(a, b\)"),
        (lambda x: mt.all(x > 0, x < 1), r"mt\.logical_and\(a, b\)"),
        (lambda x: mt.sum(x), r"k = mt\.reduce_axis\(n\), axis=k"),
        (lambda x: mt.argmax(x), r"k = mt\.reduce_axis\(n\), axis=k"),
    ],
)
def test_a_reduction_without_an_axis(reduce, hint):
    A = mt.placeholder((4,), name="A")
    with pytest.raises(mt.ArgumentError, match=hint):
        mt.compute((4,), lambda i: reduce(A[i]))


def test_symbolic_extents():
    n = mt.var("n")
    with pytest.raises(mt.ArgumentError, match="a kernel is built for one size"):
        mt.placeholder((n, 4), name="A")
    with pytest.raises(mt.ArgumentError, match="a kernel is built for one size"):
        mt.compute((n,), lambda i: i)
    with pytest.raises(mt.ArgumentError, match="a kernel is built for one size"):
        mt.reduce_axis((0, n))


def test_a_name_of_another_system_is_imported():
    with pytest.raises(ImportError, match=r"has no te, which is TVM's; here it is mt\.placeholder"):
        from minitensor import te  # noqa: F401, PLC0415
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from minitensor import nothing  # noqa: F401, PLC0415


def test_what_collects_keywords_is_no_suggestion():
    with pytest.raises(mt.ArgumentError, match=r"no booster=, which is xgboost's; .* model="):
        mt.tune(product()[0], booster=None)
    with pytest.raises(mt.ArgumentError, match=r"tune\(\) has no other=; it takes program, "):
        mt.tune(product()[0], other=None)


def test_a_step_of_a_schedule_shows_its_arguments():
    step = mt.Schedule(product()[0]).split
    assert repr(step) == "<primitive split(loop, factors, *, tail='guard')> of a schedule"


@pytest.mark.parametrize(
    "typed, said",
    [
        (
            lambda A, p: A[0:3, 0],
            r"integer \(a slice is an mt\.compute of its own\), but got index_0_of_A=slice",
        ),
        (lambda A, p: math.exp(A[0, 0]), r"A\[0, 0\] is symbolic, no number: for math\.exp, mt\.e"),
        (lambda A, p: mt.tune(p, 10), r"trials= has a name\), but got target=10"),
        (lambda A, p: mt.build(A), r"a schedule or a program \(see mt\.lower\)"),
    ],
)
def test_habits_of_python_and_numpy(typed, said):
    program, _ = product()
    with pytest.raises(mt.ArgumentError, match=said):
        typed(mt.placeholder((4, 4), name="A"), program)


@pytest.mark.parametrize(
    "call", [np.sum, np.mean, np.exp, np.transpose, np.asarray, lambda A: np.matmul(A, A)]
)
def test_functions_of_numpy_take_no_tensor(call):
    """np.sum gave the tensor itself."""
    with pytest.raises(mt.ArgumentError, match=r"is for arrays, and Tensor\(A.* write "):
        call(mt.placeholder((4, 4), name="A"))
