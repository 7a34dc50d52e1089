"""Kernels of a GPU: how programs are cut into kernels, and what a GPU allows them.

`kernels` takes the result of the pass `map_threads` apart, `devices` has a table of GPUs, `limits`
holds kernels against it. The parts of that pass are `vthreads`, `frame`, `owners` and `barriers`.
"""
