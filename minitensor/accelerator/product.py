"""The product of the array, as an intrinsic: what `tensorize` puts in the place of two loops."""

from __future__ import annotations

from typing import Final

from minitensor.accelerator.machine import machine_of
from minitensor.answers import answered
from minitensor.ir import Intrinsic
from minitensor.lang import compute, placeholder, reduce_axis, sum_
from minitensor.lang import intrinsic as declare

NAME: Final = "accelerator_product"

_PLAIN: Final = """
    for (int j = 0; j < {rows}; ++j) {{
        for (int k = 0; k < {columns}; ++k) {{
            c[j] += (int32_t)a[k] * (int32_t)b[j * b_stride0 + k];
        }}
    }}
"""


@answered
def product(machine: object = None) -> Intrinsic:
    """The work of an accelerator's array in a cycle.

        c[j] += sum over k < columns of a[k] * b[j, k]               for j < rows

    a (columns,) int8 in "acc.input", b (rows, columns) int8 in "acc.weight", c (rows,) int32 in
    "acc.accumulator". Rows of b may be apart. On a CPU it is plain C.

    machine  an mt.accelerator.Machine; the usual one if None
    """
    found = machine_of(machine)
    rows, columns = found.rows, found.columns
    a = placeholder((columns,), "int8", name="a")
    b = placeholder((rows, columns), "int8", name="b")
    k = reduce_axis(columns, name="k")
    c = compute(
        (rows,),
        lambda j: sum_(a[k].astype("int32") * b[j, k].astype("int32"), axis=k),
        name="c",
    )
    return declare(
        NAME,
        [a, b, c],
        _PLAIN.format(rows=rows, columns=columns),
        strides={"a": [1], "b": [None, 1], "c": [1]},
    )
