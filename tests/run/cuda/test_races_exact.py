"""The race checker beside the definition: all pairs of accesses of random scripts of threads."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitensor.runtime import ORDERS
from tests.run.cuda.texts import buffer, text

THREADS, STEPS, BLOCKS = 64, 5, 2
NOTHING, READ, WRITE, ATOMIC = range(4)
NO_BARRIER, WARP, BLOCK = range(3)
WIDTHS = {0: 1, 1: 2, 2: 4, 3: 8}

BODY = """
    __shared__ __align__(16) unsigned char held[16];
    const int tx = threadIdx.x;
    const int me = blockIdx.x * 64 + tx;
    if (tx < 16) {
        held[tx] = 0;
    }
    X[me] = 0.0f;
    unsigned char *bytes = where[0] ? G : held;
    __syncthreads();
    for (int s = 0; s < 5; ++s) {
        if (between[s] == 1) __syncwarp();
        if (between[s] == 2) __syncthreads();
        const int what = script[(s * 2 + blockIdx.x) * 64 + tx];
        const int does = what % 4;
        const int width = what / 4 % 4;
        unsigned char *p = &bytes[what / 16];
        if (does == 1 && width == 0) X[me] += *p;
        if (does == 1 && width == 1) X[me] += *(uint16_t *)p;
        if (does == 1 && width == 2) X[me] += *(int *)p;
        if (does == 1 && width == 3) X[me] += *(int64_t *)p;
        if (does == 2 && width == 0) *p = 1;
        if (does == 2 && width == 1) *(uint16_t *)p = 1;
        if (does == 2 && width == 2) *(int *)p = 1;
        if (does == 2 && width == 3) *(int64_t *)p = 1;
        if (does == 3 && width == 2) atomicAdd((int *)p, 1);
        if (does == 3 && width == 3) atomicAdd((unsigned long long *)p, 1);
    }
"""


@pytest.fixture(scope="module")
def scripted(loaded):
    params = [
        buffer("script", STEPS, BLOCKS, THREADS, dtype="int32"),
        buffer("between", STEPS, dtype="int32"),
        buffer("where", 1, dtype="int32"),
        buffer("G", 16, dtype="uint8"),
        buffer("X", BLOCKS * THREADS),
    ]
    fill = text("fill", params, "G X", "    G[threadIdx.x] = 0;", block=(16, 1, 1)).launches
    one = text("scripted", params, "G X", BODY, grid=(BLOCKS, 1, 1), block=(THREADS, 1, 1))
    both = one.__class__(one.name, one.params, one.outputs, (*fill, *one.launches))
    return loaded([both], check=True)["scripted"]


def races(accesses, shared):
    """The bytes that two accesses race for: (block, thread, epoch, warp epoch, does, bytes)."""
    found = set()
    for one, two in itertools.combinations(accesses, 2):
        if one[:2] == two[:2] or (shared and one[0] != two[0]):
            continue
        if one[4] == two[4] and one[4] in (READ, ATOMIC):
            continue
        if one[0] == two[0]:
            same_warp = one[1] // 32 == two[1] // 32
            if one[2] != two[2] or (same_warp and one[3] != two[3]):
                continue
        found |= one[5] & two[5]
    return found


@pytest.mark.slow
@settings(max_examples=150)
@given(data=st.data())
def test_races_are_those_of_all_pairs(scripted, data):
    few = st.lists(
        st.tuples(
            st.integers(0, STEPS - 1),
            st.integers(0, BLOCKS - 1),
            st.sampled_from([0, 1, 2, 31, 32, 33, 63]),
            st.sampled_from([READ, READ, WRITE, ATOMIC]),
            st.sampled_from([0, 1, 2, 2, 3]),
            st.integers(0, 1),
        ),
        min_size=2,
        max_size=8,
    )
    shared = data.draw(st.booleans())
    between = data.draw(st.lists(st.sampled_from([0, 0, WARP, BLOCK]), min_size=5, max_size=5))
    script = np.zeros((STEPS, BLOCKS, THREADS), np.int32)
    chosen = {}
    for s, block, thread, does, width, place in data.draw(few):
        width = max(width, 2) if does == ATOMIC else width
        chosen[s, block, thread] = does, width, place * WIDTHS[width]
    accesses = []
    for (s, block, thread), (does, width, place) in chosen.items():
        script[s, block, thread] = does + 4 * width + 16 * place
        epoch = between[: s + 1].count(BLOCK)
        last = max((n for n in range(s + 1) if between[n] == BLOCK), default=0)
        warp_epoch = between[last : s + 1].count(WARP)
        touched = frozenset(range(place, place + WIDTHS[width]))
        accesses.append((block, thread, epoch, warp_epoch, does, touched))
    real = races(accesses, shared)
    where = np.array([not shared], np.int32)
    for order in ORDERS:
        found = scripted.faults(script, np.array(between, np.int32), where, orders=[order])
        assert {f.kind for f in found} == ({"race"} if real else set())
        assert {f.index[0] for f in found} <= real
