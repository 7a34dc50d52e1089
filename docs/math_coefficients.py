"""Prints coefficients of polynomials in `math32.py`, `wider.py` and `math64.py` of codegen/emit.

    python docs/math_coefficients.py

Each is a minimax polynomial found by the exchange algorithm of Remez (J.-M. Muller, Elementary
Functions, 3rd edition, section 3.5) in decimal arithmetic, with each coefficient then rounded to
the format it is used in. The last column is the largest error of the polynomial itself, as a power
of two, in what the weight says it is relative to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, getcontext

import numpy as np

getcontext().prec = 60
Number = Decimal
Curve = Callable[[Decimal], Decimal]
ONE, TWO = Decimal(1), Decimal(2)
SMALLEST_WEIGHT = Decimal("1e-18")


@dataclass(frozen=True)
class Task:
    """A polynomial P of degree n with |weight(x) (wanted(x) - P(x))| least on [low, high]."""

    name: str
    wanted: Curve
    low: Decimal
    high: Decimal
    degree: int
    weight: Curve
    dtype: type[np.floating]


def solve(rows: list[list[Decimal]]) -> list[Decimal]:
    """The solution of linear equations, each row ending in its right-hand side."""
    n = len(rows)
    rows = [list(row) for row in rows]
    for k in range(n):
        pivot = max(range(k, n), key=lambda r: abs(rows[r][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for r in range(k + 1, n):
            factor = rows[r][k] / rows[k][k]
            for c in range(k, n + 1):
                rows[r][c] -= factor * rows[k][c]
    found = [Decimal(0)] * n
    for k in reversed(range(n)):
        rest = sum((rows[k][c] * found[c] for c in range(k + 1, n)), Decimal(0))
        found[k] = (rows[k][n] - rest) / rows[k][k]
    return found


def horner(coefficients: list[Decimal], x: Decimal) -> Decimal:
    """The polynomial at x; the constant coefficient comes first."""
    total = Decimal(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def remez(task: Task) -> tuple[list[Decimal], Decimal]:
    """The coefficients and the largest weighted error."""
    n = task.degree + 2
    size = 24 * n
    middle, half = (task.low + task.high) / 2, (task.high - task.low) / 2
    grid = [middle - half * Decimal(math.cos(math.pi * k / size)) for k in range(size + 1)]
    wanted = [task.wanted(x) for x in grid]
    weight = [max(task.weight(x), SMALLEST_WEIGHT) for x in grid]
    points = [round(k * size / (n - 1)) for k in range(n)]
    best: tuple[list[Decimal], Decimal] = ([], Decimal("inf"))
    for _ in range(30):
        rows = [
            [ONE, *(grid[p] ** k for k in range(1, n - 1)), (-1) ** i / weight[p], wanted[p]]
            for i, p in enumerate(points)
        ]
        *coefficients, _level = solve(rows)
        error = [w * (y - horner(coefficients, x)) for x, y, w in zip(grid, wanted, weight)]
        worst = max(map(abs, error))
        if worst < best[1]:
            best = (coefficients, worst)
        again = exchange(error, n)
        if again is None or again == points:
            break
        points = again
    return best


def exchange(error: list[Decimal], n: int) -> list[int] | None:
    """n places where the error is largest with alternating sign; None if there are fewer."""
    peaks: list[int] = []
    for k, e in enumerate(error):
        if peaks and (e > 0) == (error[peaks[-1]] > 0):
            if abs(e) > abs(error[peaks[-1]]):
                peaks[-1] = k
        else:
            peaks.append(k)
    while len(peaks) > n:
        peaks.pop(0 if abs(error[peaks[0]]) < abs(error[peaks[-1]]) else -1)
    return peaks if len(peaks) == n else None


def main() -> None:
    """Print every polynomial."""
    for task in TASKS:
        coefficients, worst = remez(task)
        rounded = [task.dtype(str(c)) for c in coefficients]
        print(f"{task.name}: 2^{math.log2(worst):.1f}")
        for c in rounded:
            print(f"    {c!s},")


# ---- the functions, without cancellation where they are small


def series(x: Decimal, term: Callable[[int], Decimal]) -> Decimal:
    """The sum of term(k) x^k, to the precision of the context."""
    total, power = Decimal(0), ONE
    for k in range(400):
        part = term(k) * power
        total += part
        power *= x
        if k > 3 and abs(power) < Decimal(10) ** -62:
            break
    return total


def exp_rest(x: Decimal) -> Decimal:
    """(exp(x) - 1 - x) / x^2."""
    return series(x, lambda k: ONE / math.factorial(k + 2))


def log_rest(f: Decimal) -> Decimal:
    """(log(1 + f) - f + f^2/2) / f^3."""
    if abs(f) < Decimal("0.02"):
        return series(f, lambda k: (-ONE) ** k / (k + 3))
    return ((1 + f).ln() - f + f * f / 2) / f**3


def atanh_rest(s: Decimal) -> Decimal:
    """(2 atanh(f) - 2 f) / f^3 where s = f^2."""
    return series(s, lambda k: TWO / (2 * k + 3))


def tanh_rest(s: Decimal) -> Decimal:
    """(tanh(x) - x) / x^3 where s = x^2."""
    if s < Decimal("1e-20"):
        return Decimal(-1) / 3 + 2 * s / 15
    x = s.sqrt()
    e = (2 * x).exp()
    return ((e - 1) / (e + 1) - x) / x**3


def sine_rest(s: Decimal) -> Decimal:
    """(sin(x) - x) / x^3 where s = x^2."""
    return series(s, lambda k: -((-ONE) ** k) / math.factorial(2 * k + 3))


def cosine_rest(s: Decimal) -> Decimal:
    """(cos(x) - 1) / x^2 where s = x^2."""
    return series(s, lambda k: -((-ONE) ** k) / math.factorial(2 * k + 2))


def erf_over_x(s: Decimal) -> Decimal:
    """erf(x) / x where s = x^2."""
    term = lambda k: (-ONE) ** k / (math.factorial(k) * (2 * k + 1))  # noqa: E731
    total, power = Decimal(0), ONE
    for k in range(400):
        total += term(k) * power
        power *= s
    return 2 / PI.sqrt() * total


def erf_rest(s: Decimal) -> Decimal:
    """(erf(x) - x) / x where s = x^2."""
    return erf_over_x(s) - 1


def log_of_erfc(x: Decimal) -> Decimal:
    """log(1 - erf(x)); x up to 6."""
    before = getcontext().prec
    getcontext().prec = 90
    result = (1 - x * erf_over_x(x * x)).ln()
    getcontext().prec = before
    return +result


def _pi() -> Decimal:
    """Machin's formula."""
    before = getcontext().prec
    getcontext().prec = 100

    def arctan_inverse(n: int) -> Decimal:
        total, power = Decimal(0), ONE / n
        for k in range(160):
            total += (-1) ** k * power / (2 * k + 1)
            power /= n * n
        return total

    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    getcontext().prec = before
    return pi


PI = _pi()
LN2 = TWO.ln()
HALF_LN2 = LN2 / 2 * Decimal("1.0001")
ROOT_LOW, ROOT_HIGH = TWO.sqrt() / 2 - 1, TWO.sqrt() - 1
MIDDLE = Decimal("1.5")
EIGHTH = (PI / 4 * Decimal("1.0001")) ** 2
F32, F64 = np.float32, np.float64


def exp2_curve(r: Decimal) -> Decimal:
    """2^r."""
    return (r * LN2).exp()


TASKS = [
    Task("exp32", exp_rest, -HALF_LN2, HALF_LN2, 4, lambda x: x * x / x.exp(), F32),
    Task("log32", log_rest, ROOT_LOW, ROOT_HIGH, 7, lambda f: f * f, F32),
    Task("tanh32", tanh_rest, Decimal(0), Decimal("0.3907"), 4, lambda s: s, F32),
    Task("erf32 small", erf_rest, Decimal(0), Decimal("0.85"), 6, lambda s: ONE, F32),
    Task(
        "erf32 large", log_of_erfc, Decimal("0.92"), Decimal("3.93"), 7,
        lambda x: log_of_erfc(x).exp(), F32,
    ),
    Task(
        "power32 log", lambda s: atanh_rest(s) / LN2, Decimal(0), Decimal("0.02945"), 4,
        lambda s: s, F64,
    ),
    Task("exp64", exp_rest, -HALF_LN2, HALF_LN2, 9, lambda x: x * x / x.exp(), F64),
    Task("log64", atanh_rest, Decimal(0), Decimal("0.02945"), 6, lambda s: s, F64),
    Task("tanh64", tanh_rest, Decimal(0), Decimal("0.3907"), 10, lambda s: s, F64),
    Task("erf64 small", erf_rest, Decimal(0), Decimal("0.85"), 11, lambda s: ONE, F64),
    Task(
        "erf64 large", lambda u: log_of_erfc(u + MIDDLE), Decimal("0.92") - MIDDLE, 6 - MIDDLE, 18,
        lambda u: log_of_erfc(u + MIDDLE).exp(), F64,
    ),
    Task("sin32", sine_rest, Decimal(0), EIGHTH, 3, lambda s: s, F64),
    Task("cos32", cosine_rest, Decimal(0), EIGHTH, 3, lambda s: s, F64),
    Task("power32 exp", exp2_curve, Decimal("-0.5"), Decimal("0.5"), 7, lambda r: ONE, F64),
]  # fmt: skip

if __name__ == "__main__":
    main()
