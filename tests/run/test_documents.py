"""The code in the documents runs."""

import pathlib
import re

import pytest

from tests.sent import imported

DOCS = pathlib.Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["tensorize.md"])
def test_the_code_of_a_page_runs(page, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S)
    assert blocks
    imported("\n".join(blocks))
    printed = capsys.readouterr().out
    assert "breaks R8" in printed
    quoted = "B[k_0*4 + k_1, j_0*16 + j_1] is read where the intrinsic has b[j, k]"
    assert quoted in printed
    assert "axis 0 differs, k_1 where the intrinsic has j_1" in printed
    assert "in tensorize(16):" in printed
    text = (DOCS / page).read_text().replace("\n", " ")
    assert quoted in text
