"""A search for a GPU that nothing measures, whose best is run in the emulator."""

import pytest

import minitensor as mt
from minitensor.search.runner.gpu import emulated

W = mt.workloads


@pytest.mark.slow
@pytest.mark.parametrize(
    "definition",
    [W.matmul(m=13, n=10, k=9), W.softmax(3, 50), W.conv2d_bias_relu(1, 3, 5, 6, 4, 3, 1, 1)],
    ids=["product", "softmax", "convolution"],
)
def test_the_best_is_right_in_the_emulator(definition):
    result = mt.tune(mt.lower(definition), "cuda-emulator", trials=8)
    assert result.estimated == "right in the emulator, without races"


def test_what_fits_the_gpu_of_the_target_alone_is_run_in_the_emulator():
    """200 KiB of shared memory: more than a block of an A100 has."""
    a = mt.placeholder((1, 51200), name="A")
    b = mt.compute((1, 51200), lambda i, j: a[i, 51199 - j], name="B")
    s = mt.Schedule(mt.lower([a, b]))
    i, j = s.get_loops("B")
    fetch = s.cache_read("B", "A", "shared")
    s.compute_at(fetch, i)
    for loop in (j, s.get_loops(fetch)[-1]):
        s.bind(s.split(loop, [None, 256])[1], "threadIdx.x")
    s.bind(i, "blockIdx.x")
    target = mt.Target("cuda-emulator", device="h200").resolved(1, 0)
    seen = emulated(s, mt.lower([a, b]), target, None, 0)
    assert seen == (True, "right in the emulator, without races")
