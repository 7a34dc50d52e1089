"""Processes that are found by what they inherited."""

from minitensor.runtime import descendants


def test_a_process_is_killed_though_its_environment_was_empty_at_first(monkeypatch):
    """The kernel fills it in a moment after the process that started it has continued."""
    mark = f"{descendants.MARK}=token".encode()
    environs, killed = [b"", b"", mark + b"\0A=1"], []

    def processes(file):
        yield 1, b"A=1"
        if not killed:
            yield 2, environs[0]
            del environs[: len(environs) - 1 and 1]

    monkeypatch.setattr(descendants, "processes", processes)
    monkeypatch.setattr(descendants, "_has_program", lambda pid: True)
    monkeypatch.setattr(descendants.os, "kill", lambda pid, number: killed.append(pid))
    descendants.kill_marked("token")
    assert killed == [2]


def test_others_without_an_environment_are_waited_for_a_moment_only(monkeypatch):
    pauses = []
    monkeypatch.setattr(descendants, "processes", lambda file: [(2, b"")])
    monkeypatch.setattr(descendants.time, "sleep", pauses.append)
    monkeypatch.setattr(descendants, "_has_program", lambda pid: True)
    descendants.kill_marked("token")
    assert 0 < sum(pauses) < 1
    pauses.clear()
    monkeypatch.setattr(descendants, "_has_program", lambda pid: False)
    descendants.kill_marked("token")
    assert pauses == []
