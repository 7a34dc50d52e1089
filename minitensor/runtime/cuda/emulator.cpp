// Runs the kernels of an emitted text on a CPU: what emulator.h declares.
//
// The blocks of a grid run one after the other. The threads of a block are fibers: each runs until
// it waits for others, at a barrier of its block or in a function of its warp. Their order is
// forward, backward or shuffled; shared memory holds NaNs when a block starts. So a text that relies
// on what CUDA leaves open is likely to give other results in one of the orders, and what it reads
// of shared memory before writing is NaN.
//
// warps.h has what the lanes of a warp do together. checks.h looks for faults, and counters.h counts
// accesses, in texts compiled with `-fsanitize=thread`, whose calls end up there.
//
// One launch at a time: the caller holds a lock. No more of C++ than the language is used: there is
// nothing to link with.

#define EMULATOR_ITSELF
#include "emulator.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>

#include "fibers.h"

// ---- the state of a launch

enum Order { FORWARD, BACKWARD, SHUFFLED };
enum State { RUNS, AT_BARRIER, IN_WARP, ENDED };
enum Together { WARP_BARRIER, SHUFFLE, MMA, LOAD_MATRIX };  // what the lanes of a warp do
enum { WARP = 32, MOST_THREADS = 1024, MOST_DYNAMIC = 227 << 10, POISON = 0xff };

// Errors of the CUDA runtime (cudaError_t) that a launch may return, negative.
enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONFIGURATION = 9, LAUNCH_FAILED = 719 };

struct Copy {  // an asynchronous copy that has not happened yet
    unsigned char *to;
    const unsigned char *from;
    int bytes;
    int group;
    uint32_t site;
};

struct Thread {
    Fiber fiber;
    unsigned number;  // in its block
    uint3 index;
    State state;
    int line;          // of the text, where it waits
    Together what;     // it waits for, in a function of its warp
    unsigned mask;     // the lanes that it waits for
    uint32_t warp_time;  // barriers of its warp since the last one of its block
    uint64_t value;      // of a shuffle: what it shows, then what it got
    int from;            // the lane whose value it gets
    void *registers[3];  // of a function on matrices
    int choice[2];       // ... bfloat16; or how many matrices, transposed
    uint32_t site;       // of its access
    Copy *copies;
    int copies_used, copies_size, group;
};

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

static Thread threads[MOST_THREADS];
static unsigned count;          // threads of a block
static Thread *running;         // NULL in the launcher's own code
static Fiber scheduler;
static char *stacks;
static size_t stacks_size;
static unsigned order[MOST_THREADS];
static Order kind_of_order;
static uint64_t random_state;
static void (*thread_body)(void *);
static void *thread_arguments;
static unsigned char *shared_start, *shared_stop;
alignas(1024) static unsigned char dynamic_shared[MOST_DYNAMIC];
static size_t dynamic_bytes;
static int64_t block_number;
static int launch_number;
static bool given_up;  // the launch ends: a fault that cannot be passed over
static bool no_memory;
static volatile sig_atomic_t interrupted;

static void give_up(void);

template <class T>
static bool make_room(T **items, int64_t used, int64_t *size) {
    if (used < *size) return true;
    int64_t more = *size ? 2 * *size : 64;
    T *grown = (T *)realloc(*items, (size_t)more * sizeof(T));
    if (grown == NULL) {
        no_memory = true;
        return false;
    }
    *items = grown;
    *size = more;
    return true;
}

static const char *code_start;  // of the library that holds the kernel

static uint32_t site_of(const void *address) {
    return (uint32_t)((const char *)address - code_start);
}

#include "checks.h"
#include "counters.h"

// ---- threads

static void yield(void) {
    Thread *me = running;
    fibers_switch(&me->fiber, scheduler);
}

// End the launch; inside a thread it does not return.
static void give_up(void) {
    given_up = true;
    if (running == NULL) return;  // the scheduler looks for itself
    yield();
    abort();  // no thread runs again
}

static void run_thread(void) {
    for (;;) {  // one turn for each block
        thread_body(thread_arguments);
        running->state = ENDED;
        yield();
    }
}

static void resume(Thread *t) {
    running = t;
    threadIdx = t->index;
    fibers_switch(&scheduler, t->fiber);
    running = NULL;
}

static void put_in_order(void) {
    if (kind_of_order != SHUFFLED) return;
    for (unsigned i = count; i > 1; --i) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        unsigned other = (unsigned)((random_state >> 33) % i), kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}

static bool prepare_threads(void) {
    if (stacks_size < count) {
        if (stacks != NULL) munmap(stacks, stacks_size * STACK);
        stacks = stacks_made(count);
        stacks_size = stacks == NULL ? 0 : count;
        if (stacks == NULL) return false;
    }
    for (unsigned i = 0; i < count; ++i) {
        Thread *t = &threads[i];
        t->number = i;
        t->index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
        order[i] = kind_of_order == BACKWARD ? count - 1 - i : i;
        fiber_start(&t->fiber, top_of_stack(stacks, i), run_thread);
    }
    return true;
}

#include "warps.h"

// ---- blocks

// Nothing runs and no warp can: report the first of those threads that wait in vain, and for whom.
static void report_deadlock(void) {
    const Thread *waits = NULL;
    for (unsigned i = 0; i < count; ++i) {  // in a warp before at the barrier
        const Thread *t = &threads[i];
        if (t->state == IN_WARP && (waits == NULL || waits->state != IN_WARP)) waits = t;
        if (t->state == AT_BARRIER && waits == NULL) waits = t;
    }
    bool in_warp = waits->state == IN_WARP;
    unsigned first = in_warp ? waits->number / WARP * WARP : 0;
    unsigned last = in_warp && first + WARP < count ? first + WARP : count;
    for (unsigned i = first; i < last; ++i) {
        const Thread *t = &threads[i];
        unsigned living = t->state == ENDED ? 0 : ~0u;
        bool wanted = !in_warp || lanes_wanted(*waits, living) >> (i - first) & 1;
        bool same = t->state == waits->state && t->line == waits->line &&
                    (!in_warp || (t->what == waits->what && t->mask == waits->mask));
        if (wanted && !same) return report_waiting(*waits, *t);
    }
    report_waiting(*waits, *waits);  // some are not there, or it is not among those that it names
}

// Let all threads go on that wait at one barrier; 1 if none is left, -1 if they wait in vain.
static int release_block(void) {
    unsigned ended = 0, same = 0;
    for (unsigned i = 0; i < count; ++i) {
        ended += threads[i].state == ENDED;
        same += threads[i].state == AT_BARRIER && threads[i].line == threads[0].line;
    }
    if (counting && (ended == count || same == count))
        for (unsigned first = 0; first < count; first += WARP) count_warp(first);
    if (ended == count) return 1;
    if (same != count) return -1;
    for (unsigned i = 0; i < count; ++i) {
        threads[i].state = RUNS;
        threads[i].warp_time = 0;
    }
    next_epoch();
    return 0;
}

static void run_block(void) {
    if (shared_stop > shared_start) memset(shared_start, POISON, (size_t)(shared_stop - shared_start));
    memset(dynamic_shared, POISON, dynamic_bytes);
    for (unsigned i = 0; i < count; ++i) {
        Thread *t = &threads[i];
        t->state = RUNS;
        t->warp_time = 0;
        t->copies_used = t->group = 0;
    }
    next_block();
    for (int done = 0; !done;) {
        put_in_order();
        for (unsigned i = 0; i < count; ++i) {
            if (threads[order[i]].state != RUNS) continue;
            resume(&threads[order[i]]);
            if (interrupted) given_up = true;
            if (given_up) return;
        }
        bool released = false;
        for (unsigned first = 0; first < count; first += WARP) released |= release_warp(first);
        if (given_up) return;
        if (released) continue;
        done = release_block();
        if (done < 0) {
            report_deadlock();
            given_up = true;
            return;
        }
    }
}

static bool fits_a_device(const dim3 &grid, const dim3 &block) {
    uint64_t size = (uint64_t)block.x * block.y * block.z;
    return size > 0 && size <= MOST_THREADS && block.z <= 64 && grid.x > 0 && grid.y > 0 &&
           grid.z > 0 && grid.x <= INT32_MAX && grid.y <= 65535 && grid.z <= 65535;
}

extern "C" int emulator_launch(const void *kernel, void (*body)(void *), void *arguments,
                               const dim3 *grid, const dim3 *block, size_t dynamic,
                               unsigned char *start, unsigned char *stop) {
    if (!fits_a_device(*grid, *block)) return -INVALID_CONFIGURATION;
    if (dynamic > MOST_DYNAMIC) return -INVALID_VALUE;
    gridDim = *grid;
    blockDim = *block;
    count = block->x * block->y * block->z;
    thread_body = body;
    thread_arguments = arguments;
    shared_start = start;
    shared_stop = stop;
    dynamic_bytes = dynamic;
    Dl_info info;
    code_start = dladdr(kernel, &info) ? (const char *)info.dli_fbase : NULL;
    given_up = false;
    if (!prepare_threads() || !next_launch(kernel)) return -OUT_OF_MEMORY;
    int64_t blocks = (int64_t)grid->x * grid->y * grid->z;
    for (int64_t i = 0; i < blocks && !given_up; ++i) {
        block_number = kind_of_order == BACKWARD ? blocks - 1 - i : i;
        int64_t rest = block_number / grid->x;
        blockIdx = {(unsigned)(block_number % grid->x), (unsigned)(rest % grid->y),
                    (unsigned)(rest / grid->y)};
        run_block();
    }
    return no_memory ? -OUT_OF_MEMORY : given_up ? -LAUNCH_FAILED : 0;
}

// ---- the functions of emulator.h

extern "C" {

unsigned char *emulator_dynamic_shared(void) { return dynamic_shared; }

int emulator_lane(void) { return (int)(running->number % WARP); }

void emulator_barrier(int line) {
    running->line = line;
    running->state = AT_BARRIER;
    yield();
}

void emulator_warp_barrier(unsigned mask, int line) { wait_in_warp(WARP_BARRIER, mask, line); }

uint64_t emulator_shuffle(unsigned mask, uint64_t value, int from, int line) {
    Thread *me = running;
    me->value = value;
    me->from = from;
    wait_in_warp(SHUFFLE, mask, line);
    return me->value;
}

void emulator_mma(float *d, const uint32_t *a, const uint32_t *b, int bfloat16, int line) {
    Thread *me = running;
    me->registers[0] = d;
    me->registers[1] = (void *)a;
    me->registers[2] = (void *)b;
    me->choice[0] = bfloat16;
    wait_in_warp(MMA, ~0u, line);
}

void emulator_load_matrix(uint32_t *r, const void *row, int matrices, int transposed, int line,
                          const void *site) {
    Thread *me = running;
    me->registers[0] = r;
    me->registers[1] = (void *)row;
    me->choice[0] = matrices;
    me->choice[1] = transposed;
    me->site = site_of(site);
    wait_in_warp(LOAD_MATRIX, ~0u, line);
}

void emulator_copy_async(void *shared, const void *global, int bytes, const void *site) {
    Thread *me = running;
    int64_t size = me->copies_size;
    if (!make_room(&me->copies, me->copies_used, &size)) give_up();
    me->copies_size = (int)size;
    Copy copy = {(unsigned char *)shared, (const unsigned char *)global, bytes, me->group,
                 site_of(site)};
    watch(me, global, bytes, READ, copy.site);
    watch(me, shared, bytes, WRITE, copy.site);
    set_pending(shared, bytes, true);
    me->copies[me->copies_used++] = copy;
}

void emulator_commit_async(void) { ++running->group; }

void emulator_wait_async(int groups) {
    Thread *me = running;
    int kept = 0;
    for (int i = 0; i < me->copies_used; ++i) {
        Copy copy = me->copies[i];
        if (copy.group >= me->group - groups) {
            me->copies[kept++] = copy;
            continue;
        }
        set_pending(copy.to, copy.bytes, false);
        if (checking) check(me, copy.to, copy.bytes, WRITE, copy.site);  // now it is there
        memcpy(copy.to, copy.from, copy.bytes);
    }
    me->copies_used = kept;
}

void emulator_atomic(void *p, size_t bytes, int reads, const void *site) {
    watch(running, p, bytes, reads ? ATOMIC : ATOMIC_STORE, site_of(site));
}

int emulator_reset_status(unsigned char *workspace) {
    memset(workspace, 0, sizeof(int));
    note_written(workspace, sizeof(int));
    return 0;
}

int emulator_read_status(const unsigned char *workspace) {
    int status;
    memcpy(&status, workspace, sizeof status);
    return status;
}

// ---- for the caller of a launcher

static struct sigaction before;
static bool is_watching;  // for an interrupt, in the place of `before`

// Any thread of the process may be the one that runs this: the call ends once Python knows.
static void on_interrupt(int number) {
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) before.sa_handler(number);
    interrupted = 1;
}

// Begin a call. `given` holds: what is watched (1 for faults, 2 for counts), the order and its seed;
// then the memory and the shared arrays (see checks.h). Returns -1 without memory.
int emulator_begin(const uint64_t *given) {
    checking = given[0] & 1;
    counting = given[0] & 2;
    kind_of_order = (Order)given[1];
    random_state = given[2];
    launch_number = 0;
    no_memory = false;
    interrupted = 0;
    counters_begin();
    if (!checks_begin(given + 3)) return -1;
    struct sigaction mine = {};
    mine.sa_handler = on_interrupt;
    sigemptyset(&mine.sa_mask);
    sigaction(SIGINT, NULL, &before);
    is_watching = !(before.sa_flags & SA_SIGINFO) && before.sa_handler != SIG_IGN;
    if (is_watching) sigaction(SIGINT, &mine, NULL);
    return 0;
}

// End it: returns how many reports are in `found` (see checks.h), -1 if memory ran out, -2 if the user
// interrupted.
int emulator_end(int64_t *found) {
    if (is_watching) sigaction(SIGINT, &before, NULL);
    int reports = checks_end(found);
    if (interrupted) return -2;
    return no_memory ? -1 : reports;
}

// The counts of the last call; see `counters_read`.
int emulator_counts(int64_t *rows) { return counters_read(rows); }

// ---- the calls that the compiler puts in

#define SITE site_of(__builtin_return_address(0))
#define SIZE(n)                                                                                \
    void __tsan_read##n(void *p) { watch(running, p, n, READ, SITE); }                         \
    void __tsan_write##n(void *p) { watch(running, p, n, WRITE, SITE); }                       \
    void __tsan_unaligned_read##n(void *p) { watch(running, p, n, READ, SITE); }               \
    void __tsan_unaligned_write##n(void *p) { watch(running, p, n, WRITE, SITE); }             \
    void __tsan_volatile_read##n(void *p) { watch(running, p, n, READ, SITE); }                \
    void __tsan_volatile_write##n(void *p) { watch(running, p, n, WRITE, SITE); }
SIZE(1) SIZE(2) SIZE(4) SIZE(8) SIZE(16)
void __tsan_read_range(void *p, size_t n) { watch(running, p, n, READ, SITE); }
void __tsan_write_range(void *p, size_t n) { watch(running, p, n, WRITE, SITE); }
void __tsan_init(void) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void) {}
}
