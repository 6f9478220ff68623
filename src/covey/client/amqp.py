"""AMQP client: small, blocking, on proton; for commands.

Its callers use STOMP's words, and see messages as a STOMP client would, by the broker's own
mapping. Among the headers of a SEND, `message_group` becomes the group-id, `persistent` becomes
durable, and all others become application properties. A body that is valid UTF-8 is sent as text.
Among the headers of a SUBSCRIBE, `selector`, `browser` and `from-seq` are understood.

The client reads one message at a time. An acknowledgement waits until the broker has settled, too.
A browse ends where a drain brings no more messages (AMQP 1.0 section 2.6.7).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from proton import Delivery as Disposition
from proton import Message, ProtonException, Timeout
from proton.reactor import Copy, ReceiverOption, Selector
from proton.utils import BlockingSender, LinkDetached

from covey.client.base import SEQ_HEADER, TIMEOUT_S, Delivery, MessageClient
from covey.client.errors import AnswerError, ClientError, UnreachableError
from covey.client.management import Management
from covey.client.place import Place
from covey.client.proton_connection import close, connect, refusal, why
from covey.core.model.message import Neutral
from covey.protocols.amqp.messages.message import AmqpMessage
from covey.protocols.amqp.messages.splice import DEAD_PREFIX, SEQ_ANNOTATION
from covey.protocols.stomp.mapping import headers_of, property_headers

BROWSE_BATCH: Final = 100  # messages asked for in one drain
END: Final = {"browser": "end"}


class AmqpClient(MessageClient):
    """A connection to one broker."""

    def __init__(self, place: Place, timeout_s: float = TIMEOUT_S) -> None:
        """Connect and log in, or raise UnreachableError or DeniedError."""
        self.place = place
        self.timeout_s = timeout_s
        self._connection = connect(place, timeout_s)
        self._senders: dict[str, BlockingSender] = {}
        self._sent: list[Any] = []
        self._receiver: Any = None  # Any: proton's types lack what every receiver has
        self._destination = ""
        self._is_browsing = False
        self._from_seq = 0
        self._has_brought = True  # whether the last drain of a browse brought messages

    def close(self) -> None:
        """Disconnect; no error if the broker is gone already."""
        close(self._connection)

    def send(self, destination: str, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        """Send a message as soon as the broker has room for it."""
        if destination not in self._senders:
            self._senders[destination] = self._do(
                lambda: self._connection.create_sender(destination)
            )
        sender = self._senders[destination]
        try:
            self._wait(lambda: sender.link.credit > 0)
        except UnreachableError as error:
            raise self._why_late(error) from error
        self._sent.append(sender.link.send(_message(dict(headers), body)))

    def confirm(self) -> None:
        """Wait until the broker has taken everything sent so far."""
        sent, self._sent = self._sent, []
        try:
            self._wait(lambda: all(each.settled for each in sent))
        except UnreachableError as error:
            reason = self._why_late(error)
            # The broker may have taken the message after all, just before it heard that we gave up.
            if not all(each.settled for each in sent):
                raise reason from error
        for each in sent:
            each.settle()
            if each.remote_state != Disposition.ACCEPTED:
                raise refusal(each.remote.condition)

    def subscribe(self, destination: str, headers: Iterable[tuple[str, str]]) -> None:
        """Subscribe to a destination; returns when the broker has confirmed."""
        wanted = dict(headers)
        self._destination = destination
        self._is_browsing = wanted.get("browser") == "true"
        self._from_seq = int(wanted.get("from-seq", "0"))
        options: list[ReceiverOption] = [Copy()] if self._is_browsing else []
        if "selector" in wanted:
            options.append(Selector(wanted["selector"]))
        self._receiver = self._do(
            lambda: self._connection.create_receiver(destination, credit=0, options=options)
        )

    def message(self, timeout_s: float | None) -> Delivery | None:
        """Return the next message, or None if none comes in time; no timeout waits for ever."""
        receiver = self._receiver
        assert receiver is not None, "subscribe comes first"
        if self._is_browsing:
            return self._browsed(receiver)
        message = self._do(lambda: _received(receiver, timeout_s))
        return None if message is None else self._shown(message)

    def ack(self, delivery: Delivery, *, credit: int = 0) -> None:
        """Acknowledge the last message, the only one held; `message` gives the credit itself."""
        assert self._receiver is not None
        accepted: Disposition = self._receiver.fetcher.unsettled.popleft()
        accepted.update(Disposition.ACCEPTED)
        self._wait(lambda: accepted.settled)
        accepted.settle()

    def _browsed(self, receiver: Any) -> Delivery:
        """Return the next message of a browse, or the end mark after the last one."""
        fetcher, link = receiver.fetcher, receiver.link
        while True:
            self._wait(lambda: bool(fetcher.has_message or not link.credit))
            if fetcher.has_message:
                self._has_brought = True
                shown = self._shown(fetcher.pop())
                fetcher.settle(Disposition.ACCEPTED)
                if int(shown.headers.get(SEQ_HEADER, "0")) >= self._from_seq:
                    return shown
            elif self._has_brought:
                self._has_brought = False
                link.drain(BROWSE_BATCH)
            else:
                return Delivery(END, b"")

    def _shown(self, message: Message) -> Delivery:
        """Return a message as a STOMP client would see it."""
        wall_ms = int(time.time() * 1000)
        annotations: dict[Any, Any] = message.annotations or {}
        neutral = AmqpMessage.decode(bytes(message.encode()), wall_ms).neutral()
        _tell_death(neutral, annotations)
        headers = dict(headers_of(neutral, self._destination, None))
        headers |= property_headers(neutral, set(headers))
        seq = annotations.get(SEQ_ANNOTATION)
        if seq is not None:
            headers[SEQ_HEADER] = str(int(seq))
        return Delivery(headers, neutral.body)

    def _why_late(self, error: UnreachableError) -> ClientError:
        """Disconnect; return why the broker did not take a message in time, if it says so."""
        self.close()
        try:
            with Management(self.place, self.timeout_s) as management:
                (broker,) = management.query("broker")
        except ClientError:
            return error
        alarm = broker["alarm"]
        return AnswerError(f"the message was not taken in time: {alarm}") if alarm else error

    def _wait(self, condition: Callable[[], bool]) -> None:
        self._do(lambda: self._connection.wait(condition, timeout=self.timeout_s))

    def _do(self, act: Callable[[], Any]) -> Any:
        """Call proton; turn its errors into a ClientError that says why."""
        try:
            return act()
        except Timeout as error:
            raise UnreachableError(f"{self.place.address} has not answered in time") from error
        except LinkDetached as error:
            raise refusal(error.link.remote_condition) from error
        except (ProtonException, OSError) as error:
            raise why(error, self.place) from error


def _received(receiver: Any, timeout_s: float | None) -> Message | None:
    try:
        message: Message = receiver.receive(timeout=timeout_s)
    except Timeout:
        return None
    return message


def _tell_death(neutral: Neutral, annotations: dict[Any, Any]) -> None:
    """Read what a dead letter tells; a decoder leaves it out, as no sender may say it."""
    told = {
        str(name).removeprefix(DEAD_PREFIX): str(int(value) if isinstance(value, int) else value)
        for name, value in annotations.items()
        if str(name).startswith(DEAD_PREFIX)
    }
    neutral.dead_reason = told.pop("reason", "")
    neutral.dead_origin = told


def _message(headers: dict[str, str], body: bytes) -> Message:
    group = headers.pop("message_group", None)
    is_durable = headers.pop("persistent", "false") == "true"
    try:
        content: str | bytes = body.decode("utf-8")
    except UnicodeDecodeError:
        content = body
    # Inferred by proton: bytes become a data section, as in any AMQP client.
    inferred = isinstance(content, bytes)
    return Message(
        content, group_id=group, durable=is_durable, properties=headers, inferred=inferred
    )
