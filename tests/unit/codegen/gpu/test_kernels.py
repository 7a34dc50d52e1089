"""Programs of a GPU in parts: the host, the kernels, their shapes; and the table of GPUs."""

import pytest

import minitensor as mt
from minitensor.codegen.gpu.devices import DEVICES, MOST_STATIC_SHARED, device_named
from minitensor.codegen.gpu.kernels import is_host, kernel_of, kernels_in, nbytes, shared_offsets
from minitensor.ir import NOTHING, Alloc, Barrier, Scope, Seq, Var
from tests.unit.ir.build import buffer, loop, store

x, y = Var("x"), Var("y")
S, R, G = (buffer(s.value, 5, scope=s) for s in (Scope.SHARED, Scope.REGISTER, Scope.GLOBAL))


def test_the_parts_of_a_kernel():
    body = Seq((store("C", x, 0.0), Barrier()))
    threads = loop("ty", 2, loop("tx", 32, body, kind="threadIdx.x"), kind="threadIdx.y")
    stmt = loop("j", 3, loop("i", 7, Alloc(S, threads), kind="blockIdx.x"), kind="blockIdx.z")
    found = kernel_of(stmt)
    assert [loop.var for loop in found.blocks] == ["j", "i"]
    assert (found.grid, found.block) == ((7, 1, 3), (32, 2, 1))
    assert (found.shared, found.body) == ((S,), body)
    assert found.stmt == stmt


def test_a_kernel_of_one_thread():
    stmt = Alloc(R, loop("i", 4, store("register", Var("i"), 0.0)))
    found = kernel_of(stmt)
    assert (found.grid, found.block, found.body) == ((1, 1, 1), (1, 1, 1), stmt)
    assert list(kernels_in(stmt)) == [stmt]


def test_statements_of_the_host_hold_kernels():
    one = loop("i", 4, store("C", Var("i"), 0.0), kind="blockIdx.x")
    two = loop("t", 4, store("C", Var("t"), 0.0), kind="threadIdx.x")
    three = loop("s", 4, store("C", Var("s"), 0.0))
    host = Alloc(G, Seq((loop("k", 3, Seq((one, two))), three)))
    assert list(kernels_in(host)) == [one, two, three]
    assert [is_host(part) for part in (host, one, two, three)] == [True, False, False, False]
    assert list(kernels_in(NOTHING)) == []


def test_bytes_of_buffers_and_where_they_start_in_shared_memory():
    padded = buffer("P", 3, 4, scope=Scope.SHARED, alignment=((0, 4, 1),))
    assert [nbytes(b) for b in (S, padded, buffer("Z", dtype="float16"))] == [20, 60, 2]
    found = kernel_of(Alloc(S, Alloc(padded, store("shared", 0, 0.0))))
    assert shared_offsets(found) == ({"shared": 0, "P": 32}, 96)


def test_the_table_of_gpus():
    for name, device in DEVICES.items():
        assert device.name == name == device_named(name).name
        assert MOST_STATIC_SHARED < device.most_shared <= device.shared
        assert device.threads == device.warps * 32
    with pytest.raises(mt.ArgumentError, match=r"expected one of 't4', .* but got device='a101'"):
        device_named("a101")
