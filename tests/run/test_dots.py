"""Dot products of narrow numbers: their bodies, and sketches that use them, against numpy."""

import platform

import numpy as np
import pytest

import minitensor as mt
from minitensor.ir import DECLARED
from minitensor.lang import GROUP, LANES, PAIRS
from minitensor.runtime import find_toolchain
from minitensor.testing import check_intrinsic
from tests.parts import some

pytestmark = pytest.mark.usefixtures("processes")

dot = mt.intrinsics.dot
EVERY = [(*pair, lanes) for pair in PAIRS for lanes in LANES]

# ---- bodies


@pytest.mark.slow
@pytest.mark.parametrize(("left", "right", "lanes"), some(EVERY, lambda n: n % 4 == 1))
def test_bodies_compute_their_meanings(left, right, lanes):
    ran = check_intrinsic(dot(left, right, lanes), max_examples=20)
    assert ran["portable"]


EMULATED = {
    "__builtin_ia32_vpdpbusd_v8si": "word emulated(word sums, word x, word y) {"
    " for (int n = 0; n < {lanes}; ++n) for (int k = 0; k < 4; ++k)"
    " sums[n] += (int)((uint8_t *)&x)[4 * n + k] * (int)((int8_t *)&y)[4 * n + k];"
    " return sums; }",
    "__builtin_ia32_pmaddwd512_mask": "word emulated(half x, half y, word old, int mask) {"
    " (void)mask; for (int n = 0; n < {lanes}; ++n)"
    " old[n] = (int)x[2 * n] * (int)y[2 * n] + (int)x[2 * n + 1] * (int)y[2 * n + 1];"
    " return old; }",
}
EMULATED["__builtin_ia32_vpdpbusd_v16si"] = EMULATED["__builtin_ia32_vpdpbusd_v8si"]
"""Instructions that few machines have, in C (Intel's Software Developer's Manual, volume 2)."""


def emulated():
    """(left, right, lanes, body) of each body with such an instruction, in its place a
    function of C
    """
    found = []
    for left, right, lanes in EVERY:
        for body in dot(left, right, lanes).bodies:
            for name, text in EMULATED.items():
                if name + "(" in body.text and body.condition:
                    own = body.text.replace(name, "emulated")
                    own = own.replace('__asm__("" : "+v"(own));', "")  # no such registers
                    head, line, rest = own.partition("    int32_t few;\n")
                    nested = text.replace("{lanes}", str(lanes))
                    found.append((left, right, lanes, f"{head}{nested}\n{line}{rest}"))
    return found


def is_gcc():
    """Return whether functions may be nested."""
    return find_toolchain().family == "gcc"


def test_there_are_bodies_with_instructions_to_emulate():
    assert len(emulated()) == 2 * 4 + 5


@pytest.mark.slow
@pytest.mark.parametrize(("left", "right", "lanes", "body"), some(emulated(), lambda n: n % 3 == 1))
def test_bodies_with_emulated_instructions_compute_their_meanings(left, right, lanes, body):
    if not is_gcc():
        pytest.skip("functions in functions are gcc's")
    meant = dot(left, right, lanes)
    a, b, c = (mt.placeholder(o.shape, o.dtype, name=o.name) for o in meant.operands)
    k, total = mt.reduce_axis(GROUP[left], name="k"), str(c.dtype)
    c = mt.compute(
        (lanes,), lambda j: mt.sum(a[k].astype(total) * b[j, k].astype(total), axis=k), name="c"
    )
    strides = {"a": [1], "b": [GROUP[left], 1], "c": [1]}
    assert check_intrinsic(
        mt.intrinsic("emulated", [a, b, c], body, strides=strides), max_examples=20
    )


def test_one_is_declared_when_it_is_first_asked_for():
    made = dot("int8", "uint8", 4)
    del DECLARED[made.key]
    s = mt.Schedule(product(4, 4, 4, "int8", "uint8"))
    s.cache_read("C", "B", "global")
    s.transform_layout("B_global", lambda k, j: (j, k))
    s.decompose_reduction("C", "j")
    s.tensorize("j", made.key)
    text = s.trace.to_json()
    del DECLARED[made.key]
    again = mt.Trace.from_json(text).apply(product(4, 4, 4, "int8", "uint8"))
    assert again.program == s.program
    agrees(again, "int8", "uint8", 4, 4, 4)


def test_arguments():
    for given in (("int8", "int16"), ("float32", "float32"), ("uint16", "uint16"), (3, 4)):
        with pytest.raises(mt.ArgumentError, match="expected one of the pairs 'uint8' and 'int8'"):
            dot(*given)
    with pytest.raises(mt.ArgumentError, match="it takes left, right, lanes"):
        dot(kind="int8")
    for lanes in (0, 5, 32, 8.0, "8"):
        with pytest.raises(mt.ArgumentError, match="lanes"):
            dot("int8", "int8", lanes)


# ---- sketches


def product(m, n, k, left="uint8", right="int8", total="int32"):
    """C[i, j] = sum over k of A[i, k] * B[k, j]"""
    A, B = mt.placeholder((m, k), left, name="A"), mt.placeholder((k, n), right, name="B")
    r = mt.reduce_axis(k, name="k")
    C = mt.compute(
        (m, n), lambda i, j: mt.sum(A[i, r].astype(total) * B[r, j].astype(total), axis=r), name="C"
    )
    return mt.lower([A, B, C])


def drawn(rng, dtype, shape):
    """Any integers of a type, its least and greatest among them"""
    info = np.iinfo(dtype)
    found = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    found.flat[0], found.flat[-1] = info.min, info.max
    return found


def agrees(schedule, left, right, m, n, k, **options):
    """The kernel gives what numpy does, bit for bit"""
    rng = np.random.default_rng(0)
    a, b = drawn(rng, left, (m, k)), drawn(rng, right, (k, n))
    wanted = a.astype(np.int32) @ b.astype(np.int32)
    np.testing.assert_array_equal(mt.build(schedule, **options)(a, b), wanted)


def sketch_of(program, **options):
    """The sketch whose sums an instruction computes"""
    found = mt.search.generate_sketches(program, **options)
    return next(s for s in found if "dot products" in s.rules)


SHAPES = [(12, 40, 24), (7, 9, 5), (1, 33, 18), (13, 17, 2), (5, 1, 40), (29, 64, 63), (64, 100, 7)]
TYPES = [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8"), ("int8", "int16")]
WAYS = [mt.Target("c", 2, bits, features=f) for bits in (128, 256) for f in ((), ("avx512_vnni",))]


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_any_shape_and_types_for_any_machine(shape):
    """Groups of four too: where the instruction is missing, another body does the same."""
    at = SHAPES.index(shape)
    for n, target in enumerate(WAYS):
        left, right = TYPES[(at + n) % len(TYPES)]
        program = product(*shape, left, right)
        schedule = sketch_of(program, target=target).apply(seed=at)
        assert "tensorize" in str(schedule.program)
        mt.verify(schedule.program)
        agrees(schedule, left, right, *shape, target=mt.Target("c", 2, target.vector_bits))


def test_groups_are_as_long_as_the_instruction_wants_them():
    bytes_ = sketch_of(product(8, 16, 12), target=mt.Target("c", 1, 512, features=["avx512_vnni"]))
    assert "k in groups of 4" in bytes_.rules and "dot_u8i8_16" in str(bytes_)
    pairs = sketch_of(product(8, 16, 12), target=mt.Target("c", 1, 512, features=[]))
    assert "k in groups of 2" in pairs.rules and "dot_i16i16_16" in str(pairs)
    halves = product(8, 16, 12, "bfloat16", "bfloat16", "float32")
    found = sketch_of(halves, target=mt.Target("c", 1, 512, features=["avx512_bf16"]))
    assert "dot_bf16bf16_16" in str(found)


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("m, n", [(128, 768), (56, 64), (49, 96), (64, 16), (7, 640)])
def test_by_hand_a_tile_and_its_operands_fit_in_the_registers(m, n, bits):
    target = mt.Target("c", 2, bits, features=["avx512_vnni"])
    schedule = mt.schedule_for(product(m, n, 64), target)
    steps = [step for step in schedule.trace.steps if step.primitive == "sample_tile"]
    (*_, rows), (_, vectors) = (step.arguments["decision"] for step in steps)
    assert rows * vectors + vectors < {256: 16, 512: 32}[bits]
    assert rows * vectors >= min(m, 4)


def test_plain_c_is_not_all_that_is_tried(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    rules = [s.rules for s in mt.search.generate_sketches(product(16, 16, 16))]
    assert any("dot products" in text for text in rules)
    assert any("register tiles" in text for text in rules)


NOT = {
    "no vectors": (product(8, 8, 8), {"vector_bits": 0}),
    "numbers that are not narrow": (product(8, 8, 8, "int32", "int8"), {}),
    "a sum in 64 bits": (product(8, 8, 8, "int8", "int8", "int64"), {}),
    "halves without the instruction": (
        product(8, 8, 8, "bfloat16", "bfloat16", "float32"), {"features": []}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT)
def test_what_no_instruction_does_is_left_to_other_rules(name):
    program, options = NOT[name]
    target = mt.Target("c", **{"num_cores": 1, "vector_bits": 256, **options})
    sketches = mt.search.generate_sketches(program, target)
    assert not any("dot products" in s.rules for s in sketches)


def convolution(layout="NHWC", size=9, channels=6, filters=10, relu=True):
    """A convolution of bytes with its padding, its bias and a rectifier"""
    hwc = layout == "NHWC"
    shape = (1, size, size, channels) if hwc else (1, channels, size, size)
    X = mt.placeholder(shape, "uint8", name="X")
    W = mt.placeholder((3, 3, channels, filters), "int8", name="W")
    bias = mt.placeholder((filters,), "int32", name="bias")
    padded = (1, size + 2, size + 2, channels) if hwc else (1, channels, size + 2, size + 2)

    def pad(n, *place):
        y, x, c = place if hwc else (*place[1:], place[0])
        inside = mt.logical_and(y >= 1, y <= size, x >= 1, x <= size)
        at = (n, y - 1, x - 1, c) if hwc else (n, c, y - 1, x - 1)
        return mt.if_then_else(inside, X[at], 0)

    P = mt.compute(padded, pad, name="P")
    r, s, c = (mt.reduce_axis(n, name=name) for n, name in ((3, "r"), (3, "s"), (channels, "c")))

    def conv(n, *place):
        y, x, f = place if hwc else (*place[1:], place[0])
        at = (n, y + r, x + s, c) if hwc else (n, c, y + r, x + s)
        value = P[at].astype("int32") * W[r, s, c, f].astype("int32")
        return mt.sum(value, axis=(r, s, c))

    out = (1, size, size, filters) if hwc else (1, filters, size, size)
    C = mt.compute(out, conv, name="C")
    D = mt.compute(
        out,
        lambda n, *p: mt.maximum(C[(n, *p)] + bias[p[2] if hwc else p[0]], 0),
        name="D",
    )
    return mt.lower([X, W, bias, D])


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_convolutions(layout):
    program = convolution(layout)
    rng = np.random.default_rng(1)
    arrays = [drawn(rng, b.dtype, b.shape) for b in program.inputs]
    arrays[2] = arrays[2] % 1000
    wanted = mt.interpret(program, *arrays)
    schedule = sketch_of(program).apply(seed=2)
    assert "P" not in schedule.program.blocks  # its copy is padded as it is made
    np.testing.assert_array_equal(mt.build(schedule)(*arrays), wanted)


@pytest.mark.slow
def test_a_search_finds_it():
    result = mt.tune(product(64, 96, 64), trials=8, seed=0)
    assert "tensorize" in str(result.schedule.trace)
    agrees(result.schedule, "uint8", "int8", 64, 96, 64)
