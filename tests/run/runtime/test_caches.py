"""The real program on the real machine."""

from minitensor.runtime import Caches, caches, find_toolchain, known_caches
from minitensor.runtime.caches import measure_caches
from minitensor.runtime.chase import FOOTPRINTS, program, read_latencies
from minitensor.runtime.process import run_compiler


def test_the_program_compiles_without_warnings_and_runs(cache, tmp_path):
    words, strict = find_toolchain().words, ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")
    (tmp_path / "caches.c").write_text(program(), encoding="utf-8")
    made = run_compiler([*words, *strict, "-o", "caches", "caches.c"], tmp_path, 20.0)
    assert made.status == 0, made.stderr
    done = run_compiler([str(tmp_path / "caches")], tmp_path, 20.0)
    assert done.status == 0
    latencies = read_latencies(done.stdout)
    assert tuple(latencies) == FOOTPRINTS and min(latencies.values()) > 0


def test_a_real_measurement(cache):
    found = measure_caches()
    assert found.l1 is None or 8 << 10 <= found.l1 <= 256 << 10
    assert found.l2 is None or 2 * found.l1 <= found.l2 < FOOTPRINTS[-1]


def test_known_caches_of_this_machine(cache, monkeypatch):
    found = known_caches()
    assert isinstance(found, Caches)
    if list(cache.glob("caches-*.json")):  # the next process starts no program
        caches._measured_once.cache_clear()
        monkeypatch.setattr(caches, "run_compiler", None)
        assert known_caches() == found
