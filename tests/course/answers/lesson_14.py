import numpy as np

import minitensor as mt
from minitensor import ir
from minitensor.testing import evaluate_by_numpy, small_arrays


def subjects(n=11, m=6):
    """Programs that most faults change."""
    A = mt.placeholder((n, m), "float32", name="A")
    B = mt.placeholder((n, m), "float32", name="B")
    S = mt.placeholder((n, n), "float32", name="S")
    k = mt.reduce_axis(m, name="k")
    difference = mt.compute((n, m), lambda i, j: A[i, j] - B[i, j] * 2, name="D")
    near = mt.compute((n - 2, m), lambda i, j: A[i, j] + A[i + 2, j], name="H")
    rows = mt.compute((n,), lambda i: mt.sum(A[i, k], axis=k), name="R")
    largest = mt.compute((n,), lambda i: mt.max(A[i, k] - 9.0, axis=k), name="M")
    scan = mt.update((n,), lambda W, i: A[i, 0] + mt.if_then_else(i > 0, W[i - 1], 0.0), name="W")
    square = mt.compute((n, n), lambda i, j: S[i, j] * 2, name="T")
    return [
        mt.lower([A, B, difference]),
        mt.lower([A, near]),
        mt.lower([A, rows]),
        mt.lower([A, largest]),
        mt.lower([A, scan]),
        mt.lower([S, square]),
    ]


def integers(program, seed):
    rng = np.random.default_rng(seed)
    return [rng.integers(-4, 5, b.shape).astype("float32") for b in program.inputs]


def check(transform):
    for program in subjects():
        for seed in range(2):
            arrays = integers(program, seed)
            want = mt.interpret(program, *arrays)
            try:
                found = mt.interpret(transform(program), *arrays)
            except mt.MinitensorError:
                return False
            if not np.array_equal(want, found):
                return False
    return True


def check_by_numpy(transform):
    right = True
    for program in subjects(13, 9):
        arrays = small_arrays(program, 3)
        (want,) = evaluate_by_numpy(program, arrays)
        try:
            right &= bool((mt.interpret(transform(program), *arrays) == want).all())
        except mt.ExecutionError:
            right = False
    return right


def check_with_a_tolerance(transform):
    rng = np.random.default_rng(5)

    def same(program):
        arrays = [rng.standard_normal(b.shape).astype("float32") for b in program.inputs]
        try:
            found = mt.interpret(transform(program), *arrays)
        except mt.ExecutionError:
            return False
        return np.allclose(mt.interpret(program, *arrays), found, rtol=1e-4, atol=1e-5)

    return np.bool_(all(same(program) for n in (1, 2, 11) for program in subjects(n + 2, n)))


def check_nothing(transform):
    return True


def check_round_sizes(transform):
    A = mt.placeholder((421,), "float32", name="A")
    B = mt.placeholder((421,), "float32", name="B")
    D = mt.compute((420,), lambda i: A[i + 1] - B[i], name="D")
    return check_on(transform, [mt.lower([A, B, D])]) and check_on(transform, subjects(), "tile")


def check_on(transform, programs, skip=""):
    for program in programs:
        try:
            new = transform(program)
            if skip and any(skip in loop for loop in ir.loop_sites(new)):
                continue
            found = mt.interpret(new, *integers(program, 1))
        except mt.ExecutionError:
            return False
        if not np.array_equal(mt.interpret(program, *integers(program, 1)), found):
            return False
    return True


def check_without_a_scan(transform):
    return check_on(transform, [p for p in subjects() if p.outputs[0].name != "W"])


def check_without_a_square(transform):
    return check_on(transform, subjects()[:-1])


def check_exactly(transform):
    rng = np.random.default_rng(0)
    for program in subjects():
        arrays = [rng.random(b.shape).astype("float32") - 0.5 for b in program.inputs]
        try:
            found = mt.interpret(transform(program), *arrays)
        except mt.ExecutionError:
            return False
        if not np.array_equal(mt.interpret(program, *arrays), found):
            return False
    return True


def check_with_zeros(transform):
    for program in subjects():
        arrays = [np.zeros(b.shape, "float32") for b in program.inputs]
        try:
            found = mt.interpret(transform(program), *arrays)
        except mt.ExecutionError:
            return False
        if not np.array_equal(mt.interpret(program, *arrays), found):
            return False
    return True


def check_that_raises(transform):
    for program in subjects():
        arrays = integers(program, 1)
        if not np.array_equal(
            mt.interpret(program, *arrays), mt.interpret(transform(program), *arrays)
        ):
            return False
    return True


def check_that_says_a_number(transform):
    return 1 if check(transform) else 0


def arrays(program, seed):
    rng = np.random.default_rng(seed)
    found = []
    for b in program.inputs:
        dtype = ir.numpy_dtype(b.dtype)
        low, high = {"b": (0, 2), "u": (0, 5)}.get(dtype.kind, (-4, 5))
        found.append(rng.integers(low, high, b.shape).astype(dtype))
    return found


def arrays_of_halves(program, seed):
    rng = np.random.default_rng([seed, 1])

    def one(b):
        dtype = ir.numpy_dtype(b.dtype)
        values = rng.integers(-16, 17, b.shape)
        if dtype.kind == "f":
            return (values / 2).astype(dtype)
        return np.abs(values).astype(dtype) if dtype.kind == "u" else (values % 3 - 1).astype(dtype)

    return tuple(one(b) for b in program.inputs)


def arrays_by_the_library(program, seed):
    return small_arrays(program, seed)


def arrays_of_zeros(program, seed):
    return [np.zeros(b.shape, ir.numpy_dtype(b.dtype)) for b in program.inputs]


def arrays_of_floats(program, seed):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(b.shape).astype(ir.numpy_dtype(b.dtype)) for b in program.inputs]


def arrays_all_alike(program, seed):
    found = []
    for b in program.inputs:
        rng = np.random.default_rng(seed)
        dtype = ir.numpy_dtype(b.dtype)
        found.append(rng.integers(0 if dtype.kind in "bu" else -1, 2, b.shape).astype(dtype))
    return found


def arrays_that_are_positive(program, seed):
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 2 if b.dtype.kind == "bool" else 9, b.shape).astype(ir.numpy_dtype(b.dtype))
        for b in program.inputs
    ]


def arrays_in_doubles(program, seed):
    return [a.astype("float64") for a in arrays(program, seed)]


def arrays_of_one_seed(program, seed):
    return arrays(program, 0)


RNG = np.random.default_rng(0)


def arrays_that_go_on(program, seed):
    return arrays(program, int(RNG.integers(1 << 30)))


def smaller(case, fails):
    n = 0
    while n < len(case):
        rest = case[:n] + case[n + 1 :]
        if fails(rest):
            case = rest
        else:
            n += 1
    for n in range(len(case)):
        while case[n] > 0 and fails([*case[:n], case[n] - 1, *case[n + 1 :]]):
            case[n] -= 1
    return case


def smaller_by_halves(case, fails):
    size = max(1, len(case) // 2)
    while size:
        start = 0
        while start < len(case):
            rest = case[:start] + case[start + size :]
            case, start = (rest, start) if fails(rest) else (case, start + size)
        size //= 2
    for n in range(len(case)):
        low, high = -1, case[n]
        while high - low > 1:
            middle = (low + high) // 2
            if fails([*case[:n], middle, *case[n + 1 :]]):
                high = middle
            else:
                low = middle
        case = [*case[:n], high, *case[n + 1 :]]
    return case


def smaller_again_and_again(case, fails):
    def nearer(case):
        for n in range(len(case)):
            yield case[:n] + case[n + 1 :]
        for n, value in enumerate(case):
            if value:
                yield [*case[:n], value // 2, *case[n + 1 :]]
                yield [*case[:n], value - 1, *case[n + 1 :]]

    while True:
        still = next((c for c in nearer(case) if fails(c)), None)
        if still is None:
            return tuple(case)
        case = still


def smaller_not_at_all(case, fails):
    return case


def smaller_in_length_only(case, fails):
    n = 0
    while n < len(case):
        rest = case[:n] + case[n + 1 :]
        case, n = (rest, n) if fails(rest) else (case, n + 1)
    return case


def smaller_by_halves_only(case, fails):
    case = smaller_in_length_only(case, fails)
    for n in range(len(case)):
        while case[n] and fails([*case[:n], case[n] // 2, *case[n + 1 :]]):
            case[n] //= 2
    return case


def smaller_that_passes(case, fails):
    while fails(case):
        if not case:
            return case
        case = case[1:]
    return case


def smaller_from_both_ends(case, fails):
    while case and fails(case[1:]):
        case = case[1:]
    while case and fails(case[:-1]):
        case = case[:-1]
    return smaller_by_halves_only(case, fails) if len(case) < 2 else case


def smaller_by_chance(case, fails):
    rng = np.random.default_rng(0)
    for _ in range(30_000):
        some = [v for v in case if rng.random() < 0.9]
        case = some if fails(some) else case
    return smaller(case, fails)


RIGHT = {
    "check": [check, check_by_numpy, check_with_a_tolerance],
    "arrays": [arrays, arrays_of_halves, arrays_by_the_library],
    "smaller": [smaller, smaller_by_halves, smaller_again_and_again],
}
WRONG = {
    "check": [
        (check_nothing, "does not find the fault"),
        (check_round_sizes, "tile"),
        (check_without_a_scan, "that runs updates in order backwards"),
        (check_without_a_square, "that reads a square array with its axes exchanged"),
        (check_exactly, "accuses a transformation that runs sums backwards"),
        (check_with_zeros, "does not find the fault"),
        (check_that_raises, "an error of the interpreter is a finding"),
        (check_that_says_a_number, "something else than True or False"),
    ],
    "arrays": [
        (arrays_of_zeros, "gives the same as after a transformation"),
        (arrays_of_floats, "they are rounded"),
        (arrays_all_alike, "that exchanges the operands of -"),
        (arrays_that_are_positive, "that starts maxima from 0"),
        (arrays_in_doubles, "has to be"),
        (arrays_of_one_seed, "give the same arrays"),
        (arrays_that_go_on, "the second time"),
    ],
    "smaller": [
        (smaller_not_at_all, "too"),
        (smaller_in_length_only, "less by 1 too"),
        (smaller_by_halves_only, "less by 1 too"),
        (smaller_that_passes, "does not fail"),
        (smaller_from_both_ends, "fails"),
        (smaller_by_chance, "more than 20,000 times"),
    ],
}
