"""A failure of a campaign made small by Hypothesis, and written as a script that shows it alone."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st
from hypothesis.database import InMemoryExampleDatabase
from hypothesis.strategies import DrawFn

from minitensor.errors import MinitensorError
from minitensor.runtime import Parent, Reason, Worker, WorkerError
from minitensor.testing.draws import seed_bytes
from minitensor.testing.pairs import FailedError, Failure, Pair, pairs
from minitensor.testing.scripts import written

PATIENCE: Final = 20.0
"""Seconds for one candidate, after which it hangs."""
BUDGET: Final = 120.0
"""Seconds for all of them."""

_HEAD: Final = '''\
"""{what}

Found by `minitensor fuzz --seed {seed}` as pair {number}; run it with Python: it fails as long as
the fault is there.
"""
'''

Check = Callable[[Pair], None]
"""A check of a pair, which raises FailedError."""


def reduced(
    seed: int | str, number: int, kind: str, check: Check, target: str = "c"
) -> Pair | None:
    """The smallest pair that was found to fail in the way of a pair of a campaign; None if that
    cannot be drawn, or fails no more.
    """
    deadline = time.monotonic() + BUDGET
    smallest: list[Pair | None] = [None]

    @settings(
        database=InMemoryExampleDatabase(),
        phases=(Phase.reuse, Phase.shrink),
        deadline=None,
        derandomize=False,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(_candidates(target))
    def passes(candidate: Pair | FailedError) -> None:
        if time.monotonic() > deadline:
            return
        try:
            if isinstance(candidate, FailedError):
                raise candidate
            check(candidate)
        except FailedError as failed:
            if failed.failure.kind != kind:
                return
            smallest[0] = failed.pair
            raise AssertionError(kind) from None

    with contextlib.suppress(AssertionError):
        passes.hypothesis.fuzz_one_input(seed_bytes(f"{seed}:{number}"))  # type: ignore[attr-defined]
    with contextlib.suppress(Exception):  # which repeats the failure, or calls it flaky
        passes()
    return smallest[0]


@st.composite
def _candidates(draw: DrawFn, target: str) -> Pair | FailedError:
    """A pair, or how it failed to be drawn."""
    try:
        return draw(pairs(target))
    except FailedError as failed:
        return failed


def isolated(check: Check) -> Check:
    """The same check in a copy of this process: a crash or a hang is a FailedError too.

    Only for a process of one thread that has loaded no kernel.
    """

    def safely(pair: Pair) -> None:
        def run(parent: Parent) -> None:
            try:
                check(pair)
            except FailedError as failed:
                parent.send(asdict(failed.failure))
            else:
                parent.send({})

        with Worker.fork(run, Path(tempfile.gettempdir())) as worker:
            try:
                reply = worker.receive(PATIENCE)
            except WorkerError as failure:
                kind = "hang" if failure.reason is Reason.TIMEOUT else "crash"
                raise FailedError(kind, failure, pair) from failure
        if reply:
            raise FailedError(reply["kind"], AssertionError(reply["message"]), pair)

    return safely


def script_of(
    pair: Pair | None, failure: Failure, seed: int | str, number: int, target: str = "c"
) -> str:
    """A Python script that ends with a failure for as long as it is there.

    pair          that fails; None if it cannot be drawn
    seed, number, target  of the pair in which the failure was found
    """
    what = f"{failure.kind}: {failure.message}".replace("\\", "/").replace('"""', "'''")
    head = _HEAD.format(what=what, seed=seed, number=number)
    if pair is not None:
        arrays = f"small_arrays(program, {pair.values})"
        with contextlib.suppress(MinitensorError, KeyError):  # where it is no definition
            return head + written(pair.program, pair.schedule, arrays, pair.call, target=target)
    return f"{head}from minitensor.testing import check_pair, pair_of\n\n" + (
        f"check_pair(pair_of({seed!r}, {number}, {target!r}))\n"
    )
