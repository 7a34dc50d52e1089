"""What loops prefetch: every element that is read so many iterations later is in a line asked for,
each address is one of the buffer, and the statements come through the passes behind.
"""

import textwrap
from itertools import product

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import PASSES, Target, generate, lowered, passes_without
from minitensor.codegen.remarks import recording
from minitensor.ir import (
    Alloc,
    Buffer,
    Const,
    DType,
    For,
    LoopKind,
    Prefetch,
    Program,
    Scope,
    Store,
    Var,
    evaluate,
    interpret,
    numpy_dtype,
    print_stmt,
    sequence,
    strides_of,
    verify,
)

F32 = DType.of("float32")
TARGET = Target("c", num_cores=2, vector_bits=256)
BEFORE = [name for name, _ in PASSES][: [name for name, _ in PASSES].index("insert_prefetches")]
LINE = 64


def inserted(s):
    """The program after the pass, which is the last one."""
    count = len(BEFORE) + 1
    after = lowered(s.program, TARGET, PASSES[:count], check=True)
    arrays = [np.ones(b.shape, numpy_dtype(b.dtype)) for b in s.program.inputs]
    outputs = [b.name for b in s.program.outputs]
    interpret(after, arrays, outputs)
    return after


def text(s):
    return print_stmt(inserted(s).body)


def asked_for(program, buffer, loop):
    """The elements prefetched in each iteration of the outermost loop, by position."""
    strides = strides_of(next(b for b in program.params if b.name == buffer))
    found: dict[int, set[int]] = {}

    def visit(stmt, values):
        if isinstance(stmt, For) and stmt.var in (loop, f"{loop}_line", f"{loop}_line2"):
            for n in range(stmt.extent):
                visit(stmt.body, {**values, stmt.var: n})
        elif isinstance(stmt, Prefetch) and stmt.buffer == buffer:
            index = [evaluate(i, values) for i in stmt.indices]
            found.setdefault(values[loop], set()).add(int(np.dot(index, strides)))
        else:
            for child in getattr(stmt, "stmts", ()):
                visit(child, values)

    visit(program.body, {})
    return found


def covers(asked, read, itemsize):
    """Each element that is read is less than a line behind one that was asked for."""
    return all(any(0 <= (r - a) * itemsize < LINE for a in asked) for r in read)


def rows(n, m, dtype="float32"):
    """C[i, j] = A[i, j] + 1"""
    A = mt.placeholder((n, m), dtype, name="A")
    return mt.Schedule(mt.lower([A, mt.compute((n, m), lambda i, j: A[i, j] + 1, name="C")]))


# ---- the statements


def test_a_line_for_every_sixteen_elements():
    s = rows(9, 40)
    s.prefetch("A", "i", 2)
    assert text(s) == textwrap.dedent(
        """\
        for i in range(9):
            for i_line in unroll(3):
                prefetch(A[min(i + 2, 8), i_line*16])
            for j in range(40):
                C[i, j] = A[i, j] + 1.0"""
    )


def test_rows_that_share_a_line_are_asked_for_once():
    A = mt.placeholder((64, 3, 4), name="A")
    k, m = mt.reduce_axis(3, name="k"), mt.reduce_axis(4, name="m")
    C = mt.compute((64,), lambda i: mt.sum(A[i, k, m], axis=[k, m]), name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.prefetch("A", "i", 1)
    assert "    prefetch(A[min(i + 1, 63), 0, 0])\n" in text(s)


@pytest.mark.parametrize(
    ("dtype", "m"),
    [("float64", 8), ("float64", 9), ("float32", 16), ("float32", 33), ("int8", 64), ("int8", 65)],
)
def test_every_element_that_is_read_is_in_a_line_asked_for(dtype, m):
    s = rows(7, m, dtype)
    s.prefetch("A", "i", 3)
    asked = asked_for(inserted(s), "A", "i")
    size = np.dtype(dtype).itemsize
    for i in range(7):
        then = min(i + 3, 6)
        read = [then * m + j for j in range(m)]
        assert covers(asked[i], read, size)
        assert len(asked[i]) == -(-m * size // LINE)


def test_the_neighbours_of_a_stencil():
    A = mt.placeholder((10, 20), name="A")
    C = mt.compute((8, 18), lambda y, x: A[y, x] + A[y + 1, x + 2] - A[y + 2, x + 1], name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.prefetch("A", "y", 2)
    asked = asked_for(inserted(s), "A", "y")
    for y in range(8):
        then = min(y + 2, 7)
        read = [(then + dy) * 20 + dx for dy, dx in product(range(3), range(20))]
        assert covers(asked[y], read, 4)


def test_a_guard_and_padding_leave_no_address_outside():
    A = mt.placeholder((10, 20), name="A")
    P = mt.compute(
        (16, 20), lambda y, x: mt.if_then_else((y > 2) & (y < 13), A[y - 3, x], 0.0), name="P"
    )
    s = mt.Schedule(mt.lower([A, P]))
    outer, inner = s.split("y", [None, 5])
    s.prefetch("A", inner, 1)
    s.prefetch("A", outer, 1)
    assert f"{inner}_line" in text(s)  # and the interpreter has seen each address
    lines = [line for line in text(s).splitlines() if "prefetch(" in line]
    assert all("min(" in line for line in lines)
    assert any("max(" in line for line in lines)


def test_an_index_that_is_checked_where_it_is_read_is_not_where_it_is_prefetched():
    A = mt.placeholder((8, 4), name="A")
    C = mt.compute((16, 4), lambda i, j: mt.if_then_else(i * i < 64, A[i, j], 0.0), name="C")
    s = mt.Schedule(mt.lower([A, C]))
    s.prefetch("A", "i", 2)
    found = text(s)
    assert "    prefetch(A[min(i + 2, 7), 0])\n" in found
    assert "A[in_bounds(i, 8), j]" in found


def test_a_loop_that_is_unrolled_asks_in_each_copy():
    s = rows(3, 8)
    s.prefetch("A", "i", 1)
    s.unroll("i")
    after = lowered(s.program, TARGET, check=True)
    found = print_stmt(after.body)
    assert found.count("prefetch(A[1, 0])") == 1
    assert found.count("prefetch(A[2, 0])") == 2


def test_loops_and_notes_that_have_nothing_to_prefetch():
    s = rows(4, 8)
    s.annotate("i", "prefetch_Z", 1)
    s.annotate("j", "note", 1)
    after = inserted(s)
    assert print_stmt(after.body) == textwrap.dedent(
        """\
        for i in range(4):
            for j in range(8):  # note = 1
                C[i, j] = A[i, j] + 1.0"""
    )


def test_it_is_remarked():
    s = rows(9, 40)
    s.prefetch("A", "i", 2)
    with recording() as found:
        lowered(s.program, TARGET)
    assert ("i", "prefetches 3 lines of A, 2 iterations ahead") in found.outcomes


# ---- the passes behind


def test_statements_of_a_cut_loop():
    s = rows(20, 40)
    inner = s.split("i", [None, 8])[1]
    s.prefetch("A", inner, 1)
    after = lowered(s.program, TARGET, check=True)
    interpret(after, [np.ones((20, 40), "f")], ["C"])
    assert print_stmt(after.body).count("prefetch(") > 3  # in both parts


def test_a_prefetch_under_lanes_goes_lane_by_lane():
    a = Buffer("A", (16,), F32)
    c = Buffer("C", (16,), F32)
    body = sequence(Prefetch("A", (Var("i"),)), Store("C", (Var("i"),), Const(1.0, F32)))
    program = Program("p", (a, c), (), For("i", 16, body, LoopKind.VECTORIZE))
    verify(program)
    after = dict(PASSES)["vectorize_loops"](program, TARGET)
    verify(after)
    assert "prefetch(A[i*8 + i_lane])" in print_stmt(after.body)


def test_what_is_in_registers_is_not_prefetched():
    t = Buffer("T", (4,), F32, Scope.GLOBAL)
    stores = [Store("T", (Const(n),), Const(1.0, F32)) for n in range(4)]
    read = Store("C", (Const(0),), Const(2.0, F32))
    body = Alloc(t, sequence(*stores, Prefetch("T", (Const(3),)), read))
    program = Program("p", (Buffer("C", (1,), F32),), (), body)
    verify(program)
    with recording() as found:
        after = dict(PASSES)["name_registers"](program, TARGET)
    verify(after)
    assert "prefetch" not in print_stmt(after.body)
    assert [(remark.kind, remark.where) for remark in found.remarks] == [("prefetch", "T")]


# ---- the text


def test_the_instruction():
    s = rows(9, 40)
    s.prefetch("A", "i", 2)
    source = generate(s.program, TARGET).source
    assert source.count("    prefetch_line(&A[min_int64_t(i + 2, 8) * 40") == 3
    assert "#ifdef __GNUC__\n    __builtin_prefetch(p);\n#endif" in source
    without = generate(s.program, TARGET, passes=passes_without(["insert_prefetches"])).source
    assert "prefetch_line" not in without
    assert "__builtin_prefetch" not in generate(rows(9, 40).program, TARGET).source
