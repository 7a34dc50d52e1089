"""Two iterations that conflict."""

import pytest

import minitensor as mt
from minitensor import pictures
from minitensor.pictures.conflict import find_pair
from tests.unit.pictures.common import operator, parsed, product, scheduled, texts


def test_a_reduction():
    pair, data = find_pair(product(), "k")
    assert not data and (pair.buffer, pair.element) == ("C", (0, 0))
    assert (pair.first.loops["k"], pair.second.loops["k"]) == (0, 1)
    picture = pictures.conflict_picture(product(), "k")
    assert picture.text.startswith(
        "k = 0 writes C[0, 0], in block C (with i=0, j=0);\nk = 1 writes"
    )
    assert "C[0, 0]" in texts(parsed(picture))


def test_an_update_that_reads_what_the_iteration_before_wrote():
    pair, _ = find_pair(operator("cumsum"), "j")
    assert (pair.first.writes, pair.second.writes) == (True, False)
    assert (pair.first.loops["j"], pair.second.loops["j"]) == (0, 1)


def test_loops_that_may_not_change_places(tmp_path):
    A = mt.placeholder((16, 16), "float32", name="A")

    def wave(B, i, j):
        before = mt.logical_and(i > 0, j < 15)
        return mt.if_then_else(before, B[i - 1, j + 1], 0.0) + A[i, j]

    program = mt.lower([A, mt.update((16, 16), wave, name="B")], name="wave")
    assert find_pair(program, "j") == (None, False)
    pair, _ = find_pair(program, "j", around=True)
    assert (pair.first.loops, pair.second.loops) == ({"i": 0, "j": 1}, {"i": 1, "j": 0})
    assert (pair.first.writes, pair.second.writes) == (True, False)
    with pytest.raises(mt.ScheduleError) as caught:
        mt.Schedule(program).reorder("j", "i")
    caught.value.show(html=tmp_path / "a.html")
    assert "j = 0 reads B[0, 1], in block B (with i=1)" in (tmp_path / "a.html").read_text()


def test_independent_iterations_have_no_pair():
    assert find_pair(product(), "i") == (None, False)
    picture = pictures.conflict_picture(product(), "i")
    assert "no two touch the same element" in picture.text
    parsed(picture)


def test_a_large_nest_is_looked_at_in_part():
    program = mt.lower(mt.workloads.matmul(m=4096, n=4096, k=4096), name="large")
    assert find_pair(program, "k")[0].second.loops["k"] == 1
    assert find_pair(program, "i") == (None, False)


def test_an_index_that_depends_on_data():
    A = mt.placeholder((8,), "float32", name="A")
    at = mt.placeholder((4,), "int32", name="at")
    B = mt.compute((4,), lambda i: A[mt.minimum(mt.maximum(at[i], 0), 7)], name="B")
    program = mt.lower([A, at, B], name="gather")
    assert find_pair(program, program.body.var) == (None, True)


def test_a_refusal_shows_itself(tmp_path, capsys):
    s = mt.Schedule(product())
    with pytest.raises(mt.ScheduleError) as caught:
        s.parallel("k")
    caught.value.show()
    assert capsys.readouterr().out.startswith('parallel("k") breaks R2')
    caught.value.show(html=tmp_path / "refused.html")
    text = (tmp_path / "refused.html").read_text()
    assert "Two iterations of k that conflict" in text and "breaks R2" in text


def page_of_refusal(step, path):
    with pytest.raises(mt.ScheduleError, match="breaks K1") as caught:
        step()
    caught.value.show(html=path)
    return path.read_text()


def test_a_loop_that_would_conflict_after_the_step(tmp_path):
    A = mt.placeholder((10,), name="A")
    X = mt.compute((10,), lambda i: A[i] * 2.0, name="X")
    P = mt.compute((8,), lambda j: X[j] + X[j + 2], name="P")
    C = mt.compute((8,), lambda y: P[y] + 1.0, name="C")
    s = mt.Schedule(mt.lower([A, C], name="window"))
    s.compute_at("X", "j")
    s.parallel("j")
    s.parallel("y")
    text = page_of_refusal(lambda: s.compute_inline("P"), tmp_path / "a.html")
    assert "j = 0 writes X[1], in block X (with X_i=1);" in text
    assert "j = 1 writes X[1], in block X (with X_i=0)." in text


def test_a_refusal_for_want_of_a_proof(tmp_path):
    A = mt.placeholder((24,), "float32", name="A")
    C = mt.compute((24,), lambda i: A[i] * 2.0, name="C")
    s = mt.Schedule(mt.lower([A, C], name="scale"))
    outer, inner = s.split("i", [None, 8])
    s.parallel(outer)
    text = page_of_refusal(lambda: s.split(inner, [3, 3]), tmp_path / "a.html")
    assert "no two touch the same element" in text and "asks for a proof" in text


def test_a_refusal_without_a_place_shows_the_loops(tmp_path):
    with pytest.raises(mt.ScheduleError) as caught:
        mt.Schedule(product()).parallel("nothing")
    caught.value.show(html=tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "there is no loop" in page and page.count("<svg") == 1


def test_an_error_of_no_schedule_has_no_page(tmp_path):
    with pytest.raises(mt.ArgumentError, match="no schedule refused this"):
        mt.ScheduleError("a message", "R1").show(html=tmp_path / "a.html")


def test_a_long_nest_is_cut_to_the_culprits():
    A = stage = mt.placeholder((8,), name="A")
    for n in range(90):
        stage = mt.compute((8,), lambda i, read=stage: read[i] + 1.0, name=f"T{n}")
    s = mt.Schedule(mt.lower([A, stage]))
    with pytest.raises(mt.ScheduleError) as caught:
        s.compute_inline("T89")
    text = str(caught.value)
    assert len(text.splitlines()) < 15
    assert "… 267 lines" in text
    assert "for T89_i in range(8):" in text
    assert "T89[T89_i] = T88[T89_i] + 1.0  # <- writes an output" in text


def test_a_refusal_from_another_process(tmp_path):
    with pytest.raises(mt.ScheduleError) as caught:
        mt.Schedule(product()).parallel("k")
    assert "breaks R2" in str(caught.value)
    sent = caught.value.__reduce__()
    assert sent[2]["picture"]().lstrip().startswith("def product")


def test_a_schedule_shows_itself(tmp_path):
    s = scheduled()
    s.show(html=tmp_path / "nest.html")
    text = (tmp_path / "nest.html").read_text()
    assert "The loops of product" in text and "Order of visits: A" in text
    assert "Bytes under each loop of C" in text and ">vectorize<" in text
    with pytest.raises(mt.ArgumentError, match="cannot be written"):
        s.show(html=tmp_path / "nowhere" / "nest.html")
    with pytest.raises(mt.ArgumentError, match="expected the path of a file"):
        s.show(html=3)
