import itertools


def bound(s, word, *loops):
    for loop, axis in zip(reversed(loops), "xyz"):
        s.bind(loop, f"{word}Idx.{axis}")


# ---- transposed


def squares(s, size=32):
    i, j = s.get_loops("B")
    i_0, i_1 = s.split(i, [None, size])
    j_0, j_1 = s.split(j, [None, size])
    s.reorder(i_0, j_0, i_1, j_1)
    bound(s, "block", i_0, j_0)
    return j_0, i_1, j_1


def staged(s, size=32):
    j_0, i_1, j_1 = squares(s, size)
    copy = s.cache_read("B", "A", "shared")
    s.compute_at(copy, j_0)
    return copy, tuple(s.get_loops(copy)[-2:]), (i_1, j_1)


def by_eights(s, down, across):
    steps, row = s.split(down, [None, 8])
    s.reorder(steps, row, across)
    bound(s, "thread", row, across)


def word(s):
    """The elements in 4 bytes, or one."""
    return max(1, 32 // s.program.buffers["A"].dtype.bits)


def transposed(s):
    copy, *nests = staged(s)
    for nest in nests:
        by_eights(s, *nest)
    s.storage_align(copy, 0, 32, word(s))


def transposed_by_a_thousand_threads(s):
    copy, *nests = staged(s)
    for nest in nests:
        bound(s, "thread", *nest)
    s.storage_align(copy, 0, 64, 32 + word(s))
    return s


def transposed_by_a_row_of_threads(s):
    copy, *nests = staged(s)
    for nest in nests:
        _, thread = s.split(s.fuse(*nest), [None, 256])
        s.bind(thread, "threadIdx.x")
    s.storage_align(copy, 0, 64, word(s))


def transposed_by_one_warp(s):
    copy, *nests = staged(s)
    for _, across in nests:
        s.bind(across, "threadIdx.x")
    s.storage_align(copy, 0, 32, 5 * word(s))


def transposed_with_conflicts(s):
    for nest in staged(s)[1:]:
        by_eights(s, *nest)


def transposed_with_even_rows(s):
    copy, *nests = staged(s)
    for nest in nests:
        by_eights(s, *nest)
    s.storage_align(copy, 0, 32, 2)


def transposed_with_an_element_more(s):
    """Right for elements of 4 and 8 bytes; of 2 bytes it is half a word."""
    copy, *nests = staged(s)
    for nest in nests:
        by_eights(s, *nest)
    s.storage_align(copy, 0, 32, 1)


def transposed_in_place(s):
    _, *nest = squares(s)
    by_eights(s, *nest)


def transposed_by_columns(s):
    _, i_1, j_1 = squares(s)
    s.reorder(j_1, i_1)
    by_eights(s, j_1, i_1)


def transposed_in_columns_of_threads(s):
    copy, fill, (i_1, j_1) = staged(s)
    by_eights(s, *fill)
    s.reorder(j_1, i_1)
    by_eights(s, j_1, i_1)
    s.storage_align(copy, 0, 32, 1)


def transposed_on_a_cpu(s):
    s.parallel("i")


def transposed_by_blocks_of_one(s):
    staged(s)


# ---- barriers


def is_safe(steps, places):
    order = [*range(len(steps))] * 2
    epoch, seen = 0, []
    for n in order:
        epoch += n in places
        reads, writes = steps[n]
        now = [
            (t, e, w) for w, by in enumerate((reads, writes)) for t, x in enumerate(by) for e in x
        ]
        for when, t, e, w in seen:
            if when == epoch and any(t != u and e == f and (w or v) for u, f, v in now):
                return False
        seen += [(epoch, *one) for one in now]
    return True


def barriers(steps):
    for count in range(len(steps) + 1):
        for places in itertools.combinations(range(len(steps)), count):
            if is_safe(steps, places):
                return list(places)
    return None


def conflicting(one, other):
    """Do two steps touch an element from two threads, one of them writing?"""
    for mine, theirs in ((one[1], other[0]), (one[0], other[1]), (one[1], other[1])):
        for t, elements in enumerate(mine):
            for u, others in enumerate(theirs):
                if t != u and set(elements) & set(others):
                    return True
    return False


def arcs(steps):
    """Of each pair of steps that conflict, the places of which one has a barrier."""
    count, found = len(steps), []
    for a in range(count):
        for length in range(1, count + 1):
            b = (a + length) % count
            if conflicting(steps[a], steps[b]):
                found.append({(a + n) % count for n in range(1, length + 1)})
                break
    return found


def barriers_by_arcs(steps):
    needed, count = arcs(steps), len(steps)
    masks = sorted(range(1 << count), key=lambda mask: bin(mask).count("1"))
    for mask in masks:
        places = {n for n in range(count) if mask >> n & 1}
        if all(places & arc for arc in needed):
            return places
    return None


def barriers_from_each_start(steps):
    """Greedy, as late as possible, from each place; the best of them."""
    count, best = len(steps), None
    if is_safe(steps, ()):
        return []
    for start in range(count):
        places, since = [start], [start]
        for n in range(start + 1, start + count):
            at = n % count
            if any(conflicting(steps[one], steps[at]) for one in since):
                places.append(at)
                since = []
            since.append(at)
        if best is None or len(places) < len(best):
            best = places
    return tuple(best)


def barriers_everywhere(steps):
    return list(range(len(steps)))


def barriers_of_one_iteration(steps):
    """As if the loop had one iteration."""
    places, since = [], []
    for n, step in enumerate(steps):
        if any(conflicting(one, step) for one in since):
            places.append(n)
            since = []
        since.append(step)
    return places


def barriers_after_writes(steps):
    """Only reads of what was written need one."""
    count = len(steps)
    without = [([[] for _ in reads], writes) for reads, writes in steps]
    for size in range(count + 1):
        for places in itertools.combinations(range(count), size):
            safe = True
            for a in range(count):
                for length in range(1, count + 1):
                    b = (a + length) % count
                    between = {(a + n) % count for n in range(1, length + 1)}
                    if conflicting(without[a], (steps[b][0], [])) and not between & set(places):
                        safe = False
            if safe:
                return list(places)
    return None


def barriers_from_the_first(steps):
    """Greedy from step 0 on, and one at the end of the iteration."""
    if is_safe(steps, ()):
        return []
    return sorted({0, *barriers_of_one_iteration(steps)})


def barriers_counted(steps):
    return len(barriers(steps))


def barriers_behind(steps):
    """The steps in front of the barriers."""
    return [(n - 1) % len(steps) for n in barriers(steps)]


# ---- row_reduction


def parts(s, lanes, near=True):
    k_0, k_1 = s.split("k", [None, lanes] if near else [lanes, None])
    return s.rfactor(k_1 if near else k_0)


def row_reduction(s):
    partial = parts(s, 32)
    i, lane = s.get_loops("S")
    s.compute_at(partial, i)
    s.bind(i, "blockIdx.x")
    s.bind(lane, "threadIdx.x")
    s.bind(s.get_loops(partial)[-1], "threadIdx.x")


def row_reduction_by_four_warps(s):
    partial = parts(s, 128)
    s.set_scope(partial, "local")
    i, lane = s.get_loops("S")
    s.compute_at(partial, i)
    bound(s, "block", i)
    bound(s, "thread", s.get_loops(partial)[-1])
    bound(s, "thread", lane)
    return s


def row_reduction_of_two_rows(s):
    partial = parts(s, 32)
    i, lane = s.get_loops("S")
    i_0, i_1 = s.split(i, [None, 2])
    s.compute_at(partial, i_0)
    s.bind(i_0, "blockIdx.x")
    bound(s, "thread", i_1, lane)
    row, k, own = s.get_loops(partial)[-3:]
    s.reorder(row, own, k)
    bound(s, "thread", row, own)


def row_reduction_by_one_thread(s):
    s.bind("i", "threadIdx.x")


def row_reduction_by_far_lanes(s):
    partial = parts(s, 32, near=False)
    i, lane = s.get_loops("S")
    s.compute_at(partial, i)
    s.bind(i, "blockIdx.x")
    s.bind(lane, "threadIdx.x")
    s.bind(s.get_loops(partial)[-2], "threadIdx.x")


def row_reduction_by_eight_lanes(s):
    partial = parts(s, 8)
    i, lane = s.get_loops("S")
    s.compute_at(partial, i)
    s.bind(i, "blockIdx.x")
    s.bind(lane, "threadIdx.x")
    s.bind(s.get_loops(partial)[-1], "threadIdx.x")


def row_reduction_by_one_thread_in_the_end(s):
    partial = parts(s, 32)
    i, _ = s.get_loops("S")
    s.compute_at(partial, i)
    s.bind(i, "blockIdx.x")
    s.bind(s.get_loops(partial)[-1], "threadIdx.x")


def row_reduction_on_cores(s):
    s.parallel("i")


def row_reduction_without_parts(s):
    s.bind("k", "threadIdx.x")


# ---- tiled


def tiles(s, tile=(32, 32), own=(2, 2), step=8, staged="AB"):
    out = s.cache_write("C", "local")
    i, j, k = s.get_loops("C")
    i_0, i_1, i_2 = s.split(i, [None, tile[0] // own[0], own[0]])
    j_0, j_1, j_2 = s.split(j, [None, tile[1] // own[1], own[1]])
    k_0, k_1 = s.split(k, [None, step])
    s.reorder(i_0, j_0, k_0, i_1, j_1, k_1, i_2, j_2)
    s.reverse_compute_at(out, j_0)
    bound(s, "block", i_0, j_0)
    bound(s, "thread", i_1, j_1)
    for loop in (k_1, i_2, j_2):
        s.unroll(loop)
    for name in staged:
        copy = s.cache_read("C", name, "shared")
        s.compute_at(copy, k_0)
        fused = s.fuse(*s.get_loops(copy)[-2:])
        _, *both = s.split(fused, [None, *(t // n for t, n in zip(tile, own))])
        bound(s, "thread", *both)
    y, x = s.get_loops(out)[-2:]
    (y, y_own), (x, x_own) = s.split(y, [None, own[0]]), s.split(x, [None, own[1]])
    s.reorder(y, x, y_own, x_own)
    bound(s, "thread", y, x)


def tiled(s, sectors, turns):
    tiles(s)


def tiled_by_few_threads(s, sectors, turns):
    tiles(s, own=(4, 4), step=8)


def tiled_wide(s, sectors, turns):
    tiles(s, tile=(32, 64), own=(2, 4), step=8)
    return s


def tiled_in_small_tiles(s, sectors, turns):
    tiles(s, tile=(16, 16))


def tiled_with_one_element(s, sectors, turns):
    tiles(s, own=(1, 1))


def tiled_with_one_matrix(s, sectors, turns):
    tiles(s, staged="B")


def tiled_without_shared_memory(s, sectors, turns):
    tiles(s, staged="")


def tiled_naively(s, sectors, turns):
    i_0, i_1 = s.split("i", [None, 16])
    j_0, j_1 = s.split("j", [None, 16])
    s.reorder(i_0, j_0, i_1, j_1)
    bound(s, "block", i_0, j_0)
    bound(s, "thread", i_1, j_1)


def tiled_on_a_cpu(s, sectors, turns):
    s.parallel("i")
    s.vectorize("j")


RIGHT = {
    "transposed": [
        transposed,
        transposed_by_a_thousand_threads,
        transposed_by_a_row_of_threads,
        transposed_by_one_warp,
    ],
    "barriers": [barriers, barriers_by_arcs, barriers_from_each_start],
    "row_reduction": [row_reduction, row_reduction_by_four_warps, row_reduction_of_two_rows],
    "tiled": [tiled, tiled_by_few_threads, tiled_wide],
}
WRONG = {
    "transposed": [
        (transposed_with_conflicts, "more turns of the banks"),
        (transposed_with_even_rows, "more turns of the banks"),
        (transposed_with_an_element_more, "more turns of the banks"),
        (transposed_in_place, "the loads of A move at most"),
        (transposed_by_columns, "the stores of B move at most"),
        (transposed_in_columns_of_threads, "the stores of B move at most"),
        (transposed_on_a_cpu, "no GPU runs it"),
        (transposed_by_blocks_of_one, "blocks have at least 32 threads"),
    ],
    "barriers": [
        (barriers_everywhere, "will do"),
        (barriers_of_one_iteration, "iteration race for element"),
        (barriers_after_writes, "iteration race for element"),
        (barriers_from_the_first, "will do"),
        (barriers_counted, "different places"),
        (barriers_behind, "iteration race for element"),
    ],
    "row_reduction": [
        (row_reduction_by_one_thread, "threads combine nothing"),
        (row_reduction_by_far_lanes, "the loads of A move at most"),
        (row_reduction_by_eight_lanes, "8 do"),
        (row_reduction_by_one_thread_in_the_end, "threads combine nothing"),
        (row_reduction_on_cores, "no GPU runs it"),
        (row_reduction_without_parts, "rfactor"),
    ],
    "tiled": [
        (tiled_in_small_tiles, "the loads of A and B move at most"),
        (tiled_with_one_element, "turns of the banks"),
        (tiled_with_one_matrix, "the loads of A and B move at most"),
        (tiled_without_shared_memory, "the loads of A and B move at most"),
        (tiled_naively, "the loads of A and B move at most"),
        (tiled_on_a_cpu, "no GPU runs it"),
    ],
}
