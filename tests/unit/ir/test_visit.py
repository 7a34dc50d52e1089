import dataclasses
import sys

import pytest

from minitensor.errors import ArgumentError, VerifyError
from minitensor.ir import (
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
    For,
    If,
    Lanes,
    LoopKind,
    Prefetch,
    Ramp,
    Reduce,
    Select,
    Seq,
    Tensorized,
    ThreadReduce,
    Unary,
    Var,
    apply_reducer,
    blocks_of,
    children,
    free_vars,
    less,
    loads,
    loops_of,
    make_room,
    map_children,
    mentions,
    print_expr,
    print_stmt,
    rewrite,
    sequence,
    substitute,
    walk,
)
from minitensor.ir.visit import CHILDREN
from tests.unit.ir.build import (
    add_to,
    adder,
    block,
    buffer,
    filled,
    i,
    j,
    load,
    loop,
    number,
    plus,
    reduced,
    spatial,
    store,
    t,
    v,
)

x = Var("x", FLOAT32)
X = loop("a", 2, store("C", Var("a"), 1.0))
Y = store("C", i, 2.0)

NODES = {
    "Var": i,
    "Const": Const(3),
    "Unary": Unary("-", i),
    "Binary": Binary("+", i, j),
    "Select": Select(less(i, 1), i, j, lazy=True),
    "Cast": Cast(INDEX, Var("n", FLOAT32)),
    "Load": load("A", i, j),
    "Call": Call("power", (x, number(2.0)), FLOAT32),
    "Ramp": Ramp(i, 2, 4),
    "Broadcast": Broadcast(i, 4),
    "Lanes": Lanes("l", 4, plus(Var("l"), i)),
    "Iter": spatial("v", 4, i),
    "For": For("q", 4, Y, annotations=(("unroll", 2),)),
    "Seq": Seq((X, Y)),
    "Block": block(
        "C", [reduced("v", 4, i)], Y, init=X, predicate=less(i, 3), annotations=(("a", 1),)
    ),
    "Block without init": block("C", [spatial("v", 4, i)], Y),
    "Store": store("C", (i, j), x),
    "Reduce": add_to("C", (i, j), x),
    "If": If(less(i, 1), X, Y),
    "If without else": If(less(i, 1), X),
    "Alloc": Alloc(buffer("T", 2), Y),
    "Barrier": Barrier(),
    "ThreadReduce": ThreadReduce(add_to("C", (), x).reducer, LoopKind.THREAD_IDX_X, ("C",)),
    "Prefetch": Prefetch("A", (i, j)),
    "Tensorized": Tensorized("f:0", (load("A", i), load("C", j)), ((0,), (None,)), X),
}
every_node = pytest.mark.parametrize("node", NODES.values(), ids=NODES)

# ---- map_children


def test_every_type_of_node_is_tried_here():
    assert {type(n) for n in NODES.values()} == set(CHILDREN)


@every_node
def test_mapping_to_the_same_children_gives_the_same_object(node):
    assert map_children(node, lambda child: child) is node


@every_node
def test_mapping_visits_each_child_once_in_reading_order(node):
    seen = []
    map_children(node, lambda child: (seen.append(child), child)[1])
    assert [id(c) for c in seen] == [id(c) for c in children(node)]


@pytest.mark.parametrize(
    ("kind", "which"),
    [(name, n) for name in NODES for n in range(len(list(children(NODES[name]))))],
)
def test_changing_one_child_keeps_the_others_and_the_rest(kind, which):
    node = NODES[kind]
    old = list(children(node))
    new = copy_of(old[which])
    result = map_children(node, lambda child: new if child is old[which] else child)
    assert result is not node
    assert type(result) is type(node)
    assert result == node  # the copy is equal, so the other fields must be too
    after = list(children(result))
    assert len(after) == len(old)
    for position, child in enumerate(after):
        assert child is (new if position == which else old[position])


def copy_of(node):
    """An equal node that is another object."""
    fields = [getattr(node, f.name) for f in dataclasses.fields(node) if f.init]
    return type(node)(*fields)


def test_reading_order_of_a_block():
    node = NODES["Block"]
    assert list(children(node)) == [node.iters[0], node.predicate, node.init, node.body]


# ---- walk


def test_walk_is_parents_first_in_reading_order():
    expr = Select(less(i, 1), Binary("+", load("A", i), x), Unary("-", x))
    assert [print_expr(n) for n in walk(expr)] == [
        "select(i < 1, A[i] + x, -x)",
        "i < 1",
        "i",
        "1",
        "A[i] + x",
        "A[i]",
        "i",
        "x",
        "-x",
        "x",
    ]


def test_walk_over_statements():
    stmt = loop("a", 2, If(less(i, 1), X, Y), Barrier())
    kinds = [type(n).__name__ for n in walk(stmt)]
    assert kinds == [
        "For", "Seq", "If", "Binary", "Var", "Const",
        "For", "Store", "Var", "Const",
        "Store", "Var", "Const", "Barrier",
    ]  # fmt: skip


def test_walk_does_not_recurse():
    expr = i
    for _ in range(50_000):
        expr = Unary("-", expr)
    assert sum(1 for _ in walk(expr)) == 50_001


def test_loads_in_reading_order():
    stmt = store("C", load("idx", i, dtype="int64"), plus(load("A", i), load("B", j)))
    assert [n.buffer for n in loads(stmt)] == ["idx", "A", "B"]


def test_blocks_and_loops_in_text_order():
    inner = block("P", [spatial("v", 2, i)], loop("inside", 2, store("P", v, 1.0)))
    stmt = Seq(
        (
            loop("i", 2, inner),
            If(less(t, 1), loop("j", 2, block("Q", [], Y)), loop("k", 2, block("R", [], Y))),
            Alloc(buffer("T", 1), loop("m", 2, block("S", [], Y))),
        )
    )
    assert [b.name for b in blocks_of(stmt)] == ["P", "Q", "R", "S"]
    assert [n.var for n in loops_of(stmt)] == ["i", "j", "k", "m"]


# ---- rewrite


def test_rewrite_goes_from_the_leaves_up():
    order = []

    def note(node):
        order.append(print_expr(node))
        return node

    expr = Binary("+", Unary("-", x), x)
    assert rewrite(expr, note) is expr
    assert order == ["x", "-x", "x", "-x + x"]


def test_rewrite_sees_its_own_results():
    def fold(node):
        match node:
            case Binary("+", Const(a), Const(b)):
                return Const(a + b)
        return node

    expr = Binary("+", Binary("+", Const(1), Const(2)), Binary("+", Const(3), Const(4)))
    assert rewrite(expr, fold) == Const(10)


# ---- substitute


def test_substitute_replaces_free_variables():
    expr = plus(i * 8 + j, load("A", i, dtype=INDEX))
    assert print_expr(substitute(expr, {"i": t + 1})) == "(t + 1)*8 + j + A[t + 1]"


def test_substitute_is_simultaneous():
    assert substitute(i * 8 + j, {"i": j, "j": i}) == j * 8 + i


@every_node
def test_substituting_what_does_not_occur_gives_the_same_object(node):
    assert substitute(node, {"nowhere": Const(1)}) is node
    assert substitute(node, {}) is node


def test_substitute_stops_at_a_blocks_bindings_and_predicate():
    inner = block(
        "C",
        [reduced("i", 4, i + j)],
        store("C", i, load("A", j)),
        init=store("C", i, 0.0),
        predicate=less(i, 3),
    )
    result = substitute(inner, {"i": Const(7)})
    assert result.iters[0].binding == Const(7) + j
    assert result.predicate == less(7, 3)
    assert result.body is inner.body
    assert result.init is inner.init
    assert result.annotations is inner.annotations


def test_substitute_reaches_a_block_inside_other_statements():
    stmt = loop("q", 2, If(less(i, 1), block("C", [spatial("v", 4, i)], store("C", v, 1.0))))
    text = print_stmt(substitute(stmt, {"i": t}))
    assert text == "for q in range(2):\n    if t < 1:\n        C[t] = 1.0"


def test_substitute_leaves_the_variable_of_lanes_alone():
    expr = Lanes("i", 4, i + j)
    assert substitute(expr, {"i": Const(9)}) is expr
    assert substitute(expr, {"i": Const(9), "j": t}) == Lanes("i", 4, i + t)


def test_lanes_bind_only_below_themselves():
    expr = Binary("+", Lanes("i", 4, i), Broadcast(i, 4))
    assert substitute(expr, {"i": t}) == Binary("+", Lanes("i", 4, i), Broadcast(t, 4))


def test_substitute_leaves_the_variable_of_a_loop_alone():
    stmt = For("i", 4, store("C", i, load("A", j)))
    assert substitute(stmt, {"i": Const(0)}) is stmt
    assert substitute(stmt, {"i": Const(0), "j": t}) == For("i", 4, store("C", i, load("A", t)))


def test_apply_reducer_puts_expressions_for_both_sides():
    a, b = load("A", i), load("B", i)
    assert apply_reducer(adder(), (a,), (b,)) == [plus(a, b)]


# ---- variables


def test_free_variables_in_order_of_appearance():
    assert list(free_vars(j * 8 + i + load("A", t, dtype=INDEX))) == ["j", "i", "t"]
    assert free_vars(Const(3)) == {}
    assert list(free_vars(Lanes("l", 4, Var("l") + i))) == ["i"]
    assert list(free_vars(loop("a", 2, store("C", Var("a"), load("A", i))))) == ["i"]


def test_a_variable_is_free_where_lanes_elsewhere_bind_its_name():
    expr = Binary("+", Lanes("i", 4, i), Broadcast(i, 4))
    assert list(free_vars(expr)) == ["i"]


def test_mentions():
    assert mentions(i * 8 + j, "j")
    assert not mentions(i * 8 + j, "jj")
    assert mentions(load("A", i), "i")


# ---- sequence, and depth


def test_sequence_opens_nested_ones():
    a, b, c = (filled("C", n) for n in (1, 2, 3))
    assert sequence(a, Seq((b, c))) == Seq((a, b, c))
    assert sequence(a) is a
    assert sequence() == Seq(())
    assert sequence(Seq(()), a) is a


def chain(length):
    expr = number(0)
    for _ in range(length - 1):
        expr = Unary("-", expr)
    return expr


def test_make_room_accepts_2000_levels_and_says_what_to_do_about_more():
    make_room(chain(2000))
    with pytest.raises(ArgumentError, match=r"at most 2000 deep, .* depth 2001; give .* compute"):
        make_room(chain(2001))


def test_after_make_room_a_deep_expression_can_be_printed_and_rewritten():
    expr = chain(2000)
    make_room(expr)
    assert print_expr(expr) == "-" * 1999 + "0.0"
    assert rewrite(expr, lambda n: n) is expr


def test_the_recursion_limit_is_only_ever_raised():
    make_room(chain(1500))
    before = sys.getrecursionlimit()
    make_room(chain(200))
    make_room(TRUE)
    assert sys.getrecursionlimit() == before


def test_reducers_are_no_children():
    node = NODES["Reduce"]
    assert isinstance(node, Reduce)
    assert list(children(node)) == [*node.indices, *node.values]


def test_what_is_no_node_is_refused_by_one_error():
    for visit in (children, lambda x: list(walk(x)), lambda x: map_children(x, id)):
        with pytest.raises(VerifyError, match="expected a node of a program, but got a str"):
            visit("i")


def test_the_children_of_a_node_follow_from_the_types_of_its_fields():
    assert CHILDREN[Select] == ("condition", "a", "b")
    assert CHILDREN[Tensorized] == ("operands", "body")
    assert CHILDREN[For] == ("body",)
    assert CHILDREN[Var] == CHILDREN[Barrier] == ()
