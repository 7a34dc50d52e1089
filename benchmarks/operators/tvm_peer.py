"""TVM's tuner on our definitions: a program as TE, block by block, tuned by MetaSchedule.

Needs `apache-tvm` 0.27 with `cloudpickle` and `xgboost`, and apache-tvm-ffi 0.1.14: 0.1.15 ends the
tuner's process. Imported only where it is asked for.
"""

from __future__ import annotations

import json
import logging
import operator
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare.baselines.tvm_baseline import best_of, this_machine
from benchmarks.compare.implementation import Implementation
from minitensor.ir import (
    Binary,
    Block,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Program,
    Reduce,
    Select,
    Store,
    Unary,
    Var,
)

RECORDS = "database_tuning_record.json"


def as_te(program: Program) -> Any:
    """A definition as a PrimFunc with the same parameters."""
    from tvm import te  # noqa: PLC0415 - optional

    tensors = {b.name: te.placeholder(b.shape, str(b.dtype), b.name) for b in program.inputs}
    for block in program.blocks.values():
        name, tensor = _stage(program, block, tensors)
        tensors[name] = tensor
    return te.create_prim_func([tensors[b.name] for b in program.params])


def _stage(program: Program, block: Block, tensors: Mapping[str, Any]) -> tuple[str, Any]:
    """What a block computes, and its name."""
    from tvm import te  # noqa: PLC0415 - optional

    body = block.body
    assert isinstance(body, (Store, Reduce))
    target = body.buffer if isinstance(body, Store) else body.buffers[0]
    reduced = {
        i.var: te.reduce_axis((0, i.extent), i.var)
        for i in block.iters
        if i.kind.value != "spatial"
    }

    def element(*at: Any) -> Any:
        places = {i.name: place for i, place in zip(body.indices, at) if isinstance(i, Var)}
        variables = reduced | places
        if isinstance(body, Store):
            return _expr(body.value, variables, tensors)
        value = _expr(body.values[0], variables, tensors)
        combine = {"sum": te.sum, "max": te.max, "min": te.min}[body.reducer.name]
        return combine(value, axis=list(reduced.values()))

    return target, te.compute(program.buffers[target].shape, element, name=target)


def _expr(expr: Expr, variables: Mapping[str, Any], tensors: Mapping[str, Any]) -> Any:
    from tvm import tirx  # noqa: PLC0415 - optional

    def inner(e: Expr) -> Any:
        return _expr(e, variables, tensors)

    binary: dict[str, Callable[[Any, Any], Any]] = {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": operator.truediv,
        "//": tirx.floordiv,
        "%": tirx.floormod,
        "min": tirx.min,
        "max": tirx.max,
        "<": operator.lt,
        "<=": operator.le,
        "==": tirx.EQ,
        "and": tirx.all,
        "or": tirx.any,
    }
    match expr:
        case Var():
            return variables[expr.name]
        case Const():
            dtype = "int32" if str(expr.dtype) == "index" else str(expr.dtype)
            return tirx.const(expr.value, dtype)
        case Unary(op="-"):
            return -inner(expr.a)
        case Binary():
            return binary[expr.op](inner(expr.a), inner(expr.b))
        case Select():
            return tirx.if_then_else(inner(expr.condition), inner(expr.a), inner(expr.b))
        case Cast():
            return inner(expr.a).astype(str(expr.dtype))
        case Load():
            return tensors[expr.buffer](*(inner(i) for i in expr.indices))
        case Call():
            return getattr(tirx, expr.function)(*(inner(a) for a in expr.args))
    raise NotImplementedError(type(expr).__name__)


def _build(module: Any, target: Any, parameters: Any) -> Any:
    """MetaSchedule's own builder without the import of all tensor intrinsics, which takes 17 s."""
    from tvm.driver import build  # noqa: PLC0415 - optional
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock  # noqa: PLC0415

    return build(RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module), target=target)


def tune(program: Program, folder: Path, trials: int, threads: int, seed: int = 1) -> float:
    """Tune into a folder, 64 candidates a round as TVM does; seconds that it took.

    After each round a line of `curve.json`: seconds since the start, records, the best's seconds.
    """
    os.environ["TVM_NUM_THREADS"] = str(threads)
    import tvm.s_tir.tensor_intrin  # noqa: PLC0415, F401 - registers them
    from tvm.s_tir import meta_schedule as ms  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.INFO)
    start = time.perf_counter()
    ms.tune_tir(
        as_te(program),
        this_machine(threads),
        work_dir=str(folder),
        max_trials_global=trials,
        num_trials_per_iter=min(64, trials),
        builder=ms.builder.LocalBuilder(max_workers=threads, f_build=_build),
        runner=ms.runner.LocalRunner(timeout_sec=30),
        seed=seed,
    )
    took = time.perf_counter() - start
    (folder / "took.json").write_text(json.dumps({"seconds": took, "trials": trials}), "utf-8")
    return took


def best_times(folder: Path) -> list[float]:
    """The best so far after each record, in seconds."""
    best, found = float("inf"), []
    for line in (folder / RECORDS).read_text("utf-8").splitlines():
        times = json.loads(line)[1][1] or [1e9]
        seconds = min(float(t["value"] if isinstance(t, dict) else t) for t in times)
        best = min(best, seconds)
        found.append(best)
    return found


def implementation(
    program: Program, folder: Path, inputs: Sequence[np.ndarray], threads: int
) -> Implementation:
    """The best of a folder's records."""
    os.environ["TVM_NUM_THREADS"] = str(threads)
    shape = program.outputs[0].shape
    return best_of("tvm", as_te(program), str(folder), inputs, shape, threads)
