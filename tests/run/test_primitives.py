"""Every primitive on seven operators, end to end.

Each cell of the matrix applies one primitive where it does something to the operator, and says what
must be in the program's text then. All cells are held against numpy, in the interpreter and in C
with one thread and with two, and their traces are written to JSON and applied again. `make test`
has every other cell: each primitive on three operators or more.

Where an operator has nothing for a primitive, a stage is added to it (see `VARIANTS`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import minitensor as mt
from minitensor.ir import Program, accessed_buffers, blocks_of, loops_of
from minitensor.lang.workloads import WORKLOADS
from minitensor.schedule import REGISTRY
from minitensor.testing import matching_intrinsic
from tests.references import REFERENCES, assert_matches, inputs

# ---- the operators: all give rows of 10 elements


@dataclass(frozen=True)
class Operator:
    """An operator of the matrix.

    options    its size
    main       the block that computes its result
    reduction  a block that reduces; the stencil has one in its variant "total" only
    stage      a block that computes a temporary; the product of matrices has one in "relu" only
    """

    options: dict
    main: str
    reduction: str
    stage: str


_IMAGE = {"n": 1, "h": 4, "w": 10, "kernel": 3, "padding": 1}

OPERATORS = {
    "matmul": Operator({"m": 6, "n": 10, "k": 4}, "C", "C", "C"),
    "conv2d": Operator({**_IMAGE, "c": 2, "f": 3}, "conv", "conv", "pad"),
    "depthwise_conv2d": Operator({**_IMAGE, "c": 3}, "conv", "conv", "pad"),
    "softmax": Operator({"m": 4, "n": 10}, "softmax", "row_sum", "exps"),
    "layer_norm": Operator({"m": 4, "n": 10}, "D", "squares", "mean"),
    "avg_pool2d": Operator({**_IMAGE, "c": 2, "stride": 1}, "avg_pool", "pool_sum", "pad"),
    "stencil2d": Operator({"h": 6, "w": 12}, "blur_x", "total", "blur_y"),
}


def plus_relu(result: mt.Tensor) -> mt.Tensor:
    """Two elementwise stages behind an operator."""
    shifted = mt.compute(result.shape, lambda *i: result[i] + 1, name="shifted")
    return mt.compute(result.shape, lambda *i: mt.maximum(shifted[i], 0), name="relu")


def plus_total(result: mt.Tensor) -> mt.Tensor:
    """The sum of each row behind an operator."""
    *rows, row = result.shape
    k = mt.reduce_axis(row, name="k")
    return mt.compute(tuple(rows), lambda *i: mt.sum(result[(*i, k)], axis=k), name="total")


def plus_spread(result: mt.Tensor) -> mt.Tensor:
    """The rows behind an operator, summed in windows with zeros between their elements."""
    *rows, row = result.shape
    k = mt.reduce_axis(4, name="k")

    def window(*i):
        at = i[-1] + k
        value = mt.if_then_else(at % 2 == 0, result[(*i[:-1], at // 2)], 0)
        return mt.sum(value, axis=k)

    return mt.compute((*rows, 2 * row - 3), window, name="spread")


def plus_sides(result: mt.Tensor) -> mt.Tensor:
    """Each element behind an operator and its two neighbours in the row added up, weighted; beside
    the row there are zeros.
    """
    *rows, row = result.shape
    k = mt.reduce_axis(3, name="side")
    weights = mt.compute((3,), lambda j: mt.if_then_else(j == 1, 4.0, 0.5), name="weights")

    def window(*i):
        at = i[-1] + k - 1
        inside = mt.logical_and(at >= 0, at < row)
        return mt.sum(mt.if_then_else(inside, result[(*i[:-1], at)], 0.0) * weights[k], axis=k)

    return mt.compute((*rows, row), window, name="sides")


def plus_quotient(result: mt.Tensor) -> mt.Tensor:
    """The elements behind an operator, divided by powers of two: one for each column."""
    row = result.shape[-1]
    powers = mt.compute((row,), lambda j: mt.if_then_else(j % 2 == 0, 4.0, 0.5), name="powers")
    return mt.compute(result.shape, lambda *i: result[i] / powers[i[-1]], name="quotient")


def plus_doubles(result: mt.Tensor) -> mt.Tensor:
    """The elements behind an operator, doubled in float64."""
    return mt.compute(
        result.shape,
        lambda *i: (result[i].astype("float64") * 2.0).astype("float32"),
        name="doubles",
    )


def spread(array: np.ndarray) -> np.ndarray:
    """The same with numpy."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return sum(wide[..., k : wide.shape[-1] - 3 + k] for k in range(4))


def sides(array: np.ndarray) -> np.ndarray:
    """The same with numpy."""
    wide = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(1, 1)])
    return sum(
        wide[..., k : wide.shape[-1] - 2 + k] * np.float32([0.5, 4, 0.5][k]) for k in range(3)
    )


VARIANTS: dict[str, tuple[Callable, Callable]] = {
    "": (lambda result: result, lambda array: array),
    "relu": (plus_relu, lambda array: np.maximum(array + 1, 0)),
    "total": (plus_total, lambda array: array.sum(axis=-1, dtype=array.dtype)),
    "spread": (plus_spread, spread),
    "sides": (plus_sides, sides),
    "doubles": (plus_doubles, lambda array: array * 2),
    "quotient": (plus_quotient, lambda array: array / np.tile(np.float32([4, 0.5]), 5)),
}
"""What stands behind the operator: as tensors, and with numpy."""


def program_of(name: str, variant: str) -> Program:
    *given, result = WORKLOADS[name].function(**OPERATORS[name].options)
    return mt.lower([*given, VARIANTS[variant][0](result)], name=name)


def expected(name: str, variant: str, arrays: list[np.ndarray]) -> np.ndarray:
    result = REFERENCES[name](*arrays, **OPERATORS[name].options)
    return VARIANTS[variant][1](result)


# ---- the cells


class Work:
    """A schedule of an operator, and what the cells ask about it."""

    def __init__(self, name: str, variant: str) -> None:
        self.name = name
        self.operator = OPERATORS[name]
        self.before = program_of(name, variant)
        self.s = mt.Schedule(self.before, seed=7)

    @property
    def text(self) -> str:
        return str(self.s.program)

    @property
    def rows_and_columns(self) -> tuple[str, str]:
        """The two innermost spatial loops of the main block."""
        block = self.s.program.blocks[self.operator.main]
        spatial = [i.binding.name for i in block.iters if i.kind.value == "spatial"]
        return spatial[-2], spatial[-1]

    @property
    def reducing(self) -> list[str]:
        """The loops of the reduction that reduce, outermost first."""
        block = self.s.program.blocks[self.operator.reduction]
        return [i.binding.name for i in block.iters if i.kind.value == "reduce"]

    def extent(self, loop: str) -> int:
        return next(n.extent for n in loops_of(self.s.program.body) if n.var == loop)

    def under(self, loop: str) -> list[str]:
        """The blocks under a loop."""
        found = next(n for n in loops_of(self.s.program.body) if n.var == loop)
        return [block.name for block in blocks_of(found)]

    def has(self, *texts: str) -> None:
        for text in texts:
            assert text in self.text, self.text

    def lacks(self, *texts: str) -> None:
        for text in texts:
            assert text in str(self.before), f"{text} was not there before"
            assert text not in self.text, self.text


CELLS: list = []


def cell(primitive: str, variant: str | dict = "", in_c: Callable | None = None):
    """Register what a primitive does on every operator.

    variant  of the operator: one for all, or by operator ("" where it is not named)
    in_c     asserts something about the C text, given the text, the number of threads and the Work
    """

    def register(function):
        for name in OPERATORS:
            chosen = variant if isinstance(variant, str) else variant.get(name, "")
            id_ = f"{function.__name__}-{name}"
            marks = [pytest.mark.whole] * (len(CELLS) % 2)
            CELLS.append(pytest.param(primitive, name, chosen, function, in_c, id=id_, marks=marks))
        return function

    return register


REDUCING = {"stencil2d": "total"}
"""For what needs a reduction."""


# ---- loops


@cell("split")
def split_with_guard(w):
    _, column = w.rows_and_columns
    outer, inner = w.s.split(column, [None, 4])
    w.has(f"for {outer} in range(3):\n", f"for {inner} in range(4):\n")
    w.has(f"if {outer}*4 + {inner} < 10:")


@cell("split")
def split_exactly(w):
    _, column = w.rows_and_columns
    outer, middle, inner = w.s.split(column, [None, 1, 5], tail="exact")
    w.has(f"for {outer} in range(2):\n", f"for {middle}, {inner} in grid(1, 5):\n")
    assert " < 10:" not in w.text
    assert {outer, middle, inner} < set(w.s.get_loops(w.operator.main))


@cell("split")
def split_and_cut(w):
    _, column = w.rows_and_columns
    outer, inner = w.s.split(column, [None, 4], tail="cut")
    w.has(f"for {outer} in range(2):\n", f"for {inner} in range(4):\n")
    w.has(f"for {column}_tail in range(2):\n", f"{column}_tail + 8]")
    assert f"{w.operator.main}_tail" in w.s.get_blocks()
    assert " < 10:" not in w.text


@cell("fuse")
def fuse(w):
    row, column = w.rows_and_columns
    size = w.extent(row) * 10
    fused = w.s.fuse(row, column)
    assert fused == f"{row}_{column}"
    w.has(f"for {fused} in range({size}):", f"{fused}//10, {fused}%10]")


@cell("reorder")
def reorder_two_axes(w):
    row, column = w.rows_and_columns
    w.s.reorder(column, row)
    loops = w.s.get_loops(w.operator.main)
    assert loops.index(column) + 1 == loops.index(row)
    assert re.search(rf"for {column} in range\(10\):\n +for {row} in range", w.text)


@cell("reorder", REDUCING)
def reorder_a_reduction(w):
    loops = w.s.get_loops(w.operator.reduction)
    w.s.reorder(*reversed(loops))
    assert w.s.get_loops(w.operator.reduction) == loops[::-1]
    assert w.text.index(f"for {loops[-1]} in") < w.text.index(f"for {loops[0]} in")


@cell("add_unit_loop")
def add_unit_loop(w):
    inner = w.s.add_unit_loop(w.operator.main)
    outer = w.s.add_unit_loop(w.s.get_loops(w.operator.main)[0])
    assert (outer, inner) == ("u2", "u")
    w.has("for u in range(1):\n", "for u2, ")
    assert w.s.get_loops(w.operator.main)[0] == "u2"
    assert w.s.get_loops(w.operator.main)[-1] == "u"


# ---- execution


def is_parallel(source, threads, w):
    pragma = f"#pragma omp parallel for num_threads({threads}) schedule(static)"
    assert source.count(pragma) == (threads > 1)


@cell("parallel", in_c=is_parallel)
def parallel(w):
    row, _ = w.rows_and_columns
    w.s.parallel(row)
    w.has(f"for {row} in parallel({w.extent(row)}):")


def has_vectors(source, threads, w):
    assert "store_float32x4(&" in source


@cell("vectorize", in_c=has_vectors)
def vectorize(w):
    _, column = w.rows_and_columns
    w.s.vectorize(column)
    w.has(f"for {column} in vectorize(10):")


def is_written_out(source, threads, w):
    assert f"for (int64_t {w.reducing[-1]} " not in source
    assert f"for (int64_t {w.s.get_loops(w.operator.reduction)[-2]} " in source


@cell("unroll", REDUCING, is_written_out)
def unroll(w):
    loop = w.reducing[-1]
    w.s.unroll(loop)
    w.has(f"for {loop} in unroll({w.extent(loop)}):")


def has_no_threads(source, threads, w):
    row, _ = w.rows_and_columns
    assert "#pragma" not in source
    assert f"for (int64_t {row} = 0; " in source


@cell("serial", in_c=has_no_threads)
def serial(w):
    row, column = w.rows_and_columns
    w.s.parallel(row)
    w.s.vectorize(column)
    w.s.serial(row)
    w.has(f"for {row} in range({w.extent(row)}):", f"for {column} in vectorize(10):")


def is_serial(source, threads, w):
    """Without a grid, bound loops are loops like others: their iterations are independent."""
    row, column = w.rows_and_columns
    assert "#pragma" not in source
    assert f"for (int64_t {row} = 0; " in source
    assert f"for (int64_t {column} = 0; {column} < 10; " in source


@cell("bind", in_c=is_serial)
def bind(w):
    row, column = w.rows_and_columns
    w.s.bind(row, "blockIdx.y")
    w.s.bind(column, "threadIdx.x")
    w.has(f'for {row} in bind({w.extent(row)}, "blockIdx.y"):')
    w.has(f'for {column} in bind(10, "threadIdx.x"):')


@cell("annotate")
def annotate(w):
    row, _ = w.rows_and_columns
    w.s.annotate(row, "note", "hot")
    w.s.annotate(w.operator.main, "cost", 3)
    w.has(f"for {row} in range({w.extent(row)}):  # note = 'hot'", "# cost = 3")


@cell("unannotate")
def unannotate(w):
    row, _ = w.rows_and_columns
    w.s.annotate(row, "note", "hot")
    w.s.annotate(row, "kept", True)
    w.has("# note = 'hot'")
    w.s.unannotate(row, "note")
    w.has(f"for {row} in range({w.extent(row)}):  # kept = True\n")
    assert "note" not in w.text


# ---- stages


INLINED = {
    "matmul": ("shifted", "relu[relu_i0, relu_i1] = max(C[relu_i0, relu_i1] + 1.0, 0.0)"),
    "conv2d": ("pad", "1 <= rx + x and rx + x < 11, data[n, rc, ry + y - 1, rx + x - 1], 0.0)"),
    "depthwise_conv2d": ("pad", "data[n, c, ry + y - 1, rx + x - 1], 0.0) * weight[c, 0, ry, rx]"),
    "softmax": (
        "exps",
        "] = exp(A[softmax_i, softmax_j] - row_max[softmax_i]) / row_sum[softmax_i]",
    ),
    "layer_norm": ("mean", "(A[D_i, j] - row_sum[D_i] / 10.0) * scale[D_i]"),
    "avg_pool2d": ("pad", "pool_sum[n, c, y, x] += if_then_else(1 <= ry + y and ry + y < 5"),
    "stencil2d": (
        "blur_y",
        "data[blur_x_y + 1, blur_x_x + 2] + data[blur_x_y + 2, blur_x_x + 2]) / 3",
    ),
}


@cell("compute_inline", {"matmul": "relu"})
def compute_inline(w):
    stage, text = INLINED[w.name]
    w.s.compute_inline(stage)
    assert stage not in w.s.get_blocks()
    w.lacks(f"{stage} = empty(")
    w.has(text)


@cell("reverse_compute_inline", "relu")
def reverse_compute_inline(w):
    w.s.reverse_compute_inline("relu")
    assert "relu" not in w.s.get_blocks()
    w.lacks("shifted = empty(")
    index = ", ".join(w.s.get_loops("shifted"))
    w.has(f"relu[{index}] = max({w.operator.main}[{index}] + 1.0, 0.0)")


PRODUCERS = {
    "matmul": ("C", "i1", "C[C_i + i0, C_j + i1] += A[C_i + i0, C_k] * B[C_k, C_j + i1]"),
    "conv2d": ("pad", "y", "for pad_y2 in range(3):"),
    "depthwise_conv2d": ("pad", "x", "for pad_x2 in range(3):"),
    "softmax": (
        "row_max",
        "exps_i",
        "= max(row_max[exps_i + row_max_i], A[exps_i + row_max_i, row_max_k])",
    ),
    "layer_norm": ("squares", "scale_i", "squares[scale_i + squares_i2] += "),
    "avg_pool2d": ("pad", "c", "pad[pad_n2, c + pad_c2, pad_y2, pad_x2] = "),
    "stencil2d": ("blur_y", "blur_x_y", "blur_y[blur_x_y + blur_y_y, blur_y_x] = "),
}


@cell("compute_at", {"matmul": "relu"})
def compute_at(w):
    block, loop, text = PRODUCERS[w.name]
    new = w.s.compute_at(block, loop)
    assert w.under(loop)[0] == block
    assert set(new) < set(w.s.get_loops(block))
    w.has(text)


CONSUMERS = {
    "matmul": (
        "shifted",
        "i",
        "shifted[i + shifted_i0, shifted_i1] = C[i + shifted_i0, shifted_i1] + 1.0",
    ),
    "conv2d": (
        "shifted",
        "y",
        "= conv[shifted_i0, f + shifted_i1, shifted_i2 + y, shifted_i3] + 1.0",
    ),
    "depthwise_conv2d": (
        "shifted",
        "x",
        "[shifted_i0, c + shifted_i1, shifted_i2 + y, shifted_i3 + x] + 1.0",
    ),
    "softmax": ("exps", "i", "= exp_nonpositive(A[exps_i2 + i, exps_j] - row_max[exps_i2 + i])"),
    "layer_norm": ("mean", "i", "mean[i + mean_i2] = row_sum[i + mean_i2] / 10.0"),
    "avg_pool2d": (
        "avg_pool",
        "y",
        "avg_pool[avg_pool_n2, avg_pool_c2 + c, avg_pool_y2 + y, avg_pool_x2] = ",
    ),
    "stencil2d": ("shifted", "blur_x_x", "= blur_x[blur_x_y + shifted_i0, blur_x_x + shifted_i1]"),
}


@cell(
    "reverse_compute_at",
    dict.fromkeys(["matmul", "conv2d", "depthwise_conv2d", "stencil2d"], "relu"),
)
def reverse_compute_at(w):
    block, loop, text = CONSUMERS[w.name]
    new = w.s.reverse_compute_at(block, loop)
    assert w.under(loop)[-1] == block
    assert len(new) == len(w.s.program.blocks[block].iters)
    w.has(text)


# ---- storage


READS = {
    "matmul": ("C", "B", "i"),
    "conv2d": ("conv", "weight", "f"),
    "depthwise_conv2d": ("conv", "pad", "y"),
    "softmax": ("softmax", "exps", "softmax_i"),
    "layer_norm": ("D", "gamma", "D_i"),
    "avg_pool2d": ("pool_sum", "pad", "c"),
    "stencil2d": ("blur_y", "data", "y"),
}


@cell("cache_read")
def cache_read(w):
    block, buffer, loop = READS[w.name]
    copy = w.s.cache_read(block, buffer, "local")
    assert copy == f"{buffer}_local"
    w.s.compute_at(copy, loop)
    assert w.under(loop) == [copy, block]
    w.has(f"    {copy} = empty(", ")  # local\n", f"] = {buffer}[")
    assert {b.scope.value for b in w.s.program.temporaries if b.name == copy} == {"local"}
    reads = re.findall(rf"\b{copy}\[", w.text)
    assert len(reads) == (4 if w.name == "stencil2d" else 2), "the copy, and who reads it"


@cell("cache_write")
def cache_write(w):
    main = w.operator.main
    row, _ = w.rows_and_columns
    copy = w.s.cache_write(main, "local")
    assert copy == f"{main}_local"
    w.s.reverse_compute_at(copy, row)
    assert w.under(row) == [main, copy]
    w.has(f"    {copy} = empty(", ")  # local\n", f"] = {copy}[")
    assert w.text.index(f" {copy}[") < w.text.index(f" {main}[")


@cell("set_scope", {"matmul": "relu"})
def set_scope(w):
    stage = w.operator.stage
    shape = list(w.s.program.buffers[stage].shape)
    w.s.set_scope(stage, "local")
    w.has(f"    {stage} = empty(float32{shape})  # local\n")


LAYOUTS = {
    "matmul": (lambda i, j: (j // 4, i, j % 4), "[3, 6, 4]", "C[j//4, i, j%4] += "),
    "conv2d": (
        lambda n, c, y, x: (n, y, x, c),
        "[1, 6, 12, 2]",
        " ry + y, rx + x, rc] * weight[f, ",
    ),
    "depthwise_conv2d": (
        lambda n, c, y, x: (n, c // 2, y, x, c % 2),
        "[1, 2, 6, 12, 2]",
        " c//2, ry + y, rx + x, c%2] * weight[",
    ),
    "softmax": (lambda i, j: (j, i), "[10, 4]", "exps[row_sum_k, row_sum_i]"),
    "layer_norm": (lambda i: (i // 3, i % 3), "[2, 3]", "mean[squares_i//3, squares_i%3]"),
    "avg_pool2d": (
        lambda n, c, y, x: (n, c, y * 12 + x),
        "[1, 2, 72]",
        " c, ry*12 + y*12 + rx + x]",
    ),
    "stencil2d": (
        lambda y, x: (x // 8, y, x % 8),
        "[2, 4, 8]",
        "blur_y[(blur_x_x + 2)//8, blur_x_y, (blur_x_x + 2)%8]",
    ),
}


@cell("transform_layout", {"matmul": "relu"})
def transform_layout(w):
    index_map, shape, text = LAYOUTS[w.name]
    w.s.transform_layout(w.operator.stage, index_map)
    w.has(f"    {w.operator.stage} = empty(float32{shape})\n", text)


def has_long_rows(source, threads, w):
    assert " * 17" in source


@cell("storage_align", {"matmul": "relu", "layer_norm": "relu"}, has_long_rows)
def storage_align(w):
    buffer = "D" if w.name == "layer_norm" else w.operator.stage
    axis = len(w.s.program.buffers[buffer].shape) - 2
    w.s.storage_align(buffer, -2, 8, 1)
    w.has(f"# stride of axis {axis} aligned to 8 + 1\n")


# ---- reductions


@cell("decompose_reduction", REDUCING)
def decompose_reduction(w):
    block = w.operator.reduction
    condition = " and ".join(f"{loop} == 0" for loop in w.reducing)
    w.has(f"if {condition}:")
    name = w.s.decompose_reduction(block, w.reducing[0])
    assert name == f"{block}_init"
    blocks = w.s.get_blocks()
    assert blocks.index(name) + 1 == blocks.index(block)
    assert f"if {condition}:" not in w.text
    assert w.s.program.blocks[block].init is None


def calls_the_intrinsic(source, cores, w):
    assert source.count("static inline void intrinsic_drawn_") == 1
    assert source.count("    intrinsic_drawn_") >= 1


@cell("tensorize", REDUCING, calls_the_intrinsic)
def tensorize(w):
    block, loops = w.operator.reduction, w.reducing
    w.s.decompose_reduction(block, loops[0])
    w.s.tensorize(loops[0], matching_intrinsic(w.s.program, block, loops))
    w.has(*(f"for {loop} in tensorize({w.extent(loop)}):" for loop in loops))


AHEAD = {
    "matmul": "A",
    "conv2d": "pad",
    "depthwise_conv2d": "pad",
    "softmax": "exps",
    "layer_norm": "A",
    "avg_pool2d": "pool_sum",
    "stencil2d": "blur_y",
}
"""A buffer that the main block reads a row of in each row of its own."""


def has_instructions(source, threads, w):
    assert f"    prefetch_line(&{AHEAD[w.name]}[" in source


@cell("prefetch", in_c=has_instructions)
def prefetch(w):
    row, column = w.rows_and_columns
    w.s.prefetch(AHEAD[w.name], row, 2)
    w.s.vectorize(column)
    w.has(f"for {row} in range({w.extent(row)}):  # prefetch_{AHEAD[w.name]} = 2\n")


@cell("rfactor", REDUCING)
def rfactor(w):
    block, loop = w.operator.reduction, w.reducing[0]
    shape = [w.extent(loop), *w.s.program.buffers[block].shape]
    name = w.s.rfactor(loop)
    own = f"{loop}2" if loop.startswith(f"{block}_") else f"{block}_{loop}"
    w.has(f"    {block}_rf = empty(float32{shape})\n", f"+= {block}_rf[{own}")
    assert name == f"{block}_rf"


@cell("skip_zeros", "spread")
def skip_zeros(w):
    *rows, columns = w.s.program.buffers["spread"].shape
    assert w.s.skip_zeros("spread") == "spread_phases"
    halves = [*rows, 2, -(-columns // 2)]
    w.has(f"    spread_phases = empty(float32{halves})\n")


@cell("skip_padding", "sides")
def skip_padding(w):
    *_, columns = w.s.program.buffers["sides"].shape
    w.s.skip_padding("sides", w.s.get_loops("sides")[-2])
    w.has(f"    sides_padding_sum = empty(float32[{columns}])\n")


@cell("use_reciprocal", "quotient")
def use_reciprocal(w):
    name = w.s.use_reciprocal("quotient", "powers")
    assert name == "powers_reciprocal"
    assert w.text.count(" / powers[") == 1
    w.has(f"    {name} = empty(float32[10])\n", "] = 1.0 / powers[", f"] * {name}[")


@cell("widen", "doubles")
def widen(w):
    source = w.s.program.blocks["doubles"]
    (buffer,) = accessed_buffers(source)[0]
    name = w.s.widen("doubles", buffer, "float64")
    assert name == f"{buffer}_float64"
    shape = list(w.s.program.buffers[buffer].shape)
    w.has(f"    {name} = empty(float64{shape})\n", f"] = float64({buffer}[")


@cell("pad", "doubles")
def pad(w):
    (buffer,) = accessed_buffers(w.s.program.blocks["doubles"])[0]
    w.s.cache_write("doubles", "global")
    name = w.s.cache_read("doubles", buffer, "global")
    w.s.pad(w.s.get_loops("doubles")[-1], 4)
    *rows, columns = w.s.program.buffers[name].shape
    assert columns == 12
    w.has(f"    {name} = empty(float32{[*rows, 12]})\n", " < 10, ")


# ---- decisions


def other_decision(w, decision):
    """The text of the program that the same steps give for another decision."""
    return str(w.s.trace.with_decisions({0: decision}).apply(w.before).program)


@cell("sample_perfect_tile")
def sample_perfect_tile(w):
    _, column = w.rows_and_columns
    factors = w.s.sample_perfect_tile(column, 2, max_innermost_factor=5)
    assert factors[0] * factors[1] == 10
    assert factors[1] <= 5
    w.s.split(column, factors, tail="exact")
    assert [w.extent(f"{column}_{n}") for n in (0, 1)] == list(factors)
    assert w.s.trace.decisions == {0: factors}
    assert f"for {column}_1 in range(2):\n" in other_decision(w, (5, 2))


@cell("sample_categorical")
def sample_categorical(w):
    _, column = w.rows_and_columns
    factor = w.s.sample_categorical([3, 4, 6], probs=[1, 2, 1])
    w.s.split(column, [None, factor])
    w.has(f"for {column}_1 in range({factor}):\n")
    assert [3, 4, 6][w.s.trace.decisions[0]] == factor
    assert f"for {column}_1 in range(6):\n" in other_decision(w, 2)


@cell("sample_compute_location", {"matmul": "relu"})
def sample_compute_location(w):
    block, loop, text = PRODUCERS[w.name]
    place = w.s.sample_compute_location(block)
    w.s.compute_at(block, place)
    assert place == "root" or w.under(place)[0] == block
    assert w.s.trace.decisions == {0: place}
    assert text in other_decision(w, loop)
    assert other_decision(w, "root") == str(w.before)


@cell("sample_tile")
def sample_tile(w):
    _, column = w.rows_and_columns
    factors = w.s.sample_tile(column, 2, policy="verbose", filter=lambda f: f[1] > 2)
    assert factors in [(3, 4), (2, 5), (2, 8), (1, 10)]
    w.s.split(column, factors)
    assert [w.extent(f"{column}_{n}") for n in (0, 1)] == list(factors)
    assert f"for {column}_1 in range(8):\n" in other_decision(w, (2, 8))


@cell("sample_order")
def sample_order(w):
    row, column = w.rows_and_columns
    w.s.reorder(w.s.sample_order([row, column], decision=[1, 0]))
    loops = w.s.get_loops(w.operator.main)
    assert loops.index(column) + 1 == loops.index(row)
    assert other_decision(w, (0, 1)) == str(w.before)


@cell("sample_annotation", in_c=has_vectors)
def sample_annotation(w):
    _, column = w.rows_and_columns
    names = w.s.sample_annotation(column, policy="try_vec", decision=["vectorize"])
    w.s.apply_annotation(names, column)
    w.has(f"for {column} in vectorize(10):")
    assert other_decision(w, ("none",)) == str(w.before)


@cell("apply_annotation")
def apply_annotation(w):
    row, column = w.rows_and_columns
    w.s.apply_annotation(["unroll", "vectorize"], row, column)
    w.has(f"for {column} in vectorize(10):")


# ---- the tests


TARGETS = [mt.Target("c", num_cores=n, vector_bits=128) for n in (1, 2)]


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("primitive, name, variant, apply, in_c", CELLS)
def test_primitive_works_on_operator(primitive, name, variant, apply, in_c):
    w = Work(name, variant)
    apply(w)
    assert primitive in {step.primitive for step in w.s.trace.steps}
    assert w.s.program != w.before

    again = mt.Trace.from_json(w.s.trace.to_json()).apply(w.before)
    assert again.program == w.s.program
    assert str(again.program) == w.text

    arrays = inputs(w.before)
    wanted = expected(name, variant, arrays)
    assert_matches(name, mt.interpret(w.s, *arrays), wanted)
    parallel = in_c is not None or "in parallel(" in w.text
    for target in TARGETS if parallel else TARGETS[:1]:  # else the code is the same
        kernel = mt.build(w.s.program, target)
        if in_c is not None:
            in_c(kernel.source, target.num_cores, w)
        assert_matches(name, kernel(*arrays), wanted)


def test_matrix_has_every_primitive_on_every_operator():
    covered = {param.values[:2] for param in CELLS}
    assert covered == {(primitive, name) for primitive in REGISTRY for name in OPERATORS}


# ---- primitives together


@pytest.mark.parametrize(
    "step",
    [
        lambda s: s.compute_at("pad", "y"),
        lambda s: s.compute_inline("pad"),
        lambda s: s.cache_read("conv", "pad", "local"),
        lambda s: s.cache_write("pad", "local"),
    ],
    ids=["compute_at", "compute_inline", "cache_read", "cache_write"],
)
@pytest.mark.parametrize("images", [1, 2])
def test_stage_can_be_moved_after_its_layout_was_changed(images, step):
    options = {**OPERATORS["conv2d"].options, "n": images}
    program = mt.lower(WORKLOADS["conv2d"].function(**options), name="conv2d")
    s = mt.Schedule(program)
    s.transform_layout("pad", lambda n, c, y, x: (n, y, x, c))
    step(s)
    arrays = inputs(program)
    assert_matches("conv2d", mt.interpret(s, *arrays), REFERENCES["conv2d"](*arrays, **options))


@pytest.mark.parametrize(
    "shape, factor", [((5, 7, 6), 4), ((4, 7, 6), 7), ((4, 7, 6), 14), ((8, 28, 28), 64)], ids=str
)
def test_loops_that_were_fused_and_split_can_run_in_parallel(shape, factor):
    A = mt.placeholder(shape, name="A")
    s = mt.Schedule(mt.lower([A, mt.compute(shape, lambda *i: A[i] * 2.0, name="B")]))
    outer, inner = s.split(s.fuse(*s.get_loops("B")), [None, factor])
    s.bind(outer, "blockIdx.x")
    s.bind(inner, "threadIdx.x")
    (array,) = inputs(s.program)
    np.testing.assert_array_equal(mt.build(s, TARGETS[0])(array), array * 2)
