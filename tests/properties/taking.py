"""Taking: commands that take messages out of the judged queue in portions, and what they must take.

A command takes a group, or messages by their numbers. Where they go is no business of this queue's:
`test_kills.py` follows them. The referee is told of each command before it begins, and judges each
message that goes.
"""

from __future__ import annotations

from random import Random

from covey.core.events.event import EventKind
from covey.core.publishing.transfer import Choice, Discard, Group, Numbered
from covey.core.queue.owner import Unowned
from covey.core.queue.queue import Queue
from tests.properties.referee import Referee

PORTIONS = (1, 2, 100)


class Taking(Discard):
    """Takes messages out as a purge does."""


class MovedOut(Taking):
    """Takes messages out as a move does."""

    kind = EventKind.MOVE


class BuriedOut(Taking):
    """Takes messages out as dead letters."""

    kind = EventKind.DEAD_LETTER


KINDS = (Taking, MovedOut, BuriedOut)


class Heirs(Unowned):
    """The owner of the judged queue: it sends the rest of a group after its dead message."""

    def __init__(self) -> None:
        super().__init__()
        self.takes: list[Taking] = []

    def rest_dies(self, queue: Queue, group: str, reason: str) -> None:
        """Begin at the next chance."""
        self.takes.append(BuriedOut("rest", Group(queue, group, is_seized=True), None, 0))


class Commands:
    """The commands under way on the judged queue."""

    def __init__(self, queue: Queue, referee: Referee, heirs: Heirs) -> None:
        self.queue = queue
        self.referee = referee
        self.takes = heirs.takes

    def take_group(self, group: str, random: Random) -> str:
        """Begin to take a group, unless another command works on it; tell what is done."""
        if any(group_of(take.choice) == group for take in self.takes):
            return "nothing"
        waits = random.random() < 0.3
        kind = random.choice(KINDS)
        take = kind("take", Group(self.queue, group, waits=waits), None, 0)
        self.referee.seized(group, take.kind, waits=waits)
        self.takes.append(take)
        return f"{group!r} {kind.__name__} {waits}"

    def take_numbers(self, random: Random) -> str:
        """Begin to take some messages: free ones, held ones, and numbers that nobody has."""
        newest = self.queue.next_seq
        numbers = random.sample(range(1, newest + 2), min(newest, random.choice((1, 2, 4))))
        kind = random.choice(KINDS)
        self.takes.append(kind("take", Numbered(self.queue, numbers), None, 0))
        return f"{numbers} {kind.__name__}"

    def go_on(self, now: float, random: Random) -> None:
        """Do a portion of each."""
        for take in list(self.takes):
            take.now = self.referee.now = now
            choice = take.choice
            self.referee.begin_portion(group_of(choice), is_numbered=isinstance(choice, Numbered))
            is_over = take.advance(random.choice(PORTIONS), None, 0.0)
            self.referee.end_portion()
            if is_over:
                self.takes.remove(take)
                # The group may have come to its end, and another of its name have begun.
                lane = choice.lane if isinstance(choice, Group) else None
                if lane is not None and self.queue.state.lanes.get(lane.name) is lane:
                    self.referee.unseized(lane.name)
                take.finish()


def group_of(choice: Choice) -> str:
    """Return the group that a command works on; "" for none."""
    return choice.lane.name if isinstance(choice, Group) and choice.lane is not None else ""
