# Compiled by mypyc: see setup.py.
"""SendPlan: what a SEND's headers mean, worked out once for all frames that repeat them.

A producer sends the same header lines thousands of times. `parser` remembers whole heads with
their plans. `Plans` works out the plan of lines that are new.

Most lines of a SEND only travel with the message. A few lines steer the message (destination,
persistent, ttl). What the steering lines say together is worked out once and remembered under
their bytes. A few other lines belong to one message (receipt, message-id, its group): they are read
each time, which costs little. So a SEND with new lines needs no parse of its destination if an
earlier SEND had the same steering lines.

This short way is for lines as nearly all clients write them: ASCII, no escapes, one colon each, no
name twice, version 1.1 or later. Any other block is decoded as a whole.

Aliases that let clients of other brokers work unchanged: `expiration` (RabbitMQ: a time to live
in milliseconds), `AMQ_SCHEDULED_DELAY` (ActiveMQ).
"""

from __future__ import annotations

from typing import Final

from covey.config.settings import StompSettings
from covey.core.errors import ProtocolError
from covey.core.model.message import DEFAULT_PRIORITY, FORGET_RETAINED, KEEP_NOTHING, RETAIN
from covey.core.naming.destination import Destination
from covey.groups.key import DEFAULT_HEADERS
from covey.protocols.stomp.frame import header_lines, is_true, parse_block
from covey.protocols.stomp.message import NOT_KEPT, Block, StompMessage, make_block
from covey.protocols.stomp.settings import Names, own_headers, typed_name
from covey.protocols.stomp.versions import Version, check

TIME_DIGITS_MAX: Final = 15  # the year 33658; int() must not chew on a kilobyte of digits
PRIORITY_MAX: Final = 9
RETAIN_WORDS: Final = {
    "set": RETAIN,
    "true": RETAIN,
    "remove": FORGET_RETAINED,
    "false": KEEP_NOTHING,
}


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
        ] = ()  # the places in a reply-to that had to be rewritten
        self.is_plain = True
        self.is_direct = True

    def copy(self) -> SendPlan:
        """Return a plan with the same contents, but without `answers_to`."""
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
        """Set `is_plain` (`dress` has nothing to set) and `is_direct` (no transaction, no receipt).

        Call this after every change of the plan.
        """
        self.is_direct = not self.transaction and self.receipt is None
        times = self.expires_ms or self.ttl_ms or self.delay_ms
        marks = self.is_persistent or self.given_id or self.group_sequence or self.retain
        self.is_plain = not (times or marks or self.priority != DEFAULT_PRIORITY)

    def dress(self, message: StompMessage, wall_ms: int) -> None:
        """Set everything but the group of a message; needed only if the plan is not plain."""
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
    """Work out the plan of decoded headers.

    `added` are headers that the broker writes. They replace a client's headers of the same name,
    which would be forged. `own` names headers that the broker writes later, message by message.
    `user` is the sender.
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
    plan.retain = _retain(headers.get("retain", "false"))
    plan.expires_ms = read_time("expires", headers.get("expires"))
    ttl_ms = read_time("ttl", headers.get("ttl"))
    ttl_ms = ttl_ms or read_time("expiration", headers.get("expiration"))
    plan.ttl_ms = 0 if "expires" in headers else ttl_ms  # `expires` wins, even `expires:0` (never)
    plan.delay_ms = read_time("AMQ_SCHEDULED_DELAY", headers.get("AMQ_SCHEDULED_DELAY"))
    plan.priority = _priority(headers.get("priority"))
    plan.group = next((headers[name] for name in DEFAULT_HEADERS if headers.get(name)), "")
    plan.group_sequence = read_integer("JMSXGroupSeq", headers.get("JMSXGroupSeq"))
    plan.note_plainness()
    return plan


def _retain(value: str) -> int:
    """Read the retain header; `true` is `set`: the manual's text has one, its example the other."""
    meaning = RETAIN_WORDS.get(value.lower())
    if meaning is None:
        raise ProtocolError(f"SEND: retain:{value[:32]} is neither set nor remove")
    return meaning


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


PLANS_MAX: Final = 1024  # plans that one connection remembers, and as many destinations

# What a header line is for. A line whose name is not in `ROLES` only travels with its message.
TRAVELS: Final = 0
STEERS: Final = 1  # it steers the message and travels with it
STEERS_ONLY: Final = 2
IS_OURS: Final = 3  # left out: it belongs to this hop, or only the broker may write it

ROLES: Final[dict[bytes, int]] = {
    **{name.encode(): IS_OURS for name in NOT_KEPT},
    b"destination": STEERS,
    b"destination-type": STEERS,
    b"subscription-type": STEERS,
    b"persistent": STEERS,
    b"priority": STEERS,
    b"reply-to": STEERS,
    b"retain": STEERS,
    b"AMQ_SCHEDULED_DELAY": STEERS,
    b"transaction": STEERS_ONLY,
    b"ttl": STEERS_ONLY,
    b"expiration": STEERS_ONLY,
}
GROUP_NAMES: Final = tuple([name.encode() for name in DEFAULT_HEADERS])
# As numbers: CPython looks for bytes in bytes by way of an exception, half a microsecond each.
_BACKSLASH: Final = 92
_CR: Final = 13
VERSION_1_0: Final = Version.V1_0
VERSION_1_2: Final = Version.V1_2


class Plans:
    """Works out the plans of one connection's SENDs."""

    __slots__ = (
        "_own",
        "_places",
        "_roles",
        "_steered",
        "_user",
        "added",
        "names",
        "settings",
        "version",
    )

    def __init__(
        self,
        names: Names,
        settings: StompSettings,
        version: Version,
        added: list[tuple[str, str]],
        user: str,
    ) -> None:
        """Work for a user who has logged in; `added` are headers that name the sender."""
        self.names = names
        self.settings = settings
        self.version = version
        self.added = added
        self._user = user
        self._own = own_headers(settings)
        ours = self._own.union([name for name, _ in added])
        self._roles = {**ROLES, **{name.encode(): IS_OURS for name in ours}}
        self._steered: dict[bytes, SendPlan] = {}
        self._places: dict[str, tuple[Destination, ...]] = {}

    def __len__(self) -> int:
        return len(self._steered)

    def read(self, block: bytes) -> SendPlan:
        """Return the plan of a SEND with these lines; raises BrokerError if they make no sense."""
        lines = block.split(b"\n")
        is_usual = (
            block.isascii()
            and block.count(b":") == len(lines)
            and _BACKSLASH not in block
            and _CR not in block
            and self.version is not VERSION_1_0
        )
        plan = self._read_lines(lines) if is_usual else None
        return self._read_all(block) if plan is None else plan

    def _read_lines(self, lines: list[bytes]) -> SendPlan | None:
        """Read lines the short way; None: they must be decoded as a whole."""
        values: dict[bytes, bytes] = {}
        steering: list[bytes] = []
        kept: list[bytes] = [b""]
        roles = self._roles
        for line in lines:
            name, colon, value = line.partition(b":")
            if not name or not colon:
                return None
            values[name] = value
            role = roles.get(name, TRAVELS)
            if role <= STEERS:
                kept.append(line)
            if role == STEERS or role == STEERS_ONLY:
                steering.append(line)
        if len(values) != len(lines):
            return None
        plan = self._steered_by(b"\n".join(steering))
        if plan.answers_to:
            return None  # the reply-to line is rewritten, so the sender's line must not be kept
        return self._complete(plan, b"\n".join(kept), values)

    def _steered_by(self, lines: bytes) -> SendPlan:
        plan = self._steered.get(lines)
        if plan is None:
            plan = self._read_all(lines)
            if len(self._steered) >= PLANS_MAX:
                self._steered.clear()
            self._steered[lines] = plan
        return plan

    def _complete(self, steered: SendPlan, kept: bytes, values: dict[bytes, bytes]) -> SendPlan:
        """Make a message's plan: a copy of its steering lines' plan, and the lines of its own."""
        plan = steered.copy()
        added = header_lines(self.added, VERSION_1_2) if self.added else b""
        plan.block = Block(kept + added, self._user)
        for name in GROUP_NAMES:
            group = values.get(name)
            if group:
                plan.group = group.decode()
                break
        sequence = values.get(b"JMSXGroupSeq")
        if sequence is not None:
            plan.group_sequence = read_integer("JMSXGroupSeq", sequence.decode())
        expires = values.get(b"expires")
        if expires is not None:
            plan.expires_ms = read_time("expires", expires.decode())
            plan.ttl_ms = 0
        given_id = values.get(b"message-id")
        if given_id:
            plan.given_id = given_id.decode()
        receipt = values.get(b"receipt")
        if receipt is not None:
            plan.receipt = receipt.decode()
        plan.note_plainness()
        return plan

    def _read_all(self, block: bytes) -> SendPlan:
        """Decode all lines and work out their plan."""
        headers = parse_block(block, self.version)
        check("SEND", headers, self.version)
        added = list(self.added)
        reply_to = headers.get("reply-to", "")
        answers_to = self.names.own_places(reply_to)
        if answers_to:
            added.append(("reply-to", self.names.written(answers_to)))
            if self.settings.keep_original_reply_to:
                added.append(("reply-to", reply_to))
        targets = self._targets(typed_name(headers, self.settings))
        plan = read_plan(headers, targets, added, self._own, self._user)
        plan.answers_to = answers_to
        return plan

    def _targets(self, text: str) -> tuple[Destination, ...]:
        found = self._places.get(text)
        if found is None:
            found = self.names.destinations(text, allow_patterns=False)
            if len(self._places) >= PLANS_MAX:
                self._places.clear()
            self._places[text] = found
        return found
