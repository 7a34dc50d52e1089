"""The collector of garbage, at work less often."""

import gc
import threading

import pytest

from minitensor.garbage import collected_seldom


@pytest.fixture(params=[(700, 10, 10), (100_000, 1, 1), (0, 10, 10), (700, 30, 5)])
def usual(request):
    before = gc.get_threshold()
    gc.set_threshold(*request.param)
    yield request.param
    gc.set_threshold(*before)


def test_a_users_choice_is_kept(usual):
    with collected_seldom():
        inside = gc.get_threshold()
        assert inside == usual if not usual[0] else all(a >= b for a, b in zip(inside, usual))
        assert not usual[0] or inside[0] >= 20_000
    assert gc.get_threshold() == usual


def test_it_is_as_before_after_an_exception(usual):
    with pytest.raises(KeyboardInterrupt), collected_seldom():
        raise KeyboardInterrupt
    assert gc.get_threshold() == usual


def test_the_last_of_several_restores(usual):
    entered, leave = threading.Event(), threading.Event()

    @collected_seldom()
    def other():
        entered.set()
        leave.wait(10)

    thread = threading.Thread(target=other)
    with collected_seldom():
        inside = gc.get_threshold()
        thread.start()
        assert entered.wait(10)
    assert gc.get_threshold() == inside  # the other is still at work
    leave.set()
    thread.join()
    assert gc.get_threshold() == usual
