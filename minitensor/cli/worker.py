"""`minitensor worker`: measure candidates for searches on other machines."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from typing import Any, Final

from minitensor.cli import tls
from minitensor.cli.console import Console
from minitensor.cli.errors import CommandError
from minitensor.errors import printable, reason_of
from minitensor.search import Remote
from minitensor.system import asyncio

TEXT: Final = "measure candidates for searches on other machines, through Dask"
EPILOG: Final = """\
examples:
  dask scheduler                                     on the server: it prints its address
  minitensor worker tcp://server:8786                on each machine that measures
  minitensor tune matmul --workers tcp://server:8786          from anywhere

A worker runs what it is sent, in its own cache (MINITENSOR_CACHE_DIR), and measures one candidate
at a time. Start one on a machine, and nothing else there while it measures, but for workers on
other cores that only build (--builds). The network has to be trusted, or made safe: --tls-ca-file,
--tls-cert and --tls-key are Dask's. docs/many_machines.md has the whole. Ctrl-C ends it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("address", help="of the Dask scheduler, such as tcp://server:8786")
    parser.add_argument(
        "--trust",
        action="append",
        default=[],
        metavar="MODULE",
        help="import this module first: its intrinsics and primitives may be asked for",
    )
    parser.add_argument(
        "--builds",
        action="store_true",
        help="measure nothing, and compile for workers that measure and have the same compiler",
    )
    parser.add_argument("--name", help="of the worker, in Dask's pages")
    tls.add_arguments(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Measure until the scheduler ends, or Ctrl-C."""
    try:
        import distributed  # noqa: PLC0415 - an extra
    except ImportError:
        raise CommandError(
            "a worker needs dask.distributed: python -m pip install 'minitensor[distributed]'"
        ) from None
    for module in arguments.trust:
        if not re.fullmatch(r"\w+(\.\w+)*", module):
            raise CommandError(f"--trust {printable(module)} is not the name of a module")
        try:
            importlib.import_module(module)
        except ImportError as failure:
            raise CommandError(f"--trust {module}: {reason_of(failure)}") from None
    about = json.loads(Remote.described())
    if "error" in about:
        raise CommandError(f"this machine cannot measure: {about['error']}")
    host, target = about["host"], about["target"]
    console.print(
        f"{host['cpu']}, {target['num_cores']} cores, {target['vector_bits']} bits; "
        f"{host['compiler']}"
    )
    make: Any = distributed.Security
    security = tls.security(arguments, "worker") or make()
    given = Remote.connection(arguments.address, security, "worker")
    try:
        cores = str(target["num_cores"])
        return asyncio.run(_serve(distributed, arguments, (security, given), cores, console))
    except KeyboardInterrupt:
        return 0
    except (OSError, ValueError, RuntimeError, asyncio.TimeoutError) as failure:
        raise CommandError(
            f"no Dask scheduler answers at {printable(arguments.address)}: {reason_of(failure)}"
        ) from None


async def _serve(
    distributed: Any,
    arguments: argparse.Namespace,
    security: tuple[Any, dict[str, Any]],
    cores: str,
    console: Console,
) -> int:
    """One slot for measurements; a nanny starts the process again where it is lost.

    security  Dask's, and the arguments of a connection by it
    """
    secure, given = security
    found = await distributed.comm.connect(arguments.address, timeout=10, **given)
    await found.close()
    async with distributed.Nanny(
        arguments.address,
        nthreads=1,
        name=arguments.name,
        security=secure,
        memory_limit=None,
        # Dask makes the first 1
        env={"OMP_NUM_THREADS": cores, **({Remote.only_builds: "1"} if arguments.builds else {})},
        preload=arguments.trust,
        silence_logs=40,
    ) as nanny:
        console.print(f"worker {nanny.worker_address} of {arguments.address}; Ctrl-C ends it")
        sys.stdout.flush()
        await nanny.finished()
    console.print(f"the scheduler at {arguments.address} has ended, or needs this worker no more")
    return 0
