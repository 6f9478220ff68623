# Compiled by mypyc: see setup.py.
"""Overload: what a producer waits for that is not a full queue: the disk, and memory.

Each cause is a gate, with its reason while it is shut:

| gate       | shut while                                             | who waits there           |
|------------|--------------------------------------------------------|---------------------------|
| `memory`   | the process uses its share of `memory_limit` (`weigh`) | everybody                 |
| `disk`     | the disk has no room (`press`)                         | who sends persistent ones |
| `behind`   | more than `unwritten_max` is on its way to the disk    | who sends persistent ones |
| `spilling` | the same, of bodies that memory has no room for        | everybody                 |

A producer that finds a gate shut waits there with its message (`core.publishing.publishing`). The
message is not taken, so it does not help to connect anew for each message. When a gate opens, those
who wait there try again, and may find another gate shut. Nobody waits for memory while no queue
holds a message: waiting would free nothing.

Each broker has its gates. What is on its way to the disk is counted for all stores of the process
together (`Unwritten`), so the limit holds however many virtual hosts there are.
"""

from __future__ import annotations

from typing import Final

from covey.config.record import human_size

# Bytes that a message on its way to the disk takes beside its body: its entry, what the store packs
# of it, its places in lists. Small ones without end would be no bytes at all otherwise.
MESSAGE_COST: Final = 1024


class Gate:
    """One cause for which producers wait."""

    __slots__ = ("_opened", "is_awaited", "reason")

    def __init__(self, opened: list[Gate]) -> None:
        """Begin open; `opened` is where a gate goes when it opens for somebody who waits."""
        self.reason = ""  # in words for people; "" while it is open
        self.is_awaited = False  # somebody waits here
        self._opened = opened

    def set(self, reason: str) -> None:
        """Shut it, or open it with ""; who waits hears of that."""
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
        self.overloads: list[Overload] = []  # whose producers may wait for them


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
        self.is_shut = False  # looked at for each message
        self.unwritten = 0  # bytes of persistent messages on their way to the disk
        self.spilling_bytes = 0  # bytes of others that go there since memory has no room
        self.unwritten_max = unwritten_max
        self.opened: list[Gate] = []  # since those who wait were last asked to try again
        self.memory = Gate(self.opened)
        self.disk = Gate(self.opened)
        self.behind = Gate(self.opened)
        self.spilling = Gate(self.opened)

    def gate(self, *, is_persistent: bool) -> Gate | None:
        """Return what keeps such a message out, None if nothing does."""
        if self.memory.reason:
            return self.memory
        if is_persistent and self.disk.reason:
            return self.disk
        if is_persistent and self.behind.reason:
            return self.behind
        return self.spilling if self.spilling.reason else None

    @property
    def alarms(self) -> dict[str, str]:
        """What producers wait for, whoever they are: the disk's room and memory, "" if there is."""
        return {"disk": self.disk.reason, "memory": self.memory.reason}

    @property
    def alarm(self) -> str:
        """All of that in one text, "" if producers wait for neither."""
        return "; ".join([reason for reason in self.alarms.values() if reason])

    # The causes.

    def press(self, reason: str) -> None:
        """Hear that nothing persistent can be written now, or, with "", that it can again."""
        self.disk.set(reason)
        self._look()

    def weigh(self, used: int, allowed: int) -> None:
        """Hear how many bytes of memory are used; 0 allowed: any number."""
        is_short = 0 < allowed < used
        text = f"memory: {human_size(used)} are used, {human_size(allowed)} may be"
        self.memory.set(text if is_short else "")
        self._look()

    def allow(self, unwritten_max: int) -> None:
        """Let so many bytes be on their way to the disk from now on."""
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
        """Hear that so much is on the disk now, with what each message costs."""
        self.unwritten -= persistent
        self.spilling_bytes -= spilled
        together = self._together
        together.persistent -= persistent
        together.spilled -= spilled
        for overload in together.overloads:
            if overload.behind.reason or overload.spilling.reason:
                overload._measure()

    def leave(self) -> None:
        """Count nothing any more: this store has ended."""
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
