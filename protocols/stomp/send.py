"""SendPlan: everything a SEND's headers say, worked out once for all frames that repeat them.

A producer sends the same header lines thousands of times. The connection keeps one plan for each
distinct block of lines (without its `receipt`, which changes with every frame), so a repeated
SEND costs a dictionary look-up instead of a parse.

Aliases that let clients of other brokers work unchanged: `expiration` (RabbitMQ: a time to live
in milliseconds), `AMQ_SCHEDULED_DELAY` (ActiveMQ).
"""

from __future__ import annotations

from typing import Final

from covey.core.destination import Destination
from covey.core.errors import ProtocolError
from covey.core.message import DEFAULT_PRIORITY, FORGET_RETAINED, KEEP_NOTHING, RETAIN
from covey.groups.key import DEFAULT_HEADERS
from covey.protocols.stomp.message import StompMessage, make_block

TIME_DIGITS_MAX: Final = 15  # the year 33658; int() must not chew on a kilobyte of digits
PRIORITY_MAX: Final = 9


class SendPlan:
    """What to do with every SEND that has these headers."""

    __slots__ = (
        "block",
        "delay_ms",
        "expires_ms",
        "given_id",
        "group",
        "group_sequence",
        "is_persistent",
        "is_plain",
        "may_persist",
        "priority",
        "retain",
        "targets",
        "transaction",
        "ttl_ms",
    )

    def __init__(
        self,
        headers: dict[str, str],
        targets: tuple[Destination, ...],
        added: list[tuple[str, str]],
        own: frozenset[str] = frozenset(),
        user: str = "",
    ) -> None:
        """Read the headers; `added` are the broker's own, which take the place of forged ones.

        `own` names headers that the broker writes later, message by message; `user` is who sends.
        """
        self.targets = targets
        self.transaction = headers.get("transaction", "")
        self.is_persistent = headers.get("persistent") == "true"
        self.given_id = headers.get("message-id", "")
        self.may_persist = headers.get("persistent") != "false"
        self.retain = _retain(headers.get("retain", ""))
        self.expires_ms = _time(headers, "expires")
        ttl_ms = _time(headers, "ttl") or _time(headers, "expiration")
        self.ttl_ms = 0 if "expires" in headers else ttl_ms  # `expires` wins, 0 (never) too
        self.delay_ms = _time(headers, "AMQ_SCHEDULED_DELAY")
        self.priority = _priority(headers.get("priority"))
        self.group = next((headers[name] for name in DEFAULT_HEADERS if headers.get(name)), "")
        self.group_sequence = _integer(headers, "JMSXGroupSeq")
        ours = own.union([name for name, _ in added])
        kept = [(name, value) for name, value in headers.items() if name not in ours]
        self.block = make_block(kept, added, user)
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


def cut_receipt(block: bytes) -> bytes:
    """Return the header lines without the receipt, which no two frames share."""
    at = block.find(b"receipt:")
    if at < 0 or (at > 0 and block[at - 1] != 10):
        return block
    end = block.find(b"\n", at)
    if end < 0:
        return block[: max(0, at - 1)]
    return block[:at] + block[end + 1 :]


def _retain(value: str) -> int:
    """Read the retain header: the manual's prose says `set`, its example `true`."""
    word = value.lower()
    if word in ("set", "true"):
        return RETAIN
    return FORGET_RETAINED if word == "remove" else KEEP_NOTHING


def _time(headers: dict[str, str], name: str) -> int:
    value = headers.get(name)
    if value is None:
        return 0
    if not (value.isascii() and value.isdigit()) or len(value) > TIME_DIGITS_MAX:
        raise ProtocolError(f"SEND: {name}:{value[:32]} is not a number of milliseconds")
    return int(value)


def _integer(headers: dict[str, str], name: str) -> int:
    value = headers.get(name)
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
