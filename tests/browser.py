"""A Python as a browser has it: without the modules that start compilers and load their code.

`python -m tests.browser` tries in it what must work there, and what must say why it does not, and
prints a line of JSON for each: its name, and the value or the error.
"""

import importlib.abc
import json
import sys

MISSING = (
    *("_cffi_backend", "_ctypes", "_posixsubprocess", "cffi", "curses", "fcntl", "grp", "mmap"),
    *("_multiprocessing", "multiprocessing", "pwd", "resource", "sqlite3", "termios"),
)


class Missing(importlib.abc.MetaPathFinder):
    """A finder that hides modules."""

    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Missing())

import numpy as np  # noqa: E402

import minitensor as mt  # noqa: E402
from minitensor import cli, runtime, sanitize, search  # noqa: E402

TARGET = mt.Target("c", num_cores=2, vector_bits=256)
ONES = np.ones((8, 8), np.float32)


def matmul():
    A, B = (mt.placeholder((8, 8), name=name) for name in "AB")
    k = mt.reduce_axis((0, 8), name="k")
    C = mt.compute((8, 8), lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k), name="C")
    return mt.lower([A, B, C], name="matmul")


def scheduled():
    s = mt.Schedule(matmul())
    i, j, k = s.get_loops("C")
    outer, inner = s.split(j, [None, 4])
    s.reorder(i, outer, k, inner)
    s.vectorize(inner)
    return s


def learnt():
    x = np.arange(20.0).reshape(10, 2)
    trees = search.GradientBoostedTrees(n_trees=8, seed=0).fit(x, x[:, 0])
    return trees.predict(x).shape


ATTEMPTS = {
    "interpret": lambda: mt.interpret(scheduled(), ONES, ONES).tolist(),
    "build": lambda: mt.build(scheduled(), "interpreter")(ONES, ONES).tolist(),
    "bind": lambda: mt.build(matmul(), "interpreter").bind(B=ONES)(ONES).tolist(),
    "verify": lambda: mt.verify(scheduled()),
    "legality": lambda: scheduled().parallel("k"),
    "replay": lambda: str(mt.Trace.from_json(scheduled().trace.to_json()).apply(matmul())),
    "text": lambda: mt.codegen.generate(scheduled().program, TARGET).source,
    "explain": lambda: mt.explain(scheduled()),
    "gpu cost": lambda: mt.gpu_cost(matmul()).seconds,
    "sketches": lambda: len(search.generate_sketches(matmul())),
    "space": lambda: len(search.Space.of(matmul(), "c").sketches),
    "features": lambda: search.extract_features(scheduled()).shape,
    "trees": learnt,
    "doctor": lambda: [found.name for found in runtime.diagnose() if found.ok is False],
    "command": lambda: cli.main(["explain", "no_such_operator"]),
    "compiled": lambda: mt.build(scheduled()) and None,
    "emulated": lambda: mt.build(scheduled(), "cuda-emulator") and None,
    "tune": lambda: mt.tune(matmul(), trials=2) and None,
    "log": lambda: mt.load_best(__file__, matmul(), target=TARGET) and None,
    "guards": lambda: sanitize.guarded_empty((3,), np.float32).tolist(),
}


def main():
    for name, attempt in ATTEMPTS.items():
        try:
            outcome = {"value": attempt()}
        except Exception as failure:
            outcome = {"error": type(failure).__name__, "message": str(failure)}
        print(json.dumps({"name": name} | outcome))


if __name__ == "__main__":
    main()
