"""`minitensor compile` with a compiler."""

import pytest

import minitensor as mt


def test_c_is_for_this_machine(run):
    done = run("compile", "matmul", "--small")
    assert (done.status, done.err) == (0, "")
    program = mt.lower(mt.workloads.matmul(m=7, n=6, k=5), name="matmul")
    assert done.out.rstrip() == mt.build(program).source.rstrip()


def test_time(run, trace_file):
    done = run("compile", "matmul", "--small", "--trace", trace_file, "--time")
    assert done.status == 0
    assert done.out.startswith("matmul: ")
    assert "GFLOP/s; 1 thread\n" in done.out
    timed = run("compile", "softmax", "--small", "--time").out
    assert "GFLOP/s" not in timed


def test_time_and_a_file(run, tmp_path):
    done = run("compile", "matmul", "--small", "--time", "-o", tmp_path / "out.c")
    assert done.out.startswith("matmul: ")
    assert (tmp_path / "out.c").read_text().startswith("// matmul")


def test_assembly(run, user_file):
    done = run("compile", f"{user_file}:s", "--assembly")
    assert done.status == 0
    assert ".text" in done.out
    report = run("compile", f"{user_file}:s", "--assembly", "--time", "--json").json()
    assert ".text" in report["assembly"]
    assert report["time"]["gflops"] > 0
    assert report["target"]["num_cores"] >= 1


@pytest.mark.slow
def test_threads_are_named_where_there_are_any(run, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import minitensor as mt\n"
        "s = mt.Schedule(mt.lower(mt.workloads.row_sum(m=8, n=8)))\n"
        "s.parallel(s.get_loops(s.get_blocks()[0])[0])\n"
    )
    done = run("compile", f"{path}:s", "--time", "--cores", "2")
    assert done.out.rstrip().endswith("; 2 threads")
