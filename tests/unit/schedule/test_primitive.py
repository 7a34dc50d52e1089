"""The registry of primitives, refusals, and that every declared rule has been seen to refuse."""

import re

import pytest

import minitensor as mt
from minitensor.ir import Marks, Program
from minitensor.schedule import REGISTRY, Primitive, primitive, refuse
from minitensor.schedule.arguments import LoopName
from minitensor.schedule.primitive import COMMON_RULES
from tests.unit.schedule import (
    test_arguments,
    test_cache,
    test_candidates,
    test_compute_at,
    test_decisions,
    test_decompose,
    test_execution,
    test_inline,
    test_layout,
    test_loops,
    test_pad,
    test_prefetch,
    test_reciprocal,
    test_reverse_compute_at,
    test_rfactor,
    test_sample_tile,
    test_skip_padding,
    test_skip_zeros,
    test_split,
    test_tensorize,
    test_tensorized,
    test_widen,
)
from tests.unit.schedule.common import check
from tests.unit.schedule.programs import chain2d, scale

TABLES = (
    test_loops,
    test_execution,
    test_inline,
    test_cache,
    test_compute_at,
    test_reverse_compute_at,
    test_rfactor,
    test_split,
    test_decompose,
    test_layout,
    test_skip_padding,
    test_skip_zeros,
    test_reciprocal,
    test_widen,
    test_pad,
    test_tensorize,
    test_prefetch,
    test_decisions,
    test_candidates,
    test_sample_tile,
)

# ---- every rule of every primitive

CANNOT_FAIL = {
    ("cache_write", "R3"): "a block that reads the buffer inside the nest that is not complete yet "
    "cannot be made: reverse_compute_at refuses (R3) the loops of a reduction",
    ("sample_categorical", "A1"): "it takes no name",
}
"""Rules that no call is known to break, and why."""

NO_CONFLICT = {
    "fuse": "a fused loop drives what its parts did, and their digits are exact",
    "reorder": "rule R3 asks for more",
    "add_unit_loop": "one iteration conflicts with nothing",
    "parallel": "rule R4 asks it of the loop itself, and no buffer moves",
    "vectorize": "rule R4 asks it of the loop itself, and no buffer moves",
    "unroll": "the order stays",
    "serial": "one iteration runs after the other",
    "annotate": "nothing moves",
    "unannotate": "nothing moves",
    "storage_align": "the elements stay apart",
    "decompose_reduction": "rule R5 asks for more",
    "reverse_compute_at": "iterations that would repeat its producer are guarded off",
    "rfactor": "the new buffers have an axis for each iteration",
    "skip_zeros": "every loop that it changes is serial",
    "skip_padding": "the loops stay, and so does what they write",
    "use_reciprocal": "the reciprocals live where the divisors do",
    "widen": "the copies live where what they copy does",
    "pad": "every loop that it changes is serial",
    "tensorize": "nothing moves",
    "prefetch": "nothing moves",
    "sample_perfect_tile": "the program stays",
    "sample_categorical": "the program stays",
    "sample_compute_location": "the program stays",
    "sample_tile": "the program stays",
    "sample_order": "the program stays",
    "sample_annotation": "the program stays",
    "apply_annotation": "a loop that unroll or vectorize refuses stays",
}
"""Primitives that are not known to make iterations of a concurrent loop conflict (K1), and why."""

STILL_A_MATCH = {
    "fuse": "the loops that an intrinsic does are not serial; those around them are any",
    "parallel": "it is another loop, and nothing moves",
    "unroll": "it is another loop, and nothing moves",
    "serial": "it is another loop, and nothing moves",
    "bind": "it is another loop, and nothing moves",
    "set_scope": "the elements stay where they are in the buffer",
    "decompose_reduction": "what an intrinsic does has no init",
    "rfactor": "what an intrinsic does has no init",
    "skip_zeros": "every loop that it changes is serial",
    "skip_padding": "what an intrinsic does has no init",
    "tensorize": "its own rules ask for a match",
    "prefetch": "it is another loop, and nothing moves",
    "sample_perfect_tile": "the program stays",
    "sample_categorical": "the program stays",
    "sample_compute_location": "the program stays",
    "sample_tile": "the program stays",
    "sample_order": "the program stays",
    "sample_annotation": "the program stays",
    "apply_annotation": "a loop that unroll or vectorize refuses stays",
}
"""Primitives that are not known to leave tensorized loops without a match (K3), and why."""

STILL_OF_USE = {
    "add_unit_loop": "the loops stay, and what they read",
    "parallel": "a parallel loop may prefetch",
    "unroll": "an unrolled loop may prefetch",
    "serial": "a serial loop may prefetch",
    "unannotate": "it takes a prefetch back",
    "cache_write": "who reads a buffer still does",
    "decompose_reduction": "the loops stay, and those that are copied prefetch nothing",
    "rfactor": "the loops stay, and what they read",
    "skip_zeros": "no loop that it changes prefetches",
    "skip_padding": "the loops stay, and what they read",
    "pad": "the loops stay, and what they read",
    "prefetch": "its own rules ask for it",
    "sample_perfect_tile": "the program stays",
    "sample_categorical": "the program stays",
    "sample_compute_location": "the program stays",
    "sample_tile": "the program stays",
    "sample_order": "the program stays",
    "sample_annotation": "the program stays",
    "apply_annotation": "a loop that unroll or vectorize refuses stays",
}
"""Primitives that are not known to leave a loop unable to prefetch what it did (K4), and why."""


def covered():
    """The (primitive, rule) pairs that a test of the tables sees refused."""
    pairs = {(case.primitive, case.rule) for module in TABLES for case in module.REFUSALS}
    pairs |= {(case.primitive, case.rule) for case in test_tensorized.AFTERWARDS}
    pairs |= {(case.primitive, case.rule) for case in test_prefetch.AFTERWARDS}
    for name, argument in test_arguments.EACH_ARGUMENT:
        pairs.add((name, "A2"))
        if argument in test_arguments.KINDS and test_arguments.KINDS[argument][1]:
            pairs.add((name, "A1"))
    return pairs


def test_every_rule_of_every_primitive_is_seen_refused():
    declared = {(name, rule) for name, p in REGISTRY.items() for rule in p.rules}
    excused = CANNOT_FAIL.keys() | {(name, "K1") for name in NO_CONFLICT}
    excused |= {(name, "K3") for name in STILL_A_MATCH}
    excused |= {(name, "K4") for name in STILL_OF_USE}
    excused |= {(name, "K2") for name in REGISTRY.keys() - {"split"}}  # split sees it for all
    assert covered() <= declared
    assert declared - covered() == excused
    assert not covered() & excused


def test_each_refusal_is_of_a_primitive_of_its_module():
    for module in TABLES:
        for case in module.REFUSALS:
            function = REGISTRY[case.primitive].function
            wanted = module.__name__.rpartition("test_")[2]
            assert function.__module__ == f"minitensor.schedule.{wanted}", case.primitive


# ---- the registry


def test_every_primitive_is_registered_by_its_name():
    for name, found in REGISTRY.items():
        assert found.name == name
        assert found.function.__name__ == name
        assert callable(getattr(mt.Schedule, name))


def test_every_record_is_complete():
    for found in REGISTRY.values():
        assert found.call is not None, f"{found.name}: how does a test draw a call of it?"
        assert found.batch is not None, f"{found.name}: what is its effect on a batch?"
        decides = "decision" in found.signature.parameters
        assert decides == (found.decide is not None), found.name


def test_every_rule_says_what_to_do_where_it_is_broken():
    for found in REGISTRY.values():
        assert list(found.advice) == [rule for rule in found.rules if rule.startswith("R")]
        for rule, advice in found.advice.items():
            assert advice and not advice.endswith("."), (found.name, rule)


def test_rules_are_numbered_and_read_as_conditions():
    for found in REGISTRY.values():
        own = [rule for rule in found.rules if rule.startswith("R")]
        assert own == [f"R{n}" for n in range(1, len(own) + 1)]
        assert {r: found.rules[r] for r in COMMON_RULES} == COMMON_RULES
        for text in found.rules.values():
            assert text == text.strip()
            assert not text.endswith(".")
            assert text[0].islower() or text[0].isdigit()


def test_every_docstring_says_what_is_preserved_or_returned():
    for name, found in REGISTRY.items():
        text = found.function.__doc__
        assert re.search(r"^    (Preserves|Returns) ", text, re.M), name
        assert re.search(rf"^    {name}\(", text, re.M), f"{name} shows no example"
        assert "=>" in text


def test_signatures_show_no_types_and_no_program():
    for found in REGISTRY.values():
        assert "program" not in found.signature.parameters
        assert ":" not in str(found.signature)
        assert "->" not in str(found.signature)


def test_a_primitive_is_a_function_of_a_program():
    program = scale(20)
    new, names = REGISTRY["split"](program, "i", [None, 8])
    assert names == ("i_0", "i_1")
    assert isinstance(new, Program)
    assert str(program) == str(scale(20))
    again, _ = REGISTRY["split"](program, "i", factors=(None, 8))
    assert again == new


def test_bind_gives_canonical_arguments():
    split = REGISTRY["split"]
    arguments = split.bind(scale(20), ["i", [None, 8]], {})[0]
    assert arguments == {"loop": "i", "factors": (None, 8), "tail": "guard"}
    assert split.call_text(arguments) == "split('i', (None, 8))"
    fuse = REGISTRY["fuse"]
    assert fuse.bind(chain2d(), ["i", "j"], {})[0] == {"loops": ("i", "j")}


def test_defaults_are_left_out_of_the_text():
    split = REGISTRY["split"]
    arguments = split.bind(scale(20), ["i", [8]], {"tail": "cut"})[0]
    assert split.call_text(arguments) == "split('i', (8,), tail='cut')"
    align = REGISTRY["storage_align"]
    given = align.bind(chain2d(), ["B", 0, 8], {})[0]
    assert align.call_text(given) == "storage_align('B', 0, 8)"
    given = align.bind(chain2d(), ["B", 0, 8, 1], {})[0]
    assert align.call_text(given) == "storage_align('B', 0, 8, offset=1)"


# ---- making a primitive


def test_a_primitive_of_ones_own():
    @primitive(rules={"R1": "the loop has an even extent"})
    def halve(program: Program, loop: LoopName, *, times: int = 1):
        """Halve a loop."""
        extent = program.body.extent
        if extent % 2:
            marks = Marks(loops={loop: "is odd"})
            refuse("R1", f"{extent}", marks=marks, choices=["two", "four"])
        return REGISTRY["split"](program, loop, [None, 2])

    assert isinstance(halve, Primitive)
    assert halve.key.endswith("test_primitive:test_a_primitive_of_ones_own.<locals>.halve")
    assert "halve" not in REGISTRY
    assert str(halve.signature) == "(loop, *, times=1)"
    program, names = halve(scale(6), "i")
    assert names == ("i_0", "i_1")
    with pytest.raises(mt.ScheduleError) as caught:
        halve(scale(5), "i")
    assert str(caught.value) == (
        'halve("i") breaks R1: the loop has an even extent (5)\n'
        "    def main(A: float32[5], C: float32[5]):\n"
        "        for i in range(5):  # <- is odd\n"
        "            C[i] = A[i] * 2.0\n"
        '    legal: "two", "four"'
    )
    assert caught.value.choices == ("two", "four")
    with pytest.raises(mt.ScheduleError, match=r"breaks A1: .*no loop 'x'"):
        halve(scale(6), "x")
    mt.verify(program)


def test_a_refusal_by_a_rule_that_is_not_declared_says_so():
    @primitive(rules={"R1": "never"})
    def wrong(program: Program, loop: LoopName):
        """Break a rule that does not exist."""
        refuse("R7")

    with pytest.raises(mt.ScheduleError, match="breaks R7: a rule that it does not declare"):
        wrong(scale(), "i")


def plain(program, loop):
    return program


NO_DECLARATIONS = {
    "rules that are a number": lambda: primitive(rules=3),
    "rules in a list": lambda: primitive(rules=["R1"]),
    "a rule that is a number": lambda: primitive(rules={"R1": 3}),
    "a rule of three texts": lambda: primitive(rules={"R1": ("a", "b", "c")}),
    "no call": lambda: primitive(plain),
    "an argument that is not there": lambda: primitive({}, alternatives="nope")(plain),
    "a number": lambda: primitive(rules={})(3),
    "a class": lambda: primitive(rules={})(int),
    "no program": lambda: primitive(rules={})(lambda: None),
    "any keywords": lambda: primitive(rules={})(lambda program, **more: program),
}


@pytest.mark.parametrize("declare", NO_DECLARATIONS.values(), ids=NO_DECLARATIONS)
def test_a_bad_declaration_is_refused_at_once(declare):
    with pytest.raises(mt.ArgumentError, match=r"^expected "):
        declare()


def test_an_annotation_that_cannot_be_evaluated_is_named():
    def wrong(program, loop: "NoSuchType"):  # noqa: F821
        return program

    with pytest.raises(mt.ArgumentError, match=r"annotation of .*wrong .*'NoSuchType'"):
        primitive(rules={})(wrong)


def test_a_primitive_may_have_no_rules():
    assert primitive()(plain)(scale(20), "i") == (scale(20), None)


def test_pictures_are_drawn_when_they_are_read():
    s = mt.Schedule(scale(20))
    s.parallel("i")
    with pytest.raises(mt.ScheduleError) as caught:
        s.unroll("i")
    drawn = []
    picture = caught.value.picture
    caught.value.picture = lambda: drawn.append(1) or picture()
    repr(caught.value)
    assert caught.value.args == (caught.value.message,)
    assert not drawn
    str(caught.value)
    assert drawn == [1]
    check(s)


def test_refusals_leave_no_trace_of_the_machinery():
    s = mt.Schedule(scale(20))
    with pytest.raises(mt.ScheduleError) as caught:
        s.split("i", [2])
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    check(s)
