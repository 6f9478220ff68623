"""`Bench` is a queue on a table: its tests need no broker.

It sends, lets consumers in, pumps until nothing moves, and keeps a clock that only a test moves.
"""

from __future__ import annotations

from typing import Literal

from covey.config.queues import GroupSettings, QueueSettings
from covey.core.events.audit import Audit
from covey.core.management import describe
from covey.core.management.describe import Attributes
from covey.core.model.consumer import Window
from covey.core.model.entry import PENDING, Entry, Outcome
from covey.core.queue.queue import Queue
from covey.core.selector import Selector, Value, compile_selector
from covey.groups import make
from covey.groups.key import GroupKey
from tests.doubles import NOBODY, Events, Grave, Letter
from tests.doubles import Reader as Reader


class Bench:
    """One queue, its clock and its events."""

    def __init__(
        self,
        strategy: str = "simple",
        settings: QueueSettings | None = None,
        audit: Audit | None = None,
    ) -> None:
        self.now = 1.0
        self.wall_ms = 1_000_000
        options = QueueSettings() if settings is None else settings
        groups = options.groups
        rule = make(
            strategy,
            bucket_count=groups.bucket_count,
            cache_size=groups.cache_size,
            ring_points=groups.ring_points,
        )
        owner = Grave(audit)
        self.dead = owner.dead
        self.queue = Queue("work", options, rule, GroupKey(), owner)
        self.readers: list[Reader] = []
        self.events = Events()
        self.queue.state.report_to(self.events)

    def send(
        self,
        group: str = "",
        *,
        sequence: int = 0,
        size: int = 1,
        ttl_ms: int = 0,
        state: int = PENDING,
        **properties: Value,
    ) -> Entry:
        """Put a message on the queue; the pump does not run."""
        message = Letter(size, **properties)
        message.group = group
        message.group_sequence = sequence
        message.expires_ms = self.wall_ms + ttl_ms if ttl_ms else 0
        return self.queue.enqueue(message, state)

    def send_all(self, groups: str) -> None:
        """Send one message for each letter, the letter being its group."""
        for group in groups:
            self.send(group)

    def join(
        self,
        credit: int = 100,
        *,
        size: int = 0,
        selector: str = "",
        from_seq: int = 0,
        priority: int = 0,
        weight: int = 1,
        client_id: str = "",
        exclusive: bool = False,
        presettled: bool = False,
        deadline_s: float = -1.0,
        group: str = "",
    ) -> Reader:
        """Let a consumer in; the pump does not run."""
        reader = Reader(Window(credit, size))
        reader.selector = selector_of(selector)
        reader.from_seq = from_seq
        reader.priority = priority
        reader.weight = weight
        reader.client_id = client_id
        reader.is_exclusive = exclusive
        reader.is_presettled = presettled
        reader.deadline_asked = deadline_s
        reader.group_asked = group
        self.queue.join(reader, self.now)
        self.readers.append(reader)
        return reader

    def browse(self, credit: int = 100, *, from_seq: int = 0, selector: str = "") -> Reader:
        """Let a browser in; the pump does not run."""
        reader = Reader(Window(credit))
        reader.is_browser = True
        reader.from_seq = from_seq
        reader.selector = selector_of(selector)
        self.queue.join(reader, self.now)
        return reader

    def leave(self, reader: Reader) -> None:
        """Let a consumer go and pump."""
        self.queue.leave(reader, self.now)
        self.pump()

    def settle(self, reader: Reader, *numbers: int, outcome: Outcome = Outcome.ACCEPTED) -> None:
        """Settle deliveries of a consumer, all it holds if none is named, and pump."""
        for seq in numbers or reader.held():
            self.queue.settle(reader.unsettled[seq], outcome, self.now)
        self.pump()

    def pump(self, budget: int = 1000) -> None:
        """Pump until the queue rests."""
        while self.queue.pump(self.now, self.wall_ms, budget):
            pass

    def wait(self, seconds: float) -> None:
        """Let time pass and pump."""
        self.now += seconds
        self.wall_ms += int(seconds * 1000)
        self.pump()

    def shown(self) -> Attributes:
        """Give what an operator sees of the queue."""
        return shown(self.queue)

    def groups(self) -> dict[str, Attributes]:
        """Give what an operator sees of each group that has messages or is parked."""
        return {str(each["group"]): each for each in groups_shown(self.queue, self.now)}

    def owner(self, group: str) -> Reader | None:
        """Give the owner of a group that has messages."""
        number = self.groups()[group]["owner"]
        return next((each for each in self.readers if each.id == number), None)


def shown(queue: Queue) -> Attributes:
    """Give what an operator sees of a queue."""
    return describe.queue(queue, NOBODY.host)


def groups_shown(queue: Queue, now: float = 0.0) -> list[Attributes]:
    """Give what an operator sees of each group that has messages or is parked."""
    return describe.groups(queue, queue.state.lanes.values(), now)


def depth(queue: Queue) -> int:
    """Give the number of messages that an operator sees in a queue."""
    count = shown(queue)["messages"]
    assert isinstance(count, int)
    return count


def selector_of(text: str) -> Selector | None:
    """Compile a selector; "" is none."""
    return compile_selector(text) if text else None


def policy(
    *,
    unsettled_max: int = 0,
    park_after_failures: int = 0,
    sticky_return_s: float = 0.0,
    drain_limit_s: float = 0.0,
    forget_idle_s: float = 0.0,
    consumers_before: int = 0,
    time_before_ms: int = 0,
    strict: bool = False,
    bucket_count: int = 1024,
    cache_size: int = 1024,
    ring_points: int = 10,
    nak_limit: int = 0,
    delay_ms: int = 0,
    backoff: float = 1.0,
    round_robin: bool = True,
    deadline_s: float = 0.0,
    deadline_action: Literal["release", "disconnect"] = "release",
) -> QueueSettings:
    """Build the settings a test of the core needs."""
    groups = GroupSettings(
        bucket_count=bucket_count,
        cache_size=cache_size,
        ring_points=ring_points,
        unsettled_max=unsettled_max,
        park_after_failures=park_after_failures,
        sticky_return_s=sticky_return_s,
        drain_limit_s=drain_limit_s,
        forget_idle_s=forget_idle_s,
        consumers_before_dispatch=consumers_before,
        time_before_dispatch_ms=time_before_ms,
        selector_order="strict" if strict else "hand-on",
    )
    return QueueSettings(
        nak_limit=nak_limit,
        redelivery_delay_ms=delay_ms,
        redelivery_backoff=backoff,
        round_robin=round_robin,
        delivery_deadline_s=deadline_s,
        deadline_action=deadline_action,
        groups=groups,
    )
