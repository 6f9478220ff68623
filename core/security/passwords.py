"""Passwords: what is kept of one, and how it is checked.

A record is salt, iterations and keys of SCRAM-SHA-256 (RFC 5802, RFC 7677). A record is enough to
check a password or a SCRAM client's proof. It is not enough to log in. No clear text is kept.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Final

from scramp import ScramException
from scramp.utils import saslprep

ITERATIONS: Final = 4096  # the least RFC 7677 allows: a login costs about 2 ms
ITERATIONS_MAX: Final = 1_000_000  # of a record made elsewhere; more would block the broker
RECORD_PREFIX: Final = "SCRAM-SHA-256$"
PREPARED_MAX: Final = 512  # characters; preparing a longer text would cost us more than its sender


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
    """Make the record of a password, with a fresh salt unless one is given."""
    if salt is None:
        salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", _prepared(password), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    return ScramRecord(salt, iterations, hashlib.sha256(client_key).digest(), server_key)


def parse_record(text: str) -> ScramRecord:
    """Read a record back; raises ValueError if the text is no record."""
    head, keys = text.removeprefix(RECORD_PREFIX).split("$")
    iterations, salt = head.split(":")
    stored, server = keys.split(":")
    if not (
        iterations.isascii() and iterations.isdigit() and 0 < int(iterations) <= ITERATIONS_MAX
    ):
        raise ValueError(f"from 1 to {ITERATIONS_MAX} iterations are possible")
    decoded = [base64.b64decode(field, validate=True) for field in (salt, stored, server)]
    return ScramRecord(decoded[0], int(iterations), decoded[1], decoded[2])


def _prepared(password: str) -> bytes:
    """Return a password as SCRAM clients prepare it (RFC 7613): one form, however it was typed.

    A password with characters that the RFC forbids is used as it is.
    """
    if password.isascii() or len(password) > PREPARED_MAX:
        return password.encode()
    try:
        return str(saslprep(password)).encode()
    except ScramException:
        return password.encode()
