"""Loops and blocks by name, what is around them, who reads and who writes."""

from minitensor.ir import loop_sites, readers, writers
from minitensor.schedule.edit import chain, holds_block, parts
from tests.unit.schedule import programs


def test_loop_sites_are_in_the_order_of_the_text():
    program = programs.matmul_relu()
    sites = loop_sites(program)
    assert list(sites) == ["i", "j", "k", "x", "y"]
    assert [loop.var for loop in sites["k"].outer] == ["i", "j"]
    assert loop_sites(program) is sites


def test_readers_and_writers():
    program = programs.fork()
    assert [b.name for b in readers(program, "P")] == ["Q", "R"]
    assert [b.name for b in writers(program, "P")] == ["P"]
    assert [b.name for b in readers(program, "A")] == ["P"]
    assert writers(program, "A") == []
    assert readers(programs.rowsum(), "C") == []
    assert [b.name for b in readers(programs.scan(), "W")] == ["W"]


def test_chains_of_loops():
    program = programs.matmul()
    first = program.body
    assert [loop.var for loop in chain(first, "k")] == ["i", "j", "k"]
    assert [loop.var for loop in chain(first, "i")] == ["i"]
    assert chain(first, "nope") is None


def test_parts_and_what_they_hold():
    program = programs.chain()
    first, second = parts(program.body)
    assert holds_block(first, {"B"})
    assert not holds_block(second, {"B"})
    assert parts(first) == (first,)
