"""A trace written as JSON and replayed by a new process gives the same program, text and source.

Byte for byte, whatever the seed of the process's hashes is: nothing may depend on the order of a
set.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from minitensor.schedule import Trace
from tests.parts import Extent, some
from tests.replayed import digests, subject, subjects

DRAWN = 25
ROOT = Path(__file__).parents[2]


def chosen() -> list[str]:
    """The names of the subjects: in `make test`, without those that differ from another in sizes
    alone.
    """
    kinds: dict[str, str] = {}
    for name in subjects(DRAWN):
        drawn = name.startswith("drawn")
        kinds.setdefault(name if drawn or Extent.whole else re.sub(r"\d+", "", name), name)
    return list(kinds.values())


@pytest.fixture(scope="module")
def here() -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The traces as JSON, and the digests of what they were read from."""
    made = {name: subject(name) for name in chosen()}
    traces = {name: schedule.trace.to_json() for name, schedule in made.items()}
    return traces, {name: digests(schedule) for name, schedule in made.items()}


def replayed(traces: dict[str, str], hash_seed: str) -> dict[str, dict[str, str]]:
    """What a new process makes of them."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.replayed"],
        input=json.dumps(traces),
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


def differences(
    expected: dict[str, dict[str, str]], found: dict[str, dict[str, str]]
) -> list[tuple[str, list[str]]]:
    """The subjects of which something differs, and what."""
    assert expected.keys() == found.keys()
    differing = []
    for name, facts in expected.items():
        other = found[name]
        keys = [key for key in {**facts, **other} if facts.get(key) != other.get(key)]
        if keys:
            differing.append((name, keys))
    return differing


@pytest.mark.slow
@pytest.mark.parametrize(
    "hash_seed, first",
    some([("0", 0), ("random", 1), ("0", 1), ("random", 0), ("1", 0), ("1", 1)], lambda n: n < 2),
)
def test_a_new_process_replays_a_trace_to_the_same_source(here, hash_seed, first):
    """Each trace in one new process at least."""
    traces, expected = here
    assert len(traces) >= DRAWN + 20
    part = list(traces)[first::2]
    found = replayed({name: traces[name] for name in part}, hash_seed)
    assert differences({name: expected[name] for name in part}, found) == []


@pytest.mark.slow
def test_this_process_replays_its_own_traces(here):
    traces, expected = here
    part = list(traces)[::8]
    again = {name: digests(subject(name), traces[name]) for name in part}
    assert differences({name: expected[name] for name in part}, again) == []


@pytest.mark.slow
def test_traces_are_read_and_written_without_a_change(here):
    traces, _ = here
    for name, text in traces.items():
        assert Trace.from_json(text).to_json() == text, name


@pytest.mark.slow
def test_the_traces_are_worth_it(here):
    """Most drawn schedules have steps, all kinds of them; nearly all become C."""
    traces, expected = here
    steps = [step.primitive for text in traces.values() for step in Trace.from_json(text).steps]
    assert len(steps) > 400
    assert len(set(steps)) > 18
    assert sum("source 0" in found for found in expected.values()) > 0.8 * len(expected)


def test_a_difference_is_found():
    found = {name: digests(subject(name)) for name in ("drawn 0", "drawn 1")}
    wrong = {**found, "drawn 1": {**found["drawn 1"], "source 0": ""}}
    assert differences(found, found) == []
    assert differences(found, wrong) == [("drawn 1", ["source 0"])]
