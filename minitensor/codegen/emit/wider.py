"""sin, cos, log1p and expm1 on float32, computed in float64 and rounded once; see `math32`.

Those of log1p and expm1 are Taylor's: in float64 a few terms more cost little.
"""

from __future__ import annotations

from typing import Final

_TWO_OVER_PI: Final = (
    0.6366197690367699, 3.3308114738561656e-09, 2.276010047810136e-18, 2.5268260189002822e-26,
    1.6682867657019525e-34, 1.158871328288855e-43, 7.053959174404295e-52,
)  # fmt: skip
"""196 bits of 2/pi in parts of 28: the product of a part and a float32 is exact in float64."""


def _quarters() -> str:
    """Lines: x = (4m + n + r) pi/2 for a whole m, a small whole n and |r| <= 1/2.

    Of each part's product the multiples of 4 are dropped at once, which is exact; the whole numbers
    leave before the next part comes, so that r loses nothing where x is near a multiple of pi/2.
    """
    lines = ["a = float64(x)", "n0 = a * 0.0", "r0 = a * 0.0"]
    for k, part in enumerate(_TWO_OVER_PI, 1):
        lines += [
            f"p{k} = a * {part}",
            f"s{k} = r{k - 1} + (p{k} - 4.0 * round(p{k} * 0.25))",
            f"k{k} = round(s{k})",
            f"n{k} = n{k - 1} + k{k}",
            f"r{k} = s{k} - k{k}",
        ]
    return "\n    ".join(lines)


_SINES: Final = """
    s = y * y
    sine = y * (1.0 + s * horner(s, -0.16666666641613412, 0.008333329384005647,
                                 -0.0001983933416922119, 2.7183047682450532e-06))
    cosine = 1.0 + s * horner(s, -0.4999999972495914, 0.041666623303030545,
                              -0.0013886763041737894, 2.4390374908033504e-05)"""
"""The sine and cosine of y, |y| <= pi/4."""

_NEAR: Final = f"""
    a = float64(x)
    t = a * 0.6366197723675814 + 6755399441055744.0
    n = t - 6755399441055744.0
    y = (a - n * 1.5707963267341256) - n * 6.077100506506192e-11{_SINES}
    quarter = bits(t)"""
"""x = n pi/2 + y for |x| <= 2^20: the first product and difference are exact; n in the low bits of
`quarter`.
"""

_FAR: Final = f"""
    {_quarters()}
    y = r{len(_TWO_OVER_PI)} * 1.5707963267948966{_SINES}
    quarter = bits(n{len(_TWO_OVER_PI)} + 6755399441055744.0)"""
"""The same for any x."""

_SIN: Final = """
    size = cosine if quarter % 2 == 1 else sine
    turned = float32(-size if quarter % 4 >= 2 else size)"""
_COS: Final = """
    size = sine if quarter % 2 == 1 else cosine
    turned = float32(-size if (quarter + 1) % 4 >= 2 else size)"""

WIDER: Final = f"""
def sin_far(x: float32):{_FAR}{_SIN}
    return turned

def sin(x: float32):{_NEAR}{_SIN}
    return sin_far(x) if abs(x) > 1048576.0 else turned

def cos_far(x: float32):{_FAR}{_COS}
    return turned

def cos(x: float32):{_NEAR}{_COS}
    return cos_far(x) if abs(x) > 1048576.0 else turned

def log1p(x: float32):
    # log(y) + rest/y, where rest is what the rounding of y = 1 + x lost
    y = float64(x) + 1.0
    rest = float64(x) - (y - 1.0)
    logarithm = log(y)
    usual = float32(logarithm + rest / y) if y > 0.0 and y < inf else float32(logarithm)
    return x if x == 0.0 else usual

def expm1(x: float32):
    # 2^n (exp(d) - 1) + (2^n - 1)
    above = -20.0 if x < -20.0 else x
    y = float64(89.0 if above > 89.0 else above)
    t = y * 1.4426950408889634 + 6755399441055744.0
    n = t - 6755399441055744.0
    d = (y - n * 0.6931471805592082) - n * 7.371002565167799e-13
    p = d * horner(d, 1.0, 0.5, 0.16666666666666666, 0.041666666666666664, 0.008333333333333333,
                   0.001388888888888889, 0.0001984126984126984, 2.48015873015873e-05,
                   2.7557319223985893e-06, 2.755731922398589e-07, 2.505210838544172e-08)
    power = number((bits(t) << 52) + 4607182418800017408)
    usual = power * p + (power - 1.0)
    return x if x == 0.0 else float32(usual)
"""
