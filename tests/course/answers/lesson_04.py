import itertools

import numpy as np

import minitensor as mt
from minitensor import ir

# ---- kinds


def kinds(iters, target, own, combines):
    found = {}
    for name in iters:
        if ir.Var(name) not in target:
            found[name] = "reduce" if combines else "ordered"
        else:
            at = target.index(ir.Var(name))
            same = all(read[at] == ir.Var(name) for read in own)
            found[name] = "spatial" if same else "ordered"
    return found


def kinds_from_the_reads(iters, target, own, combines):
    found = dict.fromkeys(iters, "reduce" if combines else "ordered")
    for place, index in enumerate(target):
        if {read[place] for read in own} <= {index}:
            found[index.name] = "spatial"
    return found


def kinds_by_elimination(iters, target, own, combines):
    indices = [index.name for index in target]
    moved = {name for read in own for name, index in zip(indices, read) if index != ir.Var(name)}
    extra = [name for name in iters if name not in indices]
    kind = ir.IterKind.REDUCE.value if combines else ir.IterKind.ORDERED.value
    return {
        **{name: "ordered" if name in moved else "spatial" for name in indices},
        **dict.fromkeys(extra, kind),
    }


def kinds_without_combines(iters, target, own, combines):
    found = kinds(iters, target, own, combines)
    return {n: found[n] if ir.Var(n) in target else "reduce" for n in iters}


def kinds_of_the_first_read(iters, target, own, combines):
    return kinds(iters, target, own[:1], combines)


def kinds_by_mention(iters, target, own, combines):
    found = kinds(iters, target, [], combines)
    for name in iters:
        if any(not any(ir.mentions(index, name) for index in read) for read in own):
            found[name] = "ordered"
    return found


def kinds_by_a_smaller_index(iters, target, own, combines):
    found = kinds(iters, target, [], combines)
    for read in own:
        for index, place in zip(read, target):
            match index:
                case ir.Binary("+" | "-", ir.Var(name), ir.Const()) if ir.Var(name) == place:
                    found[name] = "ordered"
    return found


def kinds_all_ordered_if_it_reads_itself(iters, target, own, combines):
    return dict.fromkeys(iters, "ordered") if own else kinds(iters, target, own, combines)


def kinds_as_a_list(iters, target, own, combines):
    return list(kinds(iters, target, own, combines).values())


# ---- broken_laws


def broken_laws(combine, identity, values):
    f, found = combine, set()
    if any(f(x, identity) != x or f(identity, x) != x for x in values):
        found.add("identity")
    if any(f(x, y) != f(y, x) for x in values for y in values):
        found.add("commutative")
    if any(f(f(x, y), z) != f(x, f(y, z)) for x in values for y in values for z in values):
        found.add("associative")
    return found


def broken_laws_by_products(combine, identity, values):
    laws = {
        "identity": (1, lambda x: combine(x, identity) == x == combine(identity, x)),
        "commutative": (2, lambda x, y: combine(x, y) == combine(y, x)),
        "associative": (
            3,
            lambda x, y, z: combine(combine(x, y), z) == combine(x, combine(y, z)),
        ),
    }
    return frozenset(
        name
        for name, (count, holds) in laws.items()
        if not all(itertools.starmap(holds, itertools.product(values, repeat=count)))
    )


def broken_laws_by_a_table(combine, identity, values):
    table = {(x, y): combine(x, y) for x in values for y in values}
    broken, n = [], [identity] * len(values)
    sides = [combine(x, y) for x, y in zip(values + n, n + values)]
    if sides != values * 2:
        broken.append("identity")
    if any(table[x, y] != table[y, x] for x, y in table):
        broken.append("commutative")
    if any(
        combine(xy, z) != combine(x, table[y, z]) for (x, y), xy in table.items() for z in values
    ):
        broken.append("associative")
    return broken


def broken_laws_identity_on_one_side(combine, identity, values):
    found = broken_laws(combine, identity, values) - {"identity"}
    return found | ({"identity"} if any(combine(x, identity) != x for x in values) else set())


def broken_laws_of_neighbours(combine, identity, values):
    found = broken_laws(combine, identity, values) - {"commutative"}
    pairs = itertools.pairwise(values)
    return found | (
        {"commutative"} if any(combine(*p) != combine(*p[::-1]) for p in pairs) else set()
    )


def broken_laws_of_three(combine, identity, values):
    return broken_laws(combine, identity, values[:3])


def broken_laws_that_follow(combine, identity, values):
    found = broken_laws(combine, identity, values)
    return found | {"associative"} if "commutative" in found else found


def broken_laws_one_only(combine, identity, values):
    return sorted(broken_laws(combine, identity, values))[:1]


def broken_laws_true_or_false(combine, identity, values):
    return not broken_laws(combine, identity, values)


# ---- define_running_max


def define_running_max(n):
    A = mt.placeholder((n,), "float32", name="A")
    R = mt.update(
        (n,),
        lambda R, i: mt.if_then_else(i > 0, mt.maximum(R[i - 1], A[i]), A[i]),
        name="R",
    )
    return mt.lower([A, R])


def define_running_max_as_reductions(n):
    A = mt.placeholder((n,), "float32", name="A")
    k = mt.reduce_axis(n, name="k")
    lowest = mt.const(float("-inf"), "float32")
    R = mt.compute((n,), lambda i: mt.max(mt.select(k <= i, A[k], lowest), axis=k), name="R")
    return mt.lower([A, R])


def define_running_max_in_rounds(n):
    A = mt.placeholder((n,), "float32", name="A")
    T, step = A, 1
    while step < n:
        T = mt.compute(
            (n,),
            lambda i, T=T, d=step: mt.if_then_else(i >= d, mt.maximum(T[i], T[i - d]), T[i]),
            name=f"T{step}",
        )
        step *= 2
    R = mt.compute((n,), lambda i: T[i], name="R")
    return mt.lower([A, R])


def define_running_max_from_zero(n):
    A = mt.placeholder((n,), "float32", name="A")
    R = mt.update(
        (n,), lambda R, i: mt.maximum(mt.if_then_else(i > 0, R[i - 1], 0.0), A[i]), name="R"
    )
    return mt.lower([A, R])


def define_running_max_of_two(n):
    A = mt.placeholder((n,), "float32", name="A")
    R = mt.compute(
        (n,), lambda i: mt.if_then_else(i > 0, mt.maximum(A[i - 1], A[i]), A[i]), name="R"
    )
    return mt.lower([A, R])


def define_running_max_of_all(n):
    A = mt.placeholder((n,), "float32", name="A")
    k = mt.reduce_axis(n, name="k")
    return mt.lower([A, mt.compute((n,), lambda i: mt.max(A[k], axis=k), name="R")])


def define_running_max_from_two_on(n):
    A = mt.placeholder((n,), "float32", name="A")
    R = mt.update((n,), lambda R, i: mt.maximum(R[i - 1], A[i]), init=-100.0, name="R")
    return mt.lower([A, R])


def define_running_max_no_program(n):
    return np.maximum.accumulate


# ---- define_argmin_rows


def _rows(m, n):
    return mt.placeholder((m, n), "float32", name="A"), mt.reduce_axis(n, name="k")


def _least(better, identity):
    def combine(x, y):
        keep = better(x, y)
        return mt.select(keep, x[0], y[0]), mt.select(keep, x[1], y[1])

    return mt.comm_reducer(combine, identity, "least")


def _first_of_equal(x, y):
    return mt.logical_or(x[1] < y[1], mt.logical_and(x[1] == y[1], x[0] < y[0]))


FURTHEST = 2**63 - 1


def _by_reducer(m, n, reducer):
    A, k = _rows(m, n)
    P, V = mt.compute(
        (m,), lambda i: reducer((k.astype("int64"), A[i, k]), axis=k), name=("P", "V")
    )
    return mt.lower([A, P, V])


def define_argmin_rows(m, n):
    return _by_reducer(m, n, _least(_first_of_equal, (FURTHEST, float("inf"))))


def define_argmin_rows_in_two_steps(m, n):
    A, k = _rows(m, n)
    V = mt.compute((m,), lambda i: mt.min(A[i, k], axis=k), name="V")
    j = mt.reduce_axis(n, name="j")
    P = mt.compute(
        (m,),
        lambda i: mt.min(
            mt.select(A[i, j] == V[i], j.astype("int64"), mt.const(n, "int64")), axis=j
        ),
        name="P",
    )
    return mt.lower([A, P, V])


def define_argmin_rows_in_order(m, n):
    A, k = _rows(m, n)

    def step(P, V, i):
        better = mt.logical_or(k == 0, A[i, k] < V[i])
        return mt.select(better, k, P[i]), mt.select(better, A[i, k], V[i])

    P, V = mt.update((m,), step, axis=k, init=(0, 0.0), dtype=("int64", "float32"), name=("P", "V"))
    return mt.lower([A, P, V])


def define_argmin_rows_from_zero(m, n):
    A, k = _rows(m, n)

    def step(P, V, i):
        better = A[i, k] < V[i]
        return mt.select(better, k, P[i]), mt.select(better, A[i, k], V[i])

    P, V = mt.update((m,), step, axis=k, init=(0, 0.0), dtype=("int64", "float32"), name=("P", "V"))
    return mt.lower([A, P, V])


def define_argmin_rows_that_keep_x(m, n):
    return _by_reducer(m, n, _least(lambda x, y: x[1] <= y[1], (0, float("inf"))))


def define_argmin_rows_to_a_finite_end(m, n):
    return _by_reducer(m, n, _least(_first_of_equal, (FURTHEST, 1e9)))


def define_argmin_rows_the_last(m, n):
    def better(x, y):
        return mt.logical_or(x[1] < y[1], mt.logical_and(x[1] == y[1], x[0] > y[0]))

    return _by_reducer(m, n, _least(better, (-1, float("inf"))))


def define_argmin_rows_values_first(m, n):
    A, k = _rows(m, n)
    least = _least(_first_of_equal, (FURTHEST, float("inf")))
    P, V = mt.compute((m,), lambda i: least((k.astype("int64"), A[i, k]), axis=k), name=("P", "V"))
    return mt.lower([A, V, P])


def define_argmin_rows_the_greatest(m, n):
    A, k = _rows(m, n)
    V = mt.compute((m,), lambda i: mt.max(A[i, k], axis=k), name="V")
    P = mt.compute((m,), lambda i: mt.min(mt.select(A[i, 0] == V[i], k, 0), axis=k), name="P")
    return mt.lower([A, P, V])


def define_argmin_rows_by_the_system(m, n):
    A, k = _rows(m, n)
    P = mt.compute((m,), lambda i: mt.argmin(A[i, k], axis=k), name="P")
    return mt.lower([A, P])


RIGHT = {
    "kinds": [kinds, kinds_from_the_reads, kinds_by_elimination],
    "broken_laws": [broken_laws, broken_laws_by_products, broken_laws_by_a_table],
    "define_running_max": [
        define_running_max,
        define_running_max_as_reductions,
        define_running_max_in_rounds,
    ],
    "define_argmin_rows": [
        define_argmin_rows,
        define_argmin_rows_in_two_steps,
        define_argmin_rows_in_order,
    ],
}
WRONG = {
    "kinds": [
        (kinds_without_combines, "'ordered'"),
        (kinds_of_the_first_read, "reads of the same tensor"),
        (kinds_by_mention, "reads of the same tensor"),
        (kinds_by_a_smaller_index, "reads of the same tensor"),
        (kinds_all_ordered_if_it_reads_itself, "reads of the same tensor"),
        (kinds_as_a_list, "not ["),
    ],
    "broken_laws": [
        (broken_laws_identity_on_one_side, "identity (for"),
        (broken_laws_of_neighbours, "commutative (for"),
        (broken_laws_of_three, "the broken laws are"),
        (broken_laws_that_follow, "the broken laws are commutative"),
        (broken_laws_one_only, "the broken laws are"),
        (broken_laws_true_or_false, "not True"),
    ],
    "define_running_max": [
        (define_running_max_from_zero, "R[0] is"),
        (define_running_max_of_two, "R["),
        (define_running_max_of_all, "R[0] is"),
        (define_running_max_from_two_on, "LoweringError"),
        (define_running_max_no_program, "a program is wanted"),
    ],
    "define_argmin_rows": [
        (define_argmin_rows_from_zero, "is"),
        (define_argmin_rows_that_keep_x, "not commutative"),
        (define_argmin_rows_to_a_finite_end, "P[0] is 9223372036854775807, not 0"),
        (define_argmin_rows_the_last, "P[0] is"),
        (define_argmin_rows_values_first, "the inputs and outputs are"),
        (define_argmin_rows_the_greatest, "is"),
        (define_argmin_rows_by_the_system, "is to do without"),
    ],
}
