"""The caches of a core: measured, else as the system says, else usual.

Nothing is timed: a script in place of a compiler makes programs that print what a test wants.
"""

import pytest

from minitensor.errors import ArgumentError
from minitensor.runtime import USUAL_CACHES, Caches, caches, diagnose, find_toolchain, known_caches
from minitensor.runtime.caches import Known, chosen, largest_cache, measure_caches, said_caches
from tests.latencies import MACHINES

COMPILER = r"""#!/bin/sh
PATH=/usr/bin:/bin
output= shared= macros= source=
while [ $# -gt 0 ]; do
    case "$1" in
        -o) output="$2"; shift;;
        -shared) shared=yes;;
        -dM) macros=yes;;
        caches.c) source=yes;;
        -dumpmachine) echo x86_64-linux-gnu;;
        --version) echo cc 1;;
    esac
    shift
done
[ -z "$source" ] || echo made >> "$0.made"
if [ "$macros" ]; then
    printf '#define __GNUC__ 12\n#define __SSE2__ 1\n'
elif [ "$output" ] && [ -z "$shared" ]; then
    printf '#!/bin/sh\n%s\n' 'PROGRAM' > "$output" && chmod +x "$output"
elif [ "$output" ]; then
    : > "$output"
fi
"""
SAID = Known(64 << 10, 512 << 10)
NOTHING = Known()


def printing(name):
    """The shell command that prints the latencies of a machine."""
    latencies, _ = MACHINES[name]
    lines = "".join(rf"{size} {time:.3f}\n" for size, time in latencies.items())
    return f'printf "{lines}"'


@pytest.fixture(autouse=True)
def system(tmp_path, monkeypatch):
    """Makes the system say something about its caches, such as `index0="1 Data 48K"`."""
    monkeypatch.setattr(caches, "_SYSTEM", tmp_path / "system")

    def say(**indices):
        for index, words in indices.items():
            folder = tmp_path / "system" / index
            folder.mkdir(parents=True)
            for name, word in zip(("level", "type", "size"), words.split()):
                (folder / name).write_text(word + "\n")

    return say


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Makes a compiler, by what the program does that it makes; returns how many it has made."""

    def make(program):
        path = tmp_path / "cc"
        path.write_text(COMPILER.replace("PROGRAM", program))
        path.chmod(0o755)
        monkeypatch.setenv("CC", str(path))
        made = tmp_path / "cc.made"
        return lambda: len(made.read_text().splitlines()) if made.exists() else 0

    return make


def finding():
    (found,) = (f for f in diagnose() if f.name == "caches")
    return found


@pytest.mark.parametrize("measured, said, used", [
    (Known(48 << 10, 1 << 20), SAID, Caches(48 << 10, 1 << 20)),
    (Known(48 << 10), SAID, Caches(48 << 10, 512 << 10)),
    (Known(48 << 10), NOTHING, Caches(48 << 10, USUAL_CACHES.l2)),
    (NOTHING, SAID, Caches(64 << 10, 512 << 10)),
    (NOTHING, Known(l2=1 << 20), Caches(USUAL_CACHES.l1, 1 << 20)),
    (NOTHING, NOTHING, USUAL_CACHES),
])  # fmt: skip
def test_what_is_measured_counts_more_than_what_is_said(measured, said, used):
    assert chosen(measured, said) == used


def test_what_the_system_says(system):
    assert said_caches() == NOTHING
    usual = largest_cache()
    system(index0="1 Data 48K", index1="1 Instruction 32K", index2="2 Unified 2M")
    system(index3="3 Unified 32768K", index4="2 Unified", index5="1 Data much")
    assert said_caches() == Known(48 << 10, 2 << 20)
    assert largest_cache() == 32 << 20 != usual


def test_measured_once(compiler, monkeypatch):
    made = compiler(printing("48 K, 1 M"))
    assert known_caches() == Caches(48 << 10, 1 << 20)
    assert known_caches() == Caches(48 << 10, 1 << 20) and made() == 1
    caches._measured_once.cache_clear()  # as in another process
    assert known_caches() == Caches(48 << 10, 1 << 20) and made() == 1


@pytest.mark.slow
def test_measured_anew(compiler):
    compiler(printing("48 K, 1 M"))
    assert known_caches() == Caches(48 << 10, 1 << 20)
    made = compiler(printing("32 K, 256 K"))
    assert "32 KiB L1, 256 KiB L2 (measured: 32 KiB L1, 256 KiB L2;" in finding().detail
    assert known_caches() == Caches(32 << 10, 256 << 10) and made() == 2


def test_building_does_not_measure(compiler):
    made = compiler(printing("48 K, 1 M"))
    find_toolchain()
    assert made() == 0


@pytest.mark.parametrize("program", [
    "exit 1", "echo nothing", "kill -SEGV $$", "kill -ILL $$", "exit", printing("a simulator"),
])  # fmt: skip
def test_a_measurement_that_fails_leaves_it_to_the_system(compiler, system, program):
    made = compiler(program)
    system(index0="1 Data 64K", index2="2 Unified 512K")
    assert known_caches() == Caches(64 << 10, 512 << 10)
    assert known_caches() == Caches(64 << 10, 512 << 10) and made() == 1
    caches._measured_once.cache_clear()
    known_caches()
    assert made() == 2  # what failed is tried again by another process


@pytest.mark.parametrize("word", ["", "false", "no-such-compiler"])
def test_without_a_compiler(tmp_path, monkeypatch, word):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", word)
    assert known_caches() == USUAL_CACHES
    assert finding().ok is None and finding().advice


def test_without_a_cache_folder(compiler, cache):
    compiler(printing("48 K, 1 M"))
    cache.mkdir()
    cache.chmod(0o777)
    assert known_caches() == USUAL_CACHES


@pytest.mark.slow
def test_the_doctor_says_where_sizes_come_from(compiler, system):
    compiler(printing("128 K, 12 M"))
    assert finding().ok is None
    assert finding().detail == (
        "128 KiB L1, 512 KiB L2 (measured: 128 KiB L1; the system says: nothing)"
    )
    system(index0="1 Data 128K", index2="2 Unified 1280K")
    assert finding().ok is True
    assert finding().detail == (
        "128 KiB L1, 1.25 MiB L2 (measured: 128 KiB L1; the system says: 128 KiB L1, 1.25 MiB L2)"
    )
    compiler(printing("48 K, 1 M"))
    system(index4="1 Data 48K", index5="2 Unified 1M")
    assert measure_caches() == said_caches()
    assert finding().detail == "48 KiB L1, 1 MiB L2 (measured, and the system says so)"


def test_damaged_figures_are_measured_again(compiler, cache):
    made = compiler(printing("48 K, 1 M"))
    known_caches()
    (entry,) = cache.glob("caches-*.json")
    entry.write_text("damaged")
    caches._measured_once.cache_clear()
    assert known_caches() == Caches(48 << 10, 1 << 20) and made() == 2


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0), (None, 1), (1.5, 1)])
def test_caches_have_sizes(sizes):
    with pytest.raises(ArgumentError, match=r"expected an integer >= 1, but got l[12]="):
        Caches(*sizes)
