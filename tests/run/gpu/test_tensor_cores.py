"""The cost of products by tensor cores."""

import pytest

import minitensor as mt
from tests.run.cuda.test_tensor_cores import product


def cost(shift=0, n=1024):
    s = product(n, n, n, "float16", warps=(2, 4), tiles=(4, 4), depth=32)
    if shift:
        s.storage_align("A_shared", 0, 64, shift)
        s.storage_align("B_shared", 0, 64, shift)
    (found,) = mt.gpu_cost(s, "h100").kernels
    return found


def load_of(found, name):
    (one,) = (a for a in found.accesses if a.buffer == name and not a.site.writes)
    return one


def test_multiplications_are_those_of_tensor_cores():
    found = cost()
    assert found.instructions.tensor == 1024**3 / (16 * 8 * 16)
    assert (found.instructions.fma, found.instructions.float32) == (0, 0)
    assert found.registers < 128  # of 4 x 4 tiles of 16 x 8 sums a thread holds 64


def test_rows_of_a_matrix_are_read_8_at_a_time():
    """Rows of 64 bytes: 2 of 8 begin in a different bank; rows of 256 bytes: none does."""
    found = cost()
    a, b = load_of(found, "A_shared"), load_of(found, "B_shared")
    assert (a.size, a.cycles_a_request, a.ways) == (16, 16, 4)
    assert (b.size, b.cycles_a_request, b.ways) == (16, 16, 8)
    assert a.requests == b.requests == found.instructions.tensor
    assert any("s.storage_align('A_shared', 0, 64, 8)" in remark for remark in found.remarks)


@pytest.mark.slow
def test_rows_that_are_shifted_by_16_bytes_have_no_conflict():
    found = cost(shift=8)
    assert (load_of(found, "A_shared").ways, load_of(found, "B_shared").ways) == (1, 1)
    assert found.seconds < cost().seconds


def test_sums_are_stored_in_whole_sectors():
    found = cost()
    (stored,) = (a for a in found.accesses if a.buffer == "C")
    assert stored.sectors_a_request == 8
    assert stored.moved == stored.wanted == 1024 * 1024 * 4
    assert found.memory["C"] == pytest.approx(1024 * 1024 * 4)
