"""Instructions, occupancy, bytes through caches, time and remarks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitensor as mt
from minitensor import codegen, gpu, ir
from minitensor.gpu.footprint import Footprints, waves_of
from minitensor.gpu.instructions import instructions_of
from tests.unit.gpu.spmd import (
    BX,
    BY,
    FLOAT,
    SERIAL,
    UNROLL,
    X,
    Y,
    buffer,
    bx,
    by,
    copied,
    k,
    load,
    loops,
    matmul,
    program,
    staged,
    store,
    tx,
    ty,
)

A100 = codegen.DEVICES["a100"]


def kernel_of(whole):
    (kernel,) = gpu.kernels_of(whole)
    return kernel


def instructions(whole):
    kernel = kernel_of(whole)
    return instructions_of(kernel, kernel.sites(), 0)


# ---- instructions


def test_instructions_of_a_product():
    found = instructions(matmul(n=64, tile=16, inner=4, step=8))
    assert found.fma == 64**3 / 32
    assert (found.float32, found.float64, found.special) == (0, 0, 0)
    assert found.barriers == 8 * 8 * 2  # warps, steps, barriers of a step
    assert 0 < found.integer < found.fma / 4


def value(expression, dtype=FLOAT):
    A, C = buffer("A", 32, dtype=dtype), buffer("C", 32, dtype=dtype)
    body = store(C, tx, value=expression(load(A, tx), dtype))
    return instructions(program(loops(body, ("tx", 32, X)), A, C))


def test_operations_count_once_for_each_warp():
    square = value(lambda a, _: ir.Binary("*", a, a))
    assert (square.float32, square.fma) == (1, 0)
    twice = value(lambda a, _: ir.Binary("+", ir.Binary("*", a, a), ir.Binary("*", a, a)))
    assert (twice.float32, twice.fma) == (2, 0)  # the square is computed once, and is no update
    double = value(lambda a, _: ir.Binary("*", a, a), ir.DType.of("float64"))
    assert (double.float64, double.float32) == (1, 0)
    quotient = value(lambda a, _: ir.Binary("/", a, a))
    assert (quotient.special, quotient.float32) == (1, 9)


def test_functions_have_the_operations_of_their_definitions():
    exp = value(lambda a, dtype: ir.Call("exp", (a,), dtype))
    erf = value(lambda a, dtype: ir.Call("erf", (a,), dtype))
    assert 8 < exp.float32 + exp.fma < 40
    assert erf.total > 10


def test_a_half_is_converted_when_it_is_loaded_and_stored():
    half = value(lambda a, _: a, ir.DType.of("float16"))
    assert half.integer == value(lambda a, _: a).integer + 2


def test_a_serial_loop_takes_instructions_and_one_that_is_written_out_none():
    A, C = buffer("A", 32, 8), buffer("C", 32, 8)

    def of(kind):
        body = loops(store(C, tx, k, value=load(A, tx, k)), ("k", 8, kind))
        return instructions(program(loops(body, ("tx", 32, X)), A, C)).integer

    assert of(SERIAL) == of(UNROLL) + 8 * 3 + 2 * 7  # the loop, and two addresses that move


def summed(lanes, rows=1):
    """Each row of threads sums a value of each."""
    r, C = buffer("r", scope=ir.Scope.REGISTER), buffer("C", rows)
    a, b = ir.Var("a", FLOAT), ir.Var("b", FLOAT)
    add = ir.Reducer("add", (a,), (b,), (ir.Binary("+", a, b),), (ir.Const(0.0, FLOAT),))
    last = ir.If(ir.equal(tx, 0), store(C, ty, value=load(r)))
    body = ir.Seq((store(r), ir.ThreadReduce(add, X, ("r",)), last))
    return program(loops(ir.Alloc(r, body), ("ty", rows, Y), ("tx", lanes, X)), C)


@pytest.mark.parametrize(
    ("lanes", "rows", "shuffles", "barriers", "shared"),
    [(32, 1, 5, 0, 0), (8, 4, 3, 0, 0), (128, 2, 5 * 8, 2 * 8, 2 * 4 * 4), (5, 1, 0, 2, 20)],
)
def test_a_reduction_across_threads(lanes, rows, shuffles, barriers, shared):
    """By shuffles in a warp; by shared memory across warps, or where rows are no part of one."""
    whole = summed(lanes, rows)
    found = instructions(whole)
    assert (found.shuffles, found.barriers) == (shuffles, barriers)
    assert kernel_of(whole).shared_bytes == shared
    assert gpu.cost_of(whole).seconds < 1e-5


# ---- occupancy


@pytest.mark.parametrize(
    ("threads", "registers", "blocks", "share"),
    [(128, 37, 12, 0.75), (320, 37, 4, 0.625), (256, 32, 8, 1.0), (1024, 64, 1, 0.5)],
)
def test_occupancy_of_published_examples(threads, registers, blocks, share):
    """CUDA C++ Best Practices Guide, "Calculating Occupancy": 37 registers, 75 % and 63 %."""
    found = gpu.occupancy(A100, threads, registers, 0)
    assert (found.blocks, found.share) == (blocks, share)


def test_occupancy_by_shared_memory():
    """CUDA C++ Programming Guide, 8.0: 164 KB, of which a block can have 163; 1 is reserved."""
    assert gpu.occupancy(A100, 128, 32, 40 << 10).blocks == 4
    assert gpu.occupancy(A100, 128, 32, 163 << 10).blocks == 1
    found = gpu.occupancy(A100, 128, 32, 164 << 10)
    assert found.blocks == 0 and found.limit == "shared memory"
    assert gpu.occupancy(codegen.DEVICES["t4"], 128, 32, 32 << 10).blocks == 2


@given(
    device=st.sampled_from(sorted(codegen.DEVICES)),
    threads=st.integers(1, 1024),
    registers=st.integers(1, 255),
    shared=st.integers(0, 64 << 10),
    more=st.tuples(st.integers(0, 300), st.integers(0, 64), st.integers(0, 9999)),
)
def test_more_of_a_resource_never_gives_more_blocks(device, threads, registers, shared, more):
    one = codegen.DEVICES[device]
    found = gpu.occupancy(one, threads, registers, shared)
    larger = gpu.occupancy(one, threads + more[0], registers + more[1], shared + more[2])
    assert larger.blocks <= found.blocks
    assert 0 <= found.share <= 1 and found.warps <= one.warps
    assert found.blocks * registers * threads <= one.registers


# ---- bytes through caches


def footprints(whole):
    kernel = kernel_of(whole)
    return Footprints.of(kernel, kernel.sites())


def test_a_block_of_a_product_fetches_a_row_and_a_column_of_tiles():
    found = footprints(matmul(n=256))
    once = found.through(64 << 10, {})
    assert once == {"A": 64 * 256 * 4, "B": 64 * 256 * 4, "C": 64 * 64 * 4}
    grid = found.through(64 << 20, {"bx": 4, "by": 4})
    assert grid == dict.fromkeys("ABC", 256 * 256 * 4)


def test_what_does_not_fit_is_fetched_again():
    A, C = buffer("A", 1024), buffer("C", 32)
    body = loops(store(C, tx, value=load(A, k)), ("k", 1024, SERIAL))
    body = loops(body, ("r", 10, SERIAL))
    found = footprints(program(loops(body, ("tx", 32, X)), A, C))
    assert found.through(8 << 10, {})["A"] == 4096
    assert found.through(2 << 10, {})["A"] == 40960


def test_rows_are_rounded_up_to_sectors():
    A, C = buffer("A", 64, 64), buffer("C", 32)
    body = store(C, tx, value=load(A, tx, 3))
    assert footprints(program(loops(body, ("tx", 32, X)), A, C)).through(1 << 20, {})["A"] == 1024


def test_waves_of_blocks_begin_with_x():
    A = buffer("A", 10, 64)
    whole = program(loops(store(A, by, bx), ("by", 10, BY), ("bx", 64, BX)), A)
    assert waves_of(kernel_of(whole), 128) == ({"bx": 64, "by": 2}, 5)
    assert waves_of(kernel_of(whole), 20) == ({"bx": 20}, 32)
    assert waves_of(kernel_of(whole), 9999) == ({"bx": 64, "by": 10}, 1)


# ---- the time


def test_a_copy_is_bound_by_memory():
    n = 1 << 24
    A, C = buffer("A", n), buffer("C", n)
    body = store(C, bx * 256 + tx, value=load(A, bx * 256 + tx))
    whole = program(loops(body, ("bx", n // 256, BX), ("tx", 256, X)), A, C)
    (found,) = gpu.cost_of(whole, "a100").kernels
    assert found.bound == "DRAM" and found.memory == {"A": 4 * n, "C": 4 * n}
    assert found.terms["DRAM"] == pytest.approx(8 * n / 1555e9)
    assert found.occupancy.share == 1.0 and found.remarks == ()


@pytest.mark.parametrize("device", sorted(codegen.DEVICES))
def test_every_gpu_has_rates(device):
    found = gpu.cost_of(matmul(n=1024), device)
    assert 0 < found.seconds < 1 and found.device.name == device
    assert set(gpu.RATES) == set(codegen.DEVICES)


def test_faster_memory_and_larger_tiles_are_never_slower():
    whole = matmul(n=2048, inner=4)
    assert gpu.cost_of(whole, "h200").seconds <= gpu.cost_of(whole, "h100").seconds
    small, large = (gpu.cost_of(matmul(n=2048, inner=i), "a100").seconds for i in (1, 4))
    assert large < small


def test_strided_and_conflicting_accesses_cost_more():
    n = 1 << 22
    A, C = buffer("A", n // 32, 32), buffer("C", n)
    place = bx * 256 + tx

    def of(index):
        body = store(C, place, value=load(A, *index))
        return gpu.cost_of(program(loops(body, ("bx", n // 256, BX), ("tx", 256, X)), A, C))

    near, far = of((place // 32, place % 32)), of((place % (n // 32), place // (n // 32)))
    assert far.kernels[0].terms["L2"] > 4 * near.kernels[0].terms["L2"]
    assert far.seconds >= near.seconds
    column, shifted = (gpu.cost_of(staged((tx, 0 * tx), 32, width)) for width in (32, 33))
    assert column.kernels[0].terms["shared"] == 32 * shifted.kernels[0].terms["shared"]


def test_a_kernel_that_cannot_be_launched_takes_forever():
    S = buffer("S", 1 << 20, scope=ir.Scope.SHARED)
    found = gpu.cost_of(program(ir.Alloc(S, loops(store(S, tx), ("tx", 32, X)))))
    assert found.seconds == float("inf")
    assert "no block fits a multiprocessor" in found.kernels[0].remarks[0]


def test_registers_are_given_or_estimated():
    """nvcc 13 takes 32, 64 and 142 for sm_80."""
    for inner, registers in ((2, 32), (4, 64), (8, 142)):
        (found,) = gpu.cost_of(matmul(n=256, inner=inner)).kernels
        assert found.registers == pytest.approx(registers, rel=0.3)
    whole = matmul(n=256, inner=4)
    (found,) = gpu.cost_of(whole).kernels
    (given_,) = gpu.cost_of(whole, registers={"matmul_kernel": 200}).kernels
    assert given_.registers == 200 and given_.occupancy.share < found.occupancy.share


def test_launches_and_kernels_add_up():
    A = buffer("A", 64)
    first = loops(store(A, tx), ("tx", 32, X))
    host = ir.Seq((first, loops(loops(store(A, bx), ("bx", 2, BX)), ("k", 5, SERIAL))))
    found = gpu.cost_of(program(host, A))
    a, b = found.kernels
    assert found.seconds == pytest.approx(a.seconds + 5 * b.seconds)


def test_accesses_add_up():
    for found in gpu.cost_of(matmul(n=256)).kernels:
        assert found.instructions.memory == sum(one.requests for one in found.accesses)
        for name, count in found.fetched.items():
            moved = sum(one.moved for one in found.accesses if one.buffer == name)
            assert found.memory[name] <= count <= moved
        for one in found.accesses:
            assert one.distinct <= one.wanted and one.distinct <= one.moved


# ---- what is said


def said(whole):
    return "\n".join(t for one in gpu.cost_of(whole).kernels for t in one.remarks)


def test_remarks_name_the_access_and_the_step():
    assert (
        "loads of A: 4 of 32 bytes of a sector are used; from one tx to the next it moves 32 "
        "elements: bind the loop of its last axis to threadIdx.x"
    ) in said(copied(tx * 32))
    assert (
        "loads of S: 32-way bank conflict; s.storage_align('S', 0, 32, 1) begins its rows in "
        "different banks"
    ) in said(staged((tx, 0 * tx), 32, 32))
    assert "the last warp of a block has 8 of 32 lanes" in said(copied(tx, lanes=40))
    assert "multiprocessors have no block" in said(copied(tx))
    alone = program(store(buffer("A", 4), 0), buffer("A", 4))
    assert "a block is one thread" in said(alone)


def test_remarks_on_what_a_thread_keeps():
    L, A = buffer("L", 8, scope=ir.Scope.LOCAL), buffer("A", 32, 8)
    body = loops(store(L, k), ("k", 8, SERIAL))
    body = ir.Seq((body, loops(store(A, tx, k, value=load(L, k)), ("k", 8, SERIAL))))
    assert "L is in local memory" in said(program(loops(ir.Alloc(L, body), ("tx", 32, X)), A))


def test_the_text_has_the_terms_and_what_bounds():
    found = gpu.cost_of(matmul(n=256), "h100")
    text = str(found)
    assert text.startswith(
        f"{mt.looks.readable_seconds(found.seconds)} estimated on h100, 1 kernel"
    )
    assert f"bound by {found.kernels[0].bound}" in text
    for word in ("occupancy", "DRAM", "load A_shared", "grid 4 x 4 x 1, block 16 x 16 x 1"):
        assert word in text
    assert repr(found).splitlines()[:8] == text.splitlines()[:8]


def test_bad_arguments():
    with pytest.raises(mt.ArgumentError, match="device"):
        gpu.cost_of(matmul(), "a1000")
    A = mt.placeholder((4,), "float32", name="A")
    whole = mt.lower([A, mt.compute((4,), lambda i: A[i] + 1.0, name="B")])
    with pytest.raises(mt.ArgumentError, match="passes of a CUDA target"):
        gpu.cost_of(whole)
