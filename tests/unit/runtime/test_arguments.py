"""What a call accepts and refuses, seen through the interpreter: every kernel shares the checks."""

import re

import numpy as np
import pytest

from minitensor import errors
from minitensor.ir import Buffer, DType
from minitensor.runtime.arguments import Signature
from minitensor.runtime.module import ALIGNMENT, PAGE, aligned_empty
from tests.unit.runtime import liars


def ones(shape=(2, 3), dtype="float32"):
    return np.ones(shape, dtype)


class Interface:
    """Lends an array by `__array_interface__` alone."""

    def __init__(self, array):
        self.array = array

    @property
    def __array_interface__(self):
        return self.array.__array_interface__


class Dlpack:
    """Lends an array by `__dlpack__` alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Unwilling(Dlpack):
    """Refuses to lend, as a tensor that needs gradients does."""

    def __dlpack__(self, **options):
        raise BufferError("detach\nit first")


class Plain(np.ndarray):
    """A subclass that adds nothing."""


# ---- the count, and what comes back


def test_outputs_left_out_are_allocated_and_returned(adder):
    result = adder()(ones(), ones())
    np.testing.assert_array_equal(result, np.full((2, 3), 2, "float32"))
    assert result.dtype == np.float32
    assert result.ctypes.data % ALIGNMENT == 0


def test_outputs_given_are_written_and_returned(adder):
    d = np.zeros((2, 3), "float32")
    assert adder()(ones(), ones(), d) is d
    np.testing.assert_array_equal(d, np.full((2, 3), 2, "float32"))


def test_several_outputs_come_as_a_tuple_in_call_order(two_outputs):
    a, b = np.arange(4, dtype="float32"), ones(4)
    d, e = two_outputs(a, b)
    np.testing.assert_array_equal(d, a + 1)
    np.testing.assert_array_equal(e, a - 1)
    given = np.empty_like(a), np.empty_like(a)
    returned = two_outputs(a, b, *given)
    assert returned[0] is given[0] and returned[1] is given[1]
    np.testing.assert_array_equal(given[1], a - 1)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_wrong_count_names_the_parameters(adder, count):
    message = f"add: expected 2 arrays (A, B), or with the outputs 3 (A, B, D), but got {count}"
    with pytest.raises(errors.ArgumentError, match=re.escape(message)):
        adder()(*[ones()] * count)


def test_some_but_not_all_outputs_are_refused(two_outputs):
    with pytest.raises(errors.ArgumentError, match=r"expected 2 arrays .* 4 .*, but got 3"):
        two_outputs(ones(4), ones(4), ones(4))


# ---- what is accepted


DRESSES = {
    "array_interface": Interface,
    "dlpack": Dlpack,
    "subclass": lambda array: array.view(Plain),
    "matrix": lambda array: array.view(np.matrix),
}


@pytest.mark.parametrize("dress", DRESSES.values(), ids=DRESSES)
def test_memory_of_an_input_is_borrowed_not_copied(dress):
    a = ones()
    accepted = signature().slots[0].accept(dress(a))
    assert type(accepted) is np.ndarray and np.shares_memory(accepted, a)


@pytest.mark.parametrize("dress", DRESSES.values(), ids=DRESSES)
def test_output_is_written_in_place_and_returned_as_given(adder, dress):
    if dress is Dlpack and not np.from_dlpack(np.ones(1)).flags.writeable:
        pytest.skip("numpy before 2.1 takes what comes by DLPack as read-only")
    d = np.zeros((2, 3), "float32")
    given = dress(d)
    assert adder()(dress(ones()), ones(), given) is given
    np.testing.assert_array_equal(d, np.full((2, 3), 2, "float32"))


def test_same_array_may_be_two_inputs(adder):
    a = ones()
    np.testing.assert_array_equal(adder()(a, a), a + a)


def test_equal_dtype_object_is_accepted(adder):
    described = np.dtype("float32", metadata={"unit": "m"})
    assert described is not np.dtype("float32")
    np.testing.assert_array_equal(adder()(ones().astype(described), ones()), ones() * 2)


@pytest.mark.parametrize("offset", [0, 8])
def test_bytes_of_an_interface_are_borrowed(adder, offset):
    held = bytearray(24 + offset)
    a = liars.Lender(ones(), data=held, offset=offset)
    accepted = signature().slots[0].accept(a)
    np.frombuffer(held, "float32", 6, offset)[...] = 5
    np.testing.assert_array_equal(accepted, ones() * 5)
    np.testing.assert_array_equal(adder()(a, ones()), ones() * 6)


def test_an_interface_that_changes_its_mind_is_asked_once():
    small, right = ones((2, 1)), ones()
    accepted = signature().slots[0].accept(liars.Changing(right, small))
    assert accepted.shape == (2, 3) and np.shares_memory(accepted, right)
    with pytest.raises(errors.ArgumentError, match=r"A\.shape=\(2, 1\)"):
        signature().slots[0].accept(liars.Changing(small, right))


def test_readonly_input_is_accepted(adder):
    a = ones()
    a.flags.writeable = False
    np.testing.assert_array_equal(adder()(a, a), ones() * 2)


def test_array_without_axes(adder):
    result = adder(())(np.array(1.5, "float32"), np.array(2, "float32"))
    assert result.shape == () and result[()] == 3.5


def test_arrays_without_elements_never_overlap(adder):
    whole = ones((4, 3))
    assert adder((0, 3))(whole[1:1], whole[1:1], whole[1:1]).shape == (0, 3)


def test_bfloat16_travels_as_bits(adder):
    bits = np.full((2, 3), 0x3F80, "uint16")  # 1.0
    result = adder(dtype="bfloat16")(bits, bits)
    assert result.dtype == np.uint16
    assert set(result.ravel()) == {0x4000}  # 2.0


def test_array_whose_dtype_is_called_bfloat16_is_viewed_as_bits():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.ones((2, 3), ml_dtypes.bfloat16)
    slot = signature(dtype="bfloat16").slots[0]
    accepted = slot.accept(array)
    assert accepted.dtype == np.uint16 and np.shares_memory(accepted, array)


# ---- what is refused, each with its message


def unaligned(shape=(2, 3)):
    raw = np.zeros(4 * 6 + 1, np.uint8)
    return raw[1:].view("float32").reshape(shape)


def readonly():
    array = ones()
    array.flags.writeable = False
    return array


REFUSED_INPUTS = {
    "none": (None, "add: expected A as an array, but got A=None (NoneType); pass a numpy array"),
    "list": ([[1.0]], "expected A as an array, but got A=[[1.0]] (list)"),
    "number": (1.5, "expected A as an array, but got A=1.5 (float)"),
    "numpy scalar": (np.float32(1), "(float32); pass np.array(A)"),
    "buffer": (memoryview(b"abc"), "(memoryview); pass a numpy array, or an object with __array_"),
    "masked": (np.ma.masked_array(ones()), "(MaskedArray); pass A.filled(0)"),
    "dtype": (
        ones(dtype="float64"),
        'expected A of dtype float32, but got A.dtype=float64; pass A.astype("float32")',
    ),
    "objects": (ones().astype(object), "expected A of dtype float32, but got A.dtype=object"),
    "byte order": (
        ones(dtype=np.dtype("float32").newbyteorder()),
        "expected A of dtype float32 in the machine's byte order, but got A.dtype=",
    ),
    "shape": (
        ones((3, 3)),
        "expected A of shape (2, 3), but got A.shape=(3, 3); a kernel is built for one shape",
    ),
    "transposed": (
        ones((3, 2)),
        "but got A.shape=(3, 2); pass np.ascontiguousarray(A.T) if its transpose is meant",
    ),
    "axes": (ones((1, 2, 3)), "expected A of shape (2, 3), but got A.shape=(1, 2, 3)"),
    "strided": (
        ones((2, 6))[:, ::2],
        "expected A that is C-contiguous, but got A.strides=(24, 8); pass np.ascontiguousarray(A)",
    ),
    "column major": (np.asfortranarray(ones()), "but got A.strides=(4, 8)"),
    "broadcast": (np.broadcast_to(ones((3,)), (2, 3)), "but got A.strides=(0, 4)"),
    "unaligned": (unaligned(), "expected A aligned to 4 bytes, but got an address of 0x"),
    "unwilling": (Unwilling(ones()), "(Unwilling): detach it first; pass a numpy array, or an"),
}


@pytest.mark.parametrize("value, message", REFUSED_INPUTS.values(), ids=REFUSED_INPUTS)
def test_refused_input(adder, value, message):
    d = np.full((2, 3), 7, "float32")
    with pytest.raises(errors.ArgumentError, match=re.escape(message)) as caught:
        adder()(value, ones(), d)
    assert "\n" not in str(caught.value)
    assert (d == 7).all()


REFUSED_OUTPUTS = {
    "readonly": (
        readonly(),
        "expected D that can be written to, but got a read-only one; "
        'pass np.empty((2, 3), "float32")',
    ),
    "strided": (ones((2, 6))[:, ::2], 'strides=(24, 8); pass np.empty((2, 3), "float32")'),
    "dtype": (ones(dtype="int32"), 'D.dtype=int32; pass np.empty((2, 3), "float32")'),
    "readonly by interface": (Interface(readonly()), "expected D that can be written to"),
}


@pytest.mark.parametrize("value, message", REFUSED_OUTPUTS.values(), ids=REFUSED_OUTPUTS)
def test_refused_output(adder, value, message):
    with pytest.raises(errors.ArgumentError, match=re.escape(message)):
        adder()(ones(), ones(), value)


def test_wrong_dtype_for_bfloat16_says_both_ways_to_pass_it(adder):
    message = r"dtype bfloat16 \(ml_dtypes\), or of dtype uint16 with its bits, but got A.dtype=flo"
    with pytest.raises(errors.ArgumentError, match=message):
        adder(dtype="bfloat16")(ones(), ones())


def test_scalar_is_not_an_array_without_axes(adder):
    with pytest.raises(errors.ArgumentError, match=r"but got A=1\.0 \(float\)"):
        adder(())(1.0, np.array(2, "float32"))


def test_argument_error_is_both_a_value_and_a_type_error(adder):
    with pytest.raises(ValueError, match="expected A"):
        adder()(None, None)
    with pytest.raises(TypeError, match="expected A"):
        adder()(None, None)


# ---- overlap


def shifted(memory, start):
    return memory[start : start + 6].reshape(2, 3)


@pytest.mark.parametrize("start", [0, 1, 5])
def test_output_in_the_memory_of_an_input_is_refused(adder, start):
    memory = ones(12)
    message = r"add: expected D in memory of its own, but got one that overlaps B; pass np\.empty_l"
    with pytest.raises(errors.ArgumentError, match=message):
        adder()(ones(), shifted(memory, 0), shifted(memory, start))


def test_neighbours_in_one_memory_do_not_overlap(adder):
    memory = ones(12)
    result = adder()(shifted(memory, 0), shifted(memory, 0), shifted(memory, 6))
    np.testing.assert_array_equal(result, ones() * 2)


def test_two_outputs_in_one_memory_are_refused(two_outputs):
    d = ones(4)
    with pytest.raises(errors.ArgumentError, match=r"expected D in memory of its own.*overlaps E"):
        two_outputs(ones(4), ones(4), d, d)


def test_overlap_is_seen_through_what_lends_the_memory(adder):
    d = ones()
    with pytest.raises(errors.ArgumentError, match="overlaps A"):
        adder()(Dlpack(d), ones(), Interface(d))


# ---- the parts


def signature(shape=(2, 3), dtype="float32"):
    return Signature("f", [Buffer(n, shape, DType.of(dtype)) for n in "ABD"], {"D"})


def test_plain_arrays_pass_as_they_are():
    given = (ones(), ones(), ones())
    arrays, results = signature().accept(given)
    assert all(x is y for x, y in zip(arrays, given))
    assert results[0] is given[2]


def test_outputs_between_inputs_keep_their_place():
    buffers = signature().slots
    mixed = Signature("f", [buffers[0].buffer, buffers[2].buffer, buffers[1].buffer], {"D"})
    a, b = ones(), ones()
    arrays, results = mixed.accept((a, b))
    assert arrays[0] is a and arrays[2] is b and arrays[1] is results[0]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 5), (7,), (33, 5), (4095,), (1 << 20,)])
@pytest.mark.parametrize("dtype", ["float64", "uint8"])
def test_aligned_empty(shape, dtype):
    array = aligned_empty(shape, np.dtype(dtype))
    assert array.shape == shape and array.dtype == dtype
    assert array.flags.c_contiguous and array.flags.writeable and array.flags.aligned
    assert array.ctypes.data % ALIGNMENT == 0 or array.size == 0
    assert array.nbytes < PAGE or array.ctypes.data % PAGE == PAGE // 2
    array[...] = 1
    assert (array == 1).all()
