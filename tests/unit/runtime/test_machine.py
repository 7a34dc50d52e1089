"""The CPU as the system describes it."""

import builtins
import io
import os

import pytest

from minitensor.runtime import cpu_name, machine, spread_cores
from minitensor.runtime.machine import _about_cpu, cpu_fingerprint

X86 = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Xeon
stepping\t: 1
flags\t\t: fpu avx512f

processor\t: 1
model name\t: Other
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"


@pytest.fixture
def cpuinfo(monkeypatch):
    """Puts a text, or its absence, in the place of /proc/cpuinfo."""

    def put(text):
        def read(path, *args, **kwargs):
            assert path == "/proc/cpuinfo"
            if text is None:
                raise FileNotFoundError(path)
            return io.StringIO(text)

        monkeypatch.setattr(builtins, "open", read)
        _about_cpu.cache_clear()
        cpu_fingerprint.cache_clear()
        try:
            return cpu_name(), cpu_fingerprint()
        finally:
            monkeypatch.undo()
            _about_cpu.cache_clear()
            cpu_fingerprint.cache_clear()

    return put


def test_x86(cpuinfo):
    assert cpuinfo(X86)[0] == "Xeon"


def test_arm(cpuinfo):
    assert cpuinfo(ARM)[0] == "0x41 0xd40"


def test_macos(cpuinfo):
    name, _ = cpuinfo(None)
    assert name.startswith(os.uname().machine)


def test_fingerprint_tells_machines_of_one_name_apart(cpuinfo):
    known = {cpuinfo(t)[1] for t in (X86, X86.replace("avx512f", "avx2"), X86, ARM, None)}
    assert len(known) == 4


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not pin")
def test_cores_are_chosen_before_their_second_threads(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 2, 3, 4, 5})
    monkeypatch.setattr(machine, "_place_among_siblings", lambda core: core % 2)
    assert spread_cores(2) == [2, 4]
    assert spread_cores(4) == [2, 4, 1, 3]
    assert spread_cores(9) == [2, 4, 1, 3, 5]


@pytest.mark.parametrize(
    ("text", "place"), [("0-3\n", 2), ("2,6\n", 0), ("1-2,5\n", 1), ("", 0), ("4\n", 0)]
)
def test_the_place_of_a_core_among_its_siblings(monkeypatch, text, place):
    monkeypatch.setattr(builtins, "open", lambda *args, **kwargs: io.StringIO(text))
    assert machine._place_among_siblings(2) == place


def test_a_system_that_cannot_pin(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert spread_cores(2) == []
