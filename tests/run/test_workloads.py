"""Every named operator under generic schedules, against numpy and scipy.

The interpreter runs programs of a few hundred statements, with every check on; native code runs the
registry's small sizes, and sizes that are odd, prime, strided, dilated or grouped.
"""

import functools
import itertools

import numpy as np
import pytest

import minitensor as mt
from minitensor.ir import Program
from minitensor.lang.workloads import WORKLOADS
from tests.parts import Extent, some
from tests.references import REFERENCES, assert_matches, inputs
from tests.run.schedules import RECIPES
from tests.run.together import built_together

pytestmark = pytest.mark.slow  # make quick leaves it out

_IMAGE = {"n": 1, "c": 2, "h": 5, "w": 4, "f": 3, "kernel": 3, "padding": 1}

TINY = {
    **{name: workload.small for name, workload in WORKLOADS.items()},
    "conv2d": _IMAGE,
    "conv2d_nhwc": {**_IMAGE, "layout": "NHWC"},
    "conv2d_bias_relu": _IMAGE,
    "conv2d_bias_bn_relu": {**_IMAGE, "c": 1, "f": 2},
    "conv3d": {"n": 1, "c": 2, "d": 2, "h": 3, "w": 3, "f": 1, "kernel": 2, "padding": 1},
    "grouped_conv2d": {**_IMAGE, "f": 4, "groups": 2},
    "dilated_conv2d": {**_IMAGE, "padding": 2, "dilation": 2},
    "depthwise_conv2d": {"n": 1, "c": 3, "h": 5, "w": 4, "kernel": 3, "padding": 1},
    "conv2d_transpose": {**_IMAGE, "h": 3, "w": 2, "kernel": 4, "stride": 2},
    "capsule_conv2d": {**_IMAGE, "c": 1, "h": 3, "w": 2, "f": 2, "kernel": 2, "capsule": 2},
    "conv2d_winograd": {"n": 1, "c": 2, "h": 3, "w": 2, "f": 1, "padding": 1, "tile": 2},
    "transpose_batch_matmul_softmax": {"b": 1, "length": 4, "heads": 2, "dim": 3},
}
"""Sizes for the interpreter."""

ODD = [
    ("matmul", {"m": 1, "n": 17, "k": 3}),
    ("matmul", {"m": 31, "n": 33, "k": 29}),
    ("matmul", {"m": 13, "n": 1, "k": 37}),
    ("matmul", {"m": 9, "n": 35, "k": 11, "dtype": "int8", "out_dtype": "int32"}),
    ("matmul", {"m": 9, "n": 35, "k": 11, "dtype": "float16", "out_dtype": "float32"}),
    ("matmul", {"m": 9, "n": 35, "k": 11, "dtype": "float64"}),
    ("matmul_bias_relu", {"m": 5, "n": 47, "k": 23}),
    ("batch_matmul", {"b": 3, "m": 11, "n": 13, "k": 7}),
    ("transpose_batch_matmul", {"b": 2, "length": 11, "heads": 3, "dim": 19}),
    ("transpose_batch_matmul_softmax", {"b": 2, "length": 17, "heads": 1, "dim": 5}),
    ("conv1d", {"n": 2, "c": 3, "w": 41, "f": 5, "kernel": 5, "stride": 3, "padding": 2}),
    ("conv1d", {"n": 1, "c": 4, "w": 23, "f": 6, "kernel": 4, "groups": 2, "layout": "NWC"}),
    ("conv2d", {"n": 2, "c": 3, "h": 11, "w": 13, "f": 5, "kernel": 3}),
    ("conv2d", {"n": 1, "c": 5, "h": 13, "w": 17, "f": 7, "kernel": [5, 3], "stride": [2, 3]}),
    ("conv2d", {"n": 1, "c": 17, "h": 7, "w": 9, "f": 19, "kernel": 1, "stride": 2}),
    (
        "conv2d_nhwc",
        {"n": 1, "c": 3, "h": 9, "w": 11, "f": 18, "kernel": 3, "stride": 2, "padding": 1}
        | {"layout": "NHWC", "dtype": "uint8", "out_dtype": "int32"},
    ),
    ("conv3d", {"n": 1, "c": 3, "d": 5, "h": 7, "w": 6, "f": 2, "kernel": [1, 3, 2], "stride": 2}),
    (
        "grouped_conv2d",
        {"n": 1, "c": 6, "h": 9, "w": 7, "f": 9, "kernel": 3, "padding": 1, "groups": 3},
    ),
    (
        "dilated_conv2d",
        {"n": 1, "c": 2, "h": 15, "w": 14, "f": 3, "kernel": 3, "stride": 2, "dilation": [3, 2]},
    ),
    ("depthwise_conv2d", {"n": 2, "c": 7, "h": 13, "w": 11, "kernel": 3, "stride": 2}),
    (
        "depthwise_conv2d",
        {"n": 1, "c": 19, "h": 8, "w": 9, "kernel": 5, "padding": 2, "layout": "NHWC"},
    ),
    (
        "conv2d_transpose",
        {"n": 1, "c": 3, "h": 5, "w": 4, "f": 2, "kernel": 3, "stride": 3, "output_padding": 1},
    ),
    ("capsule_conv2d", {"n": 1, "c": 3, "h": 5, "w": 5, "f": 2, "kernel": 3, "stride": 2}),
    ("conv2d_winograd", {"n": 1, "c": 3, "h": 7, "w": 9, "f": 5, "tile": 4}),
    ("max_pool2d", {"n": 1, "c": 5, "h": 17, "w": 19, "kernel": 3, "stride": 2, "padding": 1}),
    ("max_pool2d", {"n": 2, "c": 3, "h": 7, "w": 11, "kernel": 2, "dtype": "int32"}),
    ("avg_pool2d", {"n": 1, "c": 3, "h": 11, "w": 13, "kernel": 4, "stride": 3, "padding": 2}),
    (
        "avg_pool2d",
        {"n": 1, "c": 18, "h": 7, "w": 5, "kernel": 3, "stride": 1, "layout": "NHWC"}
        | {"dtype": "uint8"},
    ),
    ("global_avg_pool2d", {"n": 2, "c": 19, "h": 7, "w": 5}),
    ("matrix_norm", {"b": 3, "m": 17, "n": 23}),
    ("softmax", {"m": 7, "n": 53}),
    ("softmax", {"m": 3, "n": 1}),
    ("softmax", {"m": 11, "n": 31, "dtype": "float64"}),
    ("layer_norm", {"m": 11, "n": 61}),
    ("layer_norm", {"m": 1, "n": 17}),
    ("row_sum", {"m": 23, "n": 37}),
    ("full_sum", {"m": 19, "n": 29, "dtype": "int64"}),
    ("argmax", {"m": 13, "n": 41}),
    ("elementwise_chain", {"shape": [7, 3, 11]}),
    ("transpose_add", {"m": 37, "n": 19}),
    ("stencil2d", {"h": 19, "w": 39}),
    ("stencil2d", {"h": 14, "w": 23, "dtype": "int32"}),
    ("cumsum", {"m": 9, "n": 31, "dtype": "int16"}),
]


def program_of(name: str, options: dict) -> Program:
    return mt.lower(WORKLOADS[name].function(**options), name=name)


def expected(name: str, options: dict, arrays: list[np.ndarray]) -> np.ndarray:
    return REFERENCES[name](*arrays, **options)


def scheduled(program: Program, recipe: str) -> mt.Schedule:
    """The program under a recipe that has done what it could be expected to do."""
    s = mt.Schedule(program, seed=0)
    RECIPES[recipe].apply(s)
    assert len(s.trace) >= RECIPES[recipe].least_steps(program)
    return s


THREADS = [mt.Target("c", num_cores=1), mt.Target("c", num_cores=2)]


def targets_of(program: Program, targets=THREADS):
    """A program without parallel loops is built for one target only, as its code is the same for
    any number of threads.
    """
    return targets if "in parallel(" in str(program) else targets[:1]


def check(kernels, name: str, options: dict) -> None:
    """Compare what kernels of an operator compute with the reference."""
    arrays = inputs(program_of(name, options))
    wanted = expected(name, options, arrays)
    assert kernels
    for kernel in kernels:
        assert_matches(name, kernel(*arrays), wanted)


# ---- no schedule


@pytest.mark.parametrize("name", WORKLOADS)
def test_unscheduled_operator_runs_in_c(name):
    options = WORKLOADS[name].small
    program = program_of(name, options)
    check([mt.build(program, target) for target in targets_of(program)], name, options)


# ---- every operator under every recipe


PARTS = 3
"""Of the recipes: `make test` has one for each operator in C, and half in the interpreter."""


@functools.cache
def kernels_of(name: str, part: int):
    """The operator at its small size under a part of the recipes, in one text; for `make whole`,
    those with threads for one thread too.
    """
    program = program_of(name, WORKLOADS[name].small)
    schedules = {recipe: scheduled(program, recipe) for recipe in list(RECIPES)[part::PARTS]}
    return built_together(
        {
            (recipe, target): (s, target)
            for recipe, s in schedules.items()
            for target in targets_of(s.program, THREADS if Extent.whole else THREADS[1:])
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, recipe",
    some(
        itertools.product(WORKLOADS, RECIPES),
        lambda number: (number // len(RECIPES) + number % len(RECIPES)) % 2 == 0,
    ),
)
def test_recipe_preserves_the_operator_in_the_interpreter(name, recipe):
    options = TINY[name]
    s = scheduled(program_of(name, options), recipe)
    arrays = inputs(s.program)
    assert_matches(name, mt.interpret(s, *arrays), expected(name, options, arrays))


parts_of_the_recipes = pytest.mark.parametrize(
    "name, part",
    some(
        itertools.product(WORKLOADS, range(PARTS)),
        lambda number: number // PARTS % PARTS == number % PARTS,
    ),
)


@pytest.mark.many
@pytest.mark.slow
@parts_of_the_recipes
def test_recipes_preserve_the_operator_in_c(name, part):
    kernels = kernels_of(name, part)
    assert {recipe for recipe, _ in kernels} == set(list(RECIPES)[part::PARTS])
    check(kernels.values(), name, WORKLOADS[name].small)


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_replays_from_its_trace(recipe):
    for name in ("conv2d_bias_relu", "softmax", "argmax"):
        program = program_of(name, WORKLOADS[name].small)
        s = scheduled(program, recipe)
        again = mt.Trace.from_json(s.trace.to_json()).apply(program)
        assert again.program == s.program


# ---- what the code is like


@pytest.mark.many
@pytest.mark.slow
@parts_of_the_recipes
def test_no_index_of_an_operator_is_checked_at_run_time(name, part):
    """Every index is proven to lie inside its buffer, whatever the schedule makes of it."""
    for kernel in kernels_of(name, part).values():
        assert "check_index" not in kernel.source


# ---- sizes that nothing divides


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(
    "name, options",
    some(ODD, lambda number: ODD[number][0] not in dict(ODD[:number])),
    ids=[f"{name}-{number}" for number, (name, _) in enumerate(ODD)],
)
def test_odd_sizes_run_in_c(name, options):
    program = program_of(name, options)
    recipes = ("parallelize_and_vectorize", "fuse_operators")
    kernels = built_together({r: (scheduled(program, r), THREADS[1]) for r in recipes})
    check(kernels.values(), name, options)


# ---- vector widths


@pytest.mark.many
@pytest.mark.parametrize(
    "name, options",
    [
        ("matmul", {"m": 3, "n": 45, "k": 5}),
        ("matmul", {"m": 3, "n": 45, "k": 5, "dtype": "int8", "out_dtype": "int32"}),
        ("conv2d_nhwc", {**_IMAGE, "f": 21, "layout": "NHWC"}),
        ("avg_pool2d", {"n": 1, "c": 2, "h": 5, "w": 41, "kernel": 3, "stride": 2, "padding": 1}),
        ("softmax", {"m": 3, "n": 29}),
        ("layer_norm", {"m": 3, "n": 29, "dtype": "float64"}),
        ("argmax", {"m": 21, "n": 5}),
        ("stencil2d", {"h": 6, "w": 29}),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_vectors_of_any_width_compute_the_same(name, options):
    s = scheduled(program_of(name, options), "vectorize_innermost")
    targets = {bits: mt.Target("c", num_cores=1, vector_bits=bits) for bits in (0, 128, 512)}
    kernels = built_together({bits: (s, target) for bits, target in targets.items()})
    check(kernels.values(), name, options)


# ---- the recipes themselves


def test_every_recipe_has_much_to_do():
    """Over the whole registry; each is also held against the program it gets, above."""
    for recipe in RECIPES.values():
        steps = [recipe.least_steps(program_of(n, w.small)) for n, w in WORKLOADS.items()]
        assert sum(steps) >= 25
