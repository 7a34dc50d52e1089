// CUDA for a C++ compiler of the CPU: the names that emitted texts use, beside those of device.h.
//
// A text is compiled as it is, and linked with emulator.cpp, which runs each thread of a block as a
// fiber. What the threads of a block or a warp do together is a call of emulator.cpp; so is each
// access to memory in a text that is compiled with `-fsanitize=thread`, to check or to count it.
// Only headers of the C library are used.

#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// ---- words of the language

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

// A shared array is static, in a section of its own with a gap in front: an access beside it meets
// no other array. `used`: a fiber writes what another reads, which a compiler cannot see.
#define IN_SHARED static __attribute__((section("shared"), used, no_reorder, aligned(16)))
#define GAP_NAME(number) gap_##number
#define GAP(number) unsigned char GAP_NAME(number)[256]
#define __shared__ IN_SHARED GAP(__COUNTER__); IN_SHARED
#define DYNAMIC_SHARED(name) unsigned char *const name = emulator_dynamic_shared()
extern "C" unsigned char __start_shared[] __attribute__((weak, visibility("hidden")));
extern "C" unsigned char __stop_shared[] __attribute__((weak, visibility("hidden")));

#define NOT_WATCHED __attribute__((no_sanitize("thread")))
#define ON_ITS_OWN __attribute__((noinline, unused, no_sanitize("thread")))

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

#define VECTOR(type, scalar, bytes, parameters, members, values)             \
    struct __attribute__((aligned(bytes), may_alias)) type {                 \
        scalar members;                                                      \
    };                                                                       \
    static inline type make_##type parameters { return type{values}; }
#define TWO x, y
#define FOUR x, y, z, w
VECTOR(int2, int, 8, (int x, int y), TWO, TWO)
VECTOR(int4, int, 16, (int x, int y, int z, int w), FOUR, FOUR)
VECTOR(float2, float, 8, (float x, float y), TWO, TWO)
VECTOR(float4, float, 16, (float x, float y, float z, float w), FOUR, FOUR)
#undef VECTOR
#undef TWO
#undef FOUR

// ---- emulator.cpp

#ifndef EMULATOR_ITSELF
#define CONST_FOR_TEXTS const  // they keep it over calls: a fiber's index never changes
#else
#define CONST_FOR_TEXTS
#endif

extern "C" {
extern CONST_FOR_TEXTS uint3 threadIdx, blockIdx;
extern CONST_FOR_TEXTS dim3 blockDim, gridDim;

int emulator_launch(const void *kernel, void (*thread)(void *), void *arguments, const dim3 *grid,
                    const dim3 *block, size_t dynamic, unsigned char *start, unsigned char *stop);
int emulator_reset_status(unsigned char *workspace);
int emulator_read_status(const unsigned char *workspace);
unsigned char *emulator_dynamic_shared(void);

void emulator_barrier(int line);
void emulator_warp_barrier(unsigned mask, int line);
uint64_t emulator_shuffle(unsigned mask, uint64_t value, int from, int line);
int emulator_lane(void);
void emulator_mma(float *d, const uint32_t *a, const uint32_t *b, int bfloat16, int line);
void emulator_load_matrix(uint32_t *r, const void *row, int matrices, int transposed, int line,
                          const void *site);

void emulator_atomic(void *p, size_t bytes, int reads, const void *site);
void emulator_copy_async(void *shared, const void *global, int bytes, const void *site);
void emulator_commit_async(void);
void emulator_wait_async(int groups);
}

// ---- launching

template <class T>
struct Exactly {
    typedef T type;
};

template <class... P>
int launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t dynamic_shared_bytes, void *,
           typename Exactly<P>::type... arguments) {
    auto thread = [=]() NOT_WATCHED { kernel(arguments...); };
    auto start = [](void *p) NOT_WATCHED { (*(decltype(thread) *)p)(); };
    return emulator_launch((const void *)kernel, start, &thread, &grid, &block,
                           dynamic_shared_bytes, __start_shared, __stop_shared);
}

static inline int reset_status(unsigned char *workspace, void *) {
    return emulator_reset_status(workspace);
}

static inline int read_status(unsigned char *workspace, void *) {
    return emulator_read_status(workspace);
}

// ---- threads together. A place is a line of the text: a compiler may make several calls of one.

static inline void __syncthreads(int line = __builtin_LINE()) { emulator_barrier(line); }

static inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
    emulator_warp_barrier(mask, line);
}

template <class T>
static inline T shuffled(unsigned mask, T value, int from, int line) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles are of 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = emulator_shuffle(mask, bits, from, line);
    memcpy(&value, &bits, sizeof value);
    return value;
}

// A lane outside the lane's part of the warp (`width` lanes, a power of two) is the lane itself.
#define SHUFFLE(name, parameter, source, is_inside)                                            \
    template <class T>                                                                         \
    static inline T name(unsigned mask, T value, parameter, int width = 32,                    \
                         int line = __builtin_LINE()) {                                        \
        int lane = emulator_lane(), first = lane & -width, from = (source);                    \
        (void)first;                                                                           \
        return shuffled(mask, value, (is_inside) ? from : lane, line);                         \
    }
SHUFFLE(__shfl_sync, int source, first + (source & (width - 1)), true)
SHUFFLE(__shfl_up_sync, unsigned delta, lane - (int)delta, from >= first)
SHUFFLE(__shfl_down_sync, unsigned delta, lane + (int)delta, from < first + width)
SHUFFLE(__shfl_xor_sync, int bits, lane ^ bits, from < first + width)
#undef SHUFFLE

// ---- atomics: each a function of its own, so that the site of its access is in the text

#define ATOMIC(name, reads, new_value)                                                         \
    template <class T>                                                                         \
    static ON_ITS_OWN T name(T *p, typename Exactly<T>::type value) {                          \
        emulator_atomic(p, sizeof *p, reads, __builtin_return_address(0));                     \
        T old = *p;                                                                            \
        *p = new_value;                                                                        \
        return old;                                                                            \
    }
ATOMIC(atomicAdd, 1, old + value)
ATOMIC(atomicMax, 1, old < value ? value : old)
ATOMIC(atomicMin, 1, value < old ? value : old)
ATOMIC(atomicExch, 0, value)
#undef ATOMIC

// ---- numbers

#define EXTREMES(type, largest, smallest)                               \
    static inline type max(type a, type b) { return largest; }          \
    static inline type min(type a, type b) { return smallest; }
EXTREMES(int, a < b ? b : a, b < a ? b : a)
EXTREMES(unsigned, a < b ? b : a, b < a ? b : a)
EXTREMES(long, a < b ? b : a, b < a ? b : a)
EXTREMES(unsigned long, a < b ? b : a, b < a ? b : a)
EXTREMES(long long, a < b ? b : a, b < a ? b : a)
EXTREMES(unsigned long long, a < b ? b : a, b < a ? b : a)
EXTREMES(float, fmaxf(a, b), fminf(a, b))
EXTREMES(double, fmax(a, b), fmin(a, b))
#undef EXTREMES

// Built with -ffp-contract=off: nothing is fused.
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }

#define SAME_BITS(name, from, to)                        \
    static inline to name(from x) {                      \
        to y;                                            \
        memcpy(&y, &x, sizeof y);                        \
        return y;                                        \
    }
SAME_BITS(__float_as_int, float, int)
SAME_BITS(__float_as_uint, float, unsigned)
SAME_BITS(__int_as_float, int, float)
SAME_BITS(__uint_as_float, unsigned, float)
SAME_BITS(__double_as_longlong, double, long long)
SAME_BITS(__longlong_as_double, long long, double)
#undef SAME_BITS

// ---- narrow floats, as their bits. A NaN becomes the one NaN that `cvt` of the PTX ISA gives.

static inline float float16_to_float(uint16_t x) {
    unsigned sign = (x & 0x8000u) << 16, rest = x & 0x7fffu;
    if (rest > 0x7c00) return __uint_as_float(0x7fffffff);
    if (rest == 0x7c00) return __uint_as_float(sign | 0x7f800000);
    if (rest < 0x0400) return __uint_as_float(sign | __float_as_uint((float)rest * 0x1p-24f));
    return __uint_as_float(sign | ((rest << 13) + (112u << 23)));
}

static inline uint16_t float_to_float16(float x) {
    unsigned bits = __float_as_uint(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return 0x7fff;
    if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00);  // from 65520 on: infinity
    if (size < 0x38800000) {  // subnormal: the last bit of a float near 0.5 stands for 2^-24
        unsigned rounded = __float_as_uint(__uint_as_float(size) + 0.5f);
        return (uint16_t)(sign | (rounded - 0x3f000000));
    }
    size += 0xfff + (size >> 13 & 1);
    return (uint16_t)(sign | (size - 0x38000000) >> 13);
}

static inline float bfloat16_to_float(uint16_t x) { return __uint_as_float((unsigned)x << 16); }

static inline uint16_t float_to_bfloat16(float x) {
    unsigned bits = __float_as_uint(x);
    if (x != x) return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// The float nearest to zero of the two around a double, with its last bit set unless it is equal:
// rounding that once more gives what rounding the double once would have.
static inline float rounded_to_odd(double x) {
    float near = (float)x;
    if ((double)near == x || x != x) return near;
    unsigned bits = __float_as_uint(near);
    if (fabs((double)near) > fabs(x)) --bits;
    return __uint_as_float(bits | 1);
}

static inline uint16_t double_to_float16(double x) { return float_to_float16(rounded_to_odd(x)); }
static inline uint16_t double_to_bfloat16(double x) { return float_to_bfloat16(rounded_to_odd(x)); }

// ---- asynchronous copies to shared memory, and tensor cores: see device.h

static ON_ITS_OWN void copy_async4(void *shared, const void *global) {
    emulator_copy_async(shared, global, 4, __builtin_return_address(0));
}
static ON_ITS_OWN void copy_async8(void *shared, const void *global) {
    emulator_copy_async(shared, global, 8, __builtin_return_address(0));
}
static ON_ITS_OWN void copy_async16(void *shared, const void *global) {
    emulator_copy_async(shared, global, 16, __builtin_return_address(0));
}

static inline void commit_async() { emulator_commit_async(); }

template <int N>
static inline void wait_async() {
    emulator_wait_async(N);
}

static inline void mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                    int line = __builtin_LINE()) {
    emulator_mma(d, a, b, 0, line);
}

static inline void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                     int line = __builtin_LINE()) {
    emulator_mma(d, a, b, 1, line);
}

#define LOAD_MATRIX(name, matrices, transposed)                                                 \
    static ON_ITS_OWN void name(uint32_t (&r)[matrices], const void *row,                       \
                                int line = __builtin_LINE()) {                                  \
        emulator_load_matrix(r, row, matrices, transposed, line, __builtin_return_address(0));  \
    }
LOAD_MATRIX(load_matrix_x4, 4, 0)
LOAD_MATRIX(load_matrix_x4_transposed, 4, 1)
LOAD_MATRIX(load_matrix_x2, 2, 0)
LOAD_MATRIX(load_matrix_x2_transposed, 2, 1)
#undef LOAD_MATRIX
