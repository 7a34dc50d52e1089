"""The race checker on C written by hand: every way to touch memory, to the byte."""

import pytest

from minitensor.sanitize import Sanitizer
from tests.run.sanitize.texts import buffer, parallel, races, run, text


def kinds(found):
    return {race.writes for race in found}


# ---- to the byte


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_neighbours_of_any_size_are_no_race(size):
    kind = f"uint{8 * size}_t"
    assert races(f"(({kind} *)C)[i] = 1;", extent=8) == []
    assert races(f"C[i] = (({kind} *)A)[i] + (({kind} *)A)[i + 1];", extent=4) == []


@pytest.mark.slow
@pytest.mark.parametrize(("size", "shift"), [(s, d) for s in (2, 4, 8) for d in (-1, 0, 1)])
def test_unaligned_accesses_race_exactly_where_they_overlap(size, shift):
    step = size + shift
    struct = f"struct __attribute__((packed)) P {{ uint{8 * size}_t x; }};"
    found = races(f"((struct P *)((char *)C + 3 + {step} * i))->x = i;", struct, extent=6)
    assert bool(found) == (shift < 0)
    if found:
        (race,) = found
        assert race.writes == (True, True)
        assert race.iterations == (0, 1)


def test_one_byte_in_a_word_that_others_touch():
    """A cell that stood for a word is split, and what was known of the word stays known."""
    found = races("if (i == 0) C[0] = 1; if (i == 3) ((char *)C)[2] = 1;")
    assert [(r.iterations, r.buffer, r.index) for r in found] == [((0, 3), "C", (0,))]
    assert races("if (i == 0) C[0] = 1; if (i == 3) ((char *)C)[4] = 1;") == []


def test_bytes_of_one_word_are_apart():
    assert races("((char *)C)[i] = 1;") == []
    found = races("((char *)C)[i / 2] = 1;", C="uint8")
    assert [(r.iterations, r.index) for r in found] == [((0, 1), (0,))]


VECTOR = """
typedef float V __attribute__((vector_size({bytes})));
typedef float U __attribute__((vector_size({bytes}), aligned(4), may_alias));
static inline V load(const float *p) {{ return *(const U *)p; }}
static inline void store(float *p, V x) {{ *(U *)p = x; }}
"""


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32])
def test_vectors_are_seen_whole(lanes):
    """Up to twice the widest vectors of a kernel; beyond, gcc copies them through the frame."""
    before = VECTOR.format(bytes=4 * lanes)
    n = 8 * lanes
    whole = races(f"store(C + {lanes} * i + 1, load(A + i));", before, n=n)
    assert whole == []
    (last,) = races(f"store(C + {lanes - 1} * i + 1, load(A));", before, n=n)
    assert last.writes == (True, True)
    assert last.index == (lanes,)
    read = races(f"if (i) store(C, load(A)); else C[{lanes}] = load(C + 1)[0];", before, n=n)
    assert kinds(read) == {(False, True), (True, True)}


def test_accesses_across_pages_of_shadow_memory():
    n = 5000
    assert races("for (int j = 0; j < 1250; ++j) C[i * 1250 + j] = A[j];", n=n) == []
    (race,) = races(
        "for (int j = 0; j < 1251 && i * 1250 + j < 5000; ++j) C[i * 1250 + j] = 1;", n=n
    )
    assert race.index == (1250,)
    (race,) = races(
        "if (i == 0) memset((char *)C + 1, 0, 19000); if (i == 2) C[4750] = 1; C[4751 + i] = 1;",
        n=n,
    )
    assert race.index == (4750,)


# ---- what touches memory


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("memcpy(C, A, 8)", "memcpy(C + 1, A, 8)"),
        ("memmove(C + 2, C, 8)", "memmove(C + 3, A, 8)"),
        ("memset(C, 0, 7)", "((char *)C)[6] = 1"),
        ("__builtin_memcpy(C, A, 64)", "C[15] = 1"),
        ("__builtin_memset(C, 0, n)", "C[1] = 1"),
        ("*(struct S *)C = *(struct S *)A", "C[4] = 1"),
        ("*(volatile float *)C = 1", "C[0] = 2"),
        ("C[0] = 1", "x += *(volatile float *)C"),
        ("C[0] += 1", "x += C[0]; C[9] = x"),
        ("counter = 1", "x = counter; C[9] = x"),
        ("twice(C)", "twice(C)"),
    ],
)
def test_every_way_to_touch_memory_is_seen(first, second):
    before = """
struct S { int x[5]; };
static int counter;
static __attribute__((noinline)) void twice(float *p) { p[0] *= 2; }
"""
    declared = "float x = A[0]; volatile size_t n = 5; (void)n;"
    assert races(f"{declared} if (i == 1) {first}; if (i == 3) {second};", before)
    apart = f"{declared} if (i == 2) {{ {first}; {second}; }}"
    assert races(apart, before) == []


def test_memory_that_is_no_buffers():
    (race,) = races("counter = i;", "int counter;")
    assert race.buffer == ""
    assert race.message.endswith("both write memory of no buffer (is it static?)")


def test_atomic_accesses_are_no_part_of_a_race():
    before = """
static int flag;
static __attribute__((noinline)) int touched(void) {
    int old = 3;
    __atomic_store_n(&flag, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&flag, 1, 5);
    __atomic_compare_exchange_n(&flag, &old, 4, 0, 5, 5);
    return old;
}
"""
    assert races("C[i] = touched();", before) == []


def test_atomic_operations_compute_what_they_should():
    before = """
static uint64_t y;
static uint8_t b;
"""
    body = """
    if (i) continue;
    C[0] = __atomic_fetch_add(&y, 7, 5); C[1] = __atomic_exchange_n(&y, 9, 5);
    C[2] = __atomic_fetch_sub(&y, 2, 5); C[3] = __atomic_load_n(&y, 5);
    C[4] = __atomic_fetch_or(&y, 8, 5); C[5] = __atomic_fetch_xor(&y, 1, 5);
    C[6] = __atomic_fetch_and(&y, 6, 5); C[7] = __atomic_load_n(&y, 5);
    C[8] = __atomic_fetch_nand(&b, 1, 5); C[9] = __atomic_load_n(&b, 5);
    __atomic_thread_fence(5); __atomic_signal_fence(5);
    uint64_t old = 6;
    C[10] = __atomic_compare_exchange_n(&y, &old, 5, 1, 5, 5); C[11] = old;
"""
    outcome = run(Sanitizer.RACES, text(parallel(body), before))
    wanted = [0, 7, 9, 7, 7, 15, 14, 6, 0, 255, 1, 6]
    assert outcome.outputs[0][:12].tolist() == wanted
    assert outcome.faults == ()


@pytest.mark.parametrize(
    "body",
    ["C[0] = C[0];", "float x = C[0]; C[i] = 1; (void)x;", "C[0] = 1; C[0] = 2; C[0] = 1;"],
)
def test_accesses_without_effect_are_seen(body):
    assert races(body)


# ---- whose memory it is


def test_what_called_functions_have_on_the_stack_is_their_own():
    before = """
static __attribute__((noinline)) void fill(float *p, int n) {
    for (int j = 0; j < n; ++j) p[j] = n;
}
static __attribute__((noinline)) float own(int i) {
    float t[4000];
    fill(t, 4000);
    return t[i];
}
"""
    assert races("C[i] = own(i);", before) == []


DECLARED = "checked_memory(2, t, sizeof t);"


def test_an_array_of_an_iteration_is_its_own():
    body = f"float t[8]; {DECLARED} for (int j = 0; j < 8; ++j) t[j] = i; C[i] = t[(int)A[i] & 7];"
    memory = [buffer("t", (8,), "float32")]
    assert races(body, memory=memory) == []


def test_an_array_of_the_kernel_is_shared():
    loop = parallel("t[i / 2] = i; C[i] = t[(int)A[i] & 7];")
    body = f"float t[8]; {DECLARED}\n{loop}"
    found = run(Sanitizer.RACES, text(body, memory=[buffer("t", (2, 4), "float32")])).faults
    first = found[0]
    assert (first.buffer, first.index, first.iterations) == ("t", (0, 0), (0, 1))
    assert first.message == "by_hand: iterations 0 and 1 of the parallel loop i both write t[0, 0]"


def test_a_variable_of_the_kernel_is_shared():
    body = "float t; checked_memory(2, &t, sizeof t);\n" + parallel("t = A[i]; C[i] = t * t;")
    found = run(Sanitizer.RACES, text(body, memory=[buffer("t", (), "float32")])).faults
    assert (True, True) in kinds(found)
    assert {race.buffer for race in found} == {"t"}


def test_memory_of_the_workspace_is_an_iterations_own_from_where_it_is_told():
    own = "float *t = (float *)workspace; checked_memory(2, t, 64); t[3] = i; C[i] = t[3];"
    memory = [buffer("t", (16,), "float32")]
    assert races(own + "checked_gone(2, t, 64);", memory=memory, workspace=128) == []
    shared = own.replace("checked_memory(2, t, 64);", "")
    (race, *_) = races(shared, memory=memory, workspace=128)
    assert race.buffer == ""


def test_only_the_memory_that_is_told_is_forgotten():
    body = "char *t = (char *)workspace; checked_memory(2, t + 3, 5); t[2 + i / 3] = 1;"
    memory = [buffer("t", (5,), "int8")]
    found = races(body, memory=memory, workspace=128)
    assert [(r.buffer, r.iterations) for r in found] == [("", (0, 1))]


# ---- between loops


def test_what_one_loop_wrote_the_next_may_read():
    both = parallel("C[i] = i;") + "\n" + parallel("C[4 + i] = C[3 - i];")
    assert run(Sanitizer.RACES, text(both)).faults == ()


def test_outside_of_parallel_loops_nothing_races():
    assert run(Sanitizer.RACES, text("for (int i = 0; i < 4; ++i) C[0] += A[i];")).faults == ()
    between = parallel("C[i] = 1;") + " C[0] = C[1]; " + parallel("C[i] = 2;")
    assert run(Sanitizer.RACES, text(between)).faults == ()


def test_nothing_is_kept_from_run_to_run():
    emitted = text(parallel("C[0] = i;"))
    first, second = run(Sanitizer.RACES, emitted), run(Sanitizer.RACES, emitted)
    assert [f.message for f in first.faults] == [f.message for f in second.faults]
    assert run(Sanitizer.RACES, text(parallel("C[i] = i;"))).faults == ()


def test_the_first_race_of_each_kind_is_told():
    found = races("for (int j = 0; j < 8; ++j) C[j] += A[i];")
    assert [(r.index, r.iterations, r.writes) for r in found] == [
        ((0,), (0, 1), (True, False)),
        ((0,), (0, 1), (True, True)),
        ((0,), (0, 1), (False, True)),
    ]
    assert found[0].message == (
        "by_hand: iteration 0 of the parallel loop i writes C[0], which iteration 1 reads"
    )


def test_many_iterations_and_much_memory():
    n = 1 << 20
    body = "for (int j = 0; j < 1024; ++j) C[i * 1024 + j] = A[j * 1024 + i];"
    assert races(body, n=n, extent=1024) == []
    assert races(body + " if (i == 1023) C[77] = 1;", n=n, extent=1024)[0].iterations == (0, 1023)
