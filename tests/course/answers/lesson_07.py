from minitensor import ir
from minitensor.errors import ScheduleError


def conflicts(reads, writes, extent):
    for i in range(extent):
        for j in range(extent):
            written = {c * i + d for c, d in writes}
            if i != j and written & {c * j + d for c, d in [*reads, *writes]}:
                return i, j
    return None


def conflicts_by_a_table(reads, writes, extent):
    writers = {}
    for i in range(extent):
        for c, d in writes:
            writers.setdefault(c * i + d, set()).add(i)
    for i in range(extent):
        for c, d in reads + writes:
            others = writers.get(c * i + d, set()) - {i}
            if others:
                return [i, others.pop()]
    return None


def conflicts_from_the_end(reads, writes, extent):
    for c, d in writes:
        for e, f in [*writes, *reads]:
            for i in reversed(range(extent)):
                if e == 0:
                    found = [j for j in range(extent) if c * i + d == f]
                else:
                    found = [(c * i + d - f) // e] if (c * i + d - f) % e == 0 else []
                for j in found:
                    if j != i and 0 <= j < extent:
                        return j, i
    return None


def conflicts_of_writes_alone(reads, writes, extent):
    return conflicts([], writes, extent)


def conflicts_of_flow_alone(reads, writes, extent):
    for j in range(extent):
        for i in range(j):
            if {c * i + d for c, d in writes} & {c * j + d for c, d in reads}:
                return i, j
    return None


def conflicts_with_itself(reads, writes, extent):
    for i in range(extent):
        for j in range(extent):
            written = {c * i + d for c, d in writes}
            if written & {c * j + d for c, d in [*reads, *writes]}:
                return i, j
    return None


def conflicts_of_reads_too(reads, writes, extent):
    return conflicts([], [*reads, *writes], extent)


def conflicts_past_the_end(reads, writes, extent):
    return conflicts(reads, writes, extent + 1)


def conflicts_as_an_answer(reads, writes, extent):
    return conflicts(reads, writes, extent) is not None


def legal_loops(s):
    found = []
    for name, site in ir.loop_sites(s.program).items():
        iters = [i for block in ir.blocks_of(site.loop) for i in block.iters]
        if all(i.kind is ir.IterKind.SPATIAL or name not in ir.free_vars(i.binding) for i in iters):
            found.append(name)
    return found


def legal_loops_by_taking_away(s):
    legal = set(ir.loop_sites(s.program))
    for block in s.program.blocks.values():
        for i in block.iters:
            if i.kind.value != "spatial":
                legal -= set(ir.free_vars(i.binding))
    return legal


def legal_loops_by_text(s):
    legal = {loop for block in s.get_blocks() for loop in s.get_loops(block)}
    for block in s.program.blocks.values():
        kept = [i for i in block.iters if i.kind is not ir.IterKind.SPATIAL]
        text = " ".join(ir.print_expr(i.binding) for i in kept)
        words = "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
        legal -= set(words)
    return tuple(sorted(legal))


def legal_loops_by_trying(s):
    found = []
    for name in ir.loop_sites(s.program):
        try:
            s.copy().parallel(name)
            found.append(name)
        except ScheduleError:
            pass
    return found


def legal_loops_without_scans(s):
    return [
        name
        for name, site in ir.loop_sites(s.program).items()
        if not any(
            i.kind is ir.IterKind.REDUCE and name in ir.free_vars(i.binding)
            for block in ir.blocks_of(site.loop)
            for i in block.iters
        )
    ]


def legal_loops_by_name(s):
    return [name for name in ir.loop_sites(s.program) if not name.startswith(("k", "t"))]


def legal_loops_of_an_output(s):
    found = set()
    for block in s.program.blocks.values():
        for i in block.iters:
            if i.kind is ir.IterKind.SPATIAL:
                found |= set(ir.free_vars(i.binding))
    return found


def legal_loops_outermost(s):
    return {s.get_loops(block)[0] for block in s.get_blocks()} & set(legal_loops(s))


def legal_loops_counted(s):
    return len(legal_loops(s))


def outermost(s):
    for loop in s.get_loops("W"):
        copy = s.copy()
        try:
            copy.parallel(loop)
        except ScheduleError:
            continue
        others = [other for other in s.get_loops("W") if other != loop]
        s.reorder(loop, *others)
        s.parallel(loop)
        return


def outermost_by_kind(s):
    block = s.program.blocks["W"]
    loops = s.get_loops("W")
    free = [loop for loop, i in zip(loops, block.iters) if i.kind is ir.IterKind.SPATIAL]
    first = free[0]
    s.reorder(first, *[loop for loop in loops if loop != first])
    s.parallel(first)
    return s


def outermost_by_choices(s):
    first = s.get_loops("W")[0]
    try:
        s.parallel(first)
    except ScheduleError as refused:
        inner = refused.choices[0]
        for loop in reversed(s.get_loops("W")):
            if loop != inner and s.get_loops("W").index(loop) < s.get_loops("W").index(inner):
                s.reorder(inner, loop)
        s.parallel(s.get_loops("W")[0])


def outermost_in_tiles(s):
    loops, kinds = s.get_loops("W"), [i.kind for i in s.program.blocks["W"].iters]
    loop = loops[kinds.index(ir.IterKind.SPATIAL)]
    outer, inner = s.split(loop, [2, None])
    s.reorder(outer, *[name for name in loops if name != loop], inner)
    s.vectorize(inner)
    s.parallel(outer)


def outermost_at_once(s):
    s.parallel(s.get_loops("W")[0])


def outermost_inside(s):
    s.parallel(s.get_loops("W")[-1])


def outermost_of_two(s):
    outer, inner = s.get_loops("W")[:2]
    s.reorder(inner, outer)
    s.parallel(inner)


def outermost_of_one_iteration(s):
    s.parallel(s.add_unit_loop(s.get_loops("W")[0]))


def outermost_reordered_only(s):
    *others, last = s.get_loops("W")
    s.reorder(last, *others)


def in_parts(s, parts):
    k_0, _ = s.split("k", [parts, None])
    s.rfactor(k_0)
    s.parallel(k_0)


def in_parts_interleaved(s, parts):
    (k,) = s.get_loops("S")
    k_0, k_1 = s.split(k, [None, parts])
    s.rfactor(k_1, axis=-1)
    s.reorder(k_1, k_0)
    s.parallel(k_1)
    return s


def in_parts_and_lanes(s, parts):
    k_0, _, k_2 = s.split("k", [parts, None, 2])
    s.rfactor(k_0)
    partial = s.vectorize(k_2)
    s.parallel(s.get_loops(partial)[0])


def in_parts_at_once(s, parts):
    k_0, _ = s.split("k", [parts, None])
    s.parallel(k_0)


def in_parts_of_each_element(s, parts):
    s.rfactor("k", axis=-1)
    s.parallel("k")


def in_parts_of_that_length(s, parts):
    k_0, _ = s.split("k", [None, parts])
    s.rfactor(k_0)
    s.parallel(k_0)


def in_parts_all_in_the_first(s, parts):
    k_0, _ = s.split("k", [parts, s.program.inputs[0].shape[0]])
    s.rfactor(k_0)
    s.parallel(k_0)


def in_parts_serial(s, parts):
    k_0, _ = s.split("k", [parts, None])
    s.rfactor(k_0)


def in_parts_that_fit(s, parts):
    k_0, _ = s.split("k", [parts, None], tail="exact")
    s.rfactor(k_0)
    s.parallel(k_0)


RIGHT = {
    "conflicts": [conflicts, conflicts_by_a_table, conflicts_from_the_end],
    "legal_loops": [legal_loops, legal_loops_by_taking_away, legal_loops_by_text],
    "outermost": [outermost, outermost_by_kind, outermost_by_choices, outermost_in_tiles],
    "in_parts": [in_parts, in_parts_interleaved, in_parts_and_lanes],
}
WRONG = {
    "conflicts": [
        (conflicts_of_writes_alone, "gives None, but iterations"),
        (conflicts_of_flow_alone, "gives None, but iterations"),
        (conflicts_with_itself, "not two iterations of the loop"),
        (conflicts_of_reads_too, "of which neither touches what the other writes"),
        (conflicts_past_the_end, "not two iterations of the loop"),
        (conflicts_as_an_answer, "wanted are two iterations, or None"),
    ],
    "legal_loops": [
        (legal_loops_by_trying, "it calls mt.Schedule.parallel"),
        (legal_loops_without_scans, "breaks R3"),
        (legal_loops_by_name, "it names"),
        (legal_loops_of_an_output, "breaks R2"),
        (legal_loops_outermost, "is legal, and it does not name it"),
        (legal_loops_counted, "wanted are names of loops"),
    ],
    "outermost": [
        (outermost_at_once, "breaks R3"),
        (outermost_inside, "the outermost loop around W is parallel"),
        (outermost_of_two, "breaks R3"),
        (outermost_of_one_iteration, "of at least two iterations, but it is u, parallel, of 1"),
        (outermost_reordered_only, "serial, of"),
    ],
    "in_parts": [
        (in_parts_at_once, "breaks R2"),
        (in_parts_of_each_element, "but it has"),
        (in_parts_of_that_length, "but it has"),
        (in_parts_all_in_the_first, "only 1 of them"),
        (in_parts_serial, "there is no parallel loop"),
        (in_parts_that_fit, "breaks R3"),
    ],
}
