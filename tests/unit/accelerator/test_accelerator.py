"""The accelerator: its machine, its refusals, what virtual threads gain, its search."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import accelerator as acc


def scheduled(m, n, k, tile, threads, dtype="int8", tensorize=True, scope="acc.weight"):
    """A product with tiles of (rows, columns, terms), rows on virtual threads."""
    a = mt.placeholder((m, k), dtype, name="A")
    b = mt.placeholder((k, n), dtype, name="B")
    wide = "int32" if dtype == "int8" else dtype
    r = mt.reduce_axis(k, name="k")
    c = mt.compute(
        (m, n), lambda i, j: mt.sum(a[i, r].astype(wide) * b[r, j].astype(wide), axis=r), name="C"
    )
    s = mt.Schedule(mt.lower([a, b, c], name="product"))
    made = s.cache_write("C", "acc.accumulator")
    block = next(n for n in s.get_blocks() if n != made)
    i, j, kk = s.get_loops(block)
    i_0, i_1 = s.split(i, [None, tile[0]])
    i_0, v = s.split(i_0, [None, threads])
    j_0, j_1, j_2 = s.split(j, [None, tile[1] // 16, 16])
    k_0, k_1, k_2 = s.split(kk, [None, tile[2] // 16, 16])
    s.reorder(i_0, j_0, v, k_0, i_1, j_1, k_1, j_2, k_2)
    s.bind(v, "vthread")
    s.reverse_compute_at(made, v)
    for name, where in (("A", "acc.input"), ("B", scope)):
        s.compute_at(s.cache_read(block, name, where), k_0)
    s.decompose_reduction(block, k_0)
    if tensorize:
        s.tensorize(j_2, acc.product())
    return s


def test_virtual_threads_hide_loads():
    tile = (98, 64, 144)
    one, two = (mt.build(scheduled(784, 64, 576, tile, n), acc.Machine()) for n in (1, 2))
    assert one.timing.utilisation < 0.65
    assert two.timing.utilisation > 0.85
    assert one.timing.stalls["load", "execute"] > two.timing.stalls.get(("load", "execute"), 0)


def test_a_product_is_exact():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, n, dtype=np.int8) for n in ((24, 64), (64, 32)))
    kernel = mt.build(scheduled(24, 32, 64, (6, 16, 32), 2), "accelerator")
    run = kernel.simulate(a, b, order=7)
    assert np.array_equal(run.outputs[0], a.astype(np.int32) @ b.astype(np.int32))
    assert run.multiply_adds == 24 * 32 * 64
    assert "load" in kernel.source and "acc.input" in kernel.explain()
    assert run.timeline().svg().startswith("<svg")


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"tile": (784, 64, 576)}, r"acc.input has 32,768 bytes, and .* are needed: .* smaller"),
        ({"dtype": "float32", "tensorize": False}, "multiplies int8 by int8 into int32"),
        ({"tensorize": False}, "tensorize them with mt.accelerator.product"),
        ({"scope": "acc.input"}, "the array has .* in acc.weight, and it is in acc.input"),
        ({"scope": "local"}, "is in scope 'local', which the accelerator lacks"),
    ],
)
def test_what_the_machine_lacks_is_refused(changed, message):
    s = scheduled(**{"m": 784, "n": 64, "k": 576, "tile": (98, 64, 144), "threads": 1} | changed)
    with pytest.raises(mt.LoweringError, match=message):
        mt.build(s, "accelerator")


def test_a_program_as_it_is_written_is_refused_with_the_way():
    with pytest.raises(mt.LoweringError, match="computes on chip: cache_write"):
        mt.build(acc.matmul(16, 16, 16), "accelerator")


def test_a_machine_without_memory_is_none():
    for field in ("input_bytes", "dram_bytes_per_cycle", "rows"):
        with pytest.raises(mt.ArgumentError, match=field):
            acc.Machine(**{field: 0})


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: acc.matmul(3, 3), "matmul"),
        (lambda: acc.matmul(3, 3, 3, shft=1), "shft"),
        (lambda: acc.conv2d(3, 3, 3), "conv2d"),
        (lambda: mt.Target("accelerator", device=3), "got device=3"),
        (lambda: acc.Machine(dram=3), r"Machine\(\) has no dram="),
    ],
)
def test_a_call_that_does_not_fit_is_answered_in_words(call, message):
    with pytest.raises(mt.ArgumentError, match=message):
        call()


def test_a_machine_is_a_target_and_back():
    machine = acc.Machine(dram_bytes_per_cycle=4, input_bytes=1024)
    assert acc.Machine.of(machine.target) == machine
    assert acc.Machine.of(mt.Target("accelerator")) == acc.Machine()
    with pytest.raises(mt.ArgumentError, match="parts of an mt"):
        mt.build(acc.matmul(16, 16, 16), mt.Target("accelerator", device="a100"))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda kernel: kernel.stream.with_tokens(3), "expected pairs of numbers"),
        (lambda kernel: kernel.stream.with_tokens([(0, 9999)]), "expected pairs of numbers"),
        (lambda kernel: kernel.stream[9999], "expected a number from 0 to"),
        (lambda kernel: kernel.stream.listing("x"), "got most='x'"),
        (lambda kernel: kernel.timing.timeline(0), "got most=0"),
        (lambda kernel: acc.check(3), "got stream=3"),
        (lambda kernel: acc.timing_of(3), "got stream=3"),
        (lambda kernel: acc.with_tokens(3), "got stream=3"),
        (lambda kernel: kernel.with_stream(3), "got stream=3"),
    ],
)
def test_what_cannot_be_asked_of_a_kernel_is_an_error_in_words(call, message):
    kernel = mt.build(scheduled(16, 16, 32, (8, 16, 16), 2), acc.Machine())
    with pytest.raises(mt.ArgumentError, match=message):
        call(kernel)


@pytest.mark.slow
def test_a_search_finds_more_than_half_of_the_peak():
    machine = acc.Machine(dram_bytes_per_cycle=16)
    result = mt.tune(acc.matmul(64, 64, 256), machine, trials=16, progress=False)
    kernel = result.kernel()
    assert kernel.timing.utilisation > 0.5
    assert "right in the simulator, in 4 orders" in result.estimated
    assert "cycles" in result.explain()


def test_a_search_says_what_its_template_lacks():
    x = mt.placeholder((16,), "int8", name="x")
    program = mt.lower([x, mt.compute((16,), lambda i: x[i] + x[i], name="y")])
    with pytest.raises(mt.TuningError, match="has no products of int8"):
        mt.tune(program, "accelerator", trials=2, progress=False)
