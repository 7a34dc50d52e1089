"""OpenBLAS with its AVX-512 kernels, where numpy's copy of it prefers narrower ones.

numpy's OpenBLAS picks its kernels by the name of the CPU, and takes those for 256-bit vectors on
CPUs that have wider ones. scipy brings a copy of its own, which is loaded here with its choice made
for it. Context rather than a baseline: a user would have to know.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.compare.baselines.numpy_baseline import PRODUCTS, Product, with_product
from benchmarks.compare.implementation import Implementation
from benchmarks.compare.work import Work
from minitensor.runtime import find_toolchain

_CHOICE: Final = "OPENBLAS_CORETYPE"
_KERNELS: Final = "SkylakeX"
_ROW_MAJOR: Final = 101
_AS_IT_IS: Final = 111


def library() -> Path | None:
    """scipy's copy of the library; None if there is none, or no vectors of 512 bits."""
    found = importlib.util.find_spec("scipy")
    if found is None or found.origin is None or find_toolchain().vector_bits < 512:
        return None
    beside = Path(found.origin).parents[1] / "scipy.libs"
    return next(iter(sorted(beside.glob("libscipy_openblas*.so*"))), None)


def implementations(
    name: str, work: Work, threads: int, options: Mapping[str, Any]
) -> Iterator[Implementation]:
    """numpy with this product in it, for what is a product."""
    path = library()
    if work.kind in PRODUCTS and path is not None:
        product, kernels = _product(path, threads)
        yield with_product(name, work, product, f"kernels for {kernels}")


def _product(path: Path, threads: int) -> tuple[Product, str]:
    before = os.environ.get(_CHOICE)
    os.environ[_CHOICE] = _KERNELS
    try:
        loaded = ctypes.CDLL(str(path))
    finally:
        if before is None:
            del os.environ[_CHOICE]
        else:
            os.environ[_CHOICE] = before
    loaded.scipy_openblas_set_num_threads(threads)
    loaded.scipy_openblas_get_corename.restype = ctypes.c_char_p
    multiply = loaded.scipy_cblas_sgemm
    number, real, pointer = ctypes.c_int, ctypes.c_float, ctypes.c_void_p
    multiply.argtypes = (
        *[number] * 6,
        real,
        pointer,
        number,
        pointer,
        number,
        real,
        pointer,
        number,
    )
    multiply.restype = None

    def product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        if a.ndim == 3:
            for one, other, result in zip(a, b, out):
                product(one, other, result)
            return
        (m, k), n = a.shape, b.shape[1]
        operands = (a.ctypes.data, k, b.ctypes.data, n, 0.0, out.ctypes.data, n)
        multiply(_ROW_MAJOR, _AS_IT_IS, _AS_IT_IS, m, n, k, 1.0, *operands)

    return product, loaded.scipy_openblas_get_corename().decode()
