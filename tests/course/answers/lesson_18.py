import itertools
import math

from minitensor.search import Rule, Verdict


def tiled(space, reduce, structure):
    found, seen = [], {"S": 0, "R": 0}
    for letter in structure:
        found += [f"{axis}_{seen[letter]}" for axis in (space if letter == "S" else reduce)]
        seen[letter] += 1
    return found


def tiled_by_queues(space, reduce, structure):
    levels = {"S": itertools.count(), "R": itertools.count()}
    axes = {"S": list(space), "R": list(reduce)}
    numbered = [(letter, next(levels[letter])) for letter in structure]
    return tuple(f"{axis}_{n}" for letter, n in numbered for axis in axes[letter])


def tiled_recursively(space, reduce, structure):
    if not structure:
        return []
    *rest, last = structure
    axes = space if last == "S" else reduce
    return [*tiled_recursively(space, reduce, rest), *(f"{a}_{rest.count(last)}" for a in axes)]


def tiled_by_axis(space, reduce, structure):
    found = [f"{axis}_{n}" for axis in space for n in range(structure.count("S"))]
    return found + [f"{axis}_{n}" for axis in reduce for n in range(structure.count("R"))]


def tiled_by_place(space, reduce, structure):
    pairs = [(n, space if x == "S" else reduce) for n, x in enumerate(structure)]
    return [f"{axis}_{n}" for n, axes in pairs for axis in axes]


def tiled_for_one_structure(space, reduce, structure):
    return tiled(space, reduce, "SSRSRS")


def tiled_inside_out(space, reduce, structure):
    return tiled(space, reduce, structure)[::-1]


def _cuts(extent, parts, most):
    if parts == 1:
        return int(extent <= most)
    return sum(_cuts(extent // d, parts - 1, most) for d in range(1, extent + 1) if extent % d == 0)


def numbers(space, reduce, structure, most):
    found = 1
    for axes, letter in ((space, "S"), (reduce, "R")):
        for extent in axes.values():
            found *= _cuts(extent, structure.count(letter), most)
    return found


def numbers_by_trying(space, reduce, structure, most):
    def ways(extent, parts):
        divisors = [d for d in range(1, extent + 1) if extent % d == 0]
        tried = itertools.product(divisors, repeat=parts)
        return sum(math.prod(one) == extent and one[-1] <= most for one in tried)

    spatial = [ways(extent, structure.count("S")) for extent in space.values()]
    return math.prod(spatial + [ways(extent, structure.count("R")) for extent in reduce.values()])


def numbers_by_binomials(space, reduce, structure, most):
    def any_order(n, parts):
        found, p = 1, 2
        while n > 1:
            power = 0
            while n % p == 0:
                n, power = n // p, power + 1
            found *= math.comb(power + parts - 1, parts - 1)
            p += 1
        return found

    def ways(extent, parts):
        if parts == 1:
            return int(extent <= most)
        inner = [d for d in range(1, min(most, extent) + 1) if extent % d == 0]
        return sum(any_order(extent // d, parts - 1) for d in inner)

    total = math.prod(ways(extent, structure.count("S")) for extent in space.values())
    return total * math.prod(ways(extent, structure.count("R")) for extent in reduce.values())


def numbers_without_a_limit(space, reduce, structure, most):
    return numbers(space, reduce, structure, 10**9)


def numbers_of_all_small_factors(space, reduce, structure, most):
    def ways(extent, parts):
        if parts == 0:
            return int(extent == 1)
        divisors = [d for d in range(1, min(extent, most) + 1) if extent % d == 0]
        return sum(ways(extent // d, parts - 1) for d in divisors)

    total = math.prod(ways(extent, structure.count("S")) for extent in space.values())
    return total * math.prod(ways(extent, structure.count("R")) for extent in reduce.values())


def numbers_that_are_added(space, reduce, structure, most):
    every = [numbers({axis: extent}, {}, structure, most) for axis, extent in space.items()]
    return sum(every) + sum(numbers({}, {a: e}, structure, most) for a, e in reduce.items())


def numbers_of_powers_of_two(space, reduce, structure, most):
    def ways(extent, parts):
        return math.comb(extent.bit_length() - 1 + parts - 1, parts - 1)

    return math.prod(ways(extent, structure.count("S")) for extent in space.values())


def _readers(stages, one):
    return [s for s in stages if any(buffer == one["name"] for buffer, _ in s["reads"])]


def _reuse(one):
    used = {}
    for buffer, axes in one["reads"]:
        used.setdefault(buffer, set()).update(axes)
    space = {axis for axis, extent in one["space"].items() if extent > 1}
    missing = sum(not space <= axes for axes in used.values())
    return missing >= 2 or (missing == 1 and bool(one["reduce"]))


def _free(stages, one):
    if one["reduce"] or one["costly"] or not _readers(stages, one):
        return False
    places = [[[*one["space"]].index(axis) for axis in axes] for _, axes in one["reads"]]
    return all(at == sorted(set(at)) for at in places)


def _can_follow(stages, one):
    if len(found := _readers(stages, one)) != 1 or found[0]["reduce"]:
        return False
    space = found[0]["space"]
    at = {axes for buffer, axes in found[0]["reads"] if buffer == one["name"]}
    return at == {"".join(space)} and [*space.values()] == [*one["space"].values()]


def _without(stages, gone):
    def now(buffer, axes):
        if buffer != gone["name"]:
            return [(buffer, axes)]
        here = dict(zip(gone["space"], axes))
        return [(inner, "".join(here[x] for x in at)) for inner, at in gone["reads"]]

    kept = (one for one in stages if one is not gone)
    return [{**one, "reads": [new for old in one["reads"] for new in now(*old)]} for one in kept]


def _few(one, cores):
    results, reduction = math.prod(one["space"].values()), math.prod(one["reduce"].values())
    if not one["reduce"] or reduction == 1:
        return False
    if _reuse(one):
        return results <= reduction and results <= 16 * cores
    return reduction > cores


def _ways(
    stages,
    one,
    cores,
    reuse=_reuse,
    few=_few,
    without=_without,
    can_follow=_can_follow,
    free=_free,
):
    if free(stages, one):
        return [(("inline",), without(stages, one))]
    found = [(f"rfactor {part}",) for part in ("outer", "inner")] if few(one, cores) else []
    if not reuse(one):
        found += [("skip",)]
    else:
        copied = () if can_follow(stages, one) else ("cache write",)
        found += [(*copied, "fusion 1"), (*copied, "fusion 2"), ("tiling",)]
    return [(rules, stages) for rules in found]


def derive(stages, cores, visited=(), **conditions):
    left = [one for one in stages if one["name"] not in visited]
    if not left:
        return [()]
    name, found = left[-1]["name"], []
    for rules, after in _ways(stages, left[-1], cores, **conditions):
        for rest in derive(after, cores, (*visited, name), **conditions):
            found.append((*((name, rule) for rule in rules), *rest))
    return found


def derive_with_a_stack(stages, cores):
    done, stack = [], [((), stages, [one["name"] for one in stages])]
    while stack:
        history, now, names = stack.pop()
        if not names:
            done.append(list(history))
            continue
        (one,) = (s for s in now if s["name"] == names[-1])
        for rules, after in _ways(now, one, cores):
            stack.append((history + tuple((names[-1], r) for r in rules), after, names[:-1]))
    return done


def derive_as_a_set(stages, cores):
    found, now = {()}, stages
    for name in reversed([one["name"] for one in stages]):
        (one,) = (s for s in now if s["name"] == name)
        rules = _ways(now, one, cores)
        found = {(*old, *((name, r) for r in new)) for old in found for new, _ in rules}
        now = rules[0][1]  # all ways of a stage leave the same program here
    return found


def derive_without_cache_write(stages, cores):
    return [
        tuple(pair for pair in one if pair[1] != "cache write") for one in derive(stages, cores)
    ]


def derive_without_rfactor(stages, cores):
    return derive(stages, cores, few=lambda one, cores: False)


def derive_rfactor_of_any_reduction(stages, cores):
    return derive(stages, cores, few=lambda one, cores: bool(one["reduce"]))


def derive_rfactor_by_cores_alone(stages, cores):
    def few(one, cores):
        return bool(one["reduce"]) and math.prod(one["reduce"].values()) > cores

    return derive(stages, cores, few=few)


def derive_inlined_readers_kept(stages, cores):
    return derive(stages, cores, visited=(), without=lambda stages, gone: _forgotten(stages, gone))


def _forgotten(stages, gone):
    """Drop a stage, and leave the reads of its readers as they are."""
    return [one for one in stages if one is not gone]


def derive_reuse_of_axes_of_one_iteration(stages, cores):
    def reuse(one):
        missing = sum(not set(one["space"]) <= set(axes) for _, axes in one["reads"])
        return missing >= 2 or (missing == 1 and bool(one["reduce"]))

    return derive(stages, cores, reuse=reuse)


def derive_twice(stages, cores):
    return derive(stages, cores) * 2


def derive_names(stages, cores):
    return [[rule for _, rule in one] for one in derive(stages, cores)]


def strips(name, widths):
    def judge(state, cores):
        return Verdict.APPLY_AND_STOP if state.name == name else Verdict.SKIP

    def apply(state, cores):
        schedule = state.schedule.copy()
        width = schedule.sample_categorical(widths)
        _, strip = schedule.split(schedule.get_loops(name)[-1], [None, width])
        schedule.vectorize(strip)
        return [state.after("strips", "a strip at a time", schedule)]

    return Rule("strips", judge, apply)


class Strips:
    """A rule without Rule, that yields its state."""

    def __init__(self, name, widths):
        self.name, self.widths = name, widths

    def judge(self, state, cores):
        return Verdict.APPLY_AND_STOP if state.block.name == self.name else Verdict.SKIP

    def apply(self, state, cores):
        schedule = state.schedule.copy()
        width = schedule.sample_categorical(self.widths, probs=[1, 2, 1])
        *_, last = schedule.get_loops(self.name)
        _, strip = schedule.split(last, [None, width], tail="guard")
        schedule.vectorize(strip)
        schedule.parallel(schedule.get_loops(self.name)[0])
        yield state.after("mine", "", schedule)


def strips_as_a_class(name, widths):
    return Strips(name, widths)


def strips_fused(name, widths):
    def apply(state, cores):
        if state.name != name:
            return []
        schedule = state.schedule.copy()
        *outer, last = schedule.get_loops(state.name)
        tiles, strip = schedule.split(last, [None, schedule.sample_categorical(list(widths))])
        schedule.fuse(*outer, tiles)
        schedule.vectorize(strip)
        return [state.after("fused strips", "all others in one loop", schedule)]

    return Rule("fused strips", lambda state, cores: Verdict.APPLY_AND_STOP, apply)


def strips_of_one_width(name, widths):
    def apply(state, cores):
        schedule = state.schedule.copy()
        _, strip = schedule.split(schedule.get_loops(name)[-1], [None, widths[0]])
        schedule.vectorize(strip)
        return [state.after("strips", "", schedule)]

    return Rule("strips", strips(name, widths).judge, apply)


def strips_beside_others(name, widths):
    def judge(state, cores):
        return Verdict.APPLY if state.name == name else Verdict.SKIP

    return Rule("strips", judge, strips(name, widths).apply)


def strips_of_every_block(name, widths):
    def apply(state, cores):
        return strips(state.name, widths).apply(state, cores)

    return Rule("strips", lambda state, cores: Verdict.APPLY_AND_STOP, apply)


def strips_of_the_first_loop(name, widths):
    def apply(state, cores):
        schedule = state.schedule.copy()
        width = schedule.sample_categorical(widths)
        schedule.split(schedule.get_loops(name)[0], [None, width])
        return [state.after("strips", "", schedule)]

    return Rule("strips", strips(name, widths).judge, apply)


def strips_by_their_number(name, widths):
    def apply(state, cores):
        schedule = state.schedule.copy()
        count = schedule.sample_categorical(widths)
        _, strip = schedule.split(schedule.get_loops(name)[-1], [count, None])
        schedule.vectorize(strip)
        return [state.after("strips", "", schedule)]

    return Rule("strips", strips(name, widths).judge, apply)


def strips_of_a_state(name, widths):
    def apply(state, cores):
        width = state.schedule.sample_categoric(widths)
        return [state.after("strips", str(width))]

    return Rule("strips", strips(name, widths).judge, apply)


RIGHT = {
    "tiled": [tiled, tiled_by_queues, tiled_recursively],
    "numbers": [numbers, numbers_by_trying, numbers_by_binomials],
    "derive": [derive, derive_with_a_stack, derive_as_a_set],
    "strips": [strips, strips_as_a_class, strips_fused],
}
WRONG = {
    "tiled": [
        (tiled_by_axis, "right is"),
        (tiled_by_place, "right is"),
        (tiled_for_one_structure, "right is"),
        (tiled_inside_out, "right is"),
    ],
    "numbers": [
        (numbers_without_a_limit, "right is"),
        (numbers_of_all_small_factors, "right is"),
        (numbers_that_are_added, "right is"),
        (numbers_of_powers_of_two, "right is"),
    ],
    "derive": [
        (derive_without_cache_write, "cache write"),
        (derive_without_rfactor, "rfactor outer"),
        (derive_rfactor_of_any_reduction, "has no sketch"),
        (derive_rfactor_by_cores_alone, "sketch"),
        (derive_inlined_readers_kept, "fusion 1"),
        (derive_reuse_of_axes_of_one_iteration, "sketch"),
        (derive_twice, "more than once"),
        (derive_names, "pairs of a stage and a rule"),
    ],
    "strips": [
        (strips_of_one_width, "the width is to be left open"),
        (strips_beside_others, "let yours stop the others"),
        (strips_of_every_block, "are not visited as without the rule"),
        (strips_of_the_first_loop, "is to be vectorized"),
        (strips_by_their_number, "a strip has one of"),
        (strips_of_a_state, "sample_categoric"),
    ],
}
