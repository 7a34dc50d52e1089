"""Programs that no operator of a network stands for, without a trial, beside torch, in turns.

    python -m benchmarks.programs                 all of them: a table
    python -m benchmarks.programs gram tril       some
    python -m benchmarks.programs --trials 48     with a search as well

Masks, stencils, products of a matrix with itself, reductions over small images, elements that are
rolled, tiled or repeated, and other types: bytes, integers, half precision. Each result is checked
against torch. A program that is far behind points to a missing rule rather than to a kernel that
needs tuning.
"""
