"""Virtual threads on the simulated accelerator: ResNet-18's convolutions over bandwidths of DRAM.

    python -m benchmarks.accelerator                    the table and the pictures, in two minutes
    python -m benchmarks.accelerator --search 64        and a search for each layer beside them
    python -m benchmarks.accelerator --pictures FOLDER  where the pictures go (build/accelerator)

The layers are C2 to C12 of the paper, at batch 1. A hand schedule of each takes whole rows of the
image, windows as they are, and those numbers of rows, of channels in and of channels out with which
a product of one tile after the other would be fastest: loads and products in turn with one virtual
thread, the longer of the two with more. The tiles of all threads share the memories. Utilisation is
the part of the array's peak, in simulated cycles; peak and mean are over the layers.

The roofline has one roof for all bandwidths: across is what DRAM could feed of the array's peak,
were each byte moved once.

Source: Chen et al., TVM: An Automated End-to-End Optimizing Compiler for Deep Learning, OSDI 2018,
section 4.4 and figure 10.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Final, NamedTuple

import minitensor as mt
from benchmarks.common import markdown_table
from minitensor import accelerator, pictures
from minitensor.accelerator import AcceleratorKernel, Machine
from minitensor.errors import MinitensorError
from minitensor.search.sketch import Plan, accelerator_schedule


class Layer(NamedTuple):
    """A convolution: channels in, height and width, channels out, kernel, stride, padding."""

    c: int
    side: int
    f: int
    kernel: int
    stride: int
    padding: int

    @property
    def out(self) -> int:
        """Height and width of the output."""
        return (self.side + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def multiply_adds(self) -> int:
        """Of the whole layer."""
        return self.out**2 * self.f * self.c * self.kernel**2

    def program(self, machine: Machine) -> mt.Program:
        """Its definition."""
        c, side, f, *window = self
        return accelerator.conv2d(1, c, side, side, f, *window, machine=machine)

    def fed(self, machine: Machine) -> float:
        """The part of the peak that DRAM could feed, were each byte moved once."""
        loaded = self.side**2 * self.c + self.kernel**2 * self.c * self.f
        moved = max(loaded, self.out**2 * self.f)
        return self.multiply_adds / moved * machine.dram_bytes_per_cycle / machine.peak


LAYERS: Final = {
    "C2": Layer(64, 56, 64, 3, 1, 1),
    "C3": Layer(64, 56, 64, 1, 1, 0),
    "C4": Layer(64, 56, 128, 3, 2, 1),
    "C5": Layer(64, 56, 128, 1, 2, 0),
    "C6": Layer(128, 28, 128, 3, 1, 1),
    "C7": Layer(128, 28, 256, 3, 2, 1),
    "C8": Layer(128, 28, 256, 1, 2, 0),
    "C9": Layer(256, 14, 256, 3, 1, 1),
    "C10": Layer(256, 14, 512, 3, 2, 1),
    "C11": Layer(256, 14, 512, 1, 2, 0),
    "C12": Layer(512, 7, 512, 3, 1, 1),
}
BANDWIDTHS: Final = (2, 4, 8, 16, 32)
THREADS: Final = (1, 2, 4)
TRIED: Final = 2
"""Tiles that are simulated, those that should be fastest first."""
_COLOURS: Final = ("blue", "orange", "green")


class Tile(NamedTuple):
    """Rows of the output, and multiples of the array's terms and outputs."""

    y: int
    rc: int
    f: int


def divisors(n: int) -> list[int]:
    """Of a number, in order."""
    return [d for d in range(1, n + 1) if n % d == 0]


def expected_cycles(layer: Layer, tile: Tile, threads: int, machine: Machine) -> float:
    """The cycles of a layer in such tiles, by hand; infinite for tiles that do not fit."""
    rows, terms, outputs = (tile.y - 1) * layer.stride + layer.kernel, tile.rc * 16, tile.f * 16
    width = layer.side + 2 * layer.padding
    inputs = rows * width * terms
    weights = layer.kernel**2 * terms * outputs
    sums = tile.y * layer.out * outputs
    memories = zip((inputs, weights, 5 * sums), machine.memories.values())
    if any(size * threads > room for size, room in memories):
        return math.inf
    bandwidth, latency = machine.dram_bytes_per_cycle, machine.dram_latency
    load = (inputs + weights) / bandwidth + (rows + layer.kernel**2) * latency
    execute = sums * terms * layer.kernel**2 / machine.peak + machine.issue_cycles
    steps = load + execute if threads == 1 else max(load, execute)
    store = sums / bandwidth + tile.y * latency + 4 * sums / machine.rows
    ends = store if threads == 1 else max(0.0, store - steps)
    count = layer.out // tile.y * layer.f // outputs
    return count * (layer.c // terms * steps + ends)


def by_hand(layer: Layer, threads: int, machine: Machine) -> AcceleratorKernel:
    """The fastest of the schedules that should be fastest."""
    every = itertools.product(divisors(layer.out), divisors(layer.c // 16), divisors(layer.f // 16))
    tiles = [Tile(*sizes) for sizes in every]
    tiles.sort(key=lambda tile: expected_cycles(layer, tile, threads, machine))
    program = layer.program(machine)
    found: list[AcceleratorKernel] = []
    for tile, axis in itertools.product(tiles, ("y", "f")):
        sizes = {**tile._asdict(), "x": layer.out, "ry": layer.kernel, "rx": layer.kernel}
        try:
            schedule = accelerator_schedule(program, machine, Plan(sizes, axis, threads))
            found.append(mt.build(schedule, machine))
        except MinitensorError:  # this many threads do not divide the tiles, or they do not fit
            continue
        if len(found) == TRIED:
            break
    return min(found, key=lambda kernel: kernel.timing.cycles)


Utilisations = dict[tuple[float, int], dict[str, float]]


def measured(machines: Sequence[Machine]) -> Iterator[tuple[tuple[float, int], dict[str, float]]]:
    """The utilisation of each layer, by bytes a cycle and virtual threads."""
    for machine, threads in itertools.product(machines, THREADS):
        of = {name: by_hand(layer, threads, machine) for name, layer in LAYERS.items()}
        key = machine.dram_bytes_per_cycle, threads
        yield key, {name: kernel.timing.utilisation for name, kernel in of.items()}


def roofline(found: Utilisations) -> pictures.Picture:
    """The layers under the roof of the bandwidth and of the array."""
    fed = {
        (bandwidth, name): layer.fed(Machine(dram_bytes_per_cycle=bandwidth))
        for bandwidth, _ in found
        for name, layer in LAYERS.items()
    }
    low, high = min(fed.values()) * 0.9, max(fed.values()) * 1.1
    across = pictures.Axis(low, high, "what DRAM could feed, of the array's peak", logarithm=True)
    chart = pictures.Chart(across, pictures.Axis(0, 1, "utilisation"))
    slope = [low * (1 / low) ** (n / 40) for n in range(41)]
    chart.line([(x, x) for x in slope] + [(high, 1.0)], "grey", "roof")
    for colour, threads in zip(_COLOURS, THREADS):
        points = [
            (fed[bandwidth, name], utilisation)
            for (bandwidth, count), layers in found.items()
            if count == threads
            for name, utilisation in layers.items()
        ]
        chart.points(points, colour, _threads(threads))
    title = "C2 to C12 under the roof, at " + ", ".join(map(str, BANDWIDTHS)) + " bytes a cycle"
    return chart.picture("roofline", title, "\n".join(table(found)))


def against_bandwidth(found: Utilisations) -> pictures.Picture:
    """The highest and the mean utilisation of the layers, against the bandwidth."""
    across = pictures.Axis(
        min(BANDWIDTHS), max(BANDWIDTHS), "bytes of DRAM a cycle", logarithm=True
    )
    chart = pictures.Chart(across, pictures.Axis(0, 1, "utilisation"))
    for colour, threads in zip(_COLOURS, THREADS):
        for of, name in ((max, "peak"), (mean, "mean")):
            points = [(b, of(found[b, threads].values())) for b in BANDWIDTHS]
            chart.line(points, colour, _threads(threads), dash=of is mean)
            chart.points(points, colour)
            if threads == 1:
                chart.note(name, *points[1], by=(6, 16))
    return chart.picture("utilisation", "Utilisation of C2 to C12", "\n".join(table(found)))


def table(found: Utilisations) -> list[str]:
    """A row for each bandwidth: the peak of the layers and their mean."""
    head = ["bytes a cycle", *(f"{_threads(n)}: peak (mean)" for n in THREADS)]
    rows = []
    for bandwidth in BANDWIDTHS:
        every = (found[bandwidth, n].values() for n in THREADS)
        cells = [f"{max(layers):.2f} ({mean(layers):.2f})" for layers in map(list, every)]
        rows.append([f"{bandwidth}", *cells])
    return markdown_table([head, *rows])


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} virtual threads"


def searched(trials: int, machine: Machine) -> None:
    """Print a search for each layer beside the best hand schedule."""
    rows = []
    for name, layer in LAYERS.items():
        hand = min(by_hand(layer, n, machine).timing.cycles for n in THREADS)
        start = time.perf_counter()
        result = mt.tune(layer.program(machine), machine.target, trials=trials, progress=False)
        timing = mt.build(result.schedule, machine).timing
        spent = f"{time.perf_counter() - start:.0f} s"
        reached = f"{timing.utilisation:.3f}"
        rows.append(
            [name, f"{hand:,}", f"{timing.cycles:,}", f"{hand / timing.cycles:.3f}", reached, spent]
        )
        print(" ".join(rows[-1]), flush=True)
    head = ["layer", "cycles by hand", "found", "ratio", "utilisation", "search"]
    print(*markdown_table([head, *rows]), sep="\n")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accelerator", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "--search", type=int, metavar="TRIALS", help="search each layer, at 8 B/cycle"
    )
    parser.add_argument(
        "--pictures", type=Path, default=Path("build/accelerator"), metavar="FOLDER"
    )
    given = parser.parse_args()
    print(Machine(), "\n")
    if given.search is not None:
        searched(given.search, Machine())
        return
    machines = [Machine(dram_bytes_per_cycle=bandwidth) for bandwidth in BANDWIDTHS]
    found: Utilisations = {}
    for key, layers in measured(machines):
        found[key] = layers
        text = " ".join(f"{name} {value:.2f}" for name, value in layers.items())
        print(f"{key[0]:4g} B/cycle, {_threads(key[1]):<17} {text}", flush=True)
    print("", *table(found), sep="\n")
    drawn: dict[str, pictures.Picture] = {
        "roofline": roofline(found),
        "utilisation": against_bandwidth(found),
    }
    for threads in THREADS[:2]:
        timing = by_hand(LAYERS["C6"], threads, Machine()).timing
        drawn[f"timeline-{threads}"] = timing.timeline(60000)
    folder = pictures.folder_of(given.pictures)
    for name, picture in drawn.items():
        print(pictures.write(folder / f"{name}.svg", picture.svg()))


if __name__ == "__main__":
    main()
