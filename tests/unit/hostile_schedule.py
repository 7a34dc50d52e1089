"""One schedule in which every name is the caller's, and what its text may differ in.

s = scheduled(lambda number: names[number])
assert_same_but_names(source_of(s), source_of(scheduled(benign)))
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import numpy as np

import minitensor as mt
from minitensor.codegen import Target, generate
from minitensor.schedule.layout import is_name

COUNT = 24
"""How many names the schedule takes."""
TARGET = Target("c", 2, 256)

MARK = "zq"
"""What benign names begin with: no word of a text does."""


def benign(number):
    """A name that no text minds."""
    return f"{MARK}{number}"


def scheduled(name: Callable[[int], str]) -> mt.Schedule:
    """A schedule with loops of every kind, temporaries, a check, functions and notes."""

    def labelled(count, first, function):
        """A function whose parameters bear the names, where Python lets them."""
        labels = [name(first + n) for n in range(count)]
        if len({*filter(is_name, labels)}) < count:
            labels = [benign(first + n) for n in range(count)]
        kind = inspect.Parameter.POSITIONAL_ONLY

        def element(*indices):
            return function(*indices)

        element.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in labels])
        return element

    A = mt.placeholder((12, 20), name=name(0))
    B = mt.placeholder((20, 16), name=name(1))
    where = mt.placeholder((16,), "int32", name=name(2))
    k, q, p = (mt.reduce_axis(n, name=name(3 + m)) for m, n in enumerate((20, 16, 16)))
    largest = mt.comm_reducer(mt.maximum, lambda dtype: -9.0, name=name(6) or "r")
    C = mt.compute(
        (12, 16),
        labelled(2, 16, lambda i, j: mt.sum(A[i, k] * B[k, j], axis=k)),
        name=name(7),
    )
    D = mt.compute(
        (12, 16),
        labelled(2, 18, lambda x, y: mt.exp(mt.maximum(C[x, y], 0.0)) + C[x, where[y]]),
        name=name(8),
    )
    E = mt.compute((12,), labelled(1, 20, lambda z: mt.argmax(D[z, q], axis=q)), name=name(9))
    F = mt.compute((12,), labelled(1, 21, lambda z: largest(D[z, p], axis=p)), name=name(10))
    s = mt.Schedule(mt.lower([A, B, where, D, E, F], name=name(11)))
    product, final = s.get_blocks()[:2]
    i, j, k = s.get_loops(product)
    k0, k1 = s.split(k, [None, 3])
    j0, j1 = s.split(j, [None, 8])
    s.reorder(j0, k0, k1, j1)
    s.vectorize(j1)
    s.unroll(k1)
    s.compute_at(s.cache_read(product, s.program.params[1].name, "local"), k0)
    s.parallel(i)
    s.annotate(k0, name(12)[:200] or "k", name(13))
    s.annotate(final, name(14)[:200] or "k", name(15))
    return s


def arrays():
    """Inputs for it: small integers."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-1, 2, shape).astype("f4") for shape in ((12, 20), (20, 16)))
    return a, b, rng.integers(0, 16, 16).astype("i4")


def source_of(s, hooks=False):
    """The C of a schedule, its steps in front."""
    return generate(s.program, TARGET, s.trace.as_python(), hooks=hooks).source


# ---- what a text may differ in

TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*(?:[eE][+-]\d+\w*)?|\s+|.", re.DOTALL)
DIRECTIVE = re.compile(
    r"#(include <std(def|int)\.h>|pragma omp [a-z0-9_ ()]+|else|endif|ifdef __FP_FAST_FMAF?"
    r"|if !defined\(__FP_FAST_FMAF?\) \|\| defined\(__clang__\)|elif __GNUC__ >= 12)"
)
DIRECTIVES = {"include", "pragma", "endif", "ifdef", "elif", "defined"}
"""Words that mean something behind a # only."""
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,80}")
COMMENT = re.compile(r"//(?: [A-Za-z0-9 _.,:;()\[\]{}=+\-*/%<>|&'\"]*)?")


def comments_of(source):
    """Its lines that are comments."""
    return [line for line in source.splitlines() if line.startswith("//")]


def tokens_of(source):
    """The rest of it, in words."""
    code = [line for line in source.splitlines() if not line.startswith("//")]
    return TOKEN.findall("\n".join(code))


def assert_plain(source):
    """Nothing but printable ASCII and line ends; comments end with their lines."""
    assert source.isascii()
    assert source.replace("\n", "").isprintable()
    assert "\\" not in source and "??" not in source
    for line in comments_of(source):
        assert COMMENT.fullmatch(line), line
        assert len(line) <= 100
    code = "".join(tokens_of(source))
    assert "//" not in code and "/*" not in code
    assert '"' not in code and "'" not in code and "`" not in code and "@" not in code
    for line in code.splitlines():
        if "#" in line:
            assert DIRECTIVE.fullmatch(line), line


def assert_same_but_names(source, reference, strict=True):
    """The text is the reference, but for the names of variables and of the function.

    strict  whether each name of the reference has become one name, and no two the same
    """
    assert_plain(source)
    words, wanted = (
        [" " if word.isspace() else word for word in tokens_of(text)]  # a long name breaks its line
        for text in (source, reference)
    )
    fixed = {word for word in wanted if MARK not in word and len(word) > 1} - DIRECTIVES
    assert len(words) == len(wanted)
    became: dict[str, str] = {}
    for word, other in zip(words, wanted):
        if MARK not in other:
            assert word == other
            continue
        assert NAME.fullmatch(word)
        assert word not in fixed
        if strict:
            assert became.setdefault(other, word) == word
    assert len(set(became.values())) == len(became) > 20 or not strict
