"""Sentences on what costs in a kernel, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minitensor import ir
from minitensor.codegen import Device
from minitensor.gpu.kernels import Kernel, size_of
from minitensor.gpu.residency import Occupancy
from minitensor.gpu.reuse import address_form
from minitensor.gpu.warps import BANKS, SECTOR, WORD, Traffic

FEW = 0.5
"""The share of warps from which on nothing is said of occupancy."""
WASTED = 1.5
"""The sectors of a request, over the fewest that would do, from which on it is said."""


def remarks_on(
    kernel: Kernel, device: Device, room: Occupancy, accesses: Sequence[Traffic]
) -> Iterator[str]:
    """The remarks on a kernel, each once."""
    found = [
        *_shape(kernel, device, room),
        *(text for one in accesses for text in _access(kernel, one)),
    ]
    yield from dict.fromkeys(found)


def _shape(kernel: Kernel, device: Device, room: Occupancy) -> Iterator[str]:
    if room.blocks == 0:
        yield (
            f"no block fits a multiprocessor: {kernel.shared_bytes:,} bytes of shared memory of "
            f"{device.most_shared:,}, {kernel.threads:,} threads; take smaller tiles"
        )
        return
    if room.share < FEW:
        advice = {
            "registers": "keep less in registers",
            "shared memory": "stage less at a time, or give shared arrays fewer elements",
            "threads": "take blocks of a size that divides its threads",
            "blocks": "take larger blocks",
        }[room.limit]
        yield (
            f"occupancy {room.share:.0%}, limited by {room.limit} ({room.blocks} blocks of "
            f"{kernel.threads} threads on a multiprocessor); {advice}"
        )
    if kernel.blocks < device.processors:
        idle = device.processors - kernel.blocks
        yield f"{idle} of {device.processors} multiprocessors have no block; take smaller tiles"
    else:
        full = room.blocks * device.processors
        last = kernel.blocks % full
        if 0 < last < full / 4 and kernel.blocks < 4 * full:
            turns = -(-kernel.blocks // full)
            yield f"the last of {turns} turns of blocks has {last} of the {full} that run together"
    ragged = kernel.threads % ir.WARP
    if kernel.threads == 1:
        yield f"a block is one thread, on one of {ir.WARP} lanes; bind a loop to threadIdx.x"
    elif ragged:
        yield f"{kernel.threads} threads: the last warp of a block has {ragged} of {ir.WARP} lanes"


def _access(kernel: Kernel, one: Traffic) -> Iterator[str]:
    name, word = ir.print_name(one.buffer), "stores to" if one.site.writes else "loads of"
    if one.requests == 0:
        return
    if one.space == "local":
        yield (
            f"{name} is in local memory, for an index of it is no constant: "
            "unroll the loops that its indices move with"
        )
    elif one.space == "shared":
        if one.ways >= 2:
            yield f"{word} {name}: {one.ways:.3g}-way bank conflict; {_shift(kernel, one)}"
    else:
        fewest = max(one.requests, one.distinct / SECTOR)
        if one.sectors >= WASTED * fewest:
            used = f"{one.distinct / one.sectors:.3g} of {SECTOR} bytes of a sector are used"
            yield f"{word} {name}: {used}; {_advice(kernel, one)}"


def _shift(kernel: Kernel, one: Traffic) -> str:
    """The step that spreads an access of shared memory over the banks."""
    buffer = one.site.buffer
    threads = {loop.var for loop in (*kernel.parts.threads, *one.site.together)}
    assert buffer is not None
    rows = [
        axis
        for axis, index in enumerate(one.site.indices[:-1])
        if not threads.isdisjoint(ir.free_vars(index))
    ]
    if not rows:
        return "let neighbouring threads access neighbouring elements, as vthread does"
    factor, offset = BANKS * WORD // size_of(buffer), max(1, one.size // size_of(buffer))
    call = f"s.storage_align({one.buffer!r}, {rows[-1]}, {factor}, {offset})"
    return f"{call} begins its rows in different banks"


def _advice(kernel: Kernel, one: Traffic) -> str:
    """The step that makes an access of device memory coalesced."""
    x = [loop.var for loop in kernel.parts.threads if loop.kind is ir.LoopKind.THREAD_IDX_X]
    buffer = one.site.buffer
    if x and buffer is not None:
        step = int(address_form(one.site).coefficient(x[0])) // size_of(buffer)
        if abs(step) > 1:
            far = f"from one {ir.print_name(x[0])} to the next it moves {abs(step):,} elements"
            step_to_take = "bind the loop of its last axis to threadIdx.x"
            return f"{far}: {step_to_take}, or stage it through shared memory"
    return "let neighbouring threads access neighbouring elements"
