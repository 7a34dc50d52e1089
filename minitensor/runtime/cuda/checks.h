// Part of emulator.cpp: faults of kernels.
//
// For each element of memory that has a name, a cell keeps the moments of the accesses that a later
// one may race with: the last plain write, and enough of the reads and of the atomic changes. Two
// accesses race if they touch a byte, one of them writes, not both are atomic, and nothing orders
// them: they are of different blocks of a launch, or of two threads with no barrier of the block
// between them, nor one of their warp. (Shuffles and functions on matrices order no memory: CUDA C++
// Programming Guide, "Warp Shuffle Functions".) It does not matter in which order the threads run.
//
// Each barrier, block and launch begins a new time; the moment of an access is the time, the number
// of barriers of the warp since then, and the thread. Older times need not be cleared.

enum Kind { READ, WRITE, ATOMIC, ATOMIC_STORE };  // what an access does
enum : uint32_t { SHARED = 1, INPUT = 2, OUTPUT = 4, UNWRITTEN_AT_FIRST = 8 };  // of a range
enum Fault {
    RACE, OUTSIDE, MISALIGNED, UNINITIALISED, PENDING, INPUT_WRITTEN, UNWRITTEN, DIVERGENT
};
enum { MOST_REPORTS = 256, PAGE_BITS = 12, GRAIN_BITS = 4 };

struct Moment {
    uint32_t time;  // 0: never
    uint32_t site;
    uint32_t warp_time;
    uint32_t thread;
};

// Of the threads that used a byte since it was written, as many as tell for every thread whether
// another one did that is not ordered before it. (Two of this time: of different warps if there are
// such, else of the last time of the warp.)
struct Users {
    Moment one, two;
    Moment elsewhere;  // one of an earlier block
};

struct Cell {
    Moment written;
    Users read;
};

struct Range {
    uintptr_t start, end;
    int shift;  // a cell stands for 1 << shift bytes
    uint32_t flags;
    uintptr_t place;  // of a static shared array: in its library
    Cell *cells;
    Users *atomics;  // by cells; NULL until there is one
    uint8_t *pending;  // by bytes: an asynchronous copy is under way to it; NULL until there is one
};

struct Report {
    int64_t fault, kernel, range, offset, bytes;
    int64_t block, thread, epoch, site, kind;  // who, and what it did
    int64_t other_block, other_thread, other_epoch, other_site, other_kind;
    int64_t line, other_line, other_state;  // of threads that wait for each other in vain
    int64_t grid_x, grid_y, block_x, block_y;  // by which numbers become indices
};

struct Period {  // the times of a block
    uint32_t start;
    int launch;
    int64_t block;
};

static bool checking, counting;
static Range *ranges;
static int ranges_used, ranges_of_memory;  // device memory first; the last is dynamic shared memory
static uintptr_t arena;                    // what holds all device memory
static size_t arena_size;
static uint16_t *range_by_page;   // in the arena; 1 more than its number, 0 for none
static uint16_t *range_by_grain;  // in the section of the static shared arrays
static size_t grains;
static bool copies_pending;

static uint32_t now, block_time, launch_time;
static const void *kernel_running;
static Period *periods;
static int64_t periods_used, periods_size;
static Report reports[MOST_REPORTS];
static int reports_used;

// ---- memory that has a name

static inline Range *range_at(uintptr_t address) {
    size_t number = 0;
    if (address - arena < arena_size)
        number = range_by_page[(address - arena) >> PAGE_BITS];
    else if (address - (uintptr_t)shared_start < (size_t)(shared_stop - shared_start))
        number = range_by_grain[(address - (uintptr_t)shared_start) >> GRAIN_BITS];
    else if (address - (uintptr_t)dynamic_shared < dynamic_bytes)
        number = (size_t)ranges_used;
    return number ? &ranges[number - 1] : NULL;
}

static bool make_cells(Range *r) {
    size_t cells = (r->end - r->start + (1u << r->shift) - 1) >> r->shift;
    r->cells = (Cell *)calloc(cells + 1, sizeof(Cell));
    return r->cells != NULL;
}

// From here on a cell of the range stands for one byte.
static bool split_cells(Range *r) {
    size_t bytes = r->end - r->start;
    Cell *cells = (Cell *)calloc(bytes + 1, sizeof(Cell));
    Users *atomics = r->atomics ? (Users *)calloc(bytes + 1, sizeof(Users)) : NULL;
    if (cells == NULL || (r->atomics != NULL && atomics == NULL)) return false;
    for (size_t i = 0; i < bytes; ++i) {
        cells[i] = r->cells[i >> r->shift];
        if (atomics != NULL) atomics[i] = r->atomics[i >> r->shift];
    }
    free(r->cells);
    free(r->atomics);
    r->cells = cells;
    r->atomics = atomics;
    r->shift = 0;
    return true;
}

static void forget(Range *r) {
    free(r->cells);
    free(r->atomics);
    free(r->pending);
    r->cells = NULL;
    r->atomics = NULL;
    r->pending = NULL;
}

// Begin: `given` holds the start and size of the arena, how many ranges of device memory and of
// static shared arrays there are, then for each of those, and for dynamic shared memory, its start
// (of a shared array, in its library), its bytes, the shift of its cells and its flags. A range of
// device memory starts at a page, and has a page behind it that is in no other.
static bool checks_begin(const uint64_t *given) {
    for (int i = 0; i < ranges_used; ++i) forget(&ranges[i]);
    free(ranges);
    free(range_by_page);
    reports_used = 0;
    periods_used = 0;
    now = 1;
    launch_time = block_time = 0;
    arena = (uintptr_t)given[0];
    arena_size = given[1];
    ranges_of_memory = (int)given[2];
    ranges_used = 0;
    int all = (int)(given[2] + given[3] + 1);
    ranges = (Range *)calloc((size_t)all, sizeof(Range));
    range_by_page = (uint16_t *)calloc((arena_size >> PAGE_BITS) + 1, sizeof(uint16_t));
    if (ranges == NULL || range_by_page == NULL) return false;
    ranges_used = all;
    for (int i = 0; i < all; ++i) {
        const uint64_t *row = given + 4 + 4 * i;
        Range *r = &ranges[i];
        r->start = r->place = (uintptr_t)row[0];
        r->end = r->start + row[1];
        r->shift = (int)row[2];
        r->flags = (uint32_t)row[3];
        if (i >= ranges_of_memory) continue;
        if (checking && !make_cells(r)) return false;
        for (uintptr_t a = r->start; a < r->end; a += 1u << PAGE_BITS)
            range_by_page[(a - arena) >> PAGE_BITS] = (uint16_t)(i + 1);
    }
    return true;
}

// Find the shared memory of the kernel's library.
static bool place_shared_arrays(void) {
    free(range_by_grain);
    grains = (size_t)(shared_stop - shared_start) >> GRAIN_BITS;
    range_by_grain = (uint16_t *)calloc(grains + 1, sizeof(uint16_t));
    if (range_by_grain == NULL) return false;
    for (int i = ranges_of_memory; i < ranges_used; ++i) {
        Range *r = &ranges[i];
        size_t bytes = r->end - r->start;
        bool dynamic = i == ranges_used - 1;
        forget(r);
        r->start = dynamic ? (uintptr_t)dynamic_shared : (uintptr_t)code_start + r->place;
        r->end = r->start + (dynamic ? dynamic_bytes : bytes);
        if (checking && !make_cells(r)) return false;
        if (dynamic) continue;
        for (uintptr_t a = r->start; a < r->end; a += 1u << GRAIN_BITS)
            range_by_grain[(a - (uintptr_t)shared_start) >> GRAIN_BITS] = (uint16_t)(i + 1);
    }
    return true;
}

// ---- time

static bool next_launch(const void *kernel) {
    if (!checking && !counting) return true;
    kernel_running = kernel;
    launch_time = ++now;
    ++launch_number;
    return place_shared_arrays();
}

static void next_block(void) {
    block_time = ++now;
    if (!checking) return;
    if (copies_pending)
        for (int i = 0; i < ranges_used; ++i)
            if (ranges[i].pending != NULL) memset(ranges[i].pending, 0, ranges[i].end - ranges[i].start);
    copies_pending = false;
    if (make_room(&periods, periods_used, &periods_size))
        periods[periods_used++] = {now, launch_number, block_number};
}

static void next_epoch(void) { ++now; }

static const Period *period_of(uint32_t time) {
    int64_t low = 0, high = periods_used;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (periods[middle].start <= time) low = middle;
        else high = middle;
    }
    return &periods[low];
}

// ---- reports: the first of each kind, range and pair of places in the text

static void add_report(const Report &made) {
    for (int i = 0; i < reports_used; ++i) {
        const Report &r = reports[i];
        if (r.fault == made.fault && r.kernel == made.kernel && r.range == made.range &&
            r.site == made.site && r.other_site == made.other_site && r.kind == made.kind)
            return;
    }
    if (reports_used < MOST_REPORTS) reports[reports_used++] = made;
}

static Report report_of(Fault fault, const Thread &t, const Range *r, int64_t offset) {
    Report made = {};
    made.fault = fault;
    made.kernel = site_of(kernel_running);
    made.grid_x = gridDim.x, made.grid_y = gridDim.y;
    made.block_x = blockDim.x, made.block_y = blockDim.y;
    made.range = r == NULL ? -1 : r - ranges;
    made.offset = offset;
    made.block = block_number;
    made.thread = t.number;
    made.epoch = now - block_time;
    return made;
}

static void report_access(Fault fault, const Thread &t, const Range *r, uintptr_t address,
                          size_t bytes, Kind kind, uint32_t site) {
    Report made = report_of(fault, t, r, (int64_t)(address - (r == NULL ? 0 : r->start)));
    made.bytes = (int64_t)bytes;
    made.kind = kind;
    made.site = site;
    add_report(made);
}

static void report_race(const Thread &t, const Range *r, size_t cell, Kind kind, uint32_t site,
                        const Moment &other, Kind other_kind) {
    Report made = report_of(RACE, t, r, (int64_t)(cell << r->shift));
    const Period *then = period_of(other.time);
    made.kind = kind;
    made.site = site;
    made.other_block = then->block;
    made.other_thread = other.thread;
    made.other_epoch = other.time - then->start;
    made.other_site = other.site;
    made.other_kind = other_kind;
    add_report(made);
}

static void report_waiting(const Thread &t, const Thread &other) {
    Report made = report_of(DIVERGENT, t, NULL, 0);
    made.kind = t.state;
    made.line = t.line;
    made.other_thread = other.number;
    made.other_line = other.line;
    made.other_state = other.state;
    add_report(made);
}

// The range that an address outside of all is nearest to, within a page; NULL if it is near none.
static const Range *nearest(uintptr_t address) {
    const Range *found = NULL;
    uintptr_t least = 1u << PAGE_BITS;
    for (int i = 0; i < ranges_used; ++i) {
        const Range *r = &ranges[i];
        if (r->start == r->end) continue;
        uintptr_t away = address < r->start ? r->start - address : address - (r->end - 1);
        if (address >= r->start && address < r->end) away = 0;
        if (away < least) least = away, found = r;
    }
    return found;
}

static void outside(const Thread &t, uintptr_t address, size_t bytes, Kind kind, uint32_t site) {
    Dl_info info;
    bool constant = kind == READ && dladdr((const void *)address, &info) &&
                    info.dli_fbase == (void *)code_start &&
                    address - (uintptr_t)shared_start >= (size_t)(shared_stop - shared_start);
    if (constant) return;  // of the text
    report_access(OUTSIDE, t, nearest(address), address, bytes, kind, site);
    give_up();
}

// ---- accesses

static bool same_warp(uint32_t a, uint32_t b) { return a / WARP == b / WARP; }

// Test whether an access is ordered before what a thread does now; those before `fresh` do not count.
static inline bool is_before(const Moment &m, const Thread &t, uint32_t fresh) {
    if (m.time < fresh) return true;
    if (m.time < block_time) return false;  // of another block
    if (m.time != now || m.thread == t.number) return true;
    return same_warp(m.thread, t.number) && m.warp_time != t.warp_time;
}

static const Moment *user_not_before(const Users &u, const Thread &t, uint32_t fresh) {
    if (!is_before(u.one, t, fresh)) return &u.one;
    if (!is_before(u.two, t, fresh)) return &u.two;
    return is_before(u.elsewhere, t, fresh) ? NULL : &u.elsewhere;
}

static inline void add_user(Users *u, const Moment &m, uint32_t fresh) {
    if (u->one.time != now) {
        if (u->one.time >= fresh && u->one.time < block_time) u->elsewhere = u->one;
        u->one = m;
        u->two.time = 0;
        return;
    }
    bool two = u->two.time == now;
    if (same_warp(u->one.thread, m.thread) && m.warp_time != u->one.warp_time) {
        if (two && same_warp(u->two.thread, m.thread)) u->two.time = 0;
        u->one = m;
    } else if (two && same_warp(u->two.thread, m.thread) && m.warp_time != u->two.warp_time) {
        u->two = m;
    } else if (m.thread != u->one.thread && (!two || m.thread != u->two.thread)) {
        bool warps = two && !same_warp(u->one.thread, u->two.thread);
        if (!two || (!warps && !same_warp(u->one.thread, m.thread))) u->two = m;
    }
}

static bool was_used(const Users *u, uint32_t since) {
    return u->one.time >= since || u->elsewhere.time >= since;
}

static inline void touch(Thread *t, Range *r, size_t cell, Kind kind, uint32_t site) {
    Cell *c = &r->cells[cell];
    uint32_t fresh = r->flags & SHARED ? block_time : launch_time;
    Moment m = {now, site, t->warp_time, t->number};
    if (r->pending != NULL && r->pending[cell << r->shift])
        report_access(PENDING, *t, r, r->start + (cell << r->shift), 1u << r->shift, kind, site);
    if (r->flags & UNWRITTEN_AT_FIRST && (kind == READ || kind == ATOMIC)) {
        uint32_t since = r->flags & SHARED ? block_time : 1;
        if (c->written.time < since && !(r->atomics && was_used(&r->atomics[cell], since)))
            report_access(UNINITIALISED, *t, r, r->start + (cell << r->shift), 1u << r->shift, kind,
                          site);
    }
    if (!is_before(c->written, *t, fresh)) report_race(*t, r, cell, kind, site, c->written, WRITE);
    if (r->atomics != NULL && kind < ATOMIC) {
        const Moment *other = user_not_before(r->atomics[cell], *t, fresh);
        if (other != NULL) report_race(*t, r, cell, kind, site, *other, ATOMIC);
    }
    if (kind == READ) return add_user(&c->read, m, fresh);
    const Moment *other = user_not_before(c->read, *t, fresh);
    if (other != NULL) report_race(*t, r, cell, kind, site, *other, READ);
    if (kind == WRITE) c->written = m;
    else add_user(&r->atomics[cell], m, fresh);
}

static void out_of_memory(void) {
    no_memory = true;
    give_up();
}

static void check(Thread *t, const void *p, size_t bytes, Kind kind, uint32_t site) {
    uintptr_t a = (uintptr_t)p;
    Range *r = range_at(a);
    if (r == NULL || a + bytes > r->end) return outside(*t, a, bytes, kind, site);
    if (a & (bytes - 1) & 15) {
        report_access(MISALIGNED, *t, r, a, bytes, kind, site);
        return give_up();
    }
    if (kind != READ && r->flags & INPUT) report_access(INPUT_WRITTEN, *t, r, a, bytes, kind, site);
    size_t offset = a - r->start, rest = (1u << r->shift) - 1;
    if ((offset | bytes) & rest && !split_cells(r)) return out_of_memory();
    if (kind >= ATOMIC && r->atomics == NULL) {
        size_t cells = (r->end - r->start + rest) >> r->shift;
        r->atomics = (Users *)calloc(cells + 1, sizeof(Users));
        if (r->atomics == NULL) return out_of_memory();
    }
    for (size_t i = offset >> r->shift; i < (offset + bytes) >> r->shift; ++i)
        touch(t, r, i, kind, site);
}

// The 16 bytes that an asynchronous copy goes to, from its start to its end.
static void set_pending(const void *p, int bytes, bool pending) {
    Range *r = checking ? range_at((uintptr_t)p) : NULL;
    if (r == NULL) return;
    if (r->pending == NULL) r->pending = (uint8_t *)calloc(r->end - r->start + 1, 1);
    if (r->pending == NULL) return out_of_memory();
    copies_pending = true;
    memset(r->pending + ((uintptr_t)p - r->start), pending, bytes);
}

// The launcher wrote device memory.
static void note_written(const void *p, size_t bytes) {
    Range *r = checking ? range_at((uintptr_t)p) : NULL;
    if (r == NULL) return;
    Moment m = {now, 0, 0, 0};
    size_t offset = (uintptr_t)p - r->start;
    for (size_t i = offset >> r->shift; i < (offset + bytes) >> r->shift; ++i)
        r->cells[i].written = m;
}

static void find_unwritten(void) {
    for (int i = 0; i < ranges_of_memory; ++i) {
        Range *r = &ranges[i];
        if (!(r->flags & OUTPUT)) continue;
        size_t cells = (r->end - r->start) >> r->shift, cell = 0;
        while (cell < cells && (r->cells[cell].written.time ||
                                (r->atomics != NULL && was_used(&r->atomics[cell], 1))))
            ++cell;
        if (cell == cells) continue;
        Report made = {};
        made.fault = UNWRITTEN;
        made.range = i;
        made.offset = (int64_t)(cell << r->shift);
        add_report(made);
    }
}

// End: returns how many reports are in `found` now (room for 256 of them).
static int checks_end(int64_t *found) {
    if (checking && !given_up && !no_memory && launch_number) find_unwritten();
    memcpy(found, reports, (size_t)reports_used * sizeof(Report));
    for (int i = 0; i < ranges_used; ++i) forget(&ranges[i]);
    return reports_used;
}
