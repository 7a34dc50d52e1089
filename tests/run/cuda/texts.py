"""CUDA written by hand, in the form that the emitter gives it: many kernels in one text.

A comment `//1` or `//2` at the end of a line marks it, for tests that look for its number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from minitensor.codegen import Emitted, KernelShape, Target
from minitensor.ir import Buffer, DType

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
}


@dataclass(frozen=True)
class Launch:
    """One kernel of a text: `arguments` are words of the launcher."""

    body: str
    grid: tuple = (1, 1, 1)
    block: tuple = (32, 1, 1)
    dynamic: int = 0
    arguments: str = ""
    parameters: str = ""


@dataclass(frozen=True)
class Text:
    name: str
    params: tuple
    outputs: str
    launches: tuple
    helpers: str = ""
    checks: tuple = ()
    workspace: int = 0

    def changed(self, name, *changes):
        """The text under another name, with parts of its bodies replaced; each must be there."""
        launches = []
        for launch in self.launches:
            body = launch.body
            for old, new in changes:
                if old in body:
                    body = body.replace(old, new, 1)
            launches.append(replace(launch, body=body))
        for old, _ in changes:
            assert any(old in launch.body for launch in self.launches), old
        return replace(self, name=name, launches=tuple(launches))

    def source(self):
        """The kernels and their launcher."""
        parts = []
        calls = []
        written = self.outputs.split()
        params = [
            f"{'' if b.name in written else 'const '}{C_TYPES[str(b.dtype)]} *{b.name}"
            for b in self.params
        ]
        for n, launch in enumerate(self.launches):
            number = f"_{n + 1}" if len(self.launches) > 1 else ""
            kernel = f"{self.name}{number}_kernel"
            given = [*(p.replace("*", "*__restrict__ ") for p in params)]
            given += [launch.parameters] if launch.parameters else []
            arguments = [*(b.name for b in self.params)]
            arguments += [launch.arguments] if launch.arguments else []
            x, y, z = launch.block
            parts.append(
                f'extern "C" __global__ void __launch_bounds__({x * y * z}) {kernel}(\n'
                f"    {', '.join(given)}) {{\n{launch.body.strip(chr(10))}\n}}\n"
            )
            calls.append(
                f"    if (!error) error = launch({kernel}, dim3{launch.grid}, dim3{launch.block}, "
                f"{launch.dynamic}, stream, {', '.join(arguments)});\n"
            )
        begin = "reset_status(workspace, stream)" if self.checks else "0"
        end = "error ? error : read_status(workspace, stream)" if self.checks else "error"
        parts.append(
            f'extern "C" int {self.name}_launch(\n'
            f"    {', '.join(params)}, unsigned char *workspace, void *stream) {{\n"
            f"    int error = {begin};\n{''.join(calls)}    return {end};\n}}\n"
        )
        return "\n".join(parts)


def together(texts):
    """One Emitted for each text, all in one source."""
    helpers = "\n".join(dict.fromkeys(t.helpers for t in texts if t.helpers))
    source = "\n".join(['#include "device.h"\n', helpers, *(t.source() for t in texts)])
    target = Target("cuda-emulator")
    made = {}
    for t in texts:
        several = len(t.launches) > 1
        kernels = tuple(
            KernelShape(
                f"{t.name}_{n + 1}_kernel" if several else f"{t.name}_kernel",
                launch.grid,
                launch.block,
                0,
                launch.dynamic,
            )
            for n, launch in enumerate(t.launches)
        )
        made[t.name] = Emitted(
            source=source,
            entry=f"{t.name}_launch",
            params=t.params,
            outputs=frozenset(t.outputs.split()),
            checks=t.checks,
            workspace=t.workspace,
            target=target,
            name=t.name,
            kernels=kernels,
        )
    return made


def marked(source, name, mark):
    """The number of the line of a kernel that has a mark."""
    lines = source.splitlines()
    begin = next(n for n, line in enumerate(lines) if re.search(rf"\b{name}(_1)?_kernel\(", line))
    return next(n for n in range(begin, len(lines)) if lines[n].endswith(f"//{mark}")) + 1


def buffer(name, *shape, dtype="float32"):
    return Buffer(name, shape, DType.of(dtype))


def text(name, params, outputs, body, **how):
    """A text of one kernel."""
    of_text = {key: how.pop(key) for key in ("helpers", "checks", "workspace") if key in how}
    return Text(name, tuple(params), outputs, (Launch(body, **how),), **of_text)


# ---- a tiled matrix product of odd sizes

M, N, K = 37, 29, 41

MATMUL = text(
    "matmul",
    [buffer("A", M, K), buffer("B", K, N), buffer("C", M, N)],
    "C",
    """
    __shared__ __align__(16) float A_shared[256];
    __shared__ __align__(16) float B_shared[256];
    const int i_0 = blockIdx.y;
    const int j_0 = blockIdx.x;
    const int ty = threadIdx.y;
    const int tx = threadIdx.x;
    const int i = i_0 * 16 + ty;
    const int j = j_0 * 16 + tx;
    float C_local[1];
    C_local[0] = 0.0f;
    for (int k_0 = 0; k_0 < 3; ++k_0) {
        const int k = k_0 * 16;
        A_shared[ty * 16 + tx] = i < 37 && k + tx < 41 ? A[i * 41 + k + tx] : 0.0f; //1
        B_shared[ty * 16 + tx] = k + ty < 41 && j < 29 ? B[(k + ty) * 29 + j] : 0.0f;
        __syncthreads(); // first
        #pragma unroll
        for (int k_1 = 0; k_1 < 16; ++k_1) {
            C_local[0] += A_shared[ty * 16 + k_1] * B_shared[k_1 * 16 + tx]; //2
        }
        __syncthreads(); // second
    }
    if (i < 37 && j < 29) {
        C[i * 29 + j] = C_local[0];
    }
""",
    grid=(2, 3, 1),
    block=(16, 16, 1),
)

# ---- reductions

TREE = text(
    "tree",
    [buffer("A", 5, 128), buffer("S", 5)],
    "S",
    """
    __shared__ float held[128];
    const int i = blockIdx.x;
    const int tx = threadIdx.x;
    held[tx] = A[i * 128 + tx]; //1
    __syncthreads(); // first
    for (int half = 64; half > 0; half /= 2) {
        if (tx < half) {
            held[tx] += held[tx + half]; //2
        }
        __syncthreads(); // second
    }
    if (tx == 0) {
        S[i] = held[0];
    }
""",
    grid=(5, 1, 1),
    block=(128, 1, 1),
)

SHUFFLES = text(
    "shuffles",
    [buffer("A", 3, 2, 96), buffer("S", 3, 2)],
    "S",
    """
    __shared__ float parts[6];
    const int i = blockIdx.x;
    const int ty = threadIdx.y;
    const int tx = threadIdx.x;
    float v = A[i * 192 + ty * 96 + tx];
    #pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, v, lanes); //1
        v = v + other;
    }
    if (threadIdx.x % 32 == 0) parts[threadIdx.y * 3 + threadIdx.x / 32] = v;
    __syncthreads();
    v = parts[threadIdx.y * 3 + 0];
    for (int part = 1; part < 3; ++part) {
        const float other = parts[threadIdx.y * 3 + part];
        v = v + other;
    }
    __syncthreads(); // after
    if (tx == 0) {
        S[i * 2 + ty] = v;
    }
""",
    grid=(3, 1, 1),
    block=(96, 2, 1),
)

LANES = text(
    "lanes",
    [buffer("A", 40, dtype="int64"), buffer("B", 7, 40, dtype="int64")],
    "B",
    """
    const int tx = threadIdx.x;
    const int64_t a = A[tx];
    const unsigned mask = tx < 32 ? 0xffffffffu : 0xffu;
    B[tx] = __shfl_sync(mask, a, 3);
    B[40 + tx] = __shfl_up_sync(mask, a, 2);
    B[80 + tx] = __shfl_down_sync(mask, a, 2, 8);
    B[120 + tx] = __shfl_xor_sync(mask, a, 5, 8);
    B[160 + tx] = __shfl_sync(mask, (int)a, 1, 4);
    B[200 + tx] = (int64_t)__shfl_xor_sync(mask, (double)a, 1);
    B[240 + tx] = (int64_t)__shfl_down_sync(mask, (float)a, 8);
""",
    block=(40, 1, 1),
)

WARP = text(
    "warp",
    [buffer("A", 64), buffer("B", 64)],
    "B",
    """
    __shared__ float held[64];
    const int tx = threadIdx.x;
    held[tx] = A[tx]; //1
    __syncwarp();
    B[tx] = held[tx ^ 31]; //2
""",
    block=(64, 1, 1),
)

# ---- much shared memory, vectors, asynchronous copies

DYNAMIC = text(
    "dynamic",
    [buffer("A", 120, 110), buffer("B", 110, 120)],
    "B",
    """
    DYNAMIC_SHARED(shared_memory);
    int *first = (int *)(shared_memory + 0);
    float *A_shared = (float *)(shared_memory + 128);
    const int tx = threadIdx.x;
    if (tx < 32) {
        first[tx] = tx;
    }
    for (int i = 0; i < 120; ++i) {
        if (tx < 110) {
            A_shared[i * 111 + tx] = A[i * 110 + tx]; //1
        }
    }
    __syncthreads(); // first
    for (int j = 0; j < 110; ++j) {
        if (tx < 120) {
            B[j * 120 + tx] = A_shared[tx * 111 + j]; //2
        }
    }
""",
    block=(128, 1, 1),
    dynamic=128 + 4 * 120 * 111,
)

VECTORS = text(
    "vectors",
    [buffer("A", 4, 96), buffer("B", 4, 96), buffer("H", 64, dtype="float16"), buffer("G", 64)],
    "B G",
    """
    __shared__ __align__(16) float A_shared[96];
    const int i = blockIdx.x;
    const int tx = threadIdx.x;
    if (tx < 24) {
        *(int4 *)&A_shared[tx * 4] = *(const int4 *)&A[i * 96 + tx * 4]; //1
    }
    __syncthreads(); // first
    B[i * 96 + tx * 3] = A_shared[tx * 3 + 2]; //2
    *(float *)&B[i * 96 + tx * 3 + 1] = A_shared[tx * 3 + 1];
    B[i * 96 + tx * 3 + 2] = A_shared[tx * 3];
    if (i == 0) {
        __align__(16) uint16_t two[4];
        if (tx < 16) {
            *(int2 *)&two[0] = *(const int2 *)&H[tx * 4];
            float4 four = make_float4(
                float16_to_float(two[3]), float16_to_float(two[2]), float16_to_float(two[1]), 0.5f);
            four.w = float16_to_float(two[0]);
            *(float4 *)&G[tx * 4] = four;
        }
    }
""",
    grid=(4, 1, 1),
)

COPIES = text(
    "copies",
    [buffer("A", 6, 128), buffer("B", 6, 128)],
    "B",
    """
    __shared__ __align__(16) float A_shared[256];
    const int tx = threadIdx.x;
    copy_async16(&A_shared[tx * 4], &A[tx * 4]); //1
    commit_async();
    for (int i = 0; i < 6; ++i) {
        if (i + 1 < 6) {
            copy_async16(&A_shared[(i + 1) % 2 * 128 + tx * 4], &A[(i + 1) * 128 + tx * 4]);
        }
        commit_async();
        wait_async<1>(); // wait
        __syncthreads(); // first
        for (int k = 0; k < 4; ++k) {
            B[i * 128 + k * 32 + tx] = A_shared[i % 2 * 128 + 127 - k * 32 - tx]; //2
        }
        __syncthreads(); // second
    }
""",
)

# ---- tensor cores: 16x16 times 16x8, b by rows (x2 transposed) and by columns

MMA_BODY = """
    __shared__ __align__(16) uint16_t A_shared[16 * 24];
    __shared__ __align__(16) uint16_t B_shared[16 * 8];
    const int tx = threadIdx.x;
    for (int i = 0; i < 8; ++i) {
        A_shared[(i * 2 + tx / 16) * 24 + tx % 16] = A[i * 32 + tx]; //1
    }
    for (int i = 0; i < 4; ++i) {
        B_shared[i * 32 + tx] = B[i * 32 + tx];
    }
    __syncthreads(); // first
    float d[4];
    for (int i = 0; i < 4; ++i) {
        d[i] = C[(tx / 4 + i / 2 * 8) * 8 + tx % 4 * 2 + i % 2];
    }
    uint32_t a[4];
    uint32_t b[2];
    load_matrix_x4(a, &A_shared[tx % 16 * 24 + tx / 16 * 8]); //2
    load_matrix_x2_transposed(b, &B_shared[tx % 16 * 8]);
    mma_m16n8k16_f16(d, a, b); // mma
    for (int i = 0; i < 4; ++i) {
        D[(tx / 4 + i / 2 * 8) * 8 + tx % 4 * 2 + i % 2] = d[i];
    }
"""


def mma(name, dtype, body):
    narrow = [buffer("A", 16, 16, dtype=dtype), buffer("B", 16, 8, dtype=dtype)]
    return text(name, [*narrow, buffer("C", 16, 8), buffer("D", 16, 8)], "D", body)


MMA = mma("mma", "float16", MMA_BODY)
MMA_COLUMNS = mma(
    "mma_columns",
    "bfloat16",
    MMA_BODY.replace(
        "B_shared[i * 32 + tx] = B[i * 32 + tx]",
        "B_shared[tx % 8 * 16 + i * 4 + tx / 8] = B[i * 32 + tx]",
    )
    .replace(
        "load_matrix_x2_transposed(b, &B_shared[tx % 16 * 8])",
        "load_matrix_x2(b, &B_shared[tx % 8 * 16 + tx / 8 % 2 * 8])",
    )
    .replace("_f16(", "_bf16("),
)

# ---- atomics, indices that depend on data, two kernels

HISTOGRAM = text(
    "histogram",
    [
        buffer("A", 4, 64, dtype="int32"),
        buffer("H", 10, dtype="int32"),
        buffer("X", 4, dtype="int32"),
    ],
    "H X",
    """
    __shared__ int bins[10];
    __shared__ int most[1];
    const int i = blockIdx.x;
    const int tx = threadIdx.x;
    if (tx < 10) {
        bins[tx] = 0;
    }
    if (tx == 10) {
        most[0] = 0;
    }
    __syncthreads(); // first
    atomicAdd(&bins[A[i * 64 + tx]], 1); //1
    atomicMax(&most[0], A[i * 64 + tx]);
    __syncthreads(); // second
    if (tx < 10) {
        atomicAdd(&H[tx], bins[tx]); //2
    }
    if (tx == 0) {
        X[i] = most[0];
    }
""",
    grid=(4, 1, 1),
    block=(64, 1, 1),
)
HISTOGRAM = replace(
    HISTOGRAM,
    launches=(Launch("    H[threadIdx.x] = 0;", block=(10, 1, 1)), *HISTOGRAM.launches),
)

CHECK_INDEX = """\
static __device__ __forceinline__ int64_t check_index(
    int64_t i, int64_t extent, int *status, int check) {
    if ((uint64_t)i < (uint64_t)extent) return i;
    atomicExch(status, check);
    return 0;
}
"""

GATHER = text(
    "gather",
    [buffer("A", 10), buffer("I", 64, dtype="int32"), buffer("B", 64)],
    "B",
    """
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    B[bx * 32 + tx] = A[check_index((int64_t)I[bx * 32 + tx], 10, status, 2)];
""",
    grid=(2, 1, 1),
    arguments="(int *)workspace",
    parameters="int *status",
    helpers=CHECK_INDEX,
    checks=("the first", "I is no index of A"),
    workspace=256,
)

TWO = Text(
    "two",
    (buffer("A", 128), buffer("B", 128)),
    "B",
    (
        Launch(
            "    const int i = blockIdx.x * 32 + threadIdx.x;\n    held[i] = A[i] + 1.0f; //1",
            grid=(4, 1, 1),
            arguments="(float *)(workspace + 256)",
            parameters="float *__restrict__ held",
        ),
        Launch(
            "    B[threadIdx.x] = held[127 - threadIdx.x] * 2.0f; //2",
            block=(128, 1, 1),
            arguments="(float *)(workspace + 256)",
            parameters="float *__restrict__ held",
        ),
    ),
    workspace=768,
)

CORRECT = (
    *(MATMUL, TREE, SHUFFLES, LANES, WARP, DYNAMIC, VECTORS, COPIES, MMA, MMA_COLUMNS),
    *(HISTOGRAM, GATHER, TWO),
)
