"""Made-up programs: statements with 164 features each, and how fast the whole is.

The time of a statement follows a small roofline model of its tile sizes: work over how much of the
machine it uses, or bytes over the bandwidth of the cache that holds its tile. The features are what
an extractor would see of that: logarithms of sizes, products of them, flags, columns that are
nearly always zero, and some that mean nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FEATURES = 164
TILE = 8
"""The latent number that is the logarithm of a tile's bytes."""
NOISE = 0.03
"""Of a measurement: the standard deviation of its logarithm."""


@dataclass(frozen=True)
class Programs:
    """features (rows, 164) float32; programs (rows,): the program of each row; labels (programs,):
    operations a second; groups (programs,): the workload of each.
    """

    features: npt.NDArray[np.float32]
    programs: npt.NDArray[np.int64]
    labels: npt.NDArray[np.float64]
    groups: npt.NDArray[np.int64]

    def first(self, rows: int) -> Programs:
        """The first programs, of no more than so many rows."""
        whole = np.cumsum(np.bincount(self.programs)) <= rows
        return self.part(whole)

    def part(self, chosen: npt.NDArray[np.bool_]) -> Programs:
        """Some of the programs (programs,), numbered anew."""
        number = np.cumsum(chosen) - 1
        rows = chosen[self.programs]
        return Programs(
            self.features[rows],
            number[self.programs[rows]],
            self.labels[chosen],
            self.groups[chosen],
        )


def programs(workloads: int, each: int, seed: int, failed: float = 0.0) -> Programs:
    """`each` candidates for each of some workloads.

    The part `failed` of a workload's, those with the largest tile, have label 0.
    """
    random = np.random.default_rng(seed)
    mixing = np.random.default_rng(7)  # what the features are is the same for all
    features, owners, labels, tiles, groups = [], [], [], [], []
    count = 0
    for workload in range(workloads):
        least = int(random.integers(1, 7))
        sizes = random.integers(5, 11, 3).astype(float)  # log2 of three loops
        for _ in range(each):
            statements = least + int(random.integers(0, 3))
            latent, time, work = _statements(random, sizes, statements)
            features.append(latent)
            owners += [count] * statements
            labels.append(work / time * np.exp(NOISE * random.normal()))
            tiles.append(latent[:, TILE].max())
            groups.append(workload)
            count += 1
        largest = np.argsort(tiles[-each:])[each - round(failed * each) :]
        for candidate in largest:
            labels[candidate - each] = 0.0
    table = _features(np.concatenate(features), mixing, random)
    return Programs(table, np.array(owners), np.array(labels), np.array(groups))


def _statements(random: Any, sizes: Any, count: int) -> tuple[Any, float, float]:
    """Latent numbers (count, 10) of a program's statements, its time and its work."""
    scale = np.append(1.0, 2.0 ** -random.integers(2, 7, count - 1))  # the first is the heavy one
    i, j, k = (np.floor(random.uniform(0, size + 1, count)) for size in sizes)
    vector = random.integers(0, 6, count)  # log2 of lanes
    unroll = random.integers(0, 4, count)
    parallel = random.integers(0, 8, count)
    kind = random.integers(0, 3, count)
    total = sizes.sum() + np.log2(scale)
    tile = np.logaddexp2(np.logaddexp2(i + k, k + j), i + j) + 2  # log2 of its bytes
    traffic = total - np.minimum(np.minimum(i, j), k) + 2
    lanes = 2.0 ** np.where(vector <= 4, vector, 3) * np.where((vector > j) & (kind < 2), 0.4, 1)
    registers = 2.0 ** (np.maximum(i - 3, 0) + np.maximum(j - 4, 0) + unroll)
    spills = np.where(registers > 32, 0.5, 1.0) * np.where(unroll == 0, 0.7, 1.0)
    cores = np.minimum(2.0**parallel, 16) * np.where(parallel > 5, 0.8, 1.0)
    bandwidth = np.select([tile < 15, tile < 20, tile < 24], [64.0, 24.0, 8.0], 2.0)
    compute = 2.0**total / (lanes * spills * cores)
    memory = 2.0**traffic / (bandwidth * np.sqrt(cores))
    time = np.maximum(compute, memory) + 2e3 * (parallel > 0)
    latent = np.stack([i, j, k, vector, unroll, parallel, kind, total, tile, traffic], axis=1)
    return latent, float(time.sum()), float(2.0 ** total.max())


def _features(latent: Any, mixing: Any, random: Any) -> npt.NDArray[np.float32]:
    """The latent numbers, sums and products of some, flags, rare ones, noise, and constants."""
    rows, known = latent.shape
    columns = [latent]
    for _ in range(70):
        chosen = mixing.choice(known, 3, replace=False)
        mixed = latent[:, chosen] @ mixing.permutation([-1, 1, 2])
        columns.append(np.maximum(mixed, mixing.integers(-8, 4))[:, None])
    for _ in range(40):
        chosen = mixing.choice(known, 2, replace=False)
        product = latent[:, chosen].prod(axis=1) * mixing.uniform(0.5, 2)
        columns.append((product + 0.1 * random.normal(size=rows))[:, None])
    for _ in range(20):
        column = latent[:, mixing.integers(known)]
        columns.append((column > mixing.uniform(0, 3))[:, None])
    for _ in range(8):
        rare = random.random(rows) < 0.02
        columns.append((rare * random.exponential(size=rows))[:, None])
    columns.append(random.normal(size=(rows, 10)))
    columns.append(np.broadcast_to(np.arange(6.0), (rows, 6)))
    return np.concatenate(columns, axis=1).astype(np.float32)
