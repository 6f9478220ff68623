"""ReadBuffers: how much is read of one connection in a turn of the loop.

A turn has a fixed cost, however much is read in it: the loop's own calls, a write to each consumer,
a batch for the store. By the byte, small messages cost far more than that, and large ones far less.
So a connection begins with a small buffer (`work_per_turn`). A read that fills its buffer, and is
handled in less than half of `work_per_turn_ms`, earns a buffer twice as large, up to
`work_per_turn_max`. A turn that takes too long halves the buffer, once for each doubling of the
time. A read that does not fill its buffer halves it once: many small messages may come next.

The bound is in time, since time is what others wait for. A turn that reads many bytes in a short
time starves nobody.

All connections of a port read into the same memory, because the bytes are taken out before the
event loop reads again. A connection keeps only the index of its buffer among the views of that
memory.

To look for more after a read (`protocols.lookout`) takes a core of its own. So it needs a core for
each worker and one more, or the clients would wait for that one.
"""

from __future__ import annotations

from covey.config.settings import BrokerSettings
from covey.protocols.process import cores

MS_PER_S = 1000
US_PER_S = 1_000_000


class ReadBuffers:
    """Views of one memory, each twice as large as the one before it."""

    __slots__ = ("busy_poll_s", "turn_s", "views")

    def __init__(
        self, least: int, most: int = 0, turn_s: float = 0.0, busy_poll_s: float = 0.0
    ) -> None:
        """Lend `least` bytes at first and `most` at last, for turns of up to `turn_s`.

        The loop may look for more for `busy_poll_s` after a read, before it sleeps.
        """
        memory = memoryview(bytearray(max(least, most)))
        views = [memory[:least]]
        while len(views[-1]) < len(memory):
            views.append(memory[: 2 * len(views[-1])])
        self.views = tuple(views)
        self.turn_s = turn_s
        self.busy_poll_s = busy_poll_s

    @classmethod
    def of(cls, settings: BrokerSettings, usable_cores: float | None = None) -> ReadBuffers:
        """Make the buffers that the settings ask for, on a machine of so many cores (this one)."""
        turn_s = settings.work_per_turn_ms / MS_PER_S
        busy_poll_s = settings.busy_poll_us / US_PER_S
        if (cores() if usable_cores is None else usable_cores) < settings.workers + 1:
            busy_poll_s = 0.0
        return cls(settings.work_per_turn, settings.work_per_turn_max, turn_s, busy_poll_s)

    def after_full(self, place: int, spent_s: float) -> int:
        """Return the place of the next view after a read that filled this one."""
        if spent_s < self.turn_s / 2:
            return min(place + 1, len(self.views) - 1)
        while place and spent_s > self.turn_s:
            place -= 1
            spent_s /= 2
        return place

    def after_part(self, place: int) -> int:
        """Return the place of the next view after a read that did not fill this one."""
        return place - 1 if place else 0
