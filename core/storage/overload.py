# Compiled by mypyc: see setup.py.
"""Overload: why a producer has to wait though no queue is full: the disk, and memory.

Each cause is a gate. A gate has a reason while it is shut:

| gate       | shut while                                             | who waits there           |
|------------|--------------------------------------------------------|---------------------------|
| `memory`   | the process uses its share of `memory_limit` (`weigh`) | everybody                 |
| `disk`     | the disk has no room (`press`)                         | who sends persistent ones |
| `behind`   | more than `unwritten_max` is on its way to the disk    | who sends persistent ones |
| `spilling` | the same, for bodies that memory has no room for       | everybody                 |

A producer that finds a gate shut waits there with its message (`core.publishing.publishing`). The
message is not accepted, so a producer gains nothing by a new connection for each message. When a
gate opens, the producers that wait there try again, and may find another gate shut. Nobody waits
for memory while no queue holds a message: waiting would free nothing.

Each broker has its own gates. The bytes on their way to the disk are counted for all stores of the
process together (`Unwritten`), so the limit holds however many virtual hosts there are.
"""

from __future__ import annotations

from typing import Final

from covey.config.record import human_size

# Bytes that a message on its way to the disk takes beside its body: its entry, what the store packs
# of it, its places in lists. Without this, any number of empty messages would count as no bytes.
MESSAGE_COST: Final = 1024


class Gate:
    """One cause for which producers wait."""

    __slots__ = ("_opened", "is_awaited", "reason")

    def __init__(self, opened: list[Gate]) -> None:
        """Begin open; the gate adds itself to `opened` when it opens and somebody waits there."""
        self.reason = ""  # in words for people; "" while it is open
        self.is_awaited = False  # somebody waits here
        self._opened = opened

    def set(self, reason: str) -> None:
        """Shut the gate with a reason, or open it with ""."""
        was_shut = bool(self.reason)
        self.reason = reason
        if was_shut and not reason and self.is_awaited:
            self._opened.append(self)


class Unwritten:
    """Bytes on their way to the disk, of all stores of the process together."""

    __slots__ = ("overloads", "persistent", "spilled")

    def __init__(self) -> None:
        self.persistent = 0
        self.spilled = 0
        self.overloads: list[Overload] = []  # one of each broker: its producers may wait for this


class Overload:
    """Why producers wait."""

    __slots__ = (
        "_together",
        "behind",
        "disk",
        "is_shut",
        "memory",
        "opened",
        "spilling",
        "spilling_bytes",
        "unwritten",
        "unwritten_max",
    )

    def __init__(self, unwritten_max: int, together: Unwritten | None = None) -> None:
        """Let everybody in; `together` is what all stores of the process have to write."""
        self._together = together or Unwritten()
        self._together.overloads.append(self)
        self.is_shut = False  # some gate is; read for each message
        self.unwritten = 0  # bytes of persistent messages on their way to the disk
        self.spilling_bytes = 0  # bytes of other bodies that go there, as memory has no room
        self.unwritten_max = unwritten_max
        self.opened: list[Gate] = []  # since those who wait were last asked to try again
        self.memory = Gate(self.opened)
        self.disk = Gate(self.opened)
        self.behind = Gate(self.opened)
        self.spilling = Gate(self.opened)

    def gate(self, *, is_persistent: bool) -> Gate | None:
        """Return the gate that keeps such a message out, None if none does."""
        if self.memory.reason:
            return self.memory
        if is_persistent and self.disk.reason:
            return self.disk
        if is_persistent and self.behind.reason:
            return self.behind
        return self.spilling if self.spilling.reason else None

    @property
    def alarms(self) -> dict[str, str]:
        """The reasons of the gates `disk` and `memory`, "" for one that is open."""
        return {"disk": self.disk.reason, "memory": self.memory.reason}

    @property
    def alarm(self) -> str:
        """All alarms in one text, "" if there is none."""
        return "; ".join([reason for reason in self.alarms.values() if reason])

    # The causes.

    def press(self, reason: str) -> None:
        """Called with the reason why nothing persistent can be written now, "" when it can."""
        self.disk.set(reason)
        self._look()

    def weigh(self, used: int, allowed: int) -> None:
        """Called with the bytes of memory that are used and allowed; 0 allowed: no limit."""
        is_short = 0 < allowed < used
        text = f"memory: {human_size(used)} are used, {human_size(allowed)} may be"
        self.memory.set(text if is_short else "")
        self._look()

    def allow(self, unwritten_max: int) -> None:
        """Set how many bytes may be on their way to the disk from now on."""
        self.unwritten_max = unwritten_max
        self._measure()

    def add(self, size: int) -> None:
        """Count a persistent message that is to be written."""
        self.unwritten += size + MESSAGE_COST
        self._together.persistent += size + MESSAGE_COST
        if self._together.persistent > self.unwritten_max:
            self._measure()

    def spill(self, size: int) -> None:
        """Count a body that is to leave memory."""
        self.spilling_bytes += size + MESSAGE_COST
        self._together.spilled += size + MESSAGE_COST
        if self._together.spilled > self.unwritten_max:
            self._measure()

    def written(self, persistent: int, spilled: int) -> None:
        """Called when so many bytes are on the disk; `MESSAGE_COST` of each message is included."""
        self.unwritten -= persistent
        self.spilling_bytes -= spilled
        together = self._together
        together.persistent -= persistent
        together.spilled -= spilled
        for overload in together.overloads:
            if overload.behind.reason or overload.spilling.reason:
                overload._measure()

    def leave(self) -> None:
        """Take this store's bytes out of the common count: the store has ended."""
        self.written(self.unwritten, self.spilling_bytes)
        self._together.overloads.remove(self)

    def _measure(self) -> None:
        late = f"the disk is behind: more than {human_size(self.unwritten_max)} are to be written"
        together = self._together
        self.behind.set(late if together.persistent > self.unwritten_max else "")
        self.spilling.set(late if together.spilled > self.unwritten_max else "")
        self._look()

    def _look(self) -> None:
        self.is_shut = self.gate(is_persistent=True) is not None
