"""A malformed program for every rule, and the well-formed ones that look like them."""

import pytest

from minitensor.errors import VerifyError
from minitensor.ir import (
    BOOL,
    FLOAT32,
    INDEX,
    INT64,
    TRUE,
    Alloc,
    Barrier,
    Binary,
    Block,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    DType,
    For,
    If,
    Lanes,
    Load,
    LoopKind,
    Prefetch,
    Ramp,
    Reduce,
    Reducer,
    Scope,
    Select,
    Seq,
    Store,
    Tensorized,
    Unary,
    Var,
    less,
    verify,
)
from tests.unit.ir.build import (
    add_to,
    adder,
    block,
    buffer,
    copy_nest,
    i,
    j,
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

A, B, C, D = buffer("A", 4), buffer("B", 4, dtype="int32"), buffer("C", 4), buffer("D", 4, 4)
P = buffer("P", 4, dtype="bool")
X, Y = Var("x", FLOAT32), Var("y", FLOAT32)
I8 = DType.of("int8")


def checked(body, *extra, temporaries=()):
    verify(program(body, [A, B, C, D, P, *extra], temporaries))


def in_loop(stmt, var="i"):
    return loop(var, 4, stmt)


def stored(value, target="C"):
    """A program that stores a value at every i."""
    return in_loop(store(target, i, value))


def refused(body, message, *extra, temporaries=()):
    with pytest.raises(VerifyError) as caught:
        checked(body, *extra, temporaries=temporaries)
    assert caught.value.message.startswith("p breaks ")
    assert message in caught.value.message
    assert "def p(" in str(caught.value)  # the picture


# ---- V1: names


@pytest.mark.parametrize(
    "body",
    [
        Seq((copy_nest("C", "A", 4), in_loop(store("C", i, 1.0)))),
        in_loop(copy_nest("C", "A", 4)),
        in_loop(in_loop(store("C", i, 1.0))),
        in_loop(block("C", [spatial("v", 4, i)], in_loop(store("C", i, 1.0)))),
    ],
    ids=["beside", "inside", "inside without blocks", "in a block"],
)
def test_v1_loops(body):
    refused(body, "V1: two loops are called i")


def test_without_blocks_loops_beside_each_other_may_share_a_name():
    checked(Seq((in_loop(store("C", i, 1.0)), in_loop(store("C", i, 2.0)))))


def test_v1_blocks():
    twice = Seq((copy_nest("C", "A", 4, var="i"), copy_nest("C", "A", 4, var="j")))
    refused(twice, "V1: two blocks have this name")


def test_v1_buffers():
    refused(Seq(()), "V1: two buffers are called A", buffer("A", 9))
    refused(Seq(()), "V1: two buffers are called A", temporaries=[buffer("A", 9)])
    refused(Alloc(buffer("A", 1), Seq(())), "V1: two buffers are called A")
    nested = Alloc(buffer("T", 1), Alloc(buffer("T", 1), Seq(())))
    refused(nested, "V1: two buffers are called T")


def test_v1_iters():
    twice = block("C", [spatial("v", 4, i), spatial("v", 4, i)], store("C", v, 1.0))
    refused(in_loop(twice), "V1: two iters are called v")


def test_loops_blocks_and_buffers_may_share_a_name():
    checked(loop("C", 4, block("C", [spatial("C", 4, Var("C"))], store("C", Var("C"), 1.0))))


# ---- V2: accesses


@pytest.mark.parametrize(
    ("stmt", "message"),
    [
        (store("Z", i, 1.0), "V2: buffer Z is not declared"),
        (store("C", i, load("Z", i)), "V2: buffer Z is not declared"),
        (add_to("Z", i, number(1.0)), "V2: buffer Z is not declared"),
        (store("C", (i, i), 1.0), "V2: C has 1 axes, but is accessed with 2 indices"),
        (store("C", (), 1.0), "V2: C has 1 axes, but is accessed with 0 indices"),
        (store("C", i, load("D", i)), "V2: D has 2 axes, but is accessed with 1 indices"),
        (add_to("D", i, number(1.0)), "V2: D has 2 axes, but is accessed with 1 indices"),
        (
            store("C", load("Z", i, dtype=INDEX), 1.0),
            "V2: buffer Z is not declared",
        ),
    ],
    ids=str,
)
def test_v2(stmt, message):
    refused(in_loop(stmt), message)


def test_v2_an_allocation_ends_with_its_body():
    inside = Alloc(buffer("T", 1), store("T", 0, 1.0))
    checked(inside)
    refused(Seq((inside, store("T", 0, 1.0))), "V2: buffer T is not declared")


# ---- V3: variables


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (store("C", j, 1.0), "j"),
        (in_loop(store("C", i, load("A", j))), "j"),
        (Seq((in_loop(store("C", i, 1.0)), store("C", i, 1.0))), "i"),
        (in_loop(block("C", [spatial("v", 4, i)], store("C", i, 1.0))), "i"),
        (in_loop(block("C", [spatial("v", 4, v)], store("C", v, 1.0))), "v"),
        (in_loop(block("C", [spatial("v", 4, i)], store("C", v, 1.0), predicate=less(v, 2))), "v"),
        (
            in_loop(
                block("C", [reduced("v", 4, i)], add_to("C", 0, X), init=store("C", 0, 0.0)),
            ),
            "x",
        ),
        (
            in_loop(
                block(
                    "C", [reduced("v", 4, i)], add_to("C", 0, number(1.0)), init=store("C", i, 0.0)
                ),
            ),
            "i",
        ),
        (store("C", Ramp(Const(0), 1, 4), Lanes("l", 4, load("A", j))), "j"),
        (
            in_loop(store("C", i, plus(Lanes("l", 1, load("A", Var("l"))), load("A", Var("l"))))),
            "l",
        ),
        (If(less(j, 1), Seq(())), "j"),
        (in_loop(store("C", Var("i", INT64), 1.0)), "i"),
    ],
    ids=str,
)
def test_v3(body, name):
    refused(body, f"V3: variable {name} is not bound here")


# ---- V4: types


def reduction(reducer, buffers, values):
    body = Reduce(reducer, buffers, (Const(0),), values)
    return in_loop(block("C", [reduced("v", 4, i)], body))


def reducer(dtype=FLOAT32, result=None, width=1, identities=None):
    x, y = Var("x", dtype), Var("y", dtype)
    identity = identities if identities is not None else (number(0, dtype),) * width
    return Reducer(
        "odd", (x,) * width, (y,) * width, ((result or Binary("+", x, y)),) * width, identity
    )


f, n, p = load("A", i), load("B", i, dtype="int32"), load("P", i, dtype="bool")
four = Broadcast(f, 4)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (stored(n), "V4: int32 is stored in C"),
        (stored(f, "B"), "V4: float32 is stored in B"),
        (stored(i, "B"), "V4: index is stored in B"),
        (stored(Binary("+", f, n)), "V4: the operands of A[i] + B[i] are float32 and int32"),
        (stored(Binary("+", n, i), "B"), "V4: the operands of B[i] + i are int32 and index"),
        (stored(Binary("<", f, n), "P"), "V4: the operands of A[i] < B[i] are float32 and int32"),
        (stored(Binary("//", f, f)), "V4: // of float32: floor division is for integers"),
        (stored(Binary("%", f, f)), "V4: % of float32: floor division is for integers"),
        (stored(Binary("+", p, p), "P"), "V4: + of bool"),
        (stored(Binary("min", p, p), "P"), "V4: min of bool"),
        (stored(Binary("and", n, n), "B"), "V4: and of int32"),
        (stored(Binary("or", f, f)), "V4: or of float32"),
        (stored(Unary("not", f)), "V4: not of float32"),
        (stored(Unary("-", p), "P"), "V4: - of bool"),
        (stored(Select(f, f, f)), "V4: the condition A[i] is not a bool"),
        (stored(Select(p, f, n)), "V4: the two sides of select(P[i], A[i], B[i]) differ in type"),
        (stored(Load("A", (i,), INT64), "B"), "V4: A[i] is loaded as int64"),
        (stored(Load("A", (f,), FLOAT32)), "V4: A[i] is not an index expression"),
        (stored(Load("A", (n,), FLOAT32)), "V4: B[i] is not an index expression"),
        (in_loop(store("C", n, 1.0)), "V4: B[i] is not an index expression"),
        (stored(Call("sine", (f,), FLOAT32)), "V4: sine does not take 1 arguments"),
        (stored(Call("exp", (f, f), FLOAT32)), "V4: exp does not take 2 arguments"),
        (stored(Call("power", (f,), FLOAT32)), "V4: power does not take 1 arguments"),
        (stored(Call("exp", (n,), FLOAT32)), "V4: the arguments of exp(B[i]) are not float32"),
        (
            stored(Call("ldexp", (Const(1.0, DType.of("float64")),) * 2, DType.of("float64"))),
            "V4: ldexp of float64",
        ),
        (
            stored(Call("sin_far", (Const(1.0, DType.of("float64")),), DType.of("float64"))),
            "V4: sin_far of float64",
        ),
        (stored(Call("reinterpret", (f, f), FLOAT32)), "V4: reinterpret does not take 2 arguments"),
        (stored(Call("reinterpret", (f,), INT64), "B"), "V4: reinterpret of float32 as int64"),
        (stored(Call("reinterpret", (p,), BOOL), "P"), "V4: reinterpret of bool as bool"),
        (stored(Call("reinterpret", (i,), INT64), "B"), "V4: reinterpret of index as int64"),
        (in_loop(If(f, Seq(()))), "V4: the condition A[i] is not a bool"),
        (
            in_loop(block("C", [spatial("v", 4, i)], store("C", v, 1.0), predicate=f)),
            "V4: the condition A[i] is not a bool",
        ),
        (
            in_loop(block("C", [spatial("v", 4, n)], store("C", v, 1.0))),
            "V4: iter v is bound to B[i]",
        ),
        (stored(Cast(FLOAT32, Ramp(f, 1, 4))), "does not count integers"),
        (reduction(reducer(), ("C",), (number(1, "int32"),)), "V4: int32 is reduced into C"),
        (reduction(reducer(), ("B",), (number(1.0),)), "V4: float32 is reduced into B"),
        (
            reduction(reducer(identities=(number(0, "int32"),)), ("C",), (number(1.0),)),
            "V4: float32 is reduced into C",
        ),
        (
            reduction(reducer(), ("C",), (number(1.0), number(1.0))),
            "V4: reducer odd does not combine 2 values",
        ),
        (
            reduction(reducer(width=2), ("C",), (number(1.0),)),
            "V4: reducer odd does not combine 1 values",
        ),
        (Store("C", (Const(0),), "text"), "V4: 'text' is not an expression"),
        (Seq((number(1.0),)), "is not a statement"),
        (Seq((None,)), "V4: None is not a statement"),
    ],
    ids=str,
)
def test_v4(body, message):
    refused(body, message)


@pytest.mark.parametrize(
    "body",
    [
        reduction(reducer(result=Var("z", FLOAT32)), ("C",), (number(1.0),)),
        reduction(reducer(result=i), ("C",), (number(1.0),)),
    ],
    ids=["a variable of nowhere", "a loop"],
)
def test_v3_a_reducer_sees_its_two_sides_only(body):
    refused(body, "V3")


@pytest.mark.parametrize(
    "body",
    [
        reduction(reducer(result=less(X, Y)), ("C",), (number(1.0),)),
        reduction(reducer(result=number(1, "int8")), ("C",), (number(1.0),)),
        reduction(
            Reducer("r", (X,), (Y,), (X,), (number(0, "int32"),)), ("B",), (number(1, "int32"),)
        ),
    ],
    ids=["bool", "int8", "operands"],
)
def test_v4_a_reducer_gives_the_type_it_takes(body):
    refused(body, "V4")


@pytest.mark.parametrize(
    "value",
    [
        Binary("/", n, n),
        Call("exp", (n,), B.dtype),
        Call("sqrt", (n,), B.dtype),
        Const(1.5, B.dtype),
        Const(2**31, B.dtype),
        Const(True, B.dtype),
    ],
    ids=str,
)
def test_v4_integers_take_what_is_for_integers(value):
    refused(stored(value, "B"), "V4")


@pytest.mark.parametrize("value", [Const(1, FLOAT32), Const("1.0", FLOAT32)], ids=str)  # type: ignore[arg-type]
def test_v4_a_constant_has_the_python_type_of_its_dtype(value):
    refused(stored(value), "V4")


@pytest.mark.parametrize(
    "body",
    [
        in_loop(store("C", i, Broadcast(f, 4))),
        in_loop(store("C", i, Load("A", (Ramp(Const(0), 1, 4),), FLOAT32))),
        in_loop(store("C", i, Load("A", (i,), FLOAT32.with_lanes(4)))),
        store("C", Ramp(Const(0), 1, 4), Broadcast(number(1.0), 2)),
        store("C", Ramp(Const(0), 1, 4), Broadcast(Broadcast(number(1.0), 2), 4)),
        in_loop(store("C", Ramp(Const(0), 1, 4), Cast(FLOAT32.with_lanes(4), n))),
        store(
            "C",
            Ramp(Const(0), 1, 4),
            Select(Broadcast(TRUE, 2), Broadcast(number(1.0), 4), Broadcast(number(0.0), 4)),
        ),
        in_loop(store("C", i, Select(Broadcast(TRUE, 4), f, f))),
        store("D", (Ramp(Const(0), 1, 4), Ramp(Const(0), 1, 2)), 1.0),
        in_loop(block("C", [spatial("v", 4, Ramp(i, 1, 4))], store("C", v, 1.0))),
    ],
    ids=[
        "vector in a scalar",
        "scalar load of a vector index",
        "vector load of a scalar index",
        "4 indices, 2 values",
        "broadcast of a vector",
        "cast of one to four",
        "condition of two for four",
        "condition of four for one",
        "indices of two widths",
        "vector binding",
    ],
)
def test_v4_lanes_agree(body):
    refused(body, "V4")


@pytest.mark.parametrize("lanes", [0, -1])
@pytest.mark.parametrize(
    "vector",
    [
        lambda lanes: Broadcast(number(1.0), lanes),
        lambda lanes: Lanes("l", lanes, number(1.0)),
        lambda lanes: Cast(FLOAT32.with_lanes(lanes), Ramp(Const(0), 1, lanes)),
    ],
    ids=["Broadcast", "Lanes", "Ramp"],
)
def test_v5_a_vector_has_lanes(vector, lanes):
    refused(store("C", Ramp(Const(0), 1, lanes), vector(lanes)), "V5")


# ---- V5: extents


@pytest.mark.parametrize("extent", [-1, 2.0, True, None, "4"])
def test_v5_extents(extent):
    refused(
        For("i", extent, Seq(())),
        f"V5: loop i has extent {extent!r}",
    )
    refused(
        in_loop(block("C", [spatial("v", extent, i)], store("C", v, 1.0))),
        f"V5: iter v has extent {extent!r}",
    )
    refused(Seq(()), f"V5: buffer T has shape (4, {extent!r})", buffer("T", 4, extent))


@pytest.mark.parametrize("alignment", [(1, 8, 0), (-1, 8, 0), (0, 0, 0), (0, 8, 8), (0, 8, -1)])
def test_v5_alignment(alignment):
    bad = buffer("T", 4, alignment=(alignment,))
    refused(Seq(()), f"V5: T has alignment ({alignment},)", temporaries=[bad])
    refused(Alloc(bad, Seq(())), "V5: T has alignment")


def test_extents_of_zero_and_one_are_in_range():
    checked(loop("i", 0, store("C", i, 1.0)), buffer("E", 0, 3), buffer("S"))
    checked(loop("i", 1, store("C", i, 1.0)), temporaries=[buffer("T", 1, alignment=((0, 8, 7),))])


# ---- V6: blocks


def test_v6_no_block_in_a_block():
    inner = block("inner", [spatial("w", 4, v)], store("C", Var("w"), 1.0))
    outer = block("outer", [spatial("v", 4, i)], inner)
    refused(in_loop(outer), "V6: block inner stands in another block")
    deep = block("outer", [spatial("v", 4, i)], loop("q", 2, If(less(v, 1), inner)))
    refused(in_loop(deep), "V6: block inner stands in another block")
    in_init = block("outer", [reduced("v", 4, i)], add_to("C", 0, number(1.0)), init=inner)
    refused(in_loop(in_init), "V6: block inner stands in another block")


def test_v6_bindings_and_predicates_do_not_depend_on_data():
    flag = Load("F", (i,), BOOL)
    bound = block("C", [spatial("v", 4, Cast(INDEX, flag))], store("C", v, 1.0))
    refused(in_loop(bound), "V6: index(F[i]) depends on data", Buffer("F", (4,), BOOL))
    guarded = Block("C", (spatial("v", 4, i),), store("C", v, 1.0), predicate=flag)
    refused(in_loop(guarded), "V6: F[i] depends on data", Buffer("F", (4,), BOOL))


def test_v6_a_reduction_over_nothing_has_an_init():
    body = block("C", [spatial("v", 4, i)], add_to("C", v, number(1.0)))
    refused(in_loop(body), "V6: a reduction over nothing has no init")
    checked(
        in_loop(
            block("C", [spatial("v", 4, i)], add_to("C", v, number(1.0)), init=store("C", v, 0.0)),
        )
    )


def test_a_decomposed_reduction_is_well_formed():
    start = block("C_init", [spatial("v", 4, i)], store("C", v, 0.0))
    step = block("C", [spatial("v", 4, i), reduced("k", 4, j)], add_to("C", v, number(1.0)))
    checked(loop("i", 4, start, loop("j", 4, step)))


# ---- V7: GPU indices and barriers


@pytest.mark.parametrize("kind", [k for k in LoopKind if k.is_bound and k != LoopKind.VTHREAD])
def test_v7_an_index_is_bound_once_on_a_path(kind):
    inner = loop("j", 4, store("D", (i, j), 1.0), kind=kind)
    refused(loop("i", 4, inner, kind=kind), f"V7: {kind.value} is bound twice around j")
    apart = Seq((loop("i", 4, store("C", i, 1.0), kind=kind), loop("j", 4, Seq(()), kind=kind)))
    checked(apart)


@pytest.mark.parametrize("kind", ["parallel", "vectorize", "unroll", "vthread"])
def test_other_kinds_may_be_nested(kind):
    checked(loop("i", 4, loop("j", 4, store("D", (i, j), 1.0), kind=kind), kind=kind))


@pytest.mark.parametrize(
    "body",
    [
        Barrier(),
        loop("i", 4, Barrier()),
        loop("i", 4, Barrier(), kind="parallel"),
        loop("i", 4, Barrier(), kind="blockIdx.x"),
        loop(
            "t",
            4,
            block("C", [spatial("v", 4, t)], store("C", v, 1.0), Barrier()),
            kind="threadIdx.x",
        ),
    ],
    ids=["alone", "serial", "parallel", "blockIdx", "in a block"],
)
def test_v7_barriers(body):
    refused(body, "V7: a barrier stands in a block, or outside all thread loops")


@pytest.mark.parametrize("kind", ["threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread"])
def test_barriers_stand_in_thread_loops(kind):
    checked(loop("t", 4, loop("i", 4, store("D", (t, i), 1.0), Barrier()), kind=kind))


# ---- V8: parameters


@pytest.mark.parametrize("scope", [Scope.LOCAL, Scope.REGISTER, Scope.SHARED])
def test_v8(scope):
    refused(
        Seq(()),
        f"V8: parameter S is in scope {scope.value}",
        buffer("S", 4, scope=scope),
    )
    checked(Seq(()), temporaries=[buffer("S", 4, scope=scope)])


# ---- all that is well-formed


def test_well_formed_programs_pass():
    verify(matmul(4, 5, 6))
    checked(copy_nest("C", "A", 4))
    checked(stored(f))
    checked(in_loop(store("C", Call("in_bounds", (i, Const(4)), INDEX), 1.0)))
    checked(stored(Binary("==", p, p), "P"))
    checked(stored(Binary("and", p, Unary("not", p)), "P"))
    checked(stored(Cast(BOOL, f), "P"))
    checked(stored(Select(p, f, f, lazy=True)))
    checked(stored(Unary("-", n), "B"))
    checked(in_loop(store("C", Cast(INDEX, n), 1.0)))


def test_well_formed_vectors_pass():
    ramp = Ramp(Const(0), 1, 4)
    checked(store("C", ramp, Load("A", (ramp,), FLOAT32.with_lanes(4))))
    checked(store("C", ramp, Lanes("l", 4, load("A", Var("l")))))
    checked(store("C", ramp, Broadcast(number(1.0), 4)))
    test = Binary("<", ramp, Broadcast(Const(2), 4))
    checked(store("C", ramp, Select(test, Broadcast(number(1.0), 4), Broadcast(number(0.0), 4))))
    checked(in_loop(store("D", (i, ramp), Broadcast(f, 4))))


def test_vector_buffers_hold_whole_vectors():
    held = Buffer("V", (4,), FLOAT32.with_lanes(4), Scope.REGISTER)
    stores = in_loop(Store("V", (i,), four))
    loads = store("C", Ramp(Const(0), 1, 4), Load("V", (Const(1),), FLOAT32.with_lanes(4)))
    checked(Seq((stores, loads)), temporaries=[held])
    refused(in_loop(Store("V", (i,), Broadcast(f, 2))), "V4", temporaries=[held])
    two = Load("V", (Const(1),), FLOAT32.with_lanes(2))
    refused(store("C", Ramp(Const(0), 1, 2), two), "V4", temporaries=[held])


def test_the_error_marks_the_block_and_draws_lazily():
    body = in_loop(block("C", [spatial("v", 4, i)], store("C", v, n)))
    with pytest.raises(VerifyError) as caught:
        checked(body)
    error = caught.value
    assert "\n" not in error.message
    assert "# <- int32" in str(error) or "# <- variable" in str(error)


@pytest.mark.parametrize(
    "body",
    [
        store("x" * 5000, i, 1.0),
        in_loop(store("C", Var("x" * 5000), 1.0)),
        loop("x" * 5000, 1, loop("x" * 5000, 1, Seq(()))),
        Alloc(buffer("x" * 5000, -1), Seq(())),
    ],
    ids=["buffer", "variable", "loop", "shape"],
)
def test_long_names_are_cut_in_messages(body):
    with pytest.raises(VerifyError) as caught:
        checked(in_loop(body, "q"))
    assert len(caught.value.message) < 300


def test_a_long_name_of_a_parameter_or_reducer_is_cut_too():
    long = "x" * 5000
    with pytest.raises(VerifyError, match="V8") as caught:
        checked(Seq(()), buffer(long, 1, scope=Scope.LOCAL))
    assert len(caught.value.message) < 300
    sums = adder()
    named = Reducer(long, sums.lhs, sums.rhs, sums.results, sums.identity)
    with pytest.raises(VerifyError, match="V4") as caught:
        checked(reduction(named, ("C",), (number(1.0), number(1.0))))
    assert len(caught.value.message) < 300


def test_a_prefetch_is_of_one_element_that_is_declared():
    checked(Prefetch("C", (Const(0),)))
    refused(Prefetch("Z", (Const(0),)), "V2: buffer Z is not declared")
    refused(Prefetch("C", ()), "V2: C has 1 axes, but is accessed with 0 indices")
    refused(Prefetch("C", (i,)), "V3: variable i is not bound here")
    refused(Prefetch("C", (Ramp(Const(0), 1, 4),)), "V4: several elements of C are prefetched")


def test_the_operands_of_an_intrinsic():
    nest = loop("i", 4, store("C", i, 1.0))
    checked(Tensorized("f:0", (load("C", 0),), ((0,),), nest))
    refused(Tensorized("f:0", (load("C", 0),), ((1,),), nest), "V2: C[0] has no axes (1,)")
    refused(Tensorized("f:0", (load("Z", 0),), ((0,),), nest), "V2: buffer Z is not declared")
    refused(Tensorized("f:0", (load("C", i),), ((0,),), nest), "V3: variable i is not bound here")
