"""What programs mean: order, blocks, init, tuples, inputs and outputs, counts."""

import numpy as np
import pytest

from minitensor.errors import ArgumentError, ExecutionError, VerifyError
from minitensor.ir import (
    FLOAT32,
    INT64,
    Alloc,
    Binary,
    Cast,
    If,
    Program,
    Reduce,
    Reducer,
    Scope,
    Select,
    Seq,
    Var,
    at_most,
    const,
    equal,
    interpret,
    less,
    numpy_dtype,
    verify,
)
from tests.unit.ir.build import (
    add_to,
    block,
    buffer,
    copy_nest,
    every_dtype,
    filled,
    i,
    j,
    k,
    load,
    loop,
    matmul,
    number,
    ordered,
    plus,
    program,
    reduced,
    run,
    run_counted,
    spatial,
    store,
    t,
    v,
)

F = np.float32


def array(*shape, start=0) -> np.ndarray:
    return np.arange(start, start + int(np.prod(shape)), dtype=F).reshape(shape)


# ---- meaning


def test_matmul():
    a, b = array(3, 5), array(5, 4)
    np.testing.assert_array_equal(run(matmul(3, 4, 5), a, b), a @ b)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 0, 2), (0, 3, 2)])
def test_matmul_of_small_extents(shape):
    m, n, depth = shape
    a, b = array(m, depth), array(depth, n)
    np.testing.assert_array_equal(run(matmul(m, n, depth), a, b), a @ b)


def test_statements_run_in_order():
    body = Seq((store("C", 0, 1.0), store("C", 0, plus(load("C", 0), number(1.0)))))
    assert run(program(body, [buffer("C", 1)])) == [2]


def test_a_loop_runs_from_zero_up():
    body = loop("i", 4, store("C", 0, Cast(FLOAT32, i)), store("L", i, load("C", 0)))
    p = program(body, [buffer("C", 1), buffer("L", 4)])
    last, log = run(p)
    assert last == [3]
    np.testing.assert_array_equal(log, [0, 1, 2, 3])


@pytest.mark.parametrize("kind", ["serial", "parallel", "unroll", "vectorize", "blockIdx.x"])
def test_every_kind_of_loop_runs_each_iteration(kind):
    p = program(copy_nest("C", "A", 4, kind=kind), [buffer("A", 4), buffer("C", 4)])
    np.testing.assert_array_equal(run(p, array(4)), array(4))


def test_conditions():
    body = loop("i", 4, If(less(i, 2), store("C", i, 1.0), store("C", i, 2.0)))
    np.testing.assert_array_equal(run(program(body, [buffer("C", 4)])), [1, 1, 2, 2])
    body = Seq((filled("C", 4), loop("i", 4, If(equal(i, 1), store("C", i, 1.0)))))
    np.testing.assert_array_equal(run(program(body, [buffer("C", 4)])), [0, 1, 0, 0])


def test_a_block_sees_its_iters_only_and_their_bindings_are_expressions():
    body = loop(
        "i",
        2,
        loop(
            "j",
            4,
            block("C", [spatial("i", 8, i * 4 + j)], store("C", Var("i"), Cast(FLOAT32, Var("i")))),
        ),
    )
    np.testing.assert_array_equal(run(program(body, [buffer("C", 8)])), array(8))


def test_a_block_whose_predicate_is_false_does_nothing():
    inner = block(
        "C", [spatial("v", 6, i * 4 + j)], store("C", v, 1.0), predicate=less(i * 4 + j, 6)
    )
    p = program(loop("i", 2, loop("j", 4, inner)), [buffer("C", 6)])
    outputs, counts = run_counted(p)
    np.testing.assert_array_equal(outputs[0], np.ones(6))
    assert counts.stores == {"C": 6}


def test_a_loop_inside_a_block():
    inner = loop("q", 4, store("D", (v, Var("q")), Cast(FLOAT32, Var("q") + v)))
    p = program(loop("i", 3, block("D", [spatial("v", 3, i)], inner)), [buffer("D", 3, 4)])
    np.testing.assert_array_equal(run(p), np.add.outer(np.arange(3), np.arange(4)))


def test_an_init_runs_where_all_reduction_iters_are_zero():
    inner = block(
        "C",
        [spatial("v", 2, i), reduced("r", 3, j), reduced("q", 2, k)],
        add_to("C", v, number(1.0)),
        init=store("C", v, 10.0),
    )
    p = program(loop("i", 2, loop("j", 3, loop("k", 2, inner))), [buffer("C", 2)])
    outputs, counts = run_counted(p)
    np.testing.assert_array_equal(outputs[0], [16, 16])
    assert counts.stores == {"C": 2 + 12}


def test_an_init_of_a_block_without_reduction_always_runs():
    inner = block("C", [spatial("v", 3, i)], add_to("C", v, load("A", v)), init=store("C", v, 5.0))
    p = program(loop("i", 3, inner), [buffer("A", 3), buffer("C", 3)])
    np.testing.assert_array_equal(run(p, array(3)), [5, 6, 7])


def test_reductions_in_any_order_of_loops():
    a = array(4, 6)
    inner = block(
        "C",
        [spatial("v", 4, i), reduced("r", 6, k * 3 + t)],
        add_to("C", v, load("A", v, Var("r"))),
        init=store("C", v, 0.0),
    )
    for order in ("ikt", "kit", "kti"):
        nest = inner
        for name in reversed(order):
            nest = loop(name, {"i": 4, "k": 2, "t": 3}[name], nest)
        p = program(nest, [buffer("A", 4, 6), buffer("C", 4)])
        np.testing.assert_array_equal(run(p, a), a.sum(1))


def guarded_sum(order="ikt") -> Program:
    """C[v] = sum over 20 of A, split as 4 * 4 * 4 with a guard."""
    name = "mno"
    position = Var("m") * 16 + Var("n") * 4 + Var("o")
    nest = block(
        "C",
        [spatial("v", 2, i), reduced("r", 20, position)],
        add_to("C", v, load("A", v, Var("r"))),
        init=store("C", v, 0.0),
        predicate=less(position, 20),
    )
    for n in reversed(name):
        nest = loop(n, 4, nest)
    return program(loop("i", 2, nest), [buffer("A", 2, 20), buffer("C", 2)], name=order)


def test_a_guarded_reduction_runs_its_init_once_and_skips_empty_rows():
    a = array(2, 20)
    outputs, counts = run_counted(guarded_sum(), a)
    np.testing.assert_array_equal(outputs[0], a.sum(1))
    assert counts.stores == {"A": 0, "C": 2 * (1 + 20)}
    assert counts.loads == {"A": 40, "C": 40}


def test_an_ordered_block_reads_what_it_wrote():
    step = block(
        "C",
        [ordered("v", 5, i)],
        store(
            "C",
            v,
            plus(load("A", v), Select(less(0, v), load("C", v - 1), number(0.0), lazy=True)),
        ),
    )
    p = program(loop("i", 5, step), [buffer("A", 5), buffer("C", 5)])
    np.testing.assert_array_equal(run(p, array(5, start=1)), np.cumsum(array(5, start=1)))


def test_a_tuple_is_combined_at_once():
    """With (a, b) <- (b + y, a + y) neither may see the other's new value."""
    x0, x1, y0, y1 = (Var(n, FLOAT32) for n in ("x0", "x1", "y0", "y1"))
    swap = Reducer("swap", (x0, x1), (y0, y1), (plus(x1, y0), plus(x0, y1)), (number(0.0),) * 2)
    one = number(1.0)
    body = block(
        "C",
        [reduced("r", 3, k)],
        Reduce(swap, ("C", "D"), (), (one, number(10.0))),
        init=Seq((store("C", (), 0.0), store("D", (), 100.0))),
    )
    p = program(loop("k", 3, body), [buffer("C"), buffer("D")])
    c, d = 0, 100
    for _ in range(3):
        c, d = d + 1, c + 10
    assert [float(x) for x in run(p)] == [c, d]


def test_argmax_by_hand():
    i64 = INT64
    x0, y0 = Var("i", i64), Var("j", i64)
    x1, y1 = Var("x", FLOAT32), Var("y", FLOAT32)
    keep = at_most(y1, x1)
    reducer = Reducer(
        "argmax",
        (x0, x1),
        (y0, y1),
        (Select(keep, x0, y0), Select(keep, x1, y1)),
        (const(0, i64), number(float("-inf"))),
    )
    r = Var("r")
    body = block(
        "P",
        [spatial("v", 3, i), reduced("r", 5, k)],
        Reduce(reducer, ("P", "V"), (v,), (Cast(i64, r), load("A", v, r))),
        init=Seq((store("P", v, const(0, i64)), store("V", v, float("-inf")))),
    )
    p = program(
        loop("i", 3, loop("k", 5, body)),
        [buffer("A", 3, 5), buffer("P", 3, dtype="int64")],
        [buffer("V", 3)],
    )
    a = np.random.default_rng(0).integers(-3, 3, (3, 5)).astype(F)
    np.testing.assert_array_equal(run(p, a), a.argmax(1))


def test_allocations_are_fresh_each_time():
    inner = Alloc(buffer("T", 1), Seq((store("T", 0, load("A", i)), store("C", i, load("T", 0)))))
    p = program(loop("i", 3, inner), [buffer("A", 3), buffer("C", 3)])
    np.testing.assert_array_equal(run(p, array(3)), array(3))
    stale = Alloc(
        buffer("T", 1), Seq((If(equal(i, 0), store("T", 0, 1.0)), store("C", i, load("T", 0))))
    )
    with pytest.raises(ExecutionError, match=r"T\[0\] is read before written"):
        run(program(loop("i", 3, stale), [buffer("C", 3)]))


def allocated(*extents) -> Program:
    """For each extent a T of its own, its last element stored and copied to C."""
    parts = [
        Alloc(
            buffer("T", extent),
            Seq((store("T", extent - 1, float(extent)), store("C", n, load("T", extent - 1)))),
        )
        for n, extent in enumerate(extents)
    ]
    return program(Seq(tuple(parts)), [buffer("C", len(extents))])


def test_allocations_of_one_name_one_after_the_other():
    np.testing.assert_array_equal(run(allocated(4, 4)), [4, 4])


@pytest.mark.parametrize("extents", [(2, 8), (8, 2)])
def test_allocations_of_one_name_that_differ(extents):
    """Refusing them would be an answer too."""
    p = allocated(*extents)
    try:
        verify(p)
    except VerifyError as error:
        assert "V1" in error.message
        return
    np.testing.assert_array_equal(run(p), extents)
    outside = Alloc(buffer("T", 2), store("T", 5, 1.0))
    p = program(Seq((outside, *p.body.stmts)), p.params)
    with pytest.raises(ExecutionError, match=r"T\[5\] is outside T"):
        run(p)


def test_a_temporary_keeps_its_values_between_nests():
    nests = Seq((copy_nest("T", "A", 4, var="i"), copy_nest("C", "T", 4, var="j")))
    p = program(nests, [buffer("A", 4), buffer("C", 4)], [buffer("T", 4)])
    np.testing.assert_array_equal(run(p, array(4)), array(4))


# ---- inputs and outputs


@pytest.mark.parametrize("dtype", every_dtype())
def test_every_type_goes_in_and_comes_out(dtype):
    host = numpy_dtype(dtype)
    a = np.array([0, 1, 1, 0], bool) if dtype == "bool" else np.arange(4).astype(host)
    body = loop("i", 4, store("C", i, load("A", i, dtype=dtype)))
    p = program(body, [buffer("A", 4, dtype=dtype), buffer("C", 4, dtype=dtype)])
    c = run(p, a)
    assert c.dtype == host
    np.testing.assert_array_equal(c, a)


@pytest.mark.parametrize("dtype", every_dtype())
def test_zero_dimensional_inputs_and_outputs(dtype):
    host = numpy_dtype(dtype)
    one = np.array(0x3F80 if dtype == "bfloat16" else 1, host)
    p = program(
        store("C", (), load("A", dtype=dtype)), [buffer("A", dtype=dtype), buffer("C", dtype=dtype)]
    )
    c = run(p, one)
    assert np.shape(c) == ()
    assert c.dtype == host
    assert c == one


def test_the_outputs_may_be_named():
    """After code generation a parameter that is stored to need not be one."""
    body = Seq((store("D", (), load("B")), store("A", (), load("C"))))
    p = program(body, [buffer(n) for n in "ABCD"])
    (a, d), _ = interpret(p, [F(1), F(2)], outputs=["D", "A"])
    assert (a, d) == (2, 1)
    (d,), _ = interpret(p, [F(0), F(1), F(2)], outputs=["D"])
    assert d == 1
    with pytest.raises(ExecutionError, match="the output B was never written"):
        interpret(program(Seq(()), p.params), [F(1), F(2), F(3)], outputs=["B"])


def test_arguments_are_not_changed_and_outputs_are_new():
    a = array(4)
    p = program(copy_nest("C", "A", 4), [buffer("A", 4), buffer("C", 4)])
    first, second = run(p, a), run(p, a)
    first[:] = 99
    np.testing.assert_array_equal(a, array(4))
    np.testing.assert_array_equal(second, array(4))


def test_arrays_of_any_layout_are_taken():
    a = array(6, 4)
    body = loop("i", 3, loop("j", 4, store("C", (i, j), load("A", i, j))))
    p = program(body, [buffer("A", 3, 4), buffer("C", 3, 4)])
    for view in (a[::2], np.asfortranarray(a[:3]), a[2::-1]):
        np.testing.assert_array_equal(run(p, view), view)
    readonly = a[:3].copy()
    readonly.flags.writeable = False
    np.testing.assert_array_equal(run(p, readonly), readonly)


def test_inputs_and_outputs_in_call_order():
    body = Seq((store("D", (), load("B")), store("A", (), load("C"))))
    p = program(body, [buffer(n) for n in "ABCD"])
    assert [b.name for b in p.inputs] == ["B", "C"]
    assert [b.name for b in p.outputs] == ["A", "D"]
    assert [float(x) for x in run(p, F(1), F(2))] == [2, 1]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([], r"p takes 1 inputs \(A\), but got 0"),
        ([array(4), array(4)], r"p takes 1 inputs \(A\), but got 2"),
        ([array(5)], r"expected A of shape \(4,\) and dtype float32, but got shape \(5,\)"),
        ([array(4, 1)], r"expected A of shape \(4,\) .* got shape \(4, 1\)"),
        ([array(4).astype("float64")], "expected A of .* float32, but got .* dtype float64"),
        ([array(4).astype(">f4")], "expected A of .* float32, but got .* dtype >f4"),
        ([None], r"expected A of .*, but got shape \(\) and dtype object"),
        (["text"], "expected A of"),
        ([[1, 2, 3, 4]], "expected A of .* but got .* dtype int64"),
    ],
    ids=str,
)
def test_arrays_that_do_not_fit(arrays, message):
    p = program(copy_nest("C", "A", 4), [buffer("A", 4), buffer("C", 4)])
    with pytest.raises(ArgumentError, match=message):
        interpret(p, arrays)


def test_a_list_of_lists_that_is_no_array_is_refused():
    p = program(copy_nest("C", "A", 2), [buffer("A", 2), buffer("C", 2)])
    with pytest.raises(ArgumentError, match="A"):
        interpret(p, [[[1.0], [1.0, 2.0]]])  # type: ignore[list-item]


def test_a_long_name_is_cut_in_messages():
    long = "x" * 5000
    p = program(copy_nest("C", long, 4), [buffer(long, 4), buffer("C", 4)], name=long)
    for arrays in ([], [array(3)]):
        with pytest.raises(ArgumentError) as caught:
            interpret(p, arrays)
        assert len(caught.value.message) < 400
    unwritten = program(loop("i", 1, store(long, i, 1.0)), [buffer(long, 4)], name=long)
    with pytest.raises(ExecutionError) as caught:
        interpret(unwritten, [])
    assert len(caught.value.message) < 400


def test_warnings_of_numpy_do_not_escape():
    body = store("C", (), Binary("/", number(1.0), load("A")))
    p = program(body, [buffer("A"), buffer("C")])
    assert run(p, F(0)) == np.inf  # a RuntimeWarning would be an error here


# ---- counts


def test_counts_of_a_matmul():
    m, n, depth = 3, 4, 5
    _, counts = run_counted(matmul(m, n, depth), array(m, depth), array(depth, n))
    steps = m * n * depth
    assert counts.loads == {"A": steps, "B": steps, "C": steps}
    assert counts.stores == {"A": 0, "B": 0, "C": steps + m * n}
    assert counts.scope_loads == {"global": 3 * steps}
    assert counts.scope_stores == {"global": steps + m * n}


def cached_matmul(m, n, depth) -> Program:
    """Rows of A copied to local memory and accumulated in a register."""
    vi, vj, vk = Var("vi"), Var("vj"), Var("vk")
    fetch = block(
        "A_local",
        [spatial("vi", m, i), spatial("vk", depth, t)],
        store("A_local", (vi, vk), load("A", vi, vk)),
    )
    product = Binary("*", load("A_local", vi, vk), load("B", vk, vj))
    step = block(
        "acc",
        [spatial("vi", m, i), spatial("vj", n, j), reduced("vk", depth, k)],
        add_to("acc", (vi, vj), product),
        init=store("acc", (vi, vj), 0.0),
    )
    back = block(
        "C", [spatial("vi", m, i), spatial("vj", n, j)], store("C", (vi, vj), load("acc", vi, vj))
    )
    body = loop("i", m, loop("t", depth, fetch), loop("j", n, loop("k", depth, step), back))
    return program(
        body,
        [buffer("A", m, depth), buffer("B", depth, n), buffer("C", m, n)],
        [
            buffer("A_local", m, depth, scope=Scope.LOCAL),
            buffer("acc", m, n, scope=Scope.REGISTER),
        ],
    )


def test_counts_by_scope():
    m, n, depth = 3, 4, 5
    a, b = array(m, depth), array(depth, n)
    outputs, counts = run_counted(cached_matmul(m, n, depth), a, b)
    np.testing.assert_array_equal(outputs[0], a @ b)
    steps = m * n * depth
    assert counts.loads == {
        "A": m * depth, "B": steps, "C": 0, "A_local": steps, "acc": steps + m * n,
    }  # fmt: skip
    assert counts.stores == {
        "A": 0, "B": 0, "C": m * n, "A_local": m * depth, "acc": steps + m * n,
    }  # fmt: skip
    assert counts.scope_loads == {
        "global": m * depth + steps,
        "local": steps,
        "register": steps + m * n,
    }
    assert counts.scope_stores == {
        "global": m * n,
        "local": m * depth,
        "register": steps + m * n,
    }


def test_counts_of_selections():
    lazily = Select(less(i, 1), load("A", i), number(0.0), lazy=True)
    both = Select(less(i, 1), load("A", i), number(0.0))
    for value, loads in ((lazily, 1), (both, 4)):
        p = program(loop("i", 4, store("C", i, value)), [buffer("A", 4), buffer("C", 4)])
        assert run_counted(p, array(4))[1].loads == {"A": loads, "C": 0}


def test_counts_of_what_is_allocated():
    inner = Alloc(
        buffer("T", 1, scope=Scope.LOCAL),
        Seq((store("T", 0, load("A", i)), store("C", i, load("T", 0)))),
    )
    p = program(loop("i", 3, inner), [buffer("A", 3), buffer("C", 3)])
    counts = run_counted(p, array(3))[1]
    assert counts.loads == {"A": 3, "C": 0, "T": 3}
    assert counts.scope_stores == {"global": 3, "local": 3}


def test_counts_start_anew_in_each_run():
    p = matmul(2, 2, 2)
    first = run_counted(p, array(2, 2), array(2, 2))[1]
    assert run_counted(p, array(2, 2), array(2, 2))[1] == first
