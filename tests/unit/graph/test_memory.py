"""Memory plans: views, what may be shared, and the lower bound."""

import random

from minitensor.graph.memory import ALIGNMENT, Step, plan_memory


def chain(*sizes, kept=()):
    steps = [Step(f"s{n}", (f"v{n - 1}",) if n else (), (f"v{n}",), {}) for n in range(len(sizes))]
    return plan_memory(steps, {f"v{n}": size for n, size in enumerate(sizes)}, kept)


def test_a_chain_takes_two_at_a_time():
    plan = chain(640, 640, 640, 640)
    assert plan.arena == plan.lower_bound == 1280
    assert plan.separate == 2560
    assert plan.overlaps() == []


def test_sizes_are_whole_cache_lines():
    plan = chain(1, 65)
    assert plan.sizes == {"v0": ALIGNMENT, "v1": 2 * ALIGNMENT}
    assert all(offset % ALIGNMENT == 0 for offset in plan.offsets.values())


def test_what_is_kept_lives_to_the_end():
    plan = chain(64, 64, 64, kept=["v0"])
    assert plan.lives["v0"] == (0, 3)
    assert plan.arena == 192


def test_a_view_lies_where_its_value_lies():
    steps = [
        Step("make", (), ("a",), {}),
        Step("view", ("a",), ("b",), {"b": ("a",)}, view=True),
        Step("use", ("b",), ("c",), {}),
    ]
    plan = plan_memory(steps, {"a": 64, "b": 64, "c": 64}, [])
    assert plan.offsets["a"] == plan.offsets["b"]
    assert plan.lives["a"] == (0, 2)
    assert plan.overlaps() == []


def test_what_dies_gives_its_memory_to_a_result():
    steps = [Step("make", (), ("a",), {}), Step("use", ("a",), ("b",), {"b": ("a",)})]
    assert plan_memory(steps, {"a": 64, "b": 64}, []).arena == 64
    assert plan_memory(steps, {"a": 64, "b": 64}, ["a"]).arena == 128


def test_arenas_of_drawn_plans_are_near_the_bound():
    rng, ratios = random.Random(0), []
    for _ in range(300):
        count = rng.randrange(3, 40)
        steps, sizes = [], {}
        for n in range(count):
            reads = {
                f"v{m}" for m in rng.sample(range(n), min(n, rng.randrange(1, 4))) if n - m < 8
            }
            steps.append(Step(f"s{n}", tuple(sorted(reads)), (f"v{n}",), {}))
            sizes[f"v{n}"] = rng.choice((64, 256, 1024, 4096)) * rng.randrange(1, 9)
        plan = plan_memory(steps, sizes, [f"v{count - 1}"])
        assert plan.overlaps() == []
        ratios.append(plan.arena / plan.lower_bound)
    assert sorted(ratios)[int(0.95 * len(ratios))] <= 1.10
