"""What can go wrong between a worker and its broker, and what a handler may say of a message.

    WorkerError
    ├── UnreachableError       nobody answers at any of the addresses
    ├── ConnectionLostError    the broker was there and went away
    └── RefusedError           the broker understood and said no; `code` is its `covey-code`
        └── DeniedError        wrong password, or no permission

A handler raises `Reject` for a message that can never be handled, and `Retry` for one that
should come again. Any other exception is a failed try.
"""

from __future__ import annotations

from typing import Final

# Refusals that another try would meet again.
LASTING_CODES: Final = frozenset({"denied", "invalid", "version"})


class WorkerError(Exception):
    """The root: a sentence for people."""


class UnreachableError(WorkerError):
    """Nobody answers."""


class ConnectionLostError(WorkerError):
    """The connection ended before the answer came."""


class RefusedError(WorkerError):
    """The broker said no."""

    def __init__(self, text: str, code: str) -> None:
        """Keep the broker's sentence and its code."""
        super().__init__(text)
        self.code = code

    @property
    def is_lasting(self) -> bool:
        """Return True if another try would be refused again."""
        return self.code in LASTING_CODES


class DeniedError(RefusedError):
    """Wrong password, or no permission."""


class Reject(Exception):
    """The message can never be handled: it goes to the dead-letter queue at once."""


class Retry(Exception):
    """The message should come again; its group waits with it. It counts as a failed try."""

    def __init__(self, reason: str = "", *, after: float | None = None) -> None:
        """Come again after so many seconds; None: as the worker's back-off says."""
        super().__init__(reason)
        if after is not None and after < 0:
            raise ValueError(f"after={after} is negative")
        self.after = after


def refusal(headers: dict[str, str]) -> RefusedError:
    """Make an error of an ERROR frame."""
    text = headers.get("message", "refused")
    code = headers.get("covey-code", "")
    return DeniedError(text, code) if code == "denied" else RefusedError(text, code)
