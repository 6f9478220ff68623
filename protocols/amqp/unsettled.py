"""Unsettled: the deliveries of one session that its peer has still to settle, and whose they are.

Deliveries are numbered through a session, so that one disposition can mean those of several links.
Nearly all of them accept a range; what one consumer holds of it is settled in the core at once. A
range may be far larger than what there is: then what there is, is walked.

Source: AMQP 1.0 section 2.7.6.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from covey.core.consumer import Consumer
from covey.core.entry import Entry
from covey.protocols.amqp.performatives import MASK

if TYPE_CHECKING:
    from covey.protocols.amqp.outgoing import OutgoingLink


class Unsettled:
    """The links of unsettled deliveries, by number; the links keep what was delivered."""

    __slots__ = ("links",)

    def __init__(self) -> None:
        self.links: dict[int, OutgoingLink] = {}

    def within(self, first: int, count: int) -> Iterable[int]:
        """Walk the numbers of a range, those that are settled perhaps among them."""
        if count > len(self.links):
            return [each for each in self.links if (each - first) & MASK < count]
        if first + count <= MASK:
            return range(first, first + count)
        return [(first + each) & MASK for each in range(count)]

    def accept(self, first: int, count: int, now: float) -> None:
        """Settle what the peer accepts, in rows of one consumer's."""
        links = self.links
        row: list[Entry] = []
        reader: Consumer | None = None
        for number in self.within(first, count):
            link = links.pop(number, None)
            if link is None:
                continue
            entry = link.unsettled.pop(number)
            holder = None if entry is None else entry.holder
            if entry is None or holder is None or holder.window is not link.window:
                continue
            if holder is not reader:
                _settle(reader, row, now)
                reader = holder
                row = []
            row.append(entry)
        _settle(reader, row, now)


def _settle(reader: Consumer | None, row: list[Entry], now: float) -> None:
    if reader is not None and reader.queue is not None:
        reader.queue.accept(reader, row, now)
