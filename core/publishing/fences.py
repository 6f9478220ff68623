"""Fences: a transaction that was committed before is not committed again.

A client that loses its connection after COMMIT and before the answer does not know whether the
transaction was committed. So it may put a fence on a transaction: a name of its own, and a number
that grows. The broker remembers the highest number of each name, in the same batch of the store as
the transaction itself. A commit whose number is not higher changes nothing, and is answered like
any other. So a client that is in doubt commits again.

A name belongs to its user. When there are too many names (`NAMES_MAX`), the one that was not used
for the longest time is forgotten. A restart loses non-persistent messages, but not the fence of
their transaction: they are not sent again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from covey.core.clock import Clock
from covey.core.errors import RefusedError
from covey.core.storage.ledger import Ledger

FENCES: Final = "fence"  # the kind of named record; the value is the number and the time
NAMES_MAX: Final = 10_000  # of one virtual host
NAME_LENGTH_MAX: Final = 200
NUMBER_DIGITS_MAX: Final = 18
MARK: Final = ":"  # between name and number


class Fence(NamedTuple):
    """The name and number of one transaction."""

    name: str
    number: int


def parse_fence(user: str, text: str) -> Fence:
    """Read `NAME:NUMBER`; raises RefusedError with the right form if it is something else."""
    name, _, digits = text.rpartition(MARK)
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= NUMBER_DIGITS_MAX
    if not name or len(name) > NAME_LENGTH_MAX or not is_number:
        raise RefusedError(
            f"covey-fence is NAME:NUMBER, a name of at most {NAME_LENGTH_MAX} characters and a"
            f" whole number; it is {text[:NAME_LENGTH_MAX]}",
            "invalid",
        )
    return Fence(f"{user}/{name}", int(digits))


class Fences:
    """The fences of one virtual host."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._host = ""
        self._passed: dict[str, int] | None = None  # numbers by name, the last used name last

    def has_passed(self, host: str, fence: Fence) -> bool:
        """Return True if a transaction with this fence, or a later one, was committed."""
        return self._known(host).get(fence.name, -1) >= fence.number

    def pass_by(self, host: str, fence: Fence) -> None:
        """Remember that a transaction with this fence is committed now."""
        passed = self._known(host)
        passed.pop(fence.name, None)
        passed[fence.name] = fence.number
        value = f"{fence.number} {self._clock.wall_ms}"
        self._ledger.put(host, FENCES, fence.name, value)
        if len(passed) > NAMES_MAX:
            oldest = next(iter(passed))
            del passed[oldest]
            self._ledger.take_away(host, FENCES, oldest)

    def _known(self, host: str) -> dict[str, int]:
        """Return the numbers by name; read at first use, when the store's records are there."""
        if self._passed is None or host != self._host:
            records = self._ledger.records_of(host, FENCES)
            in_time = sorted(records, key=lambda name: _numbers(records[name])[1])
            self._passed = {name: _numbers(records[name])[0] for name in in_time}
            self._host = host
        return self._passed


def _numbers(value: str) -> tuple[int, int]:
    """Read a record: the number and the time."""
    number, _, time_ms = value.partition(" ")
    return int(number), int(time_ms)
