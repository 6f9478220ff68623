# Compiled by mypyc: see setup.py.
"""Retained: which topics of a virtual host keep a message for later subscribers.

A topic keeps the last message that was sent with `retain:set`. It keeps that message in memory, for
as long as it likes. So what all topics keep together has a bound, `retained_memory_max`: a message
that would go beyond it is refused before it is published anywhere. It may always replace one that
is as heavy. A topic that forgets its message makes room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covey.core.errors import RefusedError

if TYPE_CHECKING:
    from covey.core.host.topic import Topic
    from covey.core.model.message import Message

COST: Final = 512  # bytes that a kept message takes beside its body and a large head


def cost_of(message: Message) -> int:
    """Return how many bytes a kept message counts for."""
    return message.weight + COST


class Retained:
    """The topics that keep a message, and what their messages weigh together."""

    __slots__ = ("size", "topics")

    def __init__(self) -> None:
        self.topics: dict[Topic, None] = {}  # in the order in which they began
        self.size = 0

    def keep(self, topic: Topic, message: Message) -> None:
        """Keep a message in place of the topic's last one."""
        if topic.retained is not None:
            self.size -= cost_of(topic.retained)
        topic.retained = message
        self.topics[topic] = None
        self.size += cost_of(message)

    def forget(self, topic: Topic) -> None:
        """Forget the message of a topic."""
        if topic.retained is not None:
            self.size -= cost_of(topic.retained)
        topic.retained = None
        self.topics.pop(topic, None)

    def needed(self, topic: Topic | None, message: Message) -> int:
        """Return how many more bytes are kept once the topic keeps this message."""
        older = None if topic is None else topic.retained
        return cost_of(message) - (0 if older is None else cost_of(older))

    def check(self, name: str, needed: int, most: int) -> None:
        """Raise RefusedError if there is no room for so many bytes more."""
        if needed > 0 and self.size + needed > most:
            raise RefusedError(
                f"topic {name}: retained messages of {self.size} bytes are kept already,"
                " retained_memory_max has no room for more",
                "limit",
            )
