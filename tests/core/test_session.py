"""Sessions: blocked while anything waits, paused while nobody reads."""

from __future__ import annotations

from tests.core.double import Room
from tests.doubles import Listener


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
