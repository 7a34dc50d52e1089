"""What a server and its child tell each other: lines of JSON that begin with a secret.

The child tells when it has run the kernel once, and is let go on; then it tells the times. The
secret of a line is new, and a kernel is not given it: what a kernel writes on descriptors that it
finds is no answer. (It runs in the child's memory, though: what looks for the secret there may find
it. See docs/measurement.md.)
"""

from __future__ import annotations

import json
import secrets
import socket
from typing import Any, Final

LONGEST: Final = 1 << 16


class ForgedError(Exception):
    """Something else than the child wrote on the channel."""


def new_secret() -> bytes:
    """Sixteen random bytes as 32 hexadecimal digits."""
    return secrets.token_hex(16).encode()


def send(channel: socket.socket, secret: bytes, what: dict[str, Any]) -> None:
    """Write a line."""
    channel.sendall(secret + json.dumps(what).encode() + b"\n")


class Reader:
    """Lines from a channel, as they come."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._rest = b""

    def line(self, secret: bytes) -> dict[str, Any] | None:
        """What the next line says; None if it is not whole yet, {} at the end of the channel.

        Raises ForgedError for a line without the secret, or with more than LONGEST bytes.
        """
        while b"\n" not in self._rest:
            try:
                read = self._channel.recv(LONGEST)
            except BlockingIOError:
                return None
            except ConnectionError:
                return {}
            if not read:
                if self._rest:
                    raise ForgedError("half a line")
                return {}
            self._rest += read
            if len(self._rest) > LONGEST or not _agree(self._rest, secret):
                raise ForgedError("a line without the secret")
        line, _, self._rest = self._rest.partition(b"\n")
        if not line.startswith(secret):
            raise ForgedError("a line without the secret")
        try:
            told = json.loads(line[len(secret) :])
        except ValueError:
            raise ForgedError("a line that is no JSON") from None
        if not isinstance(told, dict):
            raise ForgedError("a line that is no object")
        return told


def _agree(line: bytes, secret: bytes) -> bool:
    """Whether what has come of a line may become one."""
    return line[: len(secret)] == secret[: len(line)]
