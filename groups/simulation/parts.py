# Compiled by mypyc: see setup.py.
"""Parts of a simulated queue: a list of messages, a group's lane, and a worker.

Messages are numbers. A `MessageList` links them through one table of followers that all lists
share. So nothing is allocated for a message, however many there are.
"""

from __future__ import annotations

from typing import Final

from covey.groups.strategy import FREE

NEVER: Final = float("inf")


class MessageList:
    """A linked list of messages. A message is in one list at most, so all share one table."""

    __slots__ = ("count", "first", "followers", "last")

    def __init__(self, followers: list[int]) -> None:
        self.followers = followers
        self.first = 0
        self.last = 0
        self.count = 0

    def append(self, message: int) -> None:
        """Put a message at the end."""
        if self.count:
            self.followers[self.last] = message
        else:
            self.first = message
        self.last = message
        self.count += 1

    def put_back(self, message: int) -> None:
        """Put a message at the front."""
        if self.count:
            self.followers[message] = self.first
        else:
            self.last = message
        self.first = message
        self.count += 1

    def pop(self) -> int:
        """Take the first message."""
        message = self.first
        self.count -= 1
        if self.count:
            self.first = self.followers[message]
        return message


class Lane:
    """One group's messages."""

    __slots__ = (
        "done",
        "holder",
        "is_draining",
        "is_open",
        "last_worker",
        "messages",
        "name",
        "owner",
        "unsettled",
    )

    def __init__(self, name: str, followers: list[int]) -> None:
        self.name = name
        self.is_open = False  # it has messages on the queue
        self.last_worker = FREE
        self.messages = MessageList(followers)
        self.owner = FREE
        self.holder = FREE
        self.unsettled = 0
        self.is_draining = False
        self.done = -1  # the last message that was finished


class Worker:
    """A consumer that holds messages and works on the first."""

    __slots__ = (
        "assigned",
        "began",
        "finishes_at",
        "held",
        "id",
        "is_gone",
        "lanes",
        "present_s",
        "ready",
        "served",
        "started",
    )

    def __init__(self, number: int, began: float, followers: list[int]) -> None:
        self.id = number
        self.began = began
        self.present_s = 0.0
        self.finishes_at = NEVER
        self.started = (
            0  # number of its last start: of two that finish at one time, the lower goes first
        )
        self.held = MessageList(followers)
        self.ready: list[
            int
        ] = []  # heap: heads of lanes it owns; a wrong one stays until it is on top
        self.lanes = 0  # how many it owns that have messages
        self.served = 0
        self.assigned = 0  # when it last got a free lane, for "longest without one"
        self.is_gone = False


def is_older(lane: Lane | None, other: Lane) -> bool:
    """Return True if there is a lane whose first message came before the other's."""
    return lane is not None and lane.messages.first < other.messages.first
