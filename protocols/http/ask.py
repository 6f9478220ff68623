"""Ask: one request, as the handlers of the routes see it.

A handler gets a request only after all checks: the login, the permission of the route, the query
and the body are in order.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
from starlette.datastructures import Headers

from covey.config.settings import HttpSettings
from covey.core.broker.broker import Broker
from covey.core.broker.directory import Directory
from covey.core.errors import RefusedError
from covey.core.host.virtual_host import VirtualHost
from covey.core.jobs.job import Job
from covey.core.management.admin import Admin
from covey.core.management.history import History
from covey.core.management.inspection import DESTINATIONS
from covey.core.security.users import Identity, Verb
from covey.core.session import Session
from covey.protocols.http.answer import login_required
from covey.protocols.http.auth import Visits, is_local
from covey.protocols.http.console.events import Streams
from covey.protocols.http.console.sessions import Sessions, SignedIn
from covey.protocols.http.metrics import Metrics
from covey.protocols.http.routing import Route, Setting
from covey.protocols.http.schemas import Body
from covey.protocols.passing import Owners
from covey.protocols.protocol import Configuration

NOBODY = Identity("")

Gather = Callable[[], Awaitable[dict[str, tuple[int, bytes] | None]]]
"""Ask all other processes the same; return status and answer of each, None if it did not."""


@dataclass(slots=True, kw_only=True)
class Console:
    """What the console of a port needs beside the broker."""

    settings: HttpSettings
    history: History
    configuration: Configuration
    sessions: Sessions
    streams: Streams
    visits: Visits


@dataclass(slots=True, kw_only=True)
class Ask:
    """Who asks for what, and the broker that is asked."""

    directory: Directory
    broker: Broker
    host: VirtualHost
    route: Route
    now: float
    metrics: Metrics
    unready: Callable[[], str]
    session: Session  # of this request alone: answers wait for its changes and those of its jobs
    console: Console
    headers: Headers
    is_secure: bool = False
    signed_in: SignedIn | None = None  # the browser that asks, if it has signed in
    identity: Identity = NOBODY
    remote: str = ""
    names: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Setting] = field(default_factory=dict)
    body: Body | None = None
    owners: Owners | None = None  # the other processes; None: answer for this process only
    gather: Gather | None = None

    @property
    def admin(self) -> Admin:
        """Return the core's management, on behalf of the user who asks."""
        return Admin(self.broker, self.host, self.identity, "http", self.session)

    async def until_over(self, job: Job) -> None:
        """Wait for a job; the job goes on even if the client gives up."""
        over = anyio.Event()
        job.then(over.set)
        await over.wait()

    async def others(self) -> dict[str, tuple[int, bytes] | None]:
        """Return the answers of the other processes to this request; none if there are none."""
        if self.owners is None or self.gather is None:
            return {}
        return await self.gather()

    def check_login(self) -> None:
        """Raise RefusedError if the user would have to log in again by now."""
        now = time.monotonic()
        users = self.broker.users
        local = is_local(self.headers, self.remote.rpartition(":")[0])
        is_known = users.renewed(self.identity, is_loopback=local, remote=self.remote) is not None
        if self.signed_in is not None:
            is_known = is_known and self.console.sessions.is_known(self.signed_in, now)
            self.signed_in.seen_at = now  # a page with an open stream is not idle
        if not is_known:
            raise login_required(self.headers)

    def check_manage(self) -> None:
        """Raise RefusedError if the user may not manage the thing that the path names.

        If the request would change something, the refusal is put on record.
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

    def check_manage_some(self) -> None:
        """Raise RefusedError if the user may manage nothing of the kind that is listed."""
        kind = DESTINATIONS[self.route.entity]
        if not self.identity.access.allows_some(Verb.MANAGE.value, kind.value):
            self.admin.check_manage(self.route.entity)

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
