# Compiled by mypyc: see setup.py.
"""Model parts: a line of messages, a group's lane and a worker, as the model plays them.

Messages are numbers. A `Line` links them through one table of followers that all lines share, so
nothing is made for a message however many there are.
"""

from __future__ import annotations

from typing import Final

from covey.groups.strategy import FREE

NEVER: Final = float("inf")


class Line:
    """Messages one behind the other; each is in one line at most, so all share the followers."""

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
        self.messages = Line(followers)
        self.owner = FREE
        self.holder = FREE
        self.unsettled = 0
        self.is_draining = False
        self.done = -1  # the last message that was finished


class Worker:
    """A consumer with a hand of messages, working on the first."""

    __slots__ = (
        "assigned",
        "began",
        "finishes_at",
        "hand",
        "id",
        "is_gone",
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
        self.started = 0  # the how-manieth start that was, for two that finish at one time
        self.hand = Line(followers)
        self.ready: list[int] = []  # heads of lanes it owns; the dead die on top
        self.served = 0
        self.assigned = 0  # when it last got a free lane, for "longest without one"
        self.is_gone = False


def is_older(lane: Lane | None, other: Lane) -> bool:
    """Say whether a lane's head came before the other's; no lane never does."""
    return lane is not None and lane.messages.first < other.messages.first
