"""Kernels in CUDA: on a GPU of NVIDIA, and on the CPU by the emulator.

For a GPU read in this order: `nvcc` (the compiler), `resources` (what it says of a kernel),
`failures` and `device` (the CUDA runtime), `arrays` (arguments), `kernel` (what a user holds),
`build`. The emulator is `emulator` with `cxx`, `symbols`, `reports`, `counters`, and in C++
emulator.h, emulator.cpp. The texts of both include device.h.
"""
