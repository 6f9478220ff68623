"""Bodies: messages of the judged queue that are out of memory, as the pager keeps them.

The pager's rules without its store: what may go out, and what must be read before anybody waits.
The referee is told which are out, since nothing is decided about a message that is not there.
In some runs what is out is packed again and again, however few messages there are.
"""

from __future__ import annotations

from random import Random

from covey.core.model.entry import ASIDE, KEPT, PENDING, Entry
from covey.core.model.message import Message
from covey.core.queue.queue import Queue
from covey.core.storage import paging as page
from tests.properties.referee import Referee


class Bodies:
    """What is out."""

    def __init__(self, queue: Queue, referee: Referee) -> None:
        self.queue = queue
        self.referee = referee
        self.out: dict[int, Message] = {}
        self.packed = 0  # how often an entry was packed

    def put_out(self, random: Random) -> None:
        """Put out some of what may go."""
        for entry in list(self.queue.state.index):
            if random.random() < 0.5 and self._may_go(entry):
                self.out[entry.seq] = entry.content
                entry.stored = KEPT  # as if it were in a store; the owner has none
                self._set(entry, None)

    def pack(self) -> None:
        """Pack everything that may be packed."""
        before = self.queue.state.index.packed
        self.queue.dispatch.backlog.pack_all()
        self.packed += self.queue.state.index.packed - before
        self._check_packed()

    def read_some(self, random: Random) -> None:
        """Read some, wanted or not."""
        for seq in list(self.out):
            if random.random() < 0.3:
                self._read(seq)

    def read_wanted(self) -> bool:
        """Read what consumers wait for, as after each pump; False if nobody waits."""
        wanted = page.wanted(self.queue, is_over=True) if self.out else []
        for entry in wanted:
            if entry.seq in self.out:
                self._read(entry.seq)
        return bool(wanted)

    def _may_go(self, entry: Entry) -> bool:
        state = self.queue.state
        if entry.message is None or entry.state not in (PENDING, ASIDE):
            return False
        if entry.lane.head is entry and state.consumers:
            return False
        return entry.lane.is_grouped or not any(view.back for view in state.views)

    def _check_packed(self) -> None:
        index = self.queue.state.index
        real = [page.places for page in index._pages.values()]
        entries = [place for places in real for place in places if isinstance(place, Entry)]
        assert index.packed == index.count - len(entries)
        assert all(index.get(entry.seq) is entry for entry in entries)

    def _read(self, seq: int) -> None:
        body = self.out.pop(seq)
        entry = self.queue.state.index.get(seq)
        if entry is not None:
            self._set(entry, body)
            self.queue.mark()

    def _set(self, entry: Entry, body: Message | None) -> None:
        sign = 1 if body is None else -1
        entry.message = body
        if entry.expires_ms:
            expiry = self.queue.timers.expiry
            exact = entry.expires_ms if body is None else body.expires_ms
            entry.expires_ms = expiry.rounded(exact) if body is None else exact
        self.queue.storage_state.out += sign
        self.queue.storage_state.resident -= sign * entry.size
        self.referee.slips[entry.seq].is_out = body is None
        if body is not None and self.queue.expire_if_due(entry):
            return
        if entry.lane.is_grouped and entry.lane.head is entry:
            self.queue.placement.resolve(entry.lane)
