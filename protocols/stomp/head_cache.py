# Compiled by mypyc: see setup.py.
"""HeadCache: what a producer repeats above its bodies, read once.

A producer sends the same header lines thousands of times. So the heads of its SEND frames are
remembered as they came, each with the plan that was made of it (`send_plan`). A repeated SEND costs
one look-up instead of a parse.

No two frames share their receipt or their message-id. These lines are taken out of a head before
the look-up (`OwnLines`). If such a line cannot be taken out, the head is not kept. A producer whose
heads never repeat gets no memory at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from covey.protocols.stomp.send_plan import SendPlan

HEADS_MAX: Final = 1024  # remembered of one connection
HEAD_LENGTH_MAX: Final = 512  # bytes of one: longer ones rarely come again as they are
SEND_START: Final = b"SEND\n"
# Lines that no two frames share.
RECEIPT_LINE: Final = b"\nreceipt:"
ID_LINE: Final = b"\nmessage-id:"
# As numbers: CPython looks for bytes in bytes by way of an exception, half a microsecond each.
_BACKSLASH: Final = 92
_COLON: Final = 58
_CR: Final = 13


class Head:
    """What a head says: its command, its header lines, how long the body is."""

    __slots__ = ("block", "body_length", "command", "plan")

    def __init__(self, command: str, block: bytes, body_length: int) -> None:
        self.command = command
        self.block = block
        self.body_length = body_length
        self.plan: SendPlan | None = None  # what to do with the message, once that is known


class OwnLines:
    """What a SEND says in lines that no two share: they were taken out of its head."""

    __slots__ = ("given_id", "receipt", "text")

    def __init__(self, receipt: bytes, given_id: bytes, text: bytes) -> None:
        self.receipt = receipt
        self.given_id = given_id
        self.text = text  # the head with these lines, as it came


NO_OWN_LINES: Final = OwnLines(b"", b"", b"")


class HeadCache:
    """The heads one producer has sent."""

    __slots__ = ("hits", "is_of_use", "known")

    def __init__(self) -> None:
        self.known: dict[bytes, Head] = {}
        self.hits = 0  # since the memory was last full
        self.is_of_use = True

    def keep(self, text: bytes, head: Head) -> None:
        """Remember a head that may come again."""
        if not self.is_of_use or len(text) > HEAD_LENGTH_MAX:
            return
        if text.find(RECEIPT_LINE) >= 0 or text.find(ID_LINE) >= 0:
            return
        if len(self.known) >= HEADS_MAX:
            self.is_of_use = self.hits > HEADS_MAX
            self.hits = 0
            self.known.clear()
        if self.is_of_use:
            self.known[text] = head


def cut_line(text: bytes, start: bytes) -> tuple[bytes, bytes]:
    """Return the head of a SEND without the line that starts so, and that line's value.

    It is b"" if there is none, or one that would have to be decoded: then the head stays whole.
    """
    at = text.find(start)
    if at < 0 or not text.startswith(SEND_START):
        return text, b""
    end = text.find(b"\n", at + len(start))
    if end < 0:
        end = len(text)
    value = text[at + len(start) : end]
    is_odd = _BACKSLASH in value or _COLON in value or _CR in value or not value.isascii()
    shared = text[:at] + text[end:]
    if is_odd or not value or len(shared) <= len(SEND_START):
        return text, b""
    return shared, value
