"""Scheduled kernels of many patterns of access."""

import minitensor as mt


def of(shape, function, *inputs, name="C"):
    """A schedule of one definition."""
    return mt.Schedule(mt.lower([*inputs, mt.compute(shape, function, name=name)], name="test"))


def tensor(*shape, name="A", dtype="float32"):
    return mt.placeholder(shape, dtype, name=name)


def in_threads(s, block="C", threads=64, inner=None):
    """All loops of a block fused, split into blocks and threads, a vector or an unrolled rest."""
    fused = s.fuse(*s.get_loops(block)) if len(s.get_loops(block)) > 1 else s.get_loops(block)[0]
    b, t, *rest = s.split(fused, [None, threads, *([inner] if inner else [])])
    s.bind(b, "blockIdx.x")
    s.bind(t, "threadIdx.x")
    return s, rest


def tiled(s, block="C", y=8, x=16):
    """The last two loops of a block in tiles of threads."""
    *_, i, j = s.get_loops(block)
    i_0, i_1 = s.split(i, [None, y])
    j_0, j_1 = s.split(j, [None, x])
    s.reorder(i_0, j_0, i_1, j_1)
    for loop, kind in zip(
        (i_0, j_0, i_1, j_1), ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
    ):
        s.bind(loop, kind)
    return s


def copy(n=1000, dtype="float32"):
    A = tensor(n, dtype=dtype)
    return in_threads(of((n,), lambda i: A[i], A))[0]


def strided(step=3):
    A = tensor(512 * step)
    return in_threads(of((512,), lambda i: A[i * step], A), threads=96)[0]


def reversed_():
    A = tensor(300)
    return in_threads(of((300,), lambda i: A[299 - i], A), threads=40)[0]


def broadcast():
    A = tensor(40)
    return tiled(of((40, 70), lambda i, j: A[i], A))


def column():
    A = tensor(70, 40)
    return tiled(of((40, 70), lambda i, j: A[j, i], A))


def ragged():
    A = tensor(33, 45)
    return tiled(of((33, 45), lambda i, j: A[i, j] + 1.0, A), y=7, x=10)


def deep():
    A = tensor(6, 10, 12)
    s = of((6, 10, 12), lambda i, j, k: A[i, j, k], A)
    for loop, kind in zip(s.get_loops("C"), ("blockIdx.z", "threadIdx.z", "threadIdx.x")):
        s.bind(loop, kind)
    return s


def window():
    A = tensor(202)
    r = mt.reduce_axis(3, name="r")
    s = of((200,), lambda i: mt.sum(A[i + r], axis=r), A)
    i, r = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, 32])
    s.bind(i_0, "blockIdx.x")
    s.bind(i_1, "threadIdx.x")
    s.unroll(r)
    return s


def padded():
    A = tensor(100)
    take = lambda i: mt.if_then_else(mt.logical_and(i >= 5, i < 95), A[i - 5], 0.0)
    return in_threads(of((100,), take, A), threads=32)[0]


def vectors(dtype="float32", lanes=4):
    A = tensor(1024, dtype=dtype)
    s, (inner,) = in_threads(of((1024,), lambda i: A[i], A), inner=lanes)
    s.vectorize(inner)
    return s


def through_shared(align=None, shift=0):
    """A transposition by way of shared memory."""
    A = tensor(64, 48)
    s = of((48, 64), lambda i, j: A[j, i], A)
    copied = s.cache_read("C", "A", "shared")
    i, j = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, 16])
    j_0, j_1 = s.split(j, [None, 16])
    s.reorder(i_0, j_0, i_1, j_1)
    s.bind(i_0, "blockIdx.y")
    s.bind(j_0, "blockIdx.x")
    s.compute_at(copied, j_0)
    *_, a, b = s.get_loops(copied)
    for loops in ((a, b), (i_1, j_1)):
        for loop, kind in zip(loops, ("threadIdx.y", "threadIdx.x")):
            s.bind(loop, kind)
    if align:
        s.storage_align("A_shared", 0, align, shift)
    return s


def matmul(m=48, n=40, k=24, tile=16, per=2, step=8, shared="AB", dtype="float32", unrolled=True):
    """A tile of C for each block, fetched in common; per x per elements for each thread."""
    A, B = tensor(m, k, dtype=dtype), tensor(k, n, name="B", dtype=dtype)
    r = mt.reduce_axis(k, name="k")
    s = of((m, n), lambda i, j: mt.sum(A[i, r] * B[r, j], axis=r), A, B)
    out = s.cache_write("C", "local")
    i, j, k = s.get_loops("C")
    i_0, i_1, i_2 = s.split(i, [None, tile // per, per])
    j_0, j_1, j_2 = s.split(j, [None, tile // per, per])
    k_0, k_1 = s.split(k, [None, step])
    s.reorder(i_0, j_0, k_0, i_1, j_1, k_1, i_2, j_2)
    s.bind(i_0, "blockIdx.y")
    s.bind(j_0, "blockIdx.x")
    for name in shared:
        fetch = s.cache_read("C", name, "shared")
        s.compute_at(fetch, k_0)
        *_, a, b = s.get_loops(fetch)
        _, y, x = s.split(s.fuse(a, b), [None, tile // per, tile // per])
        s.bind(y, "threadIdx.y")
        s.bind(x, "threadIdx.x")
    s.bind(i_1, "threadIdx.y")
    s.bind(j_1, "threadIdx.x")
    for loop in (i_2, j_2) if unrolled else ():
        s.unroll(loop)
    s.reverse_compute_at(out, j_0)
    *_, a, b = s.get_loops(out)
    a_0, a_1 = s.split(a, [None, per])
    b_0, b_1 = s.split(b, [None, per])
    s.reorder(a_0, b_0, a_1, b_1)
    s.bind(a_0, "threadIdx.y")
    s.bind(b_0, "threadIdx.x")
    return s


def naive():
    A, B = tensor(40, 24), tensor(24, 56, name="B")
    r = mt.reduce_axis(24, name="k")
    s = of((40, 56), lambda i, j: mt.sum(A[i, r] * B[r, j], axis=r), A, B)
    i, j, _ = s.get_loops("C")
    i_0, i_1 = s.split(i, [None, 8])
    j_0, j_1 = s.split(j, [None, 16])
    s.reorder(i_0, j_0, i_1, j_1)
    for loop, kind in zip(
        (i_0, j_0, i_1, j_1), ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
    ):
        s.bind(loop, kind)
    return s


def two():
    A = tensor(96)
    T = mt.compute((96,), lambda i: A[i] + 1.0, name="T")
    C = mt.compute((96,), lambda i: T[95 - i] * 2.0, name="C")
    s = mt.Schedule(mt.lower([A, C], name="test"))
    for block in ("T", "C"):
        in_threads(s, block, 32)
    return s


def virtual():
    A = tensor(512)
    s = of((512,), lambda i: A[i], A)
    b, v, t = s.split(s.get_loops("C")[0], [None, 4, 32])
    for loop, kind in zip((b, v, t), ("blockIdx.x", "vthread", "threadIdx.x")):
        s.bind(loop, kind)
    return s


def rows():
    """The sum of each row, by the threads of a block."""
    A = tensor(6, 200)
    r = mt.reduce_axis(200, name="k")
    s = of((6,), lambda i: mt.sum(A[i, r], axis=r), A)
    _, k = s.get_loops("C")
    _, k_1 = s.split(k, [None, 64])
    part = s.rfactor(k_1)
    i, k = s.get_loops("C")
    s.bind(i, "blockIdx.x")
    s.bind(k, "threadIdx.x")
    s.compute_at(part, k)
    return s


def convolution():
    program = mt.lower(
        mt.workloads.conv2d(n=1, c=3, h=9, w=11, f=4, kernel=3, padding=1), name="test"
    )
    s = mt.Schedule(program)
    block = list(program.blocks)[-1]
    *outer, i, j = s.get_loops(block)[:4]
    s.bind(s.fuse(*outer), "blockIdx.x")
    s.bind(i, "threadIdx.y")
    s.bind(j, "threadIdx.x")
    for padding in list(program.blocks)[:-1]:
        s.compute_inline(padding)
    return s


KERNELS = {
    "copy": copy,
    "copy of halves": lambda: copy(dtype="float16"),
    "copy of doubles": lambda: copy(n=333, dtype="float64"),
    "copy of bytes": lambda: copy(n=500, dtype="int8"),
    "every third": strided,
    "every eighth": lambda: strided(8),
    "reversed": reversed_,
    "broadcast": broadcast,
    "columns": column,
    "ragged tiles": ragged,
    "three axes": deep,
    "window": window,
    "padding": padded,
    "vectors": vectors,
    "vectors of halves": lambda: vectors("float16", 8),
    "through shared memory": through_shared,
    "shifted rows": lambda: through_shared(32, 1),
    "matmul": naive,
    "matmul in tiles": matmul,
    "matmul in tiles, one shared": lambda: matmul(shared="B", unrolled=False),
    "matmul of odd sizes": lambda: matmul(37, 41, 19, 16, 1),
    "matmul of doubles": lambda: matmul(dtype="float64", per=1),
    "two kernels": two,
    "virtual threads": virtual,
    "sums of rows": rows,
}
UNEVEN = {
    "matmul that lanes leave early": lambda: matmul(37, 41, 19, 16, 4),
    "padded convolution": convolution,
}
"""Kernels in which lanes skip some iterations of a loop."""
