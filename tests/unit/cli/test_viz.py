"""`minitensor viz`, without a compiler."""

import dataclasses
import sys

import pytest

import minitensor as mt
from minitensor.search import Log, new_record
from tests.made_records import TARGET
from tests.unit.cli.test_show import GPU


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, no_compiler):
    monkeypatch.chdir(tmp_path)
    for name in ("rich",):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def log(tmp_path):
    program = mt.lower(mt.workloads.matmul(m=7, n=6, k=5), name="matmul")
    log = Log(tmp_path / "tuning.jsonl")
    for n in range(12):
        s = mt.Schedule(program)
        s.split("i", [None, n + 1])
        record = new_record(program, TARGET, s.trace, seconds=[1e-6 * (n + 1)])
        log.append(dataclasses.replace(record, host=mt.search.Host("a cpu", 2)))
    return log.path


def test_an_operator(run, tmp_path):
    done = run("viz", "matmul", "--small", "-o", "made")
    assert (done.status, done.err) == (0, "")
    names = [line.split()[0] for line in done.out.splitlines()]
    orders = [f"made/{kind}-{b}.svg" for b in "ABC" for kind in ("order", "visits")]
    assert names == [
        "made/index.html", "made/nest.svg", "made/footprint.svg", *orders, "made/sketches.svg",
    ]  # fmt: skip
    assert all((tmp_path / name).stat().st_size < 200_000 for name in names)
    assert all(len(line) <= 100 for line in done.out.splitlines())
    assert "\x1b" not in done.out


def test_some_pictures_of_a_schedule_of_a_file(run, user_file, tmp_path):
    done = run("viz", f"{user_file}:s", "--only", "nest,order", "--json")
    files = [one["file"] for one in done.json()["files"]]
    assert files[:3] == ["pictures/index.html", "pictures/nest.svg", "pictures/order-A.svg"]
    assert "unroll" in (tmp_path / "pictures" / "nest.svg").read_text()
    assert ">split<" not in (tmp_path / "pictures" / "nest.svg").read_text()
    assert "s.split" in (tmp_path / "pictures" / "index.html").read_text()


def test_lanes_of_a_schedule_for_a_gpu(run, tmp_path):
    file = tmp_path / "gpu.py"
    file.write_text(GPU)
    done = run("viz", f"{file}:s", "--only", "lanes")
    assert (done.status, done.err) == (0, "")
    names = [line.split()[0] for line in done.out.splitlines()]
    lanes = [f"pictures/{name}.svg" for name in ("lanes-C_store", "lanes-C", "lanes-A", "lanes-B")]
    assert names == ["pictures/index.html", *lanes]
    assert "sectors a request" in (tmp_path / "pictures" / "lanes-A.svg").read_text()
    assert run("viz", "matmul", "--small", "--only", "lanes").status == 1  # nothing is bound


def test_a_log_of_an_operator(run, log, tmp_path):
    done = run("viz", log, "-o", "report")
    assert done.status == 0, done.err
    names = [line.split()[0] for line in done.out.splitlines() if line.startswith("report/")]
    found = ("index.html", *(f"{n}.svg" for n in ("curve", "predicted", "nest", "footprint")))
    assert [f"report/{name}" for name in found] == names[:5]
    assert "report/sketches.svg" in names and "report/tree.svg" in names
    assert "No roofline: it was measured on a cpu." in " ".join(done.out.split())


def test_a_log_of_an_unknown_program(run, tmp_path, user_file):
    program = mt.lower(mt.workloads.matmul(m=8, n=8, k=4), name="product")
    log = Log(tmp_path / "other.jsonl")
    log.append(new_record(program, TARGET, mt.Schedule(program).trace, seconds=[1e-6]))
    done = run("viz", log.path, "-o", "a")
    assert done.status == 0 and "use --program" in " ".join(done.out.split())
    assert not (tmp_path / "a" / "nest.svg").exists()
    done = run("viz", log.path, "-o", "b", "--program", f"{user_file}:program")
    assert done.status == 0 and (tmp_path / "b" / "nest.svg").exists()
    done = run("viz", log.path, "--program", "matmul")
    assert done.status == 1 and "is not the workload of 'product'" in done.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["nothing"], 2, "there is no operator 'nothing'"),
        (["nothing.py:a"], 1, "there is no file nothing.py"),
        (["matmul", "--only", "nests"], 2, "there is no picture 'nests'; there are nest, "),
        (["matmul", "--only", ","], 2, "no name of a picture"),
        (["matmul", "-o", "file/below"], 1, "cannot write to file/below"),
        (["matmul", "-o", "a\0b"], 1, "the path of a folder"),
        (["matmul", "--small", "--only", "curve"], 1, "none of these pictures"),
        (["matmul", "--workload", "a"], 2, "are for a log"),
        (["tuning.jsonl", "--small"], 2, "need --program where a log is drawn"),
        (["tuning.jsonl", "--workload", "none"], 1, "no record of a workload 'none'"),
        (["file"], 1, "has no record"),
    ],
)
def test_what_does_not_work(run, log, tmp_path, words, status, text):
    (tmp_path / "file").write_text("")
    done = run("viz", *words)
    assert (done.status, done.out) == (status, "") and text in done.err


@pytest.mark.slow
def test_a_large_program_is_bounded(run, tmp_path):
    text = "import minitensor as mt\nA = mt.placeholder((4,), name='A')\nB = A\n"
    text += (
        "for n in range(500):\n    B = mt.compute((4,), lambda i, B=B: B[i] + 1.0, name=f'B{n}')\n"
    )
    (tmp_path / "large.py").write_text(text + "program = mt.lower([A, B])\n")
    done = run("viz", "large.py:program", "--only", "nest,footprint,order")
    assert done.status == 0 and "more buffers are not drawn" in done.out
    assert (tmp_path / "pictures" / "index.html").stat().st_size < 1_000_000
    assert "Left out:" in (tmp_path / "pictures" / "nest.svg").read_text()
    done = run("viz", "matmul", "--size", "m=100000,n=100000,k=100000", "--only", "order,nest")
    assert done.status == 0


def test_forty_columns(run, monkeypatch):
    monkeypatch.setattr("minitensor.cli.console.PLAIN_WIDTH", 40)
    done = run("viz", "matmul", "--small", "--only", "nest")
    assert done.status == 0 and all(len(line) <= 40 for line in done.out.splitlines())


def test_a_hostile_name_of_a_buffer_is_no_path(run, tmp_path):
    text = "import minitensor as mt\nA = mt.placeholder((4,), name='../../<script>')\n"
    text += "B = mt.compute((4,), lambda i: A[i] + 1.0, name='B')\nprogram = mt.lower([A, B])\n"
    (tmp_path / "bad.py").write_text(text)
    done = run("viz", "bad.py:program", "-o", "made")
    assert done.status == 0
    assert {path.parent for path in (tmp_path / "made").iterdir()} == {tmp_path / "made"}
    assert not list(tmp_path.parent.glob("*<script>*"))
    for path in (tmp_path / "made").iterdir():
        assert "<script" not in path.read_text()
