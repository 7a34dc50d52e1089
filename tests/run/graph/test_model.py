"""Models: a graph as one function, equal to its interpreter; its memory, threads and errors."""

import dataclasses
import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import minitensor as mt
from minitensor import graph, ops
from minitensor.graph.assemble import Scheduled, assembled
from minitensor.graph.checked import run_checked
from minitensor.runtime import native_target

pytestmark = pytest.mark.usefixtures("processes")

SHAPE = (1, 4, 6, 6)


def residual(x, w, gamma, beta, mean, variance):
    y = ops.batch_norm(ops.conv2d(x, w, padding=1), gamma, beta, mean, variance)
    z = ops.relu(ops.add(y, x))
    pooled = ops.reshape(ops.max_pool(z, kernel=2, stride=2), shape=(1, -1))
    return ops.softmax(pooled, axis=1), z


@pytest.fixture(scope="module")
def net():
    rng = np.random.default_rng(0)
    statistics = {n: rng.random(4).astype("f") for n in ("gamma", "beta", "mean", "variance")}
    w = rng.random((4, 4, 3, 3)).astype("f")
    return mt.graph.trace(residual, x=(SHAPE, "float32"), w=w, **statistics)


@pytest.fixture(scope="module")
def model(net):
    return mt.build(net)


@pytest.fixture
def x():
    return np.random.default_rng(1).random(SHAPE).astype("f")


def as_written(parts):
    return [Scheduled(mt.Schedule(part.program), "as it is written") for part in parts]


def agree(found, expected):
    assert isinstance(found, tuple) == isinstance(expected, tuple)
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (found, expected)], strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


class TestCalls:
    @pytest.mark.slow
    def test_equal_the_interpreter(self, net, model, x):
        agree(model(x), mt.interpret(net, x))
        agree(model(x=x), mt.interpret(net, x))

    @pytest.mark.slow
    def test_write_into_outputs(self, net, model, x):
        outputs = [np.empty_like(array) for array in model(x)]
        found = model(x, *outputs)
        assert all(a is b for a, b in zip(found, outputs))
        agree(tuple(outputs), mt.interpret(net, x))

    @pytest.mark.slow
    def test_prepared(self, net, model, x):
        outputs = [np.zeros_like(array) for array in model(x)]
        call = model.prepare(x, *outputs)
        x += 1
        assert call() == 0
        agree(tuple(outputs), mt.interpret(net, x))

    def test_prepared_calls_keep_their_arrays(self, net, model):
        """Once written to after they were freed: the table of a call has addresses only."""
        x = np.random.default_rng(1).random(SHAPE).astype("f")
        outputs = [np.zeros_like(array) for array in model(x)]
        counts = [sys.getrefcount(array) for array in (x, *outputs)]
        call = model.prepare(x, *outputs)
        assert all(sys.getrefcount(a) > n for a, n in zip((x, *outputs), counts, strict=True))
        assert call() == 0

    def test_prepared_calls_keep_the_weights_of_a_model_that_is_gone(self, net, x):
        """Once read after they were freed: a crash where they were large."""
        model = mt.build(net)
        outputs = [np.zeros_like(array) for array in model(x)]
        call, weights = model.prepare(x, *outputs), list(map(weakref.ref, model.weights))
        del model
        gc.collect()
        assert all(weight() is not None for weight in weights)
        assert call() == 0
        agree(tuple(outputs), mt.interpret(net, x))

    @pytest.mark.parametrize("options", [{"check": True}, {"flush_denormals": True}])
    def test_options(self, options, net, x):
        agree(mt.build(net, **options)(x), mt.interpret(net, x))

    def test_at_the_same_time(self, net, model):
        inputs = [np.full(SHAPE, n, "f") for n in range(8)]
        expected = [mt.interpret(net, one) for one in inputs[:2]]
        found = [None] * len(inputs)

        def run(n):
            for _ in range(50):
                found[n] = model(inputs[n % 2])

        threads = [threading.Thread(target=run, args=(n,)) for n in range(len(inputs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for n, one in enumerate(found):
            agree(one, expected[n % 2])

    def test_kernels_tasks_and_source(self, model):
        assert [len(group) for group in model.kernels] == [3, 1, 2]
        assert [task.count for task in model.tasks] == [1, 1, 1]
        assert {task.origin for task in model.tasks} == {"the first sketch"}
        assert model.source.count("STEP(") == 1 + len(model.calls)
        assert "conv2d_add_relu" in model.explain()

    def test_profile(self, model, x):
        profile = model.profile(x, repeat=3)
        assert [row.output for row in profile.rows] == ["relu", "max_pool", "softmax"]
        assert all(row.seconds > 0 for row in profile.rows)
        assert profile.rows[0].flops >= 2 * 4 * 4 * 9 * 36
        assert "100.0%" not in str(profile) and "conv2d_add_relu 1x4x6x6" in str(profile)


class TestGraphs:
    def test_equal_groups_are_one_task(self):
        weights = [np.random.default_rng(n).random((8, 8)).astype("f") for n in range(3)]

        def layers(x, a, b, c):
            for w in (a, b, c):
                x = ops.relu(ops.matmul(x, w))
            return x

        net = mt.graph.trace(
            layers, x=((2, 8), "float32"), **dict(zip("abc", weights, strict=True))
        )
        model = mt.build(net)
        assert [task.count for task in model.tasks] == [3]
        x = np.ones((2, 8), "f")
        agree(model(x), mt.interpret(net, x))

    def test_outputs_that_are_inputs_constants_or_twice_there(self):
        net = mt.graph.trace(
            lambda x, w: (ops.add(x, w), x, w), x=((3,), "float32"), w=np.arange(3, dtype="f")
        )
        net = net.replace(outputs=(*net.outputs, net.outputs[0]))
        x = np.ones(3, "f")
        found = mt.build(net)(x)
        agree(found, mt.interpret(net, x))
        assert not any(np.shares_memory(array, x) for array in found)

    def test_views_of_inputs_and_of_results(self):
        def moved(x):
            flat = ops.reshape(x, shape=(6,))
            y = ops.relu(flat)
            return ops.neg(ops.reshape(y, shape=(3, 2))), ops.exp(flat)

        net = mt.graph.trace(moved, x=((2, 3), "float32")).fuse("none")
        model = mt.build(net)
        assert len(model.calls) == 3
        x = np.random.default_rng(0).standard_normal((2, 3)).astype("f")
        agree(model(x), mt.interpret(net, x))

    def test_scalars_and_other_types(self):
        net = mt.graph.trace(
            lambda i, b: (ops.gather(i, b, axis=0), ops.reduce_sum(i, axes=None)),
            i=((4, 2), "float64"),
            b=((3,), "int64"),
        )
        i, b = np.arange(8.0).reshape(4, 2), np.array([3, 0, 1])
        agree(mt.build(net)(i, b), mt.interpret(net, i, b))

    def test_a_failing_check_names_the_value(self):
        net = mt.graph.trace(
            lambda i, b: ops.relu(ops.gather(i, b, axis=0)),
            i=((4, 2), "float32"),
            b=((3,), "int64"),
        )
        model, i = mt.build(net), np.zeros((4, 2), "f")
        with pytest.raises(mt.ExecutionError, match=r"at relu: .*out of bounds|at relu: "):
            model(i, np.array([0, 1, 9]))


class TestPlans:
    """A plan that is wrong is found in the checked mode, with the names of what is wrong."""

    @pytest.fixture
    def parts(self):
        def chain(x):
            a = ops.add(x, 1.0)
            b = ops.mul(a, 2.0)
            return ops.neg(ops.add(ops.mul(b, 3.0), a))

        net = mt.graph.trace(chain, x=((16,), "float32")).fuse("none")
        return assembled(net, native_target(mt.Target("c")), as_written)

    def run(self, parts, **changes):
        plan = dataclasses.replace(parts.plan, **changes)
        x, y = np.ones(16, "f"), np.empty(16, "f")
        calls = []
        for call in parts.calls:
            places = tuple(moved(place, parts.plan, plan) for place in call.arguments)
            calls.append(dataclasses.replace(call, arguments=places))
        changed = dataclasses.replace(parts, plan=plan, calls=tuple(calls))
        assert run_checked(changed, [x, y]) == 0
        return y

    def test_a_right_one(self, parts):
        assert self.run(parts)[0] == -14

    def test_freed_too_early(self, parts):
        first = parts.steps[0].outputs[0]
        lives = {**parts.plan.lives, first: (0, 1)}
        with pytest.raises(mt.ExecutionError, match=rf"reads {first} after it is freed"):
            self.run(parts, lives=lives)

    def test_overlapping(self, parts):
        first, second = parts.steps[0].outputs[0], parts.steps[1].outputs[0]
        offsets = {**parts.plan.offsets, second: parts.plan.offsets[first]}
        with pytest.raises(mt.ExecutionError, match=rf"{second} writes where {first} lies"):
            self.run(parts, offsets=offsets)


class TestInPlace:
    """A result takes the memory of an input that dies there, where each element needs its own."""

    def built(self, function, **inputs):
        shapes = dict.fromkeys(inputs, ((6, 8), "float32"))
        net = mt.graph.trace(function, **shapes).fuse("none")
        agree(mt.build(net)(**inputs), mt.interpret(net, *inputs.values()))
        agree(mt.build(net, check=True)(**inputs), mt.interpret(net, *inputs.values()))
        return mt.build(net).memory

    @pytest.fixture
    def x(self):
        return np.random.default_rng(1).integers(-9, 9, (6, 8)).astype("f")

    def test_a_chain_lies_in_one_place(self, x):
        memory = self.built(lambda x: ops.neg(ops.exp(ops.relu(ops.neg(x)))), x=x)
        assert len(set(memory.owners.values())) == 1 and len(memory.owners) == 3
        assert f"in the memory of {memory.owners[max(memory.owners)]}" in str(memory)

    def test_an_input_of_the_model_stays(self, x):
        before = x.copy()
        assert self.built(lambda x: ops.neg(ops.relu(x)), x=x).arena == x.nbytes
        assert np.array_equal(x, before)

    def test_what_is_read_again_stays(self, x):
        def twice(x):
            a = ops.neg(x)
            return ops.add(ops.exp(a), ops.relu(a)), ops.mul(a, 2.0)

        self.built(twice, x=x)

    def test_what_is_read_at_another_place_stays(self, x):
        def shifted(x):
            a = ops.exp(x)
            return ops.neg(ops.add(a, ops.reshape(ops.reshape(a, shape=(8, 6)), shape=(6, 8))))

        def crossed(x):
            a = ops.exp(x)
            turned = ops.transpose(ops.reshape(a, shape=(8, 6)), axes=(1, 0))
            return ops.neg(ops.add(a, turned))

        self.built(shifted, x=x)
        self.built(crossed, x=x)

    def test_of_two_calls_of_one_kernel_both_may_or_none(self, x):
        def same(x):
            a, b = ops.neg(x), ops.exp(x)
            return ops.neg(ops.relu(a)), ops.add(ops.relu(b), b)

        self.built(same, x=x)

    @pytest.mark.slow
    def test_a_residual_network(self):
        def network(x, w):
            a = ops.relu(ops.conv2d(x, w, padding=1))
            b = ops.relu(ops.conv2d(a, w, padding=1))
            c = ops.relu(ops.add(ops.conv2d(b, w, padding=1), a))
            return ops.conv2d(c, w, padding=1)

        rng = np.random.default_rng(0)
        w, x = rng.integers(-2, 3, (4, 4, 3, 3)).astype("f"), rng.integers(0, 4, SHAPE).astype("f")
        net = mt.graph.trace(network, x=(SHAPE, "float32"), w=w).fuse()
        for check in (False, True):
            agree(mt.build(net, check=check)(x), mt.interpret(net, x))
        owners = mt.build(net).memory.owners
        assert any(name != owner for name, owner in owners.items())


def moved(place, before, after):
    """The place of the same value in another plan."""
    if place.kind != "arena":
        return place
    changed = [n for n in before.offsets if before.offsets[n] != after.offsets[n]]
    to = {before.offsets[name]: after.offsets[name] for name in changed}
    return dataclasses.replace(place, number=to.get(place.number, place.number))


class TestBadInput:
    @pytest.mark.parametrize(
        ("arrays", "named", "message"),
        [
            ((), {}, r"expected 1 array \(x\)"),
            ((), {"y": 0}, r"expected an array for each input \(x\), but got y"),
            ((0,), {"x": 0}, "but got x twice"),
            ((np.zeros(SHAPE),), {}, "of dtype float32"),
            ((np.zeros((1, 4, 6, 5), "f"),), {}, "of shape"),
            ((None,), {}, "as an array"),
        ],
    )
    def test_arrays(self, arrays, named, message, model):
        with pytest.raises(mt.ArgumentError, match=message):
            model(*arrays, **named)

    def test_binding(self, model, x):
        with pytest.raises(mt.ArgumentError, match="has its constants from its graph"):
            model.bind(x=x)

    @pytest.mark.parametrize("repeat", [0, None, 1.5])
    def test_repeats(self, repeat, model, x):
        with pytest.raises(mt.ArgumentError, match="repeat"):
            model.profile(x, repeat=repeat)

    def test_targets_and_options(self, net):
        for target in ("cuda", "interpreter"):
            with pytest.raises(mt.ArgumentError, match='expected "c", for a graph'):
                mt.build(net, target)
        with pytest.raises(mt.ArgumentError, match="for one program"):
            mt.build(net, dump=print)
        program = graph.program_of(net, [net.nodes[0].name]).program
        with pytest.raises(mt.ArgumentError, match="are for a graph"):
            mt.build(program, log="x.jsonl")


class TestPrecision:
    """Small integers are the same in 16 bits, so nothing is rounded."""

    def network(self, x, w, v, u):
        y = ops.relu(ops.conv2d(x, w, padding=1))
        z = ops.add(ops.conv2d(y, v), y)
        return ops.matmul(ops.reshape(z, shape=(1, -1)), u)

    @pytest.fixture
    def graph(self):
        def small(*shape):
            return np.random.default_rng(len(shape)).integers(-1, 2, shape).astype("f")

        weights = {"w": small(8, 3, 3, 3), "v": small(8, 8, 1, 1), "u": small(8 * 36, 5)}
        return mt.graph.trace(self.network, x=((1, 3, 6, 6), "float32"), **weights)

    @pytest.fixture
    def image(self):
        return np.random.default_rng(2).integers(-1, 2, (1, 3, 6, 6)).astype("f")

    @pytest.mark.slow
    @pytest.mark.parametrize("precision", ["bf16", "f16"])
    def test_a_model_of_halves(self, graph, image, precision):
        expected = mt.interpret(graph, image)
        model = mt.build(graph, precision=precision)
        assert {str(v.dtype) for v in model.graph.values.values()} > {"float32"}
        np.testing.assert_array_equal(model(image), expected)
        checked = mt.build(graph, precision=precision, check=True)
        np.testing.assert_array_equal(checked(image), expected)

    @pytest.mark.slow
    def test_in_another_layout_saved_and_loaded(self, graph, image, tmp_path):
        model = mt.build(graph.in_precision("bf16").lay_out("NHWC"))
        assert "NHWC" in str(model.graph)
        model.save(tmp_path / "halves")
        expected = mt.interpret(graph, image)
        np.testing.assert_array_equal(mt.graph.load(tmp_path / "halves")(image), expected)

    @pytest.mark.slow
    def test_tuned(self, tmp_path):
        log, settings = tmp_path / "log.jsonl", mt.search.Settings(repeats=2, most_repeats=2)
        x, w = (np.random.default_rng(n).integers(-2, 3, (8, 8)).astype("f") for n in (0, 1))
        net = mt.graph.trace(lambda x, w: ops.matmul(x, w), x=((8, 8), "float32"), w=w)
        options = {"settings": settings, "progress": False, "log": log}
        result = mt.tune(net, trials=8, precision="bf16", **options)
        np.testing.assert_array_equal(result.model()(x), x @ w)
        model = mt.build(net, precision="bf16", log=log)
        assert {task.origin for task in model.tasks} == {"the log"}
        assert [str(b.dtype) for b in model.tasks[-1].late.inputs] == ["bfloat16"] * 2
