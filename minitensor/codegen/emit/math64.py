"""exp, log, tanh and their like on float64, in the language of `functions`; see `math32`.

power is not here: its logarithm needs more bits than a float64 has.
"""

from __future__ import annotations

from typing import Final

_EXP: Final = """
    t = y * 1.4426950408889634 + 6755399441055744.0
    n = t - 6755399441055744.0
    d = (y - n * 0.6931471805592082) - n * 7.371002565167799e-13
    p = horner(d, 1.0, 1.0, 0.5000000000000011, 0.16666666666666413, 0.041666666666530135,
               0.008333333333494045, 0.0013888888943635437, 0.00019841269507497135,
               2.480149309325772e-05, 2.7557585558961194e-06, 2.763025045606736e-07,
               2.5000315205753763e-08)
"""
"""exp(y) = 2^n p, where n is also in the low bits of t."""

MATH64: Final = f"""
def exp(x: float64):
    # 2^n as 2^h 2^(n-h), so that subnormal results are rounded once and infinity is reached
    above = -746.0 if x < -746.0 else x
    y = 710.0 if above > 710.0 else above{_EXP}
    h = bits(y * 0.7213475204444817 + 6755399441055744.0) << 52
    return number(bits(p) + ((bits(t) << 52) - h)) * number(h + 4607182418800017408)

def exp_nonpositive(x: float64):
    # 2^n as 2^(n+512) 2^-512: the first product is exact
    y = -746.0 if x < -746.0 else x{_EXP}
    return p * number(bits(n + 6755399441057279.0) << 52) * 7.458340731200207e-155

def log(x: float64):
    # log(x) = k log(2) + log(1 + f), 1 + f in [sqrt(1/2), sqrt(2)]; subnormals are scaled first
    y = x * 4503599627370496.0 if x < 2.2250738585072014e-308 else x
    e = bits(y) - 4604544271217802189 >> 52
    f = number(bits(y) - (e << 52)) - 1.0
    k = float64(e) - (52.0 if x < 2.2250738585072014e-308 else 0.0)
    # log(1 + f) = 2 atanh(s) = 2s + s r = f - s (f - r)
    s = f / (2.0 + f)
    z = s * s
    r = z * horner(z, 0.6666666666666735, 0.39999999999413177, 0.2857142874276289,
                   0.22222198530846868, 0.18183566709064355, 0.15313985247518058,
                   0.14796643786360203)
    near = f - s * (f - r)
    usual = k * 0.6931471805592082 + (k * 7.371002565167799e-13 + near)
    positive = usual if x < inf else inf
    return positive if x > 0.0 else (-inf if x == 0.0 else nan)

def tanh(x: float64):
    a = abs(x)
    s = a * a
    q = horner(s, -0.33333333333332876, 0.13333333333264794, -0.0539682539324258,
               0.021869487600678802, -0.008863221302520565, 0.00359199143638065,
               -0.0014549697891843912, 0.0005863502398300651, -0.00022862870605483787,
               7.721401697148575e-05, -1.610501543392857e-05)
    near = a + a * s * q
    y = 40.0 if a > 20.0 else 2.0 * a{_EXP}
    far = 1.0 - 2.0 / (number(bits(p) + (bits(t) << 52)) + 1.0)
    size = far if s >= 0.390625 else near
    return -size if bits(x) < 0 else size

def sigmoid(x: float64):
    # far below 0, e - e*q loses less to the rounding of 1 + e than q does
    e = exp_nonpositive(-abs(x))
    q = (e if x < 0.0 else 1.0) / (1.0 + e)
    return e - e * q if x < 0.0 and e < 0.5 else q

def erf(x: float64):
    a = abs(x)
    s = a * a
    q = horner(s, 0.1283791670955126, -0.37612638903183715, 0.11283791670953049,
               -0.026866170644672626, 0.005223977620207044, -0.0008548326670557629,
               0.00012055317880215162, -1.4925223956506632e-05, 1.6454051552046073e-06,
               -1.6264441841869317e-07, 1.3987025335052938e-08, -8.34587017336281e-10)
    near = a + a * q
    b = (6.0 if a > 6.0 else a) - 1.5
    y = horner(b, -3.3844920895515527, -3.508800801779527, -0.8926403306150484,
               -0.02582414063369636, 0.006006746386759238, -0.0012572166858072513,
               0.0002159633015671511, -2.2473694967253206e-05, -2.6468147736369014e-06,
               2.3708557174655054e-06, -8.188298280676603e-07, 1.9260839362028625e-07,
               -2.7753278954316367e-08, -1.1783849353451587e-09, 2.357554906105867e-09,
               -8.6376569593066e-10, 1.8516727849551873e-10, -2.3085629028479274e-11,
               1.2867969663950673e-12){_EXP}
    far = 1.0 - number(bits(p) + (bits(t) << 52))
    size = far if s >= 0.8464 else near
    return -size if bits(x) < 0 else size

def rsqrt(x: float64):
    return 1.0 / sqrt(x)
"""
