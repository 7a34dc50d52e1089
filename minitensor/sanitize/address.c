// What a kernel built with AddressSanitizer calls: temporaries in its scratch memory are distinguished.
//
// Scratch memory is one piece to AddressSanitizer. Here all of it is poisoned before the kernel runs,
// and each temporary made accessible while it is used; between them lie gaps. In a report it says
// which memory was in use, for the text alone to tell the name of a buffer.

#include <sanitizer/asan_interface.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum { MOST_MEMORIES = 1024 };

typedef struct {
    uint64_t number, start, end;
} Memory;

static Memory memories[MOST_MEMORIES];
static int memories_count;
static uint64_t scratch_start, scratch_end;

static void remember(uint64_t number, uint64_t start, uint64_t end) {
    int count = __atomic_load_n(&memories_count, __ATOMIC_RELAXED);
    for (int i = 0; i < count && i < MOST_MEMORIES; ++i)
        if (memories[i].number == number && memories[i].start == start) return;
    int mine = __atomic_fetch_add(&memories_count, 1, __ATOMIC_RELAXED);
    if (mine < MOST_MEMORIES) memories[mine] = (Memory){number, start, end};
}

static int in_scratch(uint64_t address) {
    return address >= scratch_start && address < scratch_end;
}

static void on_error(const char *report) {
    (void)report;
    char line[96];
    for (int i = 0; i < memories_count && i < MOST_MEMORIES; ++i) {
        int length = snprintf(line, sizeof line, "checked memory %llu is [0x%llx,0x%llx)\n",
                              (unsigned long long)memories[i].number,
                              (unsigned long long)memories[i].start,
                              (unsigned long long)memories[i].end);
        if (write(2, line, (size_t)length) < 0) return;
    }
}

void checked_loop(int number) { (void)number; }
void checked_iteration(int64_t iteration) { (void)iteration; }
void checked_end(void) {}

void checked_memory(int number, void *start, size_t bytes) {
    uint64_t address = (uint64_t)(uintptr_t)start;
    if (!in_scratch(address)) return;  // on the stack, which the compiler looks after
    __asan_unpoison_memory_region(start, bytes);
    remember((uint64_t)number, address, address + bytes);
}

void checked_gone(int number, void *start, size_t bytes) {
    (void)number;
    if (in_scratch((uint64_t)(uintptr_t)start)) __asan_poison_memory_region(start, bytes);
}

// `given` is the number of parameters, the start and end of each, then those of scratch memory.
int address_start(const uint64_t *given) {
    memories_count = 0;
    for (uint64_t i = 0; i < given[0]; ++i) remember(i, given[2 * i + 1], given[2 * i + 2]);
    scratch_start = given[2 * given[0] + 1];
    scratch_end = given[2 * given[0] + 2];
    __asan_poison_memory_region((void *)(uintptr_t)scratch_start, scratch_end - scratch_start);
    __asan_set_error_report_callback(on_error);
    return 0;
}

int address_finish(const uint64_t *nothing) {
    (void)nothing;
    __asan_unpoison_memory_region((void *)(uintptr_t)scratch_start, scratch_end - scratch_start);
    scratch_start = scratch_end = 0;
    return 0;
}
