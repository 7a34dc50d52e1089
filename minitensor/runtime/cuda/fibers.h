// Fibers: stacks of their own for code that runs in turns, on one thread of the system.
//
// A switch saves the registers that a function must keep (System V ABI of x86-64, AAPCS64 of ARM),
// 2 ns; elsewhere ucontext.h does it, with two calls of the system.

#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum : size_t {
    STACK = 1 << 20,  // bytes of address space; memory is only what a fiber touches
    COLOURS = 16,     // tops of stacks start at different lines of the first-level cache
    COLOUR = 256,
};

#if !defined(FIBERS_BY_UCONTEXT) && (defined(__x86_64__) || defined(__aarch64__))

typedef void *Fiber;  // the stack pointer; the registers lie there

extern "C" void fibers_switch(Fiber *from, Fiber to);

#ifdef __x86_64__
enum { SAVED = 6, ENTRY = 6, FRAME = 8 };  // words; one more than the entry keeps calls aligned
asm(R"(
    .text
    .p2align 4
fibers_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
#else
enum { SAVED = 20, ENTRY = 11, FRAME = 20 };  // x19 to x30 (which is the entry), d8 to d15
asm(R"(
    .text
    .p2align 4
fibers_switch:
    sub sp, sp, #160
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
#endif

// Prepare a fiber whose first switch calls `entry`, which must not return.
static void fiber_start(Fiber *fiber, char *top, void (*entry)(void)) {
    uintptr_t *frame = (uintptr_t *)top - FRAME;
    memset(frame, 0, FRAME * sizeof *frame);
    frame[ENTRY] = (uintptr_t)entry;
    *fiber = frame;
}

#else

#include <ucontext.h>
typedef ucontext_t Fiber;

static void fibers_switch(Fiber *from, Fiber &to) { swapcontext(from, &to); }

static void fiber_start(Fiber *fiber, char *top, void (*entry)(void)) {
    getcontext(fiber);
    fiber->uc_stack.ss_sp = top - (STACK - COLOURS * COLOUR - 4096);
    fiber->uc_stack.ss_size = STACK - COLOURS * COLOUR - 4096;
    fiber->uc_link = NULL;
    makecontext(fiber, entry, 0);
}

#endif

// Stacks for `count` fibers, each with a page below it that nothing can touch; NULL without memory.
static char *stacks_made(size_t count) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *made = mmap(NULL, count * STACK, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (made == MAP_FAILED) return NULL;
    for (size_t i = 0; i < count; ++i) mprotect((char *)made + i * STACK, 4096, PROT_NONE);
    return (char *)made;
}

static char *top_of_stack(char *stacks, size_t number) {
    return stacks + (number + 1) * STACK - number % COLOURS * COLOUR;
}
