"""Audience: who hears the topics of a virtual host by pattern.

A pattern may match a hundred thousand topics, most of which nobody uses at the moment. So nothing
is done for them when somebody subscribes. A topic *meets* its new listeners when it is used next,
before it takes a message. Listeners are numbered as they come (`newest`), and a topic knows up to
which number it has met them. Only topics with a retained message meet a new listener soon
(`introduce`, in portions), since the listener must get the retained message first.

A topic that has to meet very many is *held* meanwhile (`LongMeeting`): its messages wait. So all of
them hear the first one, and nobody hears it after the second. It has met them all, but for those
that came since. A listener that goes before its turn is left out.

No pattern matches temporary topics: each belongs to one connection. A user does not hear a topic
that it may not read. Its permissions are checked when the topic meets the listener.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from covey.core.clock import Clock
from covey.core.host.retained import Retained
from covey.core.host.subscription import Durable, Subscription
from covey.core.host.topic import HELD, Topic
from covey.core.jobs.job import Job, Jobs, Steps
from covey.core.naming.destination import TEMPORARY_ROOT, Kind
from covey.core.naming.pattern import Pattern
from covey.core.naming.pattern_index import PatternIndex
from covey.core.naming.policies import Policies
from covey.core.security.users import Verb

OWN: Final = -1  # in place of a size
Listener = Subscription | Durable


class Audience:
    """The listeners by pattern, of present and future topics."""

    def __init__(self, policies: Policies, clock: Clock, jobs: Jobs | None = None) -> None:
        """Begin with no listener; without jobs, every topic meets all of them at once."""
        self.policies = policies
        self.newest = 0  # the number of the last listener
        self.retained = Retained()
        self.freed: Callable[[Topic], None] = _nobody_waits  # told of a topic that was awaited
        self.clock = clock
        self._jobs = jobs
        self._listeners: PatternIndex[Listener] = PatternIndex()

    def meet(self, topic: Topic) -> None:
        """Let everybody whose pattern matches a topic hear it; very many in portions.

        The topic is held until it has met them.
        """
        if topic.is_held:
            return
        newest = self.newest
        found: list[Listener] = []
        if not topic.name.startswith(TEMPORARY_ROOT):
            found = self._listeners.newer(topic.name, topic.met)
        jobs = self._jobs
        if jobs is not None and len(found) > jobs.portion:
            jobs.begin(LongMeeting(self, topic, found))
            return
        topic.met = newest
        if found:
            meeting = Meeting(self, topic)
            for listener in found:
                meeting.greet(listener)

    def release(self, topic: Topic, met: int) -> None:
        """Let a topic that was held take messages again; it has met all up to this listener."""
        topic.met = met
        if topic.is_awaited:
            self.freed(topic)
        if self._jobs is not None:
            self._jobs.rouse()

    def hold(self, topic: Topic) -> int:
        """Let a topic take no messages until `free`; return the last listener that it has met."""
        met = topic.met
        topic.met = HELD
        return met

    def free(self, topic: Topic, met: int) -> None:
        """Let a topic that was held take messages again, or let go of it if it was deleted."""
        self.release(topic, met)
        if topic.is_ended:
            self.let_go(topic)

    def let_go(self, topic: Topic) -> None:
        """Let a deleted topic forget its listeners; they hear its name again when it is used."""
        topic.is_ended = True
        if not topic.is_held:  # else it is let go of when it has met those under way
            self._begin(LetGo(self, topic))

    def listen(self, subscription: Subscription, topic: Topic, *, by_name: bool = False) -> None:
        """Let a subscription hear a topic, with the buffer that the topic's policy allows."""
        size = self._buffer_size(subscription, topic)
        subscription.listen(topic, size, self.clock, by_name=by_name)

    def reconsider(self, subscription: Subscription) -> None:
        """Apply changed policies to a subscription that listens already."""
        if subscription.feed is not None and subscription.topics:
            first = next(iter(subscription.topics))  # the first topic decided at the beginning, too
            subscription.feed.allow(self._buffer_size(subscription, first))

    def _buffer_size(self, subscription: Subscription, topic: Topic) -> int:
        size = self.own_buffer_size(topic)
        return subscription.buffer_size if size == OWN else size

    def own_buffer_size(self, topic: Topic) -> int:
        """Return the buffer that a topic's policy gives to its readers; OWN: each has its own."""
        if self.policies.slow_consumer(topic.name) == "queue":
            return self.policies.broker.memory_window_queue
        return OWN

    def add(self, subscription: Subscription, pattern: Pattern) -> None:
        """Let a subscription hear every topic that its pattern matches."""
        self._listeners.add(pattern, subscription)
        self.newest = self._listeners.last

    def introduce(self, subscription: Subscription, topic: Topic, pattern: Pattern) -> None:
        """Let a new listener hear a topic's retained message, if its pattern matches the topic."""
        if topic.retained is None or topic.name.startswith(TEMPORARY_ROOT):
            return
        if pattern.matches(topic.name):
            self._admit(subscription, topic)

    def discard(self, subscription: Subscription, pattern: Pattern) -> None:
        """Let a subscription meet no more topics; it leaves those that it has met by itself."""
        self._listeners.discard(pattern, subscription)

    def add_durable(self, durable: Durable, pattern: Pattern) -> None:
        """Let a durable subscription hear every topic that its pattern matches."""
        self._listeners.add(pattern, durable)
        self.newest = self._listeners.last

    def introduce_durable(self, durable: Durable, topic: Topic) -> None:
        """Let a durable subscription have a topic's retained message, if its patterns match."""
        if topic.retained is None or topic.name.startswith(TEMPORARY_ROOT):
            return
        if any(pattern.matches(topic.name) for pattern in durable.patterns):
            self.admit_durable(durable, topic)

    def admit_durable(self, durable: Durable, topic: Topic, *, by_name: bool = False) -> None:
        """Let a durable subscription hear a topic, and first its retained message if it is new."""
        is_new = topic not in durable.topics
        if is_new or by_name:
            durable.listen(topic, by_name=by_name)
        if is_new:
            if topic not in durable.heard_before:
                topic.offer_retained(durable.binding, self.clock)

    def discard_durable(self, durable: Durable, pattern: Pattern) -> None:
        """Let a durable subscription meet no more topics by this pattern."""
        self._listeners.discard(pattern, durable)

    def forget_if_expired(self, topic: Topic) -> None:
        """Let a topic forget its retained message if that has expired."""
        if topic.retained is not None and self.clock.has_passed(topic.retained.expires_ms):
            topic.forget_retained()

    def _begin(self, job: Job) -> None:
        if self._jobs is not None:
            self._jobs.begin(job)
        else:
            for _ in job.steps():
                pass
            job.finish()

    def _admit(self, subscription: Subscription, topic: Topic) -> None:
        if topic not in subscription.topics and subscription.may_read(Kind.TOPIC, topic.name):
            self.listen(subscription, topic)


class Meeting:
    """A topic and the listeners that it meets in one turn.

    There may be tens of thousands, so the topic's policy is asked for once, and the rights of each
    login once.
    """

    __slots__ = ("_answers", "_audience", "_buffer_size", "topic")

    def __init__(self, audience: Audience, topic: Topic) -> None:
        self.topic = topic
        self._audience = audience
        self._answers: dict[tuple[int, Verb], bool] = {}
        self._buffer_size = 0

    def greet(self, listener: Listener) -> None:
        """Let a listener hear the topic, if it may and does not yet."""
        if isinstance(listener, Durable):
            self._audience.admit_durable(listener, self.topic)
        elif self.topic not in listener.topics and self._may_read(listener):
            own = self._buffer_size == OWN
            size = listener.buffer_size if own else self._buffer_size
            listener.listen(self.topic, size, self._audience.clock)

    def _may_read(self, subscription: Subscription) -> bool:
        asked = id(subscription.session.identity), subscription.verb
        answer = self._answers.get(asked)
        if answer is None:
            answer = self._answers[asked] = subscription.may_read(Kind.TOPIC, self.topic.name)
            self._buffer_size = self._buffer_size or self._audience.own_buffer_size(self.topic)
        return answer


class LongMeeting(Job):
    """A topic meets very many listeners, in portions. It is held meanwhile."""

    def __init__(self, audience: Audience, topic: Topic, listeners: list[Listener]) -> None:
        """Begin to hold the topic."""
        super().__init__("meet", f"topic {topic.name}", None, len(listeners))
        self._audience = audience
        self._topic = topic
        self._meeting = Meeting(audience, topic)
        self._listeners = listeners
        self._met_before = topic.met
        self._newest = audience.newest
        self._is_done = False
        topic.met = HELD

    def steps(self) -> Steps:
        """Greet one listener after the other, unless its wishes have changed."""
        for listener in self._listeners:
            if self._topic.is_ended:
                return
            if any([pattern.matches(self._topic.name) for pattern in listener.patterns]):
                self._meeting.greet(listener)
            yield 1
        self._is_done = True

    def advance(self, items: int, stopwatch: Callable[[], float] | None, deadline: float) -> bool:
        """Do a portion; rights and policies may have changed since the last one."""
        self._meeting = Meeting(self._audience, self._topic)
        return super().advance(items, stopwatch, deadline)

    def ended(self) -> None:
        """Let the topic take messages; it meets all of them again if something went wrong."""
        self._audience.free(self._topic, self._newest if self._is_done else self._met_before)


class LetGo(Job):
    """A topic forgets those who listen by pattern, in portions. It is held meanwhile."""

    def __init__(self, audience: Audience, topic: Topic) -> None:
        """Begin to hold the topic."""
        super().__init__("let go", f"topic {topic.name}", None, topic.audience)
        self._audience = audience
        self._topic = topic
        topic.met = HELD

    def steps(self) -> Steps:
        """Let go of one listener after the other."""
        yield from self._topic.letting_go()

    def ended(self) -> None:
        """Let the topic meet its listeners again when it is used."""
        self._audience.release(self._topic, 0)


def _nobody_waits(topic: Topic) -> None:
    """Take note of a topic that can take messages again: without a broker nobody sends any."""
