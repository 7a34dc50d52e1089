"""The race checker and the interpreter agree on every program, to the byte and the element.

A loop is made parallel behind the legality check's back. The interpreter watches elements of the
program that the passes give; the race checker watches bytes of the code that the compiler gives.
"""

import numpy as np
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from minitensor.codegen import Target, generate, lowered
from minitensor.errors import ExecutionError
from minitensor.ir import For, LoopKind, interpret, loops_of, map_stmts
from minitensor.runtime import find_toolchain, native_target
from minitensor.sanitize import Sanitizer, check_races, load_sanitized, run_sanitized
from minitensor.testing import arrays_for, programs, schedules
from tests.parts import times
from tests.run.sanitize.racy import forced

RELAXED = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def serial(program):
    """The program without parallel loops."""

    def rewritten(stmt):
        new = map_stmts(stmt, rewritten)
        if isinstance(new, For) and new.kind is LoopKind.PARALLEL:
            return For(new.var, new.extent, new.body, LoopKind.SERIAL)
        return new

    return program.replace(body=rewritten(program.body))


def interpreted_race(program, arrays, names):
    """True if the interpreter finds a race; it has nothing else to complain about.

    names  of the outputs, which a program whose loops have no iterations no longer stores to
    """
    try:
        interpret(program, arrays, names)
    except ExecutionError as stopped:
        assert stopped.kind == "race", stopped.message
        return True
    return False


@given(st.data())
@settings(RELAXED, max_examples=times(15, 25))
def test_both_find_a_race_or_neither_does(data):
    program = data.draw(programs())
    if data.draw(st.booleans()):
        program = data.draw(schedules(program)).program
    kinds = (LoopKind.SERIAL, LoopKind.PARALLEL, LoopKind.UNROLL)
    loops = list(loops_of(program.body))
    assume(loops and not any(loop.kind.is_bound for loop in loops))
    loop = data.draw(st.sampled_from([x for x in loops if x.kind in kinds] or [None]))
    assume(loop is not None)
    racy = forced(serial(program), loop.var)
    arrays = data.draw(arrays_for(program))
    names = [b.name for b in program.outputs]
    target = native_target(Target("c", num_cores=2))
    expected = interpreted_race(lowered(racy, target), arrays, names)
    event("races" if expected else "clean")
    found = check_races(racy, *arrays, target=target)
    assert bool(found) == expected, (str(racy), [str(race) for race in found])
    assert interpreted_race(racy, arrays, names) >= expected


@given(st.data())
@settings(RELAXED, max_examples=times(12, 20))
def test_legal_schedules_are_clean_and_right(data):
    program = data.draw(programs())
    schedule = data.draw(schedules(program))
    assume(not any(loop.kind.is_bound for loop in loops_of(schedule.program.body)))
    arrays = data.draw(arrays_for(program))
    target = native_target(Target("c", num_cores=2))
    emitted = generate(schedule.program, target, hooks=True)
    (kernel,) = load_sanitized(Sanitizer.RACES, [emitted], find_toolchain())
    outcome = run_sanitized(Sanitizer.RACES, kernel, arrays)
    assert outcome.faults == ()
    expected, _ = interpret(program, arrays)
    for wanted, got in zip(expected, outcome.outputs):
        np.testing.assert_array_equal(wanted, got)
