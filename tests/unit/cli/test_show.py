"""`minitensor show`, which never needs a compiler."""

import minitensor as mt

MATMUL = """\
def matmul(A: float32[7, 5], B: float32[5, 6], C: float32[7, 6]):
    for i in range(7):
        for j in range(6):
            for k in range(5):
                if k == 0:
                    C[i, j] = 0.0
                C[i, j] += A[i, k] * B[k, j]
"""


def test_an_operator(run):
    done = run("show", "matmul", "--small")
    assert (done.status, done.out, done.err) == (0, MATMUL, "")


def test_without_a_compiler(run, no_compiler):
    assert run("show", "matmul", "--small").out == MATMUL
    assert run("show", "matmul", "--small", "--lowered").status == 0


def test_sizes(run):
    assert "A: float32[128, 1024]" in run("show", "matmul", "--size", "m=128").out
    assert (
        "float64[2, 3, 3, 4]"
        in run(
            "show", "conv2d", "--small", "--size", "n=2,h=3,w=3,c=4,layout=NHWC,dtype=float64"
        ).out
    )


def test_the_list(run):
    done = run("show", "--list")
    assert done.status == 0
    for name in mt.workloads.WORKLOADS:
        assert f"\n{name} " in f"\n{done.out}"
    listed = run("show", "--list", "--json").json()
    assert [one["name"] for one in listed] == list(mt.workloads.WORKLOADS)
    assert listed[0]["benchmark"] == {"m": 1024, "n": 1024, "k": 1024}


def test_a_trace_and_its_steps(run, trace_file):
    words = ("show", "matmul", "--small", "--trace", trace_file)
    after = run(*words).out
    assert "for j_1 in vectorize(2):" in after
    told = run(*words, "--steps").out
    assert told.startswith(MATMUL)
    assert "\n  1  j_0, j_1 = s.split('j', [None, 2])\n" in told
    assert "\n    -                 for j_1 in range(2):\n" in told
    assert "\n    +                 for j_1 in vectorize(2):\n" in told


def test_steps_of_a_schedule_in_a_file(run, user_file):
    done = run("show", f"{user_file}:s", "--steps")
    assert done.status == 0
    assert "\n  2  s.unroll(i_1)\n" in done.out


def test_lowered(run):
    words = ("show", "matmul", "--small", "--lowered")
    lowered = run(*words, "--vector-bits", "256", "--cores", "1").out
    assert "            C_acc[()] = 0.0\n            for k in range(5):" in lowered


def test_lowered_vectors_have_the_width_that_was_asked_for(run, trace_file):
    words = ("show", "matmul", "--size", "n=64", "--small", "--trace", trace_file, "--lowered")
    assert "ramp" in run(*words, "--vector-bits", "64", "--cores", "1").out
    assert "ramp" not in run(*words, "--vector-bits", "0", "--cores", "1").out


def test_json(run, trace_file):
    words = ("show", "matmul", "--small", "--trace", trace_file, "--json")
    report = run(*words).json()
    assert report["name"] == "matmul"
    assert report["parameters"][2] == {
        "name": "C",
        "dtype": "float32",
        "shape": [7, 6],
        "output": True,
    }
    assert report["flop"] == 2 * 7 * 6 * 5
    assert report["trace"][0] == "j_0, j_1 = s.split('j', [None, 2])"
    steps = run(*words, "--steps").json()["steps"]
    assert [step["python"] for step in steps] == report["trace"]
    assert steps[-1]["program"] == report["program"]


def test_what_cannot_be_shown(run, user_file):
    for words, said in [
        (["matmull"], "did you mean matmul"),
        ([], "say what to show"),
        (["matmul", "--steps"], "has no steps"),
        (["matmul", "--steps", "--lowered"], "cannot go together"),
        (["matmul", "--lowered", "--target", "interpreter"], "nothing to lower"),
        (["matmul", "--size", "q=1"], "no argument 'q'"),
        (["matmul", "--small", "--benchmark"], "not allowed with"),
    ]:
        done = run("show", *words)
        assert (done.status, done.out) == (2, "")
        assert said in done.err
    done = run("show", "matmul", "--lowered", "--vector-bits", "100")
    assert (done.status, done.out) == (1, "")
    assert "vector_bits=100" in done.err


GPU = """
import minitensor as mt

s = mt.Schedule(mt.lower(mt.workloads.matmul(m=64, n=64, k=32), name="product"))
i, j, k = s.get_loops("C")
i_0, i_1 = s.split(i, [None, 16])
j_0, j_1 = s.split(j, [None, 16])
s.reorder(i_0, j_0, i_1, j_1)
for loop, index in ((i_0, "blockIdx.y"), (j_0, "blockIdx.x")):
    s.bind(loop, index)
for loop, index in ((i_1, "threadIdx.y"), (j_1, "threadIdx.x")):
    s.bind(loop, index)
"""


def test_the_cost_on_a_gpu(run, tmp_path, no_compiler):
    file = tmp_path / "gpu.py"
    file.write_text(GPU)
    done = run("show", f"{file}:s", "--gpu")
    assert (done.status, done.err) == (0, "")
    assert "estimated on a100, 1 kernel" in done.out.splitlines()[0]
    assert "grid 4 x 4 x 1, block 16 x 16 x 1" in done.out and "load A " in done.out
    found = run("show", f"{file}:s", "--gpu", "h100", "--json").json()
    (kernel,) = found["kernels"]
    assert found["device"] == "h100" and found["seconds"] == kernel["seconds"] > 0
    assert kernel["name"] == "product_kernel" and kernel["grid"] == [4, 4, 1]
    assert {one["buffer"] for one in kernel["accesses"]} == {"A", "B", "C"}


def test_a_gpu_that_is_not_known(run):
    done = run("show", "matmul", "--small", "--gpu", "a1000")
    assert done.status == 2 and "a100" in done.err and "Traceback" not in done.err
    done = run("show", "matmul", "--small", "--gpu", "a100", "--lowered")
    assert done.status == 2 and "--gpu goes with neither" in done.err
