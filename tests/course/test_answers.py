"""Judges accept what is right, however it is written, and nothing else."""

import pytest

from tests.course.harness import answers_of, verdict
from tests.parts import times
from tests.sent import imported
from tutorials import lessons

TASKS = [(lesson, task) for lesson in lessons() for task in lesson.tasks]
IDS = [f"{lesson.number}-{task.name}" for lesson, task in TASKS]


@pytest.mark.parametrize(("lesson", "task"), TASKS, ids=IDS)
class TestTask:
    def test_right_answers_pass(self, lesson, task, tmp_path):
        found = answers_of(lesson).RIGHT[task.name]
        assert len(set(found)) >= 3
        for function in found[:: times(2, 1)]:
            assert verdict(lesson, task, function, tmp_path) == ("", ""), function.__name__

    def test_wrong_answers_are_caught_and_shown(self, lesson, task, tmp_path):
        found = answers_of(lesson).WRONG[task.name]
        assert len({function for function, _ in found}) >= 3
        for function, part in found:
            lacking, script = verdict(lesson, task, function, tmp_path)
            assert part in lacking, f"{function.__name__}: {lacking}"
            if script:
                with pytest.raises((Exception, SystemExit)):
                    imported(script)

    def test_the_stub_is_not_written_yet(self, lesson, task, tmp_path):
        text = lesson.stubs.read_text()
        assert text.count(f"\ndef {task.name}(") == 1
        module = imported(text)
        assert getattr(module, task.name).__doc__
        with pytest.raises(NotImplementedError):
            function = getattr(module, task.name)
            function(*[None] * function.__code__.co_argcount)


def test_there_are_two_to_four_tasks_and_no_other_answers():
    for lesson in lessons():
        names = [task.name for task in lesson.tasks]
        assert 2 <= len(set(names)) == len(names) <= 4, lesson.number
        found = answers_of(lesson)
        assert set(found.RIGHT) == set(found.WRONG) == set(names)
