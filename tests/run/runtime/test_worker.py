"""Workers: replies, and every way in which a process gives none; nothing is left of it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from minitensor.runtime import Parent, Reason, Worker, WorkerError
from minitensor.runtime.descendants import MARK, children, kill_marked, marked
from tests.run.runtime.faulty import answer

FAULTY = "tests.run.runtime.faulty"
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and prctl")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITENSOR_CACHE_DIR", str(tmp_path / "cache"))


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def failure_of(worker, request, timeout=30.0):
    worker.send(request)
    with pytest.raises(WorkerError) as failed:
        worker.receive(timeout)
    return failed.value


def test_replies_come_in_order_and_output_is_no_reply():
    with Worker.start(FAULTY, variables={"PYTHONUTF8": "1"}) as worker:
        long = "ä" * 300_000
        for value in (1, long, None):
            worker.send({"echo": value})
            assert worker.receive(30) == {"echo": value}
        assert worker.poll() is None
        worker.close(grace=10)
    assert worker._code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("request_", "reason", "words"),
    [
        ({"signal": signal.SIGSEGV}, Reason.CRASH, "was killed by SIGSEGV"),
        ({"signal": signal.SIGKILL}, Reason.CRASH, "was killed by SIGKILL"),
        ({"signal": signal.SIGSTOP}, Reason.STOPPED, "was stopped by SIGSTOP"),
        ({"raise": "why"}, Reason.EXIT, "ended with status 1, without a reply"),
        ({"exit": 3}, Reason.EXIT, "ended with status 1, without a reply"),
        ({"write": '{"echo": 1'}, Reason.GARBLED, "in the middle of a reply"),
        ({"write": "nonsense\n"}, Reason.GARBLED, "wrote what is no message"),
        ({"write": "[1]\n"}, Reason.GARBLED, "wrote what is no message"),
        ({"close": True}, Reason.EXIT, "closed its channel"),
    ],
)
def test_why_there_is_no_reply(tmp_path, request_, reason, words):
    with Worker.fork(lambda parent: answer(parent, request_), tmp_path) as worker:
        failure = failure_of(worker, {})
        assert failure.reason is reason
        assert words in failure.message
    assert not is_alive(worker.pid)


@pytest.mark.slow
def test_what_was_written_last_is_part_of_the_reason():
    with Worker.start(FAULTY) as worker:
        failure = failure_of(worker, {"raise": "why"})
    assert failure.message == "ended with status 1, without a reply: RuntimeError: why"
    assert "Traceback" in failure.errors
    with Worker.start(FAULTY) as worker:
        assert "status 3" in failure_of(worker, {"exit": 3}).message


@pytest.mark.slow
def test_a_deadline_and_what_is_done_meanwhile():
    with Worker.start(FAULTY) as worker:
        worker.send({"hang": True})
        worker.receive(30)
        looks = []
        with pytest.raises(WorkerError, match=r"did not end within 0\.3 s") as failed:
            worker.receive(0.3, lambda: looks.append(1))
        assert failed.value.reason is Reason.TIMEOUT
        assert looks
        with pytest.raises(KeyError):
            worker.receive(30, {}.popitem)
    assert not is_alive(worker.pid)


def test_variables_are_set_and_removed(monkeypatch):
    monkeypatch.setenv("REMOVED", "1")
    monkeypatch.setenv("LEFT", "1")
    with Worker.start(FAULTY, variables={"REMOVED": None, "SET": "2"}) as worker:
        worker.send({"variables": ["REMOVED", "LEFT", "SET"]})
        assert worker.receive(30) == {"values": [None, "1", "2"]}


def test_requests_to_one_that_has_ended_are_no_error():
    with Worker.start(FAULTY) as worker:
        os.kill(worker.pid, signal.SIGKILL)
        wait_for(lambda: not is_alive(worker.pid))
        for _ in range(3):
            worker.send({"echo": 1})
        with pytest.raises(WorkerError, match="SIGKILL"):
            worker.receive(30)


@pytest.mark.slow
@linux
@pytest.mark.parametrize("grace", [0.0, 10.0])
@pytest.mark.parametrize("killed", [False, True])
def test_what_it_started_ends_with_it(grace, killed):
    """Even a process with a session of its own, whose parent was killed."""
    with Worker.start(FAULTY) as worker:
        worker.send({"start": True})
        started = worker.receive(30)["pid"]
        if killed:
            os.kill(worker.pid, signal.SIGKILL)
        worker.close(grace)
    wait_for(lambda: not is_alive(started), 5)


@pytest.mark.slow
@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_it_ends_with_its_parent(number):
    command = [sys.executable, "-m", "tests.run.runtime.parent"]
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        worker = int(parent.stdout.readline())
        assert is_alive(worker)
        parent.send_signal(number)
        parent.wait(30)
    wait_for(lambda: not is_alive(worker), 5)


def test_a_module_that_does_not_exist():
    with Worker.start("tests.no_such_module") as worker, pytest.raises(WorkerError) as failed:
        worker.receive(30)
    assert "No module named tests.no_such_module" in failed.value.message


def test_forked_ones(tmp_path):
    def function(parent: Parent):
        Path("here").write_text("")
        for request in parent.requests():
            parent.send({"sum": sum(request["numbers"])})

    before = len(os.listdir("/proc/self/fd")) if Path("/proc").exists() else 0
    with Worker.fork(function, tmp_path) as worker:
        worker.send({"numbers": [1, 2]})
        assert worker.receive(30) == {"sum": 3}
    assert (tmp_path / "here").exists()
    assert not is_alive(worker.pid)
    assert before == (len(os.listdir("/proc/self/fd")) if Path("/proc").exists() else 0)


def test_forked_ones_that_fail(tmp_path):
    with Worker.fork(lambda parent: 1 / 0, tmp_path) as worker:
        assert failure_of(worker, {}).message == "ended with status 1, without a reply"
    with Worker.fork(lambda parent: time.sleep(60), tmp_path) as worker:
        assert failure_of(worker, {}, 0.1).reason is Reason.TIMEOUT
    with Worker.fork(lambda parent: os.abort(), tmp_path) as worker:
        failure = failure_of(worker, {})
    assert (failure.reason, failure.code) == (Reason.CRASH, -signal.SIGABRT)
    assert failure.memory > 1 << 20


@linux
def test_marked_processes_are_found_and_killed():
    command = [sys.executable, "-c", "import time; time.sleep(100)"]
    with subprocess.Popen(
        command, env={**os.environ, MARK: "token"}, start_new_session=True
    ) as process:
        wait_for(lambda: marked("token"))
        assert marked("token") == [process.pid]
        assert process.pid in children(os.getpid())
        kill_marked("token")
        assert process.wait() == -signal.SIGKILL
    assert marked("token") == []
