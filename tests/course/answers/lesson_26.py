import itertools

from tutorials.judges.lesson_26 import cycles_of


def _meet(a, b):
    return any(x in a[2] for x in [*b[1], *b[2]]) or any(x in a[1] for x in b[2])


def _before(steps, tokens):
    reach = []
    for n, (queue, _, _) in enumerate(steps):
        done = {a for a, b in tokens if b == n} | {m for m in range(n) if steps[m][0] == queue}
        for m in sorted(done):
            done = done | reach[m]
        reach.append(done)
    return reach


def _pairs(steps):
    every = itertools.combinations(range(len(steps)), 2)
    return [(a, b) for a, b in every if steps[a][0] != steps[b][0] and _meet(steps[a], steps[b])]


def tokens(steps):
    """Leave out what the others imply."""
    every = _pairs(steps)
    return [t for t in every if t[0] not in _before(steps, [o for o in every if o != t])[t[1]]]


def tokens_by_clocks(steps):
    """Count what each queue has waited for."""
    queues = ["load", "execute", "store"]
    clock = {queue: dict.fromkeys(queues, -1) for queue in queues}
    after, found = [], []
    for n, (queue, _, _) in enumerate(steps):
        own = clock[queue]
        last = {}
        for m in range(n):
            other = steps[m][0]
            if other != queue and _meet(steps[m], steps[n]) and m > own[other]:
                last[other] = m
        for other, m in last.items():
            rest = [after[x] for o, x in last.items() if o != other]
            if all(one[other] < m for one in rest):
                found.append((m, n))
        for m in last.values():
            own = {q: max(own[q], after[m][q]) for q in queues}
        clock[queue] = {**own, queue: n}
        after.append(clock[queue])
    return found


def tokens_one_by_one(steps):
    """Drop one after the other, as long as all is in order."""
    kept = _pairs(steps)
    needed = list(kept)
    for token in needed:
        rest = [other for other in kept if other != token]
        reach = _before(steps, rest)
        if all(a in reach[b] for a, b in needed):
            kept = rest
    return kept


def tokens_of_all(steps):
    return _pairs(steps)


def tokens_to_the_last(steps):
    """For each queue the last one that meets, whatever was waited for."""
    last = {}
    for a, b in _pairs(steps):
        last[steps[a][0], b] = (a, b)
    return list(last.values())


def tokens_of_reads(steps):
    """Writes before reads only."""
    return [(a, b) for a, b in tokens(steps) if set(steps[a][2]) & set(steps[b][1])]


def tokens_backwards(steps):
    return [(b, a) for a, b in tokens(steps)]


def tokens_of_neighbours(steps):
    found = zip(range(len(steps)), range(1, len(steps)))
    return [(a, b) for a, b in found if steps[a][0] != steps[b][0]]


def tokens_as_text(steps):
    return str(tokens(steps))


def missing(steps, tokens):
    reach = _before(steps, tokens)
    return next(((a, b) for a, b in _pairs(steps) if a not in reach[b]), None)


def missing_last(steps, tokens):
    reach = _before(steps, tokens)
    found = [(a, b) for a, b in _pairs(steps) if a not in reach[b]]
    return list(found[-1]) if found else None


def missing_by_search(steps, tokens):
    """Walk backwards from each instruction."""

    def reaches(a, b):
        stack, seen = [b], set()
        while stack:
            n = stack.pop()
            if n == a:
                return True
            if n not in seen:
                seen.add(n)
                stack += [x for x, y in tokens if y == n]
                stack += [x for x in range(n) if steps[x][0] == steps[n][0]]
        return False

    for a, b in _pairs(steps):
        if not reaches(a, b):
            return a, b
    return None


def missing_if_no_token(steps, tokens):
    return next((pair for pair in _pairs(steps) if pair not in tokens), None)


def missing_never(steps, tokens):
    return None


def missing_without_queues(steps, tokens):
    reach = [set() for _ in steps]
    for n in range(len(steps)):
        for a in [a for a, b in tokens if b == n]:
            reach[n] |= {a} | reach[a]
    return next(((a, b) for a, b in _pairs(steps) if a not in reach[b]), None)


def missing_the_wrong_way_round(steps, tokens):
    found = missing(steps, tokens)
    return found and found[::-1]


def cycles(steps, tokens, lengths):
    free, ends = {}, []
    for n, (queue, _, _) in enumerate(steps):
        start = max([free.get(queue, 0), *[ends[a] for a, b in tokens if b == n]])
        ends.append(start + lengths[n])
        free[queue] = ends[n]
    return max(ends)


def cycles_of_paths(steps, tokens, lengths):
    """The longest path."""
    reach = _before(steps, tokens)
    ends = []
    for n in range(len(steps)):
        ends.append(lengths[n] + max([ends[m] for m in reach[n]], default=0))
    return max(ends)


def cycles_by_events(steps, tokens, lengths):
    """One cycle after the other."""
    left = {
        q: [n for n, one in enumerate(steps) if one[0] == q] for q in ("load", "execute", "store")
    }
    ends, now = {}, 0
    while any(left.values()):
        for queue, ones in left.items():
            busy = any(steps[n][0] == queue and end > now for n, end in ends.items())
            waits = [a for a, b in tokens if ones and b == ones[0]]
            if ones and not busy and all(ends.get(a, now + 1) <= now for a in waits):
                first = ones.pop(0)
                ends[first] = now + lengths[first]
        now += 1
    return max(ends.values())


def cycles_in_turns(steps, tokens, lengths):
    return sum(lengths)


def cycles_of_the_longest_queue(steps, tokens, lengths):
    queues = {queue for queue, _, _ in steps}
    return max(sum(n for n, s in zip(lengths, steps) if s[0] == queue) for queue in queues)


def cycles_without_queues(steps, tokens, lengths):
    ends = []
    for n in range(len(steps)):
        ends.append(lengths[n] + max([ends[a] for a, b in tokens if b == n], default=0))
    return max(ends)


def cycles_of_the_last(steps, tokens, lengths):
    free, ends = {}, []
    for n, (queue, _, _) in enumerate(steps):
        start = max([free.get(queue, 0), *[ends[a] for a, b in tokens if b == n]])
        ends.append(start + lengths[n])
        free[queue] = ends[n]
    return ends[-1]


def _divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def _fitting(m, n, k):
    for rows, columns, terms in itertools.product(_divisors(m), _divisors(n), _divisors(k)):
        if columns % 16 or terms % 16:
            continue
        for threads in (1, 2, 4):
            needed = rows * terms, terms * columns, 5 * rows * columns
            fits = all(x * threads <= room for x, room in zip(needed, (32768, 32768, 131072)))
            if fits and m // rows % threads == 0:
                yield rows, columns, terms, threads


def _expected(m, n, k, bandwidth, one):
    rows, columns, terms, threads = one
    load = (rows + columns) * terms / bandwidth + 40
    execute = rows * columns * terms / 256 + 20
    last = rows * columns / bandwidth + rows * columns / 4
    tiles, steps = m * n / rows / columns, k // terms
    if threads == 1:
        return tiles * (steps * (load + execute) + last)
    return tiles * (steps * max(load, execute) + last / 2)


def tile(m, n, k, bandwidth):
    """The longer of the two queues, by hand."""
    return min(_fitting(m, n, k), key=lambda one: _expected(m, n, k, bandwidth, one))


def tile_by_simulation(m, n, k, bandwidth):
    """The best of those that look good."""
    every = sorted(_fitting(m, n, k), key=lambda one: _expected(m, n, k, bandwidth, one))
    return min(every[:4], key=lambda one: cycles_of(m, n, k, bandwidth, one))


def tile_of_two(m, n, k, bandwidth):
    """Two threads, the most columns, then the most rows, few terms."""
    two = [one for one in _fitting(m, n, k) if one[3] == 2 and 32 <= one[2] <= 64]
    return max(two, key=lambda one: (one[0] * one[1] / (one[0] + one[1]), one[2]))


def tile_of_one_thread(m, n, k, bandwidth):
    one = [one for one in _fitting(m, n, k) if one[3] == 1]
    return min(one, key=lambda x: _expected(m, n, k, bandwidth, x))


def tile_that_is_small(m, n, k, bandwidth):
    return _divisors(m)[1], 16, 16, 1


def tile_that_does_not_fit(m, n, k, bandwidth):
    return m, n, k, 1


def tile_of_odd_columns(m, n, k, bandwidth):
    return _divisors(m)[1], 8, 16, 1


def tile_as_text(m, n, k, bandwidth):
    return str(tile(m, n, k, bandwidth))


def tile_of_fractions(m, n, k, bandwidth):
    return tuple(float(number) for number in tile(m, n, k, bandwidth))


def tile_of_most_threads(m, n, k, bandwidth):
    four = [one for one in _fitting(m, n, k) if one[3] == 4]
    return max(four, key=lambda one: one[2])


RIGHT = {
    "tokens": [tokens, tokens_by_clocks, tokens_one_by_one],
    "missing": [missing, missing_last, missing_by_search],
    "cycles": [cycles, cycles_of_paths, cycles_by_events],
    "tile": [tile, tile_by_simulation, tile_of_two],
}
WRONG = {
    "tokens": [
        (tokens_of_all, "is not needed: the others imply it"),
        (tokens_to_the_last, "is not needed: the others imply it"),
        (tokens_of_reads, "nothing orders"),
        (tokens_backwards, "is no token"),
        (tokens_of_neighbours, "is not needed: these do not meet"),
        (tokens_as_text, "pairs (number that pushes, number that pops) are wanted"),
    ],
    "missing": [
        (missing_if_no_token, "None is wanted"),
        (missing_never, "nothing orders"),
        (missing_without_queues, "None is wanted"),
        (missing_the_wrong_way_round, "nothing orders"),
    ],
    "cycles": [
        (cycles_in_turns, "right is"),
        (cycles_of_the_longest_queue, "right is"),
        (cycles_without_queues, "right is"),
        (cycles_of_the_last, "right is"),
    ],
    "tile": [
        (tile_of_one_thread, "are wanted"),
        (tile_that_is_small, "tiles, of at most"),
        (tile_that_does_not_fit, "is no tile"),
        (tile_of_odd_columns, "multiples of 16"),
        (tile_as_text, "four whole numbers are wanted"),
        (tile_of_fractions, "four whole numbers from 1 are wanted"),
        (tile_of_most_threads, "are wanted"),
    ],
}
