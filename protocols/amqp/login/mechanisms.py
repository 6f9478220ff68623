"""Mechanisms: the SASL mechanisms, which are the ways to log in.

A mechanism takes the client's responses and returns challenges, until it knows the client's
identity or refuses the client. A refusal is always the same RefusedError: a failed login never says
what was wrong.

| mechanism     | response                          | proof                                        |
|---------------|-----------------------------------|----------------------------------------------|
| PLAIN         | authzid NUL name NUL password     | `Users.login`                                |
| SCRAM-SHA-256 | RFC 5802, two rounds              | the record; unknown names have one as well   |
| EXTERNAL      | authzid                           | the name in the client's certificate         |
| ANONYMOUS     | anything (RFC 4505)               | none                                         |

An authzid must be empty or the user's own name: no user can act for another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from scramp import ScramException, ScramMechanism

from covey.core.security.passwords import ScramRecord
from covey.core.security.users import Identity, Users
from covey.protocols.amqp.codec.types import malformed

PLAIN: Final = "PLAIN"
SCRAM: Final = "SCRAM-SHA-256"
EXTERNAL: Final = "EXTERNAL"
ANONYMOUS: Final = "ANONYMOUS"


class Mechanism(ABC):
    """One login."""

    def __init__(self) -> None:
        self.identity: Identity | None = None  # None until the client's identity is proved
        self.final = b""  # the server's last message, sent with the outcome

    @abstractmethod
    def respond(self, response: bytes) -> bytes:
        """Take the client's next response; return the next challenge unless `identity` is set."""


class Plain(Mechanism):
    """Name and password, in clear (RFC 4616)."""

    def __init__(self, users: Users, *, is_loopback: bool, remote: str = "") -> None:
        super().__init__()
        self.users = users
        self.is_loopback = is_loopback
        self.remote = remote

    def respond(self, response: bytes) -> bytes:
        """Check name and password."""
        parts = _text(response).split("\0")
        if len(parts) != 3 or parts[0] not in ("", parts[1]):
            raise malformed("a PLAIN response without a user and a password")
        self.identity = self.users.login(
            parts[1], parts[2], is_loopback=self.is_loopback, remote=self.remote
        )
        return b""


class Scram(Mechanism):
    """A proof of the password that does not show it (RFC 5802, RFC 7677)."""

    def __init__(self, users: Users, *, is_loopback: bool, remote: str = "") -> None:
        super().__init__()
        self.users = users
        self.is_loopback = is_loopback
        self.remote = remote
        self.name: str | None = None  # known after the first round
        self.server = ScramMechanism(SCRAM).make_server(self._keys)

    def respond(self, response: bytes) -> bytes:
        """Take the first message, then the final one.

        The throttle is asked both times: many logins may have begun before the first one failed. It
        is not asked within scramp, which would make a failed login of its refusal.
        """
        text = _text(response)
        if self.name is None:
            return self._begin(text)
        name = self.name
        self.users.admit(name, self.remote)
        try:
            self.server.set_client_final(text)
            self.final = str(self.server.get_server_final()).encode()
        except ScramException as error:
            raise self.users.refused(name, self.remote) from error
        self.identity = self.users.identity(name, is_loopback=self.is_loopback, remote=self.remote)
        return b""

    def _begin(self, text: str) -> bytes:
        try:
            self.server.set_client_first(text)
            challenge = str(self.server.get_server_first())
        except ScramException as error:
            raise self.users.refused(self.name or "", self.remote) from error
        assert self.name is not None, "scramp asks for the keys of a name"
        self.users.admit(self.name, self.remote)
        return challenge.encode()

    def _keys(self, name: str) -> tuple[bytes, bytes, bytes, int]:
        self.name = name
        record: ScramRecord = self.users.record(name)
        return record.salt, record.stored_key, record.server_key, record.iterations


class External(Mechanism):
    """TLS has checked a certificate (RFC 4422, appendix A)."""

    def __init__(
        self, users: Users, certificate_name: str, *, is_loopback: bool, remote: str = ""
    ) -> None:
        super().__init__()
        self.remote = remote
        self.users = users
        self.certificate_name = certificate_name
        self.is_loopback = is_loopback

    def respond(self, response: bytes) -> bytes:
        """Let in the user that the certificate names."""
        name = self.certificate_name
        if _text(response) not in ("", name):
            raise malformed("an EXTERNAL response that is not the certificate's name")
        self.identity = self.users.identity(name, is_loopback=self.is_loopback, remote=self.remote)
        return b""


class Anonymous(Mechanism):
    """No proof of identity (RFC 4505)."""

    def __init__(self, users: Users, *, remote: str = "") -> None:
        super().__init__()
        self.users = users
        self.remote = remote

    def respond(self, response: bytes) -> bytes:
        """Let the client in as the anonymous user."""
        self.identity = self.users.anonymous(self.remote)
        return b""


def _text(response: bytes) -> str:
    try:
        return response.decode()
    except UnicodeDecodeError as error:
        raise malformed("a SASL response that is not UTF-8") from error
