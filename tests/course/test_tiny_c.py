"""The part of C that a judge reads: what it does, and what it refuses."""

import pytest

from tutorials.judges.tiny_c import MOST_STEPS, WrongTextError, parse, run


def outcome(text, a=(1, 2, 3), n=4):
    rows = {"A": list(a), "B": [0] * n}
    run(parse(text), rows)
    return rows["B"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("7 - 2 - 1", 4),
        ("7 - (2 - 1)", 6),
        ("2 + 3 * -4", -10),
        ("-7 / 2", -3),
        ("-7 % 4", -3),
        ("7.0 / 2", 3.5),
        ("(int64_t)3.9f + (float)1", 4.0),
        ("1 < 2 && !(3 <= 2) || 0", 1),
        ("A[1] == 2 ? A[2] : A[9]", 3),
        ("1.5e1f + .5", 15.5),
    ],
)
def test_values(value, found):
    assert outcome(f"B[0] = {value};")[0] == found


def test_loops_conditions_and_variables():
    text = """
    // squares
    for (size_t i = 0; i <= 3; i += 1) { /* all */
        int64_t x = i * i;
        if (x > 1) B[i] = x; else { B[i] = -1; }
        B[i] += 10;
    }
    """
    assert outcome(text) == [9, 9, 14, 19]
    assert outcome("for (int i = 0; i < 2; ++i) for (int j = 2; j < 4; j++) B[j] += 1;")[2] == 2


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("B[4] = 1;", "B[4] is outside: B has 4 elements"),
        ("B[-1] = 1;", "outside"),
        ("B[0.5] = 1;", "an index is an integer"),
        ("\nC[0] = 1;", "line 2: there is no array C"),
        ("B[0] = A;", "an array, which has no value"),
        ("B[0] = x;", "x is not known"),
        ("x = 1;", "not declared"),
        ("for (int i = 0; i < 2; ++i) {} B[i] = 1;", "i is not known"),
        ("B[0] = 1", "line 1: expected ;, found the end"),
        ("B[0] = 1 / 0;", "division by zero"),
        ("B[0] = (int)(1e308 * 10);", "no number"),
        ("B[] = 1;", "expected a name, found ]"),
        ("for (int i = 0; i < 2; ++i) {", "expected a name, found the end"),
        ("B[0] = system(1);", "expected ;"),
        ("B[0] = @;", "'@' is not in this part of C"),
        ("for (int i = 0; i < 1; i *= 2) ;", f"more than {MOST_STEPS:,} steps"),
        ("B[0] = " + "(" * 999 + "1" + ")" * 999 + ";", "levels"),
        ("B[0] = " + "- " * 999 + "1;", "levels"),
        ("B[0] = " + "1+" * 999 + "1;", "a shorter expression"),
        ("{" * 999, "levels"),
        (";" * 20_001, "characters"),
        ("int x = 3; for (int i = 0; i < 99; ++i) x *= x; B[0] = x;", "62 bits"),
    ],
)
def test_what_is_refused(text, part):
    with pytest.raises(WrongTextError) as caught:
        outcome(text)
    assert part in str(caught.value)


@pytest.mark.usefixtures("shallow")
def test_long_chains_in_deep_brackets_are_refused():
    text = "1"
    for _ in range(25):
        text = f"({text}{'+1' * 200})"
    with pytest.raises(WrongTextError, match="too deep"):
        outcome(f"B[0] = {text};")
