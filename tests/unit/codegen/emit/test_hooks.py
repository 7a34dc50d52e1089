"""The calls that a text makes where it is to be observed as it runs."""

import re

import pytest

import minitensor as mt
from minitensor.codegen import Target, generate, generate_together

TARGET = Target("c", num_cores=2, vector_bits=128)


def chain(extent=2048):
    """D = (A + 1) * 2 in reversed order, with the sum in a temporary of `extent` floats for each
    of 4 rows.
    """
    A = mt.placeholder((4, extent), "float32", name="A")
    T = mt.compute((4, extent), lambda i, j: A[i, j] + 1, name="T")
    return mt.Schedule(
        mt.lower([A, mt.compute((4, extent), lambda i, j: T[i, extent - 1 - j] * 2, name="D")])
    )


def parallel(schedule, *loops):
    """The program with these loops parallel."""
    for loop in loops:
        schedule.parallel(loop)
    return schedule.program


def calls(source):
    """The calls of hooks in the order of the text, declarations left out."""
    return re.findall(r"checked_\w+\([^)]*\);", source.split("_kernel(")[1])


def test_without_hooks_the_text_makes_no_calls():
    emitted = generate(parallel(chain(), "i"), TARGET)
    assert "checked" not in emitted.source
    assert emitted.loops == emitted.memory == ()


def test_loops_iterations_and_memory_are_told():
    emitted = generate(parallel(chain(), "i"), TARGET, hooks=True)
    assert emitted.loops == ("i",)
    assert [b.name for b in emitted.memory] == ["T"]
    assert calls(emitted.source) == [
        "checked_memory(2, T, 32768);",
        "checked_loop(0);",
        "checked_iteration(i);",
        "checked_end();",
        "checked_gone(2, T, 32768);",
    ]


def test_an_iterations_own_memory_is_told_inside_it():
    schedule = chain()
    schedule.compute_at("T", "D_i")
    emitted = generate(parallel(schedule, "D_i"), TARGET, hooks=True)
    told = calls(emitted.source)
    assert [t.split("(")[0] for t in told] == [
        "checked_loop",
        "checked_iteration",
        "checked_memory",
        "checked_gone",
        "checked_end",
    ]


def test_temporaries_in_the_workspace_have_gaps_behind_them():
    program = chain().program
    plain, checked = (generate(program, TARGET, hooks=h) for h in (False, True))
    assert checked.workspace == plain.workspace + 64


def test_loops_that_share_a_start_of_the_threads_are_told_apart():
    emitted = generate(parallel(chain(), "i", "D_i"), TARGET, hooks=True)
    assert emitted.loops == ("i", "D_i")
    assert calls(emitted.source).count("checked_end();") == 2


def test_kernels_of_one_text_count_for_themselves():
    pair = [(parallel(chain(), "i"), TARGET)] * 2
    first, second = generate_together(pair, hooks=True)
    assert first.loops == second.loops == ("i",)
    assert first.source.count("void checked_loop(int number);") == 1


@pytest.mark.parametrize("name", ["checked_loop", "checked_end"])
def test_no_buffer_has_the_name_of_a_hook(name):
    A = mt.placeholder((4,), "float32", name=name)
    program = mt.lower([A, mt.compute((4,), lambda i: A[i], name="B")])
    emitted = generate(program, TARGET, hooks=True)
    assert f"float *restrict {name}_" in emitted.source


def test_a_variable_is_told_where_iterations_share_it():
    A = mt.placeholder((8,), "float32", name="A")
    S = mt.compute((), lambda: A[3] + 1, name="S")
    program = mt.lower([A, mt.compute((8,), lambda i: A[i] * S[()], name="B")])
    alone = generate(program, TARGET, hooks=True)
    assert calls(alone.source) == []
    shared = generate(parallel(mt.Schedule(program), "i"), TARGET, hooks=True)
    assert calls(shared.source)[0] == "checked_memory(2, &S, 4);"
