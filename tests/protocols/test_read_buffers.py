"""How much a connection reads in a turn: more while turns are short, less when they are not."""

from __future__ import annotations

from covey.config.settings import BrokerSettings
from covey.protocols.read_buffers import ReadBuffers

KIB = 1024


def sizes(buffers: ReadBuffers) -> list[int]:
    return [len(view) for view in buffers.views]


def test_each_view_is_twice_the_last_and_the_last_is_the_most() -> None:
    assert sizes(ReadBuffers(16 * KIB, 64 * KIB)) == [16 * KIB, 32 * KIB, 64 * KIB]
    assert sizes(ReadBuffers(1000, 3000)) == [1000, 2000, 3000]
    assert sizes(ReadBuffers(1000)) == sizes(ReadBuffers(1000, 500)) == [1000]


def test_all_views_are_of_one_memory() -> None:
    buffers = ReadBuffers(2, 8)
    buffers.views[-1][:2] = b"ab"
    assert buffers.views[0].tobytes() == b"ab"


def test_full_reads_earn_more_while_their_turns_are_short() -> None:
    buffers = ReadBuffers(1, 8, turn_s=0.4)
    places = [0]
    for _ in range(4):
        places.append(buffers.after_full(places[-1], 0.19))
    assert places == [0, 1, 2, 3, 3]
    assert buffers.after_full(1, 0.3) == 1  # twice as much would take too long


def test_a_turn_that_is_too_long_loses_as_much_as_it_was_too_long_by() -> None:
    buffers = ReadBuffers(1, 16, turn_s=0.4)
    assert buffers.after_full(4, 0.5) == 3
    assert buffers.after_full(4, 1.5) == 2
    assert buffers.after_full(4, 99) == 0
    assert buffers.after_full(0, 99) == 0  # so much is always read


def test_a_read_that_is_not_full_loses_a_step() -> None:
    buffers = ReadBuffers(1, 16, turn_s=0.4)
    assert [buffers.after_part(place) for place in (3, 1, 0)] == [2, 0, 0]


def test_they_are_made_as_the_operator_wants_them() -> None:
    buffers = ReadBuffers.of(BrokerSettings())
    assert (sizes(buffers)[0], sizes(buffers)[-1]) == (16 * KIB, 256 * KIB)
    assert buffers.turn_s == 0.001


def test_nobody_looks_for_more_without_a_core_to_spare() -> None:
    settings = BrokerSettings(workers=2, busy_poll_us=50)
    assert ReadBuffers.of(settings, 2.9).busy_poll_s == 0.0
    assert ReadBuffers.of(settings, 3.0).busy_poll_s == 0.00005
    assert ReadBuffers.of(BrokerSettings(busy_poll_us=0), 64.0).busy_poll_s == 0.0
