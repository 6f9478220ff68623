# Compiled by mypyc: see setup.py.
"""Publishing: how messages get to their destinations, all or nothing.

| call           | who calls it       | what it does                                               |
|----------------|--------------------|------------------------------------------------------------|
| `publish`      | every protocol     | puts one message wherever it is to go, now or later        |
| `try_put`      | a protocol's SEND  | the short way of `publish`; False: nothing has happened    |
| `publish_all`  | a commit           | the same for many messages, all of them or none            |
| `answer`       | the broker itself  | the same for its own answers, which no gate keeps back     |
| `dead_letter`  | a queue            | puts a dead message where the queue's policy says          |
| `arrivals.put` | a topic            | puts one message into one queue                            |
| `fan_out`      | every turn         | hands out what a topic has gathered                        |
| `retry`        | every turn         | tries work again whose queue or gate was freed             |

`publish` tries the short way first. A protocol that needs a callback only for a message that has to
wait calls `try_put` itself, and calls `publish` if `try_put` returns False.

One SEND may name many destinations, and a transaction has many sends. Either all of them are taken
or none. So every queue is asked first (`core.queue.quota`), then `Overload`
(`core.storage.overload`), and only then is anything put. Work that finds no room waits, and is
tried again in order (`core.publishing.waiting_work`). Its session is blocked meanwhile. It also
waits while one of its topics is held (`core.host.topic`). Work with very many messages, or with a
topic that fills very many queues, is admitted, weighed and put in portions
(`core.publishing.long_work`).

A topic never refuses a message. But a subscriber that does not keep up makes the producer wait
before its next message: the session is blocked until every such subscriber has caught up.

A mirrored queue listens to the topic of its name, so a send to the queue goes to the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from covey.core.errors import BrokerError, RefusedError
from covey.core.host.temporary import admitted
from covey.core.host.topic import Topic
from covey.core.host.virtual_host import VirtualHost
from covey.core.jobs.job import Jobs
from covey.core.jobs.turn_length import TurnLengths
from covey.core.model.consumer import Consumer
from covey.core.model.entry import Entry
from covey.core.model.message import RETAIN, Message, Origin
from covey.core.naming.destination import Destination, Kind
from covey.core.publishing.arrivals import Arrivals
from covey.core.publishing.long_work import LongWork
from covey.core.publishing.waiting_work import ANY, Needs, Obstacle, Send, WaitingWork, Work
from covey.core.queue.policy import dead_letter_name
from covey.core.queue.queue import Queue
from covey.core.queue.quota import has_room, is_kept_out_by_itself, why_full
from covey.core.session import Session
from covey.core.storage.commits import Commits
from covey.core.storage.overload import Gate
from covey.groups.key import GroupIdError

ENDED_AT_ONCE: Final = 100  # connections that waited for too long

# Read for each message: to look up a member of an Enum is a search.
QUEUE: Final = Kind.QUEUE
TOPIC: Final = Kind.TOPIC


class Publishing:
    """The way of messages into queues and topics."""

    def __init__(
        self,
        commits: Commits,
        arrivals: Arrivals,
        broker_id: str,
        sessions: Mapping[int, Session],
        jobs: Jobs,
        turn_lengths: TurnLengths,
    ) -> None:
        """Publish for these sessions, which come and go."""
        self.commits = commits
        self.promises = commits.promises
        self.arrivals = arrivals
        self.broker_id = broker_id
        self.sessions = sessions
        self.jobs = jobs
        self.turn_lengths = turn_lengths
        self.waiting_work = WaitingWork(commits.overload.opened)
        self.fanned: Topic | None = None  # the one topic that may have gathered messages

    def publish(
        self,
        session: Session,
        targets: tuple[Destination, ...],
        message: Message,
        done: Callable[[], None] | None = None,
        told: Callable[[BrokerError], None] | None = None,
    ) -> None:
        """Put one message into all its targets, now or when there is room in all of them.

        `done` is called once the message is taken and safe. Raises RefusedError if any target
        refuses it; then no target has it. `told` is called instead if it went in portions by then.
        """
        if not self.try_put(session, targets, message):
            session.sent += 1
            self.publish_all(Work(session, [(targets, message)], done, told=told))
        elif done is not None:
            self.promises.after(session, done)

    def try_put(self, session: Session, targets: tuple[Destination, ...], message: Message) -> bool:
        """Put one message if nothing can stand in its way; False: nothing done, call `publish`."""
        if len(targets) != 1:
            return False
        target = targets[0]
        if target not in session.sendable:
            return False
        overload = self.commits.overload
        if overload.is_shut and overload.gate(is_persistent=message.persistent) is not None:
            return False
        if target.kind is QUEUE:
            queue = session.host.queues.get(target.name)
            if queue is None or not queue.takes_all or message.due_ms:
                return False
            try:
                self.arrivals.enqueue(queue, message)
            except GroupIdError as error:
                raise RefusedError(f"queue {queue.name}: {error}", "invalid") from error
        elif not self._try_fan_out(session, target, message):
            return False
        session.sent += 1
        return True

    def _try_fan_out(self, session: Session, target: Destination, message: Message) -> bool:
        host = session.host
        topic = host.topics.get(target.name) if target.kind is TOPIC else None
        if topic is None or topic.met != host.audience.newest or message.retain == RETAIN:
            return False  # `VirtualHost.topic` makes the topic, or lets it meet new listeners
        if not _is_taken_at_once(topic):
            return False
        self._publish_topic(session, topic, message)
        return True

    def retry(self) -> None:
        """Try again the work whose queue or gate was freed."""
        self.waiting_work.retry(self._attempt)

    def give_up_late(self, now: float) -> bool:
        """End connections whose work has waited for their `patience_s`; their work is dropped.

        Return True if there are more of them: each costs its work and the end of a connection.
        """
        left = ENDED_AT_ONCE
        for session in self.waiting_work.sessions():
            if left == 0:
                return True
            if 0.0 < session.patience_s <= now - session.blocked_since:
                for work in self.waiting_work.forget(session):
                    if work.refused is not None:
                        work.refused()
                if session.kick is not None:
                    session.kick(f"the message was not taken in time: {session.blocked_on}")
                left -= 1
        return False

    def dead_letter(self, host: VirtualHost, queue: Queue, entry: Entry, reason: str) -> None:
        """Put a dead message where its queue's policy says; it never expires there."""
        name = queue.settings.dlq
        if name is None:
            return
        origin = Origin(
            queue.name,
            entry.lane.name,
            entry.seq,
            entry.deliveries,
            self.arrivals.clock.wall_ms,
            _who(entry.holder),
        )
        dead = host.queue(dead_letter_name(name, queue.name))
        self.arrivals.put_anyhow(dead, entry.content.as_dead_letter(reason, origin), origin.group)

    # All or nothing.

    def publish_all(self, work: Work) -> None:
        """Publish all of the work, now or when there is room; raises RefusedError if never."""
        obstacle = self._try(work, may_overtake=False)
        if work.is_long:
            self._begin_long(work)
        elif obstacle is None:
            self._finish(work)
        else:
            work.session.block(_why(obstacle), work.session.host.now)
            self.waiting_work.add(obstacle, work)

    def answer(self, session: Session, targets: tuple[Destination, ...], message: Message) -> None:
        """Put the broker's answer where the session asked for it; no gate keeps an answer back."""
        self.publish_all(Work(session, [(targets, message)], is_ours=True))

    def _attempt(self, work: Work) -> Obstacle | None:
        """Try work again that waited; a refusal goes to its sender, not to who made room."""
        self.promises.disclaim()
        try:
            obstacle = self._try(work, may_overtake=True)
            if work.is_long:
                self._begin_long(work)
        except RefusedError as error:
            if work.refused is not None:
                work.refused()
            work.session.kick(error.text)
            return None
        if obstacle is None:
            if not work.is_long:
                self._finish(work)
            work.session.unblock()
        else:
            work.session.blocked_on = _why(obstacle)
        return obstacle

    def _finish(self, work: Work) -> None:
        if work.taken is not None:
            work.taken()
        self.promises.claim(work.session)
        if work.done is not None:
            self.promises.after(work.session, work.done)

    def _begin_long(self, work: Work) -> None:
        """Publish work in portions; its session waits until all of it is done."""
        name = work.sends[0][0][0].name
        job = LongWork(work, self, "send", name if len(work.sends) == 1 else f"{name} and others")
        self.jobs.begin(job, is_waited_for=True)
        if job.flaw is not None and job.is_over:
            raise job.flaw
        job.then(partial(self._end_long, job))

    def _end_long(self, job: LongWork) -> None:
        work = job.work
        if job.is_done and work.done is not None:
            self.promises.after(work.session, work.done)
        elif job.flaw is not None:
            if work.refused is not None:
                work.refused()
            if work.told is not None:
                work.told(job.flaw)
            else:
                work.session.kick(job.flaw.text)

    def _try(self, work: Work, *, may_overtake: bool) -> Obstacle | None:
        """Publish everything and return None, or nothing and return what stands in the way.

        Or nothing, and the work `is_long`.
        """
        session = work.session
        if work.is_passed is not None and work.is_passed():
            self.commits.follow()  # the first commit may still be on its way to the disk
            work.sends = []
        needs = work.needs
        sends: list[Send] = []
        if needs is None:
            # Work with a fence is never begun and not yet remembered.
            needs = Needs(self.jobs.portion if work.is_passed is None else ANY)
            sends = [self.admit(session, send) for send in work.sends]
            for send in sends:
                self.weigh(session, send, needs)
                if needs.held is not None:
                    return needs.held
                if needs.is_wide:
                    work.is_long = True
                    return None
            self.turn_lengths.pieces += len(sends) + len(needs.counts)
        obstacle: Obstacle | None = self._blocker(session, needs, may_overtake=may_overtake)
        if obstacle is None and self.commits.overload.is_shut and work.sends and not work.is_ours:
            obstacle = self.commits.overload.gate(is_persistent=needs.is_persistent)
        if obstacle is None:
            for send in sends:
                self.put(session, send)
        return obstacle

    def admit(self, session: Session, send: Send) -> Send:
        """Return a send with the targets that exist; raises RefusedError if one is refused."""
        return admitted(session, send[0], self.broker_id, self.sessions), send[1]

    def weigh(self, session: Session, send: Send, needs: Needs) -> None:
        """Add what a message needs; raises RefusedError if one of its queues can never take it.

        If one of its topics is held, or fills too many queues, nothing is added but that.
        """
        targets, message = send
        queues = _queues(session, targets, message, needs)
        if needs.held is not None or needs.is_wide:
            return
        if message.persistent:
            needs.is_persistent = True
        if message.retain == RETAIN:
            self.weigh_retained(session.host, send, needs)
        for queue in queues:
            self.arrivals.check(queue, message)
            count, size = self.arrivals.needed(queue, message)
            needs.add(queue, count, size)

    def weigh_retained(self, host: VirtualHost, send: Send, needs: Needs) -> None:
        """Add what topics keep of a message; raises RefusedError if there is no room for it."""
        targets, message = send
        retained = host.audience.retained
        for target in targets:
            topic = host.topics.get(target.name)
            is_kept = target.kind is TOPIC or (
                target.kind is QUEUE and host.queue(target.name).settings.mirrored
            )
            if is_kept:
                needs.retained += retained.needed(topic, message)
                most = self.arrivals.limits.retained_memory_max
                retained.check(target.name, needs.retained, most)

    def put(self, session: Session, send: Send) -> None:
        """Put a message into the targets that it was admitted to."""
        targets, message = send
        if len(targets) > 1:
            message.is_copied = True
        for target in targets:
            self._route(session, target, message)

    def _blocker(self, session: Session, needs: Needs, *, may_overtake: bool) -> Queue | None:
        for queue, count in needs.counts.items():
            if not queue.has_quota:
                continue
            size = needs.sizes[queue]
            is_late = not may_overtake and queue in self.waiting_work.lines
            if has_room(queue, count, size) and not is_late:
                continue
            if not is_kept_out_by_itself(queue, session, count, size):
                return queue
        return None

    def _route(self, session: Session, target: Destination, message: Message) -> None:
        host = session.host
        if target.kind is Kind.TOPIC:
            self._publish_topic(session, host.topic(target.name), message)
        elif target.kind is Kind.DSUB:
            self.arrivals.put(host.durable(target.name).queue, message)
        else:
            queue = host.queue(target.name)
            if queue.settings.mirrored:
                self._publish_topic(session, host.topic(target.name), message)
            else:
                self.arrivals.put(queue, message)

    def _publish_topic(self, session: Session, topic: Topic, message: Message) -> None:
        topic.fill_all(message, session.client_id)  # a refusal here leaves the topic unchanged
        self.tell(session, topic, message)

    def tell(self, session: Session, topic: Topic, message: Message) -> None:
        """Let a topic have a message that all its queues have."""
        now = session.host.now
        if topic is not self.fanned:
            self.fan_out(now)
            self.fanned = topic
        topic.publish(session, message, now)
        # A reader gets gathered messages, so one message costs it far less than a queue.
        self.turn_lengths.pieces += len(topic.feeds) >> 3

    def fan_out(self, now: float) -> None:
        """Hand out what the last topic has gathered."""
        if self.fanned is not None:
            self.fanned.fan_out(now)
            self.fanned = None


def _why(obstacle: Obstacle) -> str:
    """Say in words what a producer waits for."""
    if isinstance(obstacle, Topic):
        return f"topic {obstacle.name}, which is at work for its very many listeners"
    return obstacle.reason if isinstance(obstacle, Gate) else why_full(obstacle)


def _who(consumer: Consumer | None) -> str:
    """Name a consumer by the client it belongs to, and by the name that the client gave it."""
    if consumer is None:
        return ""
    session = consumer.session
    client = session.client_id or session.remote
    return f"{client}/{consumer.name}" if client and consumer.name else client or consumer.name


def _is_taken_at_once(topic: Topic) -> bool:
    """Return True if no queue behind the topic can refuse a message or make its sender wait."""
    bindings = topic.bindings
    return not bindings or (len(bindings) == 1 and next(iter(bindings)).queue.takes_all)


def _queues(
    session: Session, targets: tuple[Destination, ...], message: Message, needs: Needs
) -> list[Queue]:
    """Return the queues that a send fills and whose quota the sender has to respect.

    If one of its topics is held, or fills too many queues, `needs` says so.
    """
    host = session.host
    maker = session.identity.name
    found: list[Queue] = []
    for target in targets:
        if target.kind is Kind.DSUB:
            found.append(host.durable(target.name).queue)
        elif target.kind is Kind.TOPIC or host.queue(target.name, maker=maker).settings.mirrored:
            topic = host.topic(target.name, maker)
            if topic.met != host.audience.newest:
                needs.held = topic
                return []
            if len(topic.bindings) > needs.topic_max:
                needs.is_wide = True
                return []
            client = session.client_id
            found += [each.queue for each in topic.bindings if each.admits(message, client)]
        else:
            found.append(host.queue(target.name))
    return found
