"""Lessons in a headless Chromium: cells, judges, Stop, what the browser keeps."""

import json
import queue
import subprocess

import pytest

from tests import in_browser
from tutorials import lessons
from tutorials.web.assets import ASSETS, COMPILER, AssetError, fetched
from tutorials.web.pages import write_site

FIRST = "01_first_kernel.html"
RIGHT = """
import minitensor as mt

def define(n):
    A = mt.placeholder((n + 2,), "float32", name="A")
    R = mt.compute((n,), lambda i: 3 * A[i + 1] - A[i] - A[i + 2], name="R")
    return mt.lower([A, R], name="sharpen")

def recompute(s):
    s.compute_inline("P")

def tiles(s, size):
    y, = s.get_loops("Q")
    outer, _ = s.split(y, [None, size])
    s.compute_at("P", outer)
"""
WRONG = RIGHT.replace("3 * A", "2 * A").replace('s.compute_inline("P")', "pass")
WRONG = WRONG.replace('    s.compute_at("P", outer)\n', "")
STATE = "<script>localStorage.setItem('minitensor-lesson-01', {})</script>"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if in_browser.browser() is None:
        pytest.skip("there is no Chromium on PATH, and pages can only be tried in a browser")
    try:
        fetched(in_browser.KEPT / "web", (*ASSETS, *COMPILER))
    except AssetError as failure:
        pytest.skip(f"what pages need is not here: {failure}")
    folder = tmp_path_factory.mktemp("site")
    write_site(folder, in_browser.KEPT / "web")
    with in_browser.served(folder) as found:
        try:
            found.act(FIRST, {"act": "look"}, 90)
        except queue.Empty:
            pytest.skip("the Chromium on PATH opens no page here")
        yield found


def value(report):
    assert "failed" not in report, report["failed"]
    assert report["errors"] == []
    return report["value"]


PAGES = [f"{lesson.name}.html" for lesson in lessons()]


@pytest.mark.parametrize(
    "page", [p if p == FIRST else pytest.param(p, marks=pytest.mark.whole) for p in PAGES]
)
def test_every_cell_runs(site, page):
    found = value(site.act(page, {"act": "cells"}))
    assert [cell["text"] for cell in found["ran"] if not cell["done"]] == []
    assert len(found["ran"]) >= 10
    assert found["drawn"] >= (page == FIRST)


def test_answers_are_judged_and_the_verdicts_kept(site):
    found = value(site.act(FIRST, {"act": "tasks", "answers": [WRONG, RIGHT]}))
    wrong, right = found["found"]
    assert [line[0] for line in wrong] == ["✗"] * 3
    assert "a script that shows it" in wrong[0]
    assert right == ["✓ define: right", "✓ recompute: right", "✓ tiles: right"]
    assert found["right"] == ["define", "recompute", "tiles"]


@pytest.mark.whole
def test_a_loop_without_end_is_stopped(site):
    found = value(site.act(FIRST, {"act": "stop"}))
    assert found["works"]
    assert found["said"].startswith("Stopped. Python and its variables are gone")
    assert found["again"] == "42\n"
    assert "MemoryError" in found["full"] or "no memory left" in found["full"]
    assert found["text"].startswith("x = []")


@pytest.mark.whole
@pytest.mark.parametrize(
    "state",
    [
        *("{", "[]", "null", '{"format": 2, "cells": {}, "right": []}'),
        *('{"format": 1, "cells": {"1": 5}, "right": []}', '{"format": 1, "cells": {}}'),
        '{"format": 1, "cells": {}, "right": [], "tasks": {"text": 7}}',
    ],
)
def test_a_damaged_state_is_set_aside(site, state):
    before = STATE.format(json.dumps(state))
    found = value(site.act(FIRST, {"act": "look"}, before=before))
    assert "cannot be read" in found["noted"] and "Download it" in found["noted"]
    assert found["text"][0].startswith("import numpy")


BUILDS = """
import numpy as np
import minitensor as mt
from minitensor_course import picture

built = mt.build(mt.lower(list(mt.workloads.softmax(16, 64)), name="softmax"))
x = np.linspace(-4, 90, 1024, dtype="float32").reshape(16, 64)
right = np.exp(x - x.max(axis=1, keepdims=True))
right /= right.sum(axis=1, keepdims=True)
print(type(built).__name__, built.target.vector_bits, abs(built(x) - right).max() < 1e-6)
print(built.time(x).median > 0, "wasm" in built.command[-1] or built.command[0])
try:
    mt.build(mt.lower(list(mt.workloads.softmax(2, 4, dtype="float16")), name="halves"))
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.whole
def test_kernels_are_compiled_in_the_tab(site):
    found = value(site.act(FIRST, {"act": "compiler", "source": BUILDS}))
    assert found["said"].startswith("NativeKernel 128 True\n"), found["said"]
    assert [cell["text"] for cell in found["ran"] if not cell["done"]] == []


def test_what_was_written_is_there_again(site):
    cells = {"1": {"text": "N = 3", "was": "N = 4"}}
    state = {"format": 1, "cells": cells, "right": ["tiles"]}
    before = STATE.format(json.dumps(json.dumps(state)))
    found = value(site.act(FIRST, {"act": "look"}, before=before))
    assert found["text"][1] == "N = 3"
    assert "The lesson has changed since you edited cell 2; your text is kept" in found["noted"]


@pytest.mark.whole
def test_a_browser_without_webassembly_shows_the_text(site):
    before = "<script>delete window.WebAssembly</script>"
    found = value(site.act(FIRST, {"act": "look"}, before=before))
    assert "need WebAssembly" in found["noted"]
    assert found["runs"] == 0


@pytest.mark.whole
def test_a_page_that_was_loaded_needs_no_server(site):
    value(site.act(FIRST, {"act": "cells", "pause": 3}))
    again = value(site.act(FIRST, {"act": "cells", "offline": True}, fresh=False))
    assert [cell["text"] for cell in again["ran"] if not cell["done"]] == []


@pytest.mark.whole
def test_axe_finds_nothing_serious(site):
    found = value(site.act(FIRST, {"act": "axe"}))
    assert [one for one in found if one["impact"] in ("serious", "critical")] == []


@pytest.mark.whole
def test_a_page_that_is_read_from_the_disk_says_how_it_runs(site):
    words = [in_browser.browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    page = (site.folder / FIRST).as_uri()
    done = subprocess.run([*words, page], check=True, capture_output=True, text=True, timeout=60)
    assert '<p class="mt-disk">The cells of this page run once a server hands it out' in done.stdout
    assert "<button" not in done.stdout


def test_a_page_weighs_at_most_25_megabytes(site):
    found = site.folder.joinpath("web").rglob("*")
    loaded = [p for p in found if p.is_file() and not p.parent.name.startswith("clang-")]
    assert len(loaded) >= sum(len(asset.members) for asset in ASSETS) + 4
    assert sum(path.stat().st_size for path in loaded) < 25e6
