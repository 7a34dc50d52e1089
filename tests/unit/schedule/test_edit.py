"""Replacing, inserting and removing statements by identity; fresh names."""

import minitensor as mt
from minitensor.ir import For, Seq, loop_sites, loops_of, nest, sequence, with_body
from minitensor.schedule.edit import (
    Fresh,
    loops_around,
    map_blocks,
    parts,
    splice,
    spliced,
    with_block,
)
from tests.unit.schedule import programs

# ---- splice


def test_what_holds_no_edit_stays_the_same_object():
    program = programs.fork()
    assert splice(program.body, {}) is program.body
    block = program.blocks["Q"]
    new = spliced(program, {id(block): with_block(block, name="Q2")})
    assert list(new.blocks) == ["P", "Q2", "R", "S"]
    before, after = parts(program.body), parts(new.body)
    assert [a is b for a, b in zip(before, after)] == [True, False, True, True]


def test_loops_left_with_nothing_go_too():
    program = programs.chain2d()
    new = spliced(program, {id(program.blocks["B"]): None})
    assert [loop.var for loop in loops_of(new.body)] == ["x", "y"]
    nothing = spliced(new, {id(new.blocks["C"]): None})
    assert nothing.body == Seq(())


def test_replacing_a_loop_by_two_statements_opens_the_sequence():
    program = programs.chain()
    first = loop_sites(program)["i"].loop
    new = spliced(program, {id(first): sequence(first, with_body(first, first.body))})
    assert len(parts(new.body)) == 3
    assert all(isinstance(part, For) for part in parts(new.body))


def test_nests_of_loops():
    program = programs.grid()
    loops = loops_around(program, "C")
    block = program.blocks["C"]
    assert nest(loops, block) == program.body
    assert nest([], block) is block
    outer = nest(loops[::-1], block)
    assert (outer.var, outer.body.var) == ("j", "i")


def test_map_blocks_gives_the_loops_between():
    program = programs.matmul_relu()
    seen = []

    def note(block, path):
        seen.append((block.name, [loop.var for loop in path]))
        return block

    assert map_blocks(program.body, note) is program.body
    assert seen == [("C", ["i", "j", "k"]), ("D", ["x", "y"])]


def test_fresh_names_are_new_in_every_sense():
    s = mt.Schedule(programs.chain())
    s.split("i", [2, 4])
    s.cache_read("C", "B", "local")
    fresh = Fresh(s.program)
    assert fresh.loop("i") == "i2"
    assert fresh.loop("i") == "i3"
    assert fresh.loop("i_0") == "i_0_2"
    assert fresh.loop("root") == "root2"
    assert fresh.loop("B") == "B2"
    assert fresh.block("A") == "A2"
    assert fresh.block("B_local") == "B_local2"
    assert fresh.block("i_0") != "i_0"
    name = fresh.block("N")
    assert fresh.loop(name) != name
