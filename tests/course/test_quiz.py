"""Questions of quizzes: the right answer is right, by another way than theirs."""

import ast
import re

import numpy as np
import pytest

import minitensor as mt
from minitensor import ir
from minitensor.errors import ArgumentError
from minitensor.testing import small_arrays
from tests.course.answers.lesson_04 import kinds
from tests.parts import times
from tutorials.course import quiz
from tutorials.course.quiz import questions

COUNT = times(12, 24)


@pytest.fixture(scope="module", params=["03", "04", "07"])
def lesson(request):
    return request.param


@pytest.fixture(scope="module")
def tried():
    """The programs that were drawn, and the steps that were tried, by their texts."""
    programs, steps = {}, {}
    readable, attempt = quiz._readable, quiz._tried

    def recorded(draw):
        program = readable(draw)
        programs[str(program)] = program
        return program

    def noted(s, name, positional, named):
        before = s.program
        answer = attempt(s, name, positional, named)
        text = f"{before}\n\ns.{name}({quiz._arguments(positional, named)})\n"
        steps[text] = (before, s.program, name, positional, named)
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quiz, "_readable", recorded)
        patch.setattr(quiz, "_tried", noted)
        yield programs, steps


@pytest.fixture(scope="module")
def asked(lesson, tried):
    return questions(lesson, 5, COUNT)


def rights(asked):
    return [q.choices[q.right] for q in asked]


class TestEveryQuiz:
    def test_choices_are_different_and_the_right_one_is_anywhere(self, asked):
        assert len(asked) == COUNT == len({q.text for q in asked})
        for question in asked:
            assert 3 <= len(question.choices) == len(set(question.choices)) <= 4
            assert question.why
        assert {q.right for q in asked} >= {0, 1, 2}

    def test_questions_are_short(self, asked):
        for question in asked:
            lines = question.text.splitlines()
            assert len(lines) <= quiz.LINES + 6
            assert "True" not in question.text and len(max(lines, key=len)) <= 160

    def test_a_seed_names_its_questions(self, lesson, asked):
        assert questions(lesson, 5, 3) == asked[:3]
        assert questions(lesson, 6, 1) != asked[:1]


def value_of(node, names):
    """The value of an expression of Python."""
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            return names[name]
        case ast.UnaryOp(ast.USub(), operand):
            return -value_of(operand, names)
        case ast.Compare(left, [ast.Lt()], [right]):
            return value_of(left, names) < value_of(right, names)
        case ast.Call(ast.Name(function), arguments):
            values = [value_of(a, names) for a in arguments]
            chosen = {"min": min, "max": max, "select": lambda c, a, b: a if c else b}
            return chosen[function](*values)
        case ast.BinOp(left, op, right):
            a, b = value_of(left, names), value_of(right, names)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv():
                    return a // b
                case ast.Mod():
                    return a % b
    raise AssertionError(ast.dump(node))


def test_values_are_those_of_the_printed_expression(tried):
    asked = questions("03", 1, COUNT)
    for question in asked:
        text, _, given = question.text.splitlines()
        names = {name: int(value) for name, value in re.findall(r"(\w) = (-?\d+)", given)}
        value = value_of(ast.parse(text, mode="eval").body, names)
        assert question.choices[question.right] == str(value)
        assert question.why.endswith(f"{text} = {value}")
    divisions = [q for q in asked if "//" in q.text or "%" in q.text]
    assert len(divisions) >= COUNT // 2


def kinds_in(block):
    """The kinds of a block's iters, from what it reads and writes."""
    stores = block.body.stmts if isinstance(block.body, ir.Seq) else (block.body,)
    combines = isinstance(block.body, ir.Reduce)
    names = {s.buffer for s in stores if isinstance(s, ir.Store)}
    own = [load.indices for s in stores for load in ir.loads(s) if load.buffer in names]
    return kinds([it.var for it in block.iters], stores[0].indices, own, combines)


def test_kinds_are_those_that_reads_and_writes_show(tried):
    programs, _ = tried
    found = set()
    for question in questions("04", 1, 2 * COUNT):
        program = programs[question.text.split("\n\n")[0]]
        ir.verify(program)
        right = question.choices[question.right]
        loop = re.search(r"loop (\w+)", question.text)[1]
        by_loop = {
            it.binding.name: kind
            for block in program.blocks.values()
            for it, kind in zip(block.iters, kinds_in(block).values())
            if isinstance(it.binding, ir.Var)
        }
        meaning = {"yes": "spatial", "reduction": "reduce", "update": "ordered"}
        kind = next((meaning[word] for word in meaning if right.endswith(word)), right)
        assert by_loop[loop] == kind
        found.add(right)
    assert found >= {"spatial", "reduce", "ordered", "yes"} and len(found) >= 5


def test_steps_end_as_it_is_said_and_accepted_ones_keep_the_results(tried):
    _, steps = tried
    asked = questions("07", 1, COUNT)
    for question in asked:
        nest, step, _ = question.text.split("\n\n")
        before, after, name, positional, named = steps[f"{nest}\n\n{step}\n"]
        right = question.choices[question.right]
        s = mt.Schedule(before)
        if right == "accepted":
            getattr(s, name)(*positional, **named)
            assert s.program == after
            arrays = small_arrays(before, 3)
            outputs = [b.name for b in before.outputs]
            want, _ = ir.interpret(before, arrays, outputs)
            got, _ = ir.interpret(after, arrays, outputs)
            assert all(np.array_equal(a, b) for a, b in zip(want, got))
            assert str(after) in question.why
        else:
            with pytest.raises(mt.ScheduleError) as refused:
                getattr(s, name)(*positional, **named)
            rule, _, text = right.partition(": ")
            assert refused.value.rule == rule and text in " ".join(question.why.split())
    right = rights(asked)
    assert 3 <= right.count("accepted") <= COUNT - 3
    assert len({r for r in right if r != "accepted"}) >= 8


def test_other_lessons_have_none():
    with pytest.raises(ArgumentError, match="05 has no quiz; 03, 04, 07 have"):
        questions("05", 1, 1)
    assert questions("03", 1, 0) == []
    assert len({quiz.any_seed() for _ in range(5)}) > 1
