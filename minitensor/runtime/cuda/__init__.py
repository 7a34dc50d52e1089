"""Kernels for GPUs of NVIDIA: the compiler, the runtime, arrays there, and calls.

Read in this order: `nvcc` (the compiler), `resources` (what it says of a kernel), `failures` and
`device` (the CUDA runtime), `arrays` (arguments), `kernel` (what a user holds), `build`.
"""
