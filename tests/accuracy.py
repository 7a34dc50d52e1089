"""How far a function may be from the exact value, the exact values, and the distance in ulp.

The bounds are those of docs/math.md. Exact values of float32 functions are computed in float64, of
float64 functions in the 80-bit floats of x86 (erf: in decimals), which other machines do not have.
"""

import functools
from decimal import Decimal, localcontext

import numpy as np
import scipy.special

import minitensor as mt

BOUNDS = {
    "float32": {
        "exp": 1.3,
        "log": 1.3,
        "tanh": 1.5,
        "sigmoid": 2.0,
        "erf": 1.5,
        "rsqrt": 1.5,
        "power": 0.6,
        "sin": 0.6,
        "cos": 0.6,
        "log1p": 0.6,
        "expm1": 0.6,
    },
    "float64": {
        "exp": 1.3,
        "log": 1.5,
        "tanh": 1.5,
        "sigmoid": 2.0,
        "erf": 1.5,
        "rsqrt": 1.5,
    },
}
"""In units of the last place of the exact value; of the least subnormal where that is larger."""

EXTENDED = np.finfo(np.longdouble).nmant >= 63
"""Whether this machine has floats that are longer than float64."""


def kernel(name, dtype, size, target, vectorized):
    """A kernel of one function on arrays of `size` elements."""
    A, B = (mt.placeholder((size,), dtype, name=n) for n in "AB")
    function = getattr(mt, name)
    if name == "power":
        C = mt.compute((size,), lambda i: function(A[i], B[i]), name="C")
        s = mt.Schedule(mt.lower([A, B, C]))
    else:
        C = mt.compute((size,), lambda i: function(A[i]), name="C")
        s = mt.Schedule(mt.lower([A, C]))
    if vectorized:
        s.vectorize("i")
    return mt.build(s, target)


@functools.cache
def _erf_series(x: float) -> np.longdouble:
    """erf(x) by its power series, with digits enough for the cancellation in it."""
    with localcontext() as context:
        context.prec = 80
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640629")
        s, term, total, k = Decimal(x) ** 2, Decimal(x), Decimal(0), 0
        while abs(term) > Decimal("1e-60") * abs(Decimal(x)):
            total += term / (2 * k + 1)
            k += 1
            term *= -s / k
        return np.longdouble(str(2 * total / pi.sqrt()))


def _erf(x):
    if x.dtype == np.float64:
        return scipy.special.erf(x)
    return np.array([_erf_series(float(v)) if 0 < abs(v) < 7 else np.clip(v, -1, 1) for v in x])


EXACT = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": _erf,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "power": lambda x, y: np.where((x == -np.inf) & (y == 0.5), np.inf, np.power(x, y)),
}
"""The functions on longer floats (numpy's power is a square root where y is 0.5)."""


def exact(name, *arrays):
    """The values of a function, in floats longer than those of the arrays."""
    longer = np.float64 if arrays[0].dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        return EXACT[name](*[a.astype(longer) for a in arrays])


def ulps(got, wanted):
    """The distance of each float from the exact value, in ulp; infinite where a NaN, an infinity
    or a zero is not what it should be. What rounds to infinity may be infinite.
    """
    info, longer = np.finfo(got.dtype), wanted.dtype.type
    top = np.ldexp(longer(1), info.maxexp)
    with np.errstate(all="ignore"):
        a = np.clip(got.astype(longer), -top, top)
        b = np.clip(wanted, -top, top)
        exponent = np.clip(np.frexp(b)[1] - 1, info.minexp, info.maxexp - 1)
        distance = np.abs(a - b) * np.ldexp(longer(1), info.nmant - exponent)
    strange = np.isnan(got) != np.isnan(wanted)
    zero = wanted == 0
    strange |= zero & ((got != 0) | (np.signbit(got) != np.signbit(wanted)))
    return np.where(strange, np.inf, np.where(np.isnan(wanted), 0, distance)).astype(np.float64)


def worst(name, got, *arrays):
    """The largest distance in ulp, and the arguments where it is."""
    distance = ulps(got, exact(name, *arrays))
    place = int(np.argmax(distance))
    return float(distance[place]), tuple(a[place] for a in arrays)


# ---- arguments


def strided(dtype, count, offset=0):
    """Floats over the whole range, every exponent and NaN with both signs: `count` bit patterns."""
    bits = np.finfo(dtype).bits
    stride = 2**bits // count
    patterns = np.arange(count, dtype=np.uint64) * np.uint64(stride) + np.uint64(offset % stride)
    return patterns.astype(f"uint{bits}").view(dtype)


def special(dtype):
    """Zeros, the ends of the normal and subnormal numbers, infinities, NaN, and small numbers."""
    info = np.finfo(dtype)
    ends = [0, info.smallest_subnormal, info.tiny, np.nextafter(info.tiny, dtype(0)), info.max]
    near_1 = [1, np.nextafter(dtype(1), dtype(0)), np.nextafter(dtype(1), dtype(2))]
    small = [0.5, 2, 3, 7, 1 / 3, 1.5, 2.5, 7.5, 126, 127, 149, 150, 1022, 1074, 1e10]
    whole = [2.0 ** (info.nmant + n) + k for n in (-1, 0, 1, 2) for k in (0, 1)]
    halves = [2.0 ** (info.nmant - 1) - 0.5, 2.0 ** (info.nmant - 1) + 0.5]
    positive = np.array([*ends, *near_1, *small, *whole, *halves, np.inf, np.nan], dtype)
    return np.concatenate([positive, -positive])


def _turns(dtype):
    """Multiples of a quarter turn, small and huge; float32s near one."""
    halves = np.concatenate(
        [np.arange(0, 64), 2.0 ** np.arange(6, 120), -(3.0 ** np.arange(1, 70))]
    )
    near = [16367173 * 2.0**72, 13195531 * 2.0**20, np.finfo(dtype).max / 1.25, 2.0**20]
    return [*(halves * (np.pi / 4)), *near]


def borders(name, dtype):
    """Arguments around those where the result leaves the range, or the method changes."""
    info = np.finfo(dtype)
    log = np.log(np.array([info.max, info.tiny, info.smallest_subnormal], np.longdouble))
    places = {
        "exp": [*log, log[2] - np.log(np.longdouble(2)), -104, 89, -746, 710],
        "sigmoid": [*log, *-log, -104, 104, np.log(0.5), 0],
        "tanh": [0.625, 9.0, 10.0, 20.0, 19.0],
        "erf": [0.92, 3.93, 6.0, 3.8],
        "log": [1, np.sqrt(0.5), np.sqrt(2), info.tiny],
        "log1p": [-1, -0.5, 1, 2.0**-24, 2.0**24],
        "expm1": [log[0], -17.5, -20, 89, np.log(2) / 2, -np.log(2) / 2],
        "sin": _turns(dtype),
        "cos": _turns(dtype),
    }.get(name, [1.0])
    centers = np.array(places, dtype)
    reach = 2000 if len(places) < 100 else 16
    around = np.arange(-reach, reach + 1).astype(dtype)
    with np.errstate(over="ignore"):
        return (centers[:, None] + around * np.spacing(np.abs(centers))[:, None]).ravel()


def powers(count, seed):
    """float32 pairs: any two, those with a result in range, near 1, and integer exponents."""
    rng = np.random.default_rng(seed)
    n = count // 4
    any_two = rng.integers(0, 2**32, (2, n), dtype=np.uint64).astype(np.uint32).view(np.float32)
    wide = np.exp2(rng.uniform(-149, 128, n)).astype(np.float32)
    near = (1 + rng.normal(size=n) * 10.0 ** rng.uniform(-7, -0.5, n)).astype(np.float32)
    with np.errstate(all="ignore"):
        to_wide = (rng.uniform(-151, 129, n) / np.log2(np.float64(wide))).astype(np.float32)
        to_near = (rng.uniform(-151, 129, n) / np.log2(np.abs(np.float64(near)))).astype(np.float32)
    x = np.concatenate([any_two[0], wide, near, -near])
    y = np.concatenate([any_two[1], to_wide, to_near, np.rint(to_near)])
    return x, y
