"""Sectors, bank conflicts and bytes of known patterns, and of kernels compared with a loop."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitensor import gpu, ir
from tests.unit.gpu.spmd import (
    BX,
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
    u,
)

HALF, DOUBLE = ir.DType.of("float16"), ir.DType.of("float64")


def accesses(program, name, **more):
    """The traffic of all accesses of an array."""
    (kernel,) = gpu.kernels_of(program)
    return [
        gpu.traffic_of(kernel, site, **more)
        for site in kernel.sites()
        if site.buffer is not None and site.buffer.name == name
    ]


def one(program, name, **more):
    (found,) = accesses(program, name, **more)
    return found


@pytest.mark.parametrize(
    ("index", "sectors", "distinct"),
    [
        (tx, 4, 128),
        (tx + 1, 5, 128),
        (tx + 8, 4, 128),
        (tx * 2, 8, 128),
        (tx * 4, 16, 128),
        (tx * 8, 32, 128),
        (tx * 32, 32, 128),
        (31 - tx, 4, 128),
        (tx // 2, 2, 64),
        (tx % 8, 1, 32),
        (ir.Const(5), 1, 4),
    ],
)
def test_sectors_of_a_request(index, sectors, distinct):
    found = one(copied(index), "A")
    assert (found.requests, found.sectors, found.distinct) == (1, sectors, distinct)
    assert found.wanted == 128 and found.moved == 32 * sectors and found.exact


@pytest.mark.parametrize(("dtype", "sectors"), [(HALF, 2), (FLOAT, 4), (DOUBLE, 8)])
def test_sectors_by_the_size_of_elements(dtype, sectors):
    assert one(copied(tx, dtype=dtype), "A").sectors == sectors


@pytest.mark.parametrize(
    ("stride", "ways"), [(0, 1), (1, 1), (2, 2), (3, 1), (8, 8), (16, 16), (32, 32), (33, 1)]
)
def test_bank_conflicts_of_a_stride(stride, ways):
    found = one(staged((ir.Const(0), tx * stride), 1, 2048), "S")
    assert (found.cycles, found.ways, found.sectors) == (ways, ways, 0)


def test_a_column_of_rows_that_are_shifted_has_no_conflict():
    assert one(staged((tx, ir.Const(0)), 32, 32), "S").ways == 32
    assert one(staged((tx, ir.Const(0)), 32, 33), "S").ways == 1
    aligned = staged((tx, ir.Const(0)), 32, 32, alignment=((0, 32, 1),))
    assert one(aligned, "S").ways == 1


def test_a_word_goes_to_any_number_of_lanes():
    assert one(staged((ir.Const(0), tx // 4)), "S").cycles == 1
    assert one(staged((ir.Const(0), tx), dtype=HALF), "S").cycles == 1  # two lanes a word


def test_accesses_of_8_and_16_bytes_are_made_by_halves_and_quarters():
    wide = one(staged((ir.Const(0), tx), dtype=DOUBLE), "S")
    assert (wide.cycles, wide.ways) == (2, 1)
    strided = one(staged((ir.Const(0), tx * 2), columns=64, dtype=DOUBLE), "S")
    assert (strided.cycles, strided.ways) == (4, 2)


def vector_copy(stride=4, lanes=32):
    """Each thread copies four elements side by side to shared memory."""
    A, S = buffer("A", 4096), buffer("S", 4096, scope=ir.Scope.SHARED)
    place = ir.Ramp(tx * stride, 1, 4)
    value = ir.Load("A", (place,), FLOAT.with_lanes(4))
    copy = ir.Store("S", (place,), value)
    return program(ir.Alloc(S, loops(copy, ("tx", lanes, X))), A)


def test_a_copy_of_vectors_moves_sixteen_sectors_in_one_request():
    found = one(vector_copy(), "A")
    assert (found.size, found.requests, found.sectors, found.wanted) == (16, 1, 16, 512)
    stored = one(vector_copy(), "S")
    assert (stored.size, stored.requests, stored.cycles, stored.ways) == (16, 1, 4, 1)
    apart = one(vector_copy(stride=8), "S")
    assert (apart.cycles, apart.ways) == (8, 2)


def test_vectors_that_are_not_side_by_side_are_accessed_element_by_element():
    A = buffer("A", 4096)
    r = buffer("r", 4, scope=ir.Scope.REGISTER)
    value = ir.Load("A", (ir.Ramp(tx, 32, 4),), FLOAT.with_lanes(4))
    body = ir.Alloc(r, ir.Store("r", (ir.Ramp(ir.Const(0), 1, 4),), value))
    found = one(program(loops(body, ("tx", 32, X)), A), "A")
    assert (found.size, found.requests, found.sectors) == (4, 4, 16)


def test_warps_are_threads_with_x_fastest_and_the_last_is_ragged():
    A, B = buffer("A", 8, 10), buffer("B", 8, 10)
    body = store(B, ty, tx, value=load(A, ty, tx))
    found = one(program(loops(body, ("ty", 8, Y), ("tx", 10, X)), A, B), "A")
    assert (found.requests, found.wanted) == (3, 320)
    assert found.sectors == 4 + 4 + 2
    narrow = one(copied(tx, lanes=40), "A")
    assert (narrow.requests, narrow.sectors, narrow.wanted) == (2, 5, 160)


def test_lanes_of_which_the_condition_does_not_hold_are_not_active():
    A, B = buffer("A", 100), buffer("B", 100)
    place = bx * 32 + tx
    body = ir.If(ir.less(place, 100), store(B, place, value=load(A, place)))
    found = one(program(loops(body, ("bx", 4, BX), ("tx", 32, X)), A, B), "B")
    assert (found.requests, found.wanted, found.sectors) == (4, 400, 13)
    (kernel,) = gpu.kernels_of(program(loops(body, ("bx", 5, BX), ("tx", 32, X)), A, B))
    assert {gpu.executions(kernel, s) for s in kernel.sites() if s.guards} == {4}


def test_the_side_of_padding_that_is_not_taken_is_not_loaded():
    A, B = buffer("A", 32), buffer("B", 32)
    inside = ir.less(tx, 16)
    value = ir.Select(inside, load(A, tx), ir.Const(0.0, FLOAT), lazy=True)
    found = one(program(loops(store(B, tx, value=value), ("tx", 32, X)), A, B), "A")
    assert (found.requests, found.wanted, found.sectors) == (1, 64, 2)


def test_an_index_that_depends_on_data_is_scattered():
    A, B = buffer("A", 1 << 20), buffer("B", 32, dtype=ir.DType.of("int32"))
    C = buffer("C", 32)
    place = ir.Call("in_bounds", (ir.Cast(ir.INDEX, load(B, tx)), ir.Const(1 << 20)), ir.INDEX)
    found = one(program(loops(store(C, tx, value=load(A, place)), ("tx", 32, X)), A, B, C), "A")
    assert found.requests == 1 and found.sectors == 32 and not found.exact


def test_an_array_of_a_thread_whose_indices_are_no_constants_is_local_memory():
    A, L = buffer("A", 32), buffer("L", 8, scope=ir.Scope.LOCAL)
    for kind, count in ((UNROLL, 0), (SERIAL, 1)):
        fill = loops(store(L, k), ("k", 8, kind))
        whole = program(loops(ir.Alloc(L, fill), ("tx", 32, X)), A)
        (kernel,) = gpu.kernels_of(whole)
        assert len(kernel.in_registers(kernel.sites())) == 1 - count
        found = one(whole, "L", as_written=True)
        assert (found.space, found.requests, found.sectors) == ("local", 8, 32)


# ---- what stays in registers


def test_a_load_that_a_loop_does_not_move_is_made_once():
    A, C = buffer("A", 32), buffer("C", 32, 8)
    for kind in (SERIAL, UNROLL):
        body = loops(store(C, tx, u, value=load(A, tx)), ("u", 8, kind))
        whole = program(loops(body, ("tx", 32, X)), A, C)
        assert one(whole, "A").requests == 1
        assert one(whole, "A", as_written=True).requests == 8
        assert one(whole, "C").requests == 8


def test_a_load_is_made_again_where_the_array_is_stored_to_or_threads_meet():
    A = buffer("A", 64)
    body = loops(store(A, tx + 32, value=load(A, tx)), ("u", 8, SERIAL))
    assert accesses(program(loops(body, ("tx", 32, X)), A), "A")[0].requests == 8
    S, C = buffer("S", 32, scope=ir.Scope.SHARED), buffer("C", 32)
    steps = ir.sequence(ir.Barrier(), store(C, tx, value=load(S, tx)))
    body = loops(loops(steps, ("u", 8, SERIAL)), ("tx", 32, X))
    assert one(program(ir.Alloc(S, body), C), "S").requests == 8


def test_loads_of_a_window_are_made_once_for_each_element():
    A, C = buffer("A", 64), buffer("C", 32, 4, 3)
    body = store(C, tx, u, k, value=load(A, tx + u + k))
    body = loops(body, ("u", 4, UNROLL), ("k", 3, UNROLL))
    whole = program(loops(body, ("tx", 32, X)), A, C)
    assert one(whole, "A").requests == 6
    assert one(whole, "A", as_written=True).requests == 12


def test_loads_of_neighbours_in_shared_memory_become_wide():
    whole = matmul()
    a, b = one_load(whole, "A_shared"), one_load(whole, "B_shared")
    assert (a.size, a.requests) == (16, 8 * 8 * 8)  # 8 warps, 8 steps, 4 x 8 elements
    assert (b.size, b.requests) == (16, 8 * 8 * 8)
    written = [t for t in accesses(whole, "A_shared", as_written=True) if not t.site.writes]
    assert (written[0].size, written[0].requests) == (4, 8 * 8 * 8 * 16)


def one_load(program, name):
    (found,) = (t for t in accesses(program, name) if not t.site.writes)
    return found


# ---- counted one by one


def by_hand(kernel, site):
    """Requests, sectors, cycles and bytes, by loops over everything."""
    parts = kernel.parts
    outer = [*parts.blocks, *site.loops]
    x, y, z = parts.block
    threads = [(a, b, c) for c in range(z) for b in range(y) for a in range(x)]
    axes = {loop.var: "xyz".index(loop.kind.value[-1]) for loop in parts.threads}
    size = site.buffer.dtype.bits // 8
    shared = site.buffer.scope is ir.Scope.SHARED
    requests = sectors = cycles = wanted = 0
    for point in itertools.product(*(range(loop.extent) for loop in outer)):
        fixed = {loop.var: n for loop, n in zip(outer, point)}
        for start in range(0, len(threads), 32):
            touched = []
            for thread in threads[start : start + 32]:
                values = fixed | {name: thread[axis] for name, axis in axes.items()}
                if all(ir.value_by_numpy(c, values) == holds for c, holds in site.guards):
                    places = zip(site.indices, ir.strides_of(site.buffer))
                    address = sum(int(ir.value_by_numpy(i, values)) * s for i, s in places) * size
                    touched.append(address)
            requests += bool(touched)
            wanted += size * len(touched)
            if shared:
                words = {address // 4 for address in touched}
                cycles += max(len([w for w in words if w % 32 == b]) for b in range(32))
            else:
                sectors += len({address // 32 for address in touched})
    return requests, sectors, cycles, wanted


AFFINE = st.tuples(*(st.integers(0, n) for n in (9, 5, 40, 7, 6)), st.integers(0, 3))


def drawn(coefficients, lanes, rows, blocks, steps, bound, shared):
    a, b, c, d, e, f = coefficients
    place = tx * a + ty * b + bx * c + k * d + (tx * e + k) // (f + 1)
    guard = ir.less(place, bound)
    A = buffer("A", 4096, scope=ir.Scope.SHARED if shared else ir.Scope.GLOBAL)
    r = buffer("r", scope=ir.Scope.REGISTER)
    body = ir.If(guard, store(r, value=load(A, place)))
    body = ir.Alloc(r, loops(body, ("k", steps, SERIAL)))
    body = loops(body, ("ty", rows, Y), ("tx", lanes, X))
    if shared:
        return program(loops(ir.Alloc(A, body), ("bx", blocks, BX)))
    return program(loops(body, ("bx", blocks, BX)), A)


SHAPES = {
    "coefficients": AFFINE,
    "lanes": st.integers(1, 40),
    "rows": st.integers(1, 4),
    "blocks": st.integers(1, 3),
    "steps": st.integers(1, 3),
    "bound": st.integers(1, 600),
    "shared": st.booleans(),
}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(**SHAPES)
def test_counts_are_those_of_loops_over_everything(**drawing):
    (kernel,) = gpu.kernels_of(drawn(**drawing))
    (site,) = (s for s in kernel.sites() if s.buffer is not None and s.buffer.name == "A")
    found = gpu.traffic_of(kernel, site, as_written=True, most=1 << 20)
    counts = (found.requests, found.sectors, found.cycles, found.wanted)
    assert found.exact and counts == by_hand(kernel, site)


@settings(max_examples=60, deadline=None)
@given(**SHAPES)
def test_a_sample_stands_for_all(**drawing):
    """64 rows of at most 60 * 5 that differ by at most 32 sectors."""
    (kernel,) = gpu.kernels_of(drawn(**drawing))
    (site,) = (s for s in kernel.sites() if s.buffer is not None and s.buffer.name == "A")
    whole = gpu.traffic_of(kernel, site, as_written=True)
    sample = gpu.traffic_of(kernel, site, as_written=True, most=64)
    rows = kernel.warps * kernel.blocks * drawing["steps"]
    assert sample.requests <= rows and sample.wanted <= 128 * rows
    for name, most in (("requests", 1), ("sectors", 32), ("cycles", 32), ("wanted", 128)):
        apart = abs(getattr(whole, name) - getattr(sample, name))
        assert apart <= 0.6 * most * rows + 1e-6
    if sample.exact:
        assert sample == whole


def test_large_kernels_are_sampled():
    A, C = buffer("A", 1 << 20), buffer("C", 1 << 20)
    place = (bx * 77 + tx * 3) % 1000003
    whole = program(
        loops(store(C, place, value=load(A, place)), ("bx", 9999, BX), ("tx", 96, X)), A, C
    )
    found = one(whole, "A", most=512)
    assert not found.exact and found.requests == 9999 * 3
    assert found.sectors_a_request == pytest.approx(12.5, rel=0.05)


def test_addresses_of_a_warp():
    (kernel,) = gpu.kernels_of(copied(bx * 100 + tx * 2, lanes=40, grid=3))
    (site,) = (s for s in kernel.sites() if s.buffer is not None and s.buffer.name == "A")
    assert gpu.addresses(kernel, site, 0, {"bx": 2}).tolist() == [800 + 8 * n for n in range(32)]
    assert gpu.addresses(kernel, site, 1, {}).tolist() == [8 * n for n in range(32, 40)] + [-1] * 24


def test_the_kernels_of_a_program():
    A, T = buffer("A", 64), buffer("T", 64)
    first = loops(store(T, tx, value=load(A, tx)), ("tx", 32, X))
    second = loops(store(A, bx * 32 + ty, value=load(T, ty)), ("bx", 2, BX), ("ty", 32, Y))
    host = ir.Alloc(T, ir.Seq((first, loops(second, ("k", 5, SERIAL)))))
    a, b = gpu.kernels_of(program(host, A))
    assert (a.name, a.launches, a.blocks, a.threads) == ("test_kernel_1", 1, 1, 32)
    assert (b.name, b.launches, b.parts.grid) == ("test_kernel_2", 5, (2, 1, 1))
    assert math.prod(b.parts.block) == 32 and by.name == "by"
