"""A folder of pages on a port of this machine, for one browser or for those of a room."""

from __future__ import annotations

import contextlib
import http.server
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from minitensor.errors import ArgumentError, printable

HOST: Final = "127.0.0.1"
PORT: Final = 8000
_TYPES: Final = {
    "": "application/octet-stream",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
    ".wasm": "application/wasm",
}


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, with the types that a browser wants of modules and WebAssembly."""

    extensions_map = _TYPES
    protocol_version = "HTTP/1.1"

    def end_headers(self) -> None:
        """Let a browser ask whether a file is new, so that it never keeps an old page."""
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def list_directory(self, path: Any) -> None:
        """Show no folder."""
        self.send_error(404, "there is no such page")

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal quiet."""


class Server(http.server.ThreadingHTTPServer):
    """A server that says nothing of browsers that leave in the middle."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what is wrong, unless the other side has gone."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def server_of(
    folder: Path, host: str = HOST, port: int = PORT, handler: type[Handler] = Handler
) -> Server:
    """A server of a folder, which does not answer yet; port 0 takes a free one.

    Raises ArgumentError if it cannot listen there.
    """
    try:
        return Server((host, port), partial(handler, directory=str(folder)))
    except (OSError, OverflowError) as failure:
        reason = getattr(failure, "strerror", None) or str(failure)
        raise ArgumentError(
            f"cannot serve at {printable(host)}:{port}: {reason}; --port 0 takes a free port"
        ) from None


def serve(folder: Path, host: str, port: int, tell: Callable[[str], Any]) -> None:
    """Serve a folder until Ctrl-C.

    tell  called with the address, once it answers
    """
    with server_of(folder, host, port) as server:
        tell(f"http://{host}:{server.server_address[1]}/")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
