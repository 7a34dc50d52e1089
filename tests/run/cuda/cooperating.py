"""Scheduled kernels in which threads work together: shared memory, barriers, sums over threads."""

import minitensor as mt
from tests.run.cuda.test_pipelines import product
from tests.run.gpu.kernels import KERNELS, UNEVEN, matmul, of, tensor, through_shared
from tutorials.schedules.gpu import by_default


def bound(s, loops, kinds):
    for loop, kind in zip(loops, kinds):
        s.bind(loop, kind)
    return s


def staged(s, block, buffer, place, kinds=("threadIdx.x",), counts=(None,), scope="shared"):
    """A copy of a buffer for a block in an iteration of a loop, by threads."""
    copied = s.cache_read(block, buffer, scope)
    own = s.compute_at(copied, place)
    for loop, kind, count in zip(own[::-1], kinds, counts):
        s.bind(s.split(loop, [None, count])[1] if count else loop, kind)
    return copied


def defined(workload, **sizes):
    return mt.Schedule(mt.lower(mt.workloads.WORKLOADS[workload].function(**sizes), name="test"))


def by_hand(workload, **sizes):
    """The schedule of lesson and benchmark for any program."""
    s = defined(workload, **sizes)
    for _ in by_default(s, mt.Target("cuda")):
        pass
    return s


def rows_read(shift, m=3, n=16, threads=(16, 16), dtype="float32", scope="shared"):
    """T[i, j] = A[i, j] + 1 by some threads, C[i, j] = T[i, (j + shift) % n] by others."""
    A = tensor(m, n, dtype=dtype)
    T = mt.compute((m, n), lambda i, j: A[i, j] + 1, name="T")
    C = mt.compute((m, n), lambda i, j: T[i, (j + shift) % n] * 2, name="C")
    s = mt.Schedule(mt.lower([A, C], name="test"))
    row = s.get_loops("C")[0]
    s.compute_at("T", row)
    s.set_scope("T", scope)
    s.bind(row, "blockIdx.x")
    for name, count in zip(("T", "C"), threads):
        s.bind(s.split(s.get_loops(name)[-1], [None, count])[1], "threadIdx.x")
    return s


def three_nests(threads=(16, 5, 7)):
    """A chain of three stages in shared memory, each by threads of its own number."""
    n = 24
    A = tensor(4, n)
    T = mt.compute((4, n), lambda i, j: A[i, j] + 1.0, name="T")
    U = mt.compute((4, n), lambda i, j: T[i, n - 1 - j] * 2.0, name="U")
    C = mt.compute((4, n), lambda i, j: U[i, (j * 5) % n] - T[i, j], name="C")
    s = mt.Schedule(mt.lower([A, C], name="test"))
    row = s.get_loops("C")[0]
    for name in "UT":
        s.compute_at(name, row)
        s.set_scope(name, "shared")
    s.bind(row, "blockIdx.x")
    for name, count in zip("TUC", threads):
        s.bind(s.split(s.get_loops(name)[-1], [None, count])[1], "threadIdx.x")
    return s


def back_edge():
    """Rows one after the other in a block: the next row is written over what others read."""
    A = tensor(8, 16)
    T = mt.compute((8, 16), lambda i, j: A[i, j] + 1.0, name="T")
    C = mt.compute((8, 16), lambda i, j: T[i, 15 - j] * 2.0, name="C")
    s = mt.Schedule(mt.lower([A, C], name="test"))
    row, j = s.get_loops("C")
    s.compute_at("T", row)
    s.set_scope("T", "shared")
    bound(s, (j, s.get_loops("T")[-1]), ("threadIdx.x", "threadIdx.x"))
    s.bind(s.split(row, [2, None])[0], "blockIdx.x")
    return s


def stencil(n=50, tile=16):
    """Three neighbours of a tile with its halo in shared memory."""
    A = tensor(n + 2)
    s = of((n,), lambda i: A[i] - 2.0 * A[i + 1] + A[i + 2], A)
    b, t = s.split(s.get_loops("C")[0], [None, tile])
    staged(s, "C", "A", b, counts=(tile,))
    return bound(s, (b, t), ("blockIdx.x", "threadIdx.x"))


def stencil_2d(n=20, m=23, y=4, x=8):
    A = tensor(n + 2, m + 2)
    take = lambda i, j: A[i, j + 1] + A[i + 2, j + 1] + A[i + 1, j] + A[i + 1, j + 2]
    s = of((n, m), take, A)
    i, j = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, y])
    j_0, j_1 = s.split(j, [None, x])
    s.reorder(i_0, j_0, i_1, j_1)
    staged(s, "C", "A", j_0, ("threadIdx.x", "threadIdx.y"), (x, y))
    kinds = ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
    return bound(s, (i_0, j_0, i_1, j_1), kinds)


def convolution(c=3, f=4, h=9, w=10):
    """Channels one after the other, each with its rows in shared memory."""
    A, W = tensor(c, h, w), tensor(f, c, 3, 3, name="W")
    axes = [mt.reduce_axis(n, name=name) for n, name in ((c, "rc"), (3, "ry"), (3, "rx"))]
    rc, ry, rx = axes
    take = lambda o, y, x: mt.sum(A[rc, y + ry, x + rx] * W[o, rc, ry, rx], axis=axes)
    s = of((f, h - 2, w - 2), take, A, W)
    out = s.cache_write("C", "local")
    o, y, x, rc, ry, rx = s.get_loops("C")
    y_0, y_1 = s.split(y, [None, 3])
    s.reorder(o, y_0, rc, y_1, x, ry, rx)
    s.reverse_compute_at(out, y_0)
    staged(s, "C", "A", rc, ("threadIdx.x", "threadIdx.y"), (8, 3))
    staged(s, "C", "W", rc, ("threadIdx.x", "threadIdx.y"))
    bound(s, (o, y_0, y_1, x), ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"))
    return bound(s, s.get_loops(out)[-2:], ("threadIdx.y", "threadIdx.x"))


def in_virtual_threads():
    s = matmul(32, 32, 16, per=4, unrolled=False)
    s.bind(s.split("i_2", [2, None])[0], "vthread")
    return s


def virtual_nests():
    """Buffers of virtual threads in shared memory get an axis."""
    s = three_nests((8, 8, 8))
    row = s.get_loops("C")[0]
    s.serial(row)
    outer, inner = s.split(row, [2, None])
    return bound(s, (outer, inner), ("blockIdx.x", "vthread"))


def combined(n=200, threads=64, m=6, reduce=mt.sum, rows=1):
    """A reduction of each row by threads: of two warps, and of a part of one."""
    A = tensor(m, n)
    r = mt.reduce_axis(n, name="k")
    s = of((m,), lambda i: reduce(A[i, r], r), A)
    _, k = s.get_loops("C")
    part = s.rfactor(s.split(k, [None, threads])[1])
    i, k = s.get_loops("C")
    s.compute_at(part, k)
    i, y = s.split(i, [None, rows])
    return bound(s, (i, y, k), ("blockIdx.x", "threadIdx.y", "threadIdx.x"))


def normalized(n=70, threads=40):
    """A sum by threads that all threads of the row read then."""
    A = tensor(5, n)
    r = mt.reduce_axis(n, name="k")
    S = mt.compute((5,), lambda i: mt.sum(A[i, r], axis=r), name="S")
    C = mt.compute((5, n), lambda i, j: A[i, j] - S[i], name="C")
    s = mt.Schedule(mt.lower([A, C], name="test"))
    row, j = s.get_loops("C")
    s.compute_at("S", row)
    part = s.rfactor(s.split(s.get_loops("S")[-1], [None, threads])[1], axis=-1)
    *_, k = s.get_loops("S")
    s.reorder(s.get_loops(part)[-1], s.get_loops(part)[-2])
    s.set_scope(part, "local")
    s.bind(row, "blockIdx.x")
    bound(s, (k, s.get_loops(part)[-2]), ("threadIdx.x", "threadIdx.x"))
    s.bind(s.split(j, [None, threads])[1], "threadIdx.x")
    return s


def scanned(n=20):
    """Thread 0 adds up a row in shared memory; all threads read it."""
    A = tensor(3, n)
    P = mt.update(
        (3, n),
        lambda P, i, j: mt.if_then_else(j > 0, P[i, j - 1], 0.0) + A[i, j],
        dtype="float32",
        name="P",
    )
    C = mt.compute((3, n), lambda i, j: P[i, n - 1 - j] - A[i, j], name="C")
    s = mt.Schedule(mt.lower([A, C], name="test"))
    row, j = s.get_loops("C")
    s.compute_at("P", row)
    s.set_scope("P", "shared")
    return bound(s, (row, j), ("blockIdx.x", "threadIdx.x"))


def gathered(n=24):
    """Elements of a row in shared memory, at places that are data."""
    A, places = tensor(3, n), mt.placeholder((n,), "int32", name="I")
    s = of((3, n), lambda i, j: A[i, places[j] % n], A, places)
    i, j = s.get_loops("C")
    staged(s, "C", "A", i)
    return bound(s, (i, j), ("blockIdx.x", "threadIdx.x"))


def large(n=96):
    """More shared memory than a kernel may declare."""
    A = tensor(n, n, dtype="float64")
    s = of((n, n), lambda i, j: A[j, i], A)
    i, j = s.get_loops("C")
    u = s.add_unit_loop(i)
    staged(s, "C", "A", u, ("threadIdx.x", "threadIdx.y"), (16, 2))
    i, j = s.get_loops("C")[-2:]
    i_0, i_1 = s.split(i, [None, 2])
    j_0, j_1 = s.split(j, [None, 16])
    s.reorder(i_0, j_0, i_1, j_1)
    return bound(s, (u, i_1, j_1), ("blockIdx.x", "threadIdx.y", "threadIdx.x"))


def pipelined(*size):
    s, loop = product(*size)
    s.annotate(loop, "pipeline", 2)
    return s


def halves():
    A = tensor(4, 64, dtype="float16")
    s = of((4, 64), lambda i, j: A[i, 63 - j], A)
    i, j = s.get_loops("C")
    copied = s.cache_read("C", "A", "shared")
    *_, own = s.compute_at(copied, i)
    t, v = s.split(own, [None, 8])
    s.vectorize(v)
    s.bind(t, "threadIdx.x")
    return bound(s, (i, j), ("blockIdx.x", "threadIdx.x"))


def cube():
    A = tensor(6, 5, 7)
    s = of((6, 5, 7), lambda i, j, k: A[5 - i, 4 - j, 6 - k], A)
    u = s.add_unit_loop(s.get_loops("C")[0])
    kinds = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
    staged(s, "C", "A", u, kinds, (None, None, None))
    s.bind(u, "blockIdx.x")
    return bound(s, s.get_loops("C")[1:][::-1], kinds)


ALONE = ("copy", "columns", "ragged tiles", "padding", "matmul", "two kernels", "virtual threads")
"""Kernels without shared memory."""
COOPERATING = {
    **{name: KERNELS[name] for name in ALONE},
    **{name: KERNELS[name] for name in KERNELS if name.startswith("matmul in tiles")},
    "matmul of odd sizes": lambda: matmul(21, 19, 13, 8, 1, 4),
    "matmul that lanes leave early": lambda: UNEVEN["matmul that lanes leave early"](),
    "matmul of doubles": lambda: matmul(24, 20, 12, 8, 2, 4, dtype="float64"),
    "matmul of integers": lambda: matmul(24, 20, 12, 8, 2, 4, dtype="int32"),
    "matmul in virtual threads": in_virtual_threads,
    "matmul, the next tile copied": lambda: pipelined(29, 35, 21, 1),
    "matmul, the next tile copied in vectors": lambda: pipelined(32, 32, 32, 4),
    "transposition": through_shared,
    "transposition, padded": lambda: through_shared(32, 1),
    "rows, each thread its own": lambda: rows_read(0),
    "rows, each thread some of its own": lambda: rows_read(0, threads=(4, 4)),
    "rows, the next element": lambda: rows_read(1),
    "rows, fewer threads": lambda: rows_read(3, threads=(16, 4)),
    "rows, more threads": lambda: rows_read(3, threads=(5, 7)),
    "rows of bytes": lambda: rows_read(3, dtype="int8"),
    "rows in registers that others read": lambda: rows_read(3, scope="local"),
    "three nests": three_nests,
    "three nests in virtual threads": virtual_nests,
    "rows in turn": back_edge,
    "stencil": stencil,
    "stencil of two axes": stencil_2d,
    "convolution": convolution,
    "sums of rows": combined,
    "sums of rows, a part of a warp": lambda: combined(23, 8, 3),
    "sums of rows, several in a block": lambda: combined(50, 16, 8, rows=4),
    "largest of rows": lambda: combined(90, 40, 3, mt.max),
    "places of the largest": lambda: combined(90, 64, 3, mt.argmax),
    "rows less their sum": normalized,
    "softmax": lambda: by_hand("softmax", m=3, n=80),
    "layer norm": lambda: by_hand("layer_norm", m=3, n=80),
    "norm of a matrix": lambda: by_hand("matrix_norm", b=2, m=9, n=9),
    "scan": scanned,
    "gather": gathered,
    "dynamic shared memory": large,
    "vectors of halves": halves,
    "three axes of threads": cube,
}
