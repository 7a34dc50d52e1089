"""The calls that join the layers: build, explain, gpu_cost, interpret, verify, simplify."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, overload

from minitensor import accelerator, arith, gpu, ir, pictures, runtime
from minitensor.answers import answered
from minitensor.codegen import (
    DEFAULT,
    Dump,
    Passes,
    Target,
    checked_passes,
    generate,
    lowered,
    passes_of,
)
from minitensor.errors import ArgumentError, CompileError, unexpected
from minitensor.graph import Graph, Model
from minitensor.lang import Scalar
from minitensor.looks import Whole
from minitensor.phrasebook import SCHEDULE_OR_PROGRAM, no_program
from minitensor.runtime import (
    TIME_LIMIT,
    Kernel,
    Signature,
    explained,
    find_toolchain,
    interpreter_kernel,
    load,
    load_program,
    native_target,
    shown_target,
)
from minitensor.schedule import Schedule

SCHEDULES: Final[ContextVar[Callable[[ir.Program, Target], Schedule | None] | None]] = ContextVar(
    "SCHEDULES", default=None
)
"""The function that gives `build` the schedule of a program, or None for as it is written: see
`search.apply_history_best`, which is above this layer."""


@overload
def build(
    what: Schedule | ir.Program,
    target: str | Target = "c",
    *,
    check: bool = False,
    passes: Passes | None = None,
    dump: Dump | None = None,
) -> Kernel: ...


@overload
def build(
    what: Schedule | ir.Program, target: accelerator.Machine
) -> accelerator.AcceleratorKernel: ...


@overload
def build(
    what: Graph,
    target: str | Target = "c",
    *,
    check: bool = False,
    log: str | os.PathLike[str] | None = None,
    flush_denormals: bool = False,
    precision: str | None = None,
) -> Model: ...


@answered
def build(
    what: Schedule | ir.Program | Graph,
    target: str | Target | accelerator.Machine = "c",
    *,
    check: bool = False,
    passes: Passes | None = None,
    dump: Dump | None = None,
    log: str | os.PathLike[str] | None = None,
    flush_denormals: bool = False,
    precision: str | None = None,
) -> Any:
    """A kernel: the program, or the schedule's program, compiled for a target; or of a graph a
    model: its kernels, called by one function. Inside `with mt.apply_history_best(log):` a program
    is scheduled as the best of the log is.

    target  "c", "cuda", "cuda-emulator", "accelerator", "interpreter", an mt.Target with a number
            of cores and a vector width, or a GPU, or an mt.accelerator.Machine
    check   verify the program after every pass of code generation; MINITENSOR_DEBUG=1 in the
            environment does so always, and 2 prints what each pass changes to standard error.
            For "cuda-emulator", each call looks for races, accesses outside buffers and barriers
            that some threads do not reach, and raises ExecutionError for what it finds; for
            "accelerator" the tokens of its queues are checked for every order that they allow
    passes  the passes of code generation, pairs of a name and a function of (program, target):
            usually `[*mt.codegen.PASSES, ("mine", f)]`, CUDA_PASSES for a GPU
    dump    is called with the difference that each pass makes, as text: `print`
    log     for a graph: the log whose best schedules its kernels get; others get what rules give
            (`mt.schedule_for`), and a warning says which. A graph without groups is optimized and
            fused first. `check` runs the kernels one by one and looks for values that lie where
            another is
    flush_denormals  for a graph: numbers below the normal range count as 0 while the model runs;
            where weights are as small, it is many times as fast on most processors
    precision  for a graph: "bf16" or "f16" for products and convolutions whose operands are rounded
            to 16 bits (`graph.in_precision`)

    "cuda-emulator" runs the text that "cuda" compiles on a CPU, thread by thread (slowly): its
    kernels have `faults` and `counters` besides. A kernel for "cuda" is compiled by nvcc, and needs
    a GPU only to be called: kernel.source, kernel.ptx and kernel.resources do without. It takes
    arrays of torch or cupy, which are used where they are, or numpy's, which are copied to the GPU
    and back at each call. "accelerator" gives an mt.accelerator.AcceleratorKernel: `simulate` runs
    and times it.

    Raises CompileError if there is no compiler, it fails, or generating and compiling take more
    than 20 s (nvcc: 60 s); ArgumentError for a target that does not exist or is not available, for
    a program that is too large, and for passes that cannot be run; VerifyError for a pass of one's
    own whose result is malformed.
    """
    if isinstance(what, Graph):
        if passes is not None or dump is not None:
            raise ArgumentError("passes= and dump= are for one program: see mt.graph.program_of")
        graph = what if precision is None else what.in_precision(precision)
        return _networks().build_network(graph, target, log, check, flush_denormals)
    if log is not None or flush_denormals or precision is not None:
        raise ArgumentError(
            "log=, flush_denormals= and precision= are for a graph; mt.load_best(log, program) "
            "gives the schedule of one program"
        )
    program, header = _program_of(what)
    wanted = Target.of(target)
    find = SCHEDULES.get() if isinstance(what, ir.Program) else None
    found = find(program, wanted) if find is not None else None
    if found is not None:
        program, header = _program_of(found)
    ordered = passes_of(wanted) if passes is None else checked_passes(passes, wanted)
    if dump is not None and not callable(dump):
        raise unexpected("a function of a text, such as print", "dump", dump)
    if wanted.kind in ("interpreter", "accelerator"):
        if passes is not None or dump is not None:
            raise ArgumentError(f'target "{wanted.kind}" runs no passes of its own: use "c"')
        if wanted.kind == "accelerator":
            return _accelerated(program, wanted, check)
        return _interpreted(program)
    exact = native_target(wanted)

    def made(part: ir.Program) -> Kernel:
        kernel: Kernel
        emulated = wanted.kind == "cuda-emulator"
        if not check and passes is None and dump is None and not emulated:
            if wanted.is_gpu:
                kernel = runtime.load_cuda_program(part, exact, header)
            else:
                kernel = load_program(part, exact, header, find_toolchain())
        else:  # a function has no identity that a cache could tell it by
            start = time.monotonic()
            emitted = generate(part, exact, header, passes=ordered, check=check, dump=dump)
            if emulated:
                (kernel,) = runtime.load_emulated([emitted], find_toolchain(), check=check)
            elif wanted.is_gpu:
                kernel = runtime.load_cuda(emitted)
            else:
                left = max(1.0, TIME_LIMIT - (time.monotonic() - start))
                kernel = load(emitted, find_toolchain(), time_limit=left)
        return kernel.built_from(part, made, ordered)

    level = os.environ.get("MINITENSOR_DEBUG", "0")
    check = check or level not in ("", "0")
    if level == "2" and dump is None:
        dump = _to_standard_error
    return made(program)


def _networks() -> Any:
    """The layer above, which brings the search: imported when a graph is built."""
    return importlib.import_module("minitensor.networks")


def _accelerated(
    program: ir.Program, target: Target, check: bool = False
) -> accelerator.AcceleratorKernel:
    kernel = accelerator.build(program, accelerator.Machine.of(target))
    if check:
        accelerator.check(kernel.stream)
    return kernel


def _interpreted(program: ir.Program) -> Kernel:
    return interpreter_kernel(program).built_from(program, _interpreted)


def _to_standard_error(text: str) -> None:
    print(text, file=sys.stderr)


@answered
def explain(what: Schedule | ir.Program, target: str | Target = "c") -> str:
    """The outcome of a schedule, as text: each loop, each buffer, the registers, and remarks on
    missed optimizations.

    target  as for `build`; without a compiler of C, what it leaves open is that of a common
            machine, and spills are not measured. "cuda" needs nvcc, and no GPU;
            "cuda-emulator" shows no registers

    Raises ArgumentError for a target that does not exist or is not available.
    """
    program, _ = _program_of(what)
    wanted = Target.of(target)
    if wanted.kind == "interpreter":
        return interpreter_kernel(program).explain()
    if wanted.kind == "accelerator":
        return _accelerated(program, wanted).explain()
    if wanted.is_gpu:
        return build(what, wanted).explain()
    exact = shown_target(wanted)
    try:
        toolchain = find_toolchain()
    except CompileError:
        toolchain = None
    return Whole(explained(program, exact, toolchain))


@answered
def gpu_cost(what: Schedule | ir.Program, device: str = DEFAULT) -> gpu.Cost:
    """The time of a schedule on a GPU, estimated without one: for each kernel its occupancy, the
    sectors and bank conflicts of each access, the part of the GPU that bounds it, and remarks.

    device  "t4", "a100", "rtx3090", "rtx4090", "h100" or "h200"

    Raises ArgumentError for a device that is not in the table, and what `build` raises for a
    program that no GPU runs.
    """
    return gpu.cost_of(_for_gpu(_program_of(what)[0], device), device)


def _for_gpu(program: ir.Program, device: str) -> ir.Program:
    """The program that kernels of a GPU are written from."""
    return lowered(program, Target("cuda", num_cores=1, vector_bits=0, device=device))


def _program_of(what: object) -> tuple[ir.Program, str]:
    """The program to build, and the schedule as text.

    Raises VerifyError for a program that was put together by hand, and wrongly: only what is
    well-formed may reach a text.
    """
    if isinstance(what, Schedule):
        return what.program, what.trace.as_python()
    if isinstance(what, ir.Program):
        ir.verify(what)
        return what, ""
    raise no_program("what", what, SCHEDULE_OR_PROGRAM)


@answered
def interpret(what: Schedule | ir.Program | Graph, *arrays: Any, counts: bool = False) -> Any:
    """Run a program, or a graph operator by operator, in the reference interpreter, with every
    check on.

    arrays  one for each input, in call order
    counts  whether to return (outputs, counts): loads and stores per buffer and per scope

    Returns the output, or a tuple of them if there are several.
    Raises ExecutionError for an access out of bounds, a read of an element nothing wrote, a race.
    """
    if isinstance(what, Graph):
        return _interpreted_graph(what, arrays, counts)
    program, _ = _program_of(what)
    written = {b.name for b in program.outputs}
    signature = Signature(program.name, program.inputs, ())
    accepted, _results = signature.accept(arrays)
    outputs, counted = ir.interpret(program, accepted)
    result = outputs[0] if len(written) == 1 else tuple(outputs)
    return (result, counted) if counts else result


def _interpreted_graph(graph: Graph, arrays: tuple[Any, ...], counts: bool) -> Any:
    if counts:
        raise ArgumentError("counts= is for one program: see mt.graph.program_of(graph, group)")
    return graph.interpret(*arrays)


@answered
def verify(what: Schedule | ir.Program) -> None:
    """Raise VerifyError, naming the rule, if the program is malformed."""
    ir.verify(_program_of(what)[0])


@answered
def simplify(expr: Any) -> Any:
    """An equal, smaller expression; a symbolic value as one, an IR node as one."""
    if isinstance(expr, Scalar):
        return Scalar(arith.simplify(expr.node))
    if isinstance(expr, ir.Expr):
        return arith.simplify(expr)
    raise unexpected("a symbolic value or an expression", "expr", expr)


def caches() -> dict[str, int]:
    """The sizes in bytes of the caches of this machine; the first call of all processes measures
    for 0.2 seconds.
    """
    own, largest = runtime.known_caches(), runtime.largest_cache()
    return {"L1": own.l1, "L2": own.l2} | ({"L3": largest} if largest > own.l2 else {})


def lanes(program: ir.Program) -> list[pictures.Picture]:
    """The pictures of a program's accesses on a GPU, a warp at a time."""
    return gpu.access_pictures(_for_gpu(program, DEFAULT))
