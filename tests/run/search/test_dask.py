"""Dask's executor builds and measures. Needs minitensor[distributed]."""

import warnings

import pytest

import minitensor as mt
from minitensor.lang import workloads
from minitensor.search import Runner, Status, Task

distributed = pytest.importorskip("distributed")


@pytest.mark.whole
def test_a_local_cluster_builds_and_measures(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path / "cache"))
    program = mt.lower(workloads.matmul(m=32, n=32, k=32))
    schedules = []
    for factor in (2, 4, 8):
        schedules.append(mt.Schedule(program))
        schedules[-1].split("i", [None, factor])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own
        cluster = distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None
        )
        with cluster, distributed.Client(cluster) as client:
            there = client.get_executor()
            with Runner(Task.of(program), builder=there, measurer=there) as runner:
                results = list(runner.measure(schedules))
            found = mt.tune(program, trials=8, builder=there, measurer=there, progress=False)
    assert [r.status for r in results] == [Status.OK] * 3
    assert all(r.median > 0 for r in results)
    assert len(found.tried) == 8
    assert found.seconds > 0
