// Part of emulator.cpp: what the lanes of a warp do together.
//
// Each lane notes what it wants and waits; when all have come, the work of all is done at once.

static void wait_in_warp(Together what, unsigned mask, int line) {
    running->what = what;
    running->mask = mask;
    running->line = line;
    running->state = IN_WARP;
    yield();
}

// Lanes i of an 8x8 matrix hold the elements (i / 4, 2 (i % 4)) and the next (PTX ISA, ldmatrix).
static void load_matrices(Thread *warp, unsigned lanes) {
    int matrices = warp[__builtin_ctz(lanes)].choice[0];
    for (unsigned i = 0; i < 8u * (unsigned)matrices; ++i)
        if (lanes >> i & 1) watch(&warp[i], warp[i].registers[1], 16, READ, warp[i].site);
    if (given_up) return;
    for (unsigned lane = 0; lane < WARP; ++lane) {
        if (!(lanes >> lane & 1)) continue;
        for (int m = 0; m < matrices; ++m) {
            uint16_t pair[2];
            for (unsigned k = 0; k < 2; ++k) {
                unsigned row = lane / 4, column = lane % 4 * 2 + k;
                if (warp[lane].choice[1]) row = lane % 4 * 2 + k, column = lane / 4;
                const Thread *holder = &warp[8 * m + (int)row];
                bool there = lanes >> (8 * m + (int)row) & 1;
                pair[k] = there ? ((const uint16_t *)holder->registers[1])[column] : 0xffff;
            }
            memcpy((uint32_t *)warp[lane].registers[0] + m, pair, sizeof pair);
        }
    }
}

// The element k of the pairs that a register of a fragment holds.
static float narrow(const void *registers, int number, int k, int bfloat16) {
    uint16_t bits = (uint16_t)(((const uint32_t *)registers)[number] >> 16 * k);
    return bfloat16 ? bfloat16_to_float(bits) : float16_to_float(bits);
}

// Fragments of mma.m16n8k16 (PTX ISA): with g = lane / 4 and t = lane % 4, a lane holds of a the
// elements (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8) and the next of each row, of b the
// elements (2t, g), (2t + 8, g) and the next of each column, of d (g, 2t), (g + 8, 2t) and the next.
static void multiply_matrices(Thread *warp, unsigned lanes) {
    float a[16][16], b[16][8];
    for (int lane = 0; lane < WARP; ++lane) {
        int g = lane / 4, t = lane % 4, bfloat16 = warp[lane].choice[0];
        bool there = lanes >> lane & 1;
        for (int r = 0; r < 4; ++r)
            for (int k = 0; k < 2; ++k)
                a[g + r % 2 * 8][2 * t + r / 2 * 8 + k] =
                    there ? narrow(warp[lane].registers[1], r, k, bfloat16) : NAN;
        for (int r = 0; r < 2; ++r)
            for (int k = 0; k < 2; ++k)
                b[2 * t + r * 8 + k][g] =
                    there ? narrow(warp[lane].registers[2], r, k, bfloat16) : NAN;
    }
    for (int lane = 0; lane < WARP; ++lane) {
        if (!(lanes >> lane & 1)) continue;
        float *d = (float *)warp[lane].registers[0];
        for (int i = 0; i < 4; ++i) {
            int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            double sum = d[i];
            for (int k = 0; k < 16; ++k) sum += (double)a[row][k] * b[k][column];
            d[i] = (float)sum;
        }
    }
}

static void shuffle(Thread *warp, unsigned lanes) {
    uint64_t shown[WARP];
    for (int lane = 0; lane < WARP; ++lane) shown[lane] = lanes >> lane & 1 ? warp[lane].value : ~0ull;
    for (int lane = 0; lane < WARP; ++lane)
        if (lanes >> lane & 1) warp[lane].value = shown[warp[lane].from & (WARP - 1)];
}

static void do_together(Thread *warp, unsigned lanes) {
    switch (warp[__builtin_ctz(lanes)].what) {
    case SHUFFLE: shuffle(warp, lanes); break;
    case MMA: multiply_matrices(warp, lanes); break;
    case LOAD_MATRIX: load_matrices(warp, lanes); break;
    case WARP_BARRIER:  // the only one that orders accesses to memory (CUDA C++ Programming Guide)
        for (unsigned i = 0; i < WARP; ++i) warp[i].warp_time += lanes >> i & 1;
    }
}

// Lanes that ended are not waited for by shuffles and barriers, but by functions on matrices (PTX ISA:
// undefined "if any thread in the warp has exited").
static unsigned lanes_wanted(const Thread &t, unsigned living) {
    return t.what == MMA || t.what == LOAD_MATRIX ? ~0u : t.mask & living;
}

// Let those lanes of a warp go on that all wait for each other; tells if there were any.
static bool release_warp(unsigned first) {
    Thread *warp = &threads[first];
    unsigned lanes = 0, waiting = 0, released = 0;
    for (unsigned i = 0; i < WARP && first + i < count; ++i) {
        lanes |= (unsigned)(warp[i].state != ENDED) << i;
        waiting |= (unsigned)(warp[i].state == IN_WARP) << i;
    }
    for (unsigned i = 0; i < WARP; ++i) {
        if (!(waiting >> i & 1) || released >> i & 1) continue;
        unsigned wanted = lanes_wanted(warp[i], lanes), same = 0;
        for (unsigned j = i; j < WARP; ++j)
            if (waiting >> j & 1 && warp[j].line == warp[i].line && warp[j].what == warp[i].what &&
                warp[j].mask == warp[i].mask)
                same |= 1u << j;
        if (!wanted || (same & wanted) != wanted) continue;
        if (counting) count_warp(first);
        do_together(warp, wanted);
        for (unsigned j = 0; j < WARP; ++j)
            if (wanted >> j & 1) warp[j].state = RUNS;
        released |= wanted;
    }
    return released != 0;
}
