"""MessageView: what an operator sees of single messages.

`describe_message` gives one message as a flat record, the same over HTTP and `$management`. A body
is shown as text if it is text, else as base64. Only the first part of a large body is shown.

`Look` collects messages of a queue without taking them: those of one group, or those of some
sequence numbers. It is a job, since bodies may have to be read from the store. Messages that
consumers hold are shown, too.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Final

from covey.core.jobs.job import WAIT, Job, Steps
from covey.core.management.describe import Attributes, Plain
from covey.core.model.entry import GONE, STATE_NAMES, STORING, Entry
from covey.core.model.message import ORIGIN_NUMBERS, Neutral
from covey.core.queue.queue import Queue
from covey.core.selector import Value
from covey.core.session import Session

BODY_SHOWN_MAX: Final = 64 * 1024  # bytes of a body in a listing; `size` is that of the whole
SCANNED_AT_ONCE: Final = 100  # entries of other groups that are skipped in one step of the job


def describe_message(entry: Entry) -> Attributes:
    """Describe a message whose body is in memory."""
    neutral = entry.content.neutral()
    return {
        "seq": entry.seq,
        "message_id": neutral.message_id,
        "group": entry.lane.name,
        "state": STATE_NAMES[entry.state],
        "deliveries": entry.deliveries,
        "size": entry.size,
        "persistent": neutral.persistent,
        "priority": neutral.priority,
        "created_ms": neutral.created_ms,
        "expires_ms": neutral.expires_ms,
        "content_type": neutral.content_type,
        "correlation_id": neutral.correlation_id,
        "reply_to": neutral.reply_to,
        "subject": neutral.subject,
        "user_id": neutral.user_id,
        "dead_reason": neutral.dead_reason,
        "dead_origin": _origin(neutral.dead_origin),
        "properties": {name: _plain(value) for name, value in neutral.properties.items()},
        **_content(neutral),
    }


def _origin(fields: Mapping[str, str]) -> dict[str, Plain]:
    """Return where a dead letter comes from; its numbers are numbers, as everywhere else."""
    return {
        name: int(text) if name in ORIGIN_NUMBERS and text.isdecimal() else text
        for name, text in fields.items()
    }


def _content(neutral: Neutral) -> Attributes:
    """Show a body as text if it is text, else as base64; only the first part of a large one."""
    shown = neutral.body[:BODY_SHOWN_MAX]
    is_cut = len(shown) < len(neutral.body)
    if neutral.body_kind != "data":
        # What is cut off may have been the second half of a character.
        return {"body": shown.decode(errors="ignore"), "is_cut": is_cut}
    return {"body_base64": base64.b64encode(shown).decode(), "is_cut": is_cut}


def _plain(value: Value) -> Plain:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number
    return value


class Look(Job):
    """Shows messages of a queue, by their group or by their numbers."""

    def __init__(
        self,
        queue: Queue,
        session: Session | None,
        *,
        group: str = "",
        numbers: Sequence[int] = (),
        count: int = 0,
    ) -> None:
        """Look for `count` messages of a group, or for those with the sequence numbers."""
        super().__init__("look", f"queue {queue.name}", session, count or len(numbers))
        self.queue = queue
        self.found: list[Attributes] = []
        self._group = group
        self._numbers = sorted(set(numbers))
        self._count = count

    def steps(self) -> Steps:
        """Show one message after the other."""
        if self._numbers:
            for seq in self._numbers:
                entry = self.queue.state.index.get(seq)
                while entry is not None and not self._show(entry):
                    yield WAIT
                    entry = self.queue.state.index.get(seq)
                yield 1
            return
        cursor = 0
        while len(self.found) < self._count and not self.queue.is_ended:
            entry = self._next(cursor)
            if entry is None:
                return
            if entry.lane.name != self._group:
                cursor = entry.seq + 1
                yield SCANNED_AT_ONCE
                continue
            if not self._show(entry):
                yield WAIT
                continue
            cursor = entry.seq + 1
            yield 1

    def _next(self, cursor: int) -> Entry | None:
        """Return the group's next entry; after SCANNED_AT_ONCE others, the one to go on from."""
        lane = self.queue.state.lanes.get(self._group)
        if lane is None or lane.count == 0:
            return None
        index = self.queue.state.index
        entry = index.look_from(cursor)
        for _ in range(SCANNED_AT_ONCE):
            if entry is None or entry.lane is lane:
                return entry
            entry = index.look_from(entry.seq + 1)
        return entry

    def _show(self, entry: Entry) -> bool:
        """Add a message to `found`; return False if its body must be read from the store first."""
        if entry.state in (STORING, GONE):
            return True  # not visible yet, or no more
        if entry.message is None:
            wanted = self.queue.storage_state.overdue
            if entry.seq not in wanted:
                wanted.append(entry.seq)
            self.queue.mark()
            return False
        self.found.append(describe_message(entry))
        return True
