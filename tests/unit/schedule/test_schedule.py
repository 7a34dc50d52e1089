"""What a Schedule tells about itself, how it looks, and what is independent of what."""

import html
import inspect
import re

import pytest

import minitensor as mt
from minitensor.schedule import REGISTRY
from tests.sent import sent
from tests.unit.schedule.common import check, refused
from tests.unit.schedule.programs import (
    argmax,
    chain,
    fork,
    gather,
    grid,
    matmul_relu,
    rowsum,
    scale,
    scan,
    started_update,
    stencil,
)

# ---- what there is


def test_get_blocks_and_loops():
    s = mt.Schedule(matmul_relu())
    assert s.get_blocks() == ("C", "D")
    assert s.get_loops("C") == ("i", "j", "k")
    assert s.get_loops("D") == ("x", "y")
    assert s.get_block("C") == "C"
    s.reverse_compute_at("D", "i")
    assert s.get_loops("D") == ("i", "D_x", "D_y")
    check(s)


def test_get_producers_and_consumers():
    s = mt.Schedule(fork())
    assert s.get_producers("S") == ("Q", "R")
    assert s.get_producers("P") == ()
    assert s.get_consumers("P") == ("Q", "R")
    assert s.get_consumers("S") == ()
    s = mt.Schedule(gather())
    assert s.get_producers("C") == ("B", "I")
    s = mt.Schedule(scan())
    assert s.get_producers("W") == s.get_consumers("W") == ()
    s = mt.Schedule(started_update())
    assert s.get_producers("W") == ("P", "W_init")
    assert s.get_consumers("W_init") == ("W",)
    s = mt.Schedule(argmax())
    assert s.get_producers("D") == ("C",)


def test_a_decomposed_reduction_has_its_init_as_a_producer_or_not_at_all():
    s = mt.Schedule(rowsum())
    s.decompose_reduction("C", "k")
    assert s.get_blocks() == ("C_init", "C")
    assert set(s.get_producers("C")) <= {"C_init"}


def test_a_block_without_loops():
    A = mt.placeholder((), name="A")
    s = mt.Schedule(mt.lower([A, mt.compute((), lambda: A[()] + 1, name="C")]))
    assert s.get_loops("C") == ()
    check(s)


@pytest.mark.parametrize("method", ["get_block", "get_loops", "get_producers", "get_consumers"])
@pytest.mark.parametrize("name", ["nope", "i", "", None, 3, ["C"], b"C"])
def test_blocks_that_are_none(method, name):
    s = mt.Schedule(chain())
    with pytest.raises(mt.ScheduleError, match="there is no block") as caught:
        getattr(s, method)(name)
    assert caught.value.rule == "A1"
    assert caught.value.choices == ("B", "C")
    assert isinstance(caught.value, mt.ArgumentError)
    assert 'legal: "B", "C"' in str(caught.value)


def test_a_block_that_is_gone():
    s = mt.Schedule(chain())
    s.compute_inline("B")
    with pytest.raises(mt.ScheduleError, match=r"'B' does not exist any more: step 1, compute_inl"):
        s.get_loops("B")


# ---- how it looks


def test_show_prints_the_program(capsys):
    s = mt.Schedule(scale(20))
    assert s.show() is None
    assert capsys.readouterr().out == f"{s.program}\n"
    s.show(diff=True)
    assert capsys.readouterr().out == f"{s.program}\n"


def test_show_diff_prints_what_the_last_step_changed(capsys):
    s = mt.Schedule(scale(20))
    s.split("i", [4, 5])
    s.show(diff=True)
    assert capsys.readouterr().out.splitlines() == [
        " def main(A: float32[20], C: float32[20]):",
        "-    for i in range(20):",
        "-        C[i] = A[i] * 2.0",
        "+    for i_0 in range(4):",
        "+        for i_1 in range(5):",
        "+            C[i_0*5 + i_1] = A[i_0*5 + i_1] * 2.0",
    ]
    s.parallel("i_0")
    assert "+    for i_0 in parallel(4):" in s.diff()
    assert "split" not in s.diff()


def test_show_diff_of_a_step_that_changes_nothing():
    s = mt.Schedule(scale(20), seed=0)
    s.sample_categorical([1, 2])
    assert s.diff() == "(no change)"


def test_repr_names_the_program_and_counts_the_steps():
    s = mt.Schedule(scale(20))
    s.parallel("i")
    assert repr(s) == f"# main after 1 step\n{s.program}"


def test_html_is_escaped():
    A = mt.placeholder((4,), name="<script>alert('&')</script>")
    s = mt.Schedule(mt.lower([A, mt.compute((4,), lambda i: A[i] * 2, name="C")], name="a<b"))
    s.annotate("i", "</pre><b>", "<i>&amp;</i>")
    page = s._repr_html_()
    text = re.sub(r'<span class="mt-[a-z]+">|</span>', "", page[page.index("<pre") :])
    assert text.endswith("</pre>")
    inside = text[text.index(">") + 1 : -len("</pre>")]
    assert "<" not in inside
    assert html.unescape(inside) == repr(s)


def test_methods_have_the_signatures_and_texts_of_their_primitives():
    for name, primitive in REGISTRY.items():
        method = getattr(mt.Schedule, name)
        assert inspect.signature(method) == primitive.signature
        assert inspect.getdoc(method) == inspect.cleandoc(primitive.function.__doc__)


# ---- independence


def test_a_copy_is_independent():
    s = mt.Schedule(scale(20), seed=0)
    s.split("i", [None, 8])
    twin = s.copy()
    assert twin.program is s.program
    assert twin.trace == s.trace
    s.parallel("i_0")
    twin.unroll("i_1")
    assert "parallel" not in str(twin.program)
    assert "unroll" not in str(s.program)
    assert (len(s.trace), len(twin.trace)) == (2, 2)
    check(s)
    check(twin)


def test_a_copy_draws_the_same_and_keeps_handles():
    s = mt.Schedule(scale(720), seed=7)
    tile = s.sample_perfect_tile("i", 3)
    twin = s.copy()
    first = [s.sample_categorical(list(range(100))) for _ in range(5)]
    assert [twin.sample_categorical(list(range(100))) for _ in range(5)] == first
    twin.split("i", tile)
    assert "v0" in twin.trace.as_python()
    check(twin)


def test_seeds_are_deterministic():
    def draws(seed):
        s = mt.Schedule(scale(720), seed=seed)
        return [tuple(s.sample_perfect_tile("i", 3)) for _ in range(5)]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)
    assert draws("text") == draws("text")
    assert draws(None) != draws(None)


def test_schedules_do_not_touch_their_program():
    program = matmul_relu()
    text = str(program)
    for _ in range(2):
        s = mt.Schedule(program)
        s.reverse_compute_at("D", "i")
        s.decompose_reduction("C", "k")
        assert str(program) == text
    assert s.program is not program


def test_a_schedule_of_a_schedules_program():
    first = mt.Schedule(scale(20))
    first.split("i", [None, 8])
    s = mt.Schedule(first.program)
    s.parallel("i_0")
    check(s)
    refused(s, "A1", "there is no loop 'i'", lambda: s.parallel("i"))
    outer, _ = s.split("i_1", [2, 4])
    assert outer == "i_1_0"


def test_names_of_an_earlier_schedule_are_not_given_again():
    first = mt.Schedule(scale(16))
    first.fuse(*first.split("i", [4, 4]))
    s = mt.Schedule(first.program)
    assert not {"i", "i_0", "i_1"} & set(s.split("i_0_i_1", [4, 4]))
    check(s)


def test_each_step_keeps_the_program_of_the_one_before():
    s = mt.Schedule(scale(20))
    programs = [s.program]
    s.split("i", [None, 8])
    programs.append(s.program)
    s.parallel("i_0")
    assert programs[0] is not programs[1] is not s.program
    assert "i_0" not in str(programs[0])
    for program in (*programs, s.program):
        mt.verify(program)


def test_programs_and_traces_travel_between_processes():
    s = mt.Schedule(stencil(), seed=0)
    outer, _ = s.split("y", s.sample_perfect_tile("y", 2))
    s.compute_at("P", outer)
    assert sent(s.program) == s.program
    assert sent(s.trace) == s.trace
    assert sent(outer) == outer


def test_what_a_primitive_returns_is_plain():
    s = mt.Schedule(grid())
    names = s.split("i", [2, 2])
    assert type(names) is tuple
    assert [type(n) for n in names] == [str, str]
    assert type(s.fuse(*names)) is str


def test_decided_values_behave_like_what_they_are():
    s = mt.Schedule(scale(24), seed=0)
    tile = s.sample_perfect_tile("i", 2, decision=[4, 6])
    assert tile == (4, 6)
    assert tile[1] * 2 == 12
    assert isinstance(tile, tuple)
    assert int(tile[0]) == 4
    assert f"{tile[0]}" == "4"
    assert str(s.sample_categorical(["a"])) == "a"
    assert float(s.sample_categorical([0.5])) == 0.5
    assert {tile[0]: 1}[4] == 1


# ---- checking


def test_without_checking_conflicts_are_trusted():
    s = mt.Schedule(scale(20), check=False)
    outer, inner = s.split("i", [None, 8])
    s.parallel(outer)
    s.split(inner, [3, 3])
    check_result(s)


def check_result(s):
    twin = mt.Schedule(s._history[0], check=False).replay(s.trace)
    assert twin.program == s.program
    mt.verify(s.program)


def test_without_checking_the_other_rules_hold():
    s = mt.Schedule(rowsum(), check=False)
    refused(s, "R2", "drives the reduction", lambda: s.parallel("k"))
    refused(s, "A1", "no loop", lambda: s.parallel("nope"))
    refused(s, "A2", "factors", lambda: s.split("k", [0]))


def test_a_program_is_verified_first():
    program = scale()
    broken = program.replace(params=program.params[:1])
    with pytest.raises(mt.VerifyError, match="V2"):
        mt.Schedule(broken)
    mt.Schedule(broken, check=False)


@pytest.mark.parametrize("program", [None, "program", 3, scale, mt.Trace()])
def test_only_programs_are_scheduled(program):
    with pytest.raises(mt.ArgumentError, match="expected a program"):
        mt.Schedule(program)


def test_options_are_keyword_only():
    with pytest.raises(TypeError):
        mt.Schedule(scale(), 0)


def test_a_failed_call_changes_nothing_at_all():
    s = mt.Schedule(chain(), seed=0)
    s.split("j", [2, 4])
    state = (s.program, s.trace, s.copy()._random.getstate())
    calls = [
        lambda: s.split("j", [2]),
        lambda: s.split("j_0", [0]),
        lambda: s.split("j_0", [9, 9], tail="exact"),
        lambda: s.compute_at("B", "i"),
        lambda: s.sample_perfect_tile("i", 2, decision=[3, 3]),
        lambda: s.transform_layout("B", lambda i: (i // 2,)),
        lambda: s.fuse(),
    ]
    for call in calls:
        with pytest.raises(mt.ScheduleError):
            call()
        assert (s.program, s.trace, s._random.getstate()) == state
    check(s)


def test_errors_count_the_steps():
    s = mt.Schedule(scale(20))
    assert refused(s, "A2", "factors", lambda: s.split("i", [])).step == 1
    s.split("i", [None, 8])
    assert refused(s, "A2", "factors", lambda: s.split("i_0", [])).step == 2


def test_an_error_outside_a_schedule_has_no_step():
    primitive = REGISTRY["split"]
    with pytest.raises(mt.ScheduleError) as caught:
        primitive(scale(20), "i", [2, 3])
    assert caught.value.step is None
    assert "step" not in str(caught.value).splitlines()[-1]
    program, names = primitive(scale(20), "i", [None, 8])
    assert names == ("i_0", "i_1")
    mt.verify(program)


def test_errors_draw_the_program_as_it_was():
    s = mt.Schedule(scale(20))
    s.parallel("i")
    with pytest.raises(mt.ScheduleError) as caught:
        s.split("i", [None, 8])
    s.annotate("i", "note", 1)
    assert "for i in parallel(20):  # <- is parallel" in str(caught.value)


def test_errors_travel_between_processes():
    s = mt.Schedule(scale(20))
    with pytest.raises(mt.ScheduleError) as caught:
        s.split("i", [2, 3])
    error = caught.value
    copy = sent(error)
    assert copy.message == error.message
    assert (copy.rule, copy.step, copy.choices) == (error.rule, error.step, error.choices)
