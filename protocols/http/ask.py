"""Ask: one request, as the handlers of the routes see it.

A handler gets a request only after all checks: the login, the permission of the route, the query
and the body are in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from covey.core.broker.broker import Broker
from covey.core.errors import RefusedError
from covey.core.host.virtual_host import VirtualHost
from covey.core.management.admin import Admin
from covey.core.security.users import Identity
from covey.protocols.http.metrics import Metrics
from covey.protocols.http.routing import Route, Setting
from covey.protocols.http.schemas import Body

NOBODY = Identity("")


@dataclass(slots=True, kw_only=True)
class Ask:
    """Who asks for what, and the broker that is asked."""

    broker: Broker
    host: VirtualHost
    route: Route
    now: float
    metrics: Metrics
    unready: Callable[[], str]
    identity: Identity = NOBODY
    remote: str = ""
    names: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Setting] = field(default_factory=dict)
    body: Body | None = None

    @property
    def admin(self) -> Admin:
        """Return the core's management, on behalf of who asks."""
        return Admin(self.broker, self.host, self.identity, "http")

    def check_manage(self) -> None:
        """Raise RefusedError if who asks may not manage what the path is about.

        Where something was to be changed, the refusal is put on record.
        """
        admin = self.admin
        name = self.names.get("name", "")
        try:
            admin.check_manage(self.route.subject, name)
        except RefusedError:
            if not self.route.action:
                raise
            kinds = [kind for kind in ("group", "consumer") if kind in self.names]
            kind = kinds[0] if kinds else self.route.subject
            with admin.acting(self.route.action, kind, name, self.names.get(kind, "")):
                raise

    @property
    def name(self) -> str:
        """Return the name in the path."""
        return self.names["name"]

    def number(self, field_name: str) -> int:
        """Return a number of the query."""
        value = self.settings[field_name]
        assert isinstance(value, int)
        return value

    def text(self, field_name: str) -> str:
        """Return a text of the query."""
        return str(self.settings[field_name])

    def is_set(self, field_name: str) -> bool:
        """Return a truth value of the query."""
        return self.settings[field_name] is True
