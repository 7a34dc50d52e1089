"""A first import that is light, and possible where C cannot be compiled or loaded."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EIGHTS = [[8.0] * 8] * 8
WORKS = {
    "interpret": EIGHTS,
    "build": EIGHTS,
    "bind": EIGHTS,
    "verify": None,
    "sketches": 6,
    "space": 6,
    "features": [1, 164],
    "trees": [10],
    "doctor": ["cffi", "C compiler"],
    "command": 2,
}
TEXTS = {
    "replay": "for j_1 in vectorize(4):",
    "text": "int matmul_kernel(",
    "explain": "1 vector of 4 lanes",
}
MISSED = {
    "compiled": ("CompileError", "no module subprocess, which starts the compiler"),
    "emulated": ("CompileError", "no module subprocess, which starts the compiler"),
    "tune": ("CompileError", "no module subprocess, which starts the compiler"),
    "log": ("MinitensorError", "no module fcntl, which locks logs"),
    "guards": ("MeasureError", "no module mmap, which makes guard pages"),
}
REMEDY = 'target="interpreter"'


def tried(**variables):
    """The outcomes of `tests.browser` by name."""
    words = [sys.executable, "-m", "tests.browser"]
    environment = {**os.environ, **variables}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return {found.pop("name"): found for found in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def without_modules(tmp_path_factory):
    return tried(MINITENSOR_CACHE_DIR=str(tmp_path_factory.mktemp("cache")), CC="")


@pytest.fixture(scope="module")
def without_compiler(tmp_path_factory):
    return tried(MINITENSOR_CACHE_DIR=str(tmp_path_factory.mktemp("cache")), CC="", PATH="/nowhere")


@pytest.fixture(params=["without_modules", "without_compiler"])
def outcomes(request):
    return request.getfixturevalue(request.param)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKS)
def test_what_needs_no_compiler_works(outcomes, name):
    assert outcomes[name] == {"value": WORKS[name]}


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
def test_texts_need_no_compiler(outcomes, name):
    assert TEXTS[name] in outcomes[name]["value"]


@pytest.mark.slow
def test_legality_and_costs_need_no_compiler(outcomes):
    assert outcomes["legality"]["message"].startswith('parallel("k") breaks R2')
    assert 0 < outcomes["gpu cost"]["value"] < 1


@pytest.mark.parametrize("name", MISSED)
def test_a_missing_module_is_named_where_it_is_used(without_modules, name):
    kind, words = MISSED[name]
    assert without_modules[name]["error"] == kind
    assert words in without_modules[name]["message"]
    assert REMEDY in without_modules[name]["message"]


@pytest.mark.parametrize("name", ["compiled", "emulated", "tune"])
def test_a_missing_compiler_is_named_where_it_is_used(without_compiler, name):
    assert without_compiler[name]["error"] == "CompileError"
    assert "no C compiler is found" in without_compiler[name]["message"]
    assert REMEDY in without_compiler[name]["message"]


def test_a_definition_and_its_schedule_import_no_more_than_they_need():
    """The rest comes with its first use: what a name needs is no reason to wait for it."""
    text = (
        "import sys, minitensor as mt; early = set(sys.modules); mt.build; "
        "print(*{m for m in early if m.startswith('minitensor.') and m.count('.') == 1})"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    rooms = {module.partition(".")[2] for module in done.stdout.split()}
    assert not rooms & {"api", "cli", "codegen", "gpu", "runtime", "sanitize", "search", "testing"}
    assert {"ir", "lang", "schedule"} <= rooms


@pytest.mark.slow
def test_no_class_variable_is_without_its_type():
    """Python 3.10 cannot read the types of a class with a bare ClassVar, as those of nodes are."""
    bare = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "minitensor").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "ClassVar"
    ]
    assert bare == []
