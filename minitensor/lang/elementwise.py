"""Functions of one symbolic value, which become calls: `mt.exp` and its like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from minitensor import ir
from minitensor.lang.promotion import converted
from minitensor.lang.scalar import Scalar, operand


def _float_function(
    name: str, doc: str, keeps_integers: bool = False
) -> Callable[[object], Scalar]:
    def function(x: object) -> Scalar:
        node = operand(x, ir.FLOAT32)
        if keeps_integers and node.dtype.is_integer:
            return Scalar(node)
        if not node.dtype.is_float:
            node = converted(node, ir.FLOAT32)
        return Scalar(ir.Call(name, (node,), node.dtype))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


_CONVERTED: Final = "Integers are converted to float32."
exp = _float_function("exp", f"e to the power x, within 1.3 ulp. {_CONVERTED}")
log = _float_function("log", f"The natural logarithm, within 1.5 ulp. {_CONVERTED}")
sqrt = _float_function("sqrt", f"The square root, correctly rounded. {_CONVERTED}")
rsqrt = _float_function("rsqrt", f"1 / sqrt(x), within 1.5 ulp. {_CONVERTED}")
tanh = _float_function("tanh", f"The hyperbolic tangent, within 1.5 ulp. {_CONVERTED}")
sigmoid = _float_function("sigmoid", f"1 / (1 + exp(-x)), within 2 ulp. {_CONVERTED}")
erf = _float_function("erf", f"The error function, within 1.5 ulp. {_CONVERTED}")
sin = _float_function("sin", f"The sine of an angle in radians, within 0.6 ulp. {_CONVERTED}")
cos = _float_function("cos", f"The cosine of an angle in radians, within 0.6 ulp. {_CONVERTED}")
log1p = _float_function(
    "log1p", f"log(1 + x), precise where x is small, within 0.6 ulp. {_CONVERTED}"
)
expm1 = _float_function(
    "expm1", f"exp(x) - 1, precise where x is small, within 0.6 ulp. {_CONVERTED}"
)
floor = _float_function("floor", "The greatest integer not above x, as x's type.", True)
ceil = _float_function("ceil", "The least integer not below x, as x's type.", True)
round_ = _float_function(
    "round", "The nearest integer, ties to even as in Python and numpy, as x's type.", True
)

FUNCTIONS: Final = (
    exp, log, sqrt, rsqrt, tanh, sigmoid, erf, sin, cos, log1p, expm1, floor, ceil, round_,
)  # fmt: skip
"""All of them."""
