"""Judges of whatever an answer returns: a verdict always, and soon."""

import dataclasses
import json
import pathlib
import random

import numpy as np
import pytest

import minitensor as mt
from minitensor import ir
from tutorials import lessons
from tutorials.course.check import judged
from tutorials.course.wire import encode

CASES = 3
"""The cases of a task that are tried."""


def program():
    A = mt.placeholder((3,), name="A")
    return mt.lower([A, mt.compute((3,), lambda i: A[i], name="R")])


def numbers():
    big = 2**4000
    special = [float("nan"), float("inf"), (float("nan"), 1), (float("-inf"), float("inf"))]
    arrays = [np.arange(3), np.zeros((0, 2)), np.float32(2), np.uint64(2**63), np.bool_(True)]
    pairs = [(1, 2), [1, 2], (big, -big), (np.uint64(3), np.int8(-4)), [[], [[]]]]
    return [None, True, 0, -1, big, 0.5, 1j, *special, *arrays, *pairs]


def containers():
    named = [{}, {"i": "spatial"}, {1: 2}, {"i": None}]
    return ["", "x", b"x", [], (), set(), {"identity"}, {1, 2}, object(), lambda: 1, *named]


def expressions():
    i = ir.Var("i")
    odd = [ir.Var("?"), ir.Var(3), ir.Var(("a",)), ir.Const("x"), ir.Const(None), ir.Const(1.5)]
    nodes = [
        ir.Binary("?", i, i),
        ir.Binary("+", i, ir.TRUE),
        ir.Binary("<", i, i),
        ir.Unary("-", i),
    ]
    choices = [ir.Select(i, i, i), ir.Select(ir.TRUE, i, ir.TRUE)]
    loads = [ir.Load("A", (i,), ir.INDEX), ir.Load("A", 5, ir.INDEX), ir.Call("exp", i, ir.INDEX)]
    return [i, *odd, *nodes, *choices, *loads, ir.Const(0, ir.FLOAT32), ir.Const(2**4000)]


def programs():
    right = program()
    first = ir.Store("R", (ir.Const(0),), ir.Const(1.0, ir.FLOAT32))
    bodies = [ir.For("i", 10**12, first), ir.For("i", "x", first), ir.Seq(()), 5]
    params = [(1, 2), (ir.Buffer("A", (3, "q"), ir.FLOAT32), ir.Buffer("R", None, ir.FLOAT32))]
    made = [dataclasses.replace(right, body=body) for body in bodies]
    made += [dataclasses.replace(right, params=given) for given in params]
    return [right, *made, dataclasses.replace(right, name=5), mt.Schedule(right)]


TASKS = [(lesson, task) for lesson in lessons() for task in lesson.tasks]
IDS = [f"{lesson.number}-{task.name}" for lesson, task in TASKS]


MORE = [pytest.param(odd, marks=pytest.mark.whole) for odd in (expressions, programs)]


@pytest.mark.many
@pytest.mark.parametrize("odd", [numbers, containers, *MORE])
@pytest.mark.parametrize(("lesson", "task"), TASKS, ids=IDS)
def test_a_judge_takes_any_value(lesson, task, odd):
    cases = task.cases(random.Random("odd"))[:CASES]
    for value in odd():
        reply = {"answers": [json.loads(json.dumps(encode(value)))]}
        for case in cases:
            lacking, _ = judged(task, [case], reply, lesson.number, pathlib.Path("answer.py"))
            assert isinstance(lacking, str)
            assert "cannot be judged" not in lacking
