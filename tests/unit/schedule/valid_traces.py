"""Traces that are valid: each a program, and the JSON of steps that apply to it.

Together they have every primitive.
"""

import minitensor as mt
from tests.unit.schedule.intrinsics import twice
from tests.unit.schedule.programs import (
    chain,
    chain2d,
    fed_rowsum,
    gather,
    grid,
    matmul,
    matmul_relu,
    narrow_product,
    normalised,
    padded,
    padded_sum,
    quotients,
    rowsum,
    scale,
    spread_out,
    stencil,
)


def _tiled(s):
    i0, i1 = s.split("i", s.sample_perfect_tile("i", 2, decision=[2, 2]))
    j0, j1 = s.split("j", [None, s.sample_categorical([2, 4], decision=1)])
    k0, k1 = s.split("k", [3, 2], tail="exact")
    s.reorder(i0, j0, k0, k1, i1, j1)
    s.reverse_compute_at("D", j0)
    packed = s.cache_read("C", "B", "global")
    s.transform_layout(packed, lambda r, c: (c // 4, r, c % 4))
    s.set_scope("C", "local")
    s.storage_align("C", 0, 16, offset=8)
    s.annotate(s.decompose_reduction("C", k0), "note", 'it\'s "quoted"\n')
    s.unroll(k1)
    s.vectorize(j1)
    s.parallel(s.fuse(i0, j0))
    s.annotate(packed, "gone", 1.5)
    s.unannotate(packed, "gone")


def _small(s):
    s.parallel(s.split("i", [None, 8])[0])


def _cut(s):
    i0, i1 = s.split("i", [None, 6], tail="cut")
    s.unroll(i1)
    s.split(i0, [1, None])
    s.add_unit_loop("C")


def _bound(s):
    s.bind(s.fuse("i", "j"), "threadIdx.x")
    s.cache_write("C", "local")


def _moved(s):
    y0, _ = s.split("y", [None, 3])
    s.compute_at("P", s.sample_compute_location("P", decision=y0))


def _inlined(s):
    s.compute_inline("B")
    s.vectorize(s.split("y", [None, 4])[1])


def _backwards(s):
    s.reverse_compute_inline("C")
    s.reorder("j", "i")
    s.parallel("j")
    s.serial("j")


def _factored(s):
    k0, _ = s.split("k", [3, None])
    s.annotate(s.rfactor(k0, axis=1), "depth", 16)


def _fed(s):
    s.compute_at("P", "x")
    s.set_scope("P", "shared")
    s.parallel("x")


def _open(s):
    tile = s.sample_perfect_tile("i", 2, max_innermost_factor=4)
    i0, i1 = s.split("i", tile)
    s.annotate(i0, "v", s.sample_categorical([0.5, "a", 3], probs=[1, 2, 0.5]))
    s.split(i1, [tile[1], 1])


def _chosen(s):
    i0, i1 = s.split("i", s.sample_tile("i", 2, policy="power2", decision=[2, 2]))
    j0, j1 = s.split("j", s.sample_tile("j", 2, candidates=[[2, 4], [8, 1]], decision=[2, 4]))
    s.reorder(s.sample_order([i0, j0, "k", i1], decision=[1, 0, 2, 3]))
    how = s.sample_annotation([i1, j1], policy="try_unroll_vec", decision=["unroll", "vectorize"])
    s.apply_annotation(how, [i1, j1])


def _tensorized(s):
    s.tensorize(s.split("i", [None, 4])[1], twice())


def _in_phases(s):
    s.reverse_compute_at(s.skip_zeros("C"), s.get_loops("C")[0])


def _without_border(s):
    s.skip_padding("C", "y")
    s.compute_at("C_padding_sum", s.split("y", s.sample_perfect_tile("y", 2, decision=[2, 2]))[0])


def _ahead(s):
    k = s.split("k", s.sample_perfect_tile("k", 2, decision=[3, 2]))[0]
    s.reorder(k, "j")
    s.prefetch("B", k, s.sample_categorical([1, 2], decision=1))


def _normalised(s):
    s.compute_at("M", "x")
    s.cache_read("M", "A", "local")


def _divided(s):
    s.compute_at(s.use_reciprocal("D", "S"), "x")


def _widened(s):
    s.cache_write("C", "local")
    for buffer in ("A", "B"):
        s.widen("C", buffer, "int16")
    s.pad("k", s.sample_categorical([2, 4], decision=1))


def _gathered(s):
    s.cache_read("C", "B", "local")
    s.parallel("x")


VALID = {
    "tiled": (lambda: matmul_relu(4, 8, 6), _tiled),
    "small": (scale, _small),
    "divided": (quotients, _divided),
    "chosen": (lambda: matmul(4, 8, 6), _chosen),
    "cut": (scale, _cut),
    "bound": (grid, _bound),
    "moved": (lambda: stencil(9, 2), _moved),
    "inlined": (padded, _inlined),
    "backwards": (chain2d, _backwards),
    "factored": (lambda: rowsum(4, 12), _factored),
    "fed": (fed_rowsum, _fed),
    "open": (lambda: scale(24), _open),
    "tensorized": (scale, _tensorized),
    "in phases": (spread_out, _in_phases),
    "without border": (padded_sum, _without_border),
    "ahead": (matmul, _ahead),
    "normalised": (normalised, _normalised),
    "widened": (narrow_product, _widened),
    "gathered": (gather, _gathered),
    "chain": (chain, lambda s: s.compute_at("B", "j")),
    "product": (matmul, lambda s: s.reorder("k", "i")),
}


def valid(name):
    """A program, and the JSON of a trace for it."""
    program, steps = VALID[name]
    s = mt.Schedule(program(), seed=0)
    steps(s)
    return s.history[0], s.trace.to_json()
