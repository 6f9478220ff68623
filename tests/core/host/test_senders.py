"""Senders: who hears that a queue was deleted."""

from __future__ import annotations

from covey.core.host.senders import Senders


def test_those_who_send_to_a_queue_hear_of_its_end_once() -> None:
    senders = Senders()
    heard: list[tuple[str, str, str]] = []

    def ann(name: str, reason: str) -> None:
        heard.append(("ann", name, reason))
        senders.discard(name, ann)

    def bob(name: str, reason: str) -> None:
        heard.append(("bob", name, reason))

    senders.add("q", ann)
    senders.add("q", bob)
    senders.add("r", bob)
    senders.tell("q", "gone")
    senders.tell("q", "gone")
    assert heard == [("ann", "q", "gone"), ("bob", "q", "gone")]
    senders.discard("r", bob)
    senders.discard("r", bob)
    assert len(senders) == 0
