# Compiled by mypyc: see setup.py.
"""Lane: one group's messages in one queue, in order, and who may take the next.

    owner    whom the group belongs to, as the strategy said
    holder   who has its unsettled messages
    target   who may take the present head
    The three differ only while the lane drains (the owner has changed, the holder is not done
    yet) or is lent (the owner's selector refuses the head).

| where    | meaning                                                    | listed in              |
|----------|------------------------------------------------------------|------------------------|
| IDLE     | no message can be a head                                   | nothing                |
| OPEN     | the head may go to any consumer whose view admits it       | `free` of those views  |
| READY    | the head may go to `target` only                           | `hot`, or its `ready`  |
| DRAINING | unsettled messages with a holder who may not take the head | nothing                |
| HELD     | parked, capped, backing off, or its head is in the store   | nothing                |

The gate, the one rule that keeps a group whole: a message may go to consumer c only if the lane
has no unsettled message or c is the one that holds them.

The FIFO is threaded through the entries: a deque for each group would cost 600 bytes. An entry
knows the number of the next one, and not the next one itself. So what lies between the first and
the last entry may be packed (`core.dispatch.backlog`), and the index makes it an entry again when
the FIFO gets there. An entry that goes from the middle leaves its link behind, in `gone`.

Returned messages go into `back`, a heap that is made only when needed. Those that nobody may take
are set `aside` (`core.dispatch.aside`), and some of these are to be looked at again. The head is
the first of the FIFO, of `back`, or of what is to be looked at again, whichever has the smallest
number. So a message that comes back is always at its sequence position. Only
`core.dispatch.placement` moves a lane between places.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, Final

from covey.core.dispatch.aside import Aside
from covey.core.model.entry import ASIDE, PENDING, STORING, Entry

if TYPE_CHECKING:
    from covey.core.dispatch.index import Index
    from covey.core.model.consumer import Consumer

IDLE: Final = 0
OPEN: Final = 1
READY: Final = 2
DRAINING: Final = 3
HELD: Final = 4

WHERE_NAMES: Final = ("idle", "open", "ready", "draining", "held")
PARKED: Final = "parked"  # the reason (`why`) of a lane that is parked
SEIZED: Final = 1e18  # `hold_until` of a lane that an operator's command works on


class Lane:
    """The messages of one group; if `is_grouped` is False, of one level without groups."""

    __slots__ = (
        "aside",
        "back",
        "blocked_since",
        "count",
        "draining_since",
        "failures",
        "first",
        "gone",
        "head",
        "hold_until",
        "holder",
        "is_fresh",
        "is_grouped",
        "is_parked",
        "last",
        "name",
        "owned_since",
        "owner",
        "paced_until",
        "rank",
        "target",
        "unsettled",
        "where",
        "why",
    )

    def __init__(self, name: str, *, is_grouped: bool = True) -> None:
        self.name = name
        self.is_grouped = is_grouped
        self.first: Entry | None = None
        self.last: Entry | None = None
        self.back: list[int] | None = None
        self.aside: Aside | None = None  # numbers of set-aside entries
        self.head: Entry | None = None
        self.count = 0  # entries that are not gone, unsettled ones included
        # Numbers of the FIFO whose entries have gone, and the number behind each.
        self.gone: dict[int, int] | None = None
        self.unsettled = 0
        self.owner: Consumer | None = None
        self.holder: Consumer | None = None
        self.target: Consumer | None = None
        self.where = IDLE
        self.is_fresh = False  # the next delivery is the first of this ownership
        self.is_parked = False
        self.failures = 0  # failed deliveries in a row, for the poison policy
        self.hold_until = 0.0
        self.paced_until = 0.0  # where groups have a rate: when the next message may go
        self.owned_since = 0.0
        self.blocked_since = 0.0  # 0: the head can go, or there is none
        self.draining_since = 0.0  # of a DRAINING lane
        self.why = ""  # why a HELD lane waits, for people
        self.rank = 0  # messages without a group: the level of their priority, 0 the highest

    def append(self, entry: Entry) -> None:
        """Put a new entry at the end."""
        last = self.last
        if last is None:
            self.first = entry
        else:
            last.next = entry.seq
            if self.gone is not None and last.seq in self.gone:
                self.gone[last.seq] = entry.seq
        self.last = entry
        self.count += 1

    def put_back(self, entry: Entry) -> None:
        """Put a returned entry where its number says."""
        if self.back is None:
            self.back = []
        heappush(self.back, entry.seq)

    def find_head(self, index: Index) -> Entry | None:
        """Return the oldest entry that waits; drop those before it that no longer do."""
        entry = self.first
        if entry is not None and entry.state > STORING:
            entry = self.first_living(index)
        if self.back is not None:
            returned = self._returned(index)
            if returned is not None and (entry is None or returned.seq < entry.seq):
                entry = returned
        if self.aside is not None:
            recalled = self._recalled(index, self.aside)
            if recalled is not None and (entry is None or recalled.seq < entry.seq):
                recalled.state = PENDING
                entry = recalled
        return entry

    def set_aside(self, head: Entry, index: Index, era: int) -> None:
        """Step over the head until another era begins."""
        head.state = ASIDE
        aside = self.aside
        if aside is not None and aside.pass_by(head.seq):
            return  # it was set aside before, and was looked at again
        self.pop(head, index)
        if aside is None:
            aside = self.aside = Aside(era)
        aside.add(head.seq)

    def forget_aside(self, seq: int) -> bool:
        """Take a number out of those set aside; False: it is not there."""
        aside = self.aside
        if aside is None or not aside.discard(seq):
            return False
        if aside.is_empty:
            self.aside = None
        return True

    def ahead(self, head: Entry, index: Index, most: int) -> list[Entry]:
        """Return the head and what will follow it, at most so many, as far as that is simple."""
        if self.aside is not None:
            numbers = self.aside.some_from(head.seq, most)
            if numbers and numbers[0] == head.seq:
                found = [index.get(seq) for seq in numbers]
                return [entry for entry in found if entry is not None]
        return list(islice(index.line(head), most))

    def pop(self, entry: Entry, index: Index) -> None:
        """Take the head out of the lane; the caller sets the head's state."""
        if entry is self.first:
            following = entry.next
            entry.next = 0
            if self.gone is not None:
                following = self._living(entry.seq, following)
            self.first = index.get(following) if following else None
            if self.first is None:
                self.last = None
                self.gone = None
        elif self.aside is not None and self.forget_aside(entry.seq):
            pass
        elif self.back is not None:
            heappop(self.back)

    def clear(self) -> None:
        """Let go of all entries: the queue is gone."""
        self.first = self.last = self.head = None
        self.back = None
        self.aside = None
        self.gone = None

    def first_living(self, index: Index) -> Entry | None:
        """Return the first entry of the FIFO that waits; drop those before it that do not."""
        entry = self.first
        while entry is not None and entry.state > STORING:
            self.pop(entry, index)
            entry = self.first
        return entry

    def bury(self, entry: Entry) -> int:
        """Keep the link of an entry that has gone from the middle; return how many are kept."""
        if entry.next or entry is self.last:
            if self.gone is None:
                self.gone = {}
            self.gone[entry.seq] = entry.next
        return 0 if self.gone is None else len(self.gone)

    def relink(self, index: Index) -> None:
        """Let every link lead to an entry that is there: done when most of the FIFO is gone."""
        first = self.first_living(index)
        gone, self.gone = self.gone, None
        if first is None or gone is None:
            return
        at = first.seq
        while True:
            linked = following = index.following(at)
            while following in gone:
                following = gone[following]
            if following != linked:
                index.link(at, following)
            if not following:
                break
            at = following
        self.last = index.get(at)

    def _living(self, seq: int, following: int) -> int:
        """Return the next number of the FIFO that has an entry; forget those before it."""
        gone = self.gone
        assert gone is not None
        gone.pop(seq, 0)
        while following in gone:
            following = gone.pop(following)
        if not gone:
            self.gone = None
        return following

    def _returned(self, index: Index) -> Entry | None:
        back = self.back
        while back:
            entry = index.get(back[0])
            if entry is not None and entry.state == PENDING:
                return entry
            heappop(back)
        self.back = None
        return None

    def _recalled(self, index: Index, aside: Aside) -> Entry | None:
        """Return the first of what was set aside and is to be looked at again."""
        seq = aside.next()
        if not seq:
            return None
        entry = index.get(seq)
        assert entry is not None, "what goes while it is set aside is taken out (`forget_aside`)"
        return entry

    def __repr__(self) -> str:
        return f"<Lane {self.name!r} {WHERE_NAMES[self.where]} {self.count}>"
