"""Hostile text as every name and attribute: none of it reaches a text as code.

A text is held against that of the same schedule with benign names: it may differ in identifiers
alone, and in what stands in its comments. tests/run/test_hostile.py compiles such texts.
"""

import ast
import json
import re

import pytest

import minitensor as mt
from minitensor.codegen import generate, passes_without
from minitensor.errors import MinitensorError
from tests.hostile import ENORMOUS, HOSTILE
from tests.parts import Extent, times
from tests.unit.hostile_schedule import (
    COUNT,
    TARGET,
    assert_plain,
    assert_same_but_names,
    benign,
    scheduled,
    source_of,
    tokens_of,
)
from tests.unit.schedule.programs import chain, scale


def title(text):
    """A short name for a case."""
    return ascii(text[:24])


SOME = HOSTILE[::12]
"""Those of the quick run."""
USUAL = {*SOME, *HOSTILE[1::3]}
"""Those of `make test`, each alone as every name; together it tries all of them."""


def tried(text):
    """A text as a parameter of tests."""
    marks = [pytest.mark.slow] * (text not in SOME) + [pytest.mark.whole] * (text not in USUAL)
    return pytest.param(text, marks=marks)


@pytest.fixture(
    scope="module",
    params=[tried(text) for text in HOSTILE],
    ids=title,
)
def text(request):
    """Each in turn, for all tests that take it."""
    return request.param


@pytest.fixture(scope="module")
def named(text):
    """A schedule in which every name is this text."""
    return scheduled(lambda number: text)


@pytest.fixture(scope="module")
def unnamed():
    """The schedule with benign names."""
    return scheduled(benign)


@pytest.fixture(scope="module")
def reference(unnamed):
    """Its text."""
    return source_of(unnamed)


def test_there_are_more_than_three_hundred():
    assert len(set(HOSTILE)) == len(HOSTILE) > 300


def test_the_comparison_sees_differences(reference):
    assert_same_but_names(reference, reference)
    for old, new in (
        ("+ 1", "+ 2"),
        ("int64_t zq16", "int64_t return"),
        ("zq7", "exp_float"),
        ("zq8[", "zq9["),
        (";", ";;"),
        ("// zq11", "// zq11\\"),
        ("// zq11", "// zq11??/"),
        ("// zq11", "// é"),
        ("float *restrict", "float /**/ *restrict"),
        ("\n#include", '\n#include "x"\n#include'),
        ("zq16", "zq16_é"),
    ):
        before, found, behind = reference.rpartition(old)
        assert found
        with pytest.raises(AssertionError):
            assert_same_but_names(before + new + behind, reference)


# ---- names that become identifiers


@pytest.mark.many
@pytest.mark.slow
def test_a_name_for_everything(text, named, reference):
    assert_same_but_names(source_of(named), reference, strict=len(text) <= 40)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(HOSTILE), COUNT))
def test_different_names_together(first, reference):
    names = (HOSTILE * 2)[first : first + COUNT]
    source = source_of(scheduled(lambda number: names[number]))
    assert_same_but_names(source, reference, strict=False)  # "+" and "-" are both v_


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [n if n % 6 == 0 else pytest.param(n, marks=pytest.mark.slow) for n in range(12)],
)
def test_one_hostile_name_among_benign_ones(number, reference):
    for text in HOSTILE[number::60]:
        s = scheduled(lambda n, text=text: text if n == number else benign(n))
        assert_same_but_names(source_of(s), reference, strict=len(text) <= 40)


@pytest.mark.slow
def test_the_hooks_of_a_text_bear_no_names(unnamed, reference):
    wanted = source_of(unnamed, hooks=True)
    assert len(tokens_of(wanted)) > len(tokens_of(reference))
    for text in HOSTILE[::20]:
        source = source_of(scheduled(lambda n, text=text: text), hooks=True)
        assert len(tokens_of(source)) == len(tokens_of(wanted))
        assert source.isascii() and "\\" not in source


def test_enormous_names_are_refused():
    for build in (
        lambda: mt.placeholder((2,), name=ENORMOUS),
        lambda: mt.compute((2,), lambda i: 1.0, name=ENORMOUS),
        lambda: mt.reduce_axis(3, name=ENORMOUS),
        lambda: mt.lower([mt.compute((2,), lambda i: 1.0)], name=ENORMOUS),
        lambda: mt.Schedule(scale()).annotate("i", ENORMOUS, 1),
        lambda: mt.Trace.from_json(ENORMOUS),
    ):
        with pytest.raises(mt.ArgumentError) as caught:
            build()
        assert len(str(caught.value)) < 2000


def test_an_enormous_annotation_is_cut_in_the_text(reference):
    s = scheduled(lambda n: ENORMOUS if n == 13 else benign(n))
    source = source_of(s)
    assert_same_but_names(source, reference)
    assert len(source) < 10_000


# ---- what people and Python read


def lines_of(s):
    return str(s.program).splitlines()


def test_printed_programs_keep_their_lines(named, unnamed):
    s = named
    assert len(lines_of(s)) == len(lines_of(unnamed))
    for shown in (str(s.program), repr(s), s.diff()):
        assert shown.replace("\n", "").isprintable()
    sheet, page = s._repr_html_().split("<pre ")
    assert sheet.startswith("<style>") and sheet.endswith("</style>") and sheet.count("<") == 2
    assert "<" not in re.sub(r'<span class="mt-[a-z]+">|</span>|</pre>$', "", page)


def explained(text):
    return mt.explain(scheduled(lambda number: text), TARGET).replace("\n", "")


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("text", SOME[::4], ids=title)
def test_explanations_are_printable(text):
    assert explained(text).isprintable()


@pytest.mark.slow
def test_explanations_without_a_compiler_are_printable(monkeypatch):
    """Which have all but what is in the assembly."""
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    for text in HOSTILE[1 :: times(9, 3)]:
        assert explained(text).isprintable(), text


def test_the_script_of_a_trace_makes_its_calls_and_nothing_else(named):
    s = named
    module = ast.parse(s.trace.as_python())
    assert len(module.body) == len(s.trace)
    for statement, step in zip(module.body, s.trace.steps):
        assert isinstance(statement, (ast.Assign, ast.Expr))
        call = statement.value
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        assert ast.unparse(call.func) == f"s.{step.primitive}"
        for part in [*call.args, *(keyword.value for keyword in call.keywords)]:
            for node in ast.walk(part):
                assert isinstance(
                    node, (ast.Constant, ast.Name, ast.List, ast.Load, ast.Subscript)
                ), ast.dump(node)
    assert mt.Trace.from_json(s.trace.to_json()) == s.trace


# ---- text where something else is meant


def conv(**options):
    return lambda text: mt.workloads.conv2d(
        1, 2, 4, 4, 2, 3, **{name: text for name, _ in options.items()}
    )


def step_of(primitive, **arguments):
    """The trace of one step."""
    data = {"primitive": primitive, "arguments": arguments, "result": None}
    return json.dumps({"minitensor_trace": 1, "steps": [data]})


def applied(text):
    return mt.Trace.from_json(text).apply(chain())


def declared(name="f", tensor="x", condition="1", include="stdint.h", strides="x"):
    x = mt.placeholder((4,), name=tensor)
    y = mt.compute((4,), lambda i: x[i] * 2, name="y")
    bodies = [(condition, ";"), "for (int i = 0; i < 4; ++i) y[i] = x[i] * 2;"]
    return mt.intrinsic(name, [x, y], bodies, strides={strides: [None]}, includes=[include])


SITES = {
    "a dtype": lambda text: mt.placeholder((2,), text),
    "a shape": lambda text: mt.placeholder(text),
    "an extent": lambda text: mt.placeholder((text,)),
    "the domain of a reduction": lambda text: mt.reduce_axis(text),
    "a value": lambda text: mt.compute((2,), lambda i: text),
    "a type to convert to": lambda text: mt.compute((2,), lambda i: (i + 1).astype(text)),
    "an index": lambda text: mt.placeholder((2,))[text],
    "a layout": conv(layout=0),
    "a type of an operator": conv(dtype=0),
    "a type of its result": conv(out_dtype=0),
    "a stride": conv(stride=0),
    "a number of groups": conv(groups=0),
    "the name of an intrinsic": lambda text: declared(name=text),
    "the operand of an intrinsic": lambda text: declared(tensor=text),
    "the condition of a body": lambda text: declared(condition=text),
    "a header": lambda text: declared(include=text),
    "an operand with strides": lambda text: declared(strides=text),
    "a loop": lambda text: mt.Schedule(chain()).parallel(text),
    "a block": lambda text: mt.Schedule(chain()).compute_inline(text),
    "a buffer": lambda text: mt.Schedule(chain()).set_scope(text, "local"),
    "a scope": lambda text: mt.Schedule(chain()).set_scope("B", text),
    "a scope of a cache": lambda text: mt.Schedule(chain()).cache_read("C", "B", text),
    "a thread": lambda text: mt.Schedule(chain()).bind("i", text),
    "a tail": lambda text: mt.Schedule(chain()).split("i", [2], tail=text),
    "factors": lambda text: mt.Schedule(chain()).split("i", text),
    "a factor": lambda text: mt.Schedule(chain()).split("i", [text]),
    "an intrinsic": lambda text: mt.Schedule(chain()).tensorize("i", text),
    "an index map": lambda text: mt.Schedule(chain()).transform_layout("B", text),
    "the index of a map": lambda text: mt.Schedule(chain()).transform_layout("B", lambda i: text),
    "a decision": lambda text: mt.Schedule(chain()).sample_perfect_tile("i", 2, decision=text),
    "a tile": lambda text: mt.Schedule(chain()).sample_tile("i", 2, decision=text),
    "a policy": lambda text: mt.Schedule(chain()).sample_tile("i", 2, policy=text),
    "candidates": lambda text: mt.Schedule(chain()).sample_tile("i", 2, candidates=text),
    "a filter": lambda text: mt.Schedule(chain()).sample_tile("i", 2, filter=text),
    "an order": lambda text: mt.Schedule(chain()).sample_order("i", candidates=[[text]]),
    "annotations": lambda text: mt.Schedule(chain()).apply_annotation([text], "i"),
    "what is required": lambda text: mt.Schedule(chain()).require(False, text),
    "a place": lambda text: mt.Schedule(chain()).sample_compute_location("B", decision=text),
    "a program": lambda text: mt.build(text),
    "a schedule": lambda text: mt.Schedule(text),
    "a target": lambda text: mt.build(scale(), text),
    "a kind of target": lambda text: mt.Target(text),
    "a number of cores": lambda text: mt.Target("c", text),
    "bits of a vector": lambda text: mt.Target("c", 1, text),
    "a pass": lambda text: passes_without([text]),
    "a trace": lambda text: mt.Trace.from_json(text),
    "a primitive of a trace": lambda text: applied(step_of(text, loop="i")),
    "a loop of a trace": lambda text: applied(step_of("parallel", loop=text)),
    "an argument of a trace": lambda text: applied(step_of("parallel", **{text: "i"})),
    "a reference of a trace": lambda text: applied(step_of("parallel", loop={"ref": [text]})),
    "a map of a trace": lambda text: applied(
        step_of("transform_layout", buffer="B", index_map={"inputs": [text], "outputs": [text, 1]})
    ),
    "an operator of a trace": lambda text: applied(
        step_of(
            "transform_layout",
            buffer="B",
            index_map={"inputs": ["i"], "outputs": [[text, "i", 1]]},
        )
    ),
    "a decision of a trace": lambda text: applied(
        step_of("sample_categorical", candidates=[1, 2], probs=None, decision=text)
    ),
    "a version of a trace": lambda text: mt.Trace.from_json(
        json.dumps({"minitensor_trace": text, "steps": []})
    ),
    "the name of a script": lambda text: mt.Trace().as_python(text),
}
"""What takes one of a few words, or no text at all; each must be refused."""

LEGAL = {
    "a scope": {"register"},
    "a scope of a cache": {"register"},
    "a place": {"root"},
    "a dtype": {"bool"},
    "a type to convert to": {"bool"},
    "a loop": {"i", "j"},
    "an order": {"i"},
    "a loop of a trace": {"i", "j"},
    "an operator of a trace": {"+", "-", "//"},
    "the condition of a body": None,
    "the name of an intrinsic": None,
    "the operand of an intrinsic": None,
    "a header": None,
    "a map of a trace": None,
    "the name of a script": None,
}
"""What may be accepted there; None for what is text, and looked at below."""


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("site", SITES)
def test_text_where_something_else_is_meant(site):
    legal = LEGAL.get(site, set())
    accepted = []
    texts = HOSTILE if Extent.whole else HOSTILE[list(SITES).index(site) % 2 :: 2]
    for text in texts:
        try:
            SITES[site](text)
        except MinitensorError as refused:
            assert refused.message.isprintable(), refused.message
            assert len(refused.message) < 1000
        else:
            accepted.append(text)
    assert len(accepted) < len(texts) / 2 or legal is None
    if legal is not None:
        assert set(accepted) <= legal
    elif site in PATTERNS:
        for text in accepted:
            assert PATTERNS[site](text), text


PATTERNS = {
    "the name of an intrinsic": lambda text: text.isidentifier() and text.isascii(),
    "the operand of an intrinsic": lambda text: text.isidentifier() and text.isascii(),
    "a header": lambda text: not set(text) & set('"<>\\\n# ;'),
    "the condition of a body": lambda text: text.isprintable() and "\\" not in text,
    "a map of a trace": str.isidentifier,
    "the name of a script": str.isidentifier,
}


def test_there_are_no_words_that_refuse_everything():
    """The sites work: with the right word each accepts."""
    mt.placeholder((2,), "float32")
    declared()
    applied(step_of("parallel", loop="i"))
    index_map = {"inputs": ["i"], "outputs": [["+", "i", 1]]}
    applied(step_of("transform_layout", buffer="B", index_map=index_map))
    for name, value in (("layout", "NHWC"), ("dtype", "int8"), ("groups", 2)):
        mt.workloads.conv2d(1, 2, 4, 4, 2, 3, **{name: value})


# ---- intrinsics: names around the one text that is taken as it is


@pytest.mark.slow
def test_what_surrounds_the_body_of_an_intrinsic():
    """Accepted names stand there as they are: identifiers, and headers in angle brackets."""
    count = 0
    for text in HOSTILE:
        for name in ("name", "tensor", "include"):
            try:
                dot = declared(**{name: text, **({"strides": text} if name == "tensor" else {})})
            except MinitensorError:
                continue
            s = mt.Schedule(scale(4))
            s.tensorize("i", dot)
            source = generate(s.program, TARGET, s.trace.as_python()).source
            assert source.isascii() and "\\" not in source
            count += 1
    assert count > 20


# ---- kernels' messages


def test_messages_of_calls_are_one_line():
    kernel = mt.build(scale(4), "interpreter")
    for text in HOSTILE:
        A = mt.placeholder((4,), name=text)
        program = mt.lower([A, mt.compute((4,), lambda i, A=A: A[i] + 1, name=text)], name=text)
        kernel = mt.build(program, "interpreter")
        for arguments in ((), (None,), (text,), (1, 2, 3)):
            with pytest.raises(mt.ArgumentError) as caught:
                kernel(*arguments)
            assert str(caught.value).isprintable() and len(str(caught.value)) < 1000
        with pytest.raises(mt.ArgumentError) as caught:
            kernel.bind(**{text + "?": 1})
        assert str(caught.value).isprintable() and len(str(caught.value)) < 1000
        assert repr(kernel).isprintable()


def test_plain_is_what_it_says():
    assert_plain("// a comment\nint f(void) { return 0; }\n")
    for wrong in ("// a\\\n", "// ??/\n", "int é;", "a\tb", 'char *s = "x";', "#define x\n"):
        with pytest.raises(AssertionError):
            assert_plain(wrong)
