"""Rounds: now and then, not at every tick."""

from __future__ import annotations

from covey.config.queues import QueueSettings
from covey.core.broker.rounds import EVERY_S
from tests.core.double import Room


def test_unused_queues_are_looked_for_now_and_then() -> None:
    room = Room(QueueSettings(auto_delete_after_s=1))
    room.wait(0.0)
    room.broker.hosts[0].queue("a")
    room.wait(EVERY_S - 1)
    assert "a" in room.broker.hosts[0].queues, "it is too early to look"
    room.wait(1.0)
    assert "a" not in room.broker.hosts[0].queues
