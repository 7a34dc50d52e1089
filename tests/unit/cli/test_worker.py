"""`minitensor worker`: what it says where it cannot work."""

import json
import sys

import pytest

from minitensor.search import Remote

pytest.importorskip("distributed")


def failed(done, status):
    assert done.status == status
    return done


def test_a_machine_without_a_compiler(run, monkeypatch):
    monkeypatch.setattr(Remote, "described", lambda: json.dumps({"error": "no C compiler"}))
    done = failed(run("worker", "tcp://127.0.0.1:9"), 1)
    assert "this machine cannot measure: no C compiler" in done.err


def test_a_module_that_is_not_there(run):
    assert (
        "--trust no_such" in failed(run("worker", "tcp://127.0.0.1:9", "--trust", "no_such"), 1).err
    )
    assert "is not the name of a module" in failed(run("worker", "x:1", "--trust", "a;b"), 1).err


def test_without_the_extra(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "pip install 'minitensor[distributed]'" in failed(run("worker", "x:1"), 1).err


def test_an_address_that_is_none(run):
    assert "no Dask scheduler answers at nonsense" in failed(run("worker", "nonsense"), 1).err
    assert "tcp://server:8786" in failed(run("tune", "matmul", "--workers", "nonsense"), 1).err


def test_a_kind_without_workers(run):
    assert "--kind is of workers" in failed(run("tune", "matmul", "--kind", "x"), 2).err
