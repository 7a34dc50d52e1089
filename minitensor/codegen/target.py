"""The target of code generation, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from minitensor.codegen.gpu.devices import device_named
from minitensor.errors import ArgumentError, is_integer, unexpected, whole
from minitensor.ir import Buffer

KINDS: Final = ("c", "cuda", "cuda-emulator", "accelerator", "interpreter")
FEATURES: Final = (
    "amx_bf16", "amx_int8", "avx512_bf16", "avx512_fp16", "avx512_vnni", "avx512_vpopcntdq",
    "avx_vnni",
)  # fmt: skip
"""Instructions beyond vectors of a width, as Linux calls them."""
WIDTHS: Final = (0, 64, 128, 256, 512, 1024, 2048)
UNEVEN: Final = "uneven"
"""The annotation of a parallel loop whose iterations take unlike times: threads take turns."""


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of target, with the threads and vectors that it has.

    kind         "c" (with OpenMP), "interpreter", "cuda" or "cuda-emulator"; "accelerator" for one
                 that is simulated (see `mt.accelerator`)
    num_cores    how many threads a parallel loop uses; None for what the machine offers
                 (OMP_NUM_THREADS if that is set)
    vector_bits  the width of vector registers in bits, 0 for none; None for what the toolchain
                 has found fast on this machine
    device       the GPU of "cuda" and "cuda-emulator", such as "h100" (see `codegen.DEVICES`);
                 None for the first of this machine, or "a100" if there is none. Of "accelerator"
                 what is not usual of it, as `mt.accelerator.Machine(…).target` says it
    features     the instructions of FEATURES that schedules for "c" are derived for, such as
                 ("avx512_vnni",); None for those that the compiler may use on this machine
    """

    kind: str
    num_cores: int | None = None
    vector_bits: int | None = None
    device: str | None = None
    features: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            known = ", ".join(map(repr, KINDS[:-1])) + f" or {KINDS[-1]!r}"
            raise unexpected(known, "target", self.kind)
        cores = self.num_cores
        if cores is not None:
            whole("num_cores", cores, 1, 4096)
        bits = self.vector_bits
        if bits is not None and not (is_integer(bits) and bits in WIDTHS):
            raise unexpected("one of " + ", ".join(map(str, WIDTHS)), "vector_bits", bits)
        if self.device is not None and not (self.is_gpu or self.kind == "accelerator"):
            raise unexpected(f"no GPU for target {self.kind!r}", "device", self.device)
        if self.device is not None and self.is_gpu:
            device_named(self.device)
        elif not (self.device is None or isinstance(self.device, str)):
            raise unexpected("the target of an mt.accelerator.Machine", "device", self.device)
        if self.features is not None:
            object.__setattr__(self, "features", self._checked_features())
        for name, value in (("num_cores", cores), ("vector_bits", bits)):
            object.__setattr__(self, name, None if value is None else int(value))

    def _checked_features(self) -> tuple[str, ...]:
        """The features in their order, each once."""
        given = self.features
        if self.kind != "c":
            raise unexpected(f"no features for target {self.kind!r}", "features", given)
        if not isinstance(given, (tuple, list, set, frozenset)):
            raise unexpected("a list of names, such as ['avx512_vnni']", "features", given)
        for name in given:
            if name not in FEATURES:
                raise unexpected("some of " + ", ".join(FEATURES), "features", name)
        return tuple(sorted(set(given)))

    @property
    def is_gpu(self) -> bool:
        """Tell whether it is a GPU, or the emulator of one."""
        return self.kind in ("cuda", "cuda-emulator")

    @staticmethod
    def of(target: object) -> Target:
        """A Target as itself, a kind by its name, what has a target (a Machine) by that."""
        target = getattr(target, "target", target)
        if isinstance(target, Target):
            return target
        if not isinstance(target, str):
            raise unexpected("a target's name or an mt.Target", "target", target)
        return Target(target)

    def as_dict(self) -> dict[str, Any]:
        """Its fields, for JSON; the GPU and the features only where they are named."""
        fields = asdict(self)
        optional = ("device", "features")
        return {n: value for n, value in fields.items() if n not in optional or value is not None}

    def resolved(self, num_cores: int, vector_bits: int) -> Target:
        """The target with what was left open filled in."""
        return replace(
            self,
            num_cores=self.num_cores if self.num_cores is not None else num_cores,
            vector_bits=self.vector_bits if self.vector_bits is not None else vector_bits,
        )


@dataclass(frozen=True, slots=True)
class KernelShape:
    """A kernel of a GPU, as it is launched.

    grid     blocks along x, y, z
    block    threads along x, y, z
    shared   bytes of shared memory that its text declares
    dynamic  bytes of shared memory that its launch asks for
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int = 0
    dynamic: int = 0


@dataclass(frozen=True, slots=True)
class Emitted:
    """The text of a kernel, and the facts that a caller needs.

    The text defines `int entry(T0 *p0, T1 *p1, …, void *workspace)`, one pointer for each parameter
    in call order. It returns 0, or k if `checks[k - 1]` failed: the outputs are then incomplete.

    source     the whole translation unit
    entry      the name of the function
    params     the parameters in call order
    outputs    the names of those that are written
    checks     what the checks that could only be made at run time say when they fail
    workspace  bytes of scratch memory that a call needs, aligned to 64 bytes; its content is
               neither read before written nor kept
    target     what it was generated for, with nothing left open
    name       of the program, for messages; the entry if empty
    parallel   whether it starts threads
    float16    whether the compiler must have 16-bit floats
    loops      with hooks: the parallel loops by their numbers (see `hooks`)
    memory     with hooks: what the function allocates; the first has the number len(params)
    kernels    the kernels that the entry launches, for a GPU
    aligned    parameters that must start at a multiple of 16 bytes
    """

    source: str
    entry: str
    params: tuple[Buffer, ...]
    outputs: frozenset[str]
    checks: tuple[str, ...]
    workspace: int
    target: Target
    name: str = ""
    parallel: bool = False
    float16: bool = False
    loops: tuple[str, ...] = ()
    memory: tuple[Buffer, ...] = ()
    kernels: tuple[KernelShape, ...] = ()
    aligned: frozenset[str] = frozenset()

    def facts(self) -> dict[str, Any]:
        """The plain values among these, for JSON; see `restored`."""
        lists: dict[str, Any] = {"checks": list(self.checks), "aligned": sorted(self.aligned)}
        lists["kernels"] = [asdict(kernel) for kernel in self.kernels]
        return {name: getattr(self, name) for name in _FACTS} | lists

    @staticmethod
    def restored(
        facts: Mapping[str, Any],
        source: str,
        params: tuple[Buffer, ...],
        outputs: frozenset[str],
        target: Target,
    ) -> Emitted:
        """An Emitted from its `facts` and the rest."""
        known = {name: facts[name] for name in _FACTS if name in facts}
        known["checks"] = tuple(facts["checks"])
        known["aligned"] = frozenset(facts["aligned"])
        known["kernels"] = tuple(_shape(kernel) for kernel in facts["kernels"])
        return Emitted(source=source, params=params, outputs=outputs, target=target, **known)


def _shape(kept: Mapping[str, Any]) -> KernelShape:
    grid, block = tuple(kept["grid"]), tuple(kept["block"])
    return KernelShape(kept["name"], grid, block, kept["shared"], kept["dynamic"])


_FACTS: Final = ("entry", "checks", "workspace", "name", "parallel", "float16")


def unsupported(target: Target) -> ArgumentError:
    """The error for a target that this version cannot generate code for."""
    return ArgumentError(
        f"target {target.kind!r} is not available in this version; use 'c' or 'interpreter'"
    )
