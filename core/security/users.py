"""Users: who somebody is, and what they may do.

Passwords are kept as records (`core.security.passwords`), for STOMP logins, SASL PLAIN and SCRAM
alike. A name that does not exist costs the same time as one that does. A failed login always gets
the same answer. After too many the only answer is "wait" (`core.security.throttle`).

`authorise` is the one place that says yes or no to a verb on a destination. Everybody asks it after
aliases, temporary names and composites are expanded.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from cachetools import LRUCache

from covey.config.settings import PermissionSettings, UserSettings
from covey.core.clock import Clock
from covey.core.errors import RefusedError
from covey.core.events.audit import Audit, Unheard
from covey.core.naming.destination import Destination
from covey.core.security.passwords import (
    ITERATIONS,
    RECORD_PREFIX,
    ScramRecord,
    make_record,
    parse_record,
)
from covey.core.security.permissions import Access, compile_permissions
from covey.core.security.throttle import Throttle

VERIFIED_MAX: Final = 1024  # remembered good logins: a storm of reconnects costs no key stretching
ANONYMOUS: Final = "anonymous"  # the name and the one role of whoever is let in without a login
ADMIN: Final = "admin"  # the role that may do everything


class Verb(Enum):
    """What somebody wants to do."""

    CONNECT = "connect"
    CREATE = "create"
    SEND = "send"
    CONSUME = "consume"
    BROWSE = "browse"
    DESTROY = "destroy"
    MANAGE = "manage"


@dataclass(frozen=True, slots=True)
class Principal:
    """One name somebody goes by; kinds are "user" and "role"."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody who has logged in."""

    name: str
    principals: tuple[Principal, ...] = ()
    access: Access = field(default_factory=Access, compare=False, repr=False)
    remote: str = field(default="", compare=False)
    audit: Audit = field(default_factory=Unheard, compare=False, repr=False)

    def has_role(self, role: str) -> bool:
        """Return True if the role is among the principals."""
        return Principal("role", role) in self.principals


class Users:
    """Everybody who may log in."""

    def __init__(
        self,
        users: Iterable[UserSettings],
        permissions: Iterable[PermissionSettings] = (),
        *,
        throttle: Throttle | None = None,
        clock: Clock | None = None,
        audit: Audit | None = None,
    ) -> None:
        self._secret = secrets.token_bytes(32)
        self._settings: dict[str, UserSettings] = {}
        self._records: dict[str, ScramRecord] = {}
        self._identities: dict[str, Identity] = {}
        self._verified: LRUCache[bytes, None] = LRUCache(VERIFIED_MAX)
        self._defaults: set[str] = set()
        self.throttle = throttle or Throttle()
        self._clock = clock or Clock()
        self._audit = audit or Unheard()
        access = Access(frozenset([f"role:{ANONYMOUS}"]))
        self._anonymous = Identity(ANONYMOUS, access=access, audit=self._audit)
        self.apply(users, permissions)

    def apply(
        self, users: Iterable[UserSettings], permissions: Iterable[PermissionSettings]
    ) -> frozenset[str]:
        """Let these users and rules hold from now on; return who has to log in again.

        Raises RefusedError, and changes nothing, if one of them makes no sense.
        """
        rules = compile_permissions(permissions)
        wanted = {user.name: user for user in users}
        gone = {name for name, user in self._settings.items() if wanted.get(name) != user}
        records = {
            name: self._record_of(user)
            for name, user in wanted.items()
            if name in gone or name not in self._settings
        }
        for name in gone:
            self._identities[name].access.permissions = []  # open connections hold it yet
            del self._records[name], self._identities[name]
        self._defaults -= gone
        self._verified.clear()
        self._settings = wanted
        for name, record in records.items():
            self._add(wanted[name], record)
        for identity in (self._anonymous, *self._identities.values()):
            identity.access.apply(rules)
        return frozenset(gone)

    def login(self, name: str, password: str, *, is_loopback: bool, remote: str = "") -> Identity:
        """Return who it is; raises RefusedError without a word on what was wrong."""
        self.admit(name, remote)
        record = self.record(name)
        digest = hmac.digest(self._secret, f"{name}\0{password}".encode(), "sha256")
        is_verified = digest in self._verified
        if not is_verified and (not record.matches(password) or name not in self._identities):
            raise self.refused(name, remote)
        self._verified[digest] = None  # the newest, whether it was here or not
        return self.identity(name, is_loopback=is_loopback, remote=remote)

    def admit(self, name: str, remote: str) -> None:
        """Raise RefusedError if there were too many failed logins of this name or address."""
        if remote:
            wait_s = self.throttle.wait_s(_address(remote), name, self._clock.now)
            if wait_s > 0:
                raise RefusedError(
                    f"login refused: too many failed logins, wait {wait_s:.0f} s", "throttled"
                )

    def refused(self, name: str, remote: str) -> RefusedError:
        """Count a failed login; return the one answer to all of them."""
        if remote:
            self.throttle.failed(_address(remote), name, self._clock.now)
        self._audit.login_failed(name if name in self._identities else "", remote)
        return login_failed()

    def identity(self, name: str, *, is_loopback: bool, remote: str = "") -> Identity:
        """Return a user whose proof was checked elsewhere (SCRAM, a certificate)."""
        known = self._identities.get(name)
        if known is None or (name in self._defaults and not is_loopback):
            raise self.refused(name, remote)
        if not remote:
            return known
        self.throttle.succeeded(_address(remote), name)
        return replace(known, remote=remote)

    def known(self, name: str) -> Identity | None:
        """Return a user by name, for those who ask what the user may do."""
        return self._identities.get(name)

    def mark(self, name: str, key: str) -> str:
        """Return what tells one password of a user from another, to whoever has the key."""
        user = self._settings.get(name)
        password = "" if user is None else user.password.get_secret_value()
        return hmac.new(key.encode(), f"{name}\0{password}".encode(), "sha256").hexdigest()

    def renewed(self, known: Identity, *, is_loopback: bool, remote: str) -> Identity | None:
        """Return somebody who has logged in before; None if they would have to log in again."""
        current = self._identities.get(known.name)
        if current is None or current.access is not known.access:
            return None
        if known.name in self._defaults and not is_loopback:
            return None
        return replace(current, remote=remote)

    def anonymous(self, remote: str = "") -> Identity:
        """Return somebody without a login; the role `anonymous` is all that rules know them by."""
        return replace(self._anonymous, remote=remote)

    def record(self, name: str) -> ScramRecord:
        """Return the user's record; for an unknown name one that nothing matches.

        Made from the name and a secret, so that asking twice gives the same salt, and as costly as
        the records there are: nobody learns which names exist.
        """
        known = self._records.get(name)
        if known is not None:
            return known
        noise = hmac.digest(self._secret, name.encode(), "sha512")
        costs = [record.iterations for record in self._records.values()] or [ITERATIONS]
        return ScramRecord(noise[:16], costs[noise[0] % len(costs)], noise[16:48], noise[32:64])

    @property
    def has_default_password(self) -> bool:
        """Return True if a user still has the password everybody knows."""
        return bool(self._defaults)

    def _record_of(self, user: UserSettings) -> ScramRecord:
        password = user.password.get_secret_value()
        if not password.startswith(RECORD_PREFIX):
            return make_record(password)
        try:
            return parse_record(password)
        except ValueError as error:
            raise RefusedError(
                f"user {user.name}: its password starts like a SCRAM record and is none", "invalid"
            ) from error

    def _add(self, user: UserSettings, record: ScramRecord) -> None:
        self._records[user.name] = record
        if user.name == "admin" and record.matches("password"):
            self._defaults.add(user.name)
        principals = (
            Principal("user", user.name),
            *[Principal("role", role) for role in user.roles],
        )
        access = Access(frozenset([f"{one.kind}:{one.name}" for one in principals]))
        self._identities[user.name] = Identity(user.name, principals, access, audit=self._audit)


def login_failed() -> RefusedError:
    """Make the one answer to every failed login."""
    return RefusedError("login failed: wrong user or password", "denied")


def authorise(identity: Identity, verb: Verb, destination: str) -> None:
    """Say nothing if it is allowed, raise RefusedError if not.

    `destination` is written `kind:name` (`str(Destination)`); any other word is the broker itself.
    """
    if not may(identity, verb, destination):
        raise denied(identity, verb, destination)


def may(identity: Identity, verb: Verb, destination: str) -> bool:
    """Return True if it is allowed; for those who only look around, since nobody is told."""
    return identity.has_role(ADMIN) or identity.access.allows(verb.value, destination)


def authorise_pattern(identity: Identity, verb: Verb, pattern: Destination) -> None:
    """Let in a wildcard if it may mean anything; each destination is asked about on its own."""
    if not identity.has_role(ADMIN):
        if not identity.access.allows_some(verb.value, pattern.kind.value):
            raise denied(identity, verb, str(pattern))


def authorise_forever(identity: Identity, verb: Verb, pattern: Destination) -> None:
    """Let in a wildcard that will go on when nobody can be asked: a rule has to cover it."""
    if not identity.has_role(ADMIN):
        if not identity.access.covers(verb.value, pattern.kind.value, pattern.name):
            raise denied(identity, verb, str(pattern))


def denied(identity: Identity, verb: Verb, destination: str) -> RefusedError:
    """Tell the audit of a refusal, and make it."""
    identity.audit.denied(identity.name, verb.value, destination, identity.remote)
    return RefusedError(f"user {identity.name} may not {verb.value} {destination}", "denied")


def _address(remote: str) -> str:
    return remote.rpartition(":")[0]
