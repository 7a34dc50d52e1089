"""The options of Dask's TLS, for commands that connect to a scheduler."""

from __future__ import annotations

import argparse
from typing import Any

from minitensor.cli.errors import CommandError, UsageError

_FILES = ("ca_file", "cert", "key")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: three files."""
    for name in _FILES:
        option = f"--tls-{name.replace('_', '-')}"
        parser.add_argument(option, metavar="FILE", help="of Dask's TLS")


def security(arguments: argparse.Namespace, role: str) -> Any:
    """The distributed.Security of a "client" or a "worker" with these options; None without any.

    Raises UsageError if only some are given, CommandError without dask.distributed.
    """
    files = [getattr(arguments, f"tls_{name}") for name in _FILES]
    if not any(files):
        return None
    if not all(files):
        raise UsageError("--tls-ca-file, --tls-cert and --tls-key go together: give all three")
    try:
        import distributed  # noqa: PLC0415 - an extra
    except ImportError:
        raise CommandError(
            "TLS needs dask.distributed: python -m pip install 'minitensor[distributed]'"
        ) from None
    ca_file, cert, key = files
    given = {"tls_ca_file": ca_file, f"tls_{role}_cert": cert, f"tls_{role}_key": key}
    return distributed.Security(**given, require_encryption=True)  # type: ignore[no-untyped-call]
