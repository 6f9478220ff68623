"""QueueClient: the STOMP connection of the data source. It browses queues, and never consumes.

`figures` asks where a queue begins and ends. `trim` removes messages that are processed. `browse`
reads by sequence number. `post` sends in large pieces. `post_commit` ends a transaction in such a
way that a repetition has no effect, and `await_oldest` waits for its answer. `asked` asks until a
broker answers, as long as the patience lasts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from covey.client.base import SEQ_HEADER, Headers
from covey.client.browse_cutter import Cutter, Rows
from covey.client.errors import AnswerError, ClientError, DeniedError, UnreachableError
from covey.client.place import Place
from covey.client.stomp import VERSION, StompClient
from covey.pipeline.datasource.offsets import Figures
from covey.pipeline.datasource.patience import Absence, Patience
from covey.pipeline.errors import PipelineError
from covey.protocols.stomp.frame import Frame, encode
from covey.protocols.stomp.line_parser import Limits

TIMEOUT_S: Final = 60.0  # long: a broker does not read while a queue is full
EVERY_QUEUE: Final = "/queue/**"
NAMES_LENGTH_MAX: Final = 32 * 1024 * 1024  # all queues' names in one line: 100,000 long ones
SEND_BYTES: Final = 256 * 1024  # sent at a time
NO_END: Final = 1 << 62  # above all numbers of messages
LOOKS_AT_ONCE: Final = 100  # queues asked at a time, in one round trip
TRIM_STEP: Final = 5_000  # messages removed in one turn of the broker
TRANSACTION: Final = "covey"  # the name of a connection's transactions, one after the other
CONFIRMING: Final = "confirm"  # of an empty one, whose end confirms what came before

Answer = TypeVar("Answer")


class QueueClient(StompClient):
    """A connection for one task."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, TIMEOUT_S, Limits(header_length_max=NAMES_LENGTH_MAX))
        self.is_spent = False  # a browse was left before its end: the broker may still be writing
        self._looks = 0
        self._unsent = bytearray()
        self._awaited: deque[str] = deque()  # receipts of what was posted, the oldest first
        self._confirmed: set[str] = set()  # those that came before an older one

    def figures(self, queue: str) -> Figures:
        """Return where a queue begins and ends, and its other figures."""
        return self.figures_of([queue])[queue]

    def figures_of(self, queues: Iterable[str]) -> dict[str, Figures]:
        """Return the figures of each of these queues; many are asked at a time."""
        names = list(dict.fromkeys(queues))
        found: dict[str, Figures] = {}
        for first in range(0, len(names), LOOKS_AT_ONCE):
            asked = names[first : first + LOOKS_AT_ONCE]
            answers = self._look_at([(destination(queue), []) for queue in asked])
            found |= {queue: _figures(queue, answers[at]) for at, queue in enumerate(asked)}
        return found

    def trim(self, queue: str, end: int) -> None:
        """Remove every message below a number; returns when the broker has stored that."""
        found = self.figures(queue)
        if end > found.end:
            return  # the queue is a new one with other numbers, and nobody has read them
        first = found.first
        while first < end:
            first = min(first + TRIM_STEP, end)
            self._look(destination(queue), [("covey-trim-to", str(first - 1))])

    def queues(self) -> list[str]:
        """Return the names of all queues that this user may browse."""
        return [name for name in self._look(EVERY_QUEUE, []).get("queues", "").split(",") if name]

    def browse(
        self, queue: str, first: int, end: int = NO_END, selector: str = ""
    ) -> Iterator[Rows]:
        """Yield the messages of a queue in a range of numbers; none is taken from the queue.

        Use the connection for nothing else before the browse has ended, and not at all once it
        `is_spent`.
        """
        wanted = [("from-seq", str(first)), ("include-seq", SEQ_HEADER)]
        if selector:
            wanted.append(("selector", selector))
        self._looks += 1
        self._write("SUBSCRIBE", self._browsing(destination(queue), wanted))
        self.is_spent = True
        cutter = Cutter(end)
        while not cutter.is_over:
            data = self._receive(self.timeout_s)
            if data is None:
                raise self._too_late()
            yield cutter.cut(data)
        if cutter.is_odd:
            self._parser.feed(cutter.rest())
            self._next_frame()  # the end of the browse; raises an ERROR frame
            self._write("UNSUBSCRIBE", [("id", str(self._looks))])
            self.is_spent = False

    def post(self, place: str, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        """Send a message now, or with later ones in a large piece."""
        self.post_frame(encode("SEND", [("destination", place), *headers], body, VERSION))

    def post_frame(self, frame: bytes) -> None:
        """Send a frame now, or with later ones in a large piece."""
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

    def post_commit(self, fence: str) -> None:
        """Commit the transaction of the posted messages; `await_oldest` says when it is stored.

        If a transaction with this fence was committed before, the broker drops the messages.
        """
        named = [("transaction", TRANSACTION), ("covey-fence", fence)]
        self._post_awaited("COMMIT", named)

    def post_confirm(self) -> None:
        """Ask for a confirmation of the posted messages; `await_oldest` says when it is there."""
        self.post_frame(encode("BEGIN", [("transaction", CONFIRMING)], b"", VERSION))
        self._post_awaited("ABORT", [("transaction", CONFIRMING)])

    def await_oldest(self) -> None:
        """Wait until the broker has stored the oldest commit or confirmation that it must answer.

        A client may post further messages meanwhile, so that none of both waits for the other.
        """
        awaited = self._awaited.popleft()
        while awaited not in self._confirmed:
            self._confirmed.add(self._next_frame().headers(VERSION).get("receipt-id", ""))
        self._confirmed.remove(awaited)

    def _post_awaited(self, command: str, headers: Headers) -> None:
        receipt = self._next_receipt()
        self._awaited.append(receipt)
        self.post_frame(encode(command, [*headers, ("receipt", receipt)], b"", VERSION))
        self.flush()

    def _look(self, place: str, headers: Headers) -> dict[str, str]:
        """Browse one place from its end: the `browser:end` frame has the figures."""
        return self._look_at([(place, headers)])[0]

    def _look_at(self, places: list[tuple[str, Headers]]) -> list[dict[str, str]]:
        """Browse places from their ends on; return the headers of each browse's end."""
        frames = bytearray()
        first = self._looks + 1
        for place, headers in places:
            self._looks += 1
            browsing = self._browsing(place, [("from-seq", "-1"), *headers])
            frames += encode("SUBSCRIBE", browsing, b"", VERSION)
        self.post_frame(bytes(frames))
        self.flush()
        found: dict[str, dict[str, str]] = {}
        while len(found) < len(places):
            answer = self._next_frame().headers(VERSION)
            if answer.get("browser") == "end":
                name = answer["subscription"]
                found[name] = answer
                self.post_frame(encode("UNSUBSCRIBE", [("id", name)], b"", VERSION))
        self.flush()
        return [found[str(first + at)] for at in range(len(places))]

    def _browsing(self, place: str, headers: Headers) -> Headers:
        named = [("id", str(self._looks)), ("destination", place), ("browser", "true")]
        return [*named, *headers]

    def _next_frame(self) -> Frame:
        frame = self._frame(self.timeout_s)
        if frame is None:
            raise self._too_late()
        return frame

    def _too_late(self) -> UnreachableError:
        return UnreachableError(f"{self.place.address} has not answered in time")


def destination(queue: str) -> str:
    """Return the STOMP destination of a queue's name; other kinds have a prefix already."""
    return queue if queue.startswith("/") else f"/queue/{queue}"


@contextmanager
def connected(places: tuple[Place, ...], option: str, value: str) -> Iterator[QueueClient]:
    """Connect to the first broker that answers; an error names the option that caused it.

    A refusal after the login is blamed on `option` and its `value`.
    """
    with said_by_option(places, option, value), first_of(places) as client:
        yield client


def asked(
    places: tuple[Place, ...],
    patience: Patience,
    about: tuple[str, str],
    ask: Callable[[QueueClient], Answer],
) -> Answer:
    """Ask the first broker that answers; try again while none answers."""
    absence = Absence(patience)
    with said_by_option(places, *about):
        while True:
            try:
                with first_of(places) as client:
                    return ask(client)
            except UnreachableError as error:
                absence.wait(error)


@contextmanager
def said_by_option(places: tuple[Place, ...], option: str, value: str) -> Iterator[None]:
    """Turn an error of a broker into a PipelineError that names the option."""
    try:
        yield
    except UnreachableError as error:
        addresses = ",".join(place.address for place in places)
        raise PipelineError(f"brokers={addresses}: {error}") from None
    except (DeniedError, AnswerError) as error:
        raise PipelineError(f"{option}={value}: {error}") from None


def first_of(places: tuple[Place, ...]) -> QueueClient:
    """Connect to the first broker that answers; if none does, raise the last one's error."""
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


def _figures(queue: str, headers: dict[str, str]) -> Figures:
    if "first-seq" not in headers:
        raise AnswerError(f"{queue} is a pattern, the name of one queue is meant")
    return Figures(
        first=int(headers["first-seq"]),
        end=int(headers["last-seq"]) + 1,
        retained_from=int(headers["retained-from"]),
        messages=int(headers["queue-messages"]),
        size_bytes=int(headers["queue-bytes"]),
        duplicate_window=int(headers.get("duplicate-window", 0)),
    )
