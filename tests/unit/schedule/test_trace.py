"""Traces: as JSON, as Python, and what is refused as a trace."""

import ast
import contextlib
import json
import math
import pathlib
from dataclasses import replace

import pytest

import minitensor as mt
from minitensor.schedule import REGISTRY, IndexMap, Ref, Step
from tests.unit.schedule.common import check, run_as_python
from tests.unit.schedule.programs import chain, chain2d, grid, matmul, matmul_relu, rowsum, scale

ROOT = pathlib.Path(mt.__file__).parents[1]


def everything():
    """A schedule with a step of nearly every kind."""
    s = mt.Schedule(matmul_relu(4, 8, 6), seed=0)
    tile = s.sample_perfect_tile("i", 2, decision=[2, 2])
    i0, i1 = s.split("i", tile)
    j0, j1 = s.split("j", [None, s.sample_categorical([2, 4], decision=1)])
    k0, k1 = s.split("k", [3, 2], tail="exact")
    s.reorder(i0, j0, k0, k1, i1, j1)
    x, _ = s.reverse_compute_at("D", j0)
    packed = s.cache_read("C", "B", "global")
    s.transform_layout(packed, lambda r, c: (c // 4, r, c % 4))
    s.set_scope("C", "local")
    s.storage_align("C", 0, 16, offset=8)
    init = s.decompose_reduction("C", k0)
    s.annotate(init, "note", 'it\'s "quoted"\n')
    s.unroll(k1)
    s.vectorize(j1)
    s.add_unit_loop(x)
    fused = s.fuse(i0, j0)
    s.parallel(fused)
    s.annotate(packed, "gone", 1.5)
    s.unannotate(packed, "gone")
    return s


# ---- JSON


def test_a_trace_is_json_with_a_version():
    s = mt.Schedule(scale(20))
    s.split("i", [None, 8])
    s.parallel("i_0")
    assert json.loads(s.trace.to_json()) == {
        "minitensor_trace": 2,
        "steps": [
            {
                "primitive": "split",
                "arguments": {"loop": "i", "factors": [None, 8], "tail": "guard"},
                "result": ["i_0", "i_1"],
            },
            {"primitive": "parallel", "arguments": {"loop": {"ref": [0, 0]}}, "result": None},
        ],
    }


def test_a_trace_of_everything_round_trips():
    s = everything()
    check(s)
    assert mt.Trace.from_json(s.trace.to_json()) == s.trace
    assert len(s.trace) == len(s.trace.steps) == 20


def test_an_empty_trace():
    s = mt.Schedule(scale())
    assert len(s.trace) == 0
    assert s.trace.as_python() == ""
    assert s.trace.decisions == {}
    assert mt.Trace.from_json(s.trace.to_json()) == mt.Trace()
    check(s)


def test_index_maps_round_trip():
    s = mt.Schedule(chain2d(4, 8))
    s.transform_layout("B", lambda i, j: ((i * 8 + j - 3 + 3) // 5, (i * 8 + j) % 5))
    check(s)
    (step,) = json.loads(s.trace.to_json())["steps"]
    assert step["arguments"]["index_map"]["inputs"] == ["i", "j"]


def test_what_is_unknown_beside_the_steps_is_ignored():
    s = mt.Schedule(scale())
    s.parallel("i")
    data = json.loads(s.trace.to_json())
    data["note"] = "from elsewhere"
    data["steps"][0]["seconds"] = 1.5
    assert mt.Trace.from_json(json.dumps(data)) == s.trace


def test_a_trace_applies_to_another_program_where_its_names_fit():
    s = mt.Schedule(scale(20))
    s.parallel(s.split("i", [None, 8])[0])
    twin = s.trace.apply(scale(100))
    assert twin.program.body.extent == 13
    check(twin)
    with pytest.raises(mt.ScheduleError, match=r"breaks A1: .*no loop 'i'") as caught:
        s.trace.apply(matmul_loops_renamed())
    assert caught.value.step == 1


def matmul_loops_renamed():
    A = mt.placeholder((4,), name="A")
    return mt.lower([A, mt.compute((4,), lambda p: A[p], name="C")])


def test_apply_says_at_which_step_it_was_refused():
    s = everything()
    with pytest.raises(mt.ScheduleError) as caught:
        s.trace.apply(matmul(4, 8, 6))
    assert caught.value.step == 7
    assert str(caught.value).endswith("(step 7 of this schedule)")


def test_apply_checks_what_it_is_given():
    for program in (None, "program", mt.Schedule(scale()), 3):
        with pytest.raises(mt.ArgumentError, match="expected a program"):
            mt.Trace().apply(program)


def test_replay_continues_a_schedule():
    first = mt.Schedule(scale(20))
    first.split("i", [None, 8])
    s = mt.Schedule(scale(20))
    s.annotate("i", "note", 1)
    assert s.replay(first.trace) is s
    assert len(s.trace) == 2
    check(s)
    with pytest.raises(mt.ScheduleError) as caught:
        s.replay(first.trace)
    assert caught.value.step == 3
    assert len(s.trace) == 2


def test_references_of_a_replayed_trace_are_its_own():
    first = mt.Schedule(grid(4, 8))
    outer, _ = first.split("j", [2, 4])
    first.reorder(outer, "i")
    s = mt.Schedule(grid(4, 8))
    s.annotate("i", "note", 1)
    s.replay(first.trace)
    assert s.trace.steps[2].arguments["loops"] == (Ref(1, 0), "i")
    check(s)


def test_apply_without_checks_gives_the_same():
    s = everything()
    fast = s.trace.apply(s._history[0], check=False)
    assert fast.program == s.program


# ---- Python


def test_as_python_writes_the_script_back():
    s = mt.Schedule(rowsum(4, 12))
    k0, _ = s.split("k", [3, None])
    copy = s.rfactor(k0, axis=1)
    s.annotate(copy, "depth", 16)
    s.split("i", [None, 2], tail="cut")
    assert s.trace.as_python("sch").splitlines() == [
        "k_0, k_1 = sch.split('k', [3, None])",
        "C_rf = sch.rfactor(k_0, axis=1)",
        "sch.annotate(C_rf, 'depth', 16)",
        "i_0, i_1 = sch.split('i', [None, 2], tail='cut')",
    ]
    check(s)


def test_as_python_of_decisions():
    s = mt.Schedule(scale(24), seed=0)
    tile = s.sample_perfect_tile("i", 2, max_innermost_factor=8, decision=[4, 6])
    depth = s.sample_categorical([0, 16], probs=[1, 3], decision=1)
    outer, _ = s.split("i", tile)
    s.annotate(outer, "depth", depth)
    s.split(outer, [tile[0], 1])
    assert s.trace.as_python().splitlines() == [
        "v0 = s.sample_perfect_tile('i', 2, max_innermost_factor=8, decision=[4, 6])",
        "v1 = s.sample_categorical([0, 16], probs=[1.0, 3.0], decision=1)",
        "i_0, i_1 = s.split('i', v0)",
        "s.annotate(i_0, 'depth', v1)",
        "i_0_0, i_0_1 = s.split(i_0, [v0[0], 1])",
    ]
    check(s)


NAMES = ["my tensor!", "if", "s", "é", "a'b", 'a"b', "x" * 60, "i_0", "local", "v0", "None", "\n"]


@pytest.mark.parametrize("name", NAMES)
def test_as_python_of_names_of_every_kind(name):
    A = mt.placeholder((6,), name=name)
    B = mt.compute((6,), lambda i: A[i] * 2.0, name=name + "B")
    C = mt.compute((6,), lambda j: B[j] + 1.0, name="C")
    s = mt.Schedule(mt.lower([A, C]), seed=0)
    producer = s.get_blocks()[0]
    j0, j1 = s.split("j", s.sample_perfect_tile("j", 2))
    s.compute_at(producer, j0)
    copy = s.cache_read("C", s.get_producers("C")[0], "local")
    s.annotate(copy, name, name)
    s.cache_write(producer, "local")
    s.unroll(j1)
    check(s)


def test_as_python_keeps_names_of_python_apart():
    A = mt.placeholder((8,), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((8,), lambda float: A[float], name="C")]))
    s.split("float", [None, 4])
    s.annotate("float_0", "k", 1.5)
    s.sample_categorical([1.0, 2.0], probs=[1.0, 3.0])
    check(s)
    wide = mt.Trace((Step("annotate", {"target": "C", "key": "k", "value": math.inf}, "float"),))
    assert wide.as_python() == "float_ = s.annotate('C', 'k', float('inf'))"


def test_as_python_of_names_that_python_takes_for_others():
    """Python reads "ﬁ" as "fi": a variable so called would be another one."""
    A = mt.placeholder((8,), name="A")
    C = mt.compute((8,), lambda i: A[i] * 2.0, name="ﬁ")
    D = mt.compute((8,), lambda i: C[i] + 1.0, name="fi")
    s = mt.Schedule(mt.lower([A, D]))
    first = s.cache_write("ﬁ", "local")
    second = s.cache_write("fi", "local")
    s.annotate(first, "k", 1)
    s.annotate(second, "k", 2)
    check(s)
    plain = mt.Trace(tuple(Step("add_unit_loop", {"target": n}, n) for n in ("ﬁ", "fi")))
    assert [line.split(" = ")[0] for line in plain.as_python().splitlines()] == ["v0", "fi"]


@pytest.mark.parametrize("name", ["", "s; x", "if", "a.b", "1", None, 3, "ﬁ", "s\n"])
def test_as_python_of_a_schedule_that_cannot_be_called_so(name):
    with pytest.raises(mt.ArgumentError, match="expected the name of a variable"):
        GOOD.trace.as_python(name)


def test_as_python_of_a_result_of_one():
    s = mt.Schedule(chain(8))
    (loop,) = s.compute_at("B", "j")
    s.unroll(loop)
    assert s.trace.as_python() == "B_i, = s.compute_at('B', 'j')\ns.unroll(B_i)"
    check(s)


def test_as_python_names_do_not_collide():
    A = mt.placeholder((8,), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((8,), lambda s: A[s], name="C")]))
    s.split("s", [2, 4])
    s.add_unit_loop("s_0")
    check(s)
    A = mt.placeholder((16,), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((16,), lambda v: A[v], name="C")]), seed=0)
    s.sample_perfect_tile("v", 2)
    s.split("v", [None, 8])
    s.sample_categorical([1, 2])
    check(s)
    assert run_as_python(s).trace == s.trace


# ---- what is no trace

SPLIT = {"loop": "i", "factors": [2, 10], "tail": "guard"}


def written(*steps, **changes):
    """The JSON of a trace of these steps."""
    return json.dumps({"minitensor_trace": 1, "steps": list(steps), **changes})


def step(primitive="split", arguments=SPLIT, **rest):
    """One step as JSON data."""
    return {"primitive": primitive, "arguments": arguments, "result": None, **rest}


def with_factors(value):
    return written(step(arguments={**SPLIT, "factors": value}))


def nested(depth):
    return "[" * depth + "1" + "]" * depth


GOOD = mt.Schedule(scale(20))
GOOD.split("i", [None, 8])
GOOD.parallel("i_0")
GOOD_TEXT = GOOD.trace.to_json()

NOT_TRACES = {
    "empty": "",
    "not JSON": "split('i', [2])",
    "a number": "3",
    "a list": "[]",
    "null": "null",
    "a string": '"trace"',
    "nothing in it": "{}",
    "no version": '{"steps": []}',
    "another version": written(minitensor_trace=3),
    "a version that is text": written(minitensor_trace="1"),
    "no steps": '{"minitensor_trace": 1}',
    "steps that are null": written(steps=None),
    "steps in an object": written(steps={"0": step()}),
    "a step that is null": written(None),
    "a step that is a list": written(["split", "i"]),
    "unknown primitive": written(step("explode")),
    "a method of Schedule": written(step("get_loops", {"block": "C"})),
    "a private name": written(step("_apply", {})),
    "primitive of a wrong type": written(step(["split"])),
    "no primitive": written({"arguments": SPLIT}),
    "no arguments": written({"primitive": "split"}),
    "arguments in a list": written(step(arguments=["i", [2, 10]])),
    "an argument missing": written(step(arguments={"loop": "i", "factors": [2]})),
    "an argument too many": written(step(arguments={**SPLIT, "colour": "red"})),
    "a wrong argument name": written(step(arguments={"loops": "i", "factors": [2], "tail": "cut"})),
    "a reference to itself": with_factors({"ref": [0]}),
    "a forward reference": with_factors({"ref": [5]}),
    "a negative reference": with_factors({"ref": [-1]}),
    "a reference to text": with_factors({"ref": ["0"]}),
    "a reference to a fraction": with_factors({"ref": [0.0]}),
    "an empty reference": with_factors({"ref": []}),
    "a reference to null": with_factors({"ref": None}),
    "an object": with_factors({"a": 1}),
    "an empty object": with_factors({}),
    "a map without outputs": with_factors({"inputs": ["i"]}),
    "a map of numbers": with_factors({"inputs": [1], "outputs": [1]}),
    "a map of strings": with_factors({"inputs": "i", "outputs": "i"}),
    "a map with a keyword for a name": with_factors({"inputs": ["if"], "outputs": ["if"]}),
    "a map with code for a name": with_factors({"inputs": ["i, x=print(1)"], "outputs": ["i"]}),
    "a map of foreign variables": with_factors({"inputs": ["i"], "outputs": ["j"]}),
    "a map of unknown operators": with_factors({"inputs": ["i"], "outputs": [["**", "i", 2]]}),
    "a map of calls": with_factors({"inputs": ["i"], "outputs": [["print", "i"]]}),
    "a map of booleans": with_factors({"inputs": ["i"], "outputs": [True]}),
    "a map of fractions": with_factors({"inputs": ["i"], "outputs": [0.5]}),
    "a map of huge numbers": with_factors({"inputs": ["i"], "outputs": [1 << 41]}),
    "NUL": "\x00",
    "a number of 10,000 digits": written(step(arguments={**SPLIT, "factors": 0})).replace(
        '"factors": 0', '"factors": ' + "9" * 10_000
    ),
    "cut in the middle": GOOD_TEXT[: len(GOOD_TEXT) // 2],
    "one brace short": GOOD_TEXT[:-1],
    "something behind it": GOOD_TEXT + "x",
    "twice": GOOD_TEXT * 2,
}


@pytest.mark.parametrize("name", NOT_TRACES)
def test_things_that_are_no_trace(name):
    with pytest.raises(mt.ArgumentError, match="not a trace") as caught:
        mt.Trace.from_json(NOT_TRACES[name])
    assert not isinstance(caught.value, mt.ScheduleError)
    assert len(str(caught.value)) < 400
    assert "\x00" not in str(caught.value)


@pytest.mark.parametrize(
    "value", [None, 3, b"{}", {}, [], GOOD.trace], ids=lambda v: type(v).__name__
)
def test_things_that_are_no_text(value):
    with pytest.raises(mt.ArgumentError, match="expected JSON text"):
        mt.Trace.from_json(value)


@pytest.mark.parametrize("end", range(0, len(GOOD_TEXT), 7))
def test_every_truncation(end):
    with pytest.raises(mt.ArgumentError, match="not a trace"):
        mt.Trace.from_json(GOOD_TEXT[:end])


@pytest.mark.parametrize("depth", [10, 101, 500, 900, 5000, 100_000])
def test_deep_nesting(depth):
    text = with_factors("HERE").replace('"HERE"', nested(depth))
    assert_refused_somewhere(text)


@pytest.mark.parametrize("depth", [10, 101, 300, 900, 5000])
def test_deep_index_maps(depth):
    index = '["+", ' * depth + '"i"' + ", 1]" * depth
    text = with_factors("HERE").replace('"HERE"', f'{{"inputs": ["i"], "outputs": [{index}]}}')
    assert_refused_somewhere(text)


def test_brackets_in_strings_do_not_nest():
    s = mt.Schedule(scale(20))
    s.annotate("i", "k", "[{" * 1000 + '"\\"\\\\"' + "]" + "[" * 500 + "\\")
    s.annotate("i", '["[[[', '\\\\\\" [' * 200)
    check(s)


def test_integers_of_many_digits():
    s = mt.Trace.from_json(written(step("annotate", {"target": "i", "key": "k", "value": 10**900})))
    with pytest.raises(mt.ArgumentError, match="64 bits"):
        s.apply(scale(20))
    with pytest.raises(mt.ArgumentError, match="not a trace: "):
        mt.Trace.from_json(written(step()).replace('"result": null', f'"result": {"1" * 5000}'))


def assert_refused_somewhere(text):
    """When it is read or when it is applied, and by an error of the package."""
    try:
        mt.Trace.from_json(text).apply(scale(20))
    except mt.ArgumentError:
        return
    except RecursionError:
        pytest.fail("RecursionError", pytrace=False)
    pytest.fail("accepted", pytrace=False)


def test_too_many_steps():
    one = json.dumps(step("annotate", {"target": "i", "key": "k", "value": 1}))
    for count in (1_001, 20_000):
        text = f'{{"minitensor_trace": 1, "steps": [{", ".join([one] * count)}]}}'
        with pytest.raises(mt.ArgumentError, match="at most 1000 steps"):
            mt.Trace.from_json(text)
    text = f'{{"minitensor_trace": 1, "steps": [{", ".join([one] * 1_000)}]}}'
    assert len(mt.Trace.from_json(text)) == 1_000


def test_too_long_a_text():
    with pytest.raises(mt.ArgumentError, match="at most 4194304 characters"):
        mt.Trace.from_json(" " * (1 << 22) + GOOD_TEXT)
    assert mt.Trace.from_json(" " * 1000 + GOOD_TEXT) == GOOD.trace


def test_what_would_not_be_read_is_not_written():
    one = GOOD.trace.steps[:1]
    assert len(mt.Trace.from_json(mt.Trace(one * 1_000).to_json())) == 1_000
    with pytest.raises(mt.ArgumentError, match=r"1,001 steps.*at most 1,000 steps"):
        mt.Trace(one * 1_001).to_json()
    long = [replace(step, result="x" * (1 << 22)) for step in one]
    with pytest.raises(mt.ArgumentError, match=r"4,194,304 characters are written"):
        mt.Trace(tuple(long)).to_json()


WRONG_VALUES = {
    "a loop that is a number": step("parallel", {"loop": 3}),
    "a loop that is null": step("parallel", {"loop": None}),
    "a loop that does not exist": step("parallel", {"loop": "nope"}),
    "a loop that is a list": step("parallel", {"loop": ["i"]}),
    "a loop that is a map": step("parallel", {"loop": {"inputs": ["i"], "outputs": ["i"]}}),
    "no loops at all": step("fuse", {"loops": []}),
    "loops that are text": step("fuse", {"loops": "i"}),
    "loops that are a number": step("fuse", {"loops": 3}),
    "loops that are null": step("reorder", {"loops": None}),
    "factors that are huge": step(arguments={**SPLIT, "factors": [10**100, 1]}),
    "factors that are fractions": step(arguments={**SPLIT, "factors": [2.5, 8]}),
    "factors that are infinite": step(arguments={**SPLIT, "factors": [math.inf, 8]}),
    "factors that are NaN": step(arguments={**SPLIT, "factors": [math.nan, 8]}),
    "factors that are text": step(arguments={**SPLIT, "factors": "28"}),
    "a tail that is a number": step(arguments={**SPLIT, "tail": 1}),
    "an annotation that is NaN": step("annotate", {"target": "i", "key": "k", "value": math.nan}),
    "an annotation that is a list": step("annotate", {"target": "i", "key": "k", "value": [1]}),
    "an annotation that is huge": step("annotate", {"target": "i", "key": "k", "value": 10**400}),
    "a map that is null": step("transform_layout", {"buffer": "C", "index_map": None}),
    "a map that is text": step("transform_layout", {"buffer": "C", "index_map": "lambda i: i"}),
    "a decision that is too large": step(
        "sample_categorical", {"candidates": [1], "probs": None, "decision": 10**30}
    ),
    "a decision of a wrong type": step(
        "sample_perfect_tile",
        {"loop": "i", "n": 2, "max_innermost_factor": 16, "decision": "no"},
    ),
    "no candidates": step(
        "sample_categorical", {"candidates": [], "probs": None, "decision": None}
    ),
    "huge weights": step(
        "sample_categorical", {"candidates": [1, 2], "probs": [1e308, 1e308], "decision": None}
    ),
}


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_values_that_no_primitive_takes(name):
    trace = mt.Trace.from_json(written(WRONG_VALUES[name]))
    with pytest.raises(mt.ScheduleError) as caught:
        trace.apply(scale(20))
    assert caught.value.step == 1
    str(caught.value)
    assert isinstance(trace.as_python(), str)


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_a_refused_replay_leaves_what_was_applied(name):
    s = mt.Schedule(scale(20))
    s.annotate("i", "note", 1)
    program = s.program
    with pytest.raises(mt.ScheduleError) as caught:
        s.replay(mt.Trace.from_json(written(WRONG_VALUES[name])))
    assert caught.value.step == 2
    assert s.program is program
    assert len(s.trace) == 1
    check(s)


REFERENCES = {
    "all of a split": [0],
    "an item too many": [0, 2],
    "a large item": [0, 10**20],
    "a negative item": [0, -1],
    "a very negative item": [0, -9],
    "a true item": [0, True],
}


@pytest.mark.parametrize("name", REFERENCES)
def test_references_to_what_is_not_there(name):
    text = written(step(), step("parallel", {"loop": {"ref": REFERENCES[name]}}))
    try:
        trace = mt.Trace.from_json(text)
    except mt.ArgumentError as error:
        assert "not a trace" in str(error)
        return
    with pytest.raises(mt.ScheduleError) as caught:
        trace.apply(scale(20))
    assert caught.value.step == 2


@pytest.mark.parametrize("name", REFERENCES)
def test_as_python_of_references_to_what_is_not_there(name):
    text = written(step(), step("parallel", {"loop": {"ref": REFERENCES[name]}}))
    try:
        trace = mt.Trace.from_json(text)
    except mt.ArgumentError:
        return
    with contextlib.suppress(mt.ArgumentError):
        assert isinstance(trace.as_python(), str)


def test_results_in_a_file_are_not_trusted():
    lying = step(result=["a", "b"])
    trace = mt.Trace.from_json(written(lying, step("parallel", {"loop": {"ref": [0, 0]}})))
    s = trace.apply(scale(20))
    assert s.get_loops("C") == ("i_0", "i_1")
    assert s.trace.steps[0].result == ("i_0", "i_1")
    check(s)


@pytest.mark.parametrize("result", [None, 3, "one", ["a"], ["a", 1], {"ref": [0]}, [["a"]], [None]])
def test_results_of_any_shape_do_no_harm(result):
    text = written(step(result=result), step("parallel", {"loop": {"ref": [0, 0]}}))
    try:
        trace = mt.Trace.from_json(text)
    except mt.ArgumentError as error:
        assert "not a trace" in str(error)
        return
    check(trace.apply(scale(20)))
    try:
        trace.as_python()
    except mt.ArgumentError as error:
        assert "not a trace" in str(error)


def test_names_in_a_file_cannot_put_code_into_the_python_text():
    evil = "x'); import os; ('"
    trace = mt.Trace.from_json(
        written(
            step("annotate", {"target": evil, "key": evil, "value": evil}, result=evil),
            step(result=[evil, "if"]),
            step("unroll", {"loop": {"ref": [1, 1]}}),
            step(
                "transform_layout",
                {"buffer": "B", "index_map": {"inputs": ["j", "i"], "outputs": ["j", "i"]}},
            ),
        )
    )
    text = trace.as_python()
    ast.parse(text)
    assert repr(evil) in text
    assert "import os" not in text.replace(repr(evil), "")


# ---- Trace and Step as data


def test_steps_know_whether_they_decide():
    s = everything()
    assert [st.primitive for st in s.trace.steps if st.is_decision] == [
        "sample_perfect_tile",
        "sample_categorical",
    ]
    assert s.trace.decisions == {0: (2, 2), 2: 1}


def test_traces_compare_by_value():
    assert everything().trace == everything().trace
    one, two = mt.Schedule(scale(20)), mt.Schedule(scale(20))
    one.split("i", [None, 8])
    two.split("i", [3, 8])
    assert one.trace != two.trace
    assert mt.Trace() != one.trace


def test_a_trace_can_be_made_by_hand():
    made = mt.Trace(
        (
            Step("split", {"loop": "i", "factors": (None, 8), "tail": "guard"}, None),
            Step("parallel", {"loop": Ref(0, 0)}, None),
        )
    )
    s = made.apply(scale(20))
    check(s)
    assert s.trace == GOOD.trace


def test_a_trace_made_by_hand_with_a_map():
    index_map = IndexMap(("i",), ())
    made = mt.Trace((Step("transform_layout", {"buffer": "B", "index_map": index_map}, None),))
    with pytest.raises(mt.ScheduleError):
        made.apply(chain())


def test_every_primitive_is_a_method_of_a_schedule():
    for name, primitive in REGISTRY.items():
        method = getattr(mt.Schedule, name)
        assert method.__name__ == name
        assert method.__doc__ == primitive.function.__doc__
