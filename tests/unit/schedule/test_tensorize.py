"""tensorize: which loops an intrinsic may do, and what is wrong with others."""

import re

import numpy as np
import pytest

import minitensor as mt
from minitensor.ir import DECLARED, LoopKind, Program, loop_sites
from minitensor.schedule import REGISTRY
from tests.unit.schedule.common import Refusal, check, each, golden, refused, run_refusal
from tests.unit.schedule.intrinsics import (
    copy2d,
    done,
    elementwise,
    product,
    row,
    tiled,
    twice,
    uneven,
)
from tests.unit.schedule.programs import matmul, scale, start


def is_marked(s, loop):
    return loop_sites(s.program)[loop].loop.kind is LoopKind.TENSORIZE


# ---- what is accepted


def test_tensorize():
    s = tiled()
    key = product().key
    assert s.tensorize("i_1", product()) is None
    golden(
        s,
        f"""
        for i_0 in range(2):
            for j_0 in range(2):
                for C_init_i_1 in range(4):
                    for C_init_j_1 in range(4):
                        C[i_0*4 + C_init_i_1, j_0*4 + C_init_j_1] = 0.0  # block C_init
                for k_0 in range(2):
                    for i_1 in tensorize(4):  # intrinsic = '{key}'
                        for j_1 in tensorize(4):
                            for k_1 in tensorize(3):
                                C[i_0*4 + i_1, j_0*4 + j_1] += \
A[i_0*4 + i_1, k_0*3 + k_1] * B[k_0*3 + k_1, j_0*4 + j_1]
        """,
    )


@pytest.mark.parametrize("order", ["ijk", "ikj", "jik", "jki", "kij", "kji"])
def test_the_loops_may_stand_in_any_order(order):
    s = tiled()
    s.reorder(*[f"{letter}_1" for letter in order])
    s.tensorize(f"{order[0]}_1", product())
    check(s)


def test_a_product_may_be_turned_round():
    A = mt.placeholder((8, 6), name="A")
    B = mt.placeholder((6, 8), name="B")
    r = mt.reduce_axis(6, name="k")
    C = mt.compute((8, 8), lambda i, j: mt.sum(B[r, j] * A[i, r], axis=r), name="C")
    s = tiled(program=mt.lower([A, B, C]))
    s.tensorize("i_1", product())
    check(s)


def test_an_exponential_of_which_the_program_knows_the_sign():
    x, m = mt.placeholder((4,), name="x"), mt.placeholder((), name="m")
    y = mt.compute((4,), lambda j: mt.exp(x[j] - m[()]), name="y")
    A, k = mt.placeholder((3, 4), name="A"), mt.reduce_axis(4, name="k")
    M = mt.compute((3,), lambda i: mt.max(A[i, k], axis=k), name="M")
    E = mt.compute((3, 4), lambda i, j: mt.exp(A[i, j] - M[i]), name="E")
    s = mt.Schedule(mt.lower([A, E]))
    assert "exp_nonpositive(" in str(s.program)
    s.tensorize("j", mt.intrinsic("exp_less", [x, m, y], c=";"))
    assert is_marked(s, "j")


def test_whole_programs():
    s = mt.Schedule(scale(4))
    s.tensorize("i", twice())
    check(s)
    s = mt.Schedule(matmul(4, 4, 3))
    s.decompose_reduction("C", "i")
    s.tensorize("i", product())
    check(s)


def test_unit_loops_are_no_axes():
    s = mt.Schedule(scale(4))
    s.split("i", [1, 4, 1])
    s.tensorize("i_0", twice())
    check(s)


def test_an_axis_of_one_iteration_needs_no_loop():
    s = tiled(tile=(1, 4, 3))
    s.tensorize("i_1", product(m=1))
    check(s)
    s = tiled(tile=(1, 4, 3))
    s.tensorize("j_1", product(m=1))
    check(s)


def test_axes_of_the_buffer_that_stay_fixed_may_stand_anywhere():
    s = tiled()
    packed = s.cache_read("C", "B", "global")
    s.transform_layout(packed, lambda k, j: (j // 4, k // 3, k % 3, j % 4))
    s.tensorize("i_1", product(strides={"b": [4, 1]}))
    check(s)
    s = tiled()
    packed = s.cache_read("C", "B", "global")
    s.transform_layout(packed, lambda k, j: (k % 3, j // 4, j % 4, k // 3))
    s.tensorize("i_1", product())
    check(s)


def test_two_axes_of_one_reduction():
    x = mt.placeholder((4, 2, 3), name="x")
    p, q = mt.reduce_axis(2, name="p"), mt.reduce_axis(3, name="q")
    y = mt.compute((4,), lambda i: mt.sum(x[i, p, q], axis=[p, q]), name="y")
    sums = mt.intrinsic("sums", [x, y], "y[0] += x[0];")
    A = mt.placeholder((4, 2, 3), name="A")
    P, Q = mt.reduce_axis(2, name="p"), mt.reduce_axis(3, name="q")
    C = mt.compute((4,), lambda i: mt.sum(A[i, P, Q], axis=[P, Q]), name="C")
    for order in ("ipq", "qip", "qpi"):
        s = mt.Schedule(mt.lower([A, C]))
        s.decompose_reduction("C", "i")
        s.reorder(*order)
        s.tensorize(order[0], sums)
        check(s)


def test_a_convolution_reads_at_a_sum_of_axes():
    x = mt.placeholder((6,), name="x")
    w = mt.placeholder((3,), name="w")
    l = mt.reduce_axis(3, name="l")
    y = mt.compute((4,), lambda i: mt.sum(x[i + l] * w[l], axis=l), name="y")
    conv = mt.intrinsic("conv", [x, w, y], "y[0] += x[0];")
    A = mt.placeholder((10,), name="A")
    W = mt.placeholder((3,), name="W")
    r = mt.reduce_axis(3, name="r")
    C = mt.compute((8,), lambda i: mt.sum(A[i + r] * W[r], axis=r), name="C")
    s = mt.Schedule(mt.lower([A, W, C]))
    s.split("i", [2, 4])
    s.decompose_reduction("C", "i_1")
    s.tensorize("i_1", conv)
    check(s)


def test_around_and_beside_a_tensorized_nest_everything_goes():
    s = done()
    s.unroll("k_0")
    s.fuse("i_0", "j_0")
    s.parallel("i_0_j_0")
    copy = s.cache_read("C", "A", "local")
    s.compute_at(copy, "k_0")
    s.vectorize(s.get_loops(copy)[-1])
    check(s)
    s = uneven()
    s.split("i_0", [None, 3], tail="cut")
    assert str(s.program).count("tensorize") == 2
    check(s)


def test_the_name_and_the_key_do_as_well():
    made = product(name="only_one")
    for given in (made, "only_one", made.key):
        s = tiled()
        s.tensorize("i_1", given)
        assert s.trace.steps[-1].arguments["intrinsic"] == made.key
        check(s)


def test_a_block_that_an_intrinsic_does_can_be_inlined():
    s = elementwise("B")()
    s.compute_inline("B")
    check(s)


# ---- traces


def test_a_trace_needs_the_declaration_in_its_process():
    made = product(name="for_a_trace")
    s = tiled()
    s.tensorize("i_1", made)
    text = s.trace.to_json()
    assert made.key in text
    assert "for (int" not in text
    del DECLARED[made.key]
    with pytest.raises(mt.ScheduleError, match=r"declare it in this process first") as caught:
        mt.Trace.from_json(text).apply(s.history[0])
    assert caught.value.rule == "A1"
    assert caught.value.step == len(s.trace)
    again = product(name="for_a_trace", strides={"b": [None, 1]})
    with pytest.raises(mt.ScheduleError, match="has another meaning or another body") as caught:
        mt.Trace.from_json(text).apply(s.history[0])
    assert caught.value.choices == (again.key,)
    del DECLARED[again.key]
    product(name="for_a_trace")
    check(s)


def test_a_kernel_needs_the_declaration_too():
    made = product(name="for_a_kernel")
    s = tiled()
    s.tensorize("i_1", made)
    del DECLARED[made.key]
    with pytest.raises(mt.LoweringError, match="has not declared the intrinsic 'for_a_kernel:"):
        mt.codegen.generate(s.program, mt.Target("c", num_cores=1, vector_bits=256))


def test_a_name_that_several_have():
    one, two = product(name="shared"), product(name="shared", k=5)
    s = tiled()
    refused(
        s,
        "A1",
        "there is no intrinsic 'shared': 2 have this name",
        lambda: s.tensorize("i_1", "shared"),
        choices=sorted([one.key, two.key]),
    )


def test_what_is_no_body_of_a_trace_stays_text():
    s = tiled()
    refused(s, "A1", "there is no intrinsic", lambda: s.tensorize("i_1", "c[0] = 0;"))


# ---- which index differs


def other(text):
    """A product of matrices with its operands accessed otherwise."""
    A = mt.placeholder((8, 8), name="A")
    B = mt.placeholder((8, 8), name="B")
    r = mt.reduce_axis(8, name="k")
    values = {
        "B transposed": lambda i, j: A[i, r] * B[j, r],
        "A transposed": lambda i, j: A[r, i] * B[r, j],
        "A alone": lambda i, j: A[i, r] * A[r, j],
        "strided": lambda i, j: A[i, r] * B[r, j // 2 * 2],
        "wide": lambda i, j: A[i, r] * B[r, (i + j) // 2],
    }
    C = mt.compute((8, 8), lambda i, j: mt.sum(values[text](i, j), axis=r), name="C")
    return tiled(program=mt.lower([A, B, C] if text != "A alone" else [A, C]), tile=(4, 4, 4))


DIFFERENT = {
    "B transposed": r"B\[j_0\*4 \+ j_1, k_0\*4 \+ k_1\] is read where the intrinsic has b\[l, j\] "
    r"\(i is i_1, j is j_1, l is k_1\): axis 0 differs, j_1 where the intrinsic has k_1",
    "A transposed": r"A\[k_0\*4 \+ k_1, i_0\*4 \+ i_1\] is read .* axis 0 differs, k_1 where the "
    "intrinsic has i_1",
    "strided": r"axis 1 is no sum of multiples of these loops",
    "wide": r"axis 1 is no sum of multiples of these loops",
}


@pytest.mark.parametrize("text", DIFFERENT)
def test_which_index_differs(text):
    s = other(text)
    refused(
        s, "R8", DIFFERENT[text], lambda: s.tensorize("i_1", product(k=4)), marks=("^ differs",)
    )


def test_one_buffer_may_be_two_operands():
    s = other("A alone")
    s.tensorize("i_1", product(k=4))
    check(s)


def test_an_operand_that_is_used_twice_is_one():
    x = mt.placeholder((4,), name="x")
    square = mt.compute((4,), lambda i: x[i] * x[i], name="y")
    square = mt.intrinsic("square", [x, square], ";")
    A, B = mt.placeholder((8,), name="A"), mt.placeholder((8,), name="B")
    C = mt.compute((8,), lambda i: A[i] * B[i], name="C")
    s = mt.Schedule(mt.lower([A, B, C]))
    s.split("i", [2, 4])
    match = r"it computes B\[.*\] where the intrinsic has x\[i\], which is at A\[i_0\*4\] already"
    refused(s, "R5", match, lambda: s.tensorize("i_1", square))
    D = mt.compute((8,), lambda i: A[i] * A[i], name="D")
    s = mt.Schedule(mt.lower([A, D]))
    s.split("i", [2, 4])
    s.tensorize("i_1", square)
    check(s)


def test_an_index_that_depends_on_data():
    A = mt.placeholder((8,), name="A")
    at = mt.placeholder((4,), "int32", name="at")
    C = mt.compute((4,), lambda i: A[at[i]] * 2, name="C")
    s = mt.Schedule(mt.lower([A, at, C]))
    with pytest.raises(mt.ScheduleError, match=r"breaks R8: .* axis 0 depends on data") as caught:
        s.tensorize("i", twice())
    assert "^ differs" in str(caught.value)


def test_an_output_that_is_written_elsewhere():
    A = mt.placeholder((4, 4), name="A")
    C = mt.compute((4, 4), lambda i, j: A[j, i], name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.reorder("j", "i")
    match = r"A\[j, i\] is read where the intrinsic has x\[i, j\] \(i is i, j is j\): axis 0"
    refused(s, "R8", match, lambda: s.tensorize("j", copy2d()))


# ---- refusals


def guarded():
    s = mt.Schedule(scale(6))
    s.split("i", [None, 4])
    return s


def vectorized():
    s = mt.Schedule(scale(8))
    s.split("i", [2, 4])
    s.vectorize("i_0")
    return s


def aliased():
    """C[i] = C[i] * 2, which no tensor expression says."""
    program = scale(4)
    block = program.blocks["C"]
    value = block.body.value
    old = mt.ir.Load("C", block.body.indices, value.dtype)
    store = mt.ir.Store("C", block.body.indices, mt.ir.Binary("*", old, value.b))
    first = mt.ir.Block("C_first", block.iters, block.body)
    second = mt.ir.Block("C", block.iters, store)
    one = mt.ir.For("i", 4, first)
    two = mt.ir.For("j", 4, mt.ir.substitute(second, {"i": mt.ir.Var("j")}))
    return mt.Schedule(Program("main", program.params, (), mt.ir.Seq((one, two))))


def tallest():
    s = mt.Schedule(mt.lower(mt.workloads.matmul(4, 4, 3, dtype="int32")))
    s.decompose_reduction("C", "i")
    return s


REFUSALS = [
    Refusal(
        "tensorize",
        "R1",
        lambda: mt.Schedule(vectorized().program),
        lambda s: s.tensorize("i_0", twice()),
        r"R1: the loop and those inside it are serial, .* \(i_0 is vectorize\)",
        marks=("# <- to tensorize",),
    ),
    Refusal(
        "tensorize",
        "R2",
        vectorized,
        lambda s: s.tensorize("i_1", twice()),
        r"R2: no loop around it is vectorized \(i_0 is\)",
    ),
    Refusal(
        "tensorize",
        "R3",
        guarded,
        lambda s: s.tensorize("i_1", twice()),
        r"R3: the block runs under no condition .* \(it runs if i_0\*4 \+ i_1 < 6\)",
        marks=("# <- differs",),
    ),
    Refusal(
        "tensorize",
        "R4",
        start(matmul, 4, 4, 3),
        lambda s: s.tensorize("i", product()),
        r'R4: .*\(it has its own init; decompose_reduction\("C", "k"\) takes that out\)',
    ),
    Refusal(
        "tensorize",
        "R5",
        tiled,
        lambda s: s.tensorize("i_1", product(reducer=mt.max)),
        r"R5: .* \(the reducer differs: it is sum, that of the intrinsic max\)",
    ),
    Refusal(
        "tensorize",
        "R6",
        tallest,
        lambda s: s.tensorize("i", product()),
        r"R6: .* \(it reduces int32, the intrinsic float32\)",
    ),
    Refusal(
        "tensorize",
        "R7",
        tiled,
        lambda s: s.tensorize("i_1", product(m=8)),
        r"R7: .* \(extent of i differs: loop i_1 runs 4, the intrinsic wants 8\)",
        choices=(),
    ),
    Refusal(
        "tensorize",
        "R8",
        lambda: other("B transposed"),
        lambda s: s.tensorize("i_1", product(k=4)),
        r"R8: it accesses each operand at the indices at which the intrinsic does \(B\[",
        marks=("^ differs",),
    ),
    Refusal(
        "tensorize",
        "R9",
        aliased,
        lambda s: s.tensorize("j", twice()),
        r"R9: it does not read what it writes \(it reads C too\)",
    ),
    Refusal(
        "tensorize",
        "R10",
        tiled,
        lambda s: s.tensorize("i_1", product(strides={"b": [4, 1]})),
        r"R10: .* \(b must have stride 4 where axis 0 of B, of shape \[6, 8\], has 8\)",
    ),
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


def test_the_loop_that_would_do_is_listed():
    s = tiled()
    match = r"from j_1 inwards 2 loops \(j_1 of 4, k_1 of 3\) of more than one iteration, the "
    refused(s, "R7", match, lambda: s.tensorize("j_1", product()), choices=("i_1",))
    refused(
        s,
        "R1",
        r"k_0 inwards|4 loops|j_0 holds several",
        lambda: s.tensorize("i_0", product()),
        choices=("i_1",),
    )


def test_other_statements():
    s = mt.Schedule(scale(4))
    match = (
        r"it does C\[i\] = A\[i\] \* 2.0, the intrinsic y\[i\] = y\[i\] \+|the intrinsic y\[i\] \+="
    )
    refused(s, "R5", match, lambda: s.tensorize("i", row()))
    A = mt.placeholder((4,), name="A")
    for value, rule, match in (
        (lambda i: A[i] * 3, "R5", r"it computes 3.0 where the intrinsic has 2.0"),
        (lambda i: A[i] + 2, "R5", r"it computes A\[i\] \+ 2.0 where the intrinsic has x\[i\]"),
        (lambda i: (A[i] + 1) * 2, "R5", r"A\[i\] \+ 1.0 where the intrinsic has x\[i\]"),
        (lambda i: A[i].astype("int32") * 2, "R6", "int32 C"),
    ):
        C = mt.compute((4,), value, name="C")
        s = mt.Schedule(mt.lower([A, C]))
        refused(s, rule, match, lambda: s.tensorize("i", twice()))


def test_types_of_operands():
    a = mt.placeholder((4,), "int8", name="x")
    y = mt.compute((4,), lambda i: a[i].astype("int32") * 2, name="y")
    made = mt.intrinsic("widen", [a, y], ";")
    A = mt.placeholder((4,), "uint8", name="A")
    C = mt.compute((4,), lambda i: A[i].astype("int32") * 2, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    match = r"uint8 A\[i\] is read where the intrinsic has int8 x\[i\]"
    refused(s, "R6", match, lambda: s.tensorize("i", made), marks=("^ differs",))
    A = mt.placeholder((4,), "int8", name="A")
    C = mt.compute((4,), lambda i: (A[i].astype("int16") * 2).astype("int32"), name="C")
    s = mt.Schedule(mt.lower([A, C]))
    refused(s, "R5", "it computes", lambda: s.tensorize("i", made))


def test_the_error_reads_well():
    s = other("B transposed")
    with pytest.raises(mt.ScheduleError) as caught:
        s.tensorize("i_1", product(k=4))
    text = str(caught.value)
    assert re.search(r"\^+ differs", text)
    assert len(caught.value.message) < 600
    assert text.count("\n") < 30


def test_it_is_a_primitive_like_the_others():
    s = tiled()
    program, nothing = REGISTRY["tensorize"](s.program, "i_1", product())
    assert nothing is None
    assert loop_sites(program)["k_1"].loop.kind is LoopKind.TENSORIZE
    assert not is_marked(s, "k_1")
    outputs = mt.interpret(program, *[np.ones(b.shape, "float32") for b in program.inputs])
    assert (outputs == 6).all()
