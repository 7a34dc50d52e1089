"""Sketches for a GPU: as many as Ansor has, and the structure of each."""

import pytest

import minitensor as mt
from minitensor.ir import LoopKind, Scope, loop_sites, loops_of
from minitensor.search import generate_sketches
from tests.unit.search.programs import attention

W = mt.workloads


def double(n):
    """A product of a product."""
    A, B, C = (mt.placeholder((n, n), name=name) for name in "ABC")
    k, l = mt.reduce_axis(n, name="k"), mt.reduce_axis(n, name="l")
    D = mt.compute((n, n), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="D")
    return [A, B, C, mt.compute((n, n), lambda i, j: mt.sum(D[i, l] * C[l, j], axis=l), name="E")]


def least(m, n):
    """The least of each row."""
    A, k = mt.placeholder((m, n), name="A"), mt.reduce_axis(n, name="k")
    return [A, mt.compute((m,), lambda i: mt.min(A[i, k], axis=k), name="B")]


COUNTS = {
    "product": (W.matmul(512, 512, 512), 1),
    "few results": (W.matmul(8, 8, 1024), 2),
    "product of a product": (double(512), 1),
    "products": (W.batch_matmul(4, 64, 64, 64), 1),
    "least": (least(10, 1024), 2),
    "softmax": (W.softmax(2, 1024), 4),
    "norm": (W.matrix_norm(8, 64, 64), 2),
    "one number": (W.full_sum(16, 8), 2),
    "convolution": (W.conv2d_bias_bn_relu(1, 56, 56, 56, 512, 3, padding=1), 1),
    "pool": (W.max_pool2d(1, 512, 56, 56, 3, 2, 1), 1),
    "elements": (W.elementwise_chain(1000), 1),
    "winograd": (W.conv2d_winograd(1, 8, 14, 14, 16, 1), 1),
}
"""The first ones are those that Ansor's own tests of its rules for a GPU count."""


@pytest.mark.slow
@pytest.mark.parametrize("rules", ["ansor", "default"])
@pytest.mark.parametrize("name", COUNTS)
def test_there_are_as_many_sketches_as_ansor_has(name, rules):
    definition, count = COUNTS[name]
    assert len(generate_sketches(mt.lower(definition), "cuda", rules=rules)) == count


def test_the_emulator_has_the_sketches_of_the_gpu():
    program = mt.lower(W.softmax(2, 64))
    own, other = (generate_sketches(program, t) for t in ("cuda", "cuda-emulator"))
    assert [s.trace.to_json() for s in own] == [s.trace.to_json() for s in other]


def applied(sketch):
    return [(step.block, step.rule) for step in sketch.history]


def only(definition, rules="default"):
    (sketch,) = generate_sketches(mt.lower(definition), "cuda", rules=rules)
    return sketch


def test_a_product_is_tiled_with_operands_in_shared_memory():
    sketch = only(W.matmul(64, 64, 64))
    assert sketch.explain() == (
        "C  cache write         sums in registers, and C_local copies\n"
        "C  multi-level tiling  SSSRRS, C_local after each tile, A and B in shared memory"
    )
    program = sketch.apply(seed=1).program
    scopes = {buffer.name: buffer.scope for buffer in program.temporaries}
    assert scopes == {
        "C_local": Scope.LOCAL,
        "A_shared": Scope.SHARED,
        "B_shared": Scope.SHARED,
    }
    nests = [loop for loop in loops_of(program.body) if loop.kind is LoopKind.THREAD_IDX_X]
    assert len(nests) == 5  # zeros, two copies, products, results
    assert len({loop.extent for loop in nests}) == 1
    (block,) = [loop for loop in loops_of(program.body) if loop.kind is LoopKind.BLOCK_IDX_X]
    assert all(block in loop_sites(program)[loop.var].outer for loop in nests)


def test_ansors_tiles_divide_the_extents():
    sketch = only(W.matmul(64, 64, 64), "ansor")
    assert sketch.history[-1].what.startswith("SSSRRSRS, ")
    tiles = [step for step in sketch.steps if step.primitive == "sample_perfect_tile"]
    assert [step.arguments["n"] for step in tiles] == [5, 5, 3]


def test_what_follows_a_product_follows_its_tiles():
    assert applied(only(W.conv2d_bias_bn_relu(1, 8, 9, 9, 16, 3, padding=1))) == [
        ("relu", "skip"),
        ("batch_norm", "always inline"),
        ("bias_add", "always inline"),
        ("conv", "multi-level tiling"),
        ("pad", "always inline"),
    ]


def test_a_product_that_is_read_from_shared_memory_is_tiled_by_itself():
    history = applied(only(double(64)))
    assert history == [
        ("E", "cache write"),
        ("E", "multi-level tiling"),
        ("D", "cache write"),
        ("D", "multi-level tiling"),
    ]


def test_threads_of_a_row_share_its_reductions():
    (first, *_) = generate_sketches(mt.lower(W.softmax(6, 1024)), "cuda")
    assert "parts of the sum on threads, where softmax is" in first.explain()
    program = first.apply(seed=1).program
    assert isinstance(program.body, mt.ir.For)  # a single nest: a block for each row
    assert program.body.kind is LoopKind.BLOCK_IDX_X and program.body.extent == 6
    threads = [x.extent for x in loops_of(program.body) if x.kind is LoopKind.THREAD_IDX_X]
    assert len(threads) == 5 and len(set(threads)) == 1


def test_every_nest_has_threads():
    for definition in (W.elementwise_chain(1000), W.max_pool2d(1, 3, 9, 9, 3, 2, 1), attention()):
        for sketch in generate_sketches(mt.lower(definition), "cuda"):
            program = sketch.apply(seed=0).program
            for nest in mt.ir.nests(program):
                kinds = {loop.kind for loop in loops_of(nest)}
                assert LoopKind.THREAD_IDX_X in kinds, sketch.explain()


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_block_has_no_more_threads_than_it_may(seed):
    for definition in (W.matmul(500, 300, 70), W.conv2d_bias_relu(2, 8, 9, 9, 16, 3, 1, 1)):
        program = only(definition).apply(seed=seed).program
        assert all(loop.extent <= 1024 for loop in loops_of(program.body) if loop.kind.is_thread)


def test_a_rule_of_ones_own_is_asked_and_the_rest_gets_threads():
    rule = mt.search.Rule(
        "mine",
        lambda state, cores: mt.search.Verdict.APPLY_AND_STOP,
        lambda state, cores: [state.after("mine", "nothing")],
    )
    program = mt.lower(W.row_sum(64, 64))
    (sketch,) = generate_sketches(program, "cuda", rules=[rule])
    assert applied(sketch) == [("B", "mine"), ("B", "threads")]


def test_partial_results_are_in_registers_in_the_order_of_their_names():
    """A trace that depended on the order of a set would be another one in the next process."""
    sketch, *_ = generate_sketches(mt.lower(W.argmax(8, 4096)), "cuda")
    scopes = [step for step in sketch.apply(seed=0).trace.steps if step.primitive == "set_scope"]
    assert [repr(step.arguments["buffer"]) for step in scopes] == [
        "Ref(step=3, item=None)",
        "'B_value_rf'",
    ]
