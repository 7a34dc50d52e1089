"""The time of a program on a GPU, estimated without one.

A kernel takes as long as the part of the GPU that is busiest, none of which wait for each other:

    issue       instructions, by the schedulers of a multiprocessor
    arithmetic  operations, by its lanes
    shared      cycles of shared memory and of L1, which are one memory
    L2          bytes that multiprocessors fetch and store
    DRAM        bytes that L2 fetches and writes back
    latency     waits of a warp, as often as the blocks of the grid have to take turns: warps that
                are there at the same time wait together (Little's law)

and a launch. The first three are those of the multiprocessor with most blocks. It ranks schedules;
it does not say what a device will measure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from minitensor import codegen, ir
from minitensor.errors import unexpected
from minitensor.gpu.footprint import Footprints, waves_of
from minitensor.gpu.instructions import PRODUCTS, Instructions, instructions_of
from minitensor.gpu.kernels import Kernel, Site, fragments_of, kernels_of, size_of
from minitensor.gpu.latency import warp_cycles
from minitensor.gpu.rates import PORT, SCHEDULERS, Rates, rates_of
from minitensor.gpu.remarks import remarks_on
from minitensor.gpu.residency import Occupancy, occupancy
from minitensor.gpu.result import Cost, KernelCost
from minitensor.gpu.reuse import held
from minitensor.gpu.warps import ROWS, SECTOR, Traffic, traffic_of

OWN = 20
"""Registers of a thread that hold no element: indices, counters, temporaries."""
POINTER = 2
"""Registers of an address in device memory."""


def cost_of(
    program: ir.Program,
    device: str = codegen.DEFAULT,
    registers: Mapping[str, int] | None = None,
    most: int = ROWS,
) -> Cost:
    """The cost of an SPMD program: of what the passes of a CUDA target leave.

    device     a name of the table of GPUs
    registers  of a thread of each kernel, as the compiler says; None for an estimate
    most       executions of each access that are looked at

    Raises ArgumentError for a device that is not in the table, and for a program with blocks.
    """
    if program.blocks:
        raise unexpected("a program after the passes of a CUDA target", "program", program.name)
    chosen = codegen.device_named(device)
    known = registers or {}
    found = [_of_kernel(k, chosen, known.get(k.name), most) for k in kernels_of(program)]
    return Cost(chosen, tuple(found))


def _of_kernel(
    kernel: Kernel, device: codegen.Device, registers: int | None, most: int
) -> KernelCost:
    rates = rates_of(device)
    sites = kernel.sites()
    kept = kernel.in_registers(sites)
    shown = [s for s in sites if s.buffer is not None and s.buffer.name not in kept]
    accesses = tuple(traffic_of(kernel, site, most=most) for site in shown)
    own = registers if registers is not None else registers_of(kernel, sites)
    room = occupancy(device, kernel.threads, own, kernel.shared_bytes)
    work = instructions_of(kernel, sites, sum(one.requests for one in accesses))
    fetched, memory = _through_caches(kernel, shown, accesses, device, rates, room)
    latencies = _latencies(accesses, fetched, memory, rates)
    terms = _terms(kernel, device, rates, room, work, accesses, fetched, memory, latencies)
    remarks = remarks_on(kernel, device, room, accesses)
    return KernelCost(kernel, own, room, accesses, work, fetched, memory, terms, tuple(remarks))


def registers_of(kernel: Kernel, sites: Sequence[Site]) -> int:
    """An estimate of the registers of a thread: arrays in registers, values that were loaded and
    not yet used, addresses.
    """
    kept = kernel.in_registers(list(sites))
    parts = fragments_of(kernel.parts.body)
    arrays = 0
    for buffer in kernel.private:
        if buffer.name in kept:
            owners = ir.WARP if buffer.name in parts else 1
            arrays += -(-buffer.nbytes // (4 * owners))
    loaded: Counter[int] = Counter()
    pointers = set[str]()
    for site in sites:
        if site.buffer is None or site.buffer.name in kept:
            continue
        if site.buffer.scope is not ir.Scope.SHARED:
            pointers.add(site.buffer.name)
        if not site.writes:
            loaded[id(site.stmt)] += _held_values(kernel, site) * -(-size_of(site.buffer) // 4)
    most = max(loaded.values(), default=0)
    return min(255, arrays + most + POINTER * len(pointers) + OWN)


def _held_values(kernel: Kernel, site: Site) -> int:
    """The values of a load that are in registers at the same time: those of an iteration of the
    unrolled loops that add to the same elements, or of as many as are loaded at once.
    """
    keeps = held(kernel, site)
    if not isinstance(site.stmt, ir.Store):
        return keeps.elements
    stored = {name for index in site.stmt.indices for name in ir.free_vars(index)}
    apart = [values for name, values in keeps.unrolled.items() if name in stored]
    count = len(set(zip(*(values.tolist() for values in apart)))) if apart else 1
    return count * keeps.elements


def _through_caches(
    kernel: Kernel,
    shown: Sequence[Site],
    accesses: Sequence[Traffic],
    device: codegen.Device,
    rates: Rates,
    room: Occupancy,
) -> tuple[dict[str, float], dict[str, float]]:
    """The bytes of each array between L2 and multiprocessors, and between DRAM and L2."""
    together = max(1, room.blocks)
    l1 = max(0, rates.l1 // together - kernel.shared_bytes)
    wave, waves = waves_of(kernel, together * device.processors)
    grid = {loop.var: loop.extent for loop in kernel.parts.blocks}
    fetched, memory = dict[str, float](), dict[str, float]()
    for writes in (False, True):
        some = [site for site in shown if site.writes is writes]
        prints = Footprints.of(kernel, some)
        moved = dict[str, float]()
        for one in accesses:
            if one.space != "shared" and one.site.writes is writes:
                moved[one.buffer] = moved.get(one.buffer, 0.0) + one.sectors * SECTOR
        if not writes:  # stores go through L1
            once = prints.through(l1, {})
            moved = {n: min(c, once.get(n, c) * kernel.blocks) for n, c in moved.items()}
        beyond = prints.through(rates.l2, wave)
        if beyond.total() <= rates.l2:
            beyond, turns = prints.through(rates.l2, grid), 1
        else:
            turns = waves
        for name, count in moved.items():
            fetched[name] = fetched.get(name, 0.0) + count
            memory[name] = memory.get(name, 0.0) + min(count, beyond[name] * turns)
    return fetched, memory


def _latencies(
    accesses: Sequence[Traffic],
    fetched: Mapping[str, float],
    memory: Mapping[str, float],
    rates: Rates,
) -> dict[str, float]:
    """The cycles of a load of each array, by the caches that have it on average."""
    found: dict[str, float] = {}
    for one in accesses:
        name = one.buffer
        if one.space == "shared":
            found[name] = rates.shared_latency
            continue
        asked = sum(o.sectors * SECTOR for o in accesses if o.buffer == name)
        beyond_l1 = min(1.0, fetched.get(name, 0.0) / asked) if asked else 0.0
        beyond_l2 = min(1.0, memory.get(name, 0.0) / asked) if asked else 0.0
        found[name] = (
            rates.l1_latency
            + (rates.l2_latency - rates.l1_latency) * beyond_l1
            + (rates.memory_latency - rates.l2_latency) * beyond_l2
        )
    return found


def _terms(
    kernel: Kernel,
    device: codegen.Device,
    rates: Rates,
    room: Occupancy,
    work: Instructions,
    accesses: Sequence[Traffic],
    fetched: Mapping[str, float],
    memory: Mapping[str, float],
    latencies: Mapping[str, float],
) -> dict[str, float]:
    """The seconds that each part of the GPU needs."""
    busiest = -(-kernel.blocks // device.processors)
    share = busiest / max(1, kernel.blocks)
    """The part of the work that the multiprocessor with most blocks does."""
    lanes = ir.WARP
    arithmetic = max(
        (work.fma + work.float32) * lanes / rates.float32,
        work.integer * lanes / rates.int32,
        work.special * lanes / rates.special,
        work.float64 * lanes / rates.float64,
        work.tensor * PRODUCTS / rates.tensor,
    )
    shared = sum(
        one.cycles * (128 / rates.l1_width)
        if one.space == "shared"
        else max(one.requests, one.sectors * SECTOR / rates.l1_width)
        for one in accesses
    )
    active = min(device.processors, kernel.blocks)
    port = max(1, active) * PORT * rates.clock
    alone = warp_cycles(kernel, kernel.parts.body, latencies).total
    turns = -(-busiest // max(1, room.blocks))
    clock = rates.clock
    return {
        "issue": work.total * share / SCHEDULERS / clock,
        "arithmetic": arithmetic * share / clock,
        "shared": shared * share / clock,
        "L2": sum(fetched.values()) / min(rates.l2_bandwidth, port),
        "DRAM": sum(memory.values()) / min(rates.memory_bandwidth, port),
        "latency": turns * alone / clock,
    }
