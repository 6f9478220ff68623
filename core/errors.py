"""Everything that can go wrong, as one small tree.

    BrokerError
    ├── ProtocolError    the peer broke the wire protocol: its connection ends
    ├── RefusedError     the broker says no: a limit, a permission, a missing or wrong name
    └── StoreError       the disk failed us: nothing that depends on it may be promised
        ├── StoreBusyError   not now, maybe later: there is no room, or another process uses it
        └── OwnedError       another broker of the cluster serves this virtual host

Each error carries a sentence for people and a stable `code` for machines. A protocol front end
maps codes to its own words in one table (a STOMP ERROR header, an AMQP condition) and never
reads the sentence. A sentence shows a client's text by `quoted`. Python's own spelling would add
escapes that the client never wrote, and people would search for those in vain. Programming errors
are plain `assert`s and do not live here.
"""

from __future__ import annotations

QUOTED_MAX = 80  # characters of a client's text that a sentence repeats, lest it flood a log


def quoted(text: str, most: int = QUOTED_MAX) -> str:
    """Show the beginning of a client's text unchanged; characters that cannot print become %XX."""
    shown = [char if char.isprintable() else percent(char) for char in text[:most]]
    return f"'{''.join(shown)}'"


def percent(char: str) -> str:
    """Write a character as URLs do: its UTF-8 bytes as %XX."""
    return "".join([f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass")])


class BrokerError(Exception):
    """The root: a sentence for people, a code for machines."""

    code = "internal-error"

    def __init__(self, text: str, code: str | None = None) -> None:
        """Keep the sentence; `code`, if given, replaces the code of the class."""
        super().__init__(text)
        self.text = text
        if code is not None:
            self.code = code


class ProtocolError(BrokerError):
    """The peer sent something the protocol forbids."""

    code = "protocol-error"


class RefusedError(BrokerError):
    """The request is well formed, and the answer is no.

    Codes in use: invalid (a value makes no sense), not-found, exists, denied (permission or
    password), limit (a documented maximum), full (a queue's quota), conflict (in use),
    unavailable (a virtual host that nobody serves now), moved (another process serves the virtual
    host now).
    """

    code = "refused"


class StoreError(BrokerError):
    """The store could not do what it must before a promise leaves the broker."""

    code = "store-failed"


class StoreBusyError(StoreError):
    """The store cannot write now, but may later: the same write is tried again."""


class OwnedError(StoreError):
    """Another broker serves the virtual host."""
