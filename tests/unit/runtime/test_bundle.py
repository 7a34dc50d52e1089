"""A kernel in a folder: what is read back is what was written."""

import numpy as np

from minitensor.codegen import Emitted, Target
from minitensor.ir import Buffer, DType
from minitensor.runtime import load_kernel, save_kernel


def test_text_facts_and_arrays_come_back(tmp_path):
    params = tuple(Buffer(name, (2, 3), DType.of("bfloat16")) for name in "ABC")
    emitted = Emitted(
        source="line one\n",
        entry="k_kernel",
        params=params,
        outputs=frozenset({"C"}),
        checks=("i is outside",),
        workspace=128,
        target=Target("c", 2, 256),
        name="k",
        loops=("i",),
        memory=(Buffer("T", (4,), DType.of("int8")),),
    )
    arrays = {name: np.arange(6, dtype=np.uint16).reshape(2, 3) for name in "AB"}
    save_kernel(tmp_path, emitted, arrays)
    again, given = load_kernel(tmp_path)
    assert again == emitted
    assert list(given) == ["A", "B"]
    np.testing.assert_array_equal(given["B"], arrays["B"])
