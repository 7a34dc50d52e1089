"""Some mistakes of each kind in kernels of several nests; `mistakes.py` makes all of them."""

from collections import Counter

import pytest

from minitensor.codegen import lowered
from minitensor.errors import CompileError
from tests.run.cuda.cooperating import COOPERATING
from tests.run.cuda.mistakes import KINDS, TARGET, check, mutants_of

pytestmark = pytest.mark.slow
SOME = (
    *("matmul of odd sizes", "rows, each thread some of its own", "three nests", "rows in turn"),
    *("stencil", "sums of rows", "rows less their sum", "scan", "transposition"),
)
FULL = 40
"""Mutants of these that are run."""


@pytest.fixture(scope="module")
def checked():
    made = []
    for name in SOME:
        made += mutants_of(name, lowered(COOPERATING[name]().program, TARGET))
    barriers = [m for m in made if m.kind == "barrier"]
    others = [m for m in made if m.kind != "barrier"]
    step = -(-len(others) // (FULL - len(barriers)))
    try:
        return check(list(SOME), barriers + others[::step])
    except CompileError as failure:
        if "compiles no C++" in failure.message:
            pytest.skip(failure.message)
        raise


def test_no_correct_kernel_is_reported(checked):
    assert checked[0] == []


def test_no_mutant_is_missed(checked):
    _, results = checked
    assert [(r.mutant, r.said) for r in results if r.end == "missed"] == []
    kinds = Counter((r.mutant.kind, r.end) for r in results)
    assert min(sum(kinds[kind, end] for end in ("caught", "values")) for kind in KINDS) > 3
    for kind in ("barrier", "writers"):
        assert {end for one, end in kinds if one == kind} == {"caught"}
    assert kinds["guard", "caught"] > 2 * kinds["guard", "equivalent"]
    assert kinds["owners", "caught"] > 0
