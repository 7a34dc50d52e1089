"""Sketches for a GPU: whatever is decided, threads compute what the definition does, without races:
as blocks, and as the kernels that the passes make of them.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitensor as mt
from minitensor.codegen import Target, lowered
from minitensor.ir import interpret
from minitensor.search import generate_sketches
from minitensor.testing import assert_equivalent
from tests.parts import examples
from tests.property.search.test_sketches import DEFINITIONS

W = mt.workloads
TARGET = Target("cuda", device="a100").resolved(num_cores=1, vector_bits=0)
SMALL = {
    "product": lambda: W.matmul(m=7, n=10, k=9),
    "few results": lambda: W.matmul(m=3, n=2, k=70),
    "bias": lambda: W.matmul_bias_relu(m=9, n=5, k=6),
    "products": lambda: W.batch_matmul(3, 5, 4, 6),
    "convolution": lambda: W.conv2d_bias_relu(1, 3, 5, 6, 4, 3, 1, 1),
    "depthwise": lambda: W.depthwise_conv2d(1, 3, 7, 5, 3, 1, 1),
    "rows": lambda: W.row_sum(5, 70),
    "everything": lambda: W.full_sum(7, 11),
    "pool": lambda: W.max_pool2d(1, 2, 7, 7, 3, 2, 1),
    "argmax": lambda: W.argmax(3, 50),
    "elements": lambda: W.elementwise_chain(37),
    "transposed": lambda: W.transpose_add(7, 5),
}


def agrees(program, schedule):
    """The schedule and its kernels compute what the program does."""
    assert_equivalent(program, schedule, ["interpreter"])
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, b.shape).astype(b.dtype) for b in program.inputs]
    expected, _ = interpret(program, arrays)
    found, _ = interpret(lowered(schedule.program, TARGET), arrays)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("rules", ["ansor", "default"])
@pytest.mark.parametrize("name", SMALL)
def test_every_sketch_of_small_odd_shapes(name, rules):
    program = mt.lower(SMALL[name]())
    for sketch in generate_sketches(program, TARGET, rules=rules):
        for seed in range(3):
            agrees(program, sketch.apply(seed=seed))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(DEFINITIONS) - {"winograd"}))
@examples(2, 20)
@given(data=st.data())
def test_whatever_is_decided_computes_the_same(name, data):
    function, arguments = DEFINITIONS[name]
    program = mt.lower(function(**data.draw(arguments)))
    rules = data.draw(st.sampled_from(["ansor", "default"]))
    sketches = generate_sketches(program, TARGET, rules=rules)
    assert len({sketch.trace.to_json() for sketch in sketches}) == len(sketches)
    sketch = data.draw(st.sampled_from(sketches))
    schedule = sketch.apply(seed=data.draw(st.integers(0, 999)))
    bound = {loop.kind for loop in mt.ir.loops_of(schedule.program.body)}
    assert mt.ir.LoopKind.PARALLEL not in bound
    assert_equivalent(program, schedule, ["interpreter"])
