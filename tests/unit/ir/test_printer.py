"""Programs as text: the exact text of each construct, marks, and names that fight back."""

import textwrap

import pytest

from minitensor.ir import (
    BOOL,
    FALSE,
    FLOAT32,
    INDEX,
    TRUE,
    Alloc,
    Barrier,
    Binary,
    Broadcast,
    Call,
    Cast,
    Const,
    DType,
    For,
    If,
    Lanes,
    LoopKind,
    Marks,
    Prefetch,
    Ramp,
    Reduce,
    Reducer,
    Scope,
    Select,
    Seq,
    Tensorized,
    Unary,
    Var,
    at_most,
    equal,
    less,
    print_expr,
    print_indices,
    print_name,
    print_program,
    print_stmt,
    print_type,
)
from tests.unit.ir.build import (
    add_to,
    block,
    buffer,
    copy_nest,
    i,
    j,
    k,
    load,
    loop,
    matmul,
    number,
    plus,
    program,
    reduced,
    spatial,
    store,
    t,
    v,
)

x, y = Var("x", FLOAT32), Var("y", FLOAT32)
a, b, c = (less(Var(n), 1) for n in "abc")


def text(string: str) -> str:
    return textwrap.dedent(string).strip("\n")


# ---- names


@pytest.mark.parametrize("name", ["i", "i_0", "_", "A2", "é", "int", "main", "x" * 40])
def test_an_identifier_is_printed_as_it_is(name):
    assert print_name(name) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ('a"; system("x', "'a\"; system(\"x'"),
        ("*/", "'*/'"),
        ("", "''"),
        (" ", "' '"),
        ("\n", r"'\n'"),
        ("a\x1b[31m", r"'a\x1b[31m'"),
        ("2x", "'2x'"),
        ("for", "'for'"),
        ("it's", '"it\'s"'),
        ("\u202e", r"'\u202e'"),
        ("x" * 41, repr("x" * 39 + "…")),
        ("x" * 5000, repr("x" * 39 + "…")),
    ],
)
def test_any_other_name_is_quoted_cut_and_without_control_codes(name, shown):
    assert print_name(name) == shown


# ---- expressions


@pytest.mark.parametrize(
    ("expr", "printed"),
    [
        (Const(3), "3"),
        (Const(-3), "-3"),
        (number(1.0), "1.0"),
        (number(1), "1.0"),
        (number(float("inf")), "inf"),
        (number(float("nan")), "nan"),
        (number(-0.0), "-0.0"),
        (TRUE, "True"),
        (number(300, "int8"), "44"),
        (plus(i, Const(-3)), "i - 3"),
        (plus(x, number(-1.5)), "x - 1.5"),
        (Binary("-", i, Const(-3)), "i - (-3)"),
        (Binary("*", i, Const(-3)), "i*(-3)"),
        (Binary("//", Const(-3), i), "(-3)//i"),
        (Unary("-", Const(-3)), "-(-3)"),
        (Unary("-", x), "-x"),
        (Unary("-", plus(x, y)), "-(x + y)"),
        (Unary("-", Binary("*", x, y)), "-(x * y)"),
        (Unary("-", Unary("-", x)), "--x"),
        (Binary("*", Unary("-", x), y), "-x * y"),
        (Binary("-", x, Unary("-", y)), "x - -y"),
    ],
)
def test_numbers_and_signs(expr, printed):
    assert print_expr(expr) == printed


@pytest.mark.parametrize(
    ("expr", "printed"),
    [
        ((i + j) * 2, "(i + j)*2"),
        (i * 2 + j, "i*2 + j"),
        (i - (j - t), "i - (j - t)"),
        (i - j - t, "i - j - t"),
        (i + (j + t), "i + (j + t)"),
        (i * (j * t), "i*(j*t)"),
        (i * (j // t), "i*(j//t)"),
        (i * j // t, "i*j//t"),
        (i // (j * t), "i//(j*t)"),
        (i // j % t, "i//j%t"),
        (i % (j % t), "i%(j%t)"),
        (Binary("/", x, Binary("/", y, x)), "x / (y / x)"),
        (less(i + 1, j * 2), "i + 1 < j*2"),
        (at_most(0, i), "0 <= i"),
        (equal(i, j), "i == j"),
        (Binary("!=", i, j), "i != j"),
        (Binary("and", a, Binary("or", b, c)), "a < 1 and (b < 1 or c < 1)"),
        (Binary("or", Binary("and", a, b), c), "a < 1 and b < 1 or c < 1"),
        (Binary("and", a, Binary("and", b, c)), "a < 1 and (b < 1 and c < 1)"),
        (Unary("not", a), "not a < 1"),
        (Unary("not", Binary("and", a, b)), "not (a < 1 and b < 1)"),
        (Binary("and", Unary("not", a), b), "not a < 1 and b < 1"),
        (Binary("==", Unary("not", a), b), "(not a < 1) == (b < 1)"),
        (Binary("min", i + 1, j), "min(i + 1, j)"),
        (Binary("max", i, j) * 2, "max(i, j)*2"),
    ],
)
def test_parentheses_stand_where_they_are_needed(expr, printed):
    assert print_expr(expr) == printed


@pytest.mark.parametrize(
    ("expr", "printed"),
    [
        (Binary("==", a, b), "(a < 1) == (b < 1)"),
        (Binary("<", a, b), "(a < 1) < (b < 1)"),
        (Binary("<", a, Var("p", BOOL)), "(a < 1) < p"),
        (Binary("!=", Var("p", BOOL), a), "p != (a < 1)"),
    ],
)
def test_a_comparison_of_comparisons_is_not_printed_as_a_chain(expr, printed):
    """In Python `a < 1 == (b < 1)` compares 1 with a bool."""
    assert print_expr(expr) == printed


@pytest.mark.parametrize(
    ("expr", "printed"),
    [
        (Select(less(i, 1), x, y), "select(i < 1, x, y)"),
        (Select(less(i, 1), x, y, lazy=True), "if_then_else(i < 1, x, y)"),
        (Cast(DType.of("int8"), x), "int8(x)"),
        (Cast(INDEX, load("idx", i)), "index(idx[i])"),
        (Call("power", (x, y), FLOAT32), "power(x, y)"),
        (Call("exp", (plus(x, y),), FLOAT32), "exp(x + y)"),
        (Call("reinterpret", (x,), DType.of("int32")), "reinterpret_int32(x)"),
        (Call("in_bounds", (i * 2, Const(4)), INDEX), "in_bounds(i*2, 4)"),
        (load("A", i * 8 + j, k // 2, t % 3), "A[i*8 + j, k//2, t%3]"),
        (load("A", Select(less(i * 2, j), i * 2, j)), "A[select(i*2 < j, i*2, j)]"),
        (load("A", Binary("min", i * 2, j)), "A[min(i*2, j)]"),
        (load("s"), "s[()]"),
        (load("A", Ramp(i * 8, 1, 4)), "A[ramp(i*8, 1, 4)]"),
        (Broadcast(plus(x, y), 4), "broadcast(x + y, 4)"),
        (Lanes("l", 4, load("A", Var("l") * 2 + i)), "lanes(A[l*2 + i] for l in range(4))"),
    ],
)
def test_functions_accesses_and_vectors(expr, printed):
    assert print_expr(expr) == printed


def test_print_indices():
    assert print_indices((i * 2, j)) == "i*2, j"
    assert print_indices(()) == "()"


# ---- statements


def test_matmul():
    assert str(matmul(64, 32, 16)) == text(
        """
        def matmul(A: float32[64, 16], B: float32[16, 32], C: float32[64, 32]):
            for i in range(64):
                for j in range(32):
                    for k in range(16):
                        if k == 0:
                            C[i, j] = 0.0
                        C[i, j] += A[i, k] * B[k, j]
        """
    )


def test_split_and_guarded_reduction():
    body = block(
        "C",
        [spatial("vi", 10, i * 8 + j), reduced("vk", 20, k * 4 + t)],
        add_to("C", Var("vi"), load("A", Var("vi"), Var("vk"))),
        init=store("C", Var("vi"), 0.0),
        predicate=Binary("and", less(i * 8 + j, 10), less(k * 4 + t, 20)),
    )
    p = program(
        loop("i", 2, loop("k", 8, loop("t", 4, loop("j", 8, body, kind="vectorize")))),
        [buffer("A", 10, 20), buffer("C", 10)],
        [buffer("unused", 3, scope=Scope.REGISTER, alignment=((0, 32, 1),)), buffer("s")],
    )
    assert print_program(p) == text(
        """
        def p(A: float32[10, 20], C: float32[10]):
            unused = empty(float32[3])  # register, stride of axis 0 aligned to 32 + 1
            s = empty(float32[])
            for i in range(2):
                for k in range(8):
                    for t in range(4):
                        for j in vectorize(8):
                            if i*8 + j < 10 and k*4 + t < 20:
                                if k == 0 and t == 0:
                                    C[i*8 + j] = 0.0
                                C[i*8 + j] += A[i*8 + j, k*4 + t]
        """
    )


def test_the_kinds_of_loops():
    printed = [
        print_stmt(loop("i", 4, store("C", i, 1.0), kind=kind)).splitlines()[0] for kind in LoopKind
    ]
    assert printed == [
        "for i in range(4):",
        "for i in parallel(4):",
        "for i in vectorize(4):",
        "for i in unroll(4):",
        'for i in bind(4, "blockIdx.x"):',
        'for i in bind(4, "blockIdx.y"):',
        'for i in bind(4, "blockIdx.z"):',
        'for i in bind(4, "threadIdx.x"):',
        'for i in bind(4, "threadIdx.y"):',
        'for i in bind(4, "threadIdx.z"):',
        'for i in bind(4, "vthread"):',
        "for i in tensorize(4):",
    ]


def unit_loops(**of_the_second):
    body = For("i", 8, store("A", (Var("u") + Var("v"), Var("i")), 0.0))
    return For("u", 1, For("v", 1, body, **of_the_second))


def test_a_loop_of_one_iteration_is_printed_on_the_line_of_the_loop_inside_it():
    assert print_stmt(unit_loops()) == "for u, v, i in grid(1, 1, 8):\n    A[u + v, i] = 0.0"
    unrolled = unit_loops(kind=LoopKind.UNROLL)
    assert print_stmt(unrolled).startswith("for u, v, i in grid(1, unroll(1), 8):\n    A[")
    assert print_stmt(For("u", 1, Seq(()))) == "for u in range(1):\n    pass"


def test_a_loop_of_one_iteration_with_something_to_say_has_a_line_of_its_own():
    noted = print_stmt(unit_loops(annotations=(("note", 1),)))
    assert noted.splitlines()[:2] == ["for u in range(1):", "    for v in range(1):  # note = 1"]
    marked = print_stmt(unit_loops(), Marks(loops={"u": "here"}))
    assert marked.splitlines()[0] == "for u in range(1):  # <- here"
    assert marked.splitlines()[1] == "    for v, i in grid(1, 8):"


def test_what_an_intrinsic_does_is_shown_below_its_call():
    nest = loop("i", 4, store("C", i, 1.0), kind=LoopKind.TENSORIZE)
    stmt = Tensorized("fill:0123", (load("C", 0),), ((0,),), nest)
    assert print_stmt(stmt) == text(
        """
        with 'fill:0123'(C[0]):
            for i in tensorize(4):
                C[i] = 1.0
        """
    )


def test_a_prefetch():
    assert print_stmt(Prefetch("A", (i + 1, Const(0)))) == "prefetch(A[i + 1, 0])"


def test_annotations_stand_in_comments():
    stmt = For(
        "i",
        4,
        block("C", [spatial("v", 4, i)], store("C", v, 1.0), annotations=(("pragma", "x"),)),
        annotations=(("unroll", 16), ("fast", True)),
    )
    assert print_stmt(stmt) == text(
        """
        for i in range(4):  # unroll = 16; fast = True
            C[i] = 1.0  # pragma = 'x'
        """
    )


def test_a_block_says_its_name_where_it_is_not_that_of_its_buffer():
    stmt = loop("i", 4, block("C_init", [spatial("v", 4, i)], store("C", v, 0.0)))
    assert print_stmt(stmt) == "for i in range(4):\n    C[i] = 0.0  # block C_init"


def test_conditions_allocations_and_barriers():
    stmt = loop(
        "t",
        4,
        Alloc(
            buffer("S", 4, scope=Scope.SHARED),
            Seq(
                (
                    If(less(t, 2), store("S", t, 1.0), store("S", t, 2.0)),
                    Barrier(),
                    If(less(t, 1), Seq(())),
                )
            ),
        ),
        kind="threadIdx.x",
    )
    assert print_stmt(stmt) == text(
        """
        for t in bind(4, "threadIdx.x"):
            S = empty(float32[4])  # shared
            if t < 2:
                S[t] = 1.0
            else:
                S[t] = 2.0
            barrier()
            if t < 1:
                pass
        """
    )


def reducer(name, width=1) -> Reducer:
    lhs = tuple(Var(f"x{n}", FLOAT32) for n in range(width))
    rhs = tuple(Var(f"y{n}", FLOAT32) for n in range(width))
    results = tuple(Binary("max", p, q) for p, q in zip(lhs, rhs))
    return Reducer(name, lhs, rhs, results, (number(0.0),) * width)


def test_argmax_shows_its_tuples():
    position, value = load("pos", v), load("A", v, k)
    body = Reduce(reducer("argmax", 2), ("best", "value"), (v,), (position, value))
    init = Seq((store("best", v, 0.0), store("value", v, float("-inf"))))
    stmt = block("best", [spatial("v", 4, i), reduced("k", 8, j)], body, init=init)
    assert print_stmt(stmt) == text(
        """
        if j == 0:
            best[i] = 0.0
            value[i] = -inf
        (best[i], value[i]) = argmax((best[i], value[i]), (pos[i], A[i, j]))
        """
    )


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("max", "C[i] = max(C[i], A[i])"),
        ("my own", "C[i] = 'my own'(C[i], A[i])"),
        ("sum2", "C[i] = sum2(C[i], A[i])"),
    ],
)
def test_reductions_are_printed_as_assignments(name, printed):
    assert print_stmt(Reduce(reducer(name), ("C",), (i,), (load("A", i),))) == printed


def test_sum_and_product_are_printed_in_place():
    stmt = add_to("C", (), load("A", i))
    assert print_stmt(stmt) == "C[()] += A[i]"


@pytest.mark.parametrize("name", ["sum", "prod"])
def test_a_reducer_that_only_calls_itself_sum_is_not_printed_in_place(name):
    """The user names a comm_reducer; the sign must come from what it does."""
    assert "=" in print_stmt(Reduce(reducer(name), ("C",), (i,), (load("A", i),)))
    assert "+=" not in print_stmt(Reduce(reducer(name), ("C",), (i,), (load("A", i),)))
    assert "*=" not in print_stmt(Reduce(reducer(name), ("C",), (i,), (load("A", i),)))


def test_a_pair_of_sums_shows_both_targets():
    printed = print_stmt(Reduce(reducer("sum", 2), ("C", "D"), (i,), (load("A", i), load("B", i))))
    assert "D[i]" in printed


@pytest.mark.parametrize(
    ("binding", "condition"),
    [
        (k, "k == 0"),
        (k * 4 + t, "k == 0 and t == 0"),
        (k * 8 + t * 2 + j, "k == 0 and t == 0 and j == 0"),
        (k // 2, "k//2 == 0"),
        (k - t, "k - t == 0"),
        (k * 4 - 3, "k*4 - 3 == 0"),
        (Const(0), "0 == 0"),
    ],
)
def test_the_condition_of_the_first_instance(binding, condition):
    stmt = block("C", [reduced("r", 8, binding)], store("C", 0, 1.0), init=store("C", 0, 0.0))
    assert print_stmt(stmt).splitlines()[0] == f"if {condition}:"


def test_the_first_instance_over_two_axes():
    iters = [spatial("v", 4, i), reduced("r", 8, k), reduced("q", 8, k + t)]
    stmt = block("C", iters, store("C", v, 1.0), init=store("C", v, 0.0))
    assert print_stmt(stmt).splitlines()[0] == "if k == 0 and t == 0:"


def test_an_init_without_reduction_always_runs():
    stmt = block("C", [spatial("v", 4, i)], store("C", v, 1.0), init=store("C", v, 0.0))
    assert print_stmt(stmt) == "if True:\n    C[i] = 0.0\nC[i] = 1.0"


def test_a_loop_inside_a_block_keeps_its_variable():
    body = loop("v", 2, store("C", v, 1.0))
    stmt = block("C", [spatial("v", 4, i)], body)
    assert print_stmt(stmt) == "for v in range(2):\n    C[v] = 1.0"


def test_types():
    assert print_type(buffer("A", 2, 3, dtype="bfloat16")) == "bfloat16[2, 3]"
    assert print_type(buffer("A", dtype="int8")) == "int8[]"


# ---- marks


def test_labels_on_loops_and_blocks():
    p = program(copy_nest("C", "A", 4), [buffer("A", 4), buffer("C", 4)])
    marks = Marks(loops={"i": "target"}, blocks={"C": "here"})
    assert print_program(p, marks) == text(
        """
        def p(A: float32[4], C: float32[4]):
            for i in range(4):  # <- target
                C[i] = A[i]  # <- here
        """
    )


def test_labels_come_after_annotations():
    stmt = For("i", 4, store("C", i, 1.0), annotations=(("unroll", 4),))
    assert print_stmt(stmt, Marks(loops={"i": "no"})).splitlines()[0] == (
        "for i in range(4):  # unroll = 4; <- no"
    )


def test_a_label_stands_on_the_first_line_of_a_block():
    body = block(
        "C",
        [reduced("v", 4, i)],
        add_to("C", (), load("A", v)),
        init=store("C", (), 0.0),
        predicate=less(i, 3),
    )
    assert print_stmt(body, Marks(blocks={"C": "here"})) == text(
        """
        if i < 3:  # <- here
            if i == 0:
                C[()] = 0.0
            C[()] += A[i]
        """
    )


def test_carets_under_a_part():
    body = block(
        "R",
        [spatial("v", 4, i)],
        store("R", v, plus(load("P", v), load("P", v + 1))),
        annotations=(("x", 1),),
    )
    marks = Marks(parts=[("R", load("P", v + 1), "also reads P")])
    assert print_stmt(loop("i", 4, body), marks) == text(
        """
        for i in range(4):
            R[i] = P[i] + P[i + 1]  # x = 1
                          ^^^^^^^^ also reads P
        """
    )


def test_carets_look_in_the_body_not_in_the_init():
    body = block(
        "C",
        [reduced("v", 4, i)],
        add_to("C", (), load("A", v)),
        init=store("C", (), load("A", Const(0))),
    )
    marks = Marks(parts=[("C", load("A", v), "this")])
    assert print_stmt(body, marks) == text(
        """
        if i == 0:
            C[()] = A[0]
        C[()] += A[i]
                 ^^^^ this
        """
    )


def test_carets_for_a_part_that_is_not_there_change_nothing():
    body = block("C", [spatial("v", 4, i)], store("C", v, 1.0))
    marks = Marks(parts=[("C", load("P", v), "x"), ("D", number(1.0), "y")], loops={"z": "w"})
    assert print_stmt(body, marks) == "C[i] = 1.0"


# ---- programs with names that fight back

WEIRD = ['a"; system("x', "*/", "\n\n", " ", "x" * 5000, "for", "# <- target", "'"]


@pytest.mark.parametrize("name", WEIRD, ids=lambda name: repr(name[:12]))
def test_a_weird_name_stays_inside_its_quotes(name):
    p = program(
        Seq(
            (
                copy_nest(name, "A", 4, var=name + "1"),
                loop(
                    name,
                    4,
                    block(
                        name + "2",
                        [spatial("v", 4, Var(name))],
                        store(name, v, load("A", v)),
                    ),
                ),
            )
        ),
        [buffer("A", 4), buffer(name, 4)],
        [buffer(name + "3", 4)],
        name=name,
    )
    shown = print_program(p)
    lines = shown.splitlines()
    assert len(lines) == 6
    assert all(len(line) < 400 for line in lines)
    quoted = print_name(name)
    assert lines[0] == f"def {quoted}(A: float32[4], {quoted}: float32[4]):"
    assert lines[5].lstrip().startswith(f"{quoted}[{quoted}] = A[{quoted}]")


@pytest.mark.parametrize("name", ["*/", "\n", "x" * 5000], ids=lambda name: repr(name[:12]))
def test_a_weird_name_of_lanes_stays_inside_its_quotes(name):
    quoted = print_name(name)
    assert print_expr(Lanes(name, 4, Var(name))) == f"lanes({quoted} for {quoted} in range(4))"


def test_an_empty_program():
    assert str(program(Seq(()), [], name="nothing")) == "def nothing():\n    pass"


def test_false_predicates_are_shown():
    assert print_stmt(block("C", [], store("C", (), 1.0), predicate=FALSE)) == (
        "if False:\n    C[()] = 1.0"
    )
