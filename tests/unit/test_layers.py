"""The house rules that a machine can hold: layers, doors, imports, size.

What runs text or unpickles is looked for by test_security.py.
"""

import ast
import functools
import pathlib
import sys

import pytest

import minitensor

ROOT = pathlib.Path(minitensor.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

LAYERS = {
    "errors": set(),
    "version": set(),
    "interrupt": set(),
    "garbage": set(),
    "phrasebook": {"errors"},
    "answers": {"phrasebook", "errors"},
    "looks": set(),
    "userfile": {"errors"},
    "system": {"errors"},
    "ir": {"looks", "errors"},
    "arith": {"ir", "errors"},
    "lang": {"answers", "looks", "arith", "ir", "phrasebook", "errors"},
    "pictures": {"looks", "arith", "ir", "errors"},
    "schedule": {"looks", "pictures", "arith", "ir", "phrasebook", "errors"},
    "codegen": {"arith", "ir", "errors"},
    "gpu": {"looks", "pictures", "codegen", "arith", "ir", "errors"},
    "runtime": {"looks", "codegen", "ir", "phrasebook", "system", "errors", "version"},
    "sanitize": {"runtime", "codegen", "ir", "system", "phrasebook", "errors"},
    "accelerator": {
        *("pictures", "looks", "runtime", "codegen", "lang", "arith", "answers", "ir"),
        *("phrasebook", "errors"),
    },
    "graph": {
        "garbage",
        "pictures",
        "looks",
        "runtime",
        "codegen",
        "schedule",
        "lang",
        "ir",
        "phrasebook",
        "errors",
    },
    "api": {
        *(
            "accelerator",
            "answers",
            "graph",
            "looks",
            "runtime",
            "gpu",
            "codegen",
            "schedule",
            "pictures",
            "lang",
            "arith",
            "ir",
            "phrasebook",
            "errors",
        ),
    },
}
LAYERS["search"] = {*LAYERS, "api"}
LAYERS["testing"] = {*LAYERS, "api"}
LAYERS["networks"] = {*LAYERS, "search"} - {"testing"}
LAYERS["cli"] = LAYERS["__main__"] = LAYERS["__init__"] = {*LAYERS, "cli"}
"""What each package may import: those to its left in the path of a tensor program."""

THIRD_PARTY = {"numpy"}
NOT_EVERYWHERE = {
    "asyncio",
    "_cffi_backend",
    "cffi",
    "ctypes",
    "fcntl",
    "mmap",
    "resource",
    "subprocess",
}
"""Modules that some Pythons lack: `minitensor.system` imports them when they are used."""
OPTIONAL = {
    "onnx": {"graph"},
    "onnxruntime": {"cli"},
    "hypothesis": {"testing"},
    "rich": {"cli", "search", "looks"},
    "distributed": {"search", "cli"},
}
NEEDS_HYPOTHESIS = "minitensor.testing"
OUTSIDE = {"tutorials", "minitensor_course", "benchmarks", "tests", "docs"}


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def room(path: pathlib.Path) -> str:
    """The package a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@functools.cache
def contents(path: pathlib.Path) -> tuple[list, list[int]]:
    """(module, names, inside a function, only for type checking) for each import of a file, and the
    lines of asserts that have a message.
    """
    tree = ast.parse(path.read_text())
    asserts = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Assert) and n.msg is not None]
    return list(found_imports(tree)), asserts


def imports(path: pathlib.Path) -> list:
    return contents(path)[0]


def found_imports(tree: ast.Module):
    pending: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    while pending:
        node, inside, typing_only = pending.pop()
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield node.module, [a.name for a in node.names], inside, typing_only
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, [], inside, typing_only
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = True
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            typing_only = True
        below = (child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr))
        pending += [(child, inside, typing_only) for child in below]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
class TestFile:
    def test_imports_point_left_and_through_doors(self, path):
        own = room(path)
        for module, names, _, _ in imports(path):
            parts = module.split(".")
            if parts[0] != "minitensor":
                continue
            if len(parts) == 1:
                targets = [n for n in names if n in LAYERS]
            else:
                targets = [parts[1]]
            for target in targets:
                if target == own:
                    continue
                assert target in LAYERS[own], f"{own} may not import {target}"
                inner = len(parts) > 2
                assert not inner, f"{module} is imported past the door of {target}"

    def test_no_import_inside_a_function(self, path):
        for module, _, inside, _ in imports(path):
            if inside:
                optional = module.split(".")[0] in OPTIONAL or module == NEEDS_HYPOTHESIS
                assert optional, f"{module} is imported in a function"

    def test_only_the_required_dependencies(self, path):
        for module, _, _, _ in imports(path):
            top = module.split(".")[0]
            if top in THIRD_PARTY:
                continue
            if top in NOT_EVERYWHERE:
                assert room(path) == "system", f"{top} is imported past minitensor.system"
                continue
            if top in OPTIONAL:
                assert room(path) in OPTIONAL[top]
            else:
                assert top in ("minitensor", "__future__") or top in STANDARD, top

    def test_the_course_and_the_benchmarks_are_not_imported(self, path):
        """They import minitensor. Their names do not stand in it as modules to start either."""
        names = {m.split(".")[0] for m, *_ in imports(path)}
        assert not names & OUTSIDE
        texts = [n.value for n in ast.walk(ast.parse(path.read_text())) if is_text(n)]
        assert not [t for t in texts if t.split(".")[0] in OUTSIDE and t.isascii() and " " not in t]

    def test_no_bare_assert_guards_a_users_input(self, path):
        """`assert` narrows types only: it has no message, so it is never an answer to a user."""
        if room(path) == "testing":
            return
        assert contents(path)[1] == []

    def test_a_file_is_read_in_one_sitting(self, path):
        assert len(path.read_text().splitlines()) <= 450


STANDARD = set(sys.stdlib_module_names)


def test_every_package_has_a_door_that_lists_its_names():
    for package in sorted(p for p in ROOT.iterdir() if (p / "__init__.py").exists()):
        tree = ast.parse((package / "__init__.py").read_text())
        assert ast.get_docstring(tree), f"{package.name} says what it is"
        assigned = [t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets]
        assert "__all__" in assigned or package.name == "cli", package.name


def test_public_names_are_those_of_the_contract():
    for name in CONTRACT:
        assert hasattr(minitensor, name), name


CONTRACT = [
    "placeholder",
    "compute",
    "reduce_axis",
    "lower",
    "Schedule",
    "Trace",
    "build",
    "load_best",
    "tune",
    "interpret",
    "verify",
    "simplify",
    "Target",
    "sum",
    "prod",
    "max",
    "min",
    "all",
    "any",
    "argmax",
    "argmin",
    "comm_reducer",
    "select",
    "if_then_else",
    "logical_and",
    "logical_or",
    "logical_not",
    "minimum",
    "maximum",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "tanh",
    "sigmoid",
    "erf",
    "sin",
    "cos",
    "log1p",
    "expm1",
    "abs",
    "floor",
    "ceil",
    "round",
    "power",
    "workloads",
    "MinitensorError",
    "ArgumentError",
    "ScheduleError",
    "LoweringError",
    "VerifyError",
    "CompileError",
    "MeasureError",
    "TuningError",
]


def file_of(module: pathlib.Path) -> pathlib.Path | None:
    """The file of a module, or of a package's door; None if there is none."""
    files = (module.with_suffix(".py"), module / "__init__.py")
    return next((file for file in files if file.exists()), None)


def imported_files(path: pathlib.Path) -> set[pathlib.Path]:
    """The files of this project that a file imports, those for type checking included."""
    found = set()
    for module, names, _, _ in imports(path):
        first, *parts = (module or "").split(".")
        if first == "minitensor":
            base = ROOT.joinpath(*parts)
            found |= {file_of(base / name) or file_of(base) for name in names or [""]}
    return {file for file in found if file is not None}


def test_no_files_import_each_other_in_a_circle():
    left = {path: imported_files(path) - {path} for path in FILES}
    while True:
        used = set().union(*left.values())
        ends = [path for path in left if path not in used or not left[path] & left.keys()]
        if not ends:
            break
        for path in ends:
            del left[path]
    assert not left, sorted(str(path.relative_to(ROOT)) for path in left)
