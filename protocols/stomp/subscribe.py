"""Subscribe: what the headers of a SUBSCRIBE ask for.

The left column has the headers of the Apollo STOMP manual. The right column has the headers by
which clients of ActiveMQ, Artemis and RabbitMQ ask for the same:

    credit:count,size,auto   activemq.prefetchSize, prefetch-count, consumer-window-size
    persistent:true and id   durable:true, activemq.subscriptionName, durable-subscription-name
    exclusive:true           activemq.exclusive:true
    priority:n               activemq.priority
    no-local:true            activemq.noLocal:true
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from covey.core.dispatch.claims import NEXT
from covey.core.errors import ProtocolError
from covey.core.selector import Selector, compile_selector
from covey.protocols.stomp.frame import is_true

DIGITS_MAX = 18
WEIGHT_MAX = 100
GROUP_HEADER = "covey-group"
UNLIMITED = 2**31  # what `consumer-window-size:-1` asks for


class AckMode(Enum):
    """How a client acknowledges."""

    AUTO = "auto"
    CLIENT = "client"  # an ACK covers all earlier messages of the subscription
    INDIVIDUAL = "client-individual"


@dataclass(frozen=True, slots=True)
class Credit:
    """The window's count and bytes, and whether an ACK raises them by itself."""

    count: int
    size: int
    is_raised_by_ack: bool = True
    is_explicit: bool = False  # there is a `credit` header: it also holds in auto mode


@dataclass(frozen=True, slots=True)
class SubscribeHeaders:
    """The decoded headers of a SUBSCRIBE."""

    id: str  # the subscription's name in this connection
    shown_id: str  # the name in MESSAGE frames; "" if a 1.0 client gave none
    destination: str
    ack: AckMode
    credit: Credit
    selector: Selector | None
    durable_name: str
    is_browser: bool
    browse_ends: bool
    is_exclusive: bool
    is_no_local: bool
    wants_revoked: bool
    include_seq: str
    from_seq: int | None
    trim_to: int  # a browser is done with all messages up to this number; 0: with none
    priority: int
    weight: int
    deadline_s: float  # how long a message may be held; below 0: the queue's setting
    group: str  # the only group that it wants, or `NEXT` for the next free one; "": any

    @property
    def is_look(self) -> bool:
        """True if the client wants no message, only the figures that come with `browser:end`."""
        return self.is_browser and self.browse_ends and self.from_seq == -1


def read(
    headers: dict[str, str],
    *,
    default: Credit,
    socket_buffer: int,
    client_id: str = "",
    selector_length_max: int = 4096,
    selector_depth_max: int = 64,
) -> SubscribeHeaders:
    """Read the headers; raises a ProtocolError or RefusedError that names the bad header."""
    destination = headers["destination"]
    shown_id = headers.get("id", "")
    ack = headers.get("ack", "auto")
    modes = {mode.value: mode for mode in AckMode}
    if ack not in modes:
        raise ProtocolError(f"SUBSCRIBE: ack:{ack[:32]} is none of {', '.join(modes)}")
    text = headers.get("selector", "")
    selector = None
    if text:
        selector = compile_selector(
            text, length_max=selector_length_max, depth_max=selector_depth_max
        )
    from_seq = headers.get("from-seq")
    is_browser = _flag(headers, "browser")
    return SubscribeHeaders(
        id=shown_id or destination,
        shown_id=shown_id,
        destination=destination,
        ack=modes[ack],
        credit=_credit(headers, default, socket_buffer),
        selector=selector,
        durable_name=read_durable_name(headers, shown_id, client_id),
        is_browser=is_browser,
        browse_ends=is_true("browser-end", headers.get("browser-end", "true")),
        is_exclusive=not is_browser and _flag(headers, "exclusive", "activemq.exclusive"),
        is_no_local=_flag(headers, "no-local", "activemq.noLocal"),
        wants_revoked=_flag(headers, "covey-group-revoked") or GROUP_HEADER in headers,
        include_seq=headers.get("include-seq", ""),
        from_seq=None if from_seq is None else _whole(headers, "from-seq", least=-1),
        trim_to=_whole(headers, "covey-trim-to", least=0),
        priority=_whole(headers, _first(headers, "priority", "activemq.priority"), least=-128),
        weight=min(max(1, _whole(headers, "covey-weight", least=1)), WEIGHT_MAX),
        deadline_s=_seconds(headers, "covey-deadline"),
        group=_group(headers),
    )


def read_credit(text: str) -> tuple[int, int]:
    """Read the `credit:count[,size]` header of an ACK."""
    parts = text.split(",")
    if len(parts) > 2:
        raise ProtocolError(f"ACK: credit:{text[:32]} is not count[,size]")
    numbers = [_number("credit", part, least=0) for part in parts]
    return numbers[0], numbers[1] if len(numbers) == 2 else 0


def _credit(headers: dict[str, str], default: Credit, socket_buffer: int) -> Credit:
    text = headers.get("credit")
    if text is None:
        return _aliased_credit(headers, default)
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 3 or (len(parts) == 3 and parts[2] not in ("true", "false")):
        raise ProtocolError(f"SUBSCRIBE: credit:{text[:32]} is not count[,size[,true|false]]")
    count = _number("credit", parts[0], least=0)
    size = _number("credit", parts[1], least=0) if len(parts) > 1 else socket_buffer
    is_raised = len(parts) < 3 or parts[2] == "true"
    return Credit(count, size, is_raised_by_ack=is_raised, is_explicit=True)


def _aliased_credit(headers: dict[str, str], default: Credit) -> Credit:
    prefetch = headers.get("activemq.prefetchSize")
    if prefetch is not None:
        return Credit(max(1, _number("activemq.prefetchSize", prefetch, least=0)), 0)
    prefetch = headers.get("prefetch-count")
    if prefetch is not None:
        # For RabbitMQ 0 means no limit.
        return Credit(_number("prefetch-count", prefetch, least=0) or UNLIMITED, 0)
    window = headers.get("consumer-window-size")
    if window is None:
        return default
    size = _number("consumer-window-size", window, least=-1)
    if size < 0:
        return Credit(UNLIMITED, UNLIMITED)
    return Credit(1, 0) if size == 0 else Credit(0, size)


def read_durable_name(headers: dict[str, str], shown_id: str, client_id: str) -> str:
    """Return the global name of a durable subscription, "" if none is asked for."""
    named = _first(
        headers,
        "activemq.subscriptionName",
        "durable-subscription-name",
        "durable-subscriber-name",
    )
    if headers.get(named):
        return f"{client_id}.{headers[named]}" if client_id else headers[named]
    if not _flag(headers, "persistent", "durable"):
        return ""
    if not shown_id:
        raise ProtocolError("persistent:true needs an id, the durable subscription's name")
    return shown_id


def _flag(headers: dict[str, str], *names: str) -> bool:
    return any([is_true(name, headers[name]) for name in names if name in headers])


def _first(headers: dict[str, str], *names: str) -> str:
    return next((name for name in names if name in headers), names[0])


def _group(headers: dict[str, str]) -> str:
    text = headers.get(GROUP_HEADER)
    if text == "":
        raise ProtocolError(f"{GROUP_HEADER} names no group; {NEXT} is the next free one")
    return text or ""


def _whole(headers: dict[str, str], name: str, *, least: int) -> int:
    text = headers.get(name)
    return 0 if text is None else _number(name, text, least=least)


def _seconds(headers: dict[str, str], name: str) -> float:
    """Return a number of seconds, which may have decimals; -1 if the header is not there."""
    text = headers.get(name)
    if text is None:
        return -1.0
    digits = text.strip().replace(".", "", 1)
    if not (digits.isascii() and digits.isdigit()) or len(digits) > DIGITS_MAX:
        raise ProtocolError(f"{name}:{text[:32]} is not a number of seconds")
    return float(text)


def _number(name: str, text: str, *, least: int) -> int:
    digits = text.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > DIGITS_MAX:
        raise ProtocolError(f"{name}:{text[:32]} is not a whole number")
    number = int(text)
    if number < least:
        raise ProtocolError(f"{name}:{text[:32]} is below {least}")
    return number
