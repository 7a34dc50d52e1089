"""Spaces of targets that leave something open."""

import random

import pytest

import minitensor as mt
from minitensor.runtime import native_target
from minitensor.search import DEFAULT_RULES, Rule, Space, Verdict, generate_sketches

PROGRAM = mt.lower(mt.workloads.matmul(8, 8, 8))


def from_sketches(program, target):
    return Space(program, target, generate_sketches(program, target))


def of_template(program, target):
    return Space.of_template(program, target, lambda s: s.split("i", s.sample_perfect_tile("i", 2)))


makers = pytest.mark.parametrize("make", [Space.of, from_sketches, of_template])


@pytest.mark.slow
@makers
@pytest.mark.parametrize("target", ["c", mt.Target("c", num_cores=3)], ids=str)
def test_what_a_target_leaves_open_is_that_of_the_machine(make, target):
    exact = native_target(mt.Target.of(target))
    found, wanted = make(PROGRAM, target), make(PROGRAM, exact)
    assert found.target == exact and found.cores == exact.num_cores
    one, other = (s.schedule(s.draw(random.Random(0))) for s in (found, wanted))
    assert one.program == other.program


@makers
@pytest.mark.parametrize("target", [None, 4, ("c", 2), mt.Target], ids=str)
def test_what_is_no_target(make, target):
    with pytest.raises(mt.ArgumentError, match=r"a target.s name or an mt.Target, but got target="):
        make(PROGRAM, target)


@makers
def test_a_name_of_no_target(make):
    with pytest.raises(
        mt.ArgumentError,
        match=r"expected 'c', 'cuda', 'cuda-emulator', 'accelerator' or 'interpreter', "
        r"but got target='C'",
    ):
        make(PROGRAM, "C")


def test_rules_see_a_target_with_nothing_left_open():
    seen, exact = set(), native_target(mt.Target("c"))
    judge = lambda state, cores: seen.add((state.target, cores)) or Verdict.SKIP
    Space.of(PROGRAM, "c", [Rule("spy", judge, lambda *_: []), *DEFAULT_RULES])
    assert seen == {(exact, exact.num_cores)}
