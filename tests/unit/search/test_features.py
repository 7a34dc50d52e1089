"""Features: computed by hand for small programs, and odd programs that must have some."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.errors import ArgumentError
from minitensor.schedule import Schedule
from minitensor.search.features import (
    FEATURE_NAMES,
    BatchError,
    Marks,
    Structure,
    extract_features,
)

W = mt.workloads


def features(subject, **kwargs):
    """For each block its features by name, without the logarithm; those that are 0 left out."""
    program = getattr(subject, "program", subject)
    rows = extract_features(subject, **kwargs)
    assert rows.shape == (len(program.blocks), 164)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    return {
        block: {name: 2.0**x - 1 for name, x in zip(FEATURE_NAMES, row.tolist()) if x}
        for block, row in zip(program.blocks, rows)
    }


def holds(found, expected):
    """Whether the features named are so, 0 standing for absent."""
    got = {name: found.get(name, 0) for name in expected}
    assert got == pytest.approx(expected, rel=1e-5)


def buffer(found, number):
    """What is said of one buffer."""
    start = f"buffer {number} "
    return {name[len(start) :]: x for name, x in found.items() if name.startswith(start)}


def product():
    return mt.lower(W.matmul(m=4, n=8, k=16))


def summed(*tensors, shape=(4,)):
    """The sum of the elements of some tensors, converted."""
    return mt.compute(
        shape,
        lambda *i: sum((t[i].astype("float64") for t in tensors[1:]), tensors[0][i]),
        name="Z",
    )


def test_the_names_are_distinct():
    assert len(FEATURE_NAMES) == len(set(FEATURE_NAMES)) == 164


class TestMatmul:
    """C[i, j] += A[i, k] * B[k, j], 4 x 8 x 16: 512 executions."""

    @pytest.fixture
    def found(self):
        return features(product())["C"]

    def test_work(self, found):
        holds(found, {"float add": 512, "float multiply": 512, "int add": 0, "float compare": 0})

    def test_the_result(self, found):
        assert buffer(found, 1) == pytest.approx(
            {
                "read and written": 1,
                "bytes": 2048,
                "unique bytes": 4 * 8 * 4,
                "lines": 2,  # 512 executions, 16 stay at an element, 16 elements to a line
                "unique lines": 2,
                "reused in a loop": 1,  # k
                "reuse distance in iterations": 1,
                "reuse distance in bytes": 12,
                "reuse count": 16,
                "bytes per reuse": 128,
                "unique bytes per reuse": 8,
                "lines per reuse": 1 / 8,
                "unique lines per reuse": 1 / 8,
                "stride": 1,
            },
            rel=1e-5,
        )

    def test_the_operand_of_rows(self, found):
        assert buffer(found, 2) == pytest.approx(
            {
                "read": 1,
                "bytes": 2048,
                "unique bytes": 4 * 16 * 4,
                "lines": 32,
                "unique lines": 4,
                "reused in a loop": 1,  # j
                "reuse distance in iterations": 16,
                "reuse distance in bytes": 4 + 64 + 64,
                "reuse count": 8,
                "bytes per reuse": 256,
                "unique bytes per reuse": 32,
                "lines per reuse": 4,
                "unique lines per reuse": 0.5,
                "stride": 1,
            },
            rel=1e-5,
        )

    def test_the_operand_of_columns(self, found):
        assert buffer(found, 3) == pytest.approx(
            {
                "read": 1,
                "bytes": 2048,
                "unique bytes": 16 * 8 * 4,
                "lines": 256,  # two steps of k to a line
                "unique lines": 8,
                "reused in a loop": 1,  # i
                "reuse distance in iterations": 128,
                "reuse distance in bytes": 32 + 64 + 512,
                "reuse count": 4,
                "bytes per reuse": 512,
                "unique bytes per reuse": 128,
                "lines per reuse": 64,
                "unique lines per reuse": 2,
                "stride": 8,
            },
            rel=1e-5,
        )
        assert not buffer(found, 4)

    def test_arithmetic_intensity(self, found):
        alone, k, j, i = 2 / 12, 32 / 132, 256 / 608, 1024 / (128 + 256 + 512)
        curve = [
            alone, (2 * alone + k) / 3, (alone + 2 * k) / 3,
            k, (2 * k + j) / 3, (k + 2 * j) / 3,
            j, (2 * j + i) / 3, (j + 2 * i) / 3, i,
        ]  # fmt: skip
        assert [found[f"intensity {n + 1}"] for n in range(10)] == pytest.approx(curve, rel=1e-5)

    def test_the_rest(self, found):
        holds(
            found,
            {
                "allocation bytes": 128,
                "allocation number": 0,
                "allocation outer product": 1,
                "allocation inner product": 512,
                "loops": 3,
                "loops product": 512,
                "auto unroll": 0,
                "gpu": 0,
                "vectorize at none": 1,
                "unroll at none": 1,
                "parallel at none": 1,
            },
        )


def test_marks():
    s = Schedule(product())
    i, j, k = s.get_loops("C")
    i0, i1 = s.split(i, [2, 2])
    j0, j1, j2 = s.split(j, [2, 2, 2])
    s.reorder(i0, j0, k, i1, j1, j2)
    s.parallel(i0)
    s.vectorize(j2)
    s.unroll(k)
    s.unroll(j1)
    holds(
        features(s)["C"],
        {
            "parallel length": 2,
            "parallel product": 2,
            "parallel number": 1,
            "parallel at outer spatial": 1,
            "parallel at none": 0,
            "vectorize length": 2,
            "vectorize at inner spatial": 1,
            "unroll length": 2,
            "unroll product": 32,
            "unroll number": 2,
            "unroll at middle spatial": 1,
            "unroll at inner reduce": 0,
        },
    )
    s.unroll(i1)
    holds(features(s)["C"], {"unroll product": 64, "unroll number": 3})


def test_a_fused_loop_that_reduces_and_does_not_is_mixed():
    s = Schedule(product())
    s.unroll(s.fuse(*s.get_loops("C")[1:]))
    holds(features(s)["C"], {"unroll at mixed": 1, "unroll length": 128})


def test_a_loop_of_one_iteration_stands_nowhere():
    s = Schedule(product())
    s.parallel(s.add_unit_loop("i"))
    holds(features(s)["C"], {"parallel at none": 1, "parallel number": 1, "parallel length": 1})


def test_positions_of_reduce_loops():
    s = Schedule(product())
    parts = s.split("k", [2, 2, 4])
    for part, place in zip(parts, ("outer", "middle", "inner")):
        marked = s.copy()
        marked.unroll(part)
        holds(features(marked)["C"], {f"unroll at {place} reduce": 1, "unroll at none": 0})


def test_what_the_compiler_may_unroll():
    s = Schedule(product())
    s.annotate("i", "auto_unroll_max_step", 64)
    holds(features(s)["C"], {"auto unroll": 64})
    s.annotate("C", "auto_unroll_max_step", 16)
    holds(features(s)["C"], {"auto unroll": 16})


def test_a_gpu():
    s = Schedule(product())
    s.bind("i", "blockIdx.x")
    s.bind("j", "threadIdx.y")
    found = features(s, target="cuda")["C"]
    holds(found, {"gpu": 1, "blockIdx.x length": 4, "threadIdx.y length": 8, "vthread length": 0})


def test_a_temporary_under_a_loop():
    A = mt.placeholder((8, 16), name="A")
    B = mt.compute((8, 16), lambda i, j: mt.exp(A[i, j]), name="B")
    C = mt.compute((8, 16), lambda i, j: B[i, j] + 1.0, name="C")
    s = Schedule(mt.lower([A, C]))
    holds(
        features(s)["B"],
        {
            "allocation bytes": 512,
            "allocation number": 1,
            "allocation outer product": 1,
            "allocation inner product": 128,
            "float function": 128,
            "buffer 1 reused by another statement": 1,
            "buffer 1 reuse distance in iterations": 128,
            "buffer 1 reuse distance in bytes": 1024,
            "buffer 2 not reused": 1,
            "buffer 2 reuse count": 0,
        },
    )
    s.compute_at("B", s.get_loops("C")[0])
    holds(
        features(s)["B"],
        {
            "allocation bytes": 64,
            "allocation number": 8,
            "allocation outer product": 8,
            "allocation inner product": 16,
            "buffer 1 reused by another statement": 1,
            "buffer 1 reuse distance in iterations": 16,
            "buffer 1 reuse distance in bytes": 128,
            "buffer 1 reuse count": 1,
        },
    )


def test_shifted_reads_count_once():
    A = mt.placeholder((18,), name="A")
    B = mt.compute((16,), lambda i: A[i] + A[i + 1] + A[i + 2], name="B")
    found = features(mt.lower([A, B]))["B"]
    holds(
        found,
        {
            "buffer 1 bytes": 3 * 64,  # A: it is touched most
            "buffer 1 unique bytes": 18 * 4,
            "buffer 1 read": 1,
            "buffer 2 bytes": 64,
            "buffer 2 unique bytes": 64,
            "buffer 2 written": 1,
            "float add": 32,
        },
    )


def test_strides_of_a_transposed_read():
    A = mt.placeholder((8, 32), name="A")
    B = mt.compute((32, 8), lambda i, j: A[j, i], name="B")
    found = features(mt.lower([A, B]))["B"]
    holds(found, {"buffer 2 stride": 32, "buffer 2 lines": 256, "buffer 2 unique lines": 16})
    holds(found, {"buffer 1 stride": 1, "buffer 1 lines": 16})


def test_alignment_is_part_of_strides():
    A = mt.placeholder((8, 30), name="A")
    B = mt.compute((8, 30), lambda i, j: A[i, j], name="B")
    C = mt.compute((30, 8), lambda i, j: B[j, i], name="C")
    s = Schedule(mt.lower([A, C]))
    s.storage_align("B", 0, 32, 1)
    holds(features(s)["C"], {"buffer 2 stride": 33})


def test_types():
    dtypes = ("bool", "int8", "float64", "bfloat16", "uint32")
    A = [mt.placeholder((16,), dtype, name=f"A{n}") for n, dtype in enumerate(dtypes)]
    B = mt.compute((16,), lambda i: sum((a[i].astype("float64") for a in A[1:]), A[2][i]), name="B")
    D = mt.compute((16,), lambda i: mt.select(A[0][i], A[1][i] * A[1][i], A[1][i] % 3), name="D")
    found = features(mt.lower([*A, B, D]))
    holds(found["B"], {"float add": 64, "int add": 0, "buffer 1 bytes": 128, "buffer 5 bytes": 16})
    holds(
        found["D"],
        {
            "int multiply": 16,
            "int remainder": 16,
            "select": 16,
            "float add": 0,
            "float multiply": 0,
        },
    )
    holds(found["D"], {f"buffer {n} unique bytes": 16 for n in (1, 2, 3)})


def test_kinds_of_work():
    A = mt.placeholder((4,), name="A")
    B = mt.compute(
        (4,),
        lambda i: (
            mt.maximum(abs(A[i]), 1.0) / (-A[i])
            + mt.select(mt.logical_and(A[i] < 1.0, i < 2), mt.tanh(A[i]), mt.floor(A[i]))
        ),
        name="B",
    )
    holds(
        features(mt.lower([A, B]))["B"],
        {
            "float compare": 8,
            "int compare": 4,
            "float other": 8,
            "float function": 4,
            "float divide": 4,
            "float add": 8,
            "logic": 4,
            "select": 4,
        },
    )


def test_of_many_buffers_those_with_the_most_bytes():
    sizes = ["int8", "float32", "int8", "float64", "int16", "float32", "float64"]
    A = [mt.placeholder((4,), dtype, name=f"A{n}") for n, dtype in enumerate(sizes)]
    B = mt.compute((4,), lambda i: sum(a[i].astype("float32") for a in A), name="B")
    found = features(mt.lower([*A, B]))["B"]
    assert [buffer(found, n)["bytes"] for n in range(1, 6)] == pytest.approx([32, 32, 16, 16, 16])
    assert [n for n in range(1, 6) if "written" in buffer(found, n)] == [3]
    assert found["intensity 1"] == pytest.approx(7 / 32, rel=1e-5)


def test_no_loops_and_no_axes():
    A = mt.placeholder((), name="A")
    B = mt.compute((), lambda: A[()] * 2.0, name="B")
    found = features(mt.lower([A, B]))["B"]
    holds(
        found,
        {
            "float multiply": 1,
            "loops": 0,
            "loops product": 1,
            "buffer 1 bytes": 4,
            "buffer 1 unique bytes": 4,
            "buffer 1 lines": 1,
            "buffer 1 unique lines": 1,
            "buffer 1 stride": 0,
            "buffer 1 not reused": 1,
            "allocation inner product": 1,
        },
    )
    assert [found[f"intensity {n + 1}"] for n in range(10)] == pytest.approx([1 / 8] * 10, rel=1e-5)


def test_loops_that_never_run():
    A = mt.placeholder((4, 0), name="A")
    B = mt.compute((4, 0), lambda i, j: A[i, j] * 2.0, name="B")
    found = features(mt.lower([A, B]))["B"]
    assert not {name for name in found if "bytes" in name or "lines" in name}
    holds(found, {"loops": 2, "loops product": 0, "float multiply": 0, "intensity 10": 0})


def test_an_index_that_depends_on_data_moves_as_the_data():
    A, where = mt.placeholder((100,), name="A"), mt.placeholder((8,), "int32", name="where")
    B = mt.compute((8,), lambda i: A[where[i]], name="B")
    holds(
        features(mt.lower([A, where, B]))["B"],
        {"buffer 2 unique bytes": 32, "buffer 3 unique bytes": 32, "buffer 2 stride": 1},
    )


def test_quotients_and_remainders():
    A = mt.placeholder((4, 8), name="A")
    B = mt.compute((32,), lambda f: A[f // 8, f % 8], name="B")
    s = Schedule(mt.lower([A, B]))
    found = features(s)["B"]
    holds(found, {"buffer 2 unique bytes": 128, "buffer 2 unique lines": 2, "buffer 2 stride": 1})
    s.split("f", [None, 8])
    before = features(s)["B"]
    holds(before, {"buffer 2 unique bytes": 128, "buffer 2 stride": 1})


class TestArguments:
    def test_what_has_no_features(self):
        with pytest.raises(ArgumentError, match="a schedule or a program"):
            extract_features("C")
        with pytest.raises(ArgumentError, match="target"):
            extract_features(product(), "dsp")
        with pytest.raises(ArgumentError, match="a schedule, but got"):
            Structure(product())


def tiled():
    s = Schedule(product(), seed=0)
    for loop in s.get_loops("C"):
        s.split(loop, s.sample_perfect_tile(loop, 2))
    s.split(s.get_loops("C")[1], [s.sample_categorical([1, 2, 4]), None])
    return s


class TestStructure:
    @pytest.fixture
    def found(self):
        return Structure(tiled())

    def test_what_it_knows(self, found):
        assert found.blocks == ("C",)
        assert found.loops_of("C") == ("i_0", "i_1_0", "i_1_1", "j_0", "j_1", "k_0", "k_1")
        assert str(found.program) == str(tiled().program)
        assert found.trace == tiled().trace
        with pytest.raises(ArgumentError, match="block='D'"):
            found.loops_of("D")

    def test_extents(self, found):
        extents = found.extents({0: np.array([[1, 4], [2, 2]]), 6: [[1], [2]]})
        assert {name: x.tolist() for name, x in extents.items() if name[0] == "i"} == {
            "i_0": [1, 2],
            "i_1_0": [1, 2],
            "i_1_1": [4, 1],
        }
        assert {x.shape for x in extents.values()} == {(2,)}
        assert {x.dtype for x in extents.values()} == {np.dtype(np.int64)}

    def test_how_many(self, found):
        assert found.features({}).shape == (1, 1, 164)
        assert found.features({}, count=3).shape == (3, 1, 164)
        assert found.extents({}, count=2)["k_0"].shape == (2,)
        nothing = {0: np.empty((0, 2), np.int64)}
        assert found.features(nothing).shape == (0, 1, 164)
        assert found.extents(nothing)["i_0"].shape == (0,)
        marks = {"C": Marks(*np.zeros((3, 5, 7), bool))}
        assert found.features({}, marks).shape == (5, 1, 164)

    def test_of_a_schedule_is_what_is_extracted(self, found):
        (own,) = found.features({})
        assert own.tobytes() == extract_features(tiled()).tobytes()

    def test_gpu(self, found):
        assert found.features({}, target="cuda")[0, 0, FEATURE_NAMES.index("gpu")] == 1

    @pytest.mark.parametrize(
        "decisions, message",
        [
            ({1: [[1, 4]]}, "a step that decides numbers"),
            ({99: [[1, 4]]}, "a step that decides numbers"),
            ({0: [1, 4]}, r"integers \(candidates, 2\)"),
            ({0: [[1, 2, 2]]}, r"integers \(candidates, 2\)"),
            ({0: [[1.0, 4.0]]}, r"integers \(candidates, 2\)"),
            ({0: [["a", "b"]]}, r"integers \(candidates, 2\)"),
            ({0: [[2, 3]]}, "refuses candidate 0"),
            ({0: [[1, 4], [4, 4]]}, "refuses candidate 1"),
            ({6: [[3]]}, r"some of \[1, 2, 4\]"),
            ({0: [[1, 4]], 2: [[1, 8], [2, 4]]}, "as many candidates each"),
        ],
    )
    def test_decisions_that_make_no_sense(self, found, decisions, message):
        with pytest.raises(ArgumentError, match=message):
            found.extents(decisions)
        with pytest.raises(ArgumentError, match=message):
            found.features(decisions)

    def test_marks_that_make_no_sense(self, found):
        good = np.zeros((2, 7), bool)
        for marks in (
            Marks(good, good, good[:1]),
            Marks(*[good[:, 1:]] * 3),
            Marks(*[good[0]] * 3),
        ):
            with pytest.raises(ArgumentError, match=r"bool arrays \(candidates, 7\)"):
                found.features({}, {"C": marks})
        with pytest.raises(ArgumentError, match="block='D'"):
            found.features({}, {"D": Marks(good, good, good)})
        with pytest.raises(ArgumentError, match="as many candidates each"):
            found.features({}, {"C": Marks(good, good, good)}, count=3)

    def test_what_depends_on_numbers_is_refused(self):
        s = Schedule(product())
        s.split("i", [None, 3], tail="cut")
        with pytest.raises(BatchError, match="cut in two"):
            Structure(s)

    def test_loops_that_never_run(self):
        A = mt.placeholder((4, 0), name="A")
        B = mt.compute((4, 0), lambda i, j: A[i, j] * 2.0, name="B")
        with pytest.raises(BatchError, match="never run"):
            Structure(Schedule(mt.lower([A, B])))

    def test_a_region_that_depends_on_data(self):
        A, where = mt.placeholder((9,), name="A"), mt.placeholder((8,), "int32", name="where")
        B = mt.compute((9,), lambda i: mt.exp(A[i]), name="B")
        C = mt.compute((8,), lambda i: B[where[i] % 4], name="C")
        s = Schedule(mt.lower([A, where, C]))
        s.compute_at("B", s.get_loops("C")[0])
        with pytest.raises(BatchError, match="replaying"):
            Structure(s)

    def test_a_fused_loop_of_too_many_iterations(self):
        s = Schedule(product())
        s.split(s.fuse("i", "j"), [None, s.sample_categorical([4, 5])])
        found = Structure(s.trace.with_decisions({1: 0}).apply(product()))
        assert found.extents({1: [[4], [5]]})["i_j_0"].tolist() == [8, 7]
        other = s.trace.with_decisions({1: 1}).apply(product())
        assert (found.features({1: [[5]]})[0] == extract_features(other)).all()

    def test_a_loop_that_is_fused_again_of_too_many_iterations(self):
        s = Schedule(product())
        again = s.fuse(*s.split(s.fuse("i", "j"), [None, 8]))
        again = s.fuse(again, "k")
        s.split(again, [None, s.sample_categorical([4, 5])])
        (number,) = [n for n, step in enumerate(s.trace.steps) if step.is_decision]
        found = Structure(s.trace.with_decisions({number: 0}).apply(product()))
        with pytest.raises(BatchError, match="more iterations than it has"):
            found.extents({number: [[4], [5]]})

    def test_partial_results_that_are_stored_or_combined(self):
        s = Schedule(product())
        k0, k1 = s.split("k", [None, s.sample_categorical([16, 5])])
        s.rfactor(s.fuse(k0, k1))
        found = Structure(s.trace.with_decisions({0: 0}).apply(product()))
        with pytest.raises(BatchError, match="stored or combined"):
            found.extents({0: [[16], [5]]})

    def test_a_cut_that_leaves_nothing(self):
        s = Schedule(product())
        s.split("i", [None, s.sample_categorical([1, 2, 3])], tail="cut")
        program = s.trace.with_decisions({0: 0}).apply(product())
        found = Structure(program)
        assert found.extents({0: [[1], [2]]})["i_0"].tolist() == [4, 2]
        with pytest.raises(BatchError, match="cut in two"):
            found.extents({0: [[1], [3]]})
