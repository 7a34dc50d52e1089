"""Programs that no operator of a network stands for, without a trial, beside torch, in turns.

    python -m benchmarks.programs                 all of them: a table
    python -m benchmarks.programs gram tril       some
    python -m benchmarks.programs --trials 48     with a search as well

Masks, stencils, products of a matrix with itself, sums over small images, elements that are moved,
repeated or rolled around: whoever writes a definition writes one of these before long, and rules
that know convolutions have never seen it. Each is checked against torch. A row far behind is a rule
that lacks a case, not a kernel to be tuned.
"""
