"""What replaying a trace gives, as digests, so that processes can be compared.

    python -m tests.replayed < traces.json         {"hand matmul-512": "{…}", …} -> digests

A subject is named: the hand of a workload, or a program and a schedule drawn from a number. So
another process can make the same program, and replays there the trace that it is sent.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping

from minitensor.codegen import Target, generate
from minitensor.errors import MinitensorError
from minitensor.ir import Program, structural_hash
from minitensor.schedule import Schedule, Trace
from minitensor.testing import pair_of
from tutorials.schedules import HAND_SCHEDULES, scheduled

TARGETS = (Target("c", num_cores=2, vector_bits=256), Target("c", num_cores=1, vector_bits=0))
"""With nothing left open that a machine would fill in."""


def subjects(drawn: int) -> list[str]:
    """The names of all hand schedules and of so many drawn pairs."""
    return [f"hand {name}" for name in HAND_SCHEDULES] + [f"drawn {n}" for n in range(drawn)]


def subject(name: str) -> Schedule:
    """The schedule of a subject."""
    kind, _, which = name.partition(" ")
    if kind == "hand":
        return scheduled(HAND_SCHEDULES[which], TARGETS[0])
    return pair_of("replayed", int(which)).schedule


def digests(made: Schedule, text: str | None = None) -> dict[str, str]:
    """What comes of a subject, each as a digest.

    text  the trace to replay, as JSON; None to take the schedule as it was made
    """
    definition = made.history[0]
    schedule = made if text is None else Trace.from_json(text).apply(definition)
    return {key: _digest(value) for key, value in _facts(made, definition, schedule)}


def _facts(made: Schedule, definition: Program, schedule: Schedule) -> Iterator[tuple[str, str]]:
    yield "definition", str(definition)
    yield "trace as it was made", made.trace.to_json()
    yield "trace", schedule.trace.to_json()
    yield "trace, read and written again", Trace.from_json(schedule.trace.to_json()).to_json()
    yield "trace as Python", schedule.trace.as_python()
    yield "program", str(schedule.program)
    yield "structure", structural_hash(schedule.program)
    yield "names that are retired", repr(sorted(schedule.program.retired))
    yield "trace with other decisions", _redecided(schedule, definition)
    for number, target in enumerate(TARGETS):
        yield from ((f"{key} {number}", value) for key, value in _code(schedule.program, target))


def _redecided(schedule: Schedule, definition: Program) -> str:
    try:
        return schedule.trace.opened().apply(definition, seed=7).trace.to_json()
    except MinitensorError as error:
        return str(error)


def _code(program: Program, target: Target) -> Iterator[tuple[str, str]]:
    try:
        emitted = generate(program, target)
    except MinitensorError as error:  # threads of a GPU
        yield "refusal", str(error)
        return
    yield "source", emitted.source
    yield "checks", "\n".join(emitted.checks)
    yield "workspace", str(emitted.workspace)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> int:
    """Replay the traces that come in, print the digests."""
    traces: Mapping[str, str] = json.load(sys.stdin)
    json.dump({name: digests(subject(name), text) for name, text in traces.items()}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
