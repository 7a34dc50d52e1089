"""Nothing in the repository runs text or unpickles: held over every Python file, and tested itself.

What a user's own Python file says is run where it is asked for, by `import`; nothing else that a
user types becomes code.
"""

import ast
import pathlib

import pytest

import minitensor

ROOT = pathlib.Path(minitensor.__file__).parents[1]
FOLDERS = ("minitensor", "tests", "benchmarks", "tutorials", "docs")

MODULES = {
    *("pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"),
    *("code", "codeop", "pty", "commands", "jsonpickle", "yaml"),
}
"""What is not imported: it loads objects, or runs text."""

BUILTINS = {"eval", "exec", "compile", "__import__", "execfile"}
"""What is not called, by this name or as an attribute of builtins."""

CALLS = {
    *("os.system", "os.popen", "os.execv", "os.execve", "os.execvp", "os.execvpe", "os.execl"),
    *("os.execle", "os.execlp", "os.execlpe", "os.spawnl", "os.spawnle", "os.spawnlp"),
    *("os.spawnlpe", "os.spawnv", "os.spawnve", "os.spawnvp", "os.spawnvpe", "os.posix_spawn"),
    *("os.posix_spawnp", "os.startfile", "subprocess.getoutput", "subprocess.getstatusoutput"),
    *("asyncio.create_subprocess_shell", "importlib.__import__", "runpy.run_path"),
    *("runpy.run_module", "tempfile.mktemp"),
    *("builtins.eval", "builtins.exec", "builtins.compile", "builtins.__import__"),
    *("np.DataSource", "numpy.DataSource", "torch.load", "pd.read_pickle"),
}
"""What is not called, by its dotted name."""

KEYWORDS = {"shell", "allow_pickle"}
"""Keywords that are not given, unless as False."""

METHODS = {"dumps_pickle", "to_pickle", "read_pickle", "exec_module", "load_module"}
"""What is not called on anything, but for the exceptions below."""

EXCEPTIONS = {
    ("minitensor/search/ledger.py", "compile"): "the name of a phase, which is a field",
    ("minitensor/userfile.py", "exec_module"): "runs the file that a user names to be run",
    ("tests/sent.py", "exec_module"): "imports what a test has written",
    ("tutorials/conftest.py", "runpy.run_path"): "a lesson is a script",
    ("tutorials/web/tab.py", "code"): "a cell is what the reader of a page runs, in the page",
    ("tutorials/web/tab.py", "compile"): "a cell is what the reader of a page runs, in the page",
}
"""(file, what) that is allowed, and why."""


def dotted(node):
    """`a.b.c` as text; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None


def forbidden(text):
    """(line, what) for each forbidden thing in Python text."""
    return [found for node in ast.walk(ast.parse(text)) for found in _forbidden(node)]


def _forbidden(node):
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
        for alias in node.names:
            if f"{node.module}.{alias.name}" in CALLS:
                yield node.lineno, f"{node.module}.{alias.name}"
    else:
        names = []
    for name in names:
        if name.split(".")[0] in MODULES:
            yield node.lineno, name
    if isinstance(node, ast.Name) and node.id in BUILTINS:  # called, passed on, or renamed
        yield node.lineno, node.id
    if isinstance(node, ast.Attribute):
        if dotted(node) in CALLS:
            yield node.lineno, dotted(node)
        if node.attr in METHODS:
            yield node.lineno, node.attr
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            harmless = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            if keyword.arg in KEYWORDS and not harmless:
                yield node.lineno, f"{keyword.arg}="
        attribute = dotted(node.func)
        if attribute in ("getattr", "setattr") and len(node.args) > 1:
            name = node.args[1]
            if isinstance(name, ast.Constant) and name.value in BUILTINS | {"system", "popen"}:
                yield node.lineno, f"{attribute} {name.value}"


def files():
    """Every Python file of the repository."""
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def test_every_folder_is_looked_at():
    found = {path.relative_to(ROOT).parts[0] for path in files()}
    assert found == set(FOLDERS)
    assert len(files()) > 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "folder", [f if f != "tests" else pytest.param(f, marks=pytest.mark.slow) for f in FOLDERS]
)
def test_nothing_runs_text_or_unpickles(folder):
    wrong = []
    for path in (p for p in files() if p.relative_to(ROOT).parts[0] == folder):
        where = path.relative_to(ROOT).as_posix()
        for line, what in forbidden(path.read_text(encoding="utf-8")):
            if (where, what) not in EXCEPTIONS:
                wrong.append(f"{where}:{line}: {what}")
    assert wrong == []


def test_each_exception_is_needed():
    for where, what in EXCEPTIONS:
        path = ROOT / where
        assert what in {found for _, found in forbidden(path.read_text(encoding="utf-8"))}, where


PLANTED = [
    "import pickle",
    "import pickle as p",
    "from pickle import loads",
    "import marshal, os",
    "import shelve",
    "import dill",
    "import cloudpickle.fast",
    "import yaml",
    "import pty",
    "def f():\n    import pickle",
    "if 0:\n    from marshal import dumps",
    "eval('1')",
    "exec('1')",
    "x = eval",
    "map(exec, lines)",
    "compile('1', 'f', 'eval')",
    "__import__('os')",
    "builtins.eval('1')",
    "getattr(builtins, 'eval')('1')",
    "getattr(os, 'system')('true')",
    "import os\nos.system('true')",
    "from os import system",
    "from os import popen as p",
    "run = os.popen",
    "os.execvp('true', ['true'])",
    "os.posix_spawn('/bin/true', [], {})",
    "subprocess.getoutput('true')",
    "subprocess.run('true', shell=True)",
    "subprocess.run('true', shell=1)",
    "subprocess.run('true', shell=whatever)",
    "subprocess.Popen(['true'], shell=not False)",
    "np.load(path, allow_pickle=True)",
    "np.load(path, allow_pickle=flag)",
    "loader.exec_module(module)",
    "frame.to_pickle(path)",
    "torch.load(path)",
    "tempfile.mktemp()",
    "async def f():\n    await asyncio.create_subprocess_shell('true')",
    "class A:\n    def f(self):\n        return [eval(x) for x in y]",
    "@exec\ndef f(): ...",
    "f'{eval(x)}'",
]

HARMLESS = [
    "import json, ast, subprocess, os, re",
    "re.compile('a')",
    "kernel.compile(source)",
    "subprocess.run(['true'], shell=False)",
    "np.load(path)",
    "np.load(path, allow_pickle=False)",
    "'eval(1)'  # exec",
    "def evaluate(x): return x",
    "json.loads(text)",
    "self.exec = 1",
    "load(x)",
]


@pytest.mark.parametrize("text", PLANTED)
def test_what_is_planted_is_found(text):
    assert forbidden(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_harmless_is_not(text):
    assert forbidden(text) == []
