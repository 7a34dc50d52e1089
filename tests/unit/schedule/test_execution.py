"""parallel, vectorize, unroll, bind, serial, annotate, unannotate."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import PASSES, Target
from minitensor.ir import LoopKind
from minitensor.schedule.arguments import THREADS
from tests.unit.schedule.common import Refusal, check, each, golden, kinds, refused, run_refusal
from tests.unit.schedule.programs import (
    after,
    argmax,
    chain,
    cube,
    diagonal,
    fed_rowsum,
    gather,
    grid,
    horner,
    matmul,
    matmul_relu,
    padded,
    row_scans,
    rowsum,
    scale,
    scan,
    start,
    stencil,
    strided,
    total,
)

# ---- the examples of the docstrings


def test_parallel():
    s = mt.Schedule(scale(64))
    assert s.parallel("i") is None
    golden(
        s,
        """
        for i in parallel(64):
            C[i] = A[i] * 2.0
        """,
    )


def test_vectorize():
    A, b = mt.placeholder((4, 16), name="A"), mt.placeholder((16,), name="b")
    C = mt.compute((4, 16), lambda i, j: A[i, j] + b[j], name="C")
    s = mt.Schedule(mt.lower([A, b, C]))
    assert s.vectorize("j") is None
    golden(
        s,
        """
        for i in range(4):
            for j in vectorize(16):
                C[i, j] = A[i, j] + b[j]
        """,
    )


@pytest.mark.parametrize(
    "decide",
    [
        lambda s: s.parallel("i"),
        lambda s: s.vectorize("i"),
        lambda s: s.unroll("i"),
        lambda s: s.bind("i", "threadIdx.x"),
    ],
)
def test_serial_is_the_way_back(decide):
    s = mt.Schedule(scale(12))
    before = s.program
    decide(s)
    assert s.program != before
    assert s.serial("i") is None
    assert s.program == before
    s.split("i", [3, 4])
    check(s)


def test_unroll():
    s = mt.Schedule(scale(2))
    assert s.unroll("i") is None
    golden(
        s,
        """
        for i in unroll(2):
            C[i] = A[i] * 2.0
        """,
    )


def test_bind():
    s = mt.Schedule(scale(64))
    assert s.bind("i", "blockIdx.x") is None
    golden(
        s,
        """
        for i in bind(64, "blockIdx.x"):
            C[i] = A[i] * 2.0
        """,
    )


def test_annotate_and_unannotate():
    s = mt.Schedule(scale(64))
    assert s.annotate("i", "note", "hot") is None
    noted = """
        for i in range(64):  # note = 'hot'
            C[i] = A[i] * 2.0
        """
    golden(s, noted)
    assert s.unannotate("i", "note") is None
    golden(s, noted.replace("  # note = 'hot'", ""))


# ---- what may be concurrent


def vectorized(s, loop):
    return s.vectorize(loop)


CONCURRENT = [
    lambda s, loop: s.parallel(loop),
    vectorized,
    lambda s, loop: s.bind(loop, "threadIdx.x"),
    lambda s, loop: s.bind(loop, "vthread"),
]
concurrent = pytest.mark.parametrize("make", CONCURRENT, ids=["parallel", "vector", "thread", "vt"])


@concurrent
@pytest.mark.parametrize("n", [0, 1, 7])
def test_any_extent(make, n):
    s = mt.Schedule(scale(n))
    make(s, "i")
    check(s)


@concurrent
@pytest.mark.parametrize("builder", [chain, matmul, diagonal, strided, gather, padded, stencil])
def test_every_spatial_loop(make, builder):
    for block in mt.Schedule(builder()).get_blocks():
        for loop in mt.Schedule(builder()).get_loops(block):
            s = mt.Schedule(builder())
            if loop != "k":
                make(s, loop)
                check(s)


@concurrent
@pytest.mark.parametrize("position", [0, 1, 2])
def test_every_loop_of_a_split_with_a_tail(make, position):
    s = mt.Schedule(scale(23))
    make(s, s.split("i", [None, 3, 2])[position])
    check(s)


@concurrent
def test_a_fused_loop_and_both_halves_of_its_split(make):
    for position in range(2):
        s = mt.Schedule(cube(2, 3, 5))
        fused = s.fuse("i", "j", "k")
        make(s, s.split(fused, [None, 4])[position])
        check(s)


@concurrent
def test_a_loop_around_a_private_temporary(make):
    s = mt.Schedule(stencil(8))
    outer, _ = s.split("y", [None, 3])
    s.compute_at("P", outer)
    make(s, outer)
    check(s)


@concurrent
def test_the_spatial_loop_inside_a_reduction(make):
    s = mt.Schedule(rowsum(4, 6))
    s.reorder("k", "i")
    make(s, "i")
    check(s)


@concurrent
def test_the_free_axis_of_ordered_updates(make):
    s = mt.Schedule(row_scans())
    make(s, "x")
    check(s)
    s = mt.Schedule(horner())
    make(s, "i")
    check(s)


@concurrent
def test_partial_results_of_rfactor(make):
    s = mt.Schedule(total(20))
    outer, _ = s.split("k", [4, 5])
    s.rfactor(outer)
    make(s, outer)
    check(s)


@concurrent
def test_a_unit_loop_around_anything(make):
    s = mt.Schedule(scan())
    make(s, s.add_unit_loop("i"))
    check(s)
    s = mt.Schedule(rowsum(4, 1))
    if make is not vectorized:
        refused(s, "R2", "k drives the reduction of C", lambda: make(s, "k"))


@pytest.mark.parametrize("width", [8, 16, 64])
def test_vectorize_by_more_than_the_extent(width):
    """The iterations too many do nothing, and cost nothing once code is generated."""
    s = mt.Schedule(scale(5))
    _, inner = s.split("i", [None, width])
    s.vectorize(inner)
    check(s)
    program = s.program
    for name, run in PASSES:
        program = run(program, Target("c", num_cores=1, vector_bits=512))
        if name == "partition_loops":
            assert f"vectorize({width})" not in str(program)
            assert "if " not in str(program)


def test_vector_loops_inside_parallel_ones():
    s = mt.Schedule(matmul_relu())
    s.parallel("i")
    s.vectorize("y")
    s.parallel("x")
    s.reorder("k", "j")
    s.vectorize("j")
    assert kinds(s)["j"] is LoopKind.VECTORIZE
    check(s)


def test_vector_loops_inside_bound_ones():
    s = mt.Schedule(cube())
    s.bind("i", "blockIdx.x")
    s.bind("j", "threadIdx.x")
    s.vectorize("k")
    check(s)


def test_the_grid_of_a_gpu():
    s = mt.Schedule(grid(5, 7))
    i0, i1 = s.split("i", [None, 2])
    j0, j1 = s.split("j", [None, 3])
    s.reorder(i0, j0, i1, j1)
    s.bind(i0, "blockIdx.y")
    s.bind(j0, "blockIdx.x")
    s.bind(i1, "threadIdx.y")
    s.bind(j1, "threadIdx.x")
    check(s)


@pytest.mark.parametrize("thread", THREADS)
def test_every_thread_index(thread):
    s = mt.Schedule(scale(4))
    s.bind("i", thread)
    assert kinds(s)["i"].value == thread
    check(s)


def test_virtual_threads_may_nest():
    s = mt.Schedule(cube())
    s.bind("i", "vthread")
    s.bind("j", "vthread")
    s.bind("k", "threadIdx.x")
    check(s)


def test_two_nests_may_use_the_same_index():
    s = mt.Schedule(chain())
    s.bind("i", "threadIdx.x")
    s.bind("j", "threadIdx.x")
    check(s)


def test_threads_that_share_a_buffer_through_nests_of_their_own():
    s = mt.Schedule(stencil(8))
    outer, inner = s.split("y", [2, 4])
    (fill,) = s.compute_at("P", outer)
    s.set_scope("P", "shared")
    s.bind(outer, "blockIdx.x")
    s.bind(fill, "threadIdx.x")
    s.bind(inner, "threadIdx.x")
    check(s)


# ---- unroll


def test_unroll_may_be_anything():
    s = mt.Schedule(scan())
    s.unroll("i")
    check(s)
    s = mt.Schedule(argmax())
    s.unroll("k")
    s.unroll("i")
    check(s)


def test_unroll_up_to_the_bound():
    s = mt.Schedule(scale(1024))
    s.unroll("i")
    assert kinds(s)["i"] is LoopKind.UNROLL
    s = mt.Schedule(grid(32, 32))
    s.unroll("j")
    s.unroll("i")
    check(s)


def test_unroll_of_an_empty_loop():
    s = mt.Schedule(grid(0, 2000))
    s.unroll("i")
    check(s)


def test_unroll_counts_what_is_unrolled_inside_and_around():
    s = mt.Schedule(cube(8, 8, 17))
    s.unroll("i")
    s.unroll("k")
    refused(s, "R2", "1088 copies", lambda: s.unroll("j"))
    s = mt.Schedule(cube(17, 8, 8))
    s.unroll("k")
    s.unroll("j")
    refused(s, "R2", "1088 copies", lambda: s.unroll("i"))


def test_unroll_counts_the_longest_of_several_blocks():
    s = mt.Schedule(stencil(64))
    outer, inner = s.split("y", [16, 4])
    (own,) = s.compute_at("P", outer)
    s.unroll(own)
    s.unroll(inner)
    s.unroll(outer)
    check(s)


# ---- annotate


@pytest.mark.parametrize(
    "value", ["hot", "", "a\nb'\"# <-", True, False, 0, -3, 1 << 40, 1.5, -0.0, 1e300], ids=repr
)
def test_annotations_of_every_kind(value):
    s = mt.Schedule(scale(4))
    s.annotate("i", "note", value)
    s.annotate("C", "note", value)
    assert s.program.body.annotations == (("note", value),)
    assert type(s.program.body.annotations[0][1]) is type(value)
    check(s)


def test_annotations_replace_and_add_up():
    s = mt.Schedule(scale(4))
    s.annotate("i", "a", 1)
    s.annotate("i", "b", 2)
    s.annotate("i", "a", 3)
    golden(
        s,
        """
        for i in range(4):  # a = 3; b = 2
            C[i] = A[i] * 2.0
        """,
    )
    s.unannotate("i", "a")
    assert s.program.body.annotations == (("b", 2),)


def test_annotations_of_blocks_are_printed_at_their_first_line():
    s = mt.Schedule(rowsum(2, 3))
    s.annotate("C", "note", "x")
    golden(
        s,
        """
        for i in range(2):
            for k in range(3):
                if k == 0:  # note = 'x'
                    C[i] = 0.0
                C[i] += A[i, k]
        """,
    )


def test_annotations_take_numpy_numbers():
    s = mt.Schedule(scale(4))
    s.annotate("i", "a", np.int16(3))
    s.annotate("i", "b", np.float32(0.5))
    assert s.program.body.annotations == (("a", 3), ("b", 0.5))
    check(s)


@pytest.mark.parametrize("value", [(1 << 40) + 1, (1 << 53) + 1, -(1 << 60)])
def test_annotations_keep_large_integers(value):
    s = mt.Schedule(scale(4))
    s.annotate("i", "note", value)
    assert s.program.body.annotations == (("note", value),)
    assert type(s.program.body.annotations[0][1]) is int
    check(s)


def test_annotations_take_numpy_strings_as_strings():
    s = mt.Schedule(scale(4))
    s.annotate("i", "note", np.str_("hot"))
    assert type(s.program.body.annotations[0][1]) is str
    check(s)


def test_annotations_survive_other_steps():
    s = mt.Schedule(chain())
    s.annotate("B", "note", "b")
    s.annotate("j", "note", "j")
    s.parallel("j")
    s.split("i", [2, 4])
    s.compute_at("B", "j")
    assert s.program.blocks["B"].annotations == (("note", "b"),)
    assert "parallel(8):  # note = 'j'" in str(s.program)
    check(s)


def test_a_name_that_is_a_loop_and_a_block_means_the_loop():
    A = mt.placeholder((3,), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((3,), lambda i: A[i], name="C")]))
    s.annotate("C", "what", "block")
    assert s.program.blocks["C"].annotations == (("what", "block"),)
    assert s.program.body.annotations == ()
    check(s)


# ---- rules


def drives_a_reduction(name, call):
    return Refusal(
        name,
        "R2",
        start(matmul),
        lambda s: call(s, "k"),
        r"R2: the loop drives no reduction.* \(k drives the reduction of C\)",
        choices=("i", "j"),
        marks=("for k in range(6):  # <- drives the reduction", "# <- reduction"),
    )


def concurrent_rules(name, call):
    """R1 to R4, which parallel, vectorize and bind share; but for vectorize's R2."""
    return [
        Refusal(
            name,
            "R1",
            after(scale, lambda s: s.unroll("i")),
            lambda s: call(s, "i"),
            rf'^{name}\("i".*\) breaks R1: the loop is serial \(i is unroll\)$',
            marks=("for i in unroll(20):  # <- is unroll",),
        ),
        *([] if name == "vectorize" else [drives_a_reduction(name, call)]),
        Refusal(
            name,
            "R3",
            start(row_scans),
            lambda s: call(s, "y"),
            r"R3: the loop drives no ordered update \(y drives the ordered update of W\)",
            choices=("x",),
            marks=("for y in range(5):  # <- drives the ordered update", "# <- ordered update"),
        ),
        Refusal(
            name,
            "R4",
            after(scale, lambda s: s.split("i", [None, 8]), lambda s: s.split("i_1", [3, 3])),
            lambda s: call(s, "i_0"),
            r"R4: no two iterations touch the same element, one of them writing \(one iteration of "
            r"i_0 may write an element of C that another may write\)",
            marks=("for i_0 in range(3):  # <- iterations conflict", "# <- writes C"),
        ),
        Refusal(
            name,
            "A1",
            start(scale),
            lambda s: call(s, "ii"),
            r"A1: .*there is no loop 'ii'; did you mean 'i'\?",
            choices=("i",),
        ),
    ]


REFUSALS = [
    *concurrent_rules("parallel", lambda s, loop: s.parallel(loop)),
    Refusal(
        "serial",
        "R1",
        after(scale, lambda s: s.split("i", [None, 4]), lambda s: s.unroll("i_1")),
        lambda s: s.serial("i_0"),
        r'^serial\("i_0"\) breaks R1: the loop is parallel, vectorized, unrolled or bound '
        r"\(i_0 is serial\)$",
        choices=("i_1",),
        marks=("for i_0 in range(5):  # <- is serial",),
    ),
    *concurrent_rules("vectorize", lambda s, loop: s.vectorize(loop)),
    Refusal(
        "vectorize",
        "R2",
        after(argmax, lambda s: s.fuse("i", "k")),
        lambda s: s.vectorize("i_k"),
        r"R2: the loop drives no reduction, or one that rfactor gives partial results "
        r"\(of C it does not: its R3 asks that neither the loop .* are part of another axis; .*: "
        r"i_k is\)",
        choices=("x",),
        marks=("for i_k in",),
    ),
    *concurrent_rules("bind", lambda s, loop: s.bind(loop, "threadIdx.x")),
    Refusal(
        "parallel",
        "R5",
        after(grid, lambda s: s.parallel("i")),
        lambda s: s.parallel("j"),
        r"R5: .*\(i is parallel\)",
        marks=("# <- is parallel",),
    ),
    Refusal(
        "parallel",
        "R6",
        after(grid, lambda s: s.parallel("j")),
        lambda s: s.parallel("i"),
        r"R6: no parallel or bound loop is inside the loop \(j is parallel\)",
        marks=("# <- is parallel",),
    ),
    Refusal(
        "vectorize",
        "R5",
        after(grid, lambda s: s.vectorize("i")),
        lambda s: s.vectorize("j"),
        r"R5: the loop is not inside a vectorized loop \(i is vectorize\)",
        marks=("# <- is vectorize",),
    ),
    Refusal(
        "vectorize",
        "R6",
        after(grid, lambda s: s.parallel("j")),
        lambda s: s.vectorize("i"),
        r"R6: .*\(j is parallel\)",
        marks=("for j in parallel(8):  # <- is parallel",),
    ),
    Refusal(
        "unroll",
        "R1",
        after(grid, lambda s: s.vectorize("i")),
        lambda s: s.unroll("i"),
        r"R1: the loop is serial \(i is vectorize\)",
        marks=("# <- is vectorize",),
    ),
    Refusal(
        "unroll",
        "R2",
        start(scale, 1025),
        lambda s: s.unroll("i"),
        r"R2: the body is repeated at most 1024 times \(1025 copies\)",
        marks=("for i in range(1025):  # <- too long to unroll",),
    ),
    Refusal(
        "bind",
        "R5",
        after(grid, lambda s: s.bind("i", "threadIdx.x")),
        lambda s: s.bind("j", "threadIdx.x"),
        r"R5: .*\(i is threadIdx.x\)",
        marks=('for i in bind(4, "threadIdx.x"):  # <- is threadIdx.x',),
    ),
    Refusal(
        "bind",
        "R6",
        after(grid, lambda s: s.bind("i", "threadIdx.x")),
        lambda s: s.bind("j", "blockIdx.x"),
        r"R6: a blockIdx loop is not inside a threadIdx or vthread loop \(i is threadIdx.x\)",
        marks=("# <- is threadIdx.x",),
    ),
    Refusal(
        "bind",
        "R7",
        after(lambda: grid(64, 17), lambda s: s.bind("i", "threadIdx.y")),
        lambda s: s.bind("j", "threadIdx.x"),
        r"R7: a block has at most 1,024 threads, .*\(64 \* 17\)",
        marks=('for i in bind(64, "threadIdx.y"):  # <- threads', "# <- threads"),
    ),
    Refusal(
        "bind",
        "R7",
        start(scale, 65),
        lambda s: s.bind("i", "threadIdx.z"),
        r"R7: .*, 64 along z, .*\(i has 65 iterations\)",
        choices=(),
        marks=("for i in range(65):  # <- too long",),
    ),
    Refusal(
        "bind",
        "R7",
        start(scale, 65536),
        lambda s: s.bind("i", "blockIdx.y"),
        r"R7: .* 65,535 along y and z \(i has 65,536 iterations\)",
    ),
    Refusal(
        "bind",
        "K1",
        after(
            stencil,
            lambda s: s.split("y", [2, 4]),
            lambda s: s.compute_at("P", "y_0"),
            lambda s: s.set_scope("P", "shared"),
        ),
        lambda s: s.bind("y_0", "threadIdx.x"),
        r"K1: .*\(one iteration of y_0 may write an element of P that another may write\)",
    ),
    Refusal(
        "unannotate",
        "R1",
        after(scale, lambda s: s.annotate("i", "note", 1)),
        lambda s: s.unannotate("i", "notes"),
        r"R1: there is such an annotation \(i has none called 'notes'\)",
        choices=("note",),
    ),
]


@pytest.mark.slow
@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


def test_no_concurrent_loop_over_an_ordered_axis():
    for make in CONCURRENT:
        s = mt.Schedule(scan())
        refused(s, "R3", "i drives the ordered update of W", lambda: make(s, "i"), choices=())
        s = mt.Schedule(horner())
        refused(s, "R3", "k drives the ordered", lambda: make(s, "k"), choices=("i",))
        fused = s.fuse("i", "k")
        refused(s, "R3", "i_k drives the ordered", lambda: make(s, fused), choices=())


def test_no_concurrent_loop_over_part_of_a_reduction():
    for make in CONCURRENT:
        s = mt.Schedule(argmax())
        k0, k1 = s.split("k", [2, 3])
        for loop in (k0, k1) if make is not vectorized else ():
            refused(s, "R2", f"{loop} drives the reduction of C", lambda: make(s, loop))
        fused = s.fuse("i", k0)
        fact = "of C it does not" if make is vectorized else "i_k_0 drives the reduction of C"
        refused(s, "R2", fact, lambda: make(s, fused))


def test_a_reduction_that_lives_in_a_loop_does_not_stop_it():
    for make in CONCURRENT:
        s = mt.Schedule(fed_rowsum())
        s.reverse_compute_at("C", "i")
        make(s, "i")
        check(s)


@pytest.mark.parametrize("inner", ["parallel", "threadIdx.x", "blockIdx.x", "vthread"])
def test_parallel_is_refused_around_a_loop_in_which_it_would_be_refused(inner):
    s = mt.Schedule(grid())
    s.parallel("j") if inner == "parallel" else s.bind("j", inner)
    with pytest.raises(mt.ScheduleError, match=r"breaks R[56]: "):
        s.parallel("i")
    check(s)


def test_bind_next_to_parallel_and_vector_loops():
    s = mt.Schedule(cube())
    s.parallel("j")
    refused(s, "R5", "j is parallel", lambda: s.bind("i", "blockIdx.x"))
    refused(s, "R5", "j is parallel", lambda: s.bind("k", "threadIdx.x"))
    s = mt.Schedule(cube())
    s.vectorize("j")
    refused(s, "R5", "j is vectorize", lambda: s.bind("k", "threadIdx.x"))
    s.bind("i", "blockIdx.x")
    check(s)


def test_bind_of_the_same_index_outside():
    s = mt.Schedule(cube())
    s.bind("j", "threadIdx.x")
    refused(s, "R5", "j is threadIdx.x", lambda: s.bind("i", "threadIdx.x"))
    refused(s, "R6", "j is threadIdx.x", lambda: s.bind("k", "blockIdx.x"))
    s.bind("i", "blockIdx.x")
    s.bind("k", "threadIdx.y")
    check(s)
    s = mt.Schedule(cube())
    s.bind("j", "blockIdx.z")
    refused(s, "R6", "j is blockIdx.z", lambda: s.bind("i", "vthread"))
    refused(s, "R6", "j is blockIdx.z", lambda: s.bind("i", "threadIdx.x"))


def test_parallel_inside_bound_and_vector_loops():
    s = mt.Schedule(cube())
    s.bind("i", "blockIdx.x")
    refused(s, "R5", "i is blockIdx.x", lambda: s.parallel("k"))
    s = mt.Schedule(cube())
    s.vectorize("i")
    refused(s, "R5", "i is vectorize", lambda: s.parallel("j"))


def test_vectorize_around_unrolled_and_vector_loops():
    s = mt.Schedule(cube())
    s.unroll("k")
    s.vectorize("j")
    refused(s, "R6", "j is vectorize", lambda: s.vectorize("i"))
    check(s)


def test_a_race_by_recomputing_an_output():
    s = mt.Schedule(chain(5))
    outer, _ = s.split("j", [2, 5])
    s.compute_at("B", outer)
    s.cache_write("C", "local")
    s.parallel(outer)
    check(s)
    s = mt.Schedule(chain(5))
    outer, _ = s.split("j", [2, 5])
    s.compute_at("B", outer)
    s.reverse_compute_inline("C")
    message = "one iteration of j_0 may write an element of C that another may write"
    refused(s, "R4", message, lambda: s.parallel(outer))


def test_the_choices_are_loops_that_would_do():
    s = mt.Schedule(matmul())
    s.split("i", [2, 2])
    s.reorder("k", "j")
    s.vectorize("j")
    error = refused(s, "R2", "k drives", lambda: s.parallel("k"), choices=("i_0", "i_1"))
    for loop in error.choices:
        twin = s.copy()
        twin.parallel(loop)
        check(twin)


@pytest.mark.parametrize("step", ["parallel", "bind"])
def test_the_advice_for_a_fused_loop_is_a_step_that_is_accepted(step):
    s = mt.Schedule(rowsum(4, 6))
    fused = s.fuse("i", "k")
    given = ["threadIdx.x"] if step == "bind" else []
    with pytest.raises(mt.ScheduleError) as caught:
        getattr(s, step)(fused, *given)
    assert caught.value.rule == "R2"
    assert caught.value.advice == (
        "split the fused loop so that the reduction has loops of its own"
    )
    outer, _ = s.split(fused, [4, 6])
    getattr(s, step)(outer, *given)
    check(s)
