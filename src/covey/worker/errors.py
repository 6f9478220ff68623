"""The errors between a worker and its broker, and those that a handler may raise.

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

# Refusals that another try would get again.
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
        """Have the message come again after some seconds; None: after the worker's back-off."""
        super().__init__(reason)
        if after is not None and after < 0:
            raise ValueError(f"after={after} is negative")
        self.after = after


def refusal(headers: dict[str, str]) -> RefusedError:
    """Make an error from the headers of an ERROR frame."""
    text = headers.get("message", "refused")
    code = headers.get("covey-code", "")
    return DeniedError(text, code) if code == "denied" else RefusedError(text, code)
