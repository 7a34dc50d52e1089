"""Calls of other systems, and what is written here in their place.

One table, from which come the messages for names that do not exist here and the cheat sheet
(docs/cheat_sheet.md). A name is never an alias: what looks alike may mean something else.
`no_program` answers what is given in place of a program or a schedule.

It does not hold what exists here under the same name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from minitensor.errors import (
    ArgumentError,
    UnknownNameError,
    kind_of,
    printable,
    unexpected,
)


class Phrase(NamedTuple):
    """A call of another system, as it is written here.

    there  the systems that have it
    here   what to write
    """

    there: str
    here: str


_BLOCKS: Final = "loops and blocks are strings: i, j, k = s.get_loops('C'), then s.split(i, …)"
_TUNE: Final = "mt.tune(program, trials=64, log='tuning.jsonl')"
_TEMPLATE: Final = (
    "mt.tune(program, space=template): a function of a Schedule with s.sample_… in it"
)
_HISTORY: Final = "with mt.apply_history_best('tuning.jsonl'): kernel = mt.build(program)"
_KNOBS: Final = "nothing: the Schedule that a template gets has the knobs: s.sample_tile and others"

PHRASES: Final[Mapping[str, Mapping[str, Phrase]]] = {
    "mt": {
        "te": Phrase("TVM", "mt.placeholder, mt.compute and mt.reduce_axis themselves"),
        "tir": Phrase("TVM", "mt.lower(tensors), which makes a Program"),
        "topi": Phrase("TVM", "mt.ops, functions of tensors; mt.workloads by sizes"),
        "tl": Phrase("Triton", "mt.placeholder, mt.compute and the primitives of a Schedule"),
        "load": Phrase("torch", "mt.load_best(log, program), or mt.graph.load(folder)"),
        "nn": Phrase("torch", "mt.ops, in a function that mt.graph.trace is given"),
        "onnx": Phrase("", "mt.graph.from_onnx(path)"),
        "create_schedule": Phrase("TVM", "s = mt.Schedule(mt.lower([A, B, C]))"),
        "create_prim_func": Phrase("TVM", "mt.lower([A, B, C])"),
        "size_var": Phrase("TVM", "a number: a program is for one size"),
        "thread_axis": Phrase("TVM", "s.bind(loop, 'threadIdx.x')"),
        "extern": Phrase("TVM", "mt.intrinsic and s.tensorize"),
        "scan": Phrase("TVM", "mt.update"),
        "decl_tensor_intrin": Phrase("TVM", "mt.intrinsic"),
        "autotvm": Phrase("TVM", _TEMPLATE),
        "auto_scheduler": Phrase("TVM", _TUNE),
        "meta_schedule": Phrase("TVM", _TUNE),
        "ms": Phrase("TVM", _TUNE),
        "tune_tir": Phrase("TVM", _TUNE),
        "SearchTask": Phrase("TVM", _TUNE),
        "TuningOptions": Phrase("TVM", "arguments of mt.tune: trials=, log=, settings="),
        "ApplyHistoryBest": Phrase("TVM", _HISTORY),
        "template": Phrase("TVM", _TEMPLATE),
        "get_config": Phrase("TVM", _KNOBS),
        "ConfigEntity": Phrase("TVM", "s.trace: the steps, with what was decided"),
        "ConfigSpace": Phrase("TVM", "mt.search.Space.of_template(program, 'c', template)"),
        "XGBTuner": Phrase("TVM", "mt.tune(program, space=template): its strategy has a model"),
        "GATuner": Phrase("TVM", "mt.tune(program, space=template, strategy='genetic')"),
        "RandomTuner": Phrase("TVM", "mt.tune(program, space=template, strategy='random')"),
        "GridSearchTuner": Phrase("TVM", "mt.tune(program, space=template, strategy='grid')"),
        "cpu": Phrase("TVM", "target='c'; arrays are numpy's"),
        "cuda": Phrase("TVM", "mt.build(s, 'cuda'); arrays are torch's, cupy's or numpy's"),
        "relay": Phrase("TVM", "mt.graph: graphs of networks"),
        "zeros": Phrase("numpy", "mt.compute(shape, lambda *i: 0.0)"),
        "random": Phrase("numpy", "nothing: a kernel draws no numbers; pass it an array of them"),
        "nd": Phrase("TVM", "numpy arrays themselves"),
        "array": Phrase("TVM, numpy", "numpy arrays themselves"),
        "min_value": Phrase("TVM", "float('-inf'), or numpy.iinfo(dtype).min"),
        "max_value": Phrase("TVM", "float('inf'), or numpy.iinfo(dtype).max"),
        "all_of": Phrase("TVM", "mt.logical_and"),
        "any_of": Phrase("TVM", "mt.logical_or"),
        "compile": Phrase("TVM, torch", "mt.build(s)"),
        "Func": Phrase("Halide", "mt.compute(shape, lambda x, y: …)"),
        "Var": Phrase("Halide", "the arguments of the lambda in mt.compute"),
        "RDom": Phrase("Halide", "mt.reduce_axis"),
        "ImageParam": Phrase("Halide", "mt.placeholder"),
        "Buffer": Phrase("Halide", "mt.placeholder; arrays are numpy's"),
        "proc": Phrase("Exo", "mt.lower([A, B, C])"),
        "instr": Phrase("Exo", "mt.intrinsic"),
        "where": Phrase("numpy", "mt.select, or mt.if_then_else where one side is not safe"),
        "absolute": Phrase("numpy", "mt.abs"),
        "matmul": Phrase("numpy", "mt.ops.matmul(A, B), or mt.sum(A[i, k] * B[k, j], axis=k)"),
        "dot": Phrase("numpy", "mt.ops.matmul(A, B), or mt.sum(A[i, k] * B[k, j], axis=k)"),
        "einsum": Phrase("numpy", "mt.sum(A[i, k] * B[k, j], axis=k) in mt.compute"),
        "mean": Phrase("numpy", "mt.sum(…, axis=k), and a stage that multiplies by 1 / n"),
        "clip": Phrase("numpy", "mt.minimum(mt.maximum(x, low), high)"),
        "relu": Phrase("torch", "mt.ops.relu of a tensor; of an element mt.maximum(x, 0)"),
        "gelu": Phrase("torch", "mt.ops.gelu"),
        "float32": Phrase("numpy, torch", "'float32': types are named by strings"),
        "float16": Phrase("numpy, torch", "'float16': types are named by strings"),
        "float64": Phrase("numpy, torch", "'float64': types are named by strings"),
        "int32": Phrase("numpy, torch", "'int32': types are named by strings"),
        "int64": Phrase("numpy, torch", "'int64': types are named by strings"),
        "int8": Phrase("numpy, torch", "'int8': types are named by strings"),
        "floordiv": Phrase("TVM", "a // b"),
        "floormod": Phrase("TVM", "a % b"),
        "indexdiv": Phrase("TVM", "a // b"),
        "indexmod": Phrase("TVM", "a % b"),
        "truncdiv": Phrase("TVM", "a // b, which rounds down"),
        "ceildiv": Phrase("TVM", "(a + b - 1) // b"),
        "likely": Phrase("TVM", "nothing: guards are found and moved by code generation"),
        "infinity": Phrase("TVM", "float('inf')"),
        "inf": Phrase("numpy", "float('inf')"),
        "nan": Phrase("numpy", "float('nan')"),
        "arange": Phrase("numpy", "the index itself: mt.compute((n,), lambda i: i)"),
        "ones": Phrase("numpy", "mt.compute(shape, lambda *i: 1.0)"),
        "pad": Phrase("numpy", "mt.if_then_else in an mt.compute"),
        "softmax": Phrase("torch", "mt.ops.softmax"),
        "conv2d": Phrase("torch", "mt.ops.conv2d"),
        "layer_norm": Phrase("torch", "mt.ops.layer_norm"),
        "reshape": Phrase("numpy", "mt.ops.reshape"),
        "transpose": Phrase("numpy", "mt.ops.transpose"),
        "cumsum": Phrase("numpy", "mt.workloads.cumsum"),
        "program_id": Phrase("Triton", "s.bind(loop, 'blockIdx.x')"),
        "jit": Phrase("Triton", "mt.build"),
        "autotune": Phrase("Triton", "mt.tune"),
        "RVar": Phrase("Halide", "mt.reduce_axis"),
        "Pipeline": Phrase("Halide", "mt.lower([A, B, C])"),
        "cast": Phrase("Halide", "value.astype('float16')"),
    },
    "schedule": {
        "tile": Phrase("TVM, Halide", "s.split(x, [None, 8]), s.split(y, [None, 8]), s.reorder(…)"),
        "compute_root": Phrase(
            "Halide", "nothing: a block is at the top until compute_at moves it"
        ),
        "store_at": Phrase("Halide", "nothing: a buffer lives where compute_at brings its block"),
        "store_root": Phrase("Halide", "nothing: a buffer lives where compute_at brings its block"),
        "fold_storage": Phrase(
            "Halide", "nothing: storage is as small as what one iteration needs"
        ),
        "hoist_storage": Phrase(
            "Halide", "nothing: a buffer lives where compute_at brings its block"
        ),
        "compute_with": Phrase("Halide", "s.reverse_compute_at(block, loop)"),
        "reorder_storage": Phrase("Halide", "s.transform_layout(buffer, lambda i, j: (j, i))"),
        "gpu_blocks": Phrase("Halide", "s.bind(loop, 'blockIdx.x')"),
        "gpu_threads": Phrase("Halide", "s.bind(loop, 'threadIdx.x')"),
        "specialize": Phrase("Halide", "a program for each size: extents are numbers"),
        "bound": Phrase("Halide", "nothing: extents are known"),
        "estimate": Phrase("Halide", "nothing: extents are known"),
        "update": Phrase("Halide", "a block of its own: s.decompose_reduction(block, loop)"),
        "realize": Phrase("Halide", "kernel = mt.build(s), then kernel(a, b)"),
        "compile_jit": Phrase("Halide", "mt.build(s)"),
        "divide_loop": Phrase("Exo", "s.split(loop, [None, 8])"),
        "mult_loops": Phrase("Exo", "s.fuse(outer, inner)"),
        "reorder_loops": Phrase("Exo", "s.reorder(outer, inner)"),
        "unroll_loop": Phrase("Exo", "s.unroll(loop)"),
        "parallelize_loop": Phrase("Exo", "s.parallel(loop)"),
        "stage_mem": Phrase(
            "Exo", "s.cache_read(block, buffer, scope), s.cache_write(block, scope)"
        ),
        "set_memory": Phrase("Exo", "s.set_scope(buffer, scope)"),
        "inline_assign": Phrase("Exo", "s.compute_inline(block)"),
        "replace": Phrase("Exo", "s.tensorize(loop, intrinsic)"),
        "fission": Phrase("Exo", "s.decompose_reduction(block, loop)"),
        "lift_alloc": Phrase("Exo", "nothing: a buffer lives where its accesses are"),
        "simplify": Phrase("Exo", "nothing: code generation does; mt.simplify for expressions"),
        "get_sblock": Phrase("TVM", "s.get_block('C'), or just the name 'C'"),
        "get_child_blocks": Phrase("TVM", "s.get_blocks()"),
        "get_output_blocks": Phrase("TVM", "s.get_blocks(), of which the last writes an output"),
        "mod": Phrase("TVM", "s.program"),
        "stages": Phrase("TVM", "s.get_blocks()"),
        "axis": Phrase("TVM", "s.get_loops('C')"),
        "leaf_iter_vars": Phrase("TVM", "s.get_loops('C')"),
        "save": Phrase("", "s.trace.to_json(), and mt.Trace.from_json(text).apply(program)"),
        "undo": Phrase("", "nothing: s.copy() before a step keeps what was"),
        "pragma": Phrase("TVM", "s.annotate(loop, key, value), or s.unroll(loop)"),
        "double_buffer": Phrase("TVM", "nothing; s.prefetch(buffer, loop, distance) loads ahead"),
        "blockize": Phrase("TVM", "s.tensorize(loop, intrinsic): a loop stands for what is inside"),
        "pad_einsum": Phrase("TVM", "nothing: a split whose factor does not divide is guarded"),
        "set_axis_separator": Phrase("TVM", "s.transform_layout"),
        "normalize": Phrase("TVM", "nothing: extents are known, and start at 0"),
        "reindex": Phrase("TVM", "s.cache_read, then s.transform_layout"),
        "merge": Phrase("TVM", "s.reverse_compute_at(block, loop)"),
        "enter_postproc": Phrase("TVM", "nothing"),
        "work_on": Phrase("TVM", "nothing: a schedule has one function"),
        "define_split": Phrase("TVM", "s.split(loop, s.sample_tile(loop, 2))"),
        "define_knob": Phrase("TVM", "s.sample_categorical([…])"),
        "define_reorder": Phrase("TVM", "s.reorder(s.sample_order(loops))"),
        "define_annotate": Phrase("TVM", "s.apply_annotation(s.sample_annotation(loops), loops)"),
        "cfg": Phrase("TVM", _KNOBS),
        "raise_error": Phrase("TVM", "s.require(condition, 'why')"),
        "space_map": Phrase("TVM", "mt.search.Space.of_template(program, 'c', template)"),
        "print_loop_nest": Phrase("Halide", "s.show()"),
        "store_in": Phrase("Halide", "s.set_scope(buffer, 'local')"),
        "align_storage": Phrase("Halide", "s.storage_align"),
        "lower": Phrase("TVM", "s.program"),
        "divide_dim": Phrase("Exo", "s.transform_layout"),
        "rearrange_dim": Phrase("Exo", "s.transform_layout"),
        "expand_dim": Phrase("Exo", "s.transform_layout"),
        "bind_expr": Phrase("Exo", "s.cache_read(block, buffer, 'local')"),
        "interchange": Phrase("MLIR", "s.reorder(a, b)"),
        "peel": Phrase(
            "MLIR", "s.split(loop, [None, 8]): code generation cuts off what is guarded"
        ),
        "explain": Phrase("", "mt.explain(s)"),
        "build": Phrase("", "mt.build(s)"),
        "print": Phrase("", "s.show()"),
    },
    "tensor": {
        "op": Phrase("TVM", "s.get_loops(C): the axes of C are loops of its block"),
        "axis": Phrase("TVM", "s.get_loops(C): the axes of C are loops of its block"),
        "reduce_axis": Phrase("TVM", "s.get_loops(C): the axes of C are loops of its block"),
        "T": Phrase("numpy", "C[j, i] in mt.compute"),
        "transpose": Phrase("numpy", "mt.ops.transpose(C), or C[j, i] in mt.compute"),
        "reshape": Phrase("numpy", "mt.ops.reshape(C, shape=…)"),
        "softmax": Phrase("torch", "mt.ops.softmax(C, axis=-1)"),
        "relu": Phrase("torch, tinygrad", "mt.ops.relu(C)"),
        "sum": Phrase("numpy", "mt.ops.reduce_sum(C, axes=…), or mt.sum(C[i, k], axis=k)"),
        "astype": Phrase("numpy", "C[i, j].astype('float16') in mt.compute"),
        "numpy": Phrase("TVM, torch", "nothing: a tensor has no values; a kernel returns arrays"),
        "asnumpy": Phrase("TVM", "nothing: a tensor has no values; a kernel returns arrays"),
        "compute_at": Phrase(
            "Halide", "s = mt.Schedule(mt.lower([…, C])), then s.compute_at('C', …)"
        ),
        "compute_root": Phrase(
            "Halide", "nothing: a block is at the top until compute_at moves it"
        ),
        "parallel": Phrase("Halide", "s = mt.Schedule(mt.lower([…, C])), then s.parallel(loop)"),
        "vectorize": Phrase("Halide", "s = mt.Schedule(mt.lower([…, C])), then s.vectorize(loop)"),
        "realize": Phrase("Halide", "kernel = mt.build(mt.lower([…, C])), then kernel(a, b)"),
        "max": Phrase("numpy", "mt.compute(…, lambda i: mt.max(C[i, k], axis=k))"),
        "min": Phrase("numpy", "mt.compute(…, lambda i: mt.min(C[i, k], axis=k))"),
        "mean": Phrase("numpy", "mt.sum(C[i, k], axis=k), and another stage that divides by n"),
        "dot": Phrase("numpy", "mt.ops.matmul(A, B), or mt.sum(A[i, k] * B[k, j], axis=k)"),
        "matmul": Phrase("numpy", "mt.ops.matmul(A, B), or mt.sum(A[i, k] * B[k, j], axis=k)"),
    },
    "kernel": {
        "time_evaluator": Phrase("TVM", "kernel.time(a, b).median, in seconds"),
        "entry_name": Phrase("TVM", "kernel.name"),
        "entry_func": Phrase("TVM", "kernel itself: kernel(a, b)"),
        "get_source": Phrase("TVM", "kernel.source"),
        "inspect_source": Phrase("TVM", "kernel.source"),
        "get_lib": Phrase("TVM", "kernel.source, and kernel.command that compiles it"),
        "imported_modules": Phrase("TVM", "kernel.source"),
        "export_library": Phrase("TVM", "kernel.source, and kernel.command that compiles it"),
        "save": Phrase("TVM", "kernel.source, and kernel.command that compiles it"),
        "run": Phrase("TVM", "kernel(a, b)"),
        "set_input": Phrase("TVM", "kernel(a, b), or kernel.bind(B=b) for a constant"),
        "benchmark": Phrase("TVM, Halide", "kernel.time(a, b)"),
        "realize": Phrase("Halide", "kernel(a, b)"),
        "c_code_str": Phrase("Exo", "kernel.source"),
        "code": Phrase("", "kernel.source"),
        "asm": Phrase("", "kernel.assembly()"),
        "get_function": Phrase("TVM", "kernel itself: kernel(a, b)"),
    },
    "result": {
        "print_best": Phrase("TVM", "print(result), and print(result.trace.as_python())"),
        "apply_best": Phrase("TVM", "result.schedule"),
        "get_best_config": Phrase("TVM", "result.schedule.trace.decisions"),
        "best_config": Phrase("TVM", "result.schedule.trace.decisions"),
        "best_schedule": Phrase("", "result.schedule"),
        "best_time": Phrase("", "result.seconds"),
        "build": Phrase("", "result.kernel()"),
    },
    "compute": {
        "attrs": Phrase("TVM", "s.annotate(block, key, value), on a Schedule"),
        "tag": Phrase("TVM", "name="),
        "varargs_names": Phrase("TVM", "the names of the lambda's parameters"),
    },
    "lower": {
        "simple_mode": Phrase("TVM", "print(program), which is always plain"),
        "binds": Phrase("TVM", "nothing: parameters are what the list names"),
        "args": Phrase("TVM", "the list of tensors, which comes first"),
    },
    "build": {
        "target_host": Phrase("TVM", "nothing: the host runs C"),
        "params": Phrase("TVM", "kernel.bind(B=b) for what is constant"),
        "name": Phrase("TVM", "mt.lower([A, B, C], name=…)"),
        "opt_level": Phrase("TVM", "nothing: a schedule says what is done"),
    },
    "split": {
        "factor": Phrase("TVM", "s.split(loop, [None, factor])"),
        "nparts": Phrase("TVM", "s.split(loop, [nparts, None])"),
    },
    "sample_tile": {
        "num_outputs": Phrase("TVM", "n="),
        "candidate": Phrase("TVM", "candidates="),
        "no_tail": Phrase("TVM", "policy='factors', which leaves no tails"),
    },
    "sample_order": {"candidate": Phrase("TVM", "candidates=")},
    "tune": {
        "num_measure_trials": Phrase("TVM", "trials="),
        "n_trial": Phrase("TVM", "trials="),
        "max_trials_global": Phrase("TVM", "trials="),
        "num_trials_per_iter": Phrase("TVM", "batch="),
        "measure_option": Phrase("TVM", "settings=mt.search.Settings(…)"),
        "measure_callbacks": Phrase("TVM", "log='tuning.jsonl', and callbacks=[…]"),
        "work_dir": Phrase("TVM", "log='tuning.jsonl'"),
        "log_file": Phrase("TVM", "log='tuning.jsonl'"),
        "tuner": Phrase("TVM", "strategy="),
        "search_policy": Phrase("TVM", "strategy="),
        "cost_model": Phrase("TVM", "model="),
        "booster": Phrase("xgboost", "model=, an object with fit and predict"),
        "before": Phrase("", "rules=[mine, *mt.search.DEFAULT_RULES]"),
        "early_stopping": Phrase("TVM", "patience=, in candidates"),
        "verbose": Phrase("TVM, xgboost", "progress=True or False"),
        "n_trials": Phrase("optuna", "trials="),
        "timeout": Phrase("", "time_limit=, in seconds"),
    },
}
"""By what the name belongs to: the module, a Schedule, a Tensor, a Kernel; keywords of a call."""


def unknown_name(holder: str, name: str, owner: str, known: Iterable[str]) -> AttributeError:
    """The error for an attribute that does not exist; the caller raises it.

    holder  a key of PHRASES
    owner   as the message names it, such as "a Schedule"
    known   the attributes that there are
    """
    if name.startswith("_"):  # Python and notebooks ask for many
        return AttributeError(f"{owner} has no attribute {printable(name)}")
    return UnknownNameError(f"{owner} has no {printable(name)}{instead(holder, name, known)}")


def unknown_argument(call: str, name: str, known: Iterable[str]) -> ArgumentError:
    """The error for a keyword that a call does not take; the caller raises it."""
    names = [one for one in known if one != "self"]
    end = instead(call, name, names) or f"; it takes {', '.join(names) or 'nothing'}"
    return ArgumentError(f"{call}() has no {printable(name)}={end}")


def instead(holder: str, name: str, known: Iterable[str] = ()) -> str:
    """The end of a message: what is written here in place of a name, or names like it."""
    phrase = PHRASES.get(holder, {}).get(name)
    if phrase is not None:
        whose = " and ".join(f"{system}'s" for system in phrase.there.split(", ") if system)
        which = f", which is {whose}" if whose else ""
        if phrase.here.startswith("nothing"):
            return f"{which}; here is none{phrase.here.removeprefix('nothing')}"
        return f"{which}; here it is {phrase.here}"
    near = difflib.get_close_matches(name, [one for one in known if not one.startswith("_")], 3)
    return "; there is " + ", ".join(near) if near else ""


# ---- what is given in place of a program

PROGRAM: Final = "a program (see mt.lower)"
SCHEDULE_OR_PROGRAM: Final = "a schedule or a program (see mt.lower)"
_MADE_OF_ONE: Final[Mapping[str, str]] = {
    "Schedule": "a schedule has steps already: give the definition, which is s.history[0]",
    "Sketch": "a sketch has open decisions: sketch.apply(seed=0) is a schedule",
    "Trace": "a trace is steps without a program: trace.apply(program) is a schedule",
    "Kernel": "a kernel is built already: call it, or give the program that it was built from",
    "TuneResult": "give result.schedule, the best that was found, or result.program",
    "Log": "give mt.load_best(log, program), the best schedule of a log",
    "Graph": "a graph is several kernels: mt.build, mt.tune and mt.interpret take it, and "
    "mt.graph.program_of(graph, graph.kernels[0]).program is one",
    "Space": "give space.program, or a schedule of the space",
    "Scalar": "one symbolic value is no tensor: put it in mt.compute, and lower that",
    "Reduction": "a reduction is the expression of an mt.compute: write one, and lower that",
}
"""Advice for an object of ours that is no program, by the name of its class."""


def no_program(name: str, value: object, expected: str = PROGRAM) -> ArgumentError:
    """The error for an argument that is no program, or no schedule; the caller raises it.

    expected  PROGRAM, or SCHEDULE_OR_PROGRAM
    """
    if isinstance(value, (list, tuple)) and value:
        if all(_is_ours(one, "Tensor") for one in value):
            names = [_name_of(one) for one in value]
            listed = ", ".join(names if len(names) <= 4 else [*names[:3], "…", names[-1]])
            return ArgumentError(
                f"expected {expected}, but got {name}=[{listed}] ({kind_of(value)} of tensors); "
                f"lower them first: program = mt.lower([{listed}])"
            )
        if all(_is_ours(one, "Program") or _is_ours(one, "Schedule") for one in value):
            return ArgumentError(
                f"expected {expected}, but got {name}={kind_of(value)} of {len(value)}: give one "
                "at a time"
            )
    for kind, advice in _MADE_OF_ONE.items():
        if _is_ours(value, kind):  # whose text would be cut in the middle
            return ArgumentError(f"expected {expected}, but got {name}=<{kind}>; {advice}")
    error = unexpected(expected, name, value)
    return ArgumentError(error.message + _advice(value))


def no_tensors(name: str, value: object, expected: str) -> ArgumentError:
    """The error for what `mt.lower` does not take; the caller raises it."""
    for kind, here in (("Program", "print(program)"), ("Schedule", "print(s.program)")):
        if _is_ours(value, kind):
            text = f"expected {expected}, but got {name}=<{kind}>, which is lowered already: {here}"
            return ArgumentError(text)
    return no_program(name, value, expected)


def _advice(value: object) -> str:
    """The end of the message for an argument that is no program, nor made of one."""
    if _is_ours(value, "Tensor"):
        return f"; lower it first, after its inputs: program = mt.lower([…, {_name_of(value)}])"
    if isinstance(value, str):
        if value.endswith(".py"):
            return "; in Python, import the file and give its program"
        if value.endswith(".onnx"):
            return "; a network is read first: mt.build(mt.graph.from_onnx(path)), or mt.tune"
        return "; operators by name: mt.lower(mt.workloads.matmul(64, 64, 64))"
    if value is None:
        return "; does the function that made it end without a return?"
    if type(value).__module__.partition(".")[0] == "numpy":
        return "; arrays go into the kernel: kernel = mt.build(program), then kernel(a, b)"
    if callable(value):
        return "; call the function, and give what it returns: mt.lower(function(…)) of tensors"
    return ""


def _name_of(tensor: object) -> str:
    """The name of a tensor, at a length that a message bears."""
    name = printable(str(getattr(tensor, "name", "")))
    return name if len(name) <= 20 else name[:19] + "…"


def _is_ours(value: object, kind: str) -> bool:
    """Tell whether a value is of a class of this package, which lies above this layer."""
    return any(
        base.__name__ == kind and base.__module__.startswith("minitensor.")
        for base in type(value).__mro__
    )
