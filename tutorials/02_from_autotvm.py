"""Lesson 2: the how-to of AutoTVM, written here.

Define a product, make a template, tune it, apply the best; other names: docs/cheat_sheet.md.
"""

import pathlib
import tempfile

import numpy as np

import minitensor as mt

N = 64
A = mt.placeholder((N, N), "float32", name="A")
B = mt.placeholder((N, N), "float32", name="B")
k = mt.reduce_axis(N, name="k")
C = mt.compute((N, N), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
program = mt.lower([A, B, C], name="matmul")


def template(s: mt.Schedule) -> None:
    """A tiled product: sizes, order and annotations are open."""
    y, x, k = s.get_loops("C")
    tile_y = s.sample_tile(y, 2)  # cfg.define_split("tile_y", y, num_outputs=2)
    tile_x = s.sample_tile(x, 2, filter=lambda factors: factors[1] >= 8)
    s.require(tile_y[1] * tile_x[1] <= 512, "a tile of at most 512 elements")
    (y_0, y_1), (x_0, x_1) = s.split(y, tile_y), s.split(x, tile_x)
    s.reorder(y_0, x_0, *s.sample_order(k, y_1), x_1)  # define_reorder
    s.apply_annotation(s.sample_annotation(y_1, x_1), y_1, x_1)  # define_annotate


print(mt.search.Space.of_template(program, "c", template))  # the ConfigSpace
log = pathlib.Path(tempfile.mkdtemp()) / "matmul.jsonl"
mt.tune(program, space=template, trials=12, strategy="genetic", log=log, progress=False)

with mt.apply_history_best(log):
    kernel = mt.build(program)
a, b = np.random.rand(N, N).astype("float32"), np.random.rand(N, N).astype("float32")
np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4)
print(kernel.time(a, b).median, "seconds")
