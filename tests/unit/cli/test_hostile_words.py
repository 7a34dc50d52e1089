"""Hostile text as every word of a command line: a message and a status, nothing else."""

from collections import Counter

import pytest

from tests.hostile import ENORMOUS, HOSTILE
from tests.unit.hostile_schedule import assert_plain

MATMUL = ("matmul", "--small")
ANYWHERE = ("--cores", "2", "--vector-bits", "256")
"""So that no compiler is asked."""

WORDS = {
    "a command": lambda text: (text,),
    "an operator": lambda text: ("show", text),
    "an operator to compile": lambda text: ("compile", text, *ANYWHERE),
    "an operator to explain": lambda text: ("explain", text, *ANYWHERE),
    "an operator to tune": lambda text: ("tune", text, *ANYWHERE),
    "a log to tune with": lambda text: ("tune", *MATMUL, *ANYWHERE, "--log", text),
    "trials": lambda text: ("tune", *MATMUL, *ANYWHERE, "--trials", text),
    "a file": lambda text: ("show", text + ".py:s"),
    "an object of a file": lambda text: ("compile", "mine.py:" + text, *ANYWHERE),
    "an option": lambda text: ("compile", *MATMUL, *ANYWHERE, text),
    "sizes": lambda text: ("show", *MATMUL, "--size", text),
    "the name of a size": lambda text: ("show", *MATMUL, "--size", text + "=4"),
    "a size": lambda text: ("show", *MATMUL, "--size", "m=" + text),
    "a type": lambda text: ("compile", *MATMUL, *ANYWHERE, "--size", "dtype=" + text),
    "a layout": lambda text: ("compile", "conv2d", "--small", "--size", "layout=" + text),
    "a trace": lambda text: ("compile", *MATMUL, *ANYWHERE, "--trace=" + text),
    "a target": lambda text: ("compile", *MATMUL, "--target", text),
    "cores": lambda text: ("compile", *MATMUL, "--vector-bits", "256", "--cores", text),
    "bits": lambda text: ("explain", *MATMUL, "--cores", "2", "--vector-bits", text),
}

GOOD = {"3", "1", "42", "007", "1_000", "٣", "bool"}
"""Words among them that are right somewhere."""


def words_for(place, every):
    """One of so many texts, at each place other ones: with 6, each is tried at three places."""
    return [*HOSTILE[list(WORDS).index(place) % every :: every], ENORMOUS[:100_000]]


def test_every_text_is_a_word_at_three_places():
    tried = Counter(text for place in WORDS for text in words_for(place, 6))
    assert min(tried[text] for text in HOSTILE) >= 3


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(
    "every",
    [17, pytest.param(6, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.whole)],
)
@pytest.mark.parametrize("place", WORDS)
def test_words(run, place, every, tmp_path, monkeypatch, user_file):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    before = set(tmp_path.iterdir())
    for text in words_for(place, every):
        done = run(*WORDS[place](text))
        assert done.status in (0, 1, 2), text
        assert "Traceback" not in done.err
        if done.status:
            assert done.out == "" or place == "a command", text
            assert "error: " in done.err or "usage: " in done.err
        elif WORDS[place](text)[0] == "compile" and "-" not in text:
            assert_plain(done.out)
    made = {path.name for path in set(tmp_path.iterdir()) - before}
    asked_for = {"pwned", " pwned"} if place == "an option" else set()  # by -o and --output
    assert made <= {"cache", "__pycache__"} | asked_for


@pytest.mark.slow
def test_where_the_text_is_written_to(run, tmp_path, monkeypatch):
    inside = tmp_path / "a" / "b" / "c"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    written = 0
    for text in HOSTILE[::2]:
        if text.startswith("/"):
            continue
        done = run("compile", *MATMUL, *ANYWHERE, "-o", text)
        assert done.status in (0, 1, 2), text
        assert "Traceback" not in done.err
        written += done.status == 0
    assert written > 50
    for path in filter(lambda path: path.is_file(), tmp_path.rglob("*")):
        assert_plain(path.read_text())


@pytest.mark.slow
def test_what_a_trace_file_holds(run, tmp_path):
    path = tmp_path / "trace.json"
    for text in HOSTILE[::4]:
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        done = run("compile", *MATMUL, *ANYWHERE, "--trace", path)
        assert done.status == 1 and done.out == ""
        assert "not a trace" in done.err or "is not UTF-8" in done.err
