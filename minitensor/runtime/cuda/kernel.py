"""Kernels for the GPU: called with arrays there, or with numpy arrays, which are copied.

Arrays on the GPU are used where they are, and the launch is asynchronous: it goes into the stream
that the arrays name, or the default stream, and the call returns at once. (With checks that are
made at run time it waits for their outcome.) Numpy arrays are copied to the GPU, and the outputs
back; the call then waits. That usually takes longer than the kernel: keep arrays on the GPU, with
torch, cupy or `to_device`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from minitensor import ir
from minitensor.codegen import Emitted
from minitensor.errors import ExecutionError
from minitensor.looks import Text
from minitensor.runtime.cache import compile_assembly
from minitensor.runtime.cuda.arrays import DeviceArray, DeviceSignature, copied_to, empty_on
from minitensor.runtime.cuda.device import Cuda, Memory, pointer
from minitensor.runtime.cuda.nvcc import Nvcc
from minitensor.runtime.cuda.resources import Resources
from minitensor.runtime.kernel import Kernel
from minitensor.runtime.timing import Lap

_PER_THREAD: Final = 2
"""The stream (cudaStreamPerThread) that is another one in each thread of the CPU."""


class CudaKernel(Kernel):
    """A kernel for the GPU. Several threads of Python may call it at the same time.

    emitted    the text it was compiled from, and what is known of it
    resources  what each kernel of the text takes, by name; needs no GPU
    """

    def __init__(
        self,
        emitted: Emitted,
        function: Callable[..., int],
        command: Sequence[str],
        resources: Mapping[str, Resources],
        nvcc: Nvcc,
        cuda: Cuda,
    ) -> None:
        name = emitted.name or emitted.entry
        given = name, emitted.params, emitted.outputs
        super().__init__(*given, emitted.target, emitted.source, command, emitted.checks)
        self._signature = DeviceSignature(*given, emitted.aligned, cuda)
        self.emitted = emitted
        self.resources = dict(resources)
        self._function, self._nvcc, self._cuda = function, nvcc, cuda
        # For each stream, one for each call that was ever being launched into it at the same time:
        # launches in a stream run in order. pop, append and setdefault are atomic
        self._workspaces: dict[tuple[int, int], list[Memory]] = {}

    @cached_property
    def ptx(self) -> Text:
        """The text of the kernels in PTX, made anew by nvcc; needs no GPU.

        Raises CompileError if nvcc fails.
        """
        return Text(compile_assembly(self.source, self._nvcc))

    def assembly(self) -> str:
        """The text of the kernels in PTX; see `ptx`."""
        return self.ptx

    def explain(self) -> str:
        """The outcome of the schedule, as text: the launch and the resources of each kernel, and
        the optimizations that were missed.
        """
        lines = [f"{ir.print_name(self.name)} for {self.target.device}:"]
        for shape in self.emitted.kernels:
            grid, block = (" x ".join(map(str, extents)) for extents in (shape.grid, shape.block))
            shared = f", {shape.dynamic:,} bytes of shared memory at its launch"
            lines.append(
                f"    {shape.name}: {grid} blocks of {block} threads"
                f"{shared if shape.dynamic else ''}; {self.resources.get(shape.name, '')}"
            )
        return Text("\n".join([*lines, *self._gpu_remarks()]))

    def _run(self, arrays: list[Any]) -> int:
        with self._cuda.current():
            resident = self._resident(arrays)
            status = self._launch(resident)
            copied = [n for n in self._signature.outputs if type(arrays[n]) is np.ndarray]
            if copied and status == 0:
                self._cuda.synchronize(who=self._signature.kernel)
                for n in copied:
                    array = arrays[n]
                    self._cuda.copy(array.ctypes.data, resident[n].address, array.nbytes)
        return status

    def _prepared(self, arrays: list[Any]) -> Callable[[], int]:
        if any(type(array) is np.ndarray for array in arrays):
            return lambda: self._run(arrays)
        stream = self._stream(arrays)
        workspace = self._new_workspace()
        call = [*self._pointers(arrays), pointer(workspace.address), pointer(stream)]
        kept = arrays, workspace  # for as long as the function

        def run(_: object = kept) -> int:
            with self._cuda.current():
                return self._function(*call)

        return run

    def _lap(self, arrays: list[Any]) -> Lap:
        """Time on the GPU between two events around the calls, without copies of numpy arrays."""
        with self._cuda.current():
            resident = self._resident(arrays)
            call = self._tried(self._prepared(resident))
            stream = self._stream(resident)
            self._cuda.synchronize(stream, self._signature.kernel)

        def launches(calls: int) -> None:
            for _ in range(calls):
                call()

        def lap(calls: int) -> float:
            with self._cuda.current():
                return self._cuda.seconds(lambda: launches(calls), stream)

        return lap

    def _constant(self, array: Any) -> DeviceArray:
        if type(array) is DeviceArray:
            return array
        return copied_to(self._cuda, array, self._signature.kernel)

    def failure(self, status: int) -> ExecutionError:
        """The error for a status that is not 0."""
        if status > 0:
            return super().failure(status)
        return self._cuda.failure(-status, self._signature.kernel)

    def _resident(self, arrays: list[Any]) -> list[DeviceArray]:
        """The arrays, those of numpy as new ones on the GPU: inputs as copies."""
        found, who = [], self._signature.kernel
        for slot, array in zip(self._signature.slots, arrays):
            if type(array) is DeviceArray:
                found.append(array)
            elif slot.is_output:
                found.append(empty_on(self._cuda, array.shape, array.dtype, 0, who))
            else:
                found.append(copied_to(self._cuda, array, who))
        return found

    def _launch(self, arrays: list[DeviceArray]) -> int:
        stream = self._stream(arrays)
        key = stream, threading.get_ident() if stream == _PER_THREAD else 0
        free = self._workspaces.setdefault(key, [])
        try:
            workspace = free.pop()
        except IndexError:
            workspace = self._new_workspace()
        pointers = self._pointers(arrays)
        status = self._function(*pointers, pointer(workspace.address), pointer(stream))
        free.append(workspace)
        return status

    def _stream(self, arrays: Sequence[DeviceArray]) -> int:
        """The stream to launch into: one that the arrays name, when the others are done."""
        named = list(dict.fromkeys(array.stream for array in arrays if array.stream))
        for other in named[1:]:
            self._cuda.synchronize(other)
        return named[0] if named else 0

    def _pointers(self, arrays: Sequence[DeviceArray]) -> list[Any]:
        return [pointer(array.address) for array in arrays]

    def _new_workspace(self) -> Memory:
        return self._cuda.allocate(self.emitted.workspace, self._signature.kernel)
