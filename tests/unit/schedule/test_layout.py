"""transform_layout and index maps."""

import contextlib

import pytest

import minitensor as mt
from minitensor.ir import (
    BOOL,
    INDEX,
    Binary,
    Cast,
    Const,
    Load,
    Select,
    Unary,
    Var,
    nodes_in,
)
from minitensor.schedule import IndexMap
from tests.unit.schedule.common import Refusal, check, each, golden, refused, run_refusal
from tests.unit.schedule.programs import (
    after,
    argmax,
    chain,
    chain2d,
    gather,
    matmul_relu,
    normalised,
    padded,
    row_scans,
    start,
    stencil,
    strided,
    three,
)


def test_transform_layout():
    A = mt.placeholder((64, 32), name="A")
    B = mt.compute((64, 32), lambda i, j: A[i, j] * 2, name="B")
    C = mt.compute((64, 32), lambda i, j: B[i, j] + 1, name="C")
    s = mt.Schedule(mt.lower([A, C]))
    assert s.transform_layout("B", lambda i, j: (i // 8, j, i % 8)) is None
    golden(
        s,
        """
        B = empty(float32[8, 32, 8])
        for i in range(64):
            for j in range(32):
                B[i//8, j, i%8] = A[i, j] * 2.0
        for C_i in range(64):
            for C_j in range(32):
                C[C_i, C_j] = B[C_i//8, C_j, C_i%8] + 1.0
        """,
    )


VECTORS = {
    "same": lambda i: (i,),
    "alone": lambda i: i,
    "list": lambda i: [i],
    "tiles": lambda i: (i // 4, i % 4),
    "turned": lambda i: (i % 3, i // 3),
    "shifted": lambda i: (i + 2,),
    "strided": lambda i: (i * 3,),
    "backwards": lambda i: (7 - i,),
    "unit": lambda i: (0, i, 0),
    "twice": lambda i: (i, i),
    "digits": lambda i: (i // 6, i // 2 % 3, i % 2),
    "wide": lambda i: (i // 16, i % 16),
}


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize(
    "builder", [chain, stencil, strided, gather, padded], ids=lambda b: b.__name__
)
def test_layouts_of_a_vector(builder, name):
    buffer = "P" if builder is stencil else "B"
    s = mt.Schedule(builder())
    try:
        s.transform_layout(buffer, VECTORS[name])
    except mt.ScheduleError as error:
        assert error.rule == "R4", error
        assert name == "backwards" and s.program.buffers[buffer].shape[0] > 8
    check(s)


MATRICES = {
    "transposed": (lambda i, j: (j, i), (5, 4)),
    "flat": (lambda i, j: (i * 5 + j,), (20,)),
    "tiles": (lambda i, j: (i // 2, j // 3, i % 2, j % 3), (2, 2, 2, 3)),
    "panels": (lambda i, j: (j // 2, i, j % 2), (3, 4, 2)),
    "padded rows": (lambda i, j: (i * 10 + j,), (35,)),
    "flat and split": (lambda i, j: ((i * 5 + j) // 7, (i * 5 + j) % 7), (3, 7)),
    "skewed and kept": (lambda i, j: (i + j, j, i), (8, 5, 4)),
    "split flat": (lambda i, j: (i // 2, (i % 2) * 5 + j), (2, 10)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_layouts_of_a_matrix(name):
    index_map, shape = MATRICES[name]
    s = mt.Schedule(chain2d(4, 5))
    s.transform_layout("B", index_map)
    assert s.program.buffers["B"].shape == shape
    check(s)
    s.transform_layout("B", lambda *i: i) if len(shape) == 1 else None
    check(s)


@pytest.mark.parametrize("n", [0, 1])
def test_layouts_of_nothing_and_of_one(n):
    s = mt.Schedule(chain(n))
    s.transform_layout("B", lambda i: (i // 4, i % 4))
    check(s)
    A = mt.placeholder((), name="A")
    B = mt.compute((), lambda: A[()] * 2, name="B")
    s = mt.Schedule(mt.lower([A, mt.compute((3,), lambda i: B[()] + i, name="C")]))
    s.transform_layout("B", lambda: (0,))
    check(s)


@pytest.mark.parametrize(
    ("builder", "buffer", "index_map"),
    [
        (matmul_relu, "C", lambda i, j: (j, i)),
        (normalised, "M", lambda i: (i // 3, i % 3)),
        (row_scans, "W", lambda i, j: (j, i)),
        (row_scans, "P", lambda i, j: (i * 5 + j,)),
        (gather, "I", lambda i: (i * 2,)),
    ],
)
def test_layouts_of_reductions_updates_and_indices(builder, buffer, index_map):
    s = mt.Schedule(builder())
    s.transform_layout(buffer, index_map)
    check(s)


def test_a_layout_after_everything_else():
    s = mt.Schedule(matmul_relu(5, 7, 6))
    i0, i1 = s.split("i", [None, 2])
    j0, j1 = s.split("j", [None, 4])
    s.reorder(i0, j0, "k", i1, j1)
    s.reverse_compute_at("D", i0)
    s.vectorize(j1)
    s.parallel(i0)
    s.decompose_reduction("C", "k")
    s.transform_layout("C", lambda i, j: (i // 2, j // 4, i % 2, j % 4))
    check(s)


@pytest.mark.parametrize(
    "step",
    [
        lambda s: s.compute_at("B", "j"),
        lambda s: s.reverse_compute_at("C", "i"),
        lambda s: s.compute_inline("B"),
        lambda s: s.reverse_compute_inline("C"),
        lambda s: s.cache_read("C", "B", "local"),
        lambda s: s.cache_write("B", "local"),
        lambda s: s.storage_align("B", 0, 8),
        lambda s: s.parallel("i"),
        lambda s: s.vectorize("j"),
        lambda s: s.split("i", [None, 3]),
        lambda s: s.split("j", [None, 3], tail="cut"),
        lambda s: s.set_scope("B", "shared"),
        lambda s: s.transform_layout("B", lambda a, b: (b, a)),
    ],
)
@pytest.mark.parametrize("name", ["tiles", "turned", "strided"])
def test_anything_after_a_layout(step, name):
    s = mt.Schedule(chain(8))
    index_map = VECTORS[name]
    s.transform_layout("B", index_map)
    try:
        step(s)
    except mt.ScheduleError as error:
        assert error.rule.startswith("R")
    check(s)


def test_concurrent_loops_after_a_layout():
    for name in ("same", "tiles", "shifted", "strided", "backwards", "unit"):
        s = mt.Schedule(chain(8))
        s.transform_layout("B", VECTORS[name])
        for loop in s.split("i", [None, 4]):
            twin = s.copy()
            twin.parallel(loop)
            check(twin)


@pytest.mark.slow
@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("factors", [[None, 3], [4, 2], [3, 4], [2, 2, 2]])
def test_concurrent_loops_after_a_layout_are_right_or_refused(factors, name):
    s = mt.Schedule(chain(8))
    s.transform_layout("B", VECTORS[name])
    for loop in s.split("i", factors):
        twin = s.copy()
        with contextlib.suppress(mt.ScheduleError):
            twin.parallel(loop)
        check(twin)


def test_a_layout_of_a_copy_packs_a_parameter():
    s = mt.Schedule(three(8))
    s.cache_read("D", "A", "global")
    s.transform_layout("A_global", lambda i: (i % 2, i // 2))
    check(s)


def test_index_maps_print_as_they_were_written():
    s = mt.Schedule(chain2d(4, 5))
    s.transform_layout("B", lambda row, col: (col // 2, row * 2 + col % 2))
    step = s.trace.steps[0]
    assert isinstance(step.arguments["index_map"], IndexMap)
    text = "lambda row, col: (col//2, row*2 + col%2)"
    assert str(step.arguments["index_map"]) == text
    assert s.trace.as_python() == f"s.transform_layout('B', {text})"
    check(s)


def test_index_maps_that_are_index_maps():
    s = mt.Schedule(chain())
    s.transform_layout("B", IndexMap(("i",), (Var("i") // 4, Var("i") % 4)))
    assert s.program.buffers["B"].shape == (2, 4)
    check(s)


def test_index_maps_with_unusual_signatures():
    def keyword_default(i, j=3):
        return j, i

    class Callable:
        def __call__(self, i, j):
            return j, i

    for index_map in (keyword_default, Callable(), Callable().__call__):
        s = mt.Schedule(chain2d(4, 5))
        s.transform_layout("B", index_map)
        assert s.program.buffers["B"].shape == (5, 4)
        check(s)


# ---- rules

REFUSALS = [
    Refusal(
        "transform_layout",
        "R1",
        start(chain),
        lambda s: s.transform_layout("A", lambda i: (i,)),
        r"R1: the buffer is a temporary, and has no storage_align \(A is not\)",
        choices=("B",),
    ),
    Refusal(
        "transform_layout",
        "R2",
        start(chain2d),
        lambda s: s.transform_layout("B", lambda i: (i,)),
        r"R2: .*one index for each axis \(B has rank 2, the map is lambda i: \(i,\)\)",
    ),
    Refusal(
        "transform_layout",
        "R3",
        start(chain2d),
        lambda s: s.transform_layout("B", lambda i, j: (i + j,)),
        r"R3: .*\(i is not determined by the new indices of lambda i, j: \(i \+ j,\)\)",
    ),
    Refusal(
        "transform_layout",
        "R4",
        start(chain),
        lambda s: s.transform_layout("B", lambda i: (i - 1,)),
        r"R4: .*\(the map is lambda i: \(i - 1,\)\)",
    ),
    Refusal(
        "transform_layout",
        "R5",
        start(argmax),
        lambda s: s.transform_layout("C_value", lambda i: (i // 2, i % 2)),
        "R5: no reduction of several values writes the buffer$",
        marks=("# <- writes C_value",),
    ),
    Refusal(
        "transform_layout",
        "K1",
        after(chain, lambda s: s.split("i", [3, 3]), lambda s: s.parallel("i_0")),
        lambda s: s.transform_layout("B", lambda i: (i // 2 + i % 2 * 8,)),
        r"K1: .*\(one iteration of i_0 may write an element of B that another may write\)",
        marks=("for i_0 in parallel(3):  # <- parallel loop",),
    ),
]


@each(REFUSALS)
def test_refusals(case):
    run_refusal(case)


def test_layouts_that_grow():
    s = mt.Schedule(chain(8))
    refused(s, "R4", r"\[8\] would become \[134\]", lambda: layout(s, lambda i: (i * 19,)))
    refused(s, "R4", "would become", lambda: layout(s, lambda i: (i, 1 << 40)))
    s.transform_layout("B", lambda i: (i * 18,))
    check(s)


def test_layouts_that_grow_step_by_step():
    s = mt.Schedule(chain(8))
    for _ in range(9):
        s.transform_layout("B", lambda i: (i * 16,))
    with pytest.raises(mt.ScheduleError, match=r"at most 2\*\*40 elements .* would become"):
        s.transform_layout("B", lambda i: (i * 16,))


def test_layouts_by_numbers_of_more_than_64_bits():
    s = mt.Schedule(chain(8))
    huge = 1 << 39
    for index_map in (
        lambda i: (i, i * huge * huge // 7 % 2),
        lambda i: (i, (i + 1) * huge * huge // 7 % 2),
        lambda i: (i, (1 - i * huge * huge) % 3),
    ):
        refused(s, "R4", "computed within 64 bits", lambda m=index_map: layout(s, m))
    s.transform_layout("B", lambda i: (i, i * huge // 7 % 2))
    check(s)


def layout(s, index_map):
    s.transform_layout("B", index_map)


def test_layouts_of_aligned_buffers():
    s = mt.Schedule(chain2d())
    s.storage_align("B", 0, 8)
    refused(s, "R1", "B is not", lambda: layout(s, lambda i, j: (j, i)), choices=())


NOT_INJECTIVE = {
    "first": lambda i, j: (i,),
    "nothing": lambda i, j: (),
    "constant": lambda i, j: 3,
    "twice": lambda i, j: (i, i),
    "quotient": lambda i, j: (i // 2, j),
    "remainder": lambda i, j: (i, j % 3),
    "too small a tile": lambda i, j: (i * 4 + j,),
    "product": lambda i, j: (i * j, i),
    "gap": lambda i, j: (i, j // 4, j % 3),
}


@pytest.mark.parametrize("name", NOT_INJECTIVE)
def test_maps_that_are_not_injective(name):
    s = mt.Schedule(chain2d(4, 5))
    refused(s, "R3", "is not determined by", lambda: layout(s, NOT_INJECTIVE[name]))


def raises(i, j):
    raise KeyError("no such thing")


NOT_MAPS = {
    "raises": (raises, "calling it gave KeyError: 'no such thing'"),
    "divides by zero": (lambda i, j: 1 // 0, "calling it gave ZeroDivisionError"),
    "float": (lambda i, j: (i, 2.5), "it returned 2.5"),
    "float product": (lambda i, j: (i, j * 1.5), "index expressions"),
    "bool": (lambda i, j: (i, True), "it returned True"),
    "None": (lambda i, j: None, "it returned None"),
    "string": (lambda i, j: "ij", "it returned 'ij'"),
    "nested": (lambda i, j: ((i, j),), "it returned"),
    "foreign": (lambda i, j: (i, j + Var("z")), "it returned"),
    "keywords only": (lambda i, *, j: (i, j), "calling it gave TypeError"),
    "built in": (max, "calling it gave ValueError"),
    "type": (int, "calling it gave ValueError"),
    "not callable": ("ij", r"but got index_map='ij' \(str\)"),
    "nothing": (None, r"but got index_map=None \(NoneType\)"),
    "tuple": ((0, 1), r"but got index_map=\(0, 1\) \(tuple\)"),
}


@pytest.mark.parametrize("name", NOT_MAPS)
def test_things_that_are_no_index_maps(name):
    value, message = NOT_MAPS[name]
    s = mt.Schedule(chain2d(4, 5))
    refused(s, "A2", message, lambda: layout(s, value))


BAD_MAPS = {
    "the same input twice": IndexMap(("i", "i"), (Var("i"),)),
    "foreign variable": IndexMap(("i", "j"), (Var("i"), Var("j"), Var("z"))),
    "foreign variable, bounded": IndexMap(("i", "j"), (Var("i"), Var("j"), Var("z") % 3)),
    "no expression": IndexMap(("i", "j"), (Var("i"), "j")),
    "float": IndexMap(("i", "j"), (Var("i"), Var("j") * 0.5)),
    "keyword": IndexMap(("if", "j"), (Var("if"), Var("j"))),
    "data": IndexMap(("i", "j"), (Var("i"), Var("j"), Cast(INDEX, Load("F", (Var("i"),), BOOL)))),
}


@pytest.mark.parametrize("name", BAD_MAPS)
def test_index_maps_that_are_wrong_inside(name):
    A = mt.placeholder((4, 4), name="A")
    F = mt.placeholder((4,), "bool", name="F")
    B = mt.compute((4, 4), lambda i, j: A[i, j] * 2.0, name="B")
    C = mt.compute((4, 4), lambda x, y: B[x, y] + 1.0, name="C")
    s = mt.Schedule(mt.lower([A, F, C]))
    with pytest.raises(mt.ScheduleError):
        s.transform_layout("B", BAD_MAPS[name])
    check(s)


UNUSUAL = {
    "min": lambda i, j: (i, j, Binary("min", i, j)),
    "max": lambda i, j: (i, j, Binary("max", i, j)),
    "select": lambda i, j: (i, j, Select(Binary("<", i, Const(2)), Const(0), Const(1))),
    "minus": lambda i, j: (Unary("-", i) + 3, j),
    "quotient by 0": lambda i, j: (i, j // 0, j),
    "remainder by 0": lambda i, j: (i, j % 0, j),
    "negative quotient": lambda i, j: (i, (j - 4) // -2, j),
    "product": lambda i, j: (i * j, i, j),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_accepted_in_an_index_map_can_be_written_to_a_trace(name):
    s = mt.Schedule(chain2d(4, 5))
    try:
        s.transform_layout("B", UNUSUAL[name])
    except mt.ScheduleError as error:
        assert error.rule == "A2"
    check(s)


def test_an_error_shows_the_map_as_it_was_written():
    s = mt.Schedule(chain2d())
    with pytest.raises(mt.ScheduleError) as caught:
        s.transform_layout("B", lambda i, j: (i, i))
    assert caught.value.message.startswith('transform_layout("B", lambda i, j: (i, i)) breaks R3')


@pytest.mark.slow
def test_laying_out_over_and_over_does_not_make_indices_without_end():
    """Where the extents do not fit, an index is needed twice: as a quotient and as a remainder."""
    s = mt.Schedule(chain(16))
    with pytest.raises(mt.ScheduleError, match=r"K2: .* \(one of . would have more\)"):
        for n in range(20):
            factor = (3, 5, 7)[n % 3]
            rows = -(-s.program.buffers["B"].shape[0] // factor)
            s.transform_layout("B", lambda i: (i // factor, i % factor))
            s.transform_layout("B", lambda i, j: (j * rows + i,))
            if n == 1:
                check(s)
    assert nodes_in(s.program.body, 1 << 20) < 20_000


def doubled(index, times):
    for _ in range(times):
        index = index + index
    return index


def test_a_map_that_is_small_only_in_memory_is_refused():
    s = mt.Schedule(chain())
    too_many = "expected an index map of at most 1000 operations, but it has more"
    refused(s, "A2", too_many, lambda: s.transform_layout("B", lambda i: doubled(i, 64)))
    whole = IndexMap(("i",), (doubled(Var("i"), 64),))
    refused(s, "A2", too_many, lambda: s.transform_layout("B", whole))
