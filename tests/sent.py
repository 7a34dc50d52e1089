"""What arrives at another process, and text as a module: without naming what does it."""

from __future__ import annotations

import importlib.util
import multiprocessing
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any


def sent(value: Any) -> Any:
    """The value as another process receives it."""
    here, there = multiprocessing.Pipe()
    with here, there:
        here.send(value)
        return there.recv()


def imported(text: str) -> ModuleType:
    """A module from its text: a file is written and imported."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "steps.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location("minitensor_test_steps", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
