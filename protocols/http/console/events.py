"""Events: server-sent events (the WHATWG's EventSource), as deltas of what a page shows.

A stream has one or several parts. Each part is worked out at its own interval. Only what differs
from the last time is sent; if nothing differs, nothing is sent:

    event: NAME                   data: the value, for a part that is sent whole
    event: NAME                   data: {"all": [row, ...]}  first of all, and after a gap
    event: NAME                   data: {"set": [row, ...], "gone": [key, ...]}  for rows by a key

A stream is bounded. The next delta is worked out once the peer has taken the last one, and has
everything that changed meanwhile. So a slow browser costs one delta of memory, and gets fewer
deltas. A part that is costly to work out is worked out less often, so that one stream uses at most
a twentieth of a core (`SHARE`).

A stream is resumable. Each event has an id, STREAM.NUMBER. A stream whose peer is gone is kept for
a while with its latest events. A browser that comes back with the last id that it knows gets the
events that it missed. If these are not kept any more, it gets everything anew.

A stream ends when its login ends: each second the login is checked again.

The number of streams is bounded for all users together. So nobody can take all places: if there is
no room, the oldest stream of the user with the most streams makes room for a user with fewer.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

import anyio
from starlette.responses import Response

from covey.core.errors import BrokerError
from covey.core.management.describe import Attributes, Plain
from covey.protocols.http.answer import SECURITY_HEADERS, HttpError

MEDIA_TYPE: Final = "text/event-stream"
RETRY_MS: Final = 1000  # until a browser comes back
ALIVE_EVERY_S: Final = 10.0  # something is sent, so that proxies do not close the stream
CHECK_EVERY_S: Final = 1.0
SHARE: Final = 20  # a part rests for so many times the processor time that it took
KEPT_S: Final = 30.0  # how long a stream whose peer is gone is kept
KEPT_STREAMS: Final = 32
KEPT_EVENTS: Final = 64  # the latest of one stream
KEPT_BYTES: Final = 256 * 1024

Make = Callable[[], Awaitable[Plain]]


class Part:
    """One kind of event of a stream."""

    def __init__(self, name: str, every_s: float, make: Make) -> None:
        self.name = name
        self.every_s = every_s
        self._make = make
        self._last: Plain = None
        self.due_at = 0.0

    async def delta(self) -> Plain:
        """Return what has changed since the last time, None if nothing has; plan the next time.

        The next time keeps the part's regular beat, but leaves a rest in proportion to the cost
        (`SHARE`). The cost is processor time: a part that only waits on a busy machine must not
        come less often.
        """
        began, cost = time.monotonic(), time.thread_time()
        delta = await self._news()
        cost = time.thread_time() - cost
        planned = max(self.due_at, began - self.every_s / 2) + self.every_s
        self.due_at = max(planned, time.monotonic() + cost * SHARE)
        return delta

    async def _news(self) -> Plain:
        value = await self._make()
        if value == self._last:
            return None
        self._last = value
        return value

    def forget(self) -> None:
        """Tell everything next time."""
        self._last = None
        self.due_at = 0.0


MakeRows = Callable[[], Awaitable[tuple[dict[str, Plain], Attributes]]]


class Rows(Part):
    """A part that has rows, each with a key; only rows that differ are sent.

    Values beside the rows (such as their total) are sent when they differ, too.
    """

    def __init__(self, name: str, every_s: float, make: MakeRows) -> None:
        super().__init__(name, every_s, self._nothing)
        self._make_rows = make
        self._rows: dict[str, Plain] | None = None
        self._beside: Attributes = {}

    async def _news(self) -> Plain:
        rows, beside = await self._make_rows()
        former, self._rows = self._rows, rows
        if former is None:
            self._beside = beside
            return {"all": list(rows.values()), **beside}
        changed = [row for key, row in rows.items() if former.get(key) != row]
        gone = [key for key in former if key not in rows]
        news = {key: value for key, value in beside.items() if self._beside.get(key) != value}
        self._beside = beside
        if not changed and not gone and not news:
            return None
        return {"set": changed, "gone": gone, **news}

    def forget(self) -> None:
        """Tell everything next time."""
        super().forget()
        self._rows = None

    async def _nothing(self) -> Plain:
        return None


class Stream:
    """The parts that one browser hears, and the events that it may have missed."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.name = secrets.token_urlsafe(9)
        self.parts = parts
        self.number = 0
        self.left_at = 0.0
        self._kept: deque[tuple[int, bytes]] = deque()
        self._kept_bytes = 0

    async def due(self) -> AsyncIterator[bytes]:
        """Work out the parts that are due, and give the events to send."""
        for part in self.parts:
            if part.due_at <= time.monotonic():
                delta = await part.delta()
                if delta is not None:
                    yield self._write(part.name, delta)

    def missed(self, number: int) -> list[bytes] | None:
        """Return the events after a number; None if some of them are not kept any more."""
        if number > self.number:
            return None
        behind = [event for at, event in self._kept if at > number]
        return behind if len(behind) == self.number - number else None

    def forget(self) -> None:
        """Tell everything anew."""
        self._kept.clear()
        self._kept_bytes = 0
        for part in self.parts:
            part.forget()

    def wait_s(self) -> float:
        """Return the seconds until the next part is due."""
        return max(0.0, min(part.due_at for part in self.parts) - time.monotonic())

    def _write(self, name: str, value: Plain) -> bytes:
        self.number += 1
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        event = f"event: {name}\nid: {self.name}.{self.number}\ndata: {text}\n\n".encode()
        self._kept.append((self.number, event))
        self._kept_bytes += len(event)
        while self._kept_bytes > KEPT_BYTES or len(self._kept) > KEPT_EVENTS:
            self._kept_bytes -= len(self._kept.popleft()[1])
        return event


class Streams:
    """The streams of one port: those that are open, and those whose peer may come back."""

    def __init__(self) -> None:
        self.open: dict[EventStream, None] = {}  # the oldest one is first
        self._left: OrderedDict[str, Stream] = OrderedDict()
        self.ended = anyio.Event()

    def make_room(self, user: str, streams_max: int) -> None:
        """Let one more stream in; raises HttpError unless another user has more to give up."""
        if len(self.open) < streams_max:
            return
        counts = Counter([one.user for one in self.open])
        greedy, most = counts.most_common(1)[0]
        if counts[user] + 1 >= most:
            raise _full(streams_max)
        oldest = next(one for one in self.open if one.user == greedy)
        oldest.displaced = _full(streams_max)
        del self.open[oldest]

    def end(self) -> None:
        """End all streams: the broker shuts down."""
        self.ended.set()

    def take(self, given: str, owner: str) -> tuple[Stream, int] | None:
        """Return a stream that was kept, and the last event number that its peer knows."""
        self._sweep()
        name, _, number = given.rpartition(".")
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            return None
        stream = self._left.pop(f"{owner} {name}", None)
        return None if stream is None else (stream, int(number))

    def leave(self, stream: Stream, owner: str) -> None:
        """Keep a stream for a while, in case the same user at the same address comes back."""
        self._sweep()
        stream.left_at = time.monotonic()
        self._left[f"{owner} {stream.name}"] = stream
        while len(self._left) > KEPT_STREAMS:
            self._left.popitem(last=False)

    def _sweep(self) -> None:
        late = time.monotonic() - KEPT_S
        for name in [name for name, one in self._left.items() if one.left_at < late]:
            del self._left[name]


class EventStream(Response):
    """An answer that goes on; `App` sends its chunks as they come."""

    media_type = MEDIA_TYPE

    def __init__(
        self,
        streams: Streams,
        parts: Sequence[Part],
        *,
        streams_max: int,
        last_id: str,
        user: str,
        owner: str,
        check: Callable[[], None],
    ) -> None:
        """Begin; `check` raises BrokerError when the user may not listen any more."""
        streams.make_room(user, streams_max)
        super().__init__(None, 200, SECURITY_HEADERS | {"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._streams = streams
        self._check = check
        self._owner = owner
        self.user = user
        self.displaced: HttpError | None = None  # why it ends for another user's stream
        self._missed: list[bytes] = []
        found = streams.take(last_id, owner) if last_id else None
        if found is None:
            self.stream = Stream(parts)
        else:
            self.stream, number = found
            missed = self.stream.missed(number)
            if missed is None:
                self.stream.forget()
            else:
                self._missed = missed

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Give bytes to send, until the login, the broker or the peer ends the stream."""
        streams, stream = self._streams, self.stream
        streams.open[self] = None
        try:
            yield f"retry: {RETRY_MS}\n\n".encode() + b"".join(self._missed)
            sent_at = checked_at = time.monotonic()
            while not streams.ended.is_set():
                if self.displaced is not None:
                    raise self.displaced
                async for event in stream.due():
                    yield event
                    sent_at = time.monotonic()
                now = time.monotonic()
                if now - sent_at >= ALIVE_EVERY_S:
                    sent_at = now
                    yield b": alive\n\n"
                if now - checked_at >= CHECK_EVERY_S:
                    checked_at = now
                    self._check()
                with anyio.move_on_after(min(stream.wait_s(), CHECK_EVERY_S)):
                    await streams.ended.wait()
            streams.leave(stream, self._owner)
        except BrokerError as error:
            refusal = {"code": error.code, "text": error.text}
            yield f"event: end\ndata: {json.dumps(refusal)}\n\n".encode()
        except (GeneratorExit, anyio.get_cancelled_exc_class()):
            streams.leave(stream, self._owner)
            raise
        finally:
            streams.open.pop(self, None)


def _full(streams_max: int) -> HttpError:
    return HttpError(
        f"{streams_max} streams are open already, the most that event_streams_max allows", "full"
    )
