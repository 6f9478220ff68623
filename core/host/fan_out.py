# Compiled by mypyc: see setup.py.
"""FanOut: messages of a topic on their way to very many connected readers, in portions.

A topic with few readers hands out its gathered messages at once (`core.host.topic`). A topic with
more readers than a portion has items, or with fewer that have very many messages to get, makes a
`FanOut` of them. One job does all fan-outs that are
under way, reader after reader. The senders of the messages wait for the end of their fan-out, so
messages cannot be sent faster than they are handed out. Everybody else goes on.

A reader may hear several topics, and must see all messages in the order in which they were sent.
So before a reader is given anything else, it has to *catch up*: it gets at once all messages of
fan-outs under way that have not reached it. Fan-outs are numbered, and a reader knows up to which
number it has all (`Feed.reached`). A new reader gets nothing that was sent before it came. A reader
that leaves gets first what was sent before it left.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from covey.core.jobs.job import Job, Jobs, Steps

if TYPE_CHECKING:
    from covey.core.host.feed import Fan, Feed
    from covey.core.host.topic import Topic
    from covey.core.session import Session

MESSAGES_AN_ITEM: Final = 16  # for one reader; each may have to be delivered by itself
PASSED_AT_ONCE: Final = 64  # so many readers that have it already count as one item of the job


class FanOut:
    """A few messages of one topic, and all its readers at the time of sending."""

    __slots__ = ("fan", "number", "readers", "senders", "topic")

    def __init__(self, number: int, topic: Topic, fan: Fan, senders: list[Session]) -> None:
        self.number = number
        self.topic = topic
        self.fan = fan
        self.senders = senders
        self.readers = list(topic.feeds)

    def give(self, feed: Feed, now: float) -> None:
        """Give the messages to one reader; their senders are blocked if it does not keep up."""
        feed.take(self.fan)
        if feed.is_over:
            feed.keep_waiting(self.senders, self.topic.name, now)


class FanOuts:
    """The fan-outs of one virtual host that are under way, the oldest first."""

    def __init__(self, jobs: Jobs | None) -> None:
        """Begin with none; without jobs nothing is ever under way."""
        self.under_way: deque[FanOut] = deque()
        self.last = 0  # the number of the newest
        self._jobs = jobs
        self._job: HandOut | None = None

    def is_long(self, readers: int, messages: int) -> bool:
        """Return True if so many readers are not to get so many messages at once."""
        if self._jobs is None:
            return False
        portion = self._jobs.portion
        return readers > portion or readers * messages > portion * MESSAGES_AN_ITEM

    def begin(self, topic: Topic, fan: Fan, senders: list[Session]) -> None:
        """Begin to hand messages to all present readers of the topic, in portions."""
        assert self._jobs is not None
        self.last += 1
        self.under_way.append(FanOut(self.last, topic, fan, senders))
        for session in senders:
            session.begin_work()
        if self._job is None or self._job.is_over:
            self._job = HandOut(self, topic.name, len(topic.feeds))
            self._jobs.begin(self._job)

    def catch_up(self, feed: Feed, now: float) -> None:
        """Give a reader all messages under way that have not reached it, in order."""
        reached = feed.reached
        feed.reached = self.last
        for each in self.under_way:
            if each.number > reached and feed in each.topic.feeds:
                each.give(feed, now)

    def end_first(self) -> None:
        """Called when the oldest fan-out has reached every reader: its senders go on."""
        for session in self.under_way.popleft().senders:
            session.end_work()


class HandOut(Job):
    """The job that brings all fan-outs to their readers."""

    def __init__(self, fan_outs: FanOuts, topic: str, count: int) -> None:
        super().__init__("fan out", f"topic {topic}", None, count)
        self._fan_outs = fan_outs

    def steps(self) -> Steps:
        """Let one reader after the other catch up."""
        fan_outs = self._fan_outs
        while fan_outs.under_way:
            first = fan_outs.under_way[0]
            self.target = f"topic {first.topic.name}"
            passed = 0
            for feed in first.readers:
                if feed.reached < first.number:
                    fan_outs.catch_up(feed, self.now)
                    yield 1 + len(first.fan.messages) // MESSAGES_AN_ITEM
                else:
                    passed += 1
                    if passed % PASSED_AT_ONCE == 0:
                        yield 1
            fan_outs.end_first()
