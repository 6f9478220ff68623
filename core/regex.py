"""Regular expressions that strangers may write: the only door to RE2.

Destination wildcards (`{regex}`) and a selector's LIKE come from clients. Python's own `re`
backtracks, so one hostile pattern could hold the broker for minutes; RE2 takes time linear in
the text and refuses what would need more (look-around, back-references). Nothing here searches:
a pattern matches a whole text or does not match.
"""

from __future__ import annotations

import re2

from covey.core.errors import RefusedError

# RE2 refuses to build a larger program and forgets states of its cache beyond this. Its own
# default, 8 MiB, would let a thousand subscriptions take 8 GiB.
MEMORY_BYTES_MAX = 1024 * 1024


def _options() -> re2.Options:
    """RE2's options: silent (the reason travels in the error), `.` takes a line end too."""
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    options.never_capture = True
    options.max_mem = MEMORY_BYTES_MAX
    return options


class Regex:
    """One compiled expression; it matches whole texts only."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        """Compile `text` or refuse it with RE2's reason."""
        self.text = text
        try:
            # "surrogatepass" never raises, so half a surrogate pair is no way to fail us.
            self._compiled = re2.compile(text.encode("utf-8", "surrogatepass"), _options())
        except re2.error as error:
            reason = error.args[0]
            if isinstance(reason, bytes):
                reason = reason.decode("utf-8", "replace")
            raise RefusedError(f"regular expression {text!r}: {reason}", "invalid") from error

    def matches(self, text: str) -> bool:
        """Say whether the expression matches the whole of `text`."""
        return self._compiled.fullmatch(text.encode("utf-8", "surrogatepass")) is not None


def quote(text: str) -> str:
    """Write `text` so that an expression takes it literally."""
    return str(re2.escape(text))
