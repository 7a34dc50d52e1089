"""A log read once: a network asks for each of its kernels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from minitensor.codegen import Target
from minitensor.ir import Program
from minitensor.runtime import native_target
from minitensor.search.log import Entry, Log
from minitensor.search.records import Definition, Record
from minitensor.search.workload import workload_key


class Snapshot(Log):
    """A log as it is when it is first asked: read once, for many look-ups."""

    def _entries(self) -> Iterator[Entry]:
        yield from self._lines

    @cached_property
    def _lines(self) -> list[Entry]:
        return list(super()._entries())

    @cached_property
    def by_workload(self) -> dict[str, list[Record]]:
        """The records of each workload, by its key."""
        found: dict[str, list[Record]] = {}
        for record in self:
            found.setdefault(record.workload, []).append(record)
        return found

    def _of(self, workload: str | Program, target: str | Target) -> Iterator[Record]:
        exact = native_target(Target.of(target))
        key = workload if isinstance(workload, str) else workload_key(workload)
        return (r for r in self.by_workload.get(key, []) if r.target == exact)

    def _definitions(self) -> Iterator[Definition]:
        return (one.found for one in self._lines if isinstance(one.found, Definition))
