# Compiled by mypyc: see setup.py.
"""Heart-beats of one connection: how often each side beats, and when the peer counts as dead.

Rules of this file:
- Pure: times are seconds of a monotonic clock and come as parameters. Nothing is sent here.
- Algebra of the STOMP specification ("Heart-beating"), per direction: 0 on either side means
  no beats, otherwise the interval is the larger of what one side can do and the other wants.
- In CONNECTED the broker answers each of the client's numbers with that number, but never less
  than 100 ms. So it beats as often as the client asked, and expects beats as often as the client
  promised. If the client's number is 0, the answer is what the broker would offer. The algebra
  turns that into "none"; the offer is only there for people to read.
- Any byte counts as a sign of life, not only the LF of a beat.
- The peer may be late by half an interval before it counts as dead, as in Apollo: sending and the
  network take time.
"""

from __future__ import annotations

from covey.core.errors import ProtocolError, quoted

# Beats that are more frequent than this only add load; Apollo's minimum.
SEND_MS_MIN = 100
# The interval that CONNECTED offers to a client that promises no beats; Apollo's figure.
RECEIVE_MS_WANTED = 10_000

READ_TOLERANCE = 1.5

# Ten digits of milliseconds are 115 days. More is nonsense, and int() of many digits is slow.
DIGITS_MAX = 10


class Heartbeat:
    """The negotiated heart-beat of one connection."""

    __slots__ = ("_receive_s", "_received_at", "_send_s", "_sent_at", "is_off", "text")

    def __init__(
        self,
        header: str | None,
        now: float,
        *,
        send_ms_min: int = SEND_MS_MIN,
        receive_ms_wanted: int = RECEIVE_MS_WANTED,
        tolerance: float = READ_TOLERANCE,
    ) -> None:
        """Negotiate with the `heart-beat` header of CONNECT; None (no header) means `0,0`.

        `text` is the value for the `heart-beat` header of CONNECTED.
        """
        can_send_ms, wants_ms = _numbers(header)
        send_ms = max(send_ms_min, wants_ms) if wants_ms else 0
        receive_ms = max(send_ms_min, can_send_ms) if can_send_ms else 0
        self.text = f"{send_ms or send_ms_min},{receive_ms or receive_ms_wanted}"
        self._send_s = send_ms / 1000.0
        self._receive_s = receive_ms * tolerance / 1000.0
        self._sent_at = now
        self._received_at = now
        self.is_off = not (send_ms or receive_ms)  # nobody beats

    def received(self, now: float) -> None:
        """Note that bytes came from the peer."""
        self._received_at = now

    def sent(self, now: float) -> None:
        """Note that bytes went to the peer."""
        self._sent_at = now

    def beat_due(self, now: float) -> bool:
        """Return True if the broker has been silent for so long that it must send a beat."""
        return self._send_s > 0.0 and now >= self._sent_at + self._send_s

    def expired(self, now: float) -> bool:
        """Return True if the peer has been silent for so long that it counts as dead."""
        return self._receive_s > 0.0 and now >= self._received_at + self._receive_s

    def deadline(self) -> float | None:
        """Return the time at which `beat_due` or `expired` turns true; None: never."""
        beat_at = self._sent_at + self._send_s
        dead_at = self._received_at + self._receive_s
        if self._send_s and self._receive_s:
            return min(beat_at, dead_at)
        if self._send_s:
            return beat_at
        return dead_at if self._receive_s else None


def _numbers(header: str | None) -> tuple[int, int]:
    """Read `<can send>,<wants>` in milliseconds."""
    if header is None:
        return 0, 0
    first, comma, second = header.partition(",")
    if not comma:
        raise ProtocolError(
            f"heart-beat header {quoted(header, 32)} is not two numbers with a comma"
        )
    return _milliseconds(first), _milliseconds(second)


def _milliseconds(text: str) -> int:
    digits = text.strip(" ")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= DIGITS_MAX):
        raise ProtocolError(
            f"heart-beat header: {quoted(digits, 32)} is not a number of milliseconds"
        )
    return int(digits)
