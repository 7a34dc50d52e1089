"""Counts of requests, sectors and passes, beside numpy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitensor.runtime import AccessCount
from tests.run.cuda.conftest import random
from tests.run.cuda.texts import buffer, marked, text


@pytest.mark.slow
def test_a_tiled_matmul(plain):
    kernel = plain["matmul"]
    counts = {(c.line, c.buffer, c.kind): c for c in kernel.counters(*random(kernel))}
    source = str(kernel.source)
    fetch, use = (marked(source, "matmul", mark) for mark in (1, 2))
    warps = 6 * 8
    write = counts[fetch, "A_shared", "write"]
    assert write == AccessCount(
        fetch, "A_shared", "write", True, 4, 3 * warps, 96 * warps, 0, 3 * warps
    )
    for name in ("A_shared", "B_shared"):
        read = counts[use, name, "read"]
        assert (read.requests, read.lanes, read.passes) == (48 * warps, 32 * 48 * warps, 48 * warps)
    rows = np.arange(48)
    lanes = (rows[:, None] < 37) & (np.arange(48)[None] < 41)
    assert counts[fetch, "A", "read"].lanes == 2 * lanes.sum()
    assert counts[fetch, "A", "read"].requests == 2 * lanes.reshape(24, 2, 3, 16).any((1, 3)).sum()


@pytest.mark.slow
def test_accesses_of_atomics_copies_and_matrices(plain):
    found = {(c.buffer, c.kind): c for c in plain["mma"].counters(*random(plain["mma"]))}
    a = found["A_shared", "read"]
    assert (a.bytes, a.requests, a.lanes, a.passes) == (16, 1, 32, 4)  # rows of 48 bytes
    b = found["B_shared", "read"]
    assert (b.bytes, b.requests, b.lanes, b.passes) == (16, 1, 16, 2)
    copies = plain["copies"].counters(*random(plain["copies"]))  # 6 of 512 bytes, by one warp
    reads = [c for c in copies if (c.buffer, c.kind) == ("A", "read")]
    assert (sum(c.requests for c in reads), sum(c.sectors for c in reads)) == (6, 6 * 16)
    writes = [c for c in copies if (c.buffer, c.kind) == ("A_shared", "write")]
    assert sum(c.passes for c in writes) == 6 * 4 and {c.bytes for c in writes} == {16}
    found = {
        (c.buffer, c.kind): c for c in plain["histogram"].counters(*random(plain["histogram"]))
    }
    assert found["H", "atomic"].lanes == 40 and found["H", "atomic"].requests == 4
    assert found["bins", "atomic"].lanes == 256


# ---- any addresses

STEPS = 4
KINDS = {"float": 4, "int2": 8, "int4": 16, "uint8_t": 1}


@pytest.fixture(scope="module")
def patterns(loaded):
    """For each type: every lane loads at its own index, in shared and in device memory."""
    made = []
    for kind, size in KINDS.items():
        body = f"""
    __shared__ __align__(16) unsigned char held[8192];
    const int tx = threadIdx.x;
    for (int i = tx; i < 8192; i += 64) {{
        held[i] = A[i];
    }}
    __syncthreads();
    for (int s = 0; s < {STEPS}; ++s) {{
        const int at = I[s * 64 + tx];
        if (at >= 0) {{
            {kind} x = *(const {kind} *)&held[at * {size}]; //1
            {kind} y = *(const {kind} *)&A[at * {size}]; //2
        }}
    }}
    B[tx] = 0.0f;
"""
        given = [buffer("A", 8192, dtype="uint8"), buffer("I", STEPS, 64, dtype="int32")]
        made.append(text(f"pattern_{kind}", [*given, buffer("B", 64)], "B", body, block=(64, 1, 1)))
    return loaded(made)


def expected(indices, size):
    """Requests, sectors and passes of the warps; requests are by occurrence, without a barrier."""
    requests = sectors = passes = 0
    at_once = {16: 8, 8: 16}.get(size, 32)
    for warp in (indices[:, :32], indices[:, 32:]):
        held = [[at for at in warp[:, lane] if at >= 0] for lane in range(32)]
        for n in range(max(map(len, held))):
            lanes = [at[n] * size if n < len(at) else None for at in held]
            requests += 1
            sectors += len({a // 32 for a in lanes if a is not None})
            for first in range(0, 32, at_once):
                some = [a for a in lanes[first : first + at_once] if a is not None]
                words = {a // 4 + w for a in some for w in range(max(1, size // 4))}
                banks = np.bincount([w % 32 for w in words], minlength=32)
                passes += int(banks.max())
    return requests, sectors, passes


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data())
def test_any_addresses(patterns, data):
    kind = data.draw(st.sampled_from(list(KINDS)))
    size = KINDS[kind]
    most = 8192 // size - 1
    stride = data.draw(st.sampled_from([0, 1, 2, 3, 16, 32, 33]))
    hole = data.draw(st.integers(1, 9))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    indices = np.arange(STEPS * 64).reshape(STEPS, 64) * stride % (most + 1)
    if data.draw(st.booleans()):
        indices = random.integers(0, most + 1, (STEPS, 64))
    if hole > 1:
        indices[random.integers(0, hole, (STEPS, 64)) == 0] = -1
    kernel = patterns[f"pattern_{kind}"]
    counts = kernel.counters(np.zeros(8192, np.uint8), indices.astype(np.int32))
    shared, device = (marked(str(kernel.source), f"pattern_{kind}", mark) for mark in (1, 2))
    requests, sectors, passes = expected(indices, size)
    (found,) = [c for c in counts if c.line == shared]
    assert (found.bytes, found.requests, found.passes) == (size, requests, passes)
    assert found.lanes == (indices >= 0).sum() and found.shared
    (found,) = [c for c in counts if c.line == device]
    assert (found.buffer, found.requests, found.sectors) == ("A", requests, sectors)
