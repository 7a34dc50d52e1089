"""What is public shows itself: readable, bounded, quick, and escaped in a notebook."""

import ast
import html
import re
import time
import traceback

import numpy as np
import pytest

import minitensor as mt
from minitensor.looks import (
    COLUMNS,
    LINES,
    Text,
    as_html,
    readable_count,
    readable_seconds,
    shortened,
    tokens,
)
from minitensor.search import generate_sketches
from minitensor.search.space import Space

TARGET = mt.Target("c", num_cores=2, vector_bits=256)


def product(n=16):
    return mt.lower(mt.workloads.matmul(m=n, n=n, k=n), name="product")


def chain(stages):
    """A program of many blocks."""
    A = stage = mt.placeholder((8,), name="A")
    for n in range(stages):
        stage = mt.compute((8,), lambda i, read=stage: read[i] + 1.0, name=f"T{n}")
    return mt.lower([A, stage])


def scheduled(program):
    s = mt.Schedule(program)
    s.split("i", s.sample_perfect_tile("i", n=2, decision=(4, 4)))
    return s


def public():
    program = product()
    s = scheduled(program)
    kernel = mt.build(s, target="interpreter")
    (sketch, *_) = generate_sketches(program, TARGET)
    a = np.ones((16, 16), "f")
    return {
        "program": program,
        "schedule": s,
        "trace": s.trace,
        "sketch": sketch,
        "space": Space(program, TARGET, [sketch]),
        "kernel": kernel,
        "timing": kernel.time(a, a, repeat=2),
        "explanation": mt.explain(s, TARGET),
        "source": kernel.source,
        "many blocks": chain(500),
        "many steps": mt.Schedule(chain(500)),
    }


@pytest.fixture(scope="module")
def things():
    return public()


@pytest.mark.slow
def test_what_is_shown_is_short_and_comes_at_once(things):
    for name, thing in things.items():
        start = time.process_time()
        text = repr(thing)
        assert time.process_time() - start < 0.5, name  # ten times what it should take
        lines = text.splitlines()
        assert len(lines) <= LINES and max(map(len, lines)) <= COLUMNS, name
        assert "object at 0x" not in text and "Const(" not in text, name


def test_a_notebook_shows_the_same_text(things):
    for name, thing in things.items():
        page = thing._repr_html_()
        body = re.sub(r"<style>.*?</style>|<[^>]*>", "", page)
        assert html.unescape(body) == repr(thing), name
        assert page.count("<span") == page.count("</span>")


def test_rich_prints_the_same_text(things):
    pytest.importorskip("rich")
    for name, thing in things.items():
        assert thing.__rich__().plain == repr(thing), name


def test_a_program_is_its_loops(things):
    assert repr(things["program"]).splitlines()[:2] == [
        "def product(A: float32[16, 16], B: float32[16, 16], C: float32[16, 16]):",
        "    for i in range(16):",
    ]
    assert repr(things["schedule"]).startswith("# product after 2 steps\ndef product(")
    assert "441 more lines" in repr(things["many blocks"]).splitlines()[-1] or (
        "more lines" in repr(things["many blocks"]).splitlines()[-1]
    )
    assert str(things["many blocks"]).count("for ") == 500


def test_a_decided_trace_has_numbers_in_the_place_of_decisions():
    s = mt.Schedule(product())
    tile = s.sample_perfect_tile("i", n=2, decision=(2, 8))
    s.split("i", tile)
    s.split("j", [None, tile[1] * 2])
    assert repr(s.trace) == ("i_0, i_1 = s.split('i', [2, 8])\nj_0, j_1 = s.split('j', [None, 16])")
    opened = s.trace.opened()
    assert "sample_perfect_tile('i', 2" in repr(opened) and "v0" in repr(opened)
    assert repr(mt.Trace()) == "# no steps"


def test_a_plain_trace_makes_the_same_program():
    program, replayed = product(), 0
    for sketch in generate_sketches(program, TARGET):
        s, again = sketch.apply(seed=3), mt.Schedule(program)
        text = s.trace.as_python(plain=True)
        assert "sample_" not in text and "v0" not in text
        if "lambda" not in text:
            make(text, again)
            assert str(again.program) == str(s.program)
            replayed += 1
    assert replayed >= 3


def make(text, schedule):
    """Apply the calls of a text, whose arguments are literals and names of earlier results."""
    known = {}
    for statement in ast.parse(text).body:
        call = statement.value

        def value(node):
            if isinstance(node, ast.List):
                return [value(n) for n in node.elts]
            return known[node.id] if isinstance(node, ast.Name) else ast.literal_eval(node)

        named = {k.arg: value(k.value) for k in call.keywords}
        result = getattr(schedule, call.func.attr)(*map(value, call.args), **named)
        if isinstance(statement, ast.Assign):
            names = getattr(statement.targets[0], "elts", statement.targets)
            results = result if isinstance(result, tuple) else (result,)
            known |= {n.id: r for n, r in zip(names, results)}


HOSTILE = ["<script>alert(1)</script>", '"><img src=x>', "a" * 5000, "\x1b[31m", "</pre>", "&amp;"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_escaped(name):
    A = mt.placeholder((4,), name=name)
    program = mt.lower([A, mt.compute((4,), lambda i: A[i] + 1.0, name="B")], name=name)
    for thing in (program, mt.Schedule(program), mt.explain(program, TARGET), Text(name)):
        page = thing._repr_html_()
        inside = re.sub(r"<style>.*?</style>|</?(?:pre|span)[^>]*>", "", page)
        assert "<" not in inside and ">" not in inside
        assert len(page) < 20_000
    assert "\x1b" not in repr(program)


def test_cutting():
    assert shortened("a\nb") == "a\nb"
    assert shortened("\n".join("x" * 100), lines=3).splitlines()[-1] == (
        "… 98 more lines; str() has them all"
    )
    assert shortened("y" * 300, columns=10) == "y" * 9 + "…"
    assert len(shortened("z" * 10**7)) < 200


def test_the_parts_of_a_text():
    text = 'for i in range(8):  # a "comment"\n    s.split("k", [None, 1.5e3])'
    assert "".join(part for part, _ in tokens(text)) == text
    kinds = {part: kind for part, kind in tokens(text) if kind}
    assert kinds == {
        "for": "word",
        "in": "word",
        "range": "loop",
        "8": "number",
        '# a "comment"': "comment",
        '"k"': "string",
        "1.5e3": "number",
    }
    assert as_html("1 < 2").endswith('1</span> &lt; <span class="mt-number">2</span></pre>')


@pytest.mark.parametrize(
    "seconds, text",
    [(1.2099, "1.21 s"), (0.0372, "37.2 ms"), (8.537e-6, "8.54 µs"), (9.5e-8, "95 ns"),
     (1234.5, "1,234 s"), (0.1215, "122 ms")],
)  # fmt: skip
def test_times_read_like_times(seconds, text):
    assert readable_seconds(seconds) == text


def test_counts_read_like_counts():
    assert readable_count(17.18e9, "FLOP") == "17.2 GFLOP"
    assert readable_count(12, "B") == "12 B"
    assert readable_count(3.4e6, "B") == "3.4 MB"


def test_a_refused_step_in_a_notebook():
    """The message, the nest and the user's own line, without our insides."""
    s = mt.Schedule(product())
    try:
        s.parallel("k")
    except mt.ScheduleError as failure:
        lines = failure._render_traceback_()
        whole = traceback.format_exc()
    assert any('s.parallel("k")' in line for line in lines)
    assert "breaks R2" in lines[-1] and "for k in range(16)" in lines[-1]
    assert not any("primitive.py" in line for line in lines) and "primitive.py" in whole


def test_words_of_prose_are_not_coloured_as_code():
    kinds = dict(tokens("4 tried in 2 s\nfor i in range(4):\n    x = 1\n"))
    assert kinds == {"4": "number", " tried in ": "", "2": "number", " s\n": ""} | {
        "for": "word", " i ": "", "in": "word", " ": "", "range": "loop", "(": "", "):\n": "",
        "    x = ": "", "1": "number", "\n": "",
    }  # fmt: skip


def test_a_long_line_of_blanks_is_looked_at_once():
    assert as_html(" " * 50_000 + "!").endswith("!</pre>")  # minutes, if each blank begins anew
