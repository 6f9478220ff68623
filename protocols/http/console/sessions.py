"""Sessions: browsers that are signed in, so that a password travels once.

A browser that has shown name and password gets a cookie: a random secret, of which only a hash is
kept. The cookie is HttpOnly, so no script reads it, and SameSite=Strict, so no other site's page
makes a browser send it. A change that is made with a cookie needs a token besides, in a header that
only our own page can set (`TOKEN_HEADER`). Programs log in with each request and need no token.

A session ends when it was idle for long, when it is old, when the browser signs out, when an
operator ends it, and when the user's password or roles change. The last is noticed because the
session holds the user's `Access`, which is replaced by another then (`core.security.users`).

Sessions survive a restart of the broker, so that a page comes back by itself. They are kept in a
file beside the messages, closed to other users, with a hash of the cookie's secret instead of the
secret. A mark shows if the user's password has changed meanwhile: a hash of the configured
password, with the secret as the key.

Signing in is a login like any other: throttled, answered late when it fails, written to the log.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response

from covey.config.settings import HttpSettings
from covey.core.errors import RefusedError
from covey.core.management.describe import Attributes
from covey.core.security.users import Identity, Users

COOKIE: Final = "covey-session"
TOKEN_HEADER: Final = "x-covey-token"
SECRET_BYTES: Final = 32


@dataclass(slots=True)
class SignedIn:
    """One browser that is signed in."""

    number: int
    identity: Identity
    token: str
    born_at: float
    seen_at: float
    mark: str  # a hash of the password, for the next process to compare
    is_checked: bool = False  # this process has compared the mark


class Sessions:
    """Everybody who is signed in at one port."""

    def __init__(self, users: Users, settings: HttpSettings, folder: Path | None = None) -> None:
        """Prepare; `folder` is where an earlier process may have left its sessions."""
        self._users = users
        self.settings = settings
        self.port = 0  # part of the cookie's name: browsers do not tell ports apart
        self._folder = folder
        self._known: dict[bytes, SignedIn] = {}
        self._numbers = 0

    def open(self, port: int, now: float) -> None:
        """Called when the port's number is known: take over the sessions of its last process."""
        self.port = port
        if self._folder is None:
            return
        try:
            rows = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return  # no file, or not readable: then everybody signs in again
        for key, user, token, age_s, mark in rows:
            identity = self._users.known(user)
            if identity is not None:
                self._numbers += 1
                found = SignedIn(self._numbers, identity, token, now - age_s, now, mark)
                self._known[bytes.fromhex(key)] = found

    @property
    def _file(self) -> Path:
        assert self._folder is not None
        return self._folder / f"console-sessions-{self.port}.json"

    def _save(self, now: float) -> None:
        if self._folder is None or not self.port:
            return
        rows = [
            (key.hex(), one.identity.name, one.token, now - one.born_at, one.mark)
            for key, one in self._known.items()
        ]
        try:
            draft = self._file.with_suffix(".new")
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump(rows, file)
            draft.replace(self._file)
        except OSError:
            return  # sessions last until the broker ends

    @property
    def cookie_name(self) -> str:
        """Return the cookie's name, which differs for two brokers on one machine."""
        return f"{COOKIE}-{self.port}"

    def begin(self, identity: Identity, now: float) -> tuple[str, SignedIn]:
        """Sign somebody in whose password was right; return the secret for the cookie."""
        self._sweep(now)
        while len(self._known) >= self.settings.sessions_max:
            del self._known[self._most_dispensable()]
        self._numbers += 1
        secret = secrets.token_urlsafe(SECRET_BYTES)
        token = secrets.token_urlsafe(SECRET_BYTES)
        mark = self._users.mark(identity.name, secret)
        found = SignedIn(self._numbers, identity, token, now, now, mark, is_checked=True)
        self._known[_digest(secret)] = found
        self._save(now)
        return secret, found

    def has_cookie(self, headers: Headers) -> bool:
        """Return True if a browser has sent a cookie of this broker, valid or not."""
        return bool(self._secret(headers))

    def find(
        self, headers: Headers, *, is_loopback: bool, remote: str, now: float
    ) -> SignedIn | None:
        """Return the user of a valid cookie, with the present rights; None if it is not valid."""
        secret = self._secret(headers)
        found = self._known.get(_digest(secret)) if secret else None
        if found is None or not self.is_alive(found, now):
            return None
        if not found.is_checked:
            if not hmac.compare_digest(found.mark, self._users.mark(found.identity.name, secret)):
                self.end(found)
                return None
            found.is_checked = True
        renewed = self._users.renewed(found.identity, is_loopback=is_loopback, remote=remote)
        if renewed is None:
            self.end(found)
            return None
        found.identity = renewed
        found.seen_at = now
        return found

    def is_alive(self, session: SignedIn, now: float) -> bool:
        """Return True if a session has not expired."""
        settings = self.settings
        is_fresh = now - session.seen_at < settings.session_idle_s
        return is_fresh and now - session.born_at < settings.session_max_s

    def is_known(self, session: SignedIn, now: float) -> bool:
        """Return True if a session has neither expired nor been ended."""
        return session in self._known.values() and self.is_alive(session, now)

    def end(self, session: SignedIn) -> None:
        """End a session."""
        for key in [key for key, one in self._known.items() if one is session]:
            del self._known[key]
        self._save(time.monotonic())

    def end_number(self, number: str) -> None:
        """End the session of this number; raises RefusedError if there is none."""
        for session in list(self._known.values()):
            if str(session.number) == number:
                self.end(session)
                return
        raise RefusedError(f"no browser is signed in under number {number[:40]}", "not-found")

    def describe(self, now: float) -> list[Attributes]:
        """Describe the sessions, without secrets."""
        self._sweep(now)
        return [
            {
                "name": str(one.number),
                "user": one.identity.name,
                "remote": one.identity.remote,
                "age_s": now - one.born_at,
                "idle_s": now - one.seen_at,
            }
            for one in self._known.values()
        ]

    def set_cookie(self, response: Response, secret: str, *, is_secure: bool) -> None:
        """Set the browser's cookie to its secret; "" deletes the cookie."""
        response.set_cookie(
            self.cookie_name,
            secret,
            max_age=int(self.settings.session_max_s) if secret else 0,
            path="/",
            secure=is_secure,
            httponly=True,
            samesite="strict",
        )

    def _secret(self, headers: Headers) -> str:
        """Return what a browser has sent as the cookie of this broker, or "".

        Cookies of other programs on the same machine come along, and some are malformed. Python's
        own parser would drop what follows such a cookie, and the user would be signed out.
        """
        for line in headers.getlist("cookie"):  # HTTP/2 may send each cookie for itself
            for cookie in line.split(";"):
                name, _, value = cookie.partition("=")
                if name.strip() == self.cookie_name and value.strip():
                    return value.strip()
        return ""

    def _most_dispensable(self) -> bytes:
        """Return which session makes room: the most idle one of the user who has the most.

        So nobody can sign others out by signing in again and again.
        """
        counts = Counter([one.identity.name for one in self._known.values()])
        most = max(counts.values())
        theirs = [key for key, one in self._known.items() if counts[one.identity.name] == most]
        return min(theirs, key=lambda key: self._known[key].seen_at)

    def _sweep(self, now: float) -> None:
        for key in [key for key, one in self._known.items() if not self.is_alive(one, now)]:
            del self._known[key]


def is_token(session: SignedIn, headers: Headers) -> bool:
    """Return True if a request has the token of its session."""
    return hmac.compare_digest(headers.get(TOKEN_HEADER, "").encode(), session.token.encode())


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()
