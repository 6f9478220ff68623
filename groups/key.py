# Compiled by mypyc: see setup.py.
"""GroupKey: which group a message belongs to.

A queue with a configured header (the Qpid page: `qpid.group_header_key`) looks at that header
and at nothing else. Any other queue looks at these in turn, and takes the first that is not empty:
the AMQP group-id, `message_group` (the Apollo STOMP manual), `JMSXGroupID` (ActiveMQ's message
groups page) and `JMSXGroupId` (that page's sample code).

A group id is text. Numbers and booleans of AMQP application properties become the text that a STOMP
client would send for them, so that both protocols can send to one group. Anything else is refused.
Without an id the message is in the default group if the queue has one, else in none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Value = str | int | float | bool | bytes | None

DEFAULT_HEADERS: Final = ("message_group", "JMSXGroupID", "JMSXGroupId")

GROUP_ID_BYTES_MAX: Final = 1024
"""Names are kept per group and shown in views; a longer one is a mistake or an attack."""

UTF8_BYTES_PER_CHAR_MAX: Final = 4


class GroupIdError(ValueError):
    """A message's group id cannot be used; the text names the field and the reason."""


class GroupKey:
    """One queue's rule for finding the group id of a message."""

    __slots__ = ("default_group", "header", "id_bytes_max", "safe_length")

    def __init__(
        self,
        header: str | None = None,
        default_group: str = "",
        id_bytes_max: int = GROUP_ID_BYTES_MAX,
    ) -> None:
        """Look at `header` alone if given; `default_group` is for messages without an id."""
        self.header = header
        self.default_group = default_group
        self.id_bytes_max = id_bytes_max
        self.safe_length = id_bytes_max // UTF8_BYTES_PER_CHAR_MAX  # so many characters always fit

    def resolve(self, native: str | None, lookup: Callable[[str], Value]) -> str:
        """Return the message's group, "" for none; `native` is the AMQP group-id."""
        if self.header is not None:
            return self.checked(self.header, lookup(self.header)) or self.default_group
        group = self.checked("group-id", native)
        if group:
            return group
        for header in DEFAULT_HEADERS:
            group = self.checked(header, lookup(header))
            if group:
                return group
        return self.default_group

    def checked(self, place: str, value: Value) -> str:
        """Return a group id as text, "" for none; raises GroupIdError that names its field."""
        if value is None:
            return ""
        text = value if isinstance(value, str) else _as_text(place, value)
        if len(text) > self.safe_length:
            self._check_length(place, text)
        return text

    def _check_length(self, place: str, text: str) -> None:
        length = len(text.encode("utf-8", "surrogatepass"))
        if length > self.id_bytes_max:
            raise GroupIdError(
                f"the group id in {place} has {length} bytes, the limit is {self.id_bytes_max}"
            )


def _as_text(place: str, value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise GroupIdError(
        f"the group id in {place} is {type(value).__name__}, it must be text, a number or a boolean"
    )
