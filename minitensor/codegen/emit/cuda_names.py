"""Names in the text of a kernel: CUDA is C++, and the headers that nvcc includes define macros."""

from __future__ import annotations

import re
from typing import Final

from minitensor.codegen.emit.names import LONGEST, Names, safe

_WORDS: Final = """
decltype noexcept const_cast dynamic_cast reinterpret_cast static_cast typeid char8_t char16_t
char32_t and_eq or_eq xor_eq not_eq concept requires consteval constinit co_await co_return
co_yield
threadIdx blockIdx blockDim gridDim warpSize dim3 int2 int4 float2 float4 uint shared_memory
launch stream error reset_status read_status float16_to_float float_to_float16 double_to_float16
bfloat16_to_float float_to_bfloat16 atomicExch copy_async4 copy_async8 copy_async16 commit_async
wait_async lanes part double_to_bfloat16 shared_address
BUFSIZ MAXFLOAT NFDBITS NZERO WCONTINUED WEXITED WNOHANG WNOWAIT WSTOPPED WUNTRACED L_ctermid
L_cuserid L_tmpnam P_tmpdir CUDARTAPI SNANL
"""
_RESERVED: Final = frozenset(_WORDS.split())
"""Words of C++, names that the text uses itself, and macros; besides those of C (see `names`)."""
_MACRO: Final = re.compile(r"(?:cu[A-Z]|cuda|CUDA|CU_)\w*|[A-Z0-9]{2,}_[0-9_]*[A-Z][A-Z0-9_]*")
"""Names that may be macros of CUDA, of the C library, or of device.h."""


class CudaNames(Names):
    """The names in scope in a CUDA text."""

    def __init__(self) -> None:
        super().__init__()
        self.taken |= _RESERVED

    def fresh(self, name: str) -> str:
        """A name in the text that no other has, until it is released."""
        return super().fresh(f"{name[: LONGEST - 1]}_" if _MACRO.fullmatch(safe(name)) else name)
