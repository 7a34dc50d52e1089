// Part of emulator.cpp: counts of the accesses of warps to memory.
//
// The accesses of the lanes of a warp that are one request of the device are those of one place in
// the text, each the n-th of its lane there since the warp was last together. Of a request to global
// memory the sectors of 32 bytes are counted; of one to shared memory the passes: in a pass each of
// the 32 banks of 4 bytes gives one word, to as many lanes as want it. Lanes that want 8 bytes are
// served 16 at a time, those that want 16 bytes 8 at a time.

enum { MOST_SITES = 1 << 16, BANKS = 32, WORD = 4, SECTOR_BITS = 5 };

struct Site {
    uint32_t address;  // in the library
    int range, kind, bytes;
    int64_t requests, lanes, sectors, passes;
    int64_t most, group;  // of the warp that is counted: requests, and the number of the first
};

struct Access {
    uintptr_t address;
    int site;
};

struct Log {  // of a thread, since its warp was last together
    Access *items;
    int64_t used, size;
};

static Site *sites;
static int64_t sites_used, sites_size;
static int *site_slots;  // a hash table of 2 * MOST_SITES; 1 more than the number, 0 for none
static Log logs[MOST_THREADS];
static int64_t *seen;  // by sites: accesses of one lane
static int64_t seen_size;

static void counters_begin(void) {
    free(site_slots);
    site_slots = counting ? (int *)calloc(2 * MOST_SITES, sizeof(int)) : NULL;
    if (counting && site_slots == NULL) no_memory = true;
    sites_used = 0;
    for (int i = 0; i < MOST_THREADS; ++i) logs[i].used = 0;
}

// The number of a site; -1 without memory, or where there are too many.
static int site_number(uint32_t address, int range, int kind, int bytes) {
    uint32_t slot = (address * 2654435761u ^ (uint32_t)(range * 64 + kind * 32 + bytes)) >> 7;
    for (;; ++slot) {
        slot &= 2 * MOST_SITES - 1;
        if (!site_slots[slot]) break;
        const Site &s = sites[site_slots[slot] - 1];
        if (s.address == address && s.range == range && s.kind == kind && s.bytes == bytes)
            return site_slots[slot] - 1;
    }
    if (sites_used == MOST_SITES || !make_room(&sites, sites_used, &sites_size)) return -1;
    sites[sites_used] = {address, range, kind, bytes, 0, 0, 0, 0, 0, 0};
    site_slots[slot] = (int)++sites_used;
    return (int)sites_used - 1;
}

static void count_access(const Thread *t, const void *p, size_t bytes, Kind kind, uint32_t site) {
    const Range *r = range_at((uintptr_t)p);
    if (r == NULL) return;
    int number = site_number(site, (int)(r - ranges), kind, (int)bytes);
    Log *log = &logs[t->number];
    if (number < 0 || !make_room(&log->items, log->used, &log->size)) {
        no_memory = true;
        return give_up();
    }
    log->items[log->used++] = {(uintptr_t)p, number};
}

// Passes over the banks for some lanes; `addresses` holds 0 for a lane that takes no part.
static int passes_of(const uintptr_t *addresses, int lanes, int bytes) {
    uintptr_t words[BANKS][WARP];
    int used[BANKS] = {}, most = 0;
    for (int lane = 0; lane < lanes; ++lane) {
        if (addresses[lane] == 0) continue;
        uintptr_t last = (addresses[lane] + (uintptr_t)bytes - 1) / WORD;
        for (uintptr_t word = addresses[lane] / WORD; word <= last; ++word) {
            int bank = (int)(word % BANKS), i = 0;
            while (i < used[bank] && words[bank][i] != word) ++i;
            if (i < used[bank]) continue;
            words[bank][used[bank]++] = word;
            if (used[bank] > most) most = used[bank];
        }
    }
    return most;
}

static int sectors_of(const uintptr_t *addresses, int bytes) {
    uintptr_t sectors[2 * WARP];
    int used = 0;
    for (int lane = 0; lane < WARP; ++lane) {
        if (addresses[lane] == 0) continue;
        uintptr_t last = (addresses[lane] + (uintptr_t)bytes - 1) >> SECTOR_BITS;
        for (uintptr_t s = addresses[lane] >> SECTOR_BITS; s <= last; ++s) {
            int i = used;
            while (i > 0 && sectors[i - 1] != s) --i;
            if (i == 0 && used < 2 * WARP) sectors[used++] = s;
        }
    }
    return used;
}

static void count_request(Site *s, const uintptr_t *addresses) {
    ++s->requests;
    for (int lane = 0; lane < WARP; ++lane) s->lanes += addresses[lane] != 0;
    if (!(ranges[s->range].flags & SHARED)) {
        s->sectors += sectors_of(addresses, s->bytes);
        return;
    }
    int at_once = s->bytes <= 4 ? 32 : s->bytes == 8 ? 16 : 8;
    for (int lane = 0; lane < WARP; lane += at_once)
        s->passes += passes_of(addresses + lane, at_once, s->bytes);
}

// Count what the lanes of a warp did since it was last together.
static void count_warp(unsigned first) {
    static Site **touched;
    static int64_t touched_size;
    static uintptr_t *addresses;  // of each request, by lanes
    static int64_t addresses_size;
    int64_t groups = 0, touched_used = 0;
    while (seen_size < sites_used) {
        if (!make_room(&seen, seen_size, &seen_size)) return;
        memset(seen, 0, (size_t)seen_size * sizeof *seen);
    }
    for (unsigned lane = 0; lane < WARP && first + lane < count; ++lane) {
        const Log &log = logs[first + lane];
        for (int64_t i = 0; i < log.used; ++i) {
            Site *s = &sites[log.items[i].site];
            int64_t n = ++seen[log.items[i].site];
            if (s->most == 0) {
                if (!make_room(&touched, touched_used, &touched_size)) return;
                touched[touched_used++] = s;
            }
            if (n > s->most) s->most = n;
        }
        for (int64_t i = 0; i < log.used; ++i) seen[log.items[i].site] = 0;
    }
    for (int64_t i = 0; i < touched_used; ++i) {
        touched[i]->group = groups;
        groups += touched[i]->most;
    }
    while (addresses_size < groups * WARP)
        if (!make_room(&addresses, addresses_size, &addresses_size)) return;
    if (groups) memset(addresses, 0, (size_t)(groups * WARP) * sizeof *addresses);
    for (unsigned lane = 0; lane < WARP && first + lane < count; ++lane) {
        Log *log = &logs[first + lane];
        for (int64_t i = 0; i < log->used; ++i) {
            const Access &a = log->items[i];
            addresses[(sites[a.site].group + seen[a.site]++) * WARP + lane] = a.address;
        }
        for (int64_t i = 0; i < log->used; ++i) seen[log->items[i].site] = 0;
        log->used = 0;
    }
    for (int64_t i = 0; i < touched_used; ++i) {
        Site *s = touched[i];
        for (int64_t n = 0; n < s->most; ++n) count_request(s, addresses + (s->group + n) * WARP);
        s->most = 0;
    }
}

// The counts: `rows` holds how many rows of 8 numbers it has room for, and gets those there are.
static int counters_read(int64_t *rows) {
    int64_t most = rows[0] < sites_used ? rows[0] : sites_used;
    for (int64_t i = 0; i < most; ++i) {
        const Site &s = sites[i];
        const int64_t row[] = {s.address, s.range, s.kind, s.bytes,
                               s.requests, s.lanes, s.sectors, s.passes};
        memcpy(rows + 8 * i, row, sizeof row);
    }
    return (int)sites_used;
}

// ---- each access of a thread, with the place in the text that it comes from

static inline void watch(Thread *t, const void *p, size_t bytes, Kind kind, uint32_t site) {
    if (!(checking | counting) || t == NULL) return;
    const char *stack = stacks + t->number * STACK;
    if ((uintptr_t)p - (uintptr_t)stack < STACK) return;  // the thread's own
    if (interrupted) return give_up();
    if (checking) check(t, p, bytes, kind, site);
    if (counting) count_access(t, p, bytes, kind, site);
}
