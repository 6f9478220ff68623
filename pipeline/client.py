"""QueueClient: the STOMP connection of the data source, that looks at queues and never takes.

`figures` asks where a queue begins and ends, `trim` gives up what is processed, `browse` reads by
number, `post` sends in large pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from covey.client.base import SEQ_HEADER
from covey.client.cutter import Cutter, Rows
from covey.client.errors import AnswerError, ClientError, DeniedError, UnreachableError
from covey.client.place import Place
from covey.client.stomp import VERSION, StompClient
from covey.pipeline.errors import PipelineError
from covey.pipeline.offsets import Figures
from covey.protocols.stomp.frame import Frame, encode

TIMEOUT_S: Final = 60.0  # a broker whose queue is full does not read for a while
EVERY_QUEUE: Final = "/queue/**"
SEND_BYTES: Final = 256 * 1024  # sent at a time
NO_END: Final = 1 << 62  # above all numbers of messages
TRIM_STEP: Final = 5_000  # messages given up in one turn of the broker's loop


class QueueClient(StompClient):
    """A connection for one task."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, TIMEOUT_S)
        self._looks = 0
        self._unsent = bytearray()

    def figures(self, queue: str) -> Figures:
        """Say what a queue has."""
        return _figures(self._look(destination(queue), []))

    def trim(self, queue: str, end: int) -> None:
        """Give up every message below a number; returns when that is safe."""
        first = self.figures(queue).first
        while first < end:
            first = min(first + TRIM_STEP, end)
            self._look(destination(queue), [("covey-trim-to", str(first - 1))])

    def queues(self) -> list[str]:
        """Return the names of all queues this user may look at."""
        return [name for name in self._look(EVERY_QUEUE, []).get("queues", "").split(",") if name]

    def browse(
        self, queue: str, first: int, end: int = NO_END, selector: str = ""
    ) -> Iterator[Rows]:
        """Give the messages of a queue in a range of numbers, as they come; nothing is taken.

        Use the connection for nothing else then: the broker may still be writing.
        """
        wanted = [("from-seq", str(first)), ("include-seq", SEQ_HEADER)]
        if selector:
            wanted.append(("selector", selector))
        self._subscribe_browser(destination(queue), wanted)
        cutter = Cutter(end)
        while not cutter.is_over:
            data = self._receive(self.timeout_s)
            if data is None:
                raise self._too_late()
            yield cutter.cut(data)
        if cutter.is_odd:
            self._parser.feed(cutter.rest())
            self._next_frame()  # the end of the browse, or an error that it raises

    def post(self, place: str, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        """Send a message, sooner or later."""
        self.post_frame(encode("SEND", [("destination", place), *headers], body, VERSION))

    def post_frame(self, frame: bytes) -> None:
        """Send a frame, sooner or later."""
        self._unsent += frame
        if len(self._unsent) >= SEND_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what was posted."""
        try:
            self._socket.sendall(self._unsent)
        except OSError as error:
            self._frame(self.timeout_s)  # raises what the broker said before it closed
            raise UnreachableError(f"{self.place.address} closed the connection") from error
        self._unsent.clear()

    def confirm(self) -> None:
        """Wait until the broker has taken everything posted, and stored what is persistent."""
        self.flush()
        super().confirm()

    def _look(self, place: str, headers: list[tuple[str, str]]) -> dict[str, str]:
        """Browse from the end on: what comes is the `browser:end` with the figures."""
        name = self._subscribe_browser(place, [("from-seq", "-1"), *headers])
        while True:
            found = self._next_frame().headers(VERSION)
            if found.get("browser") == "end" and found.get("subscription") == name:
                self._write("UNSUBSCRIBE", [("id", name)])
                return found

    def _subscribe_browser(self, place: str, headers: list[tuple[str, str]]) -> str:
        self._looks += 1
        name = str(self._looks)
        wanted = [("id", name), ("destination", place), ("browser", "true")]
        self._write("SUBSCRIBE", [*wanted, *headers])
        return name

    def _next_frame(self) -> Frame:
        frame = self._frame(self.timeout_s)
        if frame is None:
            raise self._too_late()
        return frame

    def _too_late(self) -> UnreachableError:
        return UnreachableError(f"{self.place.address} has not answered in time")


def destination(queue: str) -> str:
    """Return how a queue's name is written on the wire; other kinds come with their prefix."""
    return queue if queue.startswith("/") else f"/queue/{queue}"


@contextmanager
def connected(places: tuple[Place, ...], option: str, value: str) -> Iterator[QueueClient]:
    """Connect to the first broker that answers; what goes wrong is said by its option.

    `option` and `value` are what a refusal after the login is about.
    """
    try:
        with _first_of(places) as client:
            yield client
    except UnreachableError as error:
        addresses = ",".join(place.address for place in places)
        raise PipelineError(f"brokers={addresses}: {error}") from None
    except (DeniedError, AnswerError) as error:
        raise PipelineError(f"{option}={value}: {error}") from None


def _first_of(places: tuple[Place, ...]) -> QueueClient:
    for place in places[:-1]:
        try:
            return _log_in(place)
        except UnreachableError:
            continue
    return _log_in(places[-1])


def _log_in(place: Place) -> QueueClient:
    try:
        return QueueClient(place)
    except UnreachableError:
        raise
    except ClientError as error:
        raise PipelineError(f"user={place.user}: {place.address} says: {error}") from None


def _figures(headers: dict[str, str]) -> Figures:
    return Figures(
        first=int(headers["first-seq"]),
        end=int(headers["last-seq"]) + 1,
        retained_from=int(headers["retained-from"]),
        messages=int(headers["queue-messages"]),
        size_bytes=int(headers["queue-bytes"]),
    )
