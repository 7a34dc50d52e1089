from dataclasses import replace

import minitensor as mt
from minitensor import ir
from minitensor.schedule import LoopName
from minitensor.search import Rule, Verdict

RULES = {
    "R1": "the loop is serial",
    "R2": ("iterations are from 0 to the extent - 1", "take n from 1 to the extent - 1"),
    "R3": "iterations may run in any order",
}


def replaced(program, loop, change):
    def at(node):
        return change(node) if isinstance(node, ir.For) and node.var == loop else node

    return program.replace(body=ir.rewrite(program.body, at))


def elsewhere(program, loop, n):
    def change(node):
        place = (ir.Var(loop) + n) % node.extent
        return replace(node, body=ir.substitute(node.body, {loop: place}))

    return replaced(program, loop, change)


def keeps_order(program, loop):
    for block in ir.blocks_of(ir.loop_sites(program)[loop].loop):
        for i in block.iters:
            starts = i.kind is ir.IterKind.REDUCE and block.init is not None
            if loop in ir.free_vars(i.binding) and (starts or i.kind is ir.IterKind.ORDERED):
                return True
    return False


@mt.primitive(rules=RULES)
def rotate(program: ir.Program, loop: LoopName, n: int):
    node = ir.loop_sites(program)[loop].loop
    if node.kind is not ir.LoopKind.SERIAL:
        mt.refuse("R1")
    if not 0 < n < node.extent:
        mt.refuse("R2", f"{node.extent} iterations, n is {n}")
    if keeps_order(program, loop):
        mt.refuse("R3")
    return elsewhere(program, loop, n)


@mt.primitive(rules=RULES)
def rotate_by_a_condition(program: ir.Program, loop: LoopName, n: int):
    node = ir.loop_sites(program)[loop].loop
    if node.kind.value != "serial" or n not in range(1, node.extent):
        mt.refuse("R1" if node.kind.value != "serial" else "R2")
    if keeps_order(program, loop):
        mt.refuse("R3")
    new = ir.Var(ir.fresh_name(f"{loop}_turned", {*ir.names_in(program), *program.retired}))
    wraps = ir.less(node.extent - n - 1, new)
    place = ir.Select(wraps, new + (n - node.extent), new + n)
    body = ir.substitute(node.body, {loop: place})
    return replaced(program, loop, lambda _: replace(node, var=new.name, body=body)), new.name


@mt.primitive(rules=RULES)
def rotate_in_two_loops(program: ir.Program, loop: LoopName, n: int):
    node = ir.loop_sites(program)[loop].loop
    if node.kind is not ir.LoopKind.SERIAL:
        mt.refuse("R1")
    if n < 1 or n >= node.extent:
        mt.refuse("R2")
    if keeps_order(program, loop):
        mt.refuse("R3")
    taken = {*ir.names_in(program), *program.blocks, *program.retired}

    def copied(part):
        if isinstance(part, ir.For):
            new = ir.fresh_name(f"{part.var}_copy", taken)
            body = ir.substitute(copied(part.body), {part.var: ir.Var(new)})
            return replace(part, var=new, body=body)
        if isinstance(part, ir.Block):
            return replace(part, name=ir.fresh_name(f"{part.name}_copy", taken))
        return ir.map_stmts(part, copied)

    later = copied(replace(node, extent=n))
    body = ir.substitute(node.body, {loop: ir.Var(loop) + n})
    first = replace(node, extent=node.extent - n, body=body)
    return replaced(program, loop, lambda _: ir.sequence(first, later))


@mt.primitive(rules=RULES)
def rotate_anything(program: ir.Program, loop: LoopName, n: int):
    return elsewhere(program, loop, n)


@mt.primitive(rules=RULES)
def rotate_sums(program: ir.Program, loop: LoopName, n: int):
    node = ir.loop_sites(program)[loop].loop
    ordered = any(
        i.kind is ir.IterKind.ORDERED and loop in ir.free_vars(i.binding)
        for block in ir.blocks_of(node)
        for i in block.iters
    )
    if ordered or node.kind is not ir.LoopKind.SERIAL or not 0 < n < node.extent:
        mt.refuse("R3")
    return elsewhere(program, loop, n)


@mt.primitive(rules=RULES)
def rotate_no_reduction(program: ir.Program, loop: LoopName, n: int):
    node = ir.loop_sites(program)[loop].loop
    for block in ir.blocks_of(node):
        for i in block.iters:
            if i.kind is not ir.IterKind.SPATIAL and loop in ir.free_vars(i.binding):
                mt.refuse("R3")
    if node.kind is not ir.LoopKind.SERIAL or not 0 < n < node.extent:
        mt.refuse("R2")
    return elsewhere(program, loop, n)


@mt.primitive(rules=RULES)
def rotate_by_all(program: ir.Program, loop: LoopName, n: int):
    node = ir.loop_sites(program)[loop].loop
    if keeps_order(program, loop) or node.kind is not ir.LoopKind.SERIAL:
        mt.refuse("R3")
    if not 0 < n <= node.extent:
        mt.refuse("R2")
    return elsewhere(program, loop, n)


@mt.primitive(rules=RULES)
def rotate_backwards(program: ir.Program, loop: LoopName, n: int):
    node = ir.loop_sites(program)[loop].loop
    if keeps_order(program, loop) or node.kind is not ir.LoopKind.SERIAL:
        mt.refuse("R3")
    if not 0 < n < node.extent:
        mt.refuse("R2")
    return elsewhere(program, loop, node.extent - n)


@mt.primitive(rules=RULES)
def rotate_nothing(program: ir.Program, loop: LoopName, n: int):
    node = ir.loop_sites(program)[loop].loop
    if keeps_order(program, loop) or node.kind is not ir.LoopKind.SERIAL:
        mt.refuse("R3")
    if not 0 < n < node.extent:
        mt.refuse("R2")
    return program


@mt.primitive(rules=RULES)
def rotate_without_the_end(program: ir.Program, loop: LoopName, n: int):
    node = ir.loop_sites(program)[loop].loop
    if keeps_order(program, loop) or node.kind is not ir.LoopKind.SERIAL:
        mt.refuse("R3")
    if not 0 < n < node.extent:
        mt.refuse("R2")
    body = ir.substitute(node.body, {loop: ir.Var(loop) + n})
    return replaced(program, loop, lambda _: replace(node, body=body))


@mt.primitive(rules=RULES)
def rotate_with_one_name(program: ir.Program, loop: LoopName, n: int):
    node = ir.loop_sites(program)[loop].loop
    if keeps_order(program, loop) or node.kind is not ir.LoopKind.SERIAL:
        mt.refuse("R3")
    if not 0 < n < node.extent:
        mt.refuse("R2")
    body = ir.substitute(node.body, {loop: ir.Var(loop) + n})
    first = replace(node, extent=node.extent - n, body=body)
    return replaced(program, loop, lambda _: ir.sequence(first, replace(node, extent=n)))


def rotate_undeclared(program, loop, n):
    if keeps_order(program, loop):
        mt.refuse("R3")
    return elsewhere(program, loop, n)


def with_reduction(state):
    return any(i.kind is ir.IterKind.REDUCE for i in state.block.iters)


def cut(state, loop=-1, sizes=(4, 8)):
    schedule = state.schedule.copy()
    size = schedule.sample_categorical(list(sizes))
    _, inner = schedule.split(schedule.get_loops(state.name)[loop], [None, size])
    schedule.unroll(inner)
    return [state.after("strips", "in strips", schedule)]


def rule(verdict=Verdict.APPLY, **given):
    return Rule(
        "strips",
        lambda state, cores: verdict if with_reduction(state) else Verdict.SKIP,
        lambda state, cores: cut(state, **given),
    )


def strips():
    return rule()


class StripsRule:
    def judge(self, state, cores):
        return Verdict.APPLY if with_reduction(state) else Verdict.SKIP

    def apply(self, state, cores):
        yield from cut(state)


def strips_as_an_object():
    return StripsRule()


def strips_by_no_state():
    def apply(state, cores):
        return cut(state) if with_reduction(state) else []

    return Rule("strips", lambda state, cores: Verdict.APPLY, apply)


def strips_and_stop():
    return rule(Verdict.APPLY_AND_STOP)


def strips_of_rows():
    return rule(loop=0)


def strips_of_four():
    return rule(sizes=(4,))


def strips_of_any_block():
    return Rule("strips", lambda state, cores: Verdict.APPLY, lambda state, cores: cut(state))


def strips_that_are_loops():
    def apply(state, cores):
        schedule = state.schedule.copy()
        size = schedule.sample_categorical([4, 8])
        schedule.split(schedule.get_loops(state.name)[-1], [None, size])
        return [state.after("strips", "in strips", schedule)]

    return Rule("strips", rule().judge, apply)


def strips_of_the_state():
    def apply(state, cores):
        return [state.after("strips", "in strips")]

    return Rule("strips", rule().judge, apply)


RIGHT = {
    "rotate": [rotate, rotate_by_a_condition, rotate_in_two_loops],
    "strips": [strips, strips_as_an_object, strips_by_no_state],
}
WRONG = {
    "rotate": [
        (rotate_anything, "has to be refused"),
        (rotate_sums, "gives wrong results: it has to be refused"),
        (rotate_no_reduction, "is refused, though results stay the same"),
        (rotate_by_all, "has to be refused"),
        (rotate_backwards, "not in the order that is wanted"),
        (rotate_nothing, "not in the order that is wanted"),
        (rotate_without_the_end, "gives wrong results"),
        (rotate_with_one_name, "gives what is no program"),
        (rotate_undeclared, "refuse"),
    ],
    "strips": [
        (strips_and_stop, "and there are 1: with strips, and by the rules after it"),
        (strips_of_rows, "of S"),
        (strips_of_four, "strips of S have 4 iterations"),
        (strips_of_any_block, "sketches are wanted, and there are"),
        (strips_that_are_loops, "is serial, not unrolled"),
        (strips_of_the_state, "and there are 1"),
    ],
}
