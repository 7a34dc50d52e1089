"""Kernels of many programs from one run of the compiler: what takes it longest is to start.

kernels = built_together({"plain": (program, Target("c", 1)), "split": (schedule, Target("c", 2))})
kernels["split"](*arrays)
"""

from collections.abc import Hashable, Mapping
from typing import TypeVar

import minitensor as mt
from minitensor.codegen import generate_together
from minitensor.ir import Program
from minitensor.runtime import NativeKernel, find_toolchain, load_together, native_target

Key = TypeVar("Key", bound=Hashable)


def built_together(
    wanted: Mapping[Key, tuple[mt.Schedule | Program, mt.Target]],
) -> dict[Key, NativeKernel]:
    """A kernel for each program or schedule; one that cannot be built fails all of them."""
    pairs = [
        (what.program if isinstance(what, mt.Schedule) else what, native_target(target))
        for what, target in wanted.values()
    ]
    return dict(zip(wanted, load_together(generate_together(pairs), find_toolchain())))
