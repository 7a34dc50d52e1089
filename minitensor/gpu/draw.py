"""Pictures of the accesses of a kernel: the lanes of one warp against sectors, or banks."""

from __future__ import annotations

from collections.abc import Iterator

from minitensor import ir, pictures
from minitensor.gpu.kernels import Kernel, Site, kernels_of
from minitensor.gpu.warps import Traffic, addresses, traffic_of


def access_pictures(program: ir.Program) -> list[pictures.Picture]:
    """A picture of a load and of a store of each array in memory, the costliest of each kernel: of
    the first warp, with all loops at their first iteration.
    """
    found: dict[tuple[str, bool], tuple[Kernel, Traffic]] = {}
    for kernel in kernels_of(program):
        for one in _accesses(kernel):
            key = (one.buffer, one.site.writes)
            if key not in found or _each(one) > _each(found[key][1]):
                found[key] = (kernel, one)
    return [_picture(kernel, one) for kernel, one in found.values()]


def _accesses(kernel: Kernel) -> Iterator[Traffic]:
    """The accesses that can be drawn: by single lanes, of places that do not depend on data."""
    sites = kernel.sites()
    kept = kernel.in_registers(sites)
    for site in sites:
        buffer = site.buffer
        if buffer is None or buffer.name in kept or buffer in kernel.private:
            continue
        if not site.together and not any(map(ir.loads, site.indices)):
            yield traffic_of(kernel, site)


def _each(one: Traffic) -> float:
    """The sectors or cycles of a request."""
    return one.sectors_a_request + one.cycles_a_request


def _picture(kernel: Kernel, one: Traffic) -> pictures.Picture:
    site, name = one.site, pictures.fitted(ir.print_name(one.buffer), 40)
    word = "store to" if site.writes else "load of"
    if one.space == "shared":
        cost = f"{one.cycles_a_request:.3g} cycles of the banks a request, {one.ways:.3g}-way"
    else:
        cost = f"{one.sectors_a_request:.3g} sectors a request"
    place = f"{name}{_indices(site)}"
    words = (
        f"A {word} {place} by the first warp of {ir.print_name(kernel.name)}, {one.size} bytes a "
        f"lane, every loop at its first iteration. On average: {cost}."
    )
    where = addresses(kernel, site, 0, {}).tolist()
    key = f"lanes-{one.buffer}{'_store' if site.writes else ''}"
    title = f"Lanes of a warp: {word} {name}, {cost}"
    return pictures.lanes_picture(key, title, words, where, one.size, one.space == "shared")


def _indices(site: Site) -> str:
    return "[" + pictures.fitted(", ".join(map(ir.print_expr, site.indices)), 80) + "]"
