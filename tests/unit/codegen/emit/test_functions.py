"""The functions in the IR's terms: how they are read, that they are IR, and that they are right."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.codegen import Target, generate
from minitensor.codegen.emit.functions import parse_functions
from minitensor.codegen.emit.mathematics import definitions
from minitensor.ir import (
    Alloc,
    Buffer,
    DType,
    For,
    Load,
    Program,
    Scope,
    Store,
    Var,
    evaluate,
    interpret,
    print_expr,
    sequence,
    substitute,
    verify,
)
from minitensor.ir.numbers import FUNCTION
from tests.accuracy import BOUNDS, EXTENDED, borders, exact, powers, special, strided, ulps

CASES = [(name, str(dtype)) for name, dtype in definitions() if hasattr(mt, name)]
"""The functions that users may write; ldexp is a part of exp."""


def parsed(line, params="x: float32"):
    (function,) = parse_functions(f"def f({params}):\n    return {line}").values()
    return print_expr(function.result)


# ---- the language


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("x * 2 + 1.0", "x * 2.0 + 1.0"),
        ("0.0 if x > inf else -x", "select(inf < x, 0.0, -x)"),
        ("x if x >= 1 and x != -inf else nan", "select(1.0 <= x and x != -inf, x, nan)"),
        ("x if not (x < 0 or x == 1) else x", "select(not (x < 0.0 or x == 1.0), x, x)"),
        ("bits(x) >> 23", "reinterpret_int32(x) // 8388608"),
        ("number(bits(x) << 1)", "reinterpret_float32(reinterpret_int32(x) * 2)"),
        ("float64(x) / 3", "float64(x) / 3.0"),
        ("horner(x, 1.0, 2.0, 3.0)", "(3.0 * x + 2.0) * x + 1.0"),
        ("sqrt(abs(x))", "sqrt(abs(x))"),
    ],
)
def test_lines_become_expressions(line, text):
    assert parsed(line) == text


@pytest.mark.parametrize("line", ["sine(x)", "x ** x", "'x'", "y", "x if x else x[0]"])
def test_what_is_not_of_the_language_is_refused(line):
    with pytest.raises((mt.LoweringError, KeyError)):
        parsed(line)


# ---- the definitions


def as_program(function, size):
    """The function in a loop, each of its values in a register of its own."""
    i = Var("i")
    dtypes = {name: value.dtype for name, value in function.values}
    inputs = {p.name: Load(p.name.upper(), (i,), p.dtype) for p in function.params}
    known = {**inputs, **{name: Load(name, (), dtype) for name, dtype in dtypes.items()}}
    stores = [Store(name, (), substitute(value, known)) for name, value in function.values]
    body = sequence(*stores, Store("OUT", (i,), substitute(function.result, known)))
    for name, dtype in dtypes.items():
        body = Alloc(Buffer(name, (), dtype, Scope.REGISTER), body)
    params = [Buffer(p.name.upper(), (size,), p.dtype) for p in function.params]
    params.append(Buffer("OUT", (size,), function.result.dtype))
    return Program(function.name, tuple(params), (), For("i", size, body))


def computed(function, *arrays, defined=True):
    """The values of the function on whole arrays by the interpreter's arithmetic; the functions
    that it calls too, if they are `defined`.
    """
    wide = function.widened(len(arrays[0]))
    values = {p.name: array for p, array in zip(wide.params, arrays)}
    for name, value in wide.values:
        inner = definitions().get((getattr(value, "function", ""), value.dtype.scalar))
        if inner is None or not defined:
            values[name] = evaluate(value, values)
        else:
            values[name] = computed(inner, *[evaluate(a, values) for a in value.args])
    return evaluate(wide.result, values)


def arguments(name, dtype, count):
    kind = np.dtype(dtype).type
    if name == "power":
        x, y = powers(count, 0)
        a, b = np.meshgrid(special(kind), special(kind))
        return np.concatenate([x, a.ravel()]), np.concatenate([y, b.ravel()])
    return (np.concatenate([strided(kind, count, 77), special(kind), borders(name, kind)]),)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_a_definition_is_a_program(name, dtype):
    function = definitions()[name, DType.of(dtype)]
    arrays = [a[::997][:200].copy() for a in arguments(name, dtype, 1 << 16)]
    program = as_program(function, len(arrays[0]))
    verify(program)
    got, _ = interpret(program, arrays)
    np.testing.assert_array_equal(got[0], computed(function, *arrays, defined=False))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_the_interpreter_finds_a_definition_within_its_bound(name, dtype):
    """With every product rounded: C may fuse a product and a sum, and has the same bounds."""
    if dtype == "float64" and not EXTENDED:
        pytest.skip("this machine has no longer floats to compare with")
    count = 1 << 12 if (name, dtype) == ("erf", "float64") else 1 << 17
    arrays = arguments(name, dtype, count)
    if count < 1 << 17:
        arrays = [a[:: max(1, len(a) // 4000)].copy() for a in arrays]
    got = computed(definitions()[name, DType.of(dtype)], *arrays)
    assert got.dtype == dtype
    distance = ulps(got, exact(name, *arrays))
    place = int(np.argmax(distance))
    assert distance[place] <= BOUNDS[dtype][name], [a[place] for a in arrays]


@pytest.mark.parametrize(
    ("name", "end", "bias"), [("ldexp", 130, 0), ("ldexp_nonpositive", 1, 12583103)]
)
def test_ldexp_rounds_once(name, end, bias):
    """As the instruction does that takes its place: in subnormal numbers, and to infinity."""
    n = np.repeat(np.arange(-155, end), 64).astype(np.float32)
    x = np.random.default_rng(0).uniform(0.7, 1.5, n.size).astype(np.float32)
    with np.errstate(over="ignore"):
        exact = np.ldexp(x.astype(np.float64), n.astype(np.int64)).astype(np.float32)
        got = computed(definitions()[name, DType.of("float32")], x, n + np.float32(bias))
        interpreted = FUNCTION[name](x, n + np.float32(bias))
    np.testing.assert_array_equal(got, exact)
    np.testing.assert_array_equal(interpreted, exact)
    assert np.isnan(FUNCTION[name](np.float32("nan"), np.float32("nan")))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exp_of_what_is_never_positive_is_exp_to_the_bit(dtype):
    (x,) = arguments("exp", dtype, 1 << 17)
    x = x[~(x > 0)]
    exp, shorter = (definitions()[n, DType.of(dtype)] for n in ("exp", "exp_nonpositive"))
    np.testing.assert_array_equal(computed(shorter, x), computed(exp, x))


def test_every_function_of_the_contract_has_a_bound():
    assert {(n, d) for d, bounds in BOUNDS.items() for n in bounds} == set(CASES)


# ---- the text


def text_of(function, vectorized, size=16):
    A = mt.placeholder((size,), "float32", name="A")
    C = mt.compute((size,), lambda i: function(A[i]), name="C")
    s = mt.Schedule(mt.lower([A, C]))
    if vectorized:
        s.vectorize("i")
    return generate(s.program, Target("c", num_cores=1, vector_bits=512)).source


def test_a_vector_function_reads_as_its_definition():
    lines = [
        "static inline float32x16 sigmoid_float32x16(float32x16 x) {",
        "    float32x16 e = exp_nonpositive_float32x16(-abs_float32x16(x));",
        "    float32x16 q = select_float32x16((x < 0.0f), e, splat_float32x16(1.0f)) / (1.0f + e);",
        "    return select_float32x16(((x < 0.0f) & (e < 0.5f)), e - e * q, q);",
        "}",
    ]
    assert "\n".join(lines) in text_of(mt.sigmoid, vectorized=True)


def test_a_scalar_function_reads_as_its_definition():
    lines = [
        "static inline float sigmoid_float(float x) {",
        "    float e = exp_nonpositive_float(-fabsf(x));",
        "    float q = (x < 0.0f ? e : 1.0f) / (1.0f + e);",
        "    return x < 0.0f && e < 0.5f ? e - e * q : q;",
        "}",
    ]
    assert "\n".join(lines) in text_of(mt.sigmoid, vectorized=False)


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("name", sorted(BOUNDS["float32"]))
def test_no_call_of_the_library_is_left_in_the_text(name, vectorized):
    if name == "power":
        text = text_of(lambda x: mt.power(x, 2.5), vectorized)
    else:
        text = text_of(getattr(mt, name), vectorized)
    for called in ("expf", "logf", "tanhf", "erff", "powf", "sinf", "log1pf", "exp(", "pow("):
        assert f" {called}" not in text
        assert f"= {called}" not in text


def test_a_vector_is_no_longer_where_its_numbers_are_wider():
    text = text_of(lambda x: mt.power(x, 2.5), vectorized=True)
    assert "float64x8" in text
    assert "float64x16" not in text


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_the_long_way_is_taken_where_a_lane_needs_it(name):
    far = "(1.048576e+06f < abs_float32x8(x))"
    lines = [
        f"    return some_int32x8({far})",
        f"        ? select_float32x8({far}, {name}_far_float32x8(x), turned)",
        "        : turned;",
    ]
    assert "\n".join(lines) in text_of(getattr(mt, name), vectorized=True)
    line = f"    return 1.048576e+06f < fabsf(x) ? {name}_far_float(x) : turned;"
    assert line in text_of(getattr(mt, name), vectorized=False)


def test_division_by_a_power_of_two_is_a_shift():
    A = mt.placeholder((8,), "int32", name="A")
    B = mt.compute((8,), lambda i: (A[i] - 1) // 16 + (A[i] + 1) % 8, name="B")
    s = mt.Schedule(mt.lower([A, B]))
    target = Target("c", num_cores=1, vector_bits=256)
    assert "B[i] = ((A_0 - 1) >> 4) + ((A_0 + 1) & 7);" in generate(s.program, target).source
    s.vectorize("i")
    assert " >> 4" in (text := generate(s.program, target).source)
    assert " & 7" in text
