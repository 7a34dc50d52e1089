"""Ansor's operators and subgraphs: our search, numpy, torch, and TVM's tuner at equal trials.

    python -m benchmarks.operators tune --save FOLDER [C1D …]        our search
    python -m benchmarks.operators tune-tvm --save FOLDER [C1D …]    TVM's, see `tvm_peer`
    python -m benchmarks.operators compare --save FOLDER [C1D …]     all, interleaved: a table

`tune` and `tune-tvm` write into FOLDER what `compare` reads; run each on a quiet machine. torch and
TVM must be in the environment; who is missing is left out.
"""
