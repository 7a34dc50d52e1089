"""TVM with the best schedule of its own tuning, taken from records that were made before.

`--tvm-records FOLDER` names a folder of MetaSchedule databases (`ms.tune_tir(..., work_dir=...)`),
one in each folder below. A record is found by the structure of the program it was made for: see
`programs`. Nothing is tuned here. All operands are arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.compare.baselines.tvm_programs import program
from benchmarks.compare.implementation import Implementation
from benchmarks.compare.work import Work
from minitensor.cli.errors import CommandError

RECORDS: Final = "tvm_records"
"""The option that names the folder."""

SPIN_SECONDS: Final = 0.25
"""Its threads wait in a busy loop for 150 ms after a call."""

_RECORDS_FILE: Final = "database_tuning_record.json"


def implementations(
    name: str, work: Work, threads: int, options: Mapping[str, Any]
) -> Iterator[Implementation]:
    """The program of the best record. Raises CommandError if there is no record of it."""
    import tvm  # noqa: PLC0415 - optional
    from tvm import te  # noqa: PLC0415 - optional

    if options.get(RECORDS) is not None:
        definition = program(tvm, te, work)
        yield best_of(name, definition, options[RECORDS], work.inputs, work.expected.shape, threads)


def best_of(
    name: str,
    definition: Any,
    folder: str,
    inputs: Sequence[np.ndarray],
    shape: Sequence[int],
    threads: int,
) -> Implementation:
    """The best record of a PrimFunc in the databases below a folder, as a implementation.

    shape  of the result, which is float32

    Raises CommandError if there is no record.
    """
    import tvm  # noqa: PLC0415 - optional
    from tvm import s_tir  # noqa: PLC0415 - optional

    module = s_tir.meta_schedule.tir_integration._normalize_mod(definition)
    database = _database_of(s_tir.meta_schedule, folder, module)
    if database is None:
        raise CommandError("there are no tuning records of this program")
    target = this_machine(threads)
    best = database.query_schedule(module, target, "main").mod
    # tuning marks where a weight might be laid out anew; it stays an argument as it is
    keep = s_tir.transform.RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)
    function = tvm.compile(keep(best), target=target)["main"]
    arrays = [tvm.runtime.tensor(array) for array in inputs]
    out = tvm.runtime.tensor(np.zeros(shape, np.float32))
    tried = len(database.get_all_tuning_records())
    return Implementation(
        name,
        lambda: function(*arrays, out),
        lambda _: out.numpy(),
        spin=SPIN_SECONDS,
        note=f"best of {tried} records",
    )


def this_machine(threads: int) -> Any:
    """A target of TVM's."""
    import tvm  # noqa: PLC0415 - optional

    described = {"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu()}
    return tvm.target.Target({**described, "num-cores": threads})


def _database_of(meta_schedule: Any, folder: str, module: Any) -> Any:
    """The database with records for a program; None if there is none."""
    for path in sorted(Path(folder).glob(f"**/{_RECORDS_FILE}")):
        database = _opened(meta_schedule, str(path.parent))
        if database.has_workload(module):
            return database
    return None


@cache
def _opened(meta_schedule: Any, folder: str) -> Any:
    return meta_schedule.database.JSONDatabase(work_dir=folder)
