"""Draws docs/pictures/nest.svg, the schedule of the README: `python -m docs.make_pictures`."""

import pathlib

import minitensor as mt
from minitensor.pictures import nest_picture

TARGET = pathlib.Path(__file__).parent / "pictures" / "nest.svg"


def schedule() -> mt.Schedule:
    """The product of the README, step by step as there."""
    M = N = K = 512
    A = mt.placeholder((M, K), "float32", name="A")
    B = mt.placeholder((K, N), "float32", name="B")
    k = mt.reduce_axis((0, K), name="k")
    C = mt.compute((M, N), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = mt.compute((M, N), lambda i, j: mt.maximum(C[i, j], 0.0), name="D")
    s = mt.Schedule(mt.lower([A, B, D], name="matmul_relu"))
    i, j, k = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, 8])
    j_0, j_1 = s.split(j, [None, 32])
    s.reorder(i_0, j_0, k, i_1, j_1)
    s.unroll(i_1)
    s.vectorize(j_1)
    *_, j_d = s.reverse_compute_at("D", j_0)
    s.vectorize(j_d)
    s.parallel(i_0)
    return s


def text() -> str:
    """The picture."""
    return nest_picture(schedule().program).svg() + "\n"


if __name__ == "__main__":
    TARGET.write_text(text())
