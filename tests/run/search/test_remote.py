"""Measurement by value: a scheduler and two workers, each with a folder and a cache of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

import minitensor as mt
from minitensor.runtime import usable_cores
from minitensor.search import Remote, Settings, Status
from minitensor.search.records import Host
from minitensor.search.runner import there

distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not shutil.which("taskset"), reason="a worker on one core needs taskset"),
]
PROGRAM = mt.lower(mt.workloads.matmul(m=32, n=32, k=32))
QUICK = Settings(repeats=2, most_repeats=3, budget=0.01, repeat=0.0005)


def started(words, folder, core=None):
    folder.mkdir()
    environment = {**os.environ, "MINITENSOR_CACHE_DIR": str(folder / "cache")}
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    with (folder / "out.txt").open("w") as out:
        return subprocess.Popen(
            [*pinned, sys.executable, "-m", *words], cwd=folder, env=environment, stdout=out,
            stderr=out, start_new_session=True,
        )  # fmt: skip


def ended(process):
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def scheduled(folder, *more):
    """A scheduler, with more options, and its address."""
    file = folder / "address.json"
    words = ("distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard")
    process = started((*words, "--scheduler-file", str(file), *more), folder / "scheduler")
    until = time.monotonic() + 60
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.1)
    return process, json.loads(file.read_text())["address"]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """The address of a scheduler."""
    process, address = scheduled(tmp_path_factory.mktemp("remote"))
    yield address
    ended(process)


@pytest.fixture(scope="module")
def workers(scheduler, tmp_path_factory):
    """The address of the scheduler with two workers, each on one core."""
    folder = tmp_path_factory.mktemp("workers")
    cores = sorted(os.sched_getaffinity(0))
    words = ("minitensor", "worker", scheduler)
    processes = [started(words, folder / f"w{n}", cores[n % len(cores)]) for n in range(2)]
    with distributed.Client(scheduler) as client:
        client.wait_for_workers(2, timeout=60)
    yield scheduler
    for process in processes:
        ended(process)


def schedules(count):
    found = []
    for number in range(count):
        s = mt.Schedule(PROGRAM)
        i, _ = s.split("i", [None, 2 ** (1 + number % 4)])
        s.split("j", [None, 1 + number])
        s.annotate(i, "note", number)
        found.append(s)
    return found


def test_the_documented_commands(workers, tmp_path):
    words = ("minitensor", "tune", "matmul", "--size", "m=32,n=32,k=32", "--trials", "12")
    search = started((*words, "--workers", workers, "--quiet"), tmp_path / "search")
    assert search.wait(120) == 0, (tmp_path / "search/out.txt").read_text()
    records = list(mt.search.Log(tmp_path / "search/tuning.jsonl"))
    assert len(records) >= 12
    assert {record.host.cores for record in records} == {1}  # those of the workers
    assert all(record.target.num_cores == 1 for record in records)
    assert not list((tmp_path / "search").glob("cache/build-*"))


def test_results_come_in_order_from_both(workers):
    with Remote(workers, settings=QUICK, each=2) as remote:
        results = list(remote.measure(schedules(16)))
        assert [r.status for r in results] == [Status.OK] * 16, [r.message for r in results]
        assert all(isinstance(r.host, Host) and r.host.cores == 1 for r in results)
        assert [w.requests > 0 for w in remote._pool.workers.values()] == [True, True]
        assert sum(w.candidates for w in remote._pool.workers.values()) == 16
        assert "2 workers" in remote.explain()
        again = list(remote.together(schedules(6)))
        assert all(r.ok for r in again)
        with pytest.raises(mt.ArgumentError, match=r"tune\(…, target=\) is that of the runner"):
            mt.tune(PROGRAM, mt.Target("c", 64, 128), runner=remote, trials=1, progress=False)


def test_a_worker_that_only_builds_helps_those_that_measure(scheduler, tmp_path):
    cores = sorted(os.sched_getaffinity(0))
    words = ("minitensor", "worker", scheduler)
    with distributed.Client(scheduler) as client:
        before = len(client.scheduler_info(n_workers=-1)["workers"])
        processes = [started(words, tmp_path / "measures", cores[0])]
        processes.append(started((*words, "--builds"), tmp_path / "builds", cores[-1]))
        client.wait_for_workers(before + 2, timeout=60)
    try:
        with Remote(scheduler, settings=QUICK, each=2) as remote:
            assert any(kind.endswith("only builds") for kind in remote.kinds)
            results = list(remote.measure(schedules(16)))
            assert [r.status for r in results] == [Status.OK] * 16, [r.message for r in results]
            workers = list(remote._pool.workers.values())
            assert sum(w.built for w in workers if w.about["measures"] is False) > 0
            assert sum(w.candidates for w in workers if w.about["measures"]) == 16
            crossed = [r for r in results if "-march=native" not in r.host.flags]
            assert 0 < len(crossed) <= sum(w.built for w in workers)
            assert "candidates built for others" in remote.explain()
    finally:
        for process in processes:
            ended(process)


def test_a_candidate_that_is_wrong_is_the_candidates_fault(workers):
    broken = mt.Schedule(PROGRAM)
    broken.split("i", [None, 4])
    with Remote(workers, settings=Settings(longest=10)) as remote:
        (result,) = remote.measure([broken])
    assert result.status is Status.BUILD and "characters" in result.message


def test_a_trace_that_makes_no_schedule_is_the_candidates_fault(workers):
    step = {"primitive": "parallel", "arguments": {"loop": "k"}, "result": None}
    racy = json.dumps({**json.loads(schedules(1)[0].trace.to_json()), "steps": [step]})

    class Other(Remote):
        @staticmethod
        def _work(text):
            data = json.loads(text)
            data["traces"][1:2] = [racy]
            return there.measured(json.dumps(data))

    with Other(workers, settings=QUICK, each=3) as remote:
        results = list(remote.measure(schedules(3)))
        assert not any(worker.reason for worker in remote._pool.workers.values())
    assert [r.status for r in results] == [Status.OK, Status.BUILD, Status.OK]
    assert "parallel" in results[1].message


def lost(workers, count):
    """Kill a worker in the middle of a measurement, so many times."""
    for _ in range(count):
        with Remote(workers, settings=QUICK, each=4) as remote:
            process = next(iter(remote._pool.workers.values())).about["process"]
            timer = threading.Timer(0.4, os.kill, (process, signal.SIGKILL))
            timer.start()
            results = list(remote.measure(schedules(24)))
            timer.join()
            assert [r.status for r in results] == [Status.OK] * 24
            assert all(r.times for r in results)
            until = time.monotonic() + 30
            while len(remote.kinds) < 1 or sum(remote.kinds.values()) < 2:
                assert time.monotonic() < until, remote.explain()
                time.sleep(0.2)


def test_a_worker_that_is_killed_loses_nothing(workers):
    lost(workers, 1)


def test_the_only_worker_is_waited_for_where_it_starts_again(tmp_path):
    process, address = scheduled(tmp_path)
    worker = started(("minitensor", "worker", address), tmp_path / "worker")
    try:
        with Remote(address, settings=QUICK, wait=60) as remote:
            (only,) = remote._pool.workers.values()
            timer = threading.Timer(0.4, os.kill, (only.about["process"], signal.SIGKILL))
            timer.start()
            assert [r.status for r in remote.measure(schedules(24))] == [Status.OK] * 24
            timer.join()
            assert remote._pool.workers and only.address not in remote._pool.workers
    finally:
        ended(worker)
        ended(process)


def test_a_reply_that_does_not_come_is_not_waited_for(workers, monkeypatch):
    # its worker may be lost with it, and no other may do it again
    fetch, waits = distributed.Future.result, []

    def late(future, timeout=None):
        waits.append(timeout)
        if len(waits) in (1, 4):
            raise distributed.TimeoutError
        return fetch(future, timeout)

    monkeypatch.setattr(distributed.Future, "result", late)
    with Remote(workers, settings=QUICK, each=2) as remote:
        results = list(remote.measure(schedules(16)))
    assert [r.status for r in results] == [Status.OK] * 16
    assert len(waits) >= 4 and None not in waits


@pytest.mark.whole
def test_workers_that_are_killed_lose_nothing(workers):
    lost(workers, 20)


def test_a_scheduler_that_is_lost_is_said(tmp_path):
    process, address = scheduled(tmp_path)
    worker = started(("minitensor", "worker", address), tmp_path / "worker")
    with Remote(address, settings=QUICK, wait=60) as remote:
        assert (
            remote.target.num_cores == usable_cores()
        )  # all of them, whatever Dask says of OpenMP
        threading.Timer(0.5, os.killpg, (process.pid, signal.SIGKILL)).start()
        with pytest.raises(mt.MeasureError, match=r"the Dask scheduler at .* is gone"):
            for _ in range(20):
                list(remote.measure(schedules(24)))
    process.wait()
    assert worker.wait(60) == 0
    assert f"the scheduler at {address} has ended" in (tmp_path / "worker/out.txt").read_text()


def test_what_a_worker_does_not_know_is_refused_with_the_way(workers):
    class Other(Remote):
        @staticmethod
        def _work(text):
            data = json.loads(text)
            data["traces"] = [t.replace('"split"', '"my_split"') for t in data["traces"]]
            return there.measured(json.dumps(data))

    match = r"refuses the candidates: .*my_split.*--trust"
    with Other(workers) as remote, pytest.raises(mt.ArgumentError, match=match):
        list(remote.measure(schedules(2)))


def test_a_scheduler_of_another_dask_is_said(scheduler, monkeypatch):
    monkeypatch.setattr(Remote, "_version_at", lambda *given: "2024.8.0")
    match = r"^the scheduler at tcp.* is of Dask 2024\.8\.0, and here it is 20.*: install one"
    with pytest.raises(mt.ArgumentError, match=match):
        Remote(scheduler, wait=5)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """The files of a certificate that signs itself, and its key."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl, which makes a certificate")
    folder = tmp_path_factory.mktemp("tls")
    files = {"ca_file": folder / "cert.pem", "cert": folder / "cert.pem", "key": folder / "key.pem"}
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    words += ["-keyout", str(files["key"]), "-out", str(files["cert"])]
    subprocess.run(words, check=True, capture_output=True)
    return files


def test_tls(certificate, tmp_path):
    options = [w for n, f in certificate.items() for w in (f"--tls-{n.replace('_', '-')}", str(f))]
    process, address = scheduled(tmp_path, "--protocol", "tls", *options)
    worker = started(("minitensor", "worker", address, *options), tmp_path / "worker")
    ca_file, cert, key = map(str, certificate.values())
    given = {"tls_ca_file": ca_file, "tls_client_cert": cert, "tls_client_key": key}
    security = distributed.Security(**given, require_encryption=True)
    try:
        assert address.startswith("tls://")
        with Remote(address, settings=QUICK, wait=60, security=security) as remote:
            assert [r.status for r in remote.measure(schedules(2))] == [Status.OK] * 2
        with pytest.raises(mt.ArgumentError, match="asks for a certificate: security="):
            Remote(address)
        words = ("tune", "matmul", "--size", "m=32,n=32,k=32", "--trials", "2", "--workers")
        command = [sys.executable, "-m", "minitensor", *words, address]
        told = {"cwd": tmp_path, "capture_output": True, "text": True}
        done = subprocess.run([*command, *options], check=False, **told)
        assert done.returncode == 0, done.stderr
        done = subprocess.run([*command, *options[:2]], check=False, **told)
        assert done.returncode == 2 and "go together" in done.stderr
    finally:
        ended(worker)
        ended(process)


def test_wrong_words_for_tls(certificate):
    ca_file, cert, key = map(str, certificate.values())
    given = {"tls_client_cert": cert, "tls_client_key": key, "require_encryption": True}
    security = distributed.Security(tls_ca_file=f"{ca_file}.no", **given)
    with pytest.raises(mt.ArgumentError, match=r"no TLS with tls_ca_file='.*cert\.pem\.no'"):
        Remote("tls://127.0.0.1:9", security=security)
    security = distributed.Security(tls_ca_file=ca_file, **given)
    with pytest.raises(mt.ArgumentError, match="begins with tls://, and tcp://127"):
        Remote("tcp://127.0.0.1:9", security=security)
    with pytest.raises(mt.ArgumentError, match="is of an address"):
        Remote(None, security=security)
    with pytest.raises(mt.ArgumentError, match=r"a distributed\.Security, or None"):
        Remote("tcp://127.0.0.1:9", security="cert.pem")


def test_who_is_there_is_said(workers):
    match = r"no worker of kind 'PDP-11' that can measure: .*1 c"
    with pytest.raises(mt.ArgumentError, match=match):
        Remote(workers, kind="PDP-11", wait=2)


def test_no_scheduler_and_no_worker():
    with pytest.raises(mt.ArgumentError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9"):
        Remote("tcp://127.0.0.1:9", wait=0.5)
    assert "IO loop" not in [thread.name for thread in threading.enumerate()]
    for address in ("nowhere://x", "server", "tcp://server"):
        with pytest.raises(mt.ArgumentError, match="an address such as tcp://server:8786"):
            Remote(address, wait=0.5)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        pytest.raises(mt.ArgumentError, match="no worker that can measure: none"),
    ):
        Remote(client, wait=0.2)
