"""What everybody in the core knows: the time of a turn, errors, sessions.

The time of a turn.

Errors: what a sentence shows of a client's own text.

Sessions: blocked while anything waits, paused while nobody reads.
"""

from __future__ import annotations

import pytest

from covey.core.clock import Clock
from covey.core.errors import quoted
from tests.core.double import Room
from tests.doubles import Listener


@pytest.mark.parametrize(
    ("expires_ms", "is_over"), [(0, False), (99, True), (100, True), (101, False)]
)
def test_zero_never_passes_and_the_moment_itself_has(expires_ms: int, is_over: bool) -> None:
    clock = Clock()
    clock.wall_ms = 100
    assert clock.has_passed(expires_ms) is is_over


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("C:\\temp 'x'", "'C:\\temp 'x''"),
        ("h\u00e9", "'h\u00e9'"),
        ("a\nb\0\x1b[31m", "'a%0Ab%00%1B[31m'"),
        ("\u202e", "'%E2%80%AE'"),
        ("\ud800", "'%ED%A0%80'"),
        ("x" * 1000, f"'{'x' * 80}'"),
    ],
)
def test_a_text_is_shown_as_it_stands_if_it_can_be_printed(text: str, shown: str) -> None:
    assert quoted(text) == shown


def test_a_session_goes_on_when_the_last_piece_of_work_is_done() -> None:
    session = Room().enter().session
    session.client = client = Listener()
    session.block("queue a is full", 1.0)
    session.block("queue b is full", 2.0)
    session.unblock()
    assert (session.is_blocked, session.blocked_on, client.resumed) == (True, "queue b is full", 0)
    session.unblock()
    assert (session.is_blocked, session.blocked_on, client.resumed) == (False, "", 1)


def test_pausing_stops_all_subscriptions_and_unpausing_lets_them_go_on() -> None:
    room = Room()
    person = room.enter()
    queue, topic = person.read("/queue/a", "q"), person.read("/topic/a", "t")
    person.session.pause()
    person.send("/queue/a,/topic/a", "x")
    assert (queue.names, topic.names) == ([], [])
    person.session.unpause()
    room.broker.run(room.now)
    assert (queue.names, topic.names) == (["x"], ["x"])
