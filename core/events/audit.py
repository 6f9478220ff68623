"""Audit: what an operator must hear at once: security, clients in trouble, groups, who did what.

The core writes no log. It tells an `Audit`, and the server's audit writes the lines. No password,
no body and no header ever comes through here.

An `OperatorAction` is the record of who did something to the broker, or tried to. Everything that
changes what others rely on is an action: a queue or topic declared, changed or deleted, messages
purged, groups closed, parked and rebalanced, a consumer retired, a connection closed, definitions
imported, the configuration read again. Sending and consuming messages are no actions. Things that
come and go with their user are no actions either: a destination made on first use, a temporary
destination, a client's subscription.

An action is told once it has ended: "ok", "refused" with the broker's own words for why, "failed"
if the broker could not do it. `count` is how many messages the action dropped or moved, if it does
so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from covey.core.errors import BrokerError


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """Who did what, from where, to which thing, and what came of it."""

    user: str
    remote: str
    protocol: str  # the way in: "http", "amqp 1.0", "stomp 1.2", "signal"
    action: str
    kind: str  # of the thing: queue, topic, subscription, group, consumer, connection, ...
    host: str  # the virtual host's id; "" if the action is about the broker
    name: str
    result: str = ""
    reason: str = ""
    count: int | None = None


class Audit(ABC):
    """Who is told of such things."""

    @abstractmethod
    def denied(self, user: str, verb: str, destination: str, remote: str) -> None:
        """Called when a user was denied a verb."""

    @abstractmethod
    def login_failed(self, user: str, remote: str) -> None:
        """Called after a failed login; `user` is "" for an unknown name: it may be a password."""

    @abstractmethod
    def slow_consumer(self, user: str, remote: str, waited_s: float) -> None:
        """Called when a client has not read its deliveries for too long."""

    @abstractmethod
    def producer_blocked(self, user: str, remote: str, reason: str, waited_s: float) -> None:
        """Called when a producer has been waiting for a while; `reason` says for what."""

    @abstractmethod
    def group_trouble(self, queue: str, trouble: str, group: str) -> None:
        """Called when a group is in trouble; "" as its name means all groups of the queue."""

    @abstractmethod
    def subscription_ended(self, user: str, remote: str, subscription: str, reason: str) -> None:
        """Called when the broker ends a subscription that cannot read all it must."""

    @abstractmethod
    def slow_turn(self, length_s: float, doing: str) -> None:
        """Called after a turn that took too long; `doing` says what was done in it."""

    @abstractmethod
    def operator_action(self, action: OperatorAction) -> None:
        """Called when an operator has changed something, or was refused."""


class Unheard(Audit):
    """Nobody listens: a broker in a test."""

    def denied(self, user: str, verb: str, destination: str, remote: str) -> None:
        """Tell nobody."""

    def login_failed(self, user: str, remote: str) -> None:
        """Tell nobody."""

    def slow_consumer(self, user: str, remote: str, waited_s: float) -> None:
        """Tell nobody."""

    def producer_blocked(self, user: str, remote: str, reason: str, waited_s: float) -> None:
        """Tell nobody."""

    def group_trouble(self, queue: str, trouble: str, group: str) -> None:
        """Tell nobody."""

    def subscription_ended(self, user: str, remote: str, subscription: str, reason: str) -> None:
        """Tell nobody."""

    def slow_turn(self, length_s: float, doing: str) -> None:
        """Tell nobody."""

    def operator_action(self, action: OperatorAction) -> None:
        """Tell nobody."""


OK: Final = "ok"
REFUSED: Final = "refused"
FAILED: Final = "failed"


@dataclass(slots=True)
class Cost:
    """How many messages an action dropped or moved; None if it is not such an action."""

    tell: Callable[[int | None], None]  # tells the audit that the action is done, with this count
    count: int | None = None
    is_told_later: bool = False  # True: the action is a job, which calls `tell` at its end


@contextmanager
def on_record(audit: Audit, action: OperatorAction) -> Iterator[Cost]:
    """Tell the audit how the action inside the block ended."""
    cost = Cost(lambda count: audit.operator_action(replace(action, result=OK, count=count)))
    try:
        yield cost
    except BrokerError as error:
        audit.operator_action(replace(action, result=REFUSED, reason=error.text))
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        audit.operator_action(replace(action, result=FAILED, reason=reason))
        raise
    if not cost.is_told_later:
        cost.tell(cost.count)
