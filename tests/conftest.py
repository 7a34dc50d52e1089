"""What all tests share: a compile cache of their own, and a Hypothesis profile."""

import gc
import os
import pathlib
import sys
import tempfile
from collections import defaultdict

import pytest
from hypothesis import settings

from minitensor.search import Processes, Settings
from tests.parts import Extent, left_out

settings.register_profile("minitensor", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("minitensor")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave some cases of tests that are marked as `many` to `make whole`; none that are asked for
    by name (-k).
    """
    if Extent.whole or config.option.keyword:
        return
    found = defaultdict(list)
    for item in items:
        if item.get_closest_marker("many") and not item.get_closest_marker("whole"):
            found[item.nodeid.partition("[")[0]].append(item)
    for name, cases in found.items():
        for number in left_out(name, len(cases)):
            cases[number].add_marker(pytest.mark.whole)


def pytest_configure(config):
    Extent.whole = "not whole" not in config.option.markexpr
    gc.disable()


def pytest_collection_finish(session):
    """Thousands of tests stay until the end: the collector need not look at them again and again,
    which would take a tenth of the time. What tests leave behind is looked at seldom: that takes
    less time and more memory.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 100)


@pytest.fixture(scope="session", autouse=True)
def private_cache():
    """One compile cache for the whole run, outside the user's: equal kernels compile once."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder) / "cache"
        place.mkdir(mode=0o700)
        before = os.environ.get("MINITENSOR_CACHE_DIR")
        os.environ["MINITENSOR_CACHE_DIR"] = str(place)
        yield place
        if before is None:
            del os.environ["MINITENSOR_CACHE_DIR"]
        else:
            os.environ["MINITENSOR_CACHE_DIR"] = before


@pytest.fixture(scope="session", autouse=True)
def shared_bytecode():
    """Modules are compiled once for all processes that tests start, though this one may not write
    what it compiles.
    """
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if sys.dont_write_bytecode:
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", folder)
        yield


@pytest.fixture(scope="module")
def processes(private_cache):
    """The two processes of a runner, for all searches of a module: each would start its own. They
    measure in a hurry, and do not wait until the machine is quiet.
    """
    hurry = Settings(repeats=2, most_repeats=4, budget=0.01, patience=0.01, repeat=0.0005)
    with pytest.MonkeyPatch.context() as patch, OfAnyTest() as shared:
        patch.setattr("minitensor.search.runner.runner.Settings", lambda: hurry)
        yield shared


class OfAnyTest(Processes):
    """Processes that do not care which test runs."""

    @staticmethod
    def environment():
        return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@pytest.fixture
def shallow():
    """Python's own limit of recursion, as in a process that has just started."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)
