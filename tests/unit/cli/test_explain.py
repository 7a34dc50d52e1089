"""`minitensor explain`, without a compiler."""

import pytest

EXACT = ("--cores", "2", "--vector-bits", "256")


def test_text(run, no_compiler, user_file):
    done = run("explain", f"{user_file}:s", *EXACT)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("product for 'c': 2 threads, vectors of 256 bits\n")
    lines = done.out.splitlines()
    for heading in ("loops", "buffers", "work", "vector registers", "remarks"):
        assert heading in lines
    assert "    for i_1 in unroll(4):" in done.out
    assert "  spills are not measured: there is no C compiler" in lines
    assert "A: float32[8, 4]" in done.out and "128 bytes, input" in done.out
    assert "512 operations on 512 bytes of arguments: 1 operations a byte" in done.out


def test_notes_of_a_trace(run, no_compiler, trace_file):
    done = run("explain", "matmul", "--small", "--trace", trace_file, *EXACT)
    assert done.status == 0
    assert "vector: j_1: 2 iterations are fewer than the 8 lanes of a vector" in done.out


def test_json(run, no_compiler, trace_file):
    words = ("explain", "matmul", "--small", "--trace", trace_file, *EXACT, "--json")
    report = run(*words).json()
    assert report["name"] == "matmul"
    assert report["target"] == {"kind": "c", "num_cores": 2, "vector_bits": 256}
    assert [loop["name"] for loop in report["loops"]] == ["i", "j_0", "k", "j_1"]
    assert report["loops"][-1]["became"] == ["2 in scalars", "written out"]
    assert report["spills"] is None and "no C compiler" in report["unmeasured"]
    (remark,) = [n for n in report["remarks"] if n["kind"] == "vector"]
    assert remark["where"] == "j_1" and remark["advice"]
    assert report["operations"] == 420


def test_without_a_compiler_and_without_numbers(run, no_compiler):
    done = run("explain", "matmul", "--small")
    assert done.status == 0
    assert "1 thread, vectors of 256 bits" in done.out


def test_the_interpreter_has_nothing_to_explain(run):
    done = run("explain", "matmul", "--target", "interpreter")
    assert (done.status, done.out) == (2, "")
    assert "nothing to explain" in done.err


@pytest.mark.parametrize(
    "words, status",
    [
        ((), 2),
        (("no-such-operator",), 2),
        (("matmul", "--size", "m=zero"), 1),
        (("matmul", "--size", "q=3"), 2),
        (("matmul", "--trace", "no-such-file"), 1),
        (("no-such-file.py:s",), 1),
        (("matmul", "--cores", "0"), 1),
        (("matmul", "--vector-bits", "wide"), 2),
    ],
)
def test_bad_input(run, no_compiler, words, status):
    done = run("explain", *words)
    assert (done.status, done.out) == (status, "")
    assert done.err and "Traceback" not in done.err
