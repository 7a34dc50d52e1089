"""Public names of `import minitensor`: present, listed by dir(), loaded at first use."""

import subprocess
import sys

import minitensor as mt


def test_every_public_name_is_there_and_listed():
    assert {"primitive", "refuse", "tune", "load_best", "search", "testing"} <= set(mt.__all__)
    assert set(mt.__all__) <= set(dir(mt))
    assert all(hasattr(mt, name) for name in mt.__all__)
    assert mt.tune is mt.search.tune


def test_what_is_listed_is_for_users():
    assert all(hasattr(mt, name) for name in dir(mt))
    assert {"ir", "codegen", "sanitize"} <= set(dir(mt))
    assert not {"importlib", "api", "phrasebook", "_Any"} & set(dir(mt))


def test_the_search_is_imported_when_it_is_used():
    code = "import sys, minitensor; dir(minitensor); print('minitensor.search' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
