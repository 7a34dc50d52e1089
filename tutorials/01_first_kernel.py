"""Lesson 1: from an expression to a kernel.

Run it with `python tutorials/01_first_kernel.py`, or line by line in a notebook.
"""

import numpy as np

import minitensor as mt

# ---- 1. What to compute ------------------------------------------------------------------------
# A blur: each element of Q is the sum of three neighbours of P, and each element of P is twice an
# element of A. We say what one element is; nothing is computed yet.

N = 32
A = mt.placeholder((N + 2,), "float32", name="A")
P = mt.compute((N + 2,), lambda x: A[x] * 2.0, name="P")
Q = mt.compute((N,), lambda y: P[y] + P[y + 1] + P[y + 2], name="Q")

program = mt.lower([A, Q], name="blur")  # A and Q are the arguments; P becomes a temporary
print(program)

# The loops are the plain ones: all of P, then all of Q.
assert "for x in range(34):" in str(program)

# ---- 2. What it means --------------------------------------------------------------------------
# The interpreter runs any program, slowly and carefully, and can count.

a = np.arange(N + 2, dtype="float32")
q, counts = mt.interpret(program, a, counts=True)
assert np.array_equal(q, 2 * (a[:-2] + a[1:-1] + a[2:]))
print("loads of A:", counts.loads["A"], " stores to P:", counts.stores["P"])

# ---- 3. How to compute it ----------------------------------------------------------------------
# All of P is written to memory before any of it is read. Cut Q into tiles of 8, and compute of P
# only what one tile needs, right before it: 8 elements and 2 more (the halo).

s = mt.Schedule(program)
(y,) = s.get_loops("Q")
y_0, y_1 = s.split(y, [None, 8])
s.compute_at("P", y_0)
s.show()

# The price: the halo is computed twice. The interpreter can tell.
_, counts = mt.interpret(s, a, counts=True)
print("stores to P now:", counts.stores["P"])
assert counts.stores["P"] == 4 * 10

# ---- 4. A step that would be wrong is refused --------------------------------------------------
# The message names the rule, shows the place, and says what would be legal. Q is the result of the
# program: it cannot be dissolved into its readers.

try:
    s.compute_inline("Q")
except mt.ScheduleError as error:
    print(error)
    assert error.rule == "R2"

# ---- 5. Machine code ---------------------------------------------------------------------------
# Tiles do not depend on each other (each has its own piece of P), so they can run in parallel, and
# the elements of a tile in the lanes of vector instructions.

s = mt.Schedule(program)
y_0, y_1 = s.split("y", [None, 8])
(p,) = s.compute_at("P", y_0)
s.parallel(y_0)
s.vectorize(y_1)
s.vectorize(p)
print(s.trace.as_python())

try:
    kernel = mt.build(s)
    print(kernel.source)
except mt.CompileError as error:  # no C compiler: the interpreter does the same
    print(error)
    kernel = mt.build(s, target="interpreter")
assert np.array_equal(kernel(a), q)

# Exercise: inline P into Q instead (compute_inline). How many loads of A does that cost, and is it
# faster? `kernel.time(a).median` measures.
inlined = mt.Schedule(program)
inlined.compute_inline("P")
_, counts = mt.interpret(inlined, a, counts=True)
assert counts.loads["A"] == 3 * N
