"""Auth: who asks over HTTP, and whether a web page asks behind their back.

- A login is HTTP Basic (RFC 7617) against the broker's users. A missing login and a wrong one get
  the same answer. A login that cannot be read counts as wrong. The answer to a wrong login is
  delayed as in every protocol. After too many wrong logins the answer is to wait, whoever asks.
- A proxy on this machine speaks for somebody else. What it forwards does not count as local, so the
  well-known first password is not accepted.
- The console signs in once and has a cookie (`console.sessions`). A change that is made with the
  cookie needs the session's token as well.
- Browsers send `Origin` when a page acts. The origin must be on the allow-list, or be our own page:
  the address that the request is for.
- `Host` must be an address, or a name of ours. Otherwise a foreign page could have its own name
  resolve to us (DNS rebinding), and act like our own page.

Every request of HTTP logs in, and a page or a collector of metrics asks every few seconds. So the
log does not tell of each request (`Visits`). The log tells of a user at an address once, and again
every hour while they still ask. If there are very many, those that have not asked for the longest
time are forgotten. They are logged again when they come back.
"""

from __future__ import annotations

import base64
import ipaddress
from typing import Final
from urllib.parse import urlsplit

import anyio
import structlog
from cachetools import LRUCache
from starlette.datastructures import Headers

from covey.config.settings import HttpSettings
from covey.core.broker.directory import Directory
from covey.core.errors import RefusedError
from covey.core.security.users import Identity
from covey.protocols.engine import is_loopback
from covey.protocols.http.answer import HttpError, login_required
from covey.protocols.http.console.sessions import TOKEN_HEADER, Sessions, SignedIn, is_token

CREDENTIALS_MAX: Final = 2048  # characters of an Authorization header; names and passwords are less
FORWARDING_HEADERS: Final = ("forwarded", "x-forwarded-for", "x-real-ip")
SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))


class Auth:
    """Checks who asks on one HTTP port."""

    def __init__(self, directory: Directory, settings: HttpSettings, sessions: Sessions) -> None:
        self.directory = directory
        self.sessions = sessions
        self.origins = frozenset(
            [origin.rstrip("/").lower() for origin in settings.allowed_origins]
        )
        names = [urlsplit(origin).hostname for origin in self.origins]
        for host in directory.virtual_hosts:
            names.extend(host.host_names)
        self.names = frozenset([name.strip("[]").lower() for name in names if name])

    async def login(
        self, headers: Headers, remote: str, now: float
    ) -> tuple[Identity, SignedIn | None]:
        """Return who asks, and the browser's session if the login is a cookie.

        Raises BrokerError, after a delay, if the login is missing or wrong.
        """
        given = headers.get("authorization", "")
        users = self.directory.shared.users
        local = is_local(headers, remote.rpartition(":")[0])
        if not given:
            session = self.sessions.find(headers, is_loopback=local, remote=remote, now=now)
            if session is None:
                raise login_required(headers)
            return session.identity, session
        try:
            credentials = _credentials(given)
            if credentials is None:
                users.admit("", remote)
                raise users.refused("", remote)
            return users.login(*credentials, is_loopback=local, remote=remote), None
        except RefusedError as error:
            if error.code == "throttled":
                raise
            await anyio.sleep(self.directory.settings.broker.login_failed_wait_s)
            raise login_required(headers) from error

    def check_host(self, headers: Headers) -> None:
        """Refuse a request that was meant for another host."""
        name = _host_name(headers.get("host", ""))
        if name and name not in self.names and not _is_address(name):
            raise HttpError(
                f"this is not {name[:80]}: names of this broker stand in host_names of its"
                " [[virtual_host]]",
                "misdirected",
            )

    def check_origin(self, method: str, headers: Headers) -> None:
        """Refuse a change by a web page that is neither on the allow-list nor our own."""
        if method not in SAFE_METHODS and not _is_own(headers):
            self.check_page(headers)
            if headers.get("sec-fetch-site", "none") == "cross-site" and "origin" not in headers:
                raise _foreign_page("another site")

    def check_token(self, method: str, headers: Headers, session: SignedIn) -> None:
        """Refuse a change that comes with a cookie and without the token of its session."""
        if method not in SAFE_METHODS and not is_token(session, headers):
            raise HttpError(
                f"a change that is made with a cookie needs the session's token in {TOKEN_HEADER}",
                "denied",
            )

    def check_page(self, headers: Headers) -> None:
        """Refuse a web page that is not on the allow-list; other programs send no Origin."""
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self.origins:
            raise _foreign_page(origin)


def _is_own(headers: Headers) -> bool:
    """Return True if the page came from this port; its Host was checked before."""
    origin = headers.get("origin")
    host = headers.get("host", "")
    return bool(host) and origin is not None and urlsplit(origin).netloc.lower() == host.lower()


def is_local(headers: Headers, address: str) -> bool:
    """Return True if a request comes from this machine, and not through a proxy on it."""
    if any(name in headers for name in FORWARDING_HEADERS):
        return False
    return is_loopback(address)


def _credentials(header: str) -> tuple[str, str] | None:
    """Return name and password; None if the header cannot be read."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic" or len(encoded) > CREDENTIALS_MAX:
        return None
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except ValueError:  # not base64, not even ASCII, or not UTF-8
        return None
    name, colon, password = text.partition(":")
    return (name, password) if colon else None


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _foreign_page(origin: str) -> HttpError:
    return HttpError(
        f"web pages of {origin[:80]} may not do this; allowed_origins of [connector.http] lists"
        " those that may",
        "denied",
    )


TOLD_EVERY_S: Final = 3600.0
VISITS_MAX: Final = 10_000  # pairs of user and address that are remembered

Log = structlog.typing.FilteringBoundLogger


class Visits:
    """Which users at which addresses were logged, and when."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._told: LRUCache[tuple[str, str], float] = LRUCache(VISITS_MAX)

    def note(self, identity: Identity, now: float) -> None:
        """Called when somebody has logged in for a request."""
        key = (identity.name, identity.remote.rpartition(":")[0])
        told = self._told.get(key)
        if told is None or now - told >= TOLD_EVERY_S:
            self._told[key] = now
            self._log.info("logged_in", remote=identity.remote, user=identity.name, protocol="http")
