"""Tuning a graph: each distinct kernel once, by its share; its log, and a build with it."""

import logging

import numpy as np
import pytest

import minitensor as mt
from minitensor import ops
from minitensor.search.runner import Settings
from minitensor.search.tune import network

QUICK = Settings(repeats=2, most_repeats=4, budget=0.01, repeat=0.0005, noise=0.5)


@pytest.fixture(scope="module")
def net():
    weights = [np.random.default_rng(n).integers(-2, 3, (16, 16)).astype("f") for n in range(3)]

    def layers(x, a, b, c):
        for w in (a, b, c):
            x = ops.relu(ops.matmul(x, w))
        return ops.softmax(x, axis=1)

    named = dict(zip("abc", weights, strict=True))
    return mt.graph.trace(layers, x=((8, 16), "float32"), **named)


@pytest.fixture(scope="module")
def tuned(net, tmp_path_factory):
    log = tmp_path_factory.mktemp("network") / "log.jsonl"
    return mt.tune(net, trials=8, log=log, settings=QUICK, progress=False), log


def images_net():
    w = np.random.default_rng(3).integers(-2, 3, (16, 16, 3, 3)).astype("f")

    def layers(x, w):
        for _ in range(2):
            x = ops.relu(ops.conv2d(x, w, padding=1))
        return ops.reduce_mean(x, axes=(2, 3))

    return mt.graph.trace(layers, x=((1, 16, 8, 8), "float32"), w=w)


def test_layouts_are_chosen_by_measuring_and_found_again(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(network, "HOPELESS", 1e9)
    net, log = images_net(), tmp_path / "log.jsonl"
    with caplog.at_level(logging.WARNING, logger="minitensor"):
        result = mt.tune(net, trials=8, log=log, settings=QUICK, progress=False)
    assert not caplog.records
    assert result.graph.layouts is not None
    names = {record.name for record in mt.search.Log(log)}
    assert {"conv2d_relu", "conv2d_relu_nhwc"} <= names  # both were tried
    x = np.random.default_rng(1).integers(-2, 3, (1, 16, 8, 8)).astype("f")
    expected = mt.interpret(net, x)
    np.testing.assert_allclose(result.model()(x), expected, rtol=1e-5)
    with caplog.at_level(logging.WARNING, logger="minitensor"):
        model = mt.build(net, log=log)
    assert not caplog.records
    assert {task.origin for task in model.tasks} == {"the log"}
    np.testing.assert_allclose(model(x), expected, rtol=1e-5)


def test_a_layout_of_the_users_own_stays(tmp_path):
    plain = images_net().lay_out("NCHW")
    result = mt.tune(plain, trials=8, settings=QUICK, progress=False)
    assert result.graph.layouts == {}


def test_layouts_that_no_log_has_measured_are_not_taken(tmp_path):
    net, log = images_net(), tmp_path / "log.jsonl"
    mt.tune(net.lay_out("NHWC"), trials=8, log=log, settings=QUICK, progress=False)
    model = mt.build(net, log=log)
    assert "NHWC" in str(model.graph)
    assert {task.origin for task in model.tasks} == {"the log"}
    assert mt.build(net, log=tmp_path / "nothing.jsonl").graph.layouts == {}


def test_tasks_are_tuned_once_each(tuned):
    result, log = tuned
    assert sorted(task.count for task in result.tasks) == [1, 3]
    assert all(8 <= task.trials <= 32 for task in result.tasks)
    keys = {record.workload for record in mt.search.Log(log)}
    assert keys == {mt.search.workload_key(task.program) for task in result.tasks}
    assert result.seconds <= result.first
    assert "matmul_relu" in result.explain() and ".model()" in str(result)


def test_models_are_right(net, tuned, caplog):
    result, log = tuned
    x = np.random.default_rng(0).integers(-2, 3, (8, 16)).astype("f")
    expected = mt.interpret(net, x)
    np.testing.assert_allclose(result.model()(x), expected, rtol=1e-5)
    with caplog.at_level(logging.WARNING, logger="minitensor"):
        model = mt.build(net, log=log)
    assert not caplog.records
    assert {task.origin for task in model.tasks} == {"the log"}
    np.testing.assert_allclose(model(x), expected, rtol=1e-5)


def test_what_a_log_lacks_is_said(net, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="minitensor"):
        model = mt.build(net, log=tmp_path / "nothing.jsonl")
    assert "2 of 2 tasks were never tuned for this machine (matmul_relu, softmax)" in caplog.text
    assert {task.origin for task in model.tasks} == {"the first sketch"}


def test_history_around_a_build(net, tuned):
    with mt.apply_history_best(tuned[1]):
        assert {task.origin for task in mt.build(net).tasks} == {"the log"}


def test_interrupted(net, monkeypatch):
    """What was found until then is returned, and built."""
    calls = []

    def one(program, **options):
        calls.append(program.name)
        raise KeyboardInterrupt

    monkeypatch.setattr(network, "_show", lambda *given: None)
    exact = mt.build(net).target
    schedules = mt.search.network_schedules([], exact)
    result = network.tune_network(net.grouped(), exact, schedules, one, 8, None, True)
    assert result.interrupted and len(calls) == 1
    assert [task.trials for task in result.tasks] == [0, 0]
    assert result.model()(np.ones((8, 16), "f")).shape == (8, 16)


def test_a_task_that_fails_does_not_end_the_search(net, capsys):
    def one(program, **options):
        raise mt.TuningError("nothing works")

    exact = mt.build(net).target
    schedules = mt.search.network_schedules([], exact)
    result = network.tune_network(net.grouped(), exact, schedules, one, 8, None, True)
    assert [task.failed for task in result.tasks] == ["nothing works"] * 2
    assert result.explain().count("nothing was found: nothing works") == 2
    assert "task 2 of 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"space": lambda s: None}, "space= is for one program"),
        ({"inputs": [1]}, "inputs= is for one program"),
        ({"callbacks": [print]}, "callbacks= is for one program"),
        ({"trials": 0}, "trials"),
        ({"time_limit": -1}, "time_limit"),
        ({"target": "cuda-emulator"}, "target"),
        ({"verbose": 1}, "verbose"),
    ],
)
def test_bad_arguments(options, message, net):
    with pytest.raises(mt.ArgumentError, match=message):
        mt.tune(net, **options)
