"""Every argument of every primitive: wrong types, wrong values, unknown and stale names."""

import math

import numpy as np
import pytest

import minitensor as mt
from minitensor.schedule import REGISTRY, IndexMap
from tests.unit.schedule.common import check, refused
from tests.unit.schedule.intrinsics import twice
from tests.unit.schedule.programs import (
    chain,
    chain2d,
    copied_product,
    grid,
    matmul,
    narrow_product,
    padded_sum,
    quotients,
    scale,
    spread_out,
    stencil,
)


def prepared(*steps):
    """A schedule of two blocks over two loops each, after some steps."""
    s = mt.Schedule(chain2d(4, 8), seed=0)
    for step in steps:
        step(s)
    return s


def reduction():
    return mt.Schedule(matmul(), seed=0)


def noted():
    s = prepared()
    s.annotate("i", "note", 1)
    return s


def decided():
    s = prepared()
    s.parallel("i")
    return s


def divided():
    return mt.Schedule(quotients())


def narrow():
    return mt.Schedule(narrow_product())


def spread():
    return mt.Schedule(spread_out())


def bordered():
    return mt.Schedule(padded_sum())


DOUBLE = twice(8)

VALID = {
    "split": (prepared, ("i", [None, 2]), {"tail": "guard"}),
    "fuse": (prepared, ("i", "j"), {}),
    "reorder": (prepared, ("j", "i"), {}),
    "add_unit_loop": (prepared, ("i",), {}),
    "parallel": (prepared, ("i",), {}),
    "vectorize": (prepared, ("j",), {}),
    "unroll": (prepared, ("j",), {}),
    "bind": (prepared, ("i", "threadIdx.x"), {}),
    "serial": (decided, ("i",), {}),
    "annotate": (prepared, ("i", "note", "hot"), {}),
    "unannotate": (noted, ("i", "note"), {}),
    "compute_inline": (prepared, ("B",), {}),
    "reverse_compute_inline": (prepared, ("C",), {}),
    "compute_at": (prepared, ("B", "x"), {}),
    "reverse_compute_at": (prepared, ("C", "i"), {}),
    "cache_read": (prepared, ("C", "B", "local"), {"place": 0}),
    "cache_write": (prepared, ("C", "local"), {}),
    "set_scope": (prepared, ("B", "local"), {}),
    "storage_align": (prepared, ("B", 0, 8, 1), {}),
    "transform_layout": (prepared, ("B", lambda i, j: (j, i)), {}),
    "decompose_reduction": (reduction, ("C", "k"), {}),
    "rfactor": (reduction, ("k",), {"axis": 0}),
    "skip_zeros": (spread, ("C",), {}),
    "skip_padding": (bordered, ("C", "y"), {}),
    "use_reciprocal": (divided, ("D", "S"), {}),
    "widen": (narrow, ("C", "A", "int16"), {}),
    "pad": (copied_product, ("k", 4), {}),
    "tensorize": (prepared, ("j", DOUBLE), {}),
    "prefetch": (prepared, ("A", "i", 2), {}),
    "sample_perfect_tile": (
        prepared,
        ("j", 2),
        {"max_innermost_factor": 8, "decision": [4, 2]},
    ),
    "sample_categorical": (prepared, ([1, 2, 3],), {"probs": [1, 1, 1], "decision": 0}),
    "sample_compute_location": (prepared, ("B",), {"decision": "x"}),
    "sample_tile": (
        prepared,
        ("j", 2),
        {
            "policy": "power2",
            "max_factor": 8,
            "filter": lambda factors: factors[1] > 1,
            "candidates": [[None, 4], [8, 1]],
            "probs": [2.0],
            "decision": [2, 4],
        },
    ),
    "sample_order": (
        prepared,
        ("i", "j"),
        {"policy": "all", "candidates": [["i", "j"], ["j", "i"]], "decision": [1, 0]},
    ),
    "sample_annotation": (
        prepared,
        ("i", "j"),
        {"policy": "try_unroll_vec", "decision": ["none", "vectorize"]},
    ),
    "apply_annotation": (prepared, (["unroll", "vectorize"], "i", "j"), {}),
}
"""For each primitive a schedule and arguments that it accepts."""

NOT_NAMES = [None, 3, 2.5, True, ["i"], ("i",), {"i": 1}, b"i", object(), math.nan, lambda: "i"]
UNKNOWN = ["", "nope", "J", "i ", "i\n", "root2", "é", "a" * 5000, "i; import os", "\x00"]
KINDS = {
    "loop": (NOT_NAMES, [*UNKNOWN, "B", "A"]),
    "loops": (NOT_NAMES, [*UNKNOWN, "C"]),
    "block": (NOT_NAMES, [*UNKNOWN, "i", "A"]),
    "buffer": (NOT_NAMES, [*UNKNOWN, "i"]),
    "target": (NOT_NAMES, [*UNKNOWN, "A"]),
    "scope": ([*NOT_NAMES, "Local", "stack", "", "x" * 500], []),
    "thread": ([*NOT_NAMES, "threadIdx", "threadidx.x", "blockIdx.w", "serial"], []),
    "tail": ([*NOT_NAMES, "", "guards", "GUARD"], []),
    "key": ([None, 3, True, ["k"], b"k", "", "k" * 201], []),
    "value": (
        [None, [1], {"a": 1}, b"x", object(), math.nan, math.inf, 1j, np.zeros(2), 10**400], [],
    ),
    "axis": ([None, 0.0, "0", True, [0], 65, -65, 1 << 80, math.nan], []),
    "factor": ([None, 8.0, "8", True, [8], -1, 1 << 21, math.inf], []),
    "offset": ([None, 1.0, "1", False, [1], -1, 1 << 21], []),
    "factors": (
        [
            None, 8, 8.0, "8", "", [], (), {8}, {8: 1}, [0], [-2], [2.0], [True], ["8"], [[2]],
            [None, None], [2, None, None], [1 << 41], [1 << 21, 1 << 21], [math.inf], [math.nan],
            np.array([2, 4]), iter([2]), object(),
        ],
        [],
    ),
    "index_map": ([None, 3, "lambda i, j: (j, i)", (1, 0), [1, 0], object(), math.nan], []),
    "multiple": ([None, 0, -4, 4.0, "4", True, [4], 1025, math.inf], []),
    "dtype": ([*NOT_NAMES, "", "int", "bool", "index", "int8x4"], []),
    "distance": ([None, 1.0, "1", True, [1], 0, -1, 1 << 41, math.inf], []),
    "place": ([1.0, "1", True, [1], -1, 1 << 41, math.inf, object()], []),
    "intrinsic": (NOT_NAMES, [*UNKNOWN, "B", "twice:0123456789abcdef"]),
    "n": ([None, 0, -1, 17, 2.0, "2", True, [2]], []),
    "max_innermost_factor": ([None, 0, -4, 4.0, "4", True, [4], 1 << 41], []),
    "candidates": ([None, 3, "abc", [], (), {1}, {1: 2}, [None], [[1]], [True], [object()]], []),
    "policy": ([*NOT_NAMES, "", "factor", "ALL"], []),
    "max_factor": ([None, 0, -4, 4.0, "4", True, [4], 1 << 41], []),
    "filter": ([3, "abc", True, [1], {}], []),
    "annotation": ([None, 3, "unroll", ["vec"], [1], {"unroll"}, [None], [["unroll"]]], []),
    "probs": ([3, "abc", [], [-1, 1, 1], [0, 0, 0], ["1"], {1}, [math.nan] * 3], []),
}  # fmt: skip
"""For the name of each argument: values of a wrong type or size (A2), and unknown names (A1)."""

LISTS = [3, "abc", [], (), {1}, {1: 2}, [None], [1], [True], [[True]], [[1.5]], [object()]]
OWN = {
    "sample_tile": [*LISTS, [["4"]], [[None, None]], [[-1, 4]]],
    "sample_order": [*LISTS, [["i", 1]], [[None]]],
}
"""The same for candidates that are lists."""

DECISIONS = {
    "sample_perfect_tile": [3, "42", [4.0, 2], [-4, -2], [True, 8], {4: 2}, [None, 8]],
    "sample_categorical": ["1", 1.0, True, [0], -1, 1 << 41],
    "sample_compute_location": [3, True, ["x"], 1.5, b"x"],
    "sample_tile": [3, "42", [4.0, 2], [-4, -2], [True, 8], {4: 2}, [None, 8]],
    "sample_order": [3, "10", [1.0, 0], [-1, 0], [True, 0], {1: 0}, [None, 0]],
    "sample_annotation": [3, "none", [None, "none"], [1.5], {"none"}, [["none"]]],
}


def with_argument(primitive, name, value):
    """A schedule, and the valid call with one argument exchanged."""
    builder, args, kwargs = VALID[primitive]
    s = builder()
    parameters = list(REGISTRY[primitive].signature.parameters)
    args, kwargs = list(args), dict(kwargs)
    if name in kwargs:
        kwargs[name] = value
    else:
        args[parameters.index(name)] = value
    return s, lambda: getattr(s, primitive)(*args, **kwargs)


def test_the_table_covers_every_argument_of_every_primitive():
    assert VALID.keys() == REGISTRY.keys()
    for name, primitive in REGISTRY.items():
        for argument in primitive.signature.parameters:
            assert argument in KINDS or (argument == "decision" and name in DECISIONS)
        assert set(primitive.signature.parameters) == set(primitive.converters)


@pytest.mark.parametrize("primitive", VALID)
def test_the_valid_call_is_accepted(primitive):
    builder, args, kwargs = VALID[primitive]
    s = builder()
    before = len(s.trace)
    getattr(s, primitive)(*args, **kwargs)
    assert len(s.trace) == before + 1
    check(s)


EACH_ARGUMENT = [
    (name, argument)
    for name, primitive in REGISTRY.items()
    for argument in primitive.signature.parameters
]


@pytest.mark.parametrize(("primitive", "argument"), EACH_ARGUMENT)
def test_values_of_a_wrong_kind(primitive, argument):
    wrong = DECISIONS[primitive] if argument == "decision" else KINDS[argument][0]
    if argument == "candidates":
        wrong = OWN.get(primitive, wrong)
    for value in wrong:
        s, call = with_argument(primitive, argument, value)
        program, steps = s.program, s.trace
        with pytest.raises(mt.ScheduleError) as caught:
            call()
        error = caught.value
        assert error.rule == "A2", (value, error.message)
        assert isinstance(error, mt.ArgumentError)
        assert isinstance(error, ValueError)
        assert isinstance(error, TypeError)
        assert error.message.startswith(f"{primitive}(")
        assert " breaks A2: " in error.message
        assert "expected" in error.message
        assert "\n" not in error.message
        assert len(error.message) < 600
        assert f"def {s.program.name}(" not in str(error)
        assert s.program is program
        assert s.trace == steps


@pytest.mark.parametrize(
    ("primitive", "argument"),
    [(p, a) for p, a in EACH_ARGUMENT if a in KINDS and KINDS[a][1]],
)
def test_unknown_names(primitive, argument):
    for value in KINDS[argument][1]:
        s, call = with_argument(primitive, argument, value)
        program, steps = s.program, s.trace
        with pytest.raises(mt.ScheduleError) as caught:
            call()
        error = caught.value
        assert error.rule == "A1", (value, error.message)
        assert isinstance(error, mt.ArgumentError)
        assert "there is no" in error.message
        assert "\n" not in error.message
        assert "\x00" not in str(error)
        assert len(error.message) < 600
        assert error.choices
        assert s.program is program
        assert s.trace == steps


@pytest.mark.parametrize("primitive", VALID)
def test_too_few_arguments(primitive):
    builder, args, _ = VALID[primitive]
    parameters = REGISTRY[primitive].signature.parameters
    if any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
        pytest.skip("any number will do")
    s = builder()
    call = getattr(s, primitive)
    required = [p for p in parameters.values() if p.default is p.empty]
    for count in range(len(required)):
        message = f"missing a required argument: '{required[count].name}'"
        refused(s, "A2", message, lambda count=count: call(*args[:count]))


@pytest.mark.parametrize("primitive", VALID)
def test_too_many_arguments(primitive):
    builder, args, kwargs = VALID[primitive]
    if any(p.kind is p.VAR_POSITIONAL for p in REGISTRY[primitive].signature.parameters.values()):
        pytest.skip("any number will do")
    s = builder()
    extra = [1] * 9
    error = refused(
        s, "A2", "too many positional", lambda: getattr(s, primitive)(*args, *extra, **kwargs)
    )
    assert f"its signature is {primitive}(" in error.message
    assert "->" not in error.message


@pytest.mark.parametrize("primitive", VALID)
def test_unknown_keywords(primitive):
    builder, args, kwargs = VALID[primitive]
    s = builder()
    message = "unexpected keyword argument 'colour'"
    refused(s, "A2", message, lambda: getattr(s, primitive)(*args, colour="red", **kwargs))
    first = next(iter(REGISTRY[primitive].signature.parameters.values()))
    if first.kind is not first.VAR_POSITIONAL:
        message = "multiple values for argument"
        refused(s, "A2", message, lambda: getattr(s, primitive)(*args, **{first.name: args[0]}))


@pytest.mark.parametrize("primitive", VALID)
def test_positional_arguments_may_be_given_by_name(primitive):
    builder, args, kwargs = VALID[primitive]
    parameters = REGISTRY[primitive].signature.parameters
    if any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
        pytest.skip("not these")
    s = builder()
    getattr(s, primitive)(**dict(zip(parameters, args)), **kwargs)
    check(s)
    twin = builder()
    getattr(twin, primitive)(*args, **kwargs)
    assert twin.program == s.program


def test_keyword_only_arguments_are_not_positional():
    s = mt.Schedule(scale(20))
    refused(s, "A2", "too many positional", lambda: s.split("i", [None, 8], "cut"))
    s = reduction()
    refused(s, "A2", "too many positional", lambda: s.rfactor("k", 0))


# ---- names


def test_close_names_are_suggested():
    s = mt.Schedule(stencil())
    s.split("y", [2, 4])
    refused(s, "A1", "no loop 'y_2'; did you mean 'y_[01]'", lambda: s.parallel("y_2"))
    s = prepared()
    s.cache_read("C", "B", "local")
    error = refused(
        s, "A1", "no block 'B_locl'; did you mean 'B_local'", lambda: inline(s, "B_locl")
    )
    assert error.choices[0] == "B_local"
    refused(s, "A1", "no buffer 'B_loca'; did you mean 'B_local'", lambda: scope(s, "B_loca"))
    refused(s, "A1", "no loop or block 'Bb'", lambda: s.add_unit_loop("Bb"))


def inline(s, block):
    s.compute_inline(block)


def scope(s, buffer):
    s.set_scope(buffer, "local")


def test_without_a_close_name_all_are_listed():
    s = prepared()
    refused(s, "A1", "no loop 'zzz'", lambda: s.parallel("zzz"), choices=("i", "j", "x", "y"))
    refused(s, "A1", "no block 'zzz'", lambda: inline(s, "zzz"), choices=("B", "C"))
    refused(s, "A1", "no buffer 'zzz'", lambda: scope(s, "zzz"), choices=("A", "B", "C"))
    many = mt.placeholder((1,) * 30, name="A")
    C = mt.compute((1,) * 30, lambda *i: many[i] + 1, name="C")
    s = mt.Schedule(mt.lower([many, C]))
    error = refused(s, "A1", "no loop 'zzz'", lambda: s.parallel("zzz"))
    assert len(error.choices) == 20


def test_names_of_the_wrong_kind_are_unknown():
    s = prepared()
    refused(s, "A1", "there is no loop 'B'", lambda: s.parallel("B"))
    refused(s, "A1", "there is no block 'i'", lambda: s.compute_inline("i"))
    refused(s, "A1", "there is no block 'A'", lambda: s.cache_read("A", "A", "local"))
    refused(s, "A1", "there is no buffer 'x'", lambda: s.set_scope("x", "local"))
    refused(s, "A1", "there is no loop 'root'", lambda: s.split("root", [2]))


def test_loops_of_another_block():
    s = mt.Schedule(matmul())
    s.cache_write("C", "local")
    message = "the loop is around the block"
    refused(s, "R2", message, lambda: s.decompose_reduction("C", "ax0"), choices=("i", "j", "k"))
    refused(s, "R2", "nothing else in between", lambda: s.reorder("ax0", "i"))
    refused(s, "R2", "is not all there is", lambda: s.fuse("i", "ax1"))


def test_a_string_that_is_more_than_a_string():
    class Name(str):
        __slots__ = ()

    s = mt.Schedule(scale(20))
    s.split(Name("i"), [None, 8])
    assert type(s.trace.steps[0].arguments["loop"]) is str
    s.parallel(np.str_("i_0"))
    check(s)


# ---- stale handles


def test_a_stale_handle_says_what_became_of_it():
    s = mt.Schedule(scale(20))
    s.split("i", [None, 8])
    refused(
        s,
        "A1",
        r"^parallel\(…\) breaks A1: 'i' does not exist any more: step 1, split\('i', .None, 8.\), "
        r"consumed it; it made 'i_0', 'i_1'$",
        lambda: s.parallel("i"),
    )


def test_a_stale_handle_of_each_kind_of_step():
    s = mt.Schedule(grid())
    s.fuse("i", "j")
    refused(s, "A1", "step 1, fuse.*consumed it; it made 'i_j'", lambda: s.split("j", [2]))
    s = mt.Schedule(chain())
    s.compute_inline("B")
    refused(
        s, "A1", r"'B' does not exist .* step 1, compute_inline\('B'\), consumed it$", lambda: at(s)
    )
    refused(s, "A1", "'i' does not exist", lambda: s.vectorize("i"))
    s = mt.Schedule(chain())
    s.reverse_compute_inline("C")
    refused(s, "A1", "'C' does not exist .* step 1, reverse_compute_inline", lambda: inline(s, "C"))
    s = mt.Schedule(chain())
    s.parallel("j")
    s.compute_at("B", "j")
    refused(s, "A1", "step 2, compute_at.*it made 'B_i'", lambda: s.unroll("i"))


def at(s):
    s.compute_at("B", "j")


def test_a_stale_handle_names_the_last_step_that_consumed_it():
    s = mt.Schedule(scale(20))
    outer, inner = s.split("i", [None, 8])
    s.split(inner, [2, 4])
    s.unroll("i_1_1")
    refused(s, "A1", r"'i_1' .* step 2, split\('i_1', .2, 4.\), .*'i_1_0', 'i_1_1'", lambda: one(s))
    s.fuse(outer, "i_1_0")
    refused(s, "A1", "'i_1_0' does not exist any more: step 4", lambda: s.parallel("i_1_0"))


def one(s):
    s.parallel("i_1")


def test_a_stale_handle_among_several():
    s = mt.Schedule(grid(4, 8))
    s.split("j", [2, 4])
    refused(s, "A1", "'j' does not exist any more: step 1", lambda: s.reorder("i", "j"))
    refused(s, "A1", "'j' does not exist any more: step 1", lambda: s.fuse("i", "j"))


def test_names_are_never_given_twice():
    s = mt.Schedule(scale(64))
    seen = {"i"}
    loops = list(s.get_loops("C"))
    for _ in range(6):
        loops = [s.fuse(*s.split(loops[0], [None, 2]))]
        assert not seen & set(loops)
        seen |= set(loops)
    s.fuse(*s.split(loops[0], [8, 8]))
    check(s)
    s = mt.Schedule(chain())
    copy = s.cache_read("C", "B", "local")
    s.compute_inline(copy)
    assert s.cache_read("C", "B", "local") != copy
    check(s)


def test_handles_of_another_schedule_are_names_like_any_other():
    other = mt.Schedule(scale(20))
    other.add_unit_loop("C")
    outer, inner = other.split("i", [None, 4])
    s = mt.Schedule(scale(20))
    refused(s, "A1", "there is no loop 'i_0'", lambda: s.parallel(outer), choices=("i",))
    s.split("i", [None, 8])
    s.parallel(outer)
    s.vectorize(inner)
    check(s)


# ---- factors that are not what they seem


def test_factors_of_numpy_and_of_bytes():
    s = mt.Schedule(scale(20))
    s.split("i", [np.int64(5), np.uint8(4)])
    assert s.trace.steps[0].arguments["factors"] == (5, 4)
    check(s)
    s = mt.Schedule(scale(20))
    refused(s, "A2", "list of factors", lambda: s.split("i", b"\x05\x04"))


def test_index_maps_are_canonical_already():
    given = IndexMap(("i", "j"), ())
    s = prepared()
    with pytest.raises(mt.ScheduleError):
        s.transform_layout("B", given)
    check(s)


# ---- bad arguments that a rule of the primitive finds

BAD_ARGUMENTS = {
    "a loop that is reordered with itself": lambda s: s.reorder("i", "i"),
    "one loop to fuse": lambda s: s.fuse("i"),
    "no loop to fuse": lambda s: s.fuse(),
    "an axis beyond the rank": lambda s: s.rfactor("k", axis=5),
    "factors of another product": lambda s: s.split("i", [3, 3], tail="exact"),
    "an annotation that is not there": lambda s: s.unannotate("i", "z"),
    "an alignment of no axis": lambda s: s.storage_align("C", 7, 8),
}


@pytest.mark.parametrize("call", BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS)
def test_no_program_is_printed_for_a_bad_argument(call):
    with pytest.raises(mt.ScheduleError) as caught:
        call(reduction())
    assert "breaks R" in str(caught.value) and "for i in" not in str(caught.value)


def test_a_bad_axis_lists_those_there_are():
    with pytest.raises(mt.ScheduleError, match=r"\(axis=5, the rank is 2\)") as caught:
        reduction().rfactor("k", axis=5)
    assert caught.value.choices == ("0", "1", "2")


def test_loops_to_fuse_in_the_wrong_order_show_the_right_call():
    with pytest.raises(
        mt.ScheduleError, match="j is inside i: the outermost comes first"
    ) as caught:
        reduction().fuse("j", "i")
    assert caught.value.advice == 'fuse("i", "j")'
    with pytest.raises(mt.ScheduleError, match="k is inside i") as caught:
        reduction().fuse("k", "i")
    assert "neighbours" in caught.value.advice


@pytest.mark.parametrize("given", [np.zeros(3), np.zeros(1), mt.placeholder((4,), name="nope")])
@pytest.mark.parametrize("primitive", ["compute_at", "reverse_compute_at"])
def test_an_array_or_a_tensor_is_no_loop(primitive, given):
    s = prepared()
    with pytest.raises(
        mt.ScheduleArgumentError, match=r"breaks A[12]: (expected the name|there is)"
    ):
        getattr(s, primitive)("C", given)
