"""The options of Dask's TLS, for commands that connect to a scheduler."""

from __future__ import annotations

import argparse
import contextlib
from typing import Any, Final

from minitensor.cli.errors import UsageError

_FILES: Final = ("ca_file", "cert", "key")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: three files."""
    for name in _FILES:
        option = f"--tls-{name.replace('_', '-')}"
        parser.add_argument(option, metavar="FILE", help="of Dask's TLS")


def security(arguments: argparse.Namespace, role: str) -> Any:
    """The distributed.Security of a "client" or a "worker" with these options; None without any,
    and without dask.distributed, which others report.

    Raises UsageError if only some are given.
    """
    ca_file, cert, key = files = [getattr(arguments, f"tls_{name}") for name in _FILES]
    if any(files) and not all(files):
        raise UsageError("--tls-ca-file, --tls-cert and --tls-key go together: give all three")
    with contextlib.suppress(ImportError):
        import distributed  # noqa: PLC0415 - an extra

        if any(files):
            given = {"tls_ca_file": ca_file, f"tls_{role}_cert": cert, f"tls_{role}_key": key}
            make: Any = distributed.Security
            return make(**given, require_encryption=True)
    return None
