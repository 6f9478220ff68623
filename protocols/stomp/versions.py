# Compiled by mypyc: see setup.py.
"""What differs between STOMP 1.0, 1.1 and 1.2, as tables.

Rules of this file:
- Everything is data; the two functions only look things up. No bytes, no state.
- `COMMANDS` says which client frame needs which headers, one column per version. A frame that
  is not in a version's column is unknown to that version (NACK came with 1.1).
- A requirement is a tuple of headers, of which one must be there: in 1.0 an UNSUBSCRIBE may name
  its subscription by id or by destination.
- A required header must be there and must not be empty: an empty name of a transaction would mean
  no transaction. The code that uses a value checks whether it makes sense.

Source: "Client Frames" and "Protocol Negotiation" of the STOMP 1.1 and 1.2 specifications, the
frame list of STOMP 1.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from covey.core.errors import ProtocolError


class Version(IntEnum):
    """A version of the protocol: its minor number, which is also its column in the tables."""

    V1_0 = 0
    V1_1 = 1
    V1_2 = 2

    @property
    def text(self) -> str:
        """The version as it is written on the wire."""
        return f"1.{self.value}"


BY_TEXT: dict[str, Version] = {version.text: version for version in Version}

# The `version` header of the ERROR that answers a login without a common version.
SUPPORTED_TEXT = ",".join(version.text for version in sorted(Version, reverse=True))

# Login frames, and the answer to them, are never escaped: a 1.0 peer must be able to read them.
LOGIN_COMMANDS = frozenset({"CONNECT", "STOMP"})
UNESCAPED_COMMANDS = LOGIN_COMMANDS | {"CONNECTED"}

SERVER_COMMANDS = frozenset({"CONNECTED", "MESSAGE", "RECEIPT", "ERROR"})

Requirements = tuple[tuple[str, ...], ...]

_NONE: Requirements = ()
_DESTINATION: Requirements = (("destination",),)
_ID: Requirements = (("id",),)
_LOGIN: Requirements = (("accept-version",), ("host",))
_MESSAGE_ID: Requirements = (("message-id",),)
_SUBSCRIBED_MESSAGE: Requirements = (("message-id",), ("subscription",))
_SUBSCRIPTION: Requirements = (("destination",), ("id",))
_ID_OR_DESTINATION: Requirements = (("id", "destination"),)
_TRANSACTION: Requirements = (("transaction",),)

# command -> what 1.0, 1.1 and 1.2 require; None: the version does not have the command.
_TABLE: dict[str, tuple[Requirements | None, Requirements | None, Requirements | None]] = {
    "CONNECT": (_NONE, _LOGIN, _LOGIN),
    "STOMP": (_NONE, _LOGIN, _LOGIN),
    "SEND": (_DESTINATION, _DESTINATION, _DESTINATION),
    "SUBSCRIBE": (_DESTINATION, _SUBSCRIPTION, _SUBSCRIPTION),
    "UNSUBSCRIBE": (_ID_OR_DESTINATION, _ID, _ID),
    "ACK": (_MESSAGE_ID, _SUBSCRIBED_MESSAGE, _ID),
    "NACK": (None, _SUBSCRIBED_MESSAGE, _ID),
    "BEGIN": (_TRANSACTION, _TRANSACTION, _TRANSACTION),
    "COMMIT": (_TRANSACTION, _TRANSACTION, _TRANSACTION),
    "ABORT": (_TRANSACTION, _TRANSACTION, _TRANSACTION),
    "DISCONNECT": (_NONE, _NONE, _NONE),
}


def _column(version: Version) -> dict[str, Requirements]:
    """Return one version's column of the table, without the commands that it lacks."""
    column: dict[str, Requirements] = {}
    for command, cells in _TABLE.items():
        needed = cells[version]
        if needed is not None:
            column[command] = needed
    return column


# Indexed by version. A tuple, because hashing an enum member for a dict costs more than the check.
COMMANDS: tuple[dict[str, Requirements], ...] = tuple(_column(version) for version in Version)

CLIENT_COMMANDS = frozenset(_TABLE)

# Frames that may name a transaction, but need not.
_TRANSACTED = frozenset({"SEND", "ACK", "NACK"})


def negotiate(accept_version: str | None) -> Version | None:
    """Return the highest common version, None if there is none; no header (None) means 1.0."""
    if accept_version is None:
        return Version.V1_0
    offered = [BY_TEXT.get(text.strip()) for text in accept_version.split(",")]
    return max((version for version in offered if version is not None), default=None)


def check(command: str, headers: Mapping[str, str], version: Version) -> None:
    """Refuse a client frame that the version does not know, or that lacks a header.

    A broker may admit 1.1 and 1.2 clients without `host`. So this is not called for login frames:
    `negotiate` has already read `accept-version`, the only other header that they need.
    """
    needed = COMMANDS[version].get(command)
    if needed is None:
        raise ProtocolError(f"{command} is not a client frame of STOMP {version.text}")
    for choices in needed:
        if not any([headers.get(name) for name in choices]):
            is_empty = any([name in headers for name in choices])
            how = "with an empty" if is_empty else "without the"
            raise ProtocolError(f"{command} frame {how} header {' or '.join(choices)}")
    if headers.get("transaction") == "" and command in _TRANSACTED:
        raise ProtocolError(f"{command} frame with an empty header transaction")
