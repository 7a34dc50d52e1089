"""exp, log, tanh and their like on float32, in the language of `functions`.

Error bounds, and how each was measured, are in docs/math.md; docs/math_coefficients.py computes the
polynomials. All hold whether or not a multiplication and an addition become one FMA: what must be
exact is exact either way, because the constants it multiplies by end in zeros. No sum is of two
products, so that a compiler has no choice which of them to fuse: it might choose otherwise for
scalars than for vectors, and a schedule must not change a value.

`t = x*c + 12582912.0` (1.5 * 2^23) rounds x*c to the nearest integer, which is then both
`t - 12582912.0` and in the low bits of t.
"""

from __future__ import annotations

from typing import Final

_EXP: Final = """
    t = y * 1.442695 + 12582912.0
    n = t - 12582912.0
    d = (y - n * 0.693359375) - n * -2.1219444e-4
    p = horner(d, 1.0, 1.0, 0.49999994, 0.16666521, 0.041668385, 0.0083687175, 0.0013814839)
"""
"""exp(y) = 2^n p, where n is also in the low bits of t."""

_EXP_BIASED: Final = _EXP.replace("12582912.0", "12583103.0")
"""The same, where 191 + n is in the low bits of t."""

MATH32: Final = f"""
def ldexp(x: float32, n: float32):
    # 2^n as 2^h 2^(n-h), so that subnormal results are rounded once and infinity is reached
    h = bits(n * 0.5 + 12582912.0) << 23
    rest = (bits(n + 12582912.0) << 23) - h
    return number(bits(x) + rest) * number(h + 1065353216)

def ldexp_nonpositive(x: float32, t: float32):
    # 2^n as 2^(n+64) 2^-64: the first product is exact
    return x * number(bits(t) << 23) * 5.421010862427522e-20

def exp(x: float32):
    above = -104.0 if x < -104.0 else x
    y = 89.0 if above > 89.0 else above{_EXP}
    return ldexp(p, n)

def exp_nonpositive(x: float32):
    y = -104.0 if x < -104.0 else x{_EXP_BIASED}
    return ldexp_nonpositive(p, t)

def log(x: float32):
    # log(x) = k log(2) + log(1 + f), 1 + f in [sqrt(1/2), sqrt(2)]; subnormals are scaled first
    y = x * 8388608.0 if x < 1.17549435e-38 else x
    e = bits(y) - 1060439283 >> 23
    f = number(bits(y) - (e << 23)) - 1.0
    k = float32(e) - (23.0 if x < 1.17549435e-38 else 0.0)
    p = horner(f, 0.33333316, -0.2500081, 0.20002288, -0.16624549, 0.1418118, -0.13128789,
               0.12881723, -0.07859603)
    usual = k * 0.6931472 + (f + f * f * (f * p - 0.5))
    positive = usual if x < inf else inf
    return positive if x > 0.0 else (-inf if x == 0.0 else nan)

def tanh(x: float32):
    a = abs(x)
    s = a * a
    q = horner(s, -0.33333284, 0.1333149, -0.05374339, 0.020650212, -0.0057166102)
    near = a + a * s * q
    y = 20.0 if a > 10.0 else 2.0 * a{_EXP}
    far = 1.0 - 2.0 / (number(bits(p) + (bits(t) << 23)) + 1.0)
    size = far if s >= 0.390625 else near
    return -size if bits(x) < 0 else size

def sigmoid(x: float32):
    # far below 0, e - e*q loses less to the rounding of 1 + e than q does
    e = exp_nonpositive(-abs(x))
    q = (e if x < 0.0 else 1.0) / (1.0 + e)
    return e - e * q if x < 0.0 and e < 0.5 else q

def erf(x: float32):
    a = abs(x)
    s = a * a
    near = a + a * horner(s, 0.1283792, -0.37612635, 0.11283702, -0.026859699, 0.0052017057,
                          -0.0008149687, 8.397286e-05)
    b = 3.93 if a > 3.93 else a
    y = horner(b, 0.0001758782, -1.1295209, -0.6333346, -0.10829401, 0.025128672, -0.0041746628,
               0.00043522345, -2.1162345e-05){_EXP}
    far = 1.0 - number(bits(p) + (bits(t) << 23))
    size = far if s >= 0.8464 else near
    return -size if bits(x) < 0 else size

def rsqrt(x: float32):
    return 1.0 / sqrt(x)

def power(x: float32, y: float32):
    # 2^(y log2|x|) in float64, rounded once, at the end; 0 * inf is where the power is 1
    a = float64(abs(x))
    e = bits(a) - 4604544271217802189 >> 52
    m = number(bits(a) - (e << 52))
    f = (m - 1.0) / (m + 1.0)
    s = f * f
    p = horner(s, 0.961796694057996, 0.5770779530981707, 0.4122084129205375, 0.3199342745398746,
               0.28254730219609325)
    usual = float64(e) + f * (2.8853900817779268 + s * p)
    logarithm = (usual if a > 0.0 else -inf) if a < inf else a
    product = 0.0 if a == 1.0 or y == 0.0 else float64(y) * logarithm
    above = -200.0 if product < -200.0 else product
    u = 200.0 if above > 200.0 else above
    t = u + 6755399441055744.0
    d = u - (t - 6755399441055744.0)
    q = horner(d, 0.9999999999595348, 0.6931471805350286, 0.24022651213692373, 0.05550410976105039,
               0.00961802559259364, 0.0013333422647083518, 0.000154697347408328,
               1.5316461574910607e-05)
    size = float32(number(bits(q) + (bits(t) << 52)))
    oriented = -size if bits(x) < 0 and floor(y) == y and floor(y * 0.5) != y * 0.5 else size
    defined = nan if x < 0.0 and x > -inf and floor(y) != y else oriented
    return 1.0 if x == 1.0 or y == 0.0 else defined
"""
