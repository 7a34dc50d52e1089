"""Lessons in a real browser: a headless Chromium opens their pages and does what a reader does.

`python -m tests.in_browser [--compiler] [LESSON …]` runs every cell of lessons; with the option
kernels are compiled in the tab. A page gets a script that acts and reports (`in_browser.mjs`);
nothing is between it and the browser.
"""

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from tutorials import lessons
from tutorials.web.assets import fetched, npm
from tutorials.web.pages import write_site
from tutorials.web.serve import Handler, server_of
from tutorials.web.slides import BROWSERS

SCRIPT = Path(__file__).with_suffix(".mjs")
COMPILER = "--compiler"
STATE = '<script>localStorage.setItem("minitensor-compiler", "yes")</script>'
AXE = npm(
    "axe-core",
    "4.14.1",
    "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745",
    {"axe.min.js": "axe.js"},
)
"""Rules of accessibility, which only tests need."""
KEPT = Path(__file__).parents[1] / "build"
EARLY = """<script>
window.errors = [];
addEventListener("error", (event) => window.errors.push(String(event.message)));
addEventListener("unhandledrejection", (event) => window.errors.push(String(event.reason)));
const said = console.error;
console.error = (...words) => { window.errors.push(words.join(" ")); said(...words); };
</script>
"""


def browser():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


class Acting(Handler):
    """A server of pages that act by themselves, and tell how it went."""

    site = None

    def do_GET(self):  # noqa: N802
        name = self.path.partition("?")[0].lstrip("/")
        if name.endswith("in_browser.mjs"):
            return self._send(SCRIPT.read_bytes(), "text/javascript")
        if name == "axe.js":
            return self._send((fetched(KEPT / "axe", [AXE]) / name).read_bytes(), "text/javascript")
        if name.endswith(".html") and self.site.wish is not None:
            page = (Path(self.directory) / name).read_text(encoding="utf-8")
            wish = json.dumps(self.site.wish).replace("<", "\\u003c")
            early = f'<script type="application/json" id="wish">{wish}</script>\n{EARLY}'
            early += self.site.before
            late = '<script type="module" src="in_browser.mjs"></script>\n'
            page = page.replace("<head>", f"<head>\n{early}", 1).replace(
                "</body>", late + "</body>"
            )
            return self._send(page.encode(), "text/html; charset=utf-8")
        if (self.site.wish or {}).get("offline"):
            return self.send_error(503)
        return super().do_GET()

    def do_POST(self):  # noqa: N802
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.site.reports.put(json.loads(data))
        self._send(b"", "text/plain")

    def _send(self, data, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Site:
    """Pages on a port, and a browser that opens them."""

    def __init__(self, folder, port):
        self.folder, self.port = folder, port
        self.reports = queue.Queue()
        self.wish, self.before = None, ""
        self.profile = tempfile.mkdtemp(prefix="minitensor-browser-")

    def act(self, page, wish, limit=300, before="", **options):
        """The report of a page that has performed an action.

        before  HTML at the beginning of the page: a state of the browser
        """
        self.wish, self.before = wish, before
        with self.open(page, **options):
            return self.reports.get(timeout=limit)

    @contextmanager
    def open(self, page, *words, fresh=True):
        """A browser with a page, as one that was never there, or as the last one was left."""
        if fresh:
            shutil.rmtree(self.profile, ignore_errors=True)
        words = [
            *(browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--disable-dev-shm-usage", f"--user-data-dir={self.profile}", *words),
            f"http://127.0.0.1:{self.port}/{page}",
        ]
        process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def served(folder):
    """A Site of a folder of pages."""
    handler = type("OfSite", (Acting,), {})
    with server_of(folder, port=0, handler=handler) as server:
        handler.site = Site(folder, server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield handler.site
        finally:
            server.shutdown()
            shutil.rmtree(handler.site.profile, ignore_errors=True)


def main(words):
    """Run all cells of lessons; the exit status."""
    failed = 0
    numbers = [word for word in words if word != COMPILER]
    before = STATE if COMPILER in words else ""
    folder = Path(tempfile.mkdtemp(prefix="minitensor-site-"))
    write_site(folder, KEPT / "web")
    with served(folder) as site:
        for lesson in lessons():
            if numbers and lesson.number not in numbers:
                continue
            began = time.monotonic()
            report = site.act(f"{lesson.name}.html", {"act": "cells"}, 600, before)
            ran = report.get("value", {}).get("ran", [])
            wrong = [f"cell {n}: {c['text']}" for n, c in enumerate(ran, 1) if not c["done"]]
            wrong += [report["failed"]] if "failed" in report else []
            wrong += report["errors"]
            failed += bool(wrong)
            first = report.get("value", {}).get("first", 0)
            spent = time.monotonic() - began
            print(
                f"{lesson.number}  {sum(c['done'] for c in ran)} of {len(ran)} cells, the first "
                f"after {first:.1f} s, all after {spent:.1f} s",
                *wrong,
                sep="\n    ",
                flush=True,
            )
    shutil.rmtree(folder)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
