"""Audit: what an operator must hear at once: security, waiting clients, groups, and who did what.

The core writes no log. It tells an `Audit`, and the server's audit writes the lines. No password,
no body and no header ever comes through here.

Who did what to the broker, or wanted to, is put on record as an `OperatorAction`. Everything that
changes what others rely on is an action: a queue or topic declared, changed or deleted, messages
purged, groups closed, parked and rebalanced, a consumer retired, a connection closed, definitions
imported, the configuration read again. Messages that are sent and consumed are no actions. Neither
is what comes and goes with its user: a destination made on first use, a temporary one, a
subscription of a client.

An action is told once it has ended: "ok", "refused" with the broker's own words for why, "failed"
if the broker could not. `count` is how many messages it cost, where it costs messages.
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
    host: str  # the virtual host's id; "" if it is about the broker
    name: str
    result: str = ""
    reason: str = ""
    count: int | None = None


class Audit(ABC):
    """Who hears of it."""

    @abstractmethod
    def denied(self, user: str, verb: str, destination: str, remote: str) -> None:
        """Hear that somebody asked for what they may not."""

    @abstractmethod
    def login_failed(self, user: str, remote: str) -> None:
        """Hear of a failed login; `user` is "" for a name nobody has: it may be a password."""

    @abstractmethod
    def slow_consumer(self, user: str, remote: str, waited_s: float) -> None:
        """Hear that a client has not read what is meant for it for too long."""

    @abstractmethod
    def producer_blocked(self, user: str, remote: str, reason: str, waited_s: float) -> None:
        """Hear that a producer has been waiting for a while, and for what."""

    @abstractmethod
    def group_trouble(self, queue: str, trouble: str, group: str) -> None:
        """Hear that a group is in trouble, or with "" for its name all groups of a queue."""

    @abstractmethod
    def slow_turn(self, length_s: float, doing: str) -> None:
        """Hear that nobody was served for too long, and what was done meanwhile."""

    @abstractmethod
    def operator_action(self, action: OperatorAction) -> None:
        """Hear what somebody has changed, or was not let change."""


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

    def slow_turn(self, length_s: float, doing: str) -> None:
        """Tell nobody."""

    def operator_action(self, action: OperatorAction) -> None:
        """Tell nobody."""


OK: Final = "ok"
REFUSED: Final = "refused"
FAILED: Final = "failed"


@dataclass(slots=True)
class Cost:
    """How many messages an action has cost; None: it is not one that does."""

    tell: Callable[[int | None], None]  # tells the audit that it is done, with this count
    count: int | None = None
    is_told_later: bool = False  # whoever does it calls `tell` when all of it is done


@contextmanager
def on_record(audit: Audit, action: OperatorAction) -> Iterator[Cost]:
    """Tell the audit what came of what is done inside."""
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
