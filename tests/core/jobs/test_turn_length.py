"""Turns are measured; a long one is told with what it was doing."""

from __future__ import annotations

from covey.core.jobs.turn_length import BOUNDS, LONG_S, LOOK_EVERY, TurnLengths
from tests.doubles import Heard


class Watch:
    """A stopwatch that a test moves."""

    def __init__(self) -> None:
        self.time = 1.0

    def look(self) -> float:
        return self.time


def test_lengths_are_counted_in_buckets_and_a_long_one_is_told() -> None:
    watch, heard = Watch(), Heard()
    lengths = TurnLengths(watch.look, heard)
    for length in (0.0001, 0.02, 0.75, 60.0):
        lengths.begin("STOMP")
        lengths.doing = "SUBSCRIBE"
        watch.time += length
        lengths.end()
    assert sum(lengths.counts) == 4
    assert (lengths.counts[0], lengths.counts[BOUNDS.index(0.025)], lengths.counts[-1]) == (1, 1, 1)
    assert [(kind, round(float(str(length)), 2), doing) for kind, length, doing in heard.all] == [
        ("slow turn", 0.75, "SUBSCRIBE"),
        ("slow turn", 60.0, "SUBSCRIBE"),
    ]
    assert (round(lengths.longest_s, 1), lengths.longest_doing) == (60.0, "SUBSCRIBE")


def test_a_turn_that_let_others_in_between_is_not_counted() -> None:
    watch, heard = Watch(), Heard()
    lengths = TurnLengths(watch.look, heard)
    mine = lengths.begin("GET /api/v1/queues")
    lengths.begin("STOMP")
    lengths.end()
    watch.time += 5.0
    lengths.end_of(mine)
    lengths.end()
    assert sum(lengths.counts) == 1
    assert heard.all == []


def test_without_a_stopwatch_nothing_is_measured() -> None:
    lengths = TurnLengths(None, Heard())
    lengths.begin("STOMP")
    lengths.end()
    assert sum(lengths.counts) == 0


def test_a_turn_that_was_slow_for_the_collector_says_so() -> None:
    watch, heard = Watch(), Heard()
    lengths = TurnLengths(watch.look, heard)
    for collected_s in (0.4, 0.6):
        lengths.begin("SUBSCRIBE")
        lengths.collected(collected_s)
        watch.time += 1.0
        lengths.end()
    said = [str(doing) for _, _, doing in heard.all]
    assert said == ["SUBSCRIBE", "garbage collection (600 ms), SUBSCRIBE"]


def test_a_look_says_whether_others_should_have_their_turn() -> None:
    watch = Watch()
    lengths = TurnLengths(watch.look, Heard())
    lengths.begin("STOMP")
    lengths.pieces += LOOK_EVERY
    assert not lengths.look()
    assert lengths.pieces == 0
    watch.time += 2 * LONG_S
    assert lengths.look()
    lengths.pieces += 1
    lengths.begin("STOMP")
    assert lengths.pieces == 0
    assert not lengths.look()
    assert not TurnLengths(None, Heard()).look()
