"""Consumers and their two credit windows."""

from __future__ import annotations

import pytest

from covey.core.model.consumer import CREDIT_MAX, Window
from tests.core.support import Bench
from tests.doubles import Reader


@pytest.mark.parametrize(
    ("count", "size", "is_open"),
    [(1, 0, True), (0, 1, True), (-3, 1, True), (1, -9, True), (0, 0, False), (-1, -1, False)],
)
def test_either_window_above_zero_lets_a_message_through(
    count: int, size: int, is_open: bool
) -> None:
    window = Window(count, size)
    assert window.is_open() is is_open
    assert Reader(window).is_willing() is is_open


def test_a_paused_window_is_closed_whatever_its_credit() -> None:
    window = Window(9, 9, is_automatic=True)
    window.is_paused = True
    assert not window.is_open()
    assert not Reader(window).is_willing()


def test_both_windows_are_lowered_and_may_go_below_zero() -> None:
    bench = Bench()
    reader = bench.join(2, size=3)
    for _ in range(4):
        bench.send(size=10)
    bench.pump()
    assert reader.got == [1, 2]
    assert (reader.window.count, reader.window.size) == (0, -17)


def test_an_automatic_window_is_not_counted() -> None:
    bench = Bench()
    reader = Reader(Window(0, is_automatic=True))
    bench.queue.join(reader, bench.now)
    for _ in range(5):
        bench.send()
    bench.pump()
    assert len(reader.got) == 5
    assert reader.window.count == 0


def test_credit_cannot_grow_without_bound() -> None:
    window = Window(1)
    window.grant(CREDIT_MAX, CREDIT_MAX)
    window.grant(CREDIT_MAX, CREDIT_MAX)
    assert (window.count, window.size) == (CREDIT_MAX, CREDIT_MAX)


def test_granted_credit_resumes_the_delivery() -> None:
    bench = Bench()
    reader = bench.join(0)
    bench.send("a")
    bench.send()
    bench.pump()
    assert reader.got == []
    reader.window.grant(2, 0)
    bench.pump()
    assert reader.got == [1, 2]


def test_a_consumer_at_its_unsettled_limit_goes_on_once_it_settles() -> None:
    bench = Bench()
    reader = Reader(Window(100))
    reader.unsettled_max = 2
    bench.queue.join(reader, bench.now)
    bench.send_all("aab")
    bench.send()
    bench.pump()
    assert reader.got == [1, 2]
    bench.settle(reader, 1)
    bench.settle(reader, 2)
    assert reader.got == [1, 2, 3, 4]
    bench.send_all("cc")
    bench.pump()
    bench.queue.accept(reader, list(reader.unsettled.values()), bench.now)
    bench.pump()
    assert reader.got == [1, 2, 3, 4, 5, 6]
