"""A connector's STOMP settings, as the engine uses them: syntax, limits, added headers, buffers.

`Names` translates between one client's names of destinations and those that all others use. A
temporary name belongs to its connection: `/temp-queue/example` of connection 23 is
`/queue/temp.default.23.example` to others (the Apollo STOMP manual, Temporary Destinations).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from covey.config.settings import StompSettings
from covey.core.broker.broker import Broker
from covey.core.errors import BrokerError, ProtocolError
from covey.core.naming.destination import Destination, Kind, Syntax
from covey.core.security.users import Principal
from covey.protocols.stomp.line_parser import Limits

ROUTING_TYPES: Final = ("ANYCAST", "MULTICAST")  # Artemis' words for a queue and a topic

# Bytes that all outboxes share. Up to 100 connections, each may have the full size.
BUFFER_TOTAL: Final = 64 * 1024 * 1024


def make_syntax(settings: StompSettings, broker: Broker) -> Syntax:
    """Return how destinations are written on this connector."""
    limits = broker.limits
    return Syntax(
        queue_prefix=settings.queue_prefix,
        topic_prefix=settings.topic_prefix,
        dsub_prefix=settings.dsub_prefix,
        temp_queue_prefix=settings.temp_queue_prefix,
        temp_topic_prefix=settings.temp_topic_prefix,
        path_separator=settings.path_separator,
        destination_separator=settings.destination_separator,
        any_child_wildcard=settings.any_child_wildcard,
        any_descendant_wildcard=settings.any_descendant_wildcard,
        regex_wildcard_start=settings.regex_wildcard_start,
        regex_wildcard_end=settings.regex_wildcard_end,
        strict_names=settings.strict_names,
        compat_wildcards=settings.compat_wildcards,
        default_kind=Kind(settings.default_destination_type),
        name_length_max=limits.destination_length_max,
        levels_max=limits.destination_levels_max,
        parts_max=limits.composite_parts_max,
        wildcards_max=limits.wildcards_max,
        pattern_length_max=limits.pattern_length_max,
        descendant_matches_zero=settings.descendant_matches_zero,
    )


def login_limits(settings: StompSettings) -> Limits:
    """Return the limits of a client that has not logged in."""
    has_fewer = settings.login_headers_max < settings.max_headers
    return Limits(
        header_length_max=settings.max_header_length,
        headers_max=settings.login_headers_max if has_fewer else settings.max_headers,
        headers_key="login_headers_max" if has_fewer else "max_headers",
        body_length_max=settings.max_data_length,
        command_length_max=settings.max_command_length,
        frame_length_max=settings.login_frame_max,
    )


def full_limits(settings: StompSettings) -> Limits:
    """Return the limits of a client that has logged in."""
    return Limits(
        header_length_max=settings.max_header_length,
        headers_max=settings.max_headers,
        body_length_max=settings.max_data_length,
        command_length_max=settings.max_command_length,
    )


def user_headers(settings: StompSettings, principals: Iterable[Principal]) -> list[tuple[str, str]]:
    """Return the headers that name the sender on each of its messages."""
    known = list(principals)
    headers = []
    for wanted in settings.add_user_header:
        names = [who.name for who in known if wanted.kind in ("*", who.kind)]
        if wanted.separator is None:
            names = names[:1]
        headers.append((wanted.header, (wanted.separator or "").join(names)))
    return headers


def own_headers(settings: StompSettings) -> frozenset[str]:
    """Return the names of headers that only the broker may write: no sender may forge them."""
    found = (settings.add_timestamp_header, settings.add_redeliveries_header)
    return frozenset([name for name in found if name is not None])


def typed_name(headers: dict[str, str], settings: StompSettings) -> str:
    """Return the destination; if it has no prefix, Artemis' type header gives it one."""
    text = headers["destination"]
    kind = headers.get("destination-type") or headers.get("subscription-type")
    if kind is None or text.startswith("/") or "://" in text:
        return text
    if kind not in ROUTING_TYPES:
        raise ProtocolError(f"type {kind[:32]} is none of {', '.join(ROUTING_TYPES)}")
    return (settings.queue_prefix if kind == "ANYCAST" else settings.topic_prefix) + text


def buffer_size(settings: StompSettings, connections: int) -> int:
    """Return how many bytes may wait for one client: the more connections, the fewer."""
    if settings.buffer_size is not None:
        return settings.buffer_size
    share = BUFFER_TOTAL // max(1, connections)
    return max(settings.buffer_auto_min, min(settings.buffer_auto_max, share))


class Names:
    """Reads and writes the names of destinations for one connection that has logged in."""

    def __init__(self, settings: StompSettings, broker: Broker, connection_id: str) -> None:
        self.syntax = make_syntax(settings, broker)
        self.broker_id = broker.limits.id
        self.connection_id = connection_id
        self._temporary_prefixes = (settings.temp_queue_prefix, settings.temp_topic_prefix)

    def destinations(self, text: str, *, allow_patterns: bool) -> tuple[Destination, ...]:
        """Read a destination header; temporary names become this connection's own."""
        found = self.syntax.parse(text, allow_patterns=allow_patterns)
        return tuple([self._real(place) if place.is_temporary else place for place in found])

    def own_places(self, text: str) -> tuple[Destination, ...]:
        """Return the places that a reply-to names, if it begins with a temporary destination.

        Any other reply-to needs no translation: the result is empty.
        """
        if not text.startswith(self._temporary_prefixes):
            return ()
        try:
            return self.destinations(text, allow_patterns=False)
        except BrokerError:
            return ()  # best effort: a reply-to is the application's own business

    def written(self, places: tuple[Destination, ...]) -> str:
        """Write destinations as other connections know them."""
        return self.syntax.destination_separator.join([self.syntax.render(one) for one in places])

    def _real(self, place: Destination) -> Destination:
        return self.syntax.temporary(place.kind, place.name, self.broker_id, self.connection_id)
