// What a race-checked kernel calls: the hooks of its text, and a call for each access to memory that
// `-fsanitize=thread` puts in. libtsan is not linked; this file stands in for it.
//
// The kernel runs on one thread, iteration after iteration. Each iteration of a parallel loop counts
// as a thread of its own: it races with another if both touch a byte and one of them writes it.
// For each byte it is enough to know the first iteration of this loop that read it, and the first
// that wrote it: an earlier toucher than the running one exists exactly if the first one is earlier.
//
// Not for several threads at a time: the caller holds a lock.

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// ---- shadow memory: who touched a byte first

// Iterations are numbered on from loop to loop, so that a number below `base`, the number of the
// first iteration of this loop, means none: a new loop clears nothing. (2^31 iterations at most.)

enum { PAGE_BITS = 12, PAGE = 1 << PAGE_BITS, CACHED = 64 };

typedef struct {
    uintptr_t number;  // address / PAGE
    int shift;         // a cell stands for 1 << shift bytes; 2 until something smaller is touched
    uint32_t *wrote;   // for each cell, the first iteration that wrote it
    uint32_t *read;    // ... that read it
} Page;

static Page **pages;                // a hash table; its size is a power of two
static size_t pages_size, pages_used;
static Page *cached[CACHED];
static uint32_t base = 1, now, next = 1;
static int in_iteration, out_of_memory;

static size_t slot_of(Page **table, size_t size, uintptr_t number) {
    size_t slot = (size_t)((uint64_t)number * 0x9e3779b97f4a7c15ull >> 20) & (size - 1);
    while (table[slot] != NULL && table[slot]->number != number) slot = (slot + 1) & (size - 1);
    return slot;
}

static int make_room(void) {
    if (2 * pages_used < pages_size) return 1;
    size_t size = pages_size ? 2 * pages_size : 1024;
    Page **table = calloc(size, sizeof *table);
    if (table == NULL) return 0;
    for (size_t i = 0; i < pages_size; ++i)
        if (pages[i] != NULL) table[slot_of(table, size, pages[i]->number)] = pages[i];
    free(pages);
    pages = table;
    pages_size = size;
    return 1;
}

static Page *page_made(uintptr_t number) {
    Page *page = calloc(1, sizeof *page);
    if (page != NULL) {
        *page = (Page){number, 2, calloc(PAGE >> 1, sizeof(uint32_t)), NULL};
        page->read = page->wrote + (PAGE >> 2);
        if (page->wrote != NULL) return page;
    }
    free(page);
    return NULL;
}

static Page *page_of(uintptr_t number, int make) {
    Page *page = cached[number % CACHED];
    if (page != NULL && page->number == number) return page;
    if (pages_size == 0 && (!make || !make_room())) return NULL;
    page = pages[slot_of(pages, pages_size, number)];
    if (page == NULL) {
        if (!make) return NULL;
        page = make_room() ? page_made(number) : NULL;
        if (page == NULL) {
            out_of_memory = 1;
            return NULL;
        }
        pages[slot_of(pages, pages_size, number)] = page;
        ++pages_used;
    }
    return cached[number % CACHED] = page;
}

// From here on a cell of the page stands for one byte.
static int split_cells(Page *page) {
    uint32_t *cells = malloc(2 * PAGE * sizeof *cells);
    if (cells == NULL) return 0;
    for (size_t i = 0; i < PAGE; ++i) {
        cells[i] = page->wrote[i >> page->shift];
        cells[PAGE + i] = page->read[i >> page->shift];
    }
    free(page->wrote);
    page->wrote = cells;
    page->read = cells + PAGE;
    page->shift = 0;
    return 1;
}

static void forget_all(void) {
    for (size_t i = 0; i < pages_size; ++i) {
        if (pages[i] == NULL) continue;
        free(pages[i]->wrote);
        free(pages[i]);
    }
    free(pages);
    pages = NULL;
    pages_size = pages_used = 0;
    memset(cached, 0, sizeof cached);
}

// ---- memory that has a name, and races in it

typedef struct {
    uintptr_t start, end;
    uint64_t since;  // the later of two that overlap is in use
} Memory;

typedef struct {
    int64_t loop, memory, offset, first, second, first_writes, second_writes;
} Race;

enum { UNKNOWN = -1, MOST_RACES = 256 };

static Memory *memories;
static size_t memories_size;
static uint64_t told;
static int64_t loop;
static Race races[MOST_RACES];
static int races_found;

static int name_memory(size_t number, uintptr_t start, uintptr_t end) {
    if (number >= memories_size) {
        size_t size = 2 * number + 16;
        Memory *grown = realloc(memories, size * sizeof *grown);
        if (grown == NULL) return 0;
        memset(grown + memories_size, 0, (size - memories_size) * sizeof *grown);
        memories = grown;
        memories_size = size;
    }
    memories[number] = (Memory){start, end, ++told};
    return 1;
}

static int64_t memory_at(uintptr_t address) {
    int64_t found = UNKNOWN;
    for (size_t i = 0; i < memories_size; ++i) {
        if (address < memories[i].start || address >= memories[i].end) continue;
        if (found == UNKNOWN || memories[i].since > memories[found].since) found = (int64_t)i;
    }
    return found;
}

// Kept is the first race of each loop, memory, and pair of what the two do.
static void report(uintptr_t address, uint32_t other, int other_writes, int writes) {
    int64_t memory = memory_at(address);
    for (int i = 0; i < races_found; ++i)
        if (races[i].loop == loop && races[i].memory == memory &&
            races[i].first_writes == other_writes && races[i].second_writes == writes)
            return;
    if (races_found == MOST_RACES) return;
    int64_t offset = (int64_t)(memory == UNKNOWN ? address : address - memories[memory].start);
    races[races_found++] =
        (Race){loop, memory, offset, other - base, now - base, other_writes, writes};
}

// ---- accesses

static void touch(Page *page, uint32_t from, uint32_t to, int writes) {
    const uint32_t first = base, it = now - base;
    uint32_t *wrote = page->wrote, *read = page->read, *mine = writes ? wrote : read;
    uint32_t conflicts = 0;
    if (writes)
        for (uint32_t i = from; i < to; ++i)
            conflicts |= (wrote[i] - first < it) | (read[i] - first < it);
    else
        for (uint32_t i = from; i < to; ++i) conflicts |= wrote[i] - first < it;
    if (conflicts) {
        for (uint32_t i = from; i < to; ++i) {
            uintptr_t address = (page->number << PAGE_BITS) + ((uintptr_t)i << page->shift);
            if (wrote[i] - first < it) report(address, wrote[i], 1, writes);
            if (writes && read[i] - first < it) report(address, read[i], 0, writes);
        }
    }
    for (uint32_t i = from; i < to; ++i) mine[i] = mine[i] - first <= it ? mine[i] : now;
}

static __attribute__((noinline)) void touch_range(uintptr_t address, size_t bytes, int writes) {
    while (bytes) {
        uint32_t from = address % PAGE;
        uint32_t part = bytes < PAGE - from ? (uint32_t)bytes : PAGE - from;
        Page *page = page_of(address >> PAGE_BITS, 1);
        if (page == NULL) return;
        uint32_t rest = (1u << page->shift) - 1;
        if (((from | part) & rest) && !split_cells(page)) {
            out_of_memory = 1;
            return;
        }
        touch(page, from >> page->shift, (from + part) >> page->shift, writes);
        address += part;
        bytes -= part;
    }
}

// The usual access: one cell of a page that was touched lately, by no other iteration.
static inline int touched_fast(uintptr_t address, size_t bytes, int writes) {
    uintptr_t number = address >> PAGE_BITS;
    const Page *page = cached[number % CACHED];
    if (page == NULL || page->number != number || bytes != 1u << page->shift) return 0;
    if (address & (bytes - 1)) return 0;
    uint32_t cell = (uint32_t)(address % PAGE) >> page->shift, it = now - base;
    if (page->wrote[cell] - base < it) return 0;
    if (writes && page->read[cell] - base < it) return 0;
    uint32_t *mine = (writes ? page->wrote : page->read) + cell;
    if (*mine - base > it) *mine = now;
    return 1;
}

static uintptr_t frame_of_kernel;  // the lowest address of the frame that calls the hooks

// What lies below the kernel's own frame belongs to functions that this iteration called.
#define ACCESS(address, bytes, writes)                                                      \
    do {                                                                                    \
        uintptr_t a_ = (uintptr_t)(address), low_ = (uintptr_t)__builtin_frame_address(0);  \
        if (in_iteration && a_ - low_ >= frame_of_kernel - low_ &&                          \
            !touched_fast(a_, bytes, writes))                                               \
            touch_range(a_, bytes, writes);                                                 \
    } while (0)

// ---- the hooks of the text (see minitensor/codegen/hooks.py)

void checked_loop(int number) {
    loop = number;
    if (next > UINT32_MAX / 2) {
        forget_all();
        next = 1;
    }
    base = next;
}

__attribute__((noinline)) void checked_iteration(int64_t iteration) {
    now = base + (uint32_t)iteration;
    next = now + 1;
    in_iteration = 1;
    frame_of_kernel = (uintptr_t)__builtin_dwarf_cfa();  // the caller's stack pointer
}

void checked_end(void) { in_iteration = 0; }

void checked_memory(int number, void *start, size_t bytes) {
    uintptr_t address = (uintptr_t)start, end = address + bytes;
    if (!name_memory((size_t)number, address, end)) out_of_memory = 1;
    if (!in_iteration) return;
    while (address < end) {  // the iteration's own from now on, whichever had it before
        uint32_t from = address % PAGE;
        uint32_t part = end - address < PAGE - from ? (uint32_t)(end - address) : PAGE - from;
        Page *page = page_of(address >> PAGE_BITS, 0);
        if (page != NULL) {
            uint32_t rest = (1u << page->shift) - 1;
            if (((from | part) & rest) && !split_cells(page)) out_of_memory = 1;
            size_t cells = (size_t)(part >> page->shift) * sizeof(uint32_t);
            memset(page->wrote + (from >> page->shift), 0, cells);
            memset(page->read + (from >> page->shift), 0, cells);
        }
        address += part;
    }
}

void checked_gone(int number, void *start, size_t bytes) {
    (void)start, (void)bytes;
    if ((size_t)number < memories_size) memories[number] = (Memory){0, 0, 0};
}

// ---- for the caller of the kernel

// Begin a check; `given` is the number of parameters, then the start and end of each.
int races_start(const uint64_t *given) {
    forget_all();
    memset(memories, 0, memories_size * sizeof *memories);
    races_found = out_of_memory = in_iteration = 0;
    for (uint64_t i = 0; i < given[0]; ++i)
        if (!name_memory(i, (uintptr_t)given[2 * i + 1], (uintptr_t)given[2 * i + 2])) return -1;
    return 0;
}

// End it: how many races are in `found` now (room for 256 of 7 numbers), -1 if memory ran out.
int races_finish(Race *found) {
    in_iteration = 0;
    forget_all();
    memcpy(found, races, (size_t)races_found * sizeof *found);
    return out_of_memory ? -1 : races_found;
}

// ---- the calls that the compiler puts in

void __tsan_init(void) {}
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void **place, void *value) { (void)value, (void)place; }
void __tsan_vptr_read(void **place) { (void)place; }
void __tsan_read_range(void *p, size_t bytes) { ACCESS(p, bytes, 0); }
void __tsan_write_range(void *p, size_t bytes) { ACCESS(p, bytes, 1); }

#define SIZE(n)                                                     \
    void __tsan_read##n(void *p) { ACCESS(p, n, 0); }               \
    void __tsan_write##n(void *p) { ACCESS(p, n, 1); }              \
    void __tsan_unaligned_read##n(void *p) { ACCESS(p, n, 0); }     \
    void __tsan_unaligned_write##n(void *p) { ACCESS(p, n, 1); }    \
    void __tsan_volatile_read##n(void *p) { ACCESS(p, n, 0); }      \
    void __tsan_volatile_write##n(void *p) { ACCESS(p, n, 1); }     \
    void __tsan_unaligned_volatile_read##n(void *p) { ACCESS(p, n, 0); }  \
    void __tsan_unaligned_volatile_write##n(void *p) { ACCESS(p, n, 1); } \
    void __tsan_read_write##n(void *p) {                            \
        ACCESS(p, n, 0);                                            \
        ACCESS(p, n, 1);                                            \
    }                                                               \
    void __tsan_unaligned_read_write##n(void *p) {                  \
        ACCESS(p, n, 0);                                            \
        ACCESS(p, n, 1);                                            \
    }
SIZE(1) SIZE(2) SIZE(4) SIZE(8) SIZE(16)

// The linker redirects calls of these functions to here (`--wrap`), or clang inserts them.
#define COPY(name, real)                                             \
    void *name(void *to, const void *from, size_t bytes) {           \
        ACCESS(from, bytes, 0);                                      \
        ACCESS(to, bytes, 1);                                        \
        return real(to, from, bytes);                                \
    }
COPY(__wrap_memcpy, memcpy) COPY(__tsan_memcpy, memcpy)
COPY(__wrap_memmove, memmove) COPY(__tsan_memmove, memmove)

#define FILL(name)                                  \
    void *name(void *to, int value, size_t bytes) { \
        ACCESS(to, bytes, 1);                       \
        return memset(to, value, bytes);            \
    }
FILL(__wrap_memset) FILL(__tsan_memset)

// Atomic accesses are no part of a race; here they are done, and no more.
#define ATOMIC(bits)                                                                            \
    typedef uint##bits##_t A##bits;                                                             \
    A##bits __tsan_atomic##bits##_load(const volatile A##bits *p, int order) {                  \
        (void)order;                                                                            \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                            \
    }                                                                                           \
    void __tsan_atomic##bits##_store(volatile A##bits *p, A##bits x, int order) {               \
        (void)order;                                                                            \
        __atomic_store_n(p, x, __ATOMIC_SEQ_CST);                                               \
    }                                                                                           \
    A##bits __tsan_atomic##bits##_exchange(volatile A##bits *p, A##bits x, int order) {         \
        (void)order;                                                                            \
        return __atomic_exchange_n(p, x, __ATOMIC_SEQ_CST);                                     \
    }                                                                                           \
    FETCH(bits, add) FETCH(bits, sub) FETCH(bits, and) FETCH(bits, or) FETCH(bits, xor)         \
    FETCH(bits, nand) EXCHANGE(bits, strong) EXCHANGE(bits, weak)

#define FETCH(bits, op)                                                                         \
    A##bits __tsan_atomic##bits##_fetch_##op(volatile A##bits *p, A##bits x, int order) {       \
        (void)order;                                                                            \
        return __atomic_fetch_##op(p, x, __ATOMIC_SEQ_CST);                                     \
    }

#define EXCHANGE(bits, kind)                                                                    \
    int __tsan_atomic##bits##_compare_exchange_##kind(                                          \
        volatile A##bits *p, A##bits *old, A##bits x, int order, int failure) {                 \
        (void)order, (void)failure;                                                             \
        return __atomic_compare_exchange_n(p, old, x, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);   \
    }

ATOMIC(8) ATOMIC(16) ATOMIC(32) ATOMIC(64)
void __tsan_atomic_thread_fence(int order) { (void)order; }
void __tsan_atomic_signal_fence(int order) { (void)order; }
