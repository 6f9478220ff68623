"""Users: who somebody is, and what they may do.

Passwords are kept as records (`core.security.passwords`), for STOMP logins, SASL PLAIN and SCRAM
alike. A login with an unknown name takes the same time as one with a known name. A failed login
always gets the same answer. After too many failures the only answer is "wait"
(`core.security.throttle`).

`authorise` is the one place that allows or refuses a verb on a destination. It is called after
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

VERIFIED_MAX: Final = 1024  # remembered good logins, so that many reconnects stay cheap
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
    """One name of somebody who has logged in; its kind is "user" or "role"."""

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
        """Use these users and rules from now on; return the users who have to log in again.

        Raises RefusedError, and changes nothing, if one of them makes no sense.
        """
        rules = compile_permissions(permissions)
        wanted = {user.name: user for user in users}
        gone = {
            name
            for name, user in self._settings.items()
            # Most often it is the same object, and two settings are slow to compare.
            if wanted.get(name) is not user and wanted.get(name) != user
        }
        records = {
            name: self._record_of(user)
            for name, user in wanted.items()
            if name in gone or name not in self._settings
        }
        for name in gone:
            self._identities[name].access.permissions = []  # open connections still use it
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
        """Return the user's identity; raises RefusedError that does not say what was wrong."""
        self.admit(name, remote)
        record = self.record(name)
        digest = hmac.digest(self._secret, f"{name}\0{password}".encode(), "sha256")
        is_verified = digest in self._verified
        if not is_verified and (not record.matches(password) or name not in self._identities):
            raise self.refused(name, remote)
        self._verified[digest] = None  # now the most recent one, also if it was known before
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
        """Count a failed login; return the answer, which is the same for all failures."""
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
        """Return a user by name, to find out what that user may do; None if there is none."""
        return self._identities.get(name)

    def mark(self, name: str, key: str) -> str:
        """Return a keyed hash of a user's password, which changes when the password changes."""
        user = self._settings.get(name)
        password = "" if user is None else user.password.get_secret_value()
        return hmac.new(key.encode(), f"{name}\0{password}".encode(), "sha256").hexdigest()

    def renewed(self, known: Identity, *, is_loopback: bool, remote: str) -> Identity | None:
        """Return the identity of an earlier login; None if this user has to log in again."""
        current = self._identities.get(known.name)
        if current is None or current.access is not known.access:
            return None
        if known.name in self._defaults and not is_loopback:
            return None
        return replace(current, remote=remote)

    def anonymous(self, remote: str = "") -> Identity:
        """Return the identity of a client without a login: rules know it as role `anonymous`."""
        return replace(self._anonymous, remote=remote)

    def record(self, name: str) -> ScramRecord:
        """Return the user's record; for an unknown name, one that no password matches.

        That one is made from the name and a secret, so that asking twice gives the same salt. It
        is as costly to check as the real records. So nobody learns which names exist.
        """
        known = self._records.get(name)
        if known is not None:
            return known
        noise = hmac.digest(self._secret, name.encode(), "sha512")
        costs = [record.iterations for record in self._records.values()] or [ITERATIONS]
        return ScramRecord(noise[:16], costs[noise[0] % len(costs)], noise[16:48], noise[32:64])

    @property
    def has_default_password(self) -> bool:
        """Return True if a user still has the well-known first password."""
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
    """Make the answer to a failed login, which is the same for all failures."""
    return RefusedError("login failed: wrong user or password", "denied")


def authorise(identity: Identity, verb: Verb, destination: str) -> None:
    """Raise RefusedError, and tell the audit, unless the verb is allowed.

    `destination` is written `kind:name` (`str(Destination)`). Any other word means the broker.
    """
    if not may(identity, verb, destination):
        raise denied(identity, verb, destination)


def may(identity: Identity, verb: Verb, destination: str) -> bool:
    """Return True if the verb is allowed; the audit does not hear of this question."""
    return identity.has_role(ADMIN) or identity.access.allows(verb.value, destination)


def authorise_pattern(identity: Identity, verb: Verb, pattern: Destination) -> None:
    """Raise RefusedError unless some destination is allowed; each is checked when attached."""
    if not identity.has_role(ADMIN):
        if not identity.access.allows_some(verb.value, pattern.kind.value):
            raise denied(identity, verb, str(pattern))


def authorise_forever(identity: Identity, verb: Verb, pattern: Destination) -> None:
    """Raise RefusedError unless a rule covers the whole pattern, for a durable subscription."""
    if not identity.has_role(ADMIN):
        if not identity.access.covers(verb.value, pattern.kind.value, pattern.name):
            raise denied(identity, verb, str(pattern))


def denied(identity: Identity, verb: Verb, destination: str) -> RefusedError:
    """Tell the audit of a refusal, and return its error."""
    identity.audit.denied(identity.name, verb.value, destination, identity.remote)
    return RefusedError(f"user {identity.name} may not {verb.value} {destination}", "denied")


def _address(remote: str) -> str:
    return remote.rpartition(":")[0]
