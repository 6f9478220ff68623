"""Places: which process answers a request of HTTP.

A request about a virtual host is answered by the process that serves it: another worker, or another
broker of the cluster (`protocols.passing`). All other requests are answered where they come in,
except those of browsers. Browsers are signed in at one process of a machine, which knows their
cookies. It passes their requests on with the user's name.
"""

from __future__ import annotations

import time
from typing import Final

import anyio
from starlette.datastructures import Headers

from covey.core.broker.directory import Directory
from covey.core.errors import BrokerError
from covey.protocols.http.console.sessions import Sessions
from covey.protocols.http.routes import API
from covey.protocols.http.routing import Need, Route
from covey.protocols.passing import WAIT_S, Owners
from covey.protocols.request_stream import PassedOn

LOOK_EVERY_S: Final = 0.05  # while nobody serves a virtual host of a cluster
FOR_STRANGERS: Final = (Need.NOTHING, Need.OPEN)
SESSIONS: Final = f"{API}/session"


class Places:
    """The other processes, as one port sees them."""

    def __init__(self, directory: Directory, owners: Owners | None, sessions: Sessions) -> None:
        self._directory = directory
        self._owners = owners
        self._sessions = sessions

    @property
    def home(self) -> str:
        """Return the place where browsers are signed in; "" if it is this one."""
        return "" if self._owners is None else self._owners.home

    def place(
        self, route: Route, query: bytes, headers: Headers, passed_on: PassedOn | None
    ) -> tuple[str, bool]:
        """Return who is to answer, "" for this process, and whether that one checks the login."""
        if self._owners is None or (passed_on is not None and passed_on.is_final):
            return "", False
        has_login = "authorization" in headers
        is_browser = not has_login and self._sessions.has_cookie(headers)
        if route.path.startswith(SESSIONS):
            return self.home, True
        if self.home and is_browser and route.need not in FOR_STRANGERS:
            return self.home, True
        space = self._space(route, query)
        return ("", False) if space is None else (self._owners.place_of(space), has_login)

    async def waited_for(
        self, route: Route, query: bytes, headers: Headers, passed_on: PassedOn | None
    ) -> str:
        """Wait a while if nobody serves the virtual host just now; return who does then, or ""."""
        space = self._space(route, query)
        if self._directory.shared.cluster is None or space is None:
            return ""
        until = time.monotonic() + WAIT_S
        place = ""
        while not (place or self._directory.is_served(space) or time.monotonic() > until):
            await anyio.sleep(LOOK_EVERY_S)
            place = self.place(route, query, headers, passed_on)[0]
        return place

    def _space(self, route: Route, query: bytes) -> str | None:
        """Return the virtual host that a request is about; None if about none, or if it is bad."""
        try:
            settings = route.settings(query)
            if "host" not in settings:
                return None
            return self._directory.space_named(str(settings["host"]) or None)
        except BrokerError:
            return None  # this process refuses, once the login is checked
