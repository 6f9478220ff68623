"""SendPlan: everything a SEND's headers say, worked out once for all frames that repeat them.

A producer sends the same header lines thousands of times: `heads` remembers whole heads with
their plan, `plans` works one out for lines that are new.

Aliases that let clients of other brokers work unchanged: `expiration` (RabbitMQ: a time to live
in milliseconds), `AMQ_SCHEDULED_DELAY` (ActiveMQ).
"""

from __future__ import annotations

from typing import Final

from covey.core.destination import Destination
from covey.core.errors import ProtocolError
from covey.core.message import DEFAULT_PRIORITY, FORGET_RETAINED, KEEP_NOTHING, RETAIN
from covey.groups.key import DEFAULT_HEADERS
from covey.protocols.stomp.block import Block, make_block
from covey.protocols.stomp.headers import is_true
from covey.protocols.stomp.message import StompMessage

TIME_DIGITS_MAX: Final = 15  # the year 33658; int() must not chew on a kilobyte of digits
PRIORITY_MAX: Final = 9


class SendPlan:
    """What to do with every SEND that has these headers."""

    __slots__ = (
        "answers_to",
        "block",
        "delay_ms",
        "expires_ms",
        "given_id",
        "group",
        "group_sequence",
        "is_direct",
        "is_persistent",
        "is_plain",
        "may_persist",
        "priority",
        "receipt",
        "retain",
        "targets",
        "transaction",
        "ttl_ms",
    )

    def __init__(self, targets: tuple[Destination, ...], block: Block) -> None:
        """Start with a message that has nothing but a destination."""
        self.targets = targets
        self.block = block
        self.transaction = ""
        self.is_persistent = False
        self.may_persist = True
        self.given_id = ""
        self.receipt: str | None = None
        self.retain = KEEP_NOTHING
        self.expires_ms = 0
        self.ttl_ms = 0
        self.delay_ms = 0
        self.priority = DEFAULT_PRIORITY
        self.group = ""
        self.group_sequence = 0
        self.answers_to: tuple[
            Destination, ...
        ] = ()  # what a reply-to that had to be rewritten names
        self.is_plain = True
        self.is_direct = True

    def copy(self) -> SendPlan:
        """Return a plan that starts as this one is."""
        plan = SendPlan(self.targets, self.block)
        plan.transaction = self.transaction
        plan.is_persistent = self.is_persistent
        plan.may_persist = self.may_persist
        plan.given_id = self.given_id
        plan.receipt = self.receipt
        plan.retain = self.retain
        plan.expires_ms = self.expires_ms
        plan.ttl_ms = self.ttl_ms
        plan.delay_ms = self.delay_ms
        plan.priority = self.priority
        plan.group = self.group
        plan.group_sequence = self.group_sequence
        plan.is_plain = self.is_plain
        plan.is_direct = self.is_direct
        return plan

    def note_plainness(self) -> None:
        """Note whether a message of this plan has nothing to `dress` it with, nor an answer."""
        self.is_direct = not self.transaction and self.receipt is None
        times = self.expires_ms or self.ttl_ms or self.delay_ms
        marks = self.is_persistent or self.given_id or self.group_sequence or self.retain
        self.is_plain = not (times or marks or self.priority != DEFAULT_PRIORITY)

    def dress(self, message: StompMessage, wall_ms: int) -> None:
        """Set what a message of this plan has besides its group, if the plan is not plain."""
        message.persistent = self.is_persistent
        message.priority = self.priority
        message.group_sequence = self.group_sequence
        message.given_id = self.given_id
        message.retain = self.retain
        if self.expires_ms:
            message.expires_ms = self.expires_ms
        elif self.ttl_ms:
            message.expires_ms = wall_ms + self.ttl_ms
        if self.delay_ms:
            message.due_ms = wall_ms + self.delay_ms


def read_plan(
    headers: dict[str, str],
    targets: tuple[Destination, ...],
    added: list[tuple[str, str]],
    own: frozenset[str] = frozenset(),
    user: str = "",
) -> SendPlan:
    """Read the headers; `added` are the broker's own, which take the place of forged ones.

    `own` names headers that the broker writes later, message by message; `user` is who sends.
    """
    ours = own.union([name for name, _ in added])
    kept = [(name, value) for name, value in headers.items() if name not in ours]
    plan = SendPlan(targets, make_block(kept, added, user))
    plan.transaction = headers.get("transaction", "")
    persistent = headers.get("persistent")
    plan.is_persistent = persistent is not None and is_true("persistent", persistent)
    plan.may_persist = persistent is None or plan.is_persistent
    plan.given_id = headers.get("message-id", "")
    plan.receipt = headers.get("receipt")
    plan.retain = _retain(headers.get("retain", ""))
    plan.expires_ms = read_time("expires", headers.get("expires"))
    ttl_ms = read_time("ttl", headers.get("ttl"))
    ttl_ms = ttl_ms or read_time("expiration", headers.get("expiration"))
    plan.ttl_ms = 0 if "expires" in headers else ttl_ms  # `expires` wins, 0 (never) too
    plan.delay_ms = read_time("AMQ_SCHEDULED_DELAY", headers.get("AMQ_SCHEDULED_DELAY"))
    plan.priority = _priority(headers.get("priority"))
    plan.group = next((headers[name] for name in DEFAULT_HEADERS if headers.get(name)), "")
    plan.group_sequence = read_integer("JMSXGroupSeq", headers.get("JMSXGroupSeq"))
    plan.note_plainness()
    return plan


def _retain(value: str) -> int:
    """Read the retain header: the manual's prose says `set`, its example `true`."""
    word = value.lower()
    if word in ("set", "true"):
        return RETAIN
    return FORGET_RETAINED if word == "remove" else KEEP_NOTHING


def read_time(name: str, value: str | None) -> int:
    """Read a header that is a number of milliseconds; 0 if there is none."""
    if value is None:
        return 0
    if not (value.isascii() and value.isdigit()) or len(value) > TIME_DIGITS_MAX:
        raise ProtocolError(f"SEND: {name}:{value[:32]} is not a number of milliseconds")
    return int(value)


def read_integer(name: str, value: str | None) -> int:
    """Read a header that is a whole number; 0 if there is none."""
    if value is None:
        return 0
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > TIME_DIGITS_MAX:
        raise ProtocolError(f"SEND: {name}:{value[:32]} is not a whole number")
    return int(value)


def _priority(value: str | None) -> int:
    if value is None:
        return DEFAULT_PRIORITY
    if not (value.isascii() and value.isdigit()) or len(value) > TIME_DIGITS_MAX:
        raise ProtocolError(f"SEND: priority:{value[:32]} is not a number from 0 to 9")
    return min(int(value), PRIORITY_MAX)
