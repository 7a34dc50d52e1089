"""The first GPU of the machine, through the CUDA runtime: memory, copies, streams, events, errors.

The library is the one that nvcc links kernels to (`Nvcc.library`). It is loaded once, before any
kernel; without a driver that works, and every call returns an error. Structures whose layout is
another in another release are not read: attributes of a GPU are asked for one by one.
CUDA_VISIBLE_DEVICES says which GPU is the first. See NVIDIA's CUDA Runtime API, "Device
Management", "Memory Management", "Event Management" and, for the numbers, "Data types".
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from minitensor.errors import CompileError, ExecutionError
from minitensor.runtime.cuda.failures import failure_of
from minitensor.runtime.module import ffi, load_library
from minitensor.system import cffi

ORDINAL: Final = 0
"""The GPU that kernels run on."""

_FUNCTIONS: Final = {
    "cudaGetDeviceCount": "int *",
    "cudaGetDevice": "int *",
    "cudaSetDevice": "int",
    "cudaGetDeviceProperties": "char *, int",
    "cudaDeviceGetAttribute": "int *, int, int",
    "cudaDriverGetVersion": "int *",
    "cudaRuntimeGetVersion": "int *",
    "cudaMalloc": "void * *, size_t",
    "cudaFree": "void *",
    "cudaMemcpy": "void *, void *, size_t, int",
    "cudaMemset": "void *, int, size_t",
    "cudaPointerGetAttributes": "void *, void *",
    "cudaStreamSynchronize": "void *",
    "cudaEventCreate": "void * *",
    "cudaEventRecord": "void *, void *",
    "cudaEventSynchronize": "void *",
    "cudaEventElapsedTime": "float *, void *, void *",
    "cudaEventDestroy": "void *",
    "cudaGetLastError": "",
}
"""The functions that are called, with the types of their parameters; each returns an error."""
_DEFAULT_KIND: Final = 4
"""cudaMemcpyDefault: the addresses say which way a copy goes."""
_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76
"""Numbers of attributes (cudaDeviceAttr)."""
_ON_DEVICE: Final = (2, 3)
"""Kinds of memory that kernels may use (cudaMemoryType): of a device, managed."""


class Cuda:
    """The CUDA runtime of a library, and the first GPU.

    Its methods raise ExecutionError of the kind "device" (or "memory") where the runtime returns
    an error; the message is a sentence with the remedy.
    """

    def __init__(self, library: str) -> None:
        self.library = library
        try:
            loaded = load_library(library)
            for name, kinds in _FUNCTIONS.items():
                self._find(loaded, name, kinds.split(", ") if kinds else [])
            text = ffi().typeof("char *")
            kind = cffi.new_function_type((ffi().typeof("int"),), text, False)
            self._error_name = loaded.load_function(kind, "cudaGetErrorName")
            self._error_text = loaded.load_function(kind, "cudaGetErrorString")
        except (OSError, AttributeError) as failure:
            raise CompileError(
                f"cannot load the CUDA runtime {library}: {failure}; install it again"
            ) from failure

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., int]:
            """A function of _FUNCTIONS, with an underscore in front."""

    def _find(self, loaded: Any, name: str, kinds: list[str]) -> None:
        types = tuple(ffi().typeof(kind) for kind in kinds)
        kind = cffi.new_function_type(types, ffi().typeof("int"), False)
        setattr(self, f"_{name}", loaded.load_function(kind, name))

    # ---- errors

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of the runtime. Raises ExecutionError if it returns an error."""
        error = getattr(self, f"_{name}")(*arguments)
        if error:
            raise self.failure(error)

    def failure(self, error: int, who: str = "CUDA", detail: str = "") -> ExecutionError:
        """The exception for an error of the runtime, which forgets it.

        who     whose call it was: the name of a kernel
        detail  a clause to add
        """
        self._cudaGetLastError()
        name = ffi().string(self._error_name(error)).decode(errors="replace")
        text = ffi().string(self._error_text(error)).decode(errors="replace")
        return failure_of(error, name, text, who, detail or self._versions())

    def _versions(self) -> str:
        """The releases of the runtime and of the driver, for a message."""
        driver, own = self._number("cudaDriverGetVersion"), self._number("cudaRuntimeGetVersion")
        has = f"the driver knows CUDA {_release(driver)}" if driver else "there is no driver"
        return f"{has}, and this runtime is of CUDA {_release(own)}"

    def _number(self, name: str) -> int:
        result = ffi().new("int *")
        getattr(self, f"_{name}")(result)
        return int(result[0])

    # ---- the GPU

    @functools.cached_property
    def count(self) -> int:
        """The number of GPUs: at least one."""
        result = ffi().new("int *")
        self.call("cudaGetDeviceCount", result)
        if result[0] == 0:
            raise self.failure(100)
        return int(result[0])

    @functools.cached_property
    def name(self) -> str:
        """The name of the first GPU: the head of its properties in every release."""
        properties = ffi().new("char[]", 1 << 14)
        self.call("cudaGetDeviceProperties", properties, ORDINAL)
        return str(ffi().string(properties).decode(errors="replace"))

    @functools.cached_property
    def capability(self) -> int:
        """The compute capability of the first GPU: 80 for 8.0."""
        return 10 * self._attribute(_MAJOR) + self._attribute(_MINOR)

    @functools.cached_property
    def multiprocessors(self) -> int:
        """The streaming multiprocessors of the first GPU."""
        return self._attribute(_MULTIPROCESSORS)

    def _attribute(self, number: int) -> int:
        result = ffi().new("int *")
        self.call("cudaDeviceGetAttribute", result, number, ORDINAL)
        return int(result[0])

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """A context in which calls of this thread go to the first GPU."""
        before = ffi().new("int *")
        self.call("cudaGetDevice", before)
        if before[0] != ORDINAL:
            self.call("cudaSetDevice", ORDINAL)
        try:
            yield
        finally:
            if before[0] != ORDINAL:
                self.call("cudaSetDevice", before[0])

    # ---- memory

    def allocate(self, size: int, who: str = "CUDA") -> Memory:
        """Memory of `size` bytes, of undefined content.

        who  who needs it, for a message
        """
        address = ffi().new("void * *")
        with self.current():
            error = self._cudaMalloc(address, max(1, size))
        if error:
            raise self.failure(error, who, f"{size:,} bytes are needed")
        return Memory(self, int(ffi().cast("uintptr_t", address[0])), size)

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy bytes between two addresses, each of the host or the GPU, and wait for it."""
        if size:
            self.call("cudaMemcpy", pointer(to), pointer(source), size, _DEFAULT_KIND)

    def fill(self, address: int, size: int, byte: int = 0) -> None:
        """Set bytes of the GPU."""
        if size:
            self.call("cudaMemset", pointer(address), byte, size)

    def place_of(self, address: int) -> int | None:
        """The number of the GPU whose memory an address is in; None for any other address."""
        # a structure that begins with the kind of memory and the number of the device
        attributes = ffi().new("int[64]")
        if self._cudaPointerGetAttributes(attributes, pointer(address)):
            self._cudaGetLastError()
            return None
        return int(attributes[1]) if attributes[0] in _ON_DEVICE else None

    # ---- time

    def synchronize(self, stream: int = 0, who: str = "CUDA") -> None:
        """Wait for all that is in a stream. Raises what went wrong in it."""
        error = self._cudaStreamSynchronize(pointer(stream))
        if error:
            raise self.failure(error, who)

    def seconds(self, work: Callable[[], object], stream: int = 0) -> float:
        """The time on the GPU of what a function puts into a stream."""
        events = []
        try:
            for _ in range(2):
                event = ffi().new("void * *")
                self.call("cudaEventCreate", event)
                events.append(event[0])
            self.call("cudaEventRecord", events[0], pointer(stream))
            work()
            self.call("cudaEventRecord", events[1], pointer(stream))
            self.call("cudaEventSynchronize", events[1])
            milliseconds = ffi().new("float *")
            self.call("cudaEventElapsedTime", milliseconds, *events)
            return float(milliseconds[0]) / 1000
        finally:
            for event in events:
                self._cudaEventDestroy(event)


class Memory:
    """Memory of the GPU, freed with the object.

    address  its first byte; CUDA aligns it to 256 bytes
    size     in bytes
    """

    def __init__(self, cuda: Cuda, address: int, size: int) -> None:
        self.address, self.size = address, size
        free = cuda._cudaFree
        # at the end of the process the driver frees all, and may be gone before this
        weakref.finalize(self, free, pointer(address)).atexit = False


def pointer(address: int) -> Any:
    """An address as native functions take it."""
    return ffi().cast("void *", address)


@functools.cache
def cuda_of(library: str) -> Cuda:
    """The CUDA runtime of a library, loaded once. Raises CompileError if it does not load."""
    return Cuda(library)


def _release(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
