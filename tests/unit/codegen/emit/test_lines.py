"""Long lines are broken, and no emitted text has one."""

import pytest

import minitensor as mt
from minitensor.codegen import Target, generate
from minitensor.codegen.emit.lines import WIDTH, broken, comment
from minitensor.schedule import REGISTRY
from minitensor.testing import pair_of, programs, schedules
from minitensor.testing.draws import drawn
from tests.parts import of_each_kind, times
from tutorials.schedules import HAND_SCHEDULES, scheduled


def test_a_call_is_broken_at_its_outermost_comma():
    line = f"    store(&C[{'i + ' * 12}j], load(&A[i * 16 + {'k + ' * 8}j]), 0.0f);"
    assert broken(line) == [
        f"    store(&C[{'i + ' * 12}j],",
        f"        load(&A[i * 16 + {'k + ' * 8}j]), 0.0f);",
    ]


def test_an_operator_that_binds_least_begins_the_next_line():
    line = "    x = " + " && ".join(f"{n} * i + j < 1{n}00" for n in range(1, 8)) + " ? a : b;"
    first, second, *_ = broken(line)
    assert first.endswith("00") and second.startswith("        && ")
    assert broken("x = " + "a * b " * 9 + "+ " + "a * b " * 9)[-1].startswith("    + a")


def test_calls_in_calls_are_broken_behind_the_outermost_parenthesis():
    inner = "rounded(" * 12 + "load(&A[i * 16 + j]), 1)" + ")" * 11
    assert broken(f"    store({inner}, 2);")[0] == "    store("
    assert broken(f"    y = {inner};")[0] == "    y ="
    assert all(len(part) <= WIDTH for part in broken(f"    store({inner}, {inner});"))


def test_what_has_no_place_to_break_stays():
    assert broken("a" * 150 + ";") == ["a" * 150 + ";"]
    assert broken("#define X " + "a + " * 40) == ["#define X " + "a + " * 40]
    assert broken("short;") == ["short;"]


@pytest.mark.parametrize("inner", ["a, b", "(a + b) * c ? d : e", "x[i * 4 + 1]"])
def test_no_word_is_lost(inner):
    line = "    y += f(" + ", ".join(f"g({inner}, {n})" for n in range(30)) + ") * h;"
    parts = broken(line)
    assert all(len(part) <= WIDTH for part in parts) and len(parts) > 4
    assert "".join(parts).replace(" ", "") == line.replace(" ", "")


def test_a_long_comment_goes_on():
    lines = comment("s.split('i', [" + ", ".join(["None"] * 40) + "])\n\nlast \\ ??/ */")
    assert len(lines) > 4 and all(line.startswith("//") and len(line) <= WIDTH for line in lines)
    assert lines[-2:] == ["//", "// last _ __/ */"]
    assert comment("") == []


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("primitive", REGISTRY)
def test_no_text_of_a_drawn_schedule_has_a_long_line(primitive):
    for number in range(times(2, 4)):
        s = pair_of(primitive, number).schedule
        if "tensorize" in str(s.program):
            continue  # the text of an intrinsic is its author's
        assert longest(s, Target("c", num_cores=2, vector_bits=(128, 512)[number % 2])) <= WIDTH


@pytest.mark.parametrize("number", [5138, 5246])
def test_no_text_of_a_drawn_program_has_a_long_line(number):
    s = drawn(schedules(drawn(programs(), number), max_steps=25), number)
    assert longest(s, Target("c", num_cores=2, vector_bits=512)) <= WIDTH


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_no_text_of_a_chain_in_a_narrow_float_has_a_long_line(dtype):
    A, B = (mt.placeholder((16, 16), dtype, name=f"{n}_with_a_long_name") for n in "AB")

    def chain(i, j):
        value = A[i, j]
        for _ in range(5):
            value = mt.maximum(value * B[i, j] + A[i, j], B[i, j] - value)
        return value

    s = mt.Schedule(mt.lower([A, B, mt.compute((16, 16), chain, name="C")]))
    s.vectorize(s.split("j", [None, 8])[1])
    assert longest(s, Target("c", num_cores=1, vector_bits=256)) <= WIDTH


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", of_each_kind(HAND_SCHEDULES))
def test_no_text_of_a_hand_schedule_has_a_long_line(name):
    target = Target("c", num_cores=4, vector_bits=512)
    assert longest(scheduled(HAND_SCHEDULES[name], target), target) <= WIDTH


def longest(schedule, target):
    source = generate(schedule.program, target, schedule.trace.as_python()).source
    return max(map(len, source.splitlines()))
