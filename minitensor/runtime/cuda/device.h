// What every emitted CUDA text includes. nvcc gets CUDA itself, and inline functions for what CUDA
// has only as instructions; any other C++ compiler gets the same names from emulator.h.
//
// The instructions are those of the PTX ISA (sections cvt, cp.async, mma, ldmatrix), from sm_80 on.
// Texts for a GPU before that have none of them but the conversions.

#pragma once

#ifndef __CUDACC__
#include "emulator.h"
#else

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

// ---- launching

#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

template <class T>
struct Exactly {
    typedef T type;
};

// Start a kernel; returns 0, or -e for error e of the CUDA runtime. (`Exactly` keeps the types of
// the arguments from being deduced: they are converted to those of the parameters.)
template <class... P>
int launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t dynamic_shared_bytes, void *stream,
           typename Exactly<P>::type... arguments) {
    if (dynamic_shared_bytes > 48 * 1024) {
        cudaError_t error = cudaFuncSetAttribute(
            (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
            (int)dynamic_shared_bytes);
        if (error != cudaSuccess) return -(int)error;
    }
    void *pointers[] = {(void *)&arguments..., nullptr};
    return -(int)cudaLaunchKernel((const void *)kernel, grid, block, pointers,
                                  dynamic_shared_bytes, (cudaStream_t)stream);
}

// The status word: the first bytes of the workspace, where a kernel notes a check that failed.
inline int reset_status(unsigned char *workspace, void *stream) {
    return -(int)cudaMemsetAsync(workspace, 0, sizeof(int), (cudaStream_t)stream);
}

inline int read_status(unsigned char *workspace, void *stream) {
    int status = 0;
    cudaError_t error = cudaMemcpyAsync(&status, workspace, sizeof status, cudaMemcpyDeviceToHost,
                                        (cudaStream_t)stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize((cudaStream_t)stream);
    return error == cudaSuccess ? status : -(int)error;
}

// ---- narrow floats, as their bits

static __device__ __forceinline__ float float16_to_float(uint16_t x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

static __device__ __forceinline__ uint16_t float_to_float16(float x) {
    uint16_t y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

static __device__ __forceinline__ uint16_t double_to_float16(double x) {
    uint16_t y;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y) : "d"(x));
    return y;
}

static __device__ __forceinline__ float bfloat16_to_float(uint16_t x) {
    return __uint_as_float((uint32_t)x << 16);
}

static __device__ __forceinline__ uint16_t float_to_bfloat16(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    unsigned bits = __float_as_uint(x);
    if (x != x) return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#else
    uint16_t y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
#endif
}

// By way of a float that is rounded to odd, which leaves the second rounding right (Boldo and
// Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd").
static __device__ __forceinline__ uint16_t double_to_bfloat16(double x) {
    float near = __double2float_rz(x);
    bool exact = (double)near == x || x != x;
    return float_to_bfloat16(exact ? near : __uint_as_float(__float_as_uint(near) | 1));
}

// ---- asynchronous copies to shared memory

static __device__ __forceinline__ uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

#define COPY_ASYNC(bytes, cache)                                                                  \
    static __device__ __forceinline__ void copy_async##bytes(void *shared, const void *global) {  \
        asm volatile("cp.async." cache ".shared.global [%0], [%1], " #bytes                       \
                     ";" ::"r"(shared_address(shared)),                                           \
                     "l"(__cvta_generic_to_global(global))                                        \
                     : "memory");                                                                 \
    }

COPY_ASYNC(4, "ca")
COPY_ASYNC(8, "ca")
COPY_ASYNC(16, "cg")

static __device__ __forceinline__ void commit_async() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Wait until at most N groups of this thread's copies are under way.
template <int N>
static __device__ __forceinline__ void wait_async() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// ---- tensor cores: d += a b for tiles of 16x16 and 16x8, each warp's registers holding them

#define MMA(name, type)                                                                           \
    static __device__ __forceinline__ void name(float (&d)[4], const uint32_t (&a)[4],            \
                                                const uint32_t (&b)[2]) {                         \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "               \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"            \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                             \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));         \
    }
MMA(mma_m16n8k16_f16, "f16")
MMA(mma_m16n8k16_bf16, "bf16")
#undef MMA

// Load 8x8 matrices of 16-bit elements from shared memory; lane i gives the address of row i.
#define LOAD_MATRIX_X4(name, order)                                                               \
    static __device__ __forceinline__ void name(uint32_t (&r)[4], const void *row) {              \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" order ".shared.b16 {%0, %1, %2, %3}, [%4];"  \
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                             \
                     : "r"(shared_address(row))                                                   \
                     : "memory");                                                                 \
    }
#define LOAD_MATRIX_X2(name, order)                                                               \
    static __device__ __forceinline__ void name(uint32_t (&r)[2], const void *row) {              \
        asm volatile("ldmatrix.sync.aligned.m8n8.x2" order ".shared.b16 {%0, %1}, [%2];"          \
                     : "=r"(r[0]), "=r"(r[1])                                                     \
                     : "r"(shared_address(row))                                                   \
                     : "memory");                                                                 \
    }
LOAD_MATRIX_X4(load_matrix_x4, "")
LOAD_MATRIX_X4(load_matrix_x4_transposed, ".trans")
LOAD_MATRIX_X2(load_matrix_x2, "")
LOAD_MATRIX_X2(load_matrix_x2_transposed, ".trans")
#undef LOAD_MATRIX_X4
#undef LOAD_MATRIX_X2

#endif
