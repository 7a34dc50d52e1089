"""Made-up records, for tests of logs."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

import minitensor as mt
from minitensor.search import Host, Log, Record

TARGET = mt.Target("c", num_cores=2, vector_bits=256)
KEY = "0123456789abcdef" * 2
HOST = Host("a CPU", 2, "a compiler 1.0", ("-O2", "-march=native"))


def made(seed: int | None = 0, **changes: Any) -> Record:
    """A record that worked; its seed tells it from others."""
    fields: dict[str, Any] = {
        "workload": KEY,
        "name": "matmul",
        "target": TARGET,
        "trace": '{"minitensor_trace":1,"steps":[]}',
        "seconds": (0.25, 0.5),
        "status": "ok",
        "error": "",
        "host": HOST,
        "seed": seed,
        "date": "2025-03-01T12:00:00.000Z",
        "flop": 1000,
        "minitensor": "0.2.0",
    }
    return Record(**{**fields, **changes})


def failed(seed: int | None = 0, **changes: Any) -> Record:
    """A record of a failure."""
    given = {"seconds": (), "status": "not built", "error": "kernel.c:1: error: no", **changes}
    return made(seed, **given)


def filled(log: Log, *records: Record) -> Log:
    """The log, with records appended."""
    for record in records:
        log.append(record)
    return log


texts = st.text(st.characters(), max_size=20)
"""Any text: control codes, quotes, emoji, halves of surrogate pairs."""
seconds = st.floats(min_value=5e-324, max_value=1e17)
_sizes = {"num_cores": st.integers(1, 4096), "vector_bits": st.sampled_from([0, 64, 128, 256, 512])}
targets = st.one_of(
    st.builds(mt.Target, st.sampled_from(["c", "interpreter", "cuda"]), **_sizes),
    st.builds(mt.Target, st.just("cuda"), **_sizes, device=st.sampled_from(["a100", "h200"])),
)
hosts = st.builds(
    Host, texts, st.integers(0, 1 << 40), texts, st.lists(texts, max_size=3).map(tuple)
)
plain_values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts
)
json_values = st.recursive(
    plain_values,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Records with anything in every field, such as only a hostile writer would put there."""
    times = draw(st.lists(seconds, max_size=4).map(tuple))
    status = "ok" if times else draw(texts.filter(lambda text: text not in ("", "ok")))
    return made(
        draw(st.none() | st.integers(0, 1 << 70)),
        workload=draw(st.integers(0, (1 << 128) - 1).map(lambda n: f"{n:032x}")),
        name=draw(texts),
        target=draw(targets),
        trace=canonical(draw(st.dictionaries(texts, json_values, max_size=3))),
        seconds=times,
        status=status,
        error=draw(texts),
        host=draw(hosts),
        flop=draw(st.integers(0, 1 << 70)),
        minitensor=draw(texts),
        parents=tuple(draw(st.lists(st.sampled_from([KEY, KEY[::-1]]), max_size=2))),
        change=draw(texts),
    )


def canonical(data: Any) -> str:
    """JSON as records hold it."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
