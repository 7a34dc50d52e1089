// Accesses to guard pages: where they were, without ending the process.
//
// The handler notes the address, opens the page, and returns: the access is done again, and the
// kernel runs on to its end. So one run tells all that it did wrong, and the caller of the kernel,
// on however many threads, lives on. Any other fault goes to the handler that was there before.

#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__linux__)
#include <ucontext.h>
#endif

enum { MOST_FAULTS = 256, READS = 0, WRITES = 1, UNKNOWN = -1 };

// Guard pages lie in [before, start) and [end, after).
typedef struct {
    uint64_t before, start, end, after;
} Region;

typedef struct {
    int64_t region, address, access;
} Found;

static Region *regions;
static uint64_t regions_count;
static Found found[MOST_FAULTS];
static int found_count;
static struct sigaction earlier_segv, earlier_bus;

static int access_of(const void *context) {
#if defined(__x86_64__) && defined(__linux__)
    return ((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2 ? WRITES : READS;
#else
    (void)context;
    return UNKNOWN;
#endif
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    uint64_t address = (uint64_t)(uintptr_t)info->si_addr, page = (uint64_t)getpagesize();
    for (uint64_t i = 0; i < regions_count; ++i) {
        const Region r = regions[i];
        int below = address >= r.before && address < r.start;
        if (!below && (address < r.end || address >= r.after)) continue;
        int n = __atomic_fetch_add(&found_count, 1, __ATOMIC_RELAXED);
        if (n < MOST_FAULTS) {
            found[n] = (Found){(int64_t)i, (int64_t)address, access_of(context)};
            mprotect((void *)(uintptr_t)(address & ~(page - 1)), page, PROT_READ | PROT_WRITE);
        } else {
            uint64_t from = below ? r.before : r.end, to = below ? r.start : r.after;
            mprotect((void *)(uintptr_t)from, to - from, PROT_READ | PROT_WRITE);
        }
        return;
    }
    sigaction(signal, signal == SIGBUS ? &earlier_bus : &earlier_segv, NULL);
}

// Watch: `given` is the number of regions, then the four bounds of each.
int guards_start(const uint64_t *given) {
    regions_count = 0;
    found_count = 0;
    free(regions);
    regions = malloc(given[0] * sizeof *regions + 1);
    if (regions == NULL) return -1;
    memcpy(regions, given + 1, given[0] * sizeof *regions);
    regions_count = given[0];
    struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, &ours, &earlier_bus);
    return sigaction(SIGSEGV, &ours, &earlier_segv);
}

// End: how many faults are in `to` now (room for 256 of 3 numbers).
int guards_finish(Found *to) {
    sigaction(SIGBUS, &earlier_bus, NULL);
    sigaction(SIGSEGV, &earlier_segv, NULL);
    int count = found_count < MOST_FAULTS ? found_count : MOST_FAULTS;
    memcpy(to, found, (size_t)count * sizeof *to);
    regions_count = 0;
    return count;
}
