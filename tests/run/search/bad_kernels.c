// Kernels `B = 2 * A` of 4096 floats, and what may go wrong with one: a search must outlive them.
// Functions named ok_… are right, each some times slower than the last; those named fast_… are
// faster than any right one.

#define _GNU_SOURCE
#include <fcntl.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N = 4096 };

static int twice(const float *A, float *B, int n) {
    for (int i = 0; i < n; i++) B[i] = A[i] * 2;
    return 0;
}

#define KERNEL(name) int name(const float *A, float *B, void *workspace)

// The right ones: the first is clearly the fastest.
static void dawdle(int times) {
    for (volatile int i = 0; i < times * 4000; i++) {}
}
KERNEL(ok_0) { return twice(A, B, N); }
KERNEL(ok_1) { dawdle(8); return twice(A, B, N); }
KERNEL(ok_2) { dawdle(32); return twice(A, B, N); }
KERNEL(ok_3) { dawdle(128); return twice(A, B, N); }

// Ends
KERNEL(crashes) { *(volatile int *)8 = 1; return 0; }
KERNEL(aborts) { abort(); }
KERNEL(exits) { exit(0); }
KERNEL(divides) { volatile int zero = 0; volatile int many = 1000; return many / zero; }
static int deeper(volatile char *above) {
    volatile char here[1 << 16];
    here[0] = above[0];
    return deeper(here) + here[1];
}
KERNEL(overflows_the_stack) { volatile char c = 1; return deeper(&c); }

// Does not end
KERNEL(hangs) { for (volatile int i = 0;; i++) {} }
KERNEL(stops) { raise(SIGSTOP); return twice(A, B, N); }

// Starts others
KERNEL(forks) {
    for (int i = 0; i < 12; i++)
        if (fork() == 0) for (;;) pause();
    return twice(A, B, N);
}
KERNEL(forks_away) {
    if (fork() == 0) {
        setsid();
        if (fork() == 0) for (;;) pause();
        _exit(0);
    }
    return twice(A, B, N);
}
KERNEL(forks_and_dies) {
    if (fork() == 0) {
        setsid();
        for (;;) sleep(1000);
    }
    abort();
}

// Touches what is not its own
KERNEL(writes_beyond) { return twice(A, B, N + 1); }
KERNEL(reads_beyond) { return twice(A, B, N) + 0 * (int)((volatile const float *)A)[N]; }
KERNEL(changes_its_input) { twice(A, B, N); ((float *)A)[7] = 3; return 0; }

// Computes something else
KERNEL(fast_nan) { for (int i = 0; i < N; i++) B[i] = NAN; return 0; }
KERNEL(fast_incomplete) { return twice(A, B, N - 1); }
KERNEL(fast_nothing) { return 0; }
KERNEL(fast_wrong) { memset(B, 0, N * sizeof *B); return 0; }
KERNEL(fast_once) {
    static int calls;
    return calls++ ? 0 : twice(A, B, N);
}
KERNEL(rounds_up) { fesetround(FE_UPWARD); return twice(A, B, N); }

// Takes much
KERNEL(allocates) {
    for (;;) {
        char *p = malloc(32 << 20);
        if (p == NULL) abort();
        memset(p, 1, 32 << 20);
    }
}
KERNEL(writes_a_file) {
    int file = open("much", O_CREAT | O_WRONLY, 0600);
    static char much[1 << 20];
    for (int i = 0; i < 64; i++)
        if (write(file, much, sizeof much) < (long)sizeof much) abort();
    return twice(A, B, N);
}

// Talks
KERNEL(prints) {
    for (int i = 0; i < 10000; i++) puts("{\"status\": 0, \"hits\": [], \"steady\": true}");
    fflush(stdout);
    if (write(1, "x", 1) < 0) abort();
    return twice(A, B, N - 1);
}
KERNEL(garbles) {
    const char line[] = "no message\n";
    for (int file = 3; file < 64; file++)
        if (write(file, line, sizeof line - 1) < 0) continue;
    return twice(A, B, N);
}
KERNEL(closes) {
    for (int file = 0; file < 256; file++) close(file);
    return twice(A, B, N);
}
KERNEL(returns_a_check) { return 3; }
KERNEL(kills_its_parent) { kill(getppid(), SIGKILL); for (;;) pause(); }
KERNEL(stops_its_parent) { kill(getppid(), SIGSTOP); for (;;) pause(); }
