"""Address: a broker, and a place in it, in one text of a job's options.

    covey://[user[:password]@]host[:port][/destination]

    covey://broker:61613/orders           the queue orders
    covey://alice@broker/topic/news       a topic; the password comes from COVEY_PASSWORD

What is special in a URL is written with percent signs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from covey.client.stomp import PORT
from covey.pipeline.errors import PipelineError

SCHEME: Final = "covey"
KINDS: Final = ("queue", "topic", "dsub")


@dataclass(frozen=True, slots=True)
class Address:
    """A broker's STOMP address, a login, and a destination or none."""

    brokers: str
    user: str
    password: str
    destination: str  # a bare name is a queue's

    def options(self) -> dict[str, str]:
        """Return the data source's options for the broker."""
        given = {"brokers": self.brokers, "user": self.user, "password": self.password}
        return {name: value for name, value in given.items() if value}


def parse_address(option: str, text: str) -> Address:
    """Read an address; raises PipelineError that names the option."""
    form = "covey://[user[:password]@]host[:port][/destination] is meant"
    try:
        parts = urlsplit(text)
        port = parts.port or PORT
    except ValueError:
        raise PipelineError(f"{option}: {form}") from None
    if parts.scheme != SCHEME or not parts.hostname:
        raise PipelineError(f"{option}: {form}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = unquote(parts.path).strip("/")
    kind, _, name = path.partition("/")
    return Address(
        f"{host}:{port}",
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        f"/{path}" if name and kind in KINDS[1:] else name if name and kind == KINDS[0] else path,
    )
