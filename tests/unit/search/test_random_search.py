"""The random search, in the interpreter: no compiler is needed."""

import pytest

import minitensor as mt
from minitensor.search import FailureKind, random_search


def program():
    return mt.lower(mt.workloads.matmul(m=4, n=4, k=3), name="matmul")


def space(s):
    """12 schedules: 3 x 2 x 2."""
    i, j, _ = s.get_loops("C")
    rows = s.sample_categorical([1, 2, 4])
    columns = s.sample_categorical([2, 4])
    s.split(i, [None, rows])
    j_0, j_1 = s.split(j, [None, columns])
    s.vectorize(j_1)
    if s.sample_categorical([0, 1]):
        s.unroll(j_0)


def search(space=space, **given):
    return random_search(
        program(), space, **{"trials": 5, "target": "interpreter", "seed": 0, **given}
    )


def test_the_best_of_what_was_tried():
    result = search()
    assert len(result.trials) == 5
    assert result.seconds == min(t.seconds for t in result.trials)
    best = result.best(2)
    assert best[0].seconds == result.seconds
    assert best[0].trace == result.trace == result.schedule.trace
    assert best[0].seconds <= best[1].seconds
    assert not result.interrupted
    assert result.failures == {}
    assert result.target.kind == "interpreter"
    assert len(result.best(99)) == 5
    assert "5 candidates, 0 failed; best" in str(result)


def test_the_best_can_be_built_and_replayed():
    result = search()
    replayed = result.trace.apply(program())
    assert str(replayed.program) == str(result.schedule.program)
    assert result.kernel().target.kind == "interpreter"


def test_a_seed_gives_the_same_candidates():
    first, second, other = (search(seed=seed) for seed in (7, 7, 8))
    assert [t.trace for t in first.trials] == [t.trace for t in second.trials]
    assert [t.trace for t in first.trials] != [t.trace for t in other.trials]


def test_nothing_is_tried_twice_and_an_empty_space_ends_the_search():
    result = search(trials=100)
    assert len(result.trials) == 12
    assert len({t.trace.to_json() for t in result.trials}) == 12
    assert {t.choices for t in result.trials} == {
        (rows, columns, flag) for rows in (1, 2, 4) for columns in (2, 4) for flag in (0, 1)
    }


def failing(s):
    """One choice in three works."""
    choice = s.sample_categorical(["works", "refused", "mistaken"])
    if choice == "refused":
        s.vectorize("k")
    if choice == "mistaken":
        raise LookupError("the template has a mistake\nand a second line")


def test_failures_are_recorded_with_their_reason():
    seen = []
    result = search(failing, trials=10, callback=seen.append)
    assert result.failures == {"refused": 1, "template error": 1}
    assert tuple(seen) == result.trials
    by_kind = {trial.failure: trial for trial in result.trials}
    assert by_kind[FailureKind.REFUSED].reason.startswith('vectorize("k") breaks R2')
    assert by_kind[FailureKind.REFUSED].seconds is None
    mistaken = by_kind[FailureKind.TEMPLATE]
    assert mistaken.reason == "LookupError: the template has a mistake"
    assert by_kind[None].choices == ("works",)
    assert "2 failed (" in str(result)


def test_if_nothing_works_the_first_reason_is_told():
    def hopeless(s):
        s.split("i", [None, s.sample_categorical([2, 4])], tail="exact")
        s.vectorize("k")

    with pytest.raises(
        mt.TuningError, match=r"all 2 candidates failed; the first was refused: vec"
    ):
        search(hopeless)
    with pytest.raises(mt.TuningError, match="the only candidate failed") as caught:
        search(lambda s: 1 / 0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_ctrl_c_keeps_what_there_is():
    def impatient(trial):
        if trial.number == 3:
            raise KeyboardInterrupt

    result = search(callback=impatient)
    assert result.interrupted
    assert len(result.trials) == 3
    assert result.seconds > 0
    assert "(interrupted)" in str(result)


def test_ctrl_c_with_nothing_to_keep_is_ctrl_c():
    def impatient(trial):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(lambda s: s.vectorize("k"), callback=impatient)


def test_an_error_of_the_callback_is_the_callers():
    def broken(trial):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        search(callback=broken)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"trials": 0}, "an integer >= 1"),
        ({"trials": 2.5}, "an integer >= 1"),
        ({"trials": True}, "an integer >= 1"),
        ({"space": 3}, "a function of a Schedule"),
        ({"seed": -1}, "an integer >= 0"),
        ({"callback": 3}, "a function of a Trial"),
        ({"inputs": []}, r"2 arrays \(A, B\)"),
        ({"target": "toaster"}, "one of"),
    ],
)
def test_arguments_that_make_no_sense(given, expected):
    with pytest.raises(mt.ArgumentError, match=expected):
        search(**given)


def test_a_schedule_is_not_a_program():
    with pytest.raises(mt.ArgumentError, match="a program"):
        random_search(mt.Schedule(program()), space, trials=1)


def test_best_counts():
    for count in (0, True, 1.5):
        with pytest.raises(mt.ArgumentError, match="an integer >= 1"):
            search(trials=1).best(count)


def test_without_a_compiler_nothing_is_tried(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    tried = []
    with pytest.raises(mt.CompileError, match="no C compiler"):
        random_search(program(), tried.append, trials=3)
    assert tried == []
