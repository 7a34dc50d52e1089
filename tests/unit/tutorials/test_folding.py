"""Folding lines of code."""

from tutorials.demo.folding import fold


def test_folding_keeps_every_word_and_cuts_outside_brackets():
    line = "    C[i_0*8 + i_1, j] = max(A[i_0*8 + i_1, j], 0.0)"
    assert fold(line, 42).splitlines() == [
        "    C[i_0*8 + i_1, j] =",
        "          max(A[i_0*8 + i_1, j], 0.0)",
    ]
    assert fold(line, 99) == line


def test_a_line_without_blanks_stays_as_it_is():
    assert fold("x" * 60, 40) == "x" * 60
