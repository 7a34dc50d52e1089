"""The page on networks lists the operators that are read."""

import pathlib
import re

from minitensor.graph.onnx.convert import CONVERTERS
from minitensor.graph.onnx.fold import FOLDERS

PAGE = pathlib.Path(__file__).parents[4] / "docs/networks.md"


def test_the_page_lists_every_operator():
    text = PAGE.read_text().split("<!-- operators -->")[1].split("<!-- end -->")[0]
    assert re.findall(r"\w+", text) == sorted(CONVERTERS | FOLDERS)
