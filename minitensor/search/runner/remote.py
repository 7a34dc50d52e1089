"""Candidates measured on other machines, by value, through Dask: `mt.search.Remote`.

Nothing of a file system is shared. A request holds the definition, traces and settings as text, and
a worker (`there`) builds and measures in its own cache with its own compiler. Workers of one kind
are used, the same processor, cores, vector width and compiler, so that a ranking has the speeds of
one kind. Each is asked at times for the time of one candidate that all have measured, the
*yardstick*: one that is slower than another, twice, is set aside for a while, and its last
candidates are measured elsewhere. Workers of other kinds with the same compiler build for them. Who
does what is `rounds`' affair.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from minitensor.errors import ArgumentError, is_integer, reason_of, unexpected
from minitensor.schedule import Schedule
from minitensor.search.runner import there
from minitensor.search.runner.results import Result, Settings
from minitensor.search.runner.rounds import Round
from minitensor.search.runner.workers import BEAT, ONLY_BUILDS, Pool
from minitensor.system import asyncio

_WITHOUT: Final = (
    "measuring on other machines needs dask.distributed: python -m pip install "
    "'minitensor[distributed]'"
)


class Remote:
    """A runner whose candidates are built and measured by Dask workers on other machines.

        remote = mt.search.Remote("tcp://server:8786")
        result = mt.tune(program, target=remote.target, runner=remote, log="tuning.jsonl")

    client    the address of a Dask scheduler, or a distributed.Client
    kind      the kind of workers that measure, as `kinds` names them; None if there is one only
    settings  limits and precision of each measurement
    seed      of the inputs
    each      candidates in a request
    wait      seconds to wait for a worker, at first and where the last is lost
    security  the distributed.Security of an address that begins with tls://; None for the one that
              Dask's configuration describes

    Workers of other kinds, and those that only build, compile for them if they have the same
    compiler; the record's flags then spell out what `-march=native` is where it was measured.
    A worker runs code that it is sent: use a network that you trust, or Dask's TLS. Workers that
    come later are used, those that are lost are not missed while there is one.

    Raises ArgumentError for no scheduler at the address, and no worker of the kind; MeasureError,
    in a search, if there is none left.
    """

    only_builds: Final = there.ONLY_BUILDS
    """The variable by which a worker's process measures nothing."""
    _work, _builds = staticmethod(there.measured), staticmethod(there.built)
    _about = staticmethod(there.described)

    def __init__(
        self,
        client: Any,
        *,
        kind: str | None = None,
        settings: Settings | None = None,
        seed: int = 0,
        each: int = 4,
        wait: float = 10.0,
        security: Any = None,
    ) -> None:
        try:
            import distributed  # noqa: PLC0415 - an extra
        except ImportError:
            raise ArgumentError(_WITHOUT) from None
        self._dask: Any = distributed
        if not is_integer(each, 1, there.MOST - 1):
            raise unexpected(f"an integer from 1 to {there.MOST - 1}", "each", each)
        if settings is not None and not isinstance(settings, Settings):
            raise unexpected("mt.search.Settings(…), or None", "settings", settings)
        self.settings, self.seed, self.each = settings or Settings(), seed, each
        self._own = isinstance(client, str)
        if security is not None and not self._own:
            raise ArgumentError("security= is of an address; a distributed.Client has its own")
        self._client = self._connected(client, wait, security) if self._own else client
        if not isinstance(self._client, distributed.Client):
            raise unexpected("an address, or a distributed.Client", "client", client)
        self._pool = Pool(self._client, self._about, wait)
        until = time.monotonic() + wait
        try:
            while not self._pool.look(now=True) and time.monotonic() < until:
                time.sleep(BEAT / 5)
            self.kind = self._pool.kind = self._chosen(kind)
        except BaseException:
            self.close()
            raise
        about = next(w.about for w in self._pool.workers.values() if w.kind == self.kind)
        self.target = there.target_of(about["target"])

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the scheduler, if an address was given; its workers go on."""
        if self._own:
            self._client.close()

    def _connected(self, address: str, wait: float, security: Any) -> Any:
        if not re.fullmatch(r"(tcp|tls)://[^\s/]+:\d+", address):
            raise unexpected("an address such as tcp://server:8786", "client", address)
        security = self._dask.Security() if security is None else security
        if not isinstance(security, self._dask.Security):
            raise unexpected("a distributed.Security, or None", "security", security)
        given = self.connection(address, security, "client")
        try:
            for name in ("distributed.client", "distributed.utils"):  # it is said here
                logging.getLogger(name).setLevel(logging.CRITICAL)
            there.reach(address, wait)  # a client that fails would leave a thread behind
            own, version = self._dask.__version__, self._version_at(address, wait, given)
            if version != own:
                raise ArgumentError(
                    f"the scheduler at {address} is of Dask {version}, and here it is {own}: "
                    "install one version of dask and distributed on all machines"
                )
            known = {"security": security, "set_as_default": False}
            return self._dask.Client(address, timeout=wait, **known)
        except ArgumentError:
            raise
        except (OSError, ValueError, ImportError, LookupError, asyncio.TimeoutError) as failure:
            raise ArgumentError(
                f"no Dask scheduler answers at {address}: {reason_of(failure)}; start one there "
                "with `dask scheduler`, and workers with `minitensor worker ADDRESS`"
            ) from None

    @staticmethod
    def connection(address: str, security: Any, role: str) -> dict[str, Any]:
        """The arguments of a connection to a scheduler, for a "client" or a "worker". Raises
        ArgumentError for TLS whose certificate is missing or cannot be read, and for another
        address than TLS's.
        """
        try:
            given: dict[str, Any] = security.get_connection_args(role)
        except OSError as failure:
            files = ("tls_ca_file", f"tls_{role}_cert", f"tls_{role}_key")
            names = ", ".join(f"{name}={getattr(security, name)!r}" for name in files)
            raise ArgumentError(f"no TLS with {names}: {reason_of(failure)}") from None
        if address.startswith("tls:") and given["ssl_context"] is None:
            raise ArgumentError(
                f"{address} asks for a certificate: security=distributed.Security(tls_ca_file=…, "
                f"tls_{role}_cert=…, tls_{role}_key=…), or --tls-ca-file, --tls-cert and --tls-key"
            )
        if not address.startswith("tls:") and given["require_encryption"]:
            raise ArgumentError(f"with TLS an address begins with tls://, and {address} does not")
        return given

    def _version_at(self, address: str, wait: float, given: dict[str, Any]) -> str:
        """The version of Dask of a scheduler, which those of others may not understand.

        given  the arguments of the connection
        """

        async def asked() -> Any:
            async with self._dask.rpc(address, connection_args=given) as scheduler:
                return await asyncio.wait_for(scheduler.versions(), max(wait, 0.1))

        with ThreadPoolExecutor(1) as thread:  # in a notebook this one has a loop that runs
            found = thread.submit(lambda: asyncio.run(asked())).result()
        return str(found["packages"]["distributed"])

    @property
    def address(self) -> str:
        """Address of the scheduler."""
        return self._pool.address

    # ---- workers

    @staticmethod
    def described() -> str:
        """This machine as a worker describes it: JSON, with an "error" if it cannot measure."""
        return there.described()

    @property
    def kinds(self) -> dict[str, int]:
        """The kinds of workers that are there, each with their number."""
        return dict(Counter(worker.kind for worker in self._pool.look(now=True)))

    @property
    def at_once(self) -> int:
        """Candidates that all workers together take."""
        return self.each * (len(self._pool.measuring()) + len(self._pool.building()))

    def explain(self) -> str:
        """The workers: what they are, what they did, and why some are set aside."""
        return self._pool.explain()

    def _chosen(self, kind: str | None) -> str:
        workers = list(self._pool.workers.values())
        usable = sorted({w.kind for w in workers if not w.reason})
        listed = "; ".join(f"{name} ({n})" for name, n in self.kinds.items()) or "none"
        reasons = "".join(f"; {w.reason}" for w in workers if w.reason and w.reason != ONLY_BUILDS)
        if kind is None and len(usable) == 1:
            return usable[0]
        if kind is None and usable:
            raise ArgumentError(f"there are workers of several kinds: choose kind= among {listed}")
        if kind not in usable:
            wanted = "worker" if kind is None else f"worker of kind {kind!r}"
            raise ArgumentError(
                f"there is no {wanted} that can measure: {listed}{reasons}; start one with "
                "`minitensor worker ADDRESS`"
            )
        return str(kind)

    # ---- measurements

    def measure(self, schedules: Sequence[Schedule], best: float | None = None) -> Iterator[Result]:
        """Yield the result of each schedule, in order. Raises MeasureError if no worker is left,
        ArgumentError for what no worker accepts.
        """
        return self._measured(schedules, best, self.each)

    def together(
        self, schedules: Sequence[Schedule], best: float | None = None
    ) -> Iterator[Result]:
        """The same on one worker, for schedules that are compared with each other."""
        return self._measured(schedules, best, there.MOST - 1, alone=True)

    def _measured(
        self, schedules: Sequence[Schedule], best: float | None, each: int, alone: bool = False
    ) -> Iterator[Result]:
        if not schedules:
            return
        common = {"target": self.target.as_dict(), "seed": self.seed, "best": best}
        works = self._work, self._builds
        yield from Round(
            self._pool, self._dask, works, schedules, each, self.settings, common, alone
        ).results()
