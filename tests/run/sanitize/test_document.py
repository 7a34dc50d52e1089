"""The code in docs/sanitizers.md runs, and says what the page says."""

import pathlib
import re

import pytest

from tests.sent import imported

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "sanitizers.md"


@pytest.mark.slow
def test_the_code_of_the_page_runs(capsys):
    text = PAGE.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    assert len(blocks) == 2
    imported("\n".join(blocks))
    printed = capsys.readouterr().out.splitlines()
    told = text.partition("three checkers say so:\n\n")[2].partition("    …")[0]
    quoted = re.sub(r"\n +\(", " (", told)
    for line in quoted.strip().splitlines():
        assert line.strip() in printed
    assert printed[-2] == "0 1 0"
    assert re.fullmatch("0 1 [1-9]", printed[-1])
