"""The credit of a worker."""

from __future__ import annotations

from covey.worker.window import Window


def test_it_begins_with_two_rounds_of_jobs() -> None:
    assert Window(8, 1).first == 16
    assert Window(8, 50).first == 800


def test_a_slow_group_does_not_fill_it() -> None:
    window = Window(4, 1)
    for _ in range(8):
        window.received(1)
    assert window.open == 0
    assert window.grant(7) == 7  # one job of one group: seven more are missing


def test_it_is_never_more_than_the_most_that_may_be_held() -> None:
    window = Window(4, 1)
    for _ in range(5000):
        if window.open:
            window.received(1)
        else:
            window.grant(7)
    assert window.held == window.held_max == 1024


def test_little_credit_waits_for_more() -> None:
    window = Window(16, 1)
    for _ in range(3):
        window.received(1)
        window.settled(1)
    assert window.grant(32) == 0
    for _ in range(5):
        window.received(1)
        window.settled(1)
    assert window.grant(32) == 8


def test_many_bytes_stop_it_until_they_are_settled() -> None:
    window = Window(1, 1, bytes_max=10)
    window.received(11)
    window.received(11)
    assert window.grant(2) == 0
    window.settled(11)
    window.settled(11)
    assert window.grant(2) == 2
