# Compiled by mypyc: see setup.py.
"""Dam: what a producer waits for that is not a full queue: the disk, and memory.

| cause                                                      | who waits                      |
|------------------------------------------------------------|--------------------------------|
| the disk has no room (`press`)                             | who sends something persistent |
| the disk is behind: more than `unwritten_max` is on its    | who sends something persistent |
| way there                                                  |                                |
| the same, of bodies that memory has no room for            | everybody                      |
| the process uses its share of `memory_limit` (`weigh`)     | everybody                      |

The message that finds it shut was taken: its sender waits before the next one. When a cause ends
all may go on, and whoever another cause still concerns is held after one more message. Nobody
waits for memory while no queue holds a message: waiting would free nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from covey.core.session import Session

# Bytes that a message on its way to the disk takes beside its body: its entry, what the store packs
# of it, its places in lists. Small ones without end would be no bytes at all otherwise.
MESSAGE_COST: Final = 1024


class Dam:
    """Why producers wait, and who does."""

    __slots__ = (
        "_memory",
        "_pressure",
        "_waiting",
        "is_shut",
        "spilling",
        "unwritten",
        "unwritten_max",
    )

    def __init__(self, unwritten_max: int) -> None:
        self.is_shut = False  # looked at for each message
        self.unwritten = 0  # bytes of persistent messages on their way to the disk
        self.spilling = 0  # bytes of others that go there since memory has no room
        self.unwritten_max = unwritten_max
        self._pressure = ""
        self._memory = ""
        self._waiting: dict[Session, int] = {}  # how often each is held

    def hold(self, session: Session, now: float, *, is_persistent: bool) -> None:
        """Let a session that has just sent something wait, if that concerns it."""
        reason = self._reason(is_persistent=is_persistent)
        if reason:
            session.block(reason, now)
            self._waiting[session] = self._waiting.get(session, 0) + 1

    def forget(self, session: Session) -> None:
        """Hear that a session is gone."""
        self._waiting.pop(session, None)

    @property
    def alarms(self) -> dict[str, str]:
        """What producers wait for, whoever they are: the disk's room and memory, "" if there is."""
        return {"disk": self._pressure, "memory": self._memory}

    # The causes.

    def press(self, reason: str) -> None:
        """Hear that nothing persistent can be written now, or, with "", that it can again."""
        self._pressure = reason
        self._look(is_better=not reason)

    def weigh(self, used: int, allowed: int) -> None:
        """Hear how many bytes of memory are used; 0 allowed: any number."""
        was_short = bool(self._memory)
        is_short = 0 < allowed < used
        self._memory = f"memory: {used} bytes are used, {allowed} may be" if is_short else ""
        self._look(is_better=was_short and not is_short)

    def add(self, size: int) -> None:
        """Count a persistent message that is to be written."""
        self.unwritten += size + MESSAGE_COST
        if self.unwritten > self.unwritten_max:
            self.is_shut = True

    def spill(self, size: int) -> None:
        """Count a body that is to leave memory."""
        self.spilling += size + MESSAGE_COST
        if self.spilling > self.unwritten_max:
            self.is_shut = True

    def written(self, persistent: int, spilled: int) -> None:
        """Hear that so much is on the disk now, with what each message costs."""
        was_behind = max(self.unwritten, self.spilling) > self.unwritten_max
        self.unwritten -= persistent
        self.spilling -= spilled
        if was_behind:
            self._look(is_better=max(self.unwritten, self.spilling) <= self.unwritten_max)

    def _reason(self, *, is_persistent: bool) -> str:
        if self._memory:
            return self._memory
        if is_persistent and self._pressure:
            return self._pressure
        late = self.unwritten if is_persistent else self.spilling
        if max(late, self.spilling) > self.unwritten_max:
            return f"the disk is behind: more than {self.unwritten_max} bytes are to be written"
        return ""

    def _look(self, *, is_better: bool) -> None:
        self.is_shut = bool(self._reason(is_persistent=True))
        if is_better:
            waiting, self._waiting = self._waiting, {}
            for session, times in waiting.items():
                for _ in range(times):
                    session.unblock()
