"""The CPU as the system describes it."""

import builtins
import io
import os

import pytest

from minitensor.runtime import cpu_name
from minitensor.runtime.machine import _about_cpu, cpu_fingerprint, lacking

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
            return cpu_name(), cpu_fingerprint(), lacking({"__AVX512F__", "__FMA4__", "__gcc__"})
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
    name, *_ = cpuinfo(None)
    assert name.startswith(os.uname().machine)


def test_fingerprint_tells_machines_of_one_name_apart(cpuinfo):
    known = {cpuinfo(t)[1] for t in (X86, X86.replace("avx512f", "avx2"), X86, ARM, None)}
    assert len(known) == 4


def test_instructions_that_a_cpu_lacks(cpuinfo):
    assert cpuinfo(X86)[2] == ("fma4",)
    assert cpuinfo(ARM)[2] == cpuinfo(None)[2] == ()
