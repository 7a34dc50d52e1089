"""Errors of the CUDA runtime as sentences: what happened, why, and what to do.

The numbers are those of NVIDIA's CUDA Runtime API, "Data types", enum cudaError. Some are found
only after the call that made them has returned, and some are the end of CUDA in this process.
"""

from __future__ import annotations

from typing import Final

from minitensor.errors import ExecutionError, printable

_EMULATOR: Final = 'target="cuda-emulator" runs kernels on the CPU'
_CHECK: Final = 'build with target="cuda-emulator", check=True: it names the access'

_SENTENCES: Final = {
    2: (
        "there is not enough memory left on the GPU: {detail}",
        "free arrays on it, or use smaller ones",
    ),
    3: (
        "CUDA cannot start in this process",
        "a process that was forked from one that used CUDA cannot use it: start it anew "
        "(multiprocessing: the method 'spawn')",
    ),
    35: (
        "the driver of NVIDIA is missing, or too old: {detail}",
        f"install a driver, or a newer one (or an older nvcc); {_EMULATOR}",
    ),
    46: (
        "the GPU is in use by another process that keeps it to itself",
        "end that process, or let nvidia-smi -c 0 share the GPU",
    ),
    98: ("this library has no such kernel for the GPU", "delete the cache folder and build anew"),
    100: (
        "there is no GPU of NVIDIA, or CUDA_VISIBLE_DEVICES hides it",
        f"check nvidia-smi and CUDA_VISIBLE_DEVICES; {_EMULATOR}",
    ),
    101: ("there is no such GPU", "check CUDA_VISIBLE_DEVICES"),
    209: (
        "the kernel was built for another GPU than this one",
        'leave the device of mt.Target("cuda") open, or name this one',
    ),
    222: (
        "the driver is too old for the code of this nvcc: {detail}",
        "install a newer driver, or name an older nvcc in NVCC",
    ),
    700: ("a kernel accessed memory that is not there", _CHECK),
    701: (
        "a block needs more registers or shared memory than the GPU has",
        "bind fewer threads or cache less in shared memory; kernel.resources has the numbers",
    ),
    702: ("a kernel ran longer than the system lets it", "run on a GPU without a display"),
    715: ("a kernel met an instruction that the GPU does not have", "build for this GPU"),
    716: ("a kernel accessed memory at an address that is not aligned", _CHECK),
    719: ("a kernel failed in a way that the GPU does not explain", _CHECK),
    999: ("the driver failed", "look at the system's log (dmesg), and restart the machine"),
}
"""The cause, and what to do, by the number of the error."""

_LATE: Final = frozenset({700, 702, 710, 714, 715, 716, 717, 718, 719})
"""Errors of a running kernel. They are returned by a later call, and by every call from then on."""
_STICKY: Final = (
    "; it may have been an earlier launch. CUDA fails in this process from now on: start Python "
    "anew"
)


def failure_of(error: int, name: str, text: str, who: str, detail: str) -> ExecutionError:
    """The exception for an error of the runtime.

    name, text  as the runtime says them
    who         whose call it was
    detail      a clause: the versions of driver and runtime, or what was asked for
    """
    usual = f"the CUDA runtime says {printable(text)!r}", "see NVIDIA's CUDA Runtime API"
    happened, remedy = _SENTENCES.get(error, usual)
    late = _STICKY if error in _LATE else ""
    return ExecutionError(
        f"{who}: {happened.format(detail=detail)} (CUDA error {error}, {printable(name)}); "
        f"{remedy}{late}",
        "memory" if error == 2 else "device",
    )
