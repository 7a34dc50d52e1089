"""Layer 2: tensor expressions, and how they become programs. The user says *what* here."""

# fmt: off
from minitensor.lang import ops
from minitensor.lang.as_python import definition_as_python, intrinsic_as_python
from minitensor.lang.dots import GROUP, LANES, PAIRS, dot_name
from minitensor.lang.elementwise import (
    ceil, cos, erf, exp, expm1, floor, log, log1p, round_, rsqrt, sigmoid, sin, sqrt, tanh,
)
from minitensor.lang.from_python import program_from_python
from minitensor.lang.intrinsic import intrinsic
from minitensor.lang.lower import lower
from minitensor.lang.merged import merged
from minitensor.lang.ops import OPERATORS, Operator
from minitensor.lang.relaid import fits, relaid
from minitensor.lang.reduce import all_, any_, argmax, argmin, comm_reducer, max_, min_, prod, sum_
from minitensor.lang.scalar import (
    Scalar, abs_, const, if_then_else, logical_and, logical_not, logical_or, maximum, minimum,
    popcount, power, select, var,
)
from minitensor.lang.tensor import (
    ReduceAxis, Reduction, Tensor, compute, placeholder, reduce_axis,
)
from minitensor.lang.update import update
from minitensor.lang.workloads.arguments import check_sizes
from minitensor.lang.workloads.window import Windows

__all__ = [
    "GROUP", "LANES", "OPERATORS", "PAIRS", "Operator", "ReduceAxis", "Reduction", "Scalar",
    "Tensor", "Windows", "abs_", "all_", "any_", "argmax", "argmin", "ceil", "check_sizes",
    "comm_reducer", "compute", "const", "cos", "definition_as_python", "dot_name", "erf", "exp",
    "expm1", "fits", "floor", "if_then_else", "intrinsic", "intrinsic_as_python", "log", "log1p",
    "logical_and", "logical_not", "logical_or", "lower", "max_", "maximum", "merged", "min_",
    "minimum", "ops", "placeholder", "popcount", "power", "prod", "program_from_python",
    "reduce_axis", "relaid", "round_", "rsqrt", "select", "sigmoid", "sin", "sqrt", "sum_", "tanh",
    "update", "var",
]
