"""Names: what one client calls its destinations, and what everybody else calls them.

A temporary name belongs to its connection: `/temp-queue/example` of connection 23 is
`/queue/temp.default.23.example` to others (the Apollo STOMP manual, Temporary Destinations).
"""

from __future__ import annotations

from covey.config.settings import StompSettings
from covey.core.broker import Broker
from covey.core.destination import Destination
from covey.core.errors import BrokerError
from covey.protocols.stomp.dialect import make_syntax


class Names:
    """How one connection's texts are read; its number is known after the login."""

    def __init__(self, settings: StompSettings, broker: Broker) -> None:
        self.syntax = make_syntax(settings, broker)
        self.broker_id = broker.limits.id
        self.connection_id = ""
        self._temporary_prefixes = (settings.temp_queue_prefix, settings.temp_topic_prefix)

    def destinations(self, text: str, *, allow_patterns: bool) -> tuple[Destination, ...]:
        """Read a destination header; temporary names become this connection's own."""
        found = self.syntax.parse(text, allow_patterns=allow_patterns)
        return tuple([self._real(place) if place.is_temporary else place for place in found])

    def own_places(self, text: str) -> tuple[Destination, ...]:
        """Return what a reply-to names that begins with a destination of this connection's own."""
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
