"""Plans: from the header lines of a SEND to what is to be done with it.

Most lines of a SEND only travel with the message. A few steer it (destination, persistent, ttl):
what they say together is worked out once and remembered under their bytes. A few belong to one
message (receipt, message-id, its group): they are read each time, which costs little. So a SEND
that is like no other, but goes where others went, needs no parse of its destination.

That is the short way, for lines as nearly all clients write them: ASCII, no escapes, one colon
each, no name twice, version 1.1 or later. Any other block is decoded as a whole.
"""

from __future__ import annotations

from typing import Final

from covey.config.settings import StompSettings
from covey.core.destination import Destination
from covey.groups.key import DEFAULT_HEADERS
from covey.protocols.stomp.block import NOT_KEPT, Block
from covey.protocols.stomp.dialect import own_headers, typed_name
from covey.protocols.stomp.headers import header_lines, parse_block
from covey.protocols.stomp.names import Names
from covey.protocols.stomp.rules import Version, check
from covey.protocols.stomp.send import SendPlan, read_integer, read_plan, read_time

PLANS_MAX: Final = 1024  # remembered of one connection, and as many destinations

# What a line is for; one that is not in the table only travels with its message.
TRAVELS: Final = 0
STEERS: Final = 1  # and travels
STEERS_ONLY: Final = 2
IS_OURS: Final = 3  # left out: it belongs to this hop, or is the broker's own to say

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
    """How one connection's SENDs are read."""

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
        """Read for a user who has logged in; `added` are lines that say on each message who."""
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
        """Say what to do with a SEND of these lines; raises BrokerError if they make no sense."""
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
        """Read lines the short way; None: they are not as usual after all."""
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
            return None  # its reply-to line is not the sender's own
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
        """Add what only this message says to what its steering lines say."""
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
        """Decode every line, whatever it is."""
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
