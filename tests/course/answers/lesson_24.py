import itertools

import numpy as np


def lives(steps, kept):
    found = {}
    for number, (name, reads) in enumerate(steps):
        found[name] = [number, number]
        for read in reads:
            if read in found:
                found[read][1] = number
    for name in kept:
        found[name][1] = len(steps) - 1
    return {name: tuple(life) for name, life in found.items()}


def lives_backwards(steps, kept):
    last = {name: len(steps) - 1 for name in kept}
    found = {}
    for number in reversed(range(len(steps))):
        name, reads = steps[number]
        for read in reads:
            last.setdefault(read, number)
        found[name] = (number, last.get(name, number))
    return found


def lives_by_search(steps, kept):
    names = [name for name, _ in steps]

    def end(n, name):
        if name in kept:
            return len(steps) - 1
        return max([n, *(m for m, (_, reads) in enumerate(steps) if name in reads)])

    return {name: [n, end(n, name)] for n, name in enumerate(names)}


def lives_of_the_next_reader(steps, kept):
    found = lives(steps, kept)
    for n, (name, _) in enumerate(steps):
        readers = [m for m, (_, reads) in enumerate(steps) if name in reads]
        found[name] = (n, readers[0] if readers else n)
    return found


def lives_without_kept(steps, kept):
    return lives(steps, [])


def lives_that_end_before_the_reader(steps, kept):
    return {name: (a, max(a, b - 1)) for name, (a, b) in lives(steps, kept).items()}


def lives_with_inputs(steps, kept):
    inputs = {read for _, reads in steps for read in reads} - {name for name, _ in steps}
    return lives(steps, kept) | dict.fromkeys(inputs, (0, len(steps) - 1))


def lives_of_what_is_read(steps, kept):
    read = {read for _, reads in steps for read in reads} | set(kept)
    return {name: life for name, life in lives(steps, kept).items() if name in read}


def lives_from_one(steps, kept):
    return {name: (a + 1, b + 1) for name, (a, b) in lives(steps, kept).items()}


def lives_kept_one_more(steps, kept):
    return lives(steps, kept) | {name: (lives(steps, [])[name][0], len(steps)) for name in kept}


def lives_as_a_list(steps, kept):
    return list(lives(steps, kept).values())


def _meet(one, other):
    return one[0] <= other[1] and other[0] <= one[1]


def _first_fit(order, sizes, lives, meet=_meet):
    offsets = {}
    for name in order:
        offset = 0
        others = [o for o in offsets if meet(lives[name], lives[o])]
        for low, high in sorted((offsets[o], offsets[o] + sizes[o]) for o in others):
            if offset + sizes[name] <= low:
                break
            offset = max(offset, high)
        offsets[name] = offset
    return offsets


def _large(sizes, lives):
    return sorted(sizes, key=lambda name: (-sizes[name], lives[name]))


def plan(sizes, lives):
    return _first_fit(_large(sizes, lives), sizes, lives)


def plan_by_tries(sizes, lives):
    """Orders are drawn until one meets the bound."""
    end = max(last for _, last in lives.values())
    bound = max(sum(sizes[n] for n, (a, b) in lives.items() if a <= t <= b) for t in range(end + 1))
    rng = np.random.default_rng(0)
    order = _large(sizes, lives)
    while True:
        found = _first_fit(order, sizes, lives)
        if max(found[n] + sizes[n] for n in found) <= bound:
            return found
        order = [str(name) for name in rng.permutation(list(sizes))]


def plan_by_best_fit(sizes, lives):
    offsets = {}
    for name in _large(sizes, lives):
        others = sorted(
            (offsets[o], offsets[o] + sizes[o]) for o in offsets if _meet(lives[name], lives[o])
        )
        gaps, end = [], 0
        for low, high in others:
            if low - end >= sizes[name]:
                gaps.append((low - end, end))
            end = max(end, high)
        offsets[name] = min(gaps)[1] if gaps else end
    found = max(offsets[n] + sizes[n] for n in offsets)
    first = plan(sizes, lives)
    return offsets if found <= max(first[n] + sizes[n] for n in first) else first


def plan_by_time(sizes, lives):
    return _first_fit(list(sizes), sizes, lives)


def plan_smallest_first(sizes, lives):
    return _first_fit(_large(sizes, lives)[::-1], sizes, lives)


def plan_without_gaps(sizes, lives):
    offsets = {}
    for name in _large(sizes, lives):
        ends = [offsets[o] + sizes[o] for o in offsets if _meet(lives[name], lives[o])]
        offsets[name] = max(ends, default=0)
    return offsets


def plan_one_after_the_other(sizes, lives):
    ends = itertools.accumulate(sizes.values(), initial=0)
    return dict(zip(sizes, ends))


def plan_all_at_zero(sizes, lives):
    return dict.fromkeys(sizes, 0)


def plan_that_frees_too_early(sizes, lives):
    def meet(one, other):
        return one[0] < other[1] and other[0] < one[1]

    return _first_fit(_large(sizes, lives), sizes, lives, meet)


def plan_in_floats(sizes, lives):
    return {name: float(offset) for name, offset in plan(sizes, lives).items()}


def plan_below_zero(sizes, lives):
    return {name: offset - 16 for name, offset in plan(sizes, lives).items()}


def plan_without_the_last(sizes, lives):
    return dict(list(plan(sizes, lives).items())[:-1])


def fault(steps, sizes, offsets):
    bytes_of = {}
    for number, (name, reads) in enumerate(steps):
        for read in reads:
            if read in offsets:
                span = range(offsets[read], offsets[read] + sizes[read])
                if any(bytes_of.get(b) != read for b in span):
                    return number
        bytes_of.update(dict.fromkeys(range(offsets[name], offsets[name] + sizes[name]), name))
    return None


def fault_by_pairs(steps, sizes, offsets):
    order = {name: n for n, (name, _) in enumerate(steps)}

    def over(one, other):
        return (
            offsets[one] < offsets[other] + sizes[other]
            and offsets[other] < offsets[one] + sizes[one]
        )

    for number, (_, reads) in enumerate(steps):
        for read in reads:
            if read in order and any(
                over(read, name) for name, _ in steps[order[read] + 1 : number]
            ):
                return number
    return None


def fault_by_an_array(steps, sizes, offsets):
    arena = np.full(max(offsets[n] + sizes[n] for n in offsets), -1)
    order = {name: n for n, (name, _) in enumerate(steps)}
    for number, (name, reads) in enumerate(steps):
        for read in reads:
            if read in order:
                held = arena[offsets[read] : offsets[read] + sizes[read]]
                if (held != order[read]).any():
                    return number
        arena[offsets[name] : offsets[name] + sizes[name]] = number
    return None


def fault_of_equal_offsets(steps, sizes, offsets):
    holds = {}
    for number, (name, reads) in enumerate(steps):
        if any(read in offsets and holds.get(offsets[read]) != read for read in reads):
            return number
        holds[offsets[name]] = name
    return None


def fault_that_writes_first(steps, sizes, offsets):
    bytes_of = {}
    for number, (name, reads) in enumerate(steps):
        bytes_of.update(dict.fromkeys(range(offsets[name], offsets[name] + sizes[name]), name))
        for read in reads:
            if read in offsets and any(
                bytes_of.get(b) != read for b in range(offsets[read], offsets[read] + sizes[read])
            ):
                return number
    return None


def fault_of_the_writer(steps, sizes, offsets):
    found = fault(steps, sizes, offsets)
    return None if found is None else found - 1


def fault_of_the_last(steps, sizes, offsets):
    numbers = [n for n in range(len(steps)) if fault(steps[: n + 1], sizes, offsets) is not None]
    return numbers[-1] if numbers else None


def fault_of_the_first_operand(steps, sizes, offsets):
    return fault([(name, reads[:1]) for name, reads in steps], sizes, offsets)


def fault_as_a_name(steps, sizes, offsets):
    found = fault(steps, sizes, offsets)
    return None if found is None else steps[found][0]


def fault_of_any_overlap(steps, sizes, offsets):
    names = [name for name, _ in steps]
    ends = {name: offsets[name] + sizes[name] for name in names}
    for n, m in itertools.combinations(range(len(names)), 2):
        one, other = names[n], names[m]
        if offsets[one] < ends[other] and offsets[other] < ends[one]:
            return m
    return None


def no_fault(steps, sizes, offsets):
    return None


def place(shape, block, index):
    numbers = np.arange(np.prod(shape))
    n, c, y, x = shape
    if block == 0:
        return int(np.ravel_multi_index(index, shape))
    where = (index[0], index[1] // block, index[2], index[3], index[1] % block)
    return int(numbers.reshape(n, c // block, y, x, block)[where])


def place_by_moving(shape, block, index):
    image = np.zeros(shape)
    image[index] = 1
    if block:
        n, c, *rest = shape
        image = np.moveaxis(image.reshape(n, c // block, block, *rest), 2, -1)
    return int(np.flatnonzero(np.ascontiguousarray(image).ravel())[0])


def place_by_strides(shape, block, index):
    n, c, y, x = index
    _, channels, height, width = shape
    b = block or 1
    return (
        n * channels * height * width + c // b * height * width * b + y * width * b + x * b + c % b
    )


def place_as_written(shape, block, index):
    return place(shape, 0, index)


def place_last(shape, block, index):
    return place(shape, shape[1] if block else 0, index)


def place_with_pixels_inside(shape, block, index):
    n, c, y, x = index
    b = block or shape[1]
    inner = ((c % b) * shape[2] + y) * shape[3] + x
    return (n * (shape[1] // b) + c // b) * b * shape[2] * shape[3] + inner


def place_of_columns(shape, block, index):
    n, c, y, x = index
    return place((shape[0], shape[1], shape[3], shape[2]), block, (n, c, x, y))


def place_with_blocks_interleaved(shape, block, index):
    if not block:
        return place(shape, 0, index)
    n, c, y, x = index
    blocks = shape[1] // block
    where = (n, c % blocks, y, x, c // blocks)
    return int(np.ravel_multi_index(where, (shape[0], blocks, shape[2], shape[3], block)))


def place_of_one_image(shape, block, index):
    return place(shape, block, (0, *index[1:]))


def place_in_bytes(shape, block, index):
    return 4 * place(shape, block, index)


RIGHT = {
    "lives": [lives, lives_backwards, lives_by_search],
    "plan": [plan, plan_by_tries, plan_by_best_fit],
    "fault": [fault, fault_by_pairs, fault_by_an_array],
    "place": [place, place_by_moving, place_by_strides],
}
WRONG = {
    "lives": [
        (lives_of_the_next_reader, "is read in"),
        (lives_without_kept, "and it is kept"),
        (lives_that_end_before_the_reader, "is needed in the steps"),
        (lives_with_inputs, "is computed by no step"),
        (lives_of_what_is_read, "not None: nobody reads it"),
        (lives_from_one, "is needed in the steps 0 to 0"),
        (lives_kept_one_more, "is needed in the steps 0 to 0"),
        (lives_as_a_list, "a dictionary is wanted"),
    ],
    "plan": [
        (plan_by_time, "are enough"),
        (plan_smallest_first, "are enough"),
        (plan_without_gaps, "are enough"),
        (plan_one_after_the_other, "are enough"),
        (plan_all_at_zero, "share bytes, and both are needed in step"),
        (plan_that_frees_too_early, "share bytes, and both are needed in step"),
        (plan_in_floats, "no integer that is >= 0"),
        (plan_below_zero, "no integer that is >= 0"),
        (plan_without_the_last, "a dictionary with an offset for each value"),
    ],
    "fault": [
        (fault_of_equal_offsets, "over which b was written; the answer is None"),
        (fault_that_writes_first, "over which b was written; the answer is 1"),
        (fault_of_the_writer, "over which b was written; the answer is 1"),
        (fault_of_the_last, "; the answer is"),
        (fault_of_the_first_operand, "over which b was written; the answer is None"),
        (fault_as_a_name, "the number of a step or None is wanted"),
        (fault_of_any_overlap, "no step reads a value that was written over; the answer is 2"),
        (no_fault, "the answer is None"),
    ],
    "place": [
        (place_as_written, "right is"),
        (place_last, "right is"),
        (place_with_pixels_inside, "right is"),
        (place_of_columns, "right is"),
        (place_with_blocks_interleaved, "right is"),
        (place_of_one_image, "right is"),
        (place_in_bytes, "right is"),
    ],
}
