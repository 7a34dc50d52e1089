"""Tuning a graph: each distinct kernel once, by its share; its log, and a build with it."""

import logging

import numpy as np
import pytest

import minitensor as mt
from minitensor import ops
from minitensor.graph import cheapest, default_layouts
from minitensor.search.runner import Processes, Settings
from minitensor.search.tune import network

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("processes")]
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
    w = np.random.default_rng(3).integers(-2, 3, (8, 8, 3, 3)).astype("f")

    def layers(x, w):
        for _ in range(2):
            x = ops.relu(ops.conv2d(x, w, padding=1))
        return ops.reduce_mean(x, axes=(2, 3))

    return mt.graph.trace(layers, x=((1, 8, 4, 4), "float32"), w=w)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A network of images, tuned as it is written: its result and its log."""
    log = tmp_path_factory.mktemp("images") / "log.jsonl"
    plain = images_net().lay_out("NCHW")
    return mt.tune(plain, trials=8, log=log, settings=QUICK, progress=False), log


def test_layouts_are_chosen_by_measuring_and_found_again(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(network, "HOPELESS", 1e9)
    net, log = images_net(), tmp_path / "log.jsonl"
    with caplog.at_level(logging.WARNING, logger="minitensor"):
        result = mt.tune(net, trials=8, log=log, settings=QUICK, progress=False)
    assert not caplog.records
    assert result.graph.layouts is not None
    names = {record.name for record in mt.search.Log(log)}
    assert {"conv2d_relu", "conv2d_relu_nhwc"} <= names  # both were tried
    x = np.random.default_rng(1).integers(-2, 3, (1, 8, 4, 4)).astype("f")
    expected = mt.interpret(net, x)
    np.testing.assert_allclose(result.model()(x), expected, rtol=1e-5)
    with caplog.at_level(logging.WARNING, logger="minitensor"):
        model = mt.build(net, log=log)
    assert not caplog.records
    assert {task.origin for task in model.tasks} == {"the log"}
    np.testing.assert_allclose(model(x), expected, rtol=1e-5)


def test_layouts_are_priced_once_for_a_log(tmp_path, monkeypatch, written):
    net, log = images_net(), tmp_path / "log.jsonl"
    mt.tune(net.lay_out("NHWC"), trials=8, log=log, settings=QUICK, progress=False)
    priced = []

    def counted(*arguments):
        priced.append(arguments)
        return cheapest(*arguments)

    monkeypatch.setattr("minitensor.search.tasks.network.cheapest", counted)
    first, again = (mt.build(net, log=log).graph.layouts for _ in range(2))
    assert first == again and any(first.values())
    assert len(priced) == 1
    with log.open("ab") as more:
        more.write(written[1].read_bytes())
    mt.build(net, log=log)
    assert len(priced) == 2


def test_a_layout_of_the_users_own_stays(written):
    assert written[0].graph.layouts == {}


def test_layouts_that_no_log_has_measured_are_not_taken(tmp_path, written):
    net, log = images_net(), written[1]
    model = mt.build(net, log=log)
    assert model.graph.layouts == {}
    assert {task.origin for task in model.tasks} == {"the log"}
    assert mt.build(net, log=tmp_path / "nothing.jsonl").graph.layouts == default_layouts(
        net.grouped()
    )


def test_tasks_are_tuned_once_each(tuned):
    result, log = tuned
    assert sorted(task.count for task in result.tasks) == [1, 3]
    assert all(8 <= task.trials <= 32 for task in result.tasks)
    keys = {record.workload for record in mt.search.Log(log)}
    assert keys == {mt.search.workload_key(task.program) for task in result.tasks}
    assert result.seconds <= result.first
    assert "matmul_relu" in result.explain() and ".model()" in str(result)


def test_a_picture_of_the_search(tuned, tmp_path):
    result, _ = tuned
    (picture,) = result.plot(tmp_path / "pictures")
    assert picture.name == "tasks" and (tmp_path / "pictures" / "tasks.svg").exists()
    assert "matmul_relu" in picture.text
    ends = result.curve()
    assert len(ends) == len(result.steps) and ends[-1][1] <= result.first
    assert [at for at, _ in ends] == sorted(at for at, _ in ends)


def test_it_goes_on_from_its_log(net, tuned, monkeypatch):
    """What was measured is not measured again, and counts among the trials."""
    result, log = tuned
    again = mt.tune(net, trials=8, log=log, settings=QUICK, progress=False)
    assert again.steps == ()
    known = {task.name: task.trials for task in again.tasks}
    assert known == {task.name: task.trials for task in result.tasks}
    more = mt.tune(net, trials=12, log=log, settings=QUICK, progress=False)
    assert sum(task.trials for task in more.tasks) >= 24
    assert sum(step.trials for step in more.steps) == sum(t.trials for t in more.tasks) - 16


def test_several_networks_share_their_tasks(net, tmp_path):
    other = mt.graph.trace(
        lambda x, w: ops.relu(ops.matmul(x, w)),
        x=((8, 16), "float32"),
        w=np.ones((16, 16), "float32"),
    )
    log = tmp_path / "log.jsonl"
    both = mt.tune([net, other], trials=8, log=log, settings=QUICK, progress=False)
    assert [len(one.tasks) for one in both] == [2, 1]
    names = [record.name for record in mt.search.Log(log)]
    assert both[1].tasks[0].trials == 8 <= names.count("matmul_relu") <= 9  # the finals are one
    assert [task.count for task in both[1].tasks] == [1]
    x = np.ones((8, 16), "float32")
    np.testing.assert_allclose(both[1].model()(x), mt.interpret(other, x), rtol=1e-5)


def test_fewer_trials_than_tasks_go_to_the_dearest(net):
    result = mt.tune(net, trials=4, settings=QUICK, progress=False)
    first, second = sorted(result.tasks, key=lambda task: -task.count * task.first)
    assert (first.trials, second.trials) == (8, 0)
    assert f"next would be {second.name}, which has had no trial" in result.explain()


def test_what_is_required_ends_it(net):
    enough = mt.search.Requirements(10.0)
    result = mt.tune(net, trials=8, objective=enough, settings=QUICK, progress=False)
    assert result.steps == () and result.upcoming == ""


def test_an_objective_that_fails_later_ends_it(net, caplog):
    def objective(latencies):
        asked.append(latencies)
        return sum(latencies) if len(asked) < 5 else float("nan")

    asked = []
    result = mt.tune(net, trials=8, objective=objective, settings=QUICK, progress=False)
    assert "expected a number from the objective" in result.stopped
    assert "the search ended early" in caplog.text and "ended early" in result.explain()
    assert result.steps


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


class Ending(Processes):
    """Processes of which none can be had."""

    def __init__(self, failure):
        super().__init__()
        self.failure, self.asked = failure, 0

    @property
    def compilers(self):
        self.asked += 1
        raise self.failure


def test_interrupted(net):
    """What was found until then is returned, and built."""
    with Ending(KeyboardInterrupt()) as processes:
        result = mt.tune(net, trials=8, settings=QUICK, progress=False)
    assert result.interrupted and processes.asked == 1
    assert [task.trials for task in result.tasks] == [0, 0]
    assert "it ended early: interrupted" in result.explain()
    assert result.model()(np.ones((8, 16), "f")).shape == (8, 16)


def test_a_task_that_fails_does_not_end_the_search(net):
    with Ending(mt.TuningError("nothing works")):
        result = mt.tune(net, trials=8, settings=QUICK, progress=False)
    assert [task.failed for task in result.tasks] == ["nothing works"] * 2
    assert result.explain().count("nothing was found: nothing works") == 2


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
        ({"scheduler": "fair"}, "'gradient', 'round_robin', 'random'"),
        ({"objective": "speed"}, "mt.search.Requirements"),
        ({"objective": lambda latencies: None}, "expected a number from the objective"),
        ({"objective": mt.search.Speedup(1.0, 2.0)}, "for each of 1 networks, but got 2"),
        ({"progress": "yes"}, "progress"),
    ],
)
def test_bad_arguments(options, message, net):
    with pytest.raises(mt.ArgumentError, match=message):
        mt.tune(net, **options)


def test_what_is_no_list_of_graphs(net):
    with pytest.raises(mt.ArgumentError, match="expected a list of graphs alone"):
        mt.tune([net, mt.lower(mt.workloads.matmul(8, 8, 8))])
    for given in ([], (mt.lower(mt.workloads.matmul(8, 8, 8)),)):
        with pytest.raises(mt.ArgumentError, match=r"expected a program \(see mt.lower\)"):
            mt.tune(given)
    with pytest.raises(mt.ArgumentError, match="scheduler= is for graphs"):
        mt.tune(mt.lower(mt.workloads.matmul(8, 8, 8)), scheduler="round_robin")
