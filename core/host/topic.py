# Compiled by mypyc: see setup.py.
"""Topic: every subscriber gets each message. If nobody listens, nothing is kept.

Queues (`bindings`) take a message as it is published. For connected readers (`feeds`) messages that
come in a row are gathered and handed out together, at the end of the turn at the latest. So a
message costs the same for one reader as for a hundred. To very many readers the messages go in
portions (`core.host.fan_out`). When a message comes for another topic, the gathered messages of the
topic before are handed out first. So a reader of both sees the messages in the order they were
sent.

While a topic is *held* it takes no message: it meets very many listeners (`core.host.audience`), or
fills very many queues (`core.publishing.long_work`). A message for it waits, as one for a full
queue does, and so do all that come behind.

Who listens by the topic's name stays until it leaves. Who listens by pattern only may be let go of
(`letting_go`): it meets the topic when that is used again.

The only message that a topic keeps is the last one sent with `retain:set` (the Apollo STOMP
manual). Each later subscription gets that message first (`core.host.retained`). It does not survive
a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covey.core.dispatch.lane import Lane
from covey.core.host.feed import NO_LANE, Binding, Fan, Feed
from covey.core.jobs.job import Steps
from covey.core.model.message import FORGET_RETAINED, RETAIN, Message

if TYPE_CHECKING:
    from covey.core.clock import Clock
    from covey.core.host.fan_out import FanOuts
    from covey.core.host.retained import Retained
    from covey.core.session import Session


HELD: Final = -1  # in place of the number of a listener, so that to look at that is enough


class Topic:
    """A name and those who listen to it."""

    __slots__ = (
        "_batch_max",
        "_fan",
        "_fan_outs",
        "_retained_of_all",
        "_senders",
        "bindings",
        "delivered",
        "feeds",
        "is_awaited",
        "is_ended",
        "met",
        "name",
        "named",
        "published",
        "retained",
        "touched_at",
    )

    def __init__(self, name: str, batch_max: int, retained: Retained, fan_outs: FanOuts) -> None:
        """Begin without listeners; messages of about `batch_max` bytes at most are gathered.

        While the topic has a retained message it is among the `retained`.
        """
        self.name = name
        self._batch_max = batch_max
        self._retained_of_all = retained
        self._fan_outs = fan_outs
        self.met = 0  # the last listener that it has met (`core.host.audience`), by number; or HELD
        self.is_awaited = False  # a producer waits until the topic is held no longer
        self.is_ended = False  # it was deleted: nobody has to meet it any more
        # Who listens, in order: there may be very many. True: by its name, not only by a pattern.
        self.bindings: dict[Binding, bool] = {}
        self.feeds: dict[Feed, bool] = {}
        self.named = 0  # how many of them listen by its name
        self.retained: Message | None = None
        self.published = 0
        self.delivered = 0
        self.touched_at = 0.0
        self._fan = Fan()
        self._senders: list[Session] = []  # of the gathered messages, each once

    @property
    def is_held(self) -> bool:
        """Return True if the topic can take no message now."""
        return self.met == HELD

    @property
    def audience(self) -> int:
        """Return how many queues and readers listen."""
        return len(self.bindings) + len(self.feeds)

    def fill_all(self, message: Message, client: str) -> None:
        """Put a client's message into all queues that listen."""
        if len(self.bindings) > 1 or message.retain == RETAIN:
            message.is_copied = True
        for binding in self.bindings:
            binding.offer(message, client)

    def publish(self, session: Session, message: Message, now: float) -> None:
        """Take a message that all queues have: for the readers, and to be retained."""
        self.touched_at = now
        if message.retain == RETAIN:
            self._retained_of_all.keep(self, message)
        elif message.retain == FORGET_RETAINED:
            self.forget_retained()
        self.published += 1
        self.delivered += len(self.bindings) + len(self.feeds)
        if self.feeds:
            if session not in self._senders:
                self._senders.append(session)
            fan = self._fan
            fan.add(message)
            if fan.size > self._batch_max:
                self.fan_out(now)

    def fan_out(self, now: float) -> None:
        """Hand out the gathered messages; their senders wait for readers that do not keep up."""
        fan = self._fan
        if not fan.messages:
            return
        self._fan = Fan(fan.lane)
        senders, self._senders = self._senders, []
        fan_outs = self._fan_outs
        if fan_outs.is_long(len(self.feeds), len(fan.messages)):
            fan_outs.begin(self, fan, senders)
            return
        others_are = bool(fan_outs.under_way)
        for feed in self.feeds:
            if others_are:
                fan_outs.catch_up(feed, now)
            feed.take(fan)
            if feed.is_over:
                feed.keep_waiting(senders, self.name, now)

    def hear(self, feed: Feed, *, by_name: bool = False) -> None:
        """Let a reader listen; the retained message comes first."""
        known = self.feeds.get(feed)
        if by_name and not known:
            self.named += 1
        if known is not None:
            self.feeds[feed] = known or by_name
            return
        self.fan_out(self.touched_at)
        self._fan_outs.catch_up(feed, self.touched_at)
        self.feeds[feed] = by_name
        if self._fan.lane is NO_LANE:
            # Made only now: many topics never have a reader.
            self._fan.lane = Lane(self.name, is_grouped=False)
        if self.retained is not None:
            feed.offer(self.retained, self._fan.lane)

    def forget(self, feed: Feed) -> None:
        """Remove a reader; it first gets what was published before."""
        if feed in self.feeds:
            self.fan_out(self.touched_at)
            self._fan_outs.catch_up(feed, self.touched_at)
            if self.feeds.pop(feed):
                self.named -= 1

    def fill(self, binding: Binding, *, by_name: bool = False) -> None:
        """Let a queue take all messages that are published from now on."""
        known = self.bindings.get(binding, False)
        if by_name and not known:
            self.named += 1
        self.bindings[binding] = known or by_name

    def stop_filling(self, binding: Binding) -> None:
        """Let a queue take no more messages."""
        if self.bindings.pop(binding, False):
            self.named -= 1

    def letting_go(self) -> Steps:
        """Forget those who listen by pattern only, one after the other."""
        for feed in list(self.feeds):
            if not self.feeds.get(feed, True):
                self.forget(feed)
                feed.topics.pop(self, None)
            yield 1
        for binding in list(self.bindings):
            if not self.bindings.get(binding, True):
                self.stop_filling(binding)
                binding.topics.pop(self, None)
            yield 1

    def forget_retained(self) -> None:
        """Forget the retained message."""
        self._retained_of_all.forget(self)

    def offer_retained(self, binding: Binding, clock: Clock) -> None:
        """Give the retained message, if it has not expired, to a new queue."""
        if self.retained is not None and not clock.has_passed(self.retained.expires_ms):
            binding.offer(self.retained)
