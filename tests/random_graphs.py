"""Drawn graphs as models, for as long as one likes: python -m tests.random_graphs COUNT [SEED].

Each is optimized, fused, planned and built, and runs in the checked mode, with layouts drawn for
its values, and as one function; what it computes must be what its interpreter does. The arrays hold
small integers, so sums are exact but for operators whose results are none.
"""

import random
import sys

import numpy as np

import minitensor as mt
from minitensor.graph.layout import results_of, touched_by
from minitensor.testing import drawn
from tests.property.graph.drawn import graphs


def laid_out(graph):
    """The graph with a layout for each value that may have one: any divisor of its channels, or all
    of them; always the same for the same graph.
    """
    grouped, draw = graph.grouped(), random.Random(str(graph))
    blocks = {}
    for group in grouped.kernels:
        for name in results_of(grouped, group):
            if name in touched_by(grouped, group):
                channels = grouped.values[name].shape[1]
                divisors = [n for n in range(1, channels + 1) if channels % n == 0]
                blocks[name] = draw.choice([0, channels, *divisors])
    return grouped.lay_out(blocks)


def differences(graph, arrays):
    """The kinds of models that differ from the interpreter, with the reasons."""
    expected = graph.interpret(*arrays)
    expected = expected if isinstance(expected, tuple) else (expected,)
    found = []
    for kind, built in (
        ("fused", graph),
        ("as it is", graph.fuse("none")),
        ("checked", graph.optimize().fuse()),
        ("laid out", laid_out(graph)),
    ):
        model = mt.build(built, check=kind == "checked")
        results = model(*arrays)
        results = results if isinstance(results, tuple) else (results,)
        for one, other in zip(results, expected, strict=True):
            if one.shape != other.shape or not np.allclose(one, other, rtol=1e-4, atol=1e-4):
                found.append(f"{kind}:\n{built}\n{one}\nin place of\n{other}")
    return found


def main(count, seed):
    """Try so many; returns how many differ."""
    wrong = 0
    for number in range(count):
        graph, arrays = drawn(graphs(most=30), f"{seed}/{number}")
        for text in differences(graph, arrays):
            wrong += 1
            print(f"graph {number} of seed {seed}, {text}", flush=True)
        if number % 50 == 49:
            print(f"{number + 1} graphs, {wrong} differences", flush=True)
    return wrong


if __name__ == "__main__":
    words = [int(word) for word in sys.argv[1:]]
    sys.exit(1 if main(words[0] if words else 100, words[1] if len(words) > 1 else 0) else 0)
