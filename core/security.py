"""Security: who somebody is, and what they may do.

Passwords are kept as SCRAM-SHA-256 records (salt, iterations, keys) and checked against them
for STOMP logins, SASL PLAIN and SCRAM alike, so no clear text is kept. Names that do not exist
cost the same time as ones that do. `authorise` is the one place that says yes or no to a verb
on a destination; everybody asks it after aliases, temporary names and composites are expanded.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from covey.config.settings import UserSettings
from covey.core.errors import RefusedError

ITERATIONS: Final = 4096  # the least RFC 7677 allows: a login costs about 2 ms
RECORD_PREFIX: Final = "SCRAM-SHA-256$"
VERIFIED_MAX: Final = 1024  # remembered good logins: a storm of reconnects costs no key stretching


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

    def has_role(self, role: str) -> bool:
        """Say whether the role is among the principals."""
        return Principal("role", role) in self.principals


@dataclass(frozen=True, slots=True)
class ScramRecord:
    """What is kept of a password (RFC 5802)."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def text(self) -> str:
        """Write the record as it stands in a configuration file."""
        fields = (self.salt, self.stored_key, self.server_key)
        salt, stored, server = (base64.b64encode(field).decode() for field in fields)
        return f"{RECORD_PREFIX}{self.iterations}:{salt}${stored}:{server}"

    def matches(self, password: str) -> bool:
        """Check a password in constant time."""
        made = make_record(password, self.salt, self.iterations)
        return hmac.compare_digest(made.stored_key, self.stored_key)


def make_record(
    password: str, salt: bytes | None = None, iterations: int = ITERATIONS
) -> ScramRecord:
    """Stretch a password into a record, with a fresh salt unless one is given."""
    if salt is None:
        salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    return ScramRecord(salt, iterations, hashlib.sha256(client_key).digest(), server_key)


def parse_record(text: str) -> ScramRecord:
    """Read a record back; raises ValueError if it is none."""
    head, keys = text.removeprefix(RECORD_PREFIX).split("$")
    iterations, salt = head.split(":")
    stored, server = keys.split(":")
    decoded = [base64.b64decode(field, validate=True) for field in (salt, stored, server)]
    return ScramRecord(decoded[0], int(iterations), decoded[1], decoded[2])


class Users:
    """Everybody who may log in."""

    def __init__(self, users: Iterable[UserSettings]) -> None:
        self._secret = secrets.token_bytes(32)
        self._records: dict[str, ScramRecord] = {}
        self._identities: dict[str, Identity] = {}
        self._verified: dict[bytes, None] = {}
        self._defaults: set[str] = set()
        for user in users:
            self._add(user)

    def login(self, name: str, password: str, *, is_loopback: bool) -> Identity:
        """Return who it is; raises RefusedError without a word on what was wrong."""
        record = self.record(name)
        digest = hmac.digest(self._secret, f"{name}\0{password}".encode(), "sha256")
        if digest not in self._verified:
            if not record.matches(password) or name not in self._identities:
                raise login_failed()
            if len(self._verified) >= VERIFIED_MAX:
                self._verified.clear()
            self._verified[digest] = None
        return self.identity(name, is_loopback=is_loopback)

    def identity(self, name: str, *, is_loopback: bool) -> Identity:
        """Return a user whose proof was checked elsewhere (SCRAM, a certificate)."""
        known = self._identities.get(name)
        if known is None or (name in self._defaults and not is_loopback):
            raise login_failed()
        return known

    def record(self, name: str) -> ScramRecord:
        """Return the user's record; for an unknown name one that nothing matches.

        Made from the name and a secret, so that asking twice gives the same salt and nobody
        learns which names exist.
        """
        known = self._records.get(name)
        if known is not None:
            return known
        noise = hmac.digest(self._secret, name.encode(), "sha512")
        return ScramRecord(noise[:16], ITERATIONS, noise[16:48], noise[32:64])

    @property
    def has_default_password(self) -> bool:
        """Say whether a user still has the password everybody knows."""
        return bool(self._defaults)

    def _add(self, user: UserSettings) -> None:
        password = user.password.get_secret_value()
        if password.startswith(RECORD_PREFIX):
            self._records[user.name] = parse_record(password)
        else:
            self._records[user.name] = make_record(password)
            if user.name == "admin" and password == "password":
                self._defaults.add(user.name)
        roles = tuple(Principal("role", role) for role in user.roles)
        self._identities[user.name] = Identity(user.name, (Principal("user", user.name), *roles))


def login_failed() -> RefusedError:
    """Make the one answer to every failed login."""
    return RefusedError("login failed: wrong user or password", "denied")


def authorise(identity: Identity, verb: Verb, destination: str) -> None:
    """Say nothing if it is allowed, raise RefusedError if not."""
    if verb is Verb.MANAGE and not identity.has_role("admin"):
        raise RefusedError(f"user {identity.name} may not manage {destination}", "denied")
