"""Ctrl-C before the command line has begun: while its packages are imported."""

import os
import subprocess
import sys

import pytest

SITE = """\
import sys

class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == {at!r}:
            raise {failure}

sys.meta_path.insert(0, Interrupted())
"""
SCRIPT = "import sys\nfrom minitensor.cli import main\nsys.exit(main())\n"


def run(tmp_path, command, at, failure="KeyboardInterrupt"):
    """The standard error of a command in which the import of a module raises something."""
    (tmp_path / "sitecustomize.py").write_text(SITE.format(at=at, failure=failure))
    (tmp_path / "minitensor").write_text(SCRIPT)
    (tmp_path / "other").write_text(SCRIPT)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    words = {"module": ["-m", "minitensor"], "script": [str(tmp_path / "minitensor")]}
    words["other"] = [str(tmp_path / "other")]
    return subprocess.run(
        [sys.executable, *words[command], "doctor"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("command", ["module", "script"])
@pytest.mark.parametrize("at", ["minitensor.api", "minitensor.cli.tune"])
def test_a_line_in_the_place_of_a_traceback(tmp_path, command, at):
    done = run(tmp_path, command, at)
    assert done.stderr == "\ninterrupted\n"
    assert done.returncode and not done.stdout


@pytest.mark.slow
def test_what_is_something_else_is_shown(tmp_path):
    assert "Traceback" in run(tmp_path, "module", "minitensor.api", "ValueError('no')").stderr
    assert "Traceback" in run(tmp_path, "other", "minitensor.api").stderr
