"""The folder of the course and the package that it is: a lecturer's copy has a name of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
"""The folder, with the lessons in it."""
PACKAGE: Final = __name__.rsplit(".", 2)[0]
"""Its name, as Python imports it."""
INSTALLED: Final = "minitensor_course"
"""The name under which pip installs it; anything else is imported from the folder around it."""
COMMAND: Final = "minitensor course" if PACKAGE == INSTALLED else f"python -m {PACKAGE}"


def import_line(*functions: Callable[..., Any]) -> str:
    """The line of a script that imports functions of one module of the course."""
    return f"from {functions[0].__module__} import {', '.join(f.__name__ for f in functions)}"


def path_lines() -> list[str]:
    """The lines of a script after which it can import the course."""
    if PACKAGE == INSTALLED:
        return []
    return ["import sys", "", f"sys.path.append({str(ROOT.parent)!r})"]
