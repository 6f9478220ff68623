"""Place: where a broker is and who asks, as qpid-config writes it.

    [tls://][user[/password]@]host[:port][/virtual host]

    localhost    10.1.1.7:5672    tls://ann@broker.example    localhost/shop.example

Without a user it is the default one, whose password works from the broker's own machine only. If a
user has no password here (`password` is None), the caller asks for it, because everybody on the
machine can read a command line. With tls:// the broker must show a certificate for that host,
signed by an authority of this system or of the file in SSL_CERT_FILE. The virtual host is given by
one of its host names. If it is left out, the broker's address must be one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_USER: Final = "admin"
DEFAULT_PASSWORD: Final = "password"
PORT_MAX: Final = 65535
TLS_PREFIX: Final = "tls://"
TLS_PORTS: Final = {5672: 5671, 61613: 61614}  # by a protocol's plain port: its port for TLS


@dataclass(frozen=True, slots=True)
class Place:
    """A broker's address with a login for it."""

    host: str
    port: int
    user: str
    password: str | None
    is_tls: bool = False
    virtual_host: str = ""  # one of its host names; "": the broker's address

    @property
    def address(self) -> str:
        """The place without its password, for people and for URLs."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_place(text: str, default_port: int) -> Place:
    """Read a place; ValueError says what is wrong with it."""
    scheme, colon, _ = text.partition("://")
    is_tls = text.startswith(TLS_PREFIX)
    if colon and scheme.isalpha() and not is_tls:
        raise ValueError(f"{scheme}:// is not {TLS_PREFIX}, which alone may stand before a place")
    if is_tls:
        default_port = TLS_PORTS.get(default_port, default_port)
    login, at, rest = text.removeprefix(TLS_PREFIX).rpartition("@")
    user, slash, password = login.partition("/")
    if at and not user:
        raise ValueError(f"no user before the @ in {rest}")
    address, _, virtual_host = rest.partition("/")
    host, port = _split(address, default_port)
    if not at:
        return Place(host, port, DEFAULT_USER, DEFAULT_PASSWORD, is_tls, virtual_host)
    return Place(host, port, user, password if slash else None, is_tls, virtual_host)


def _split(text: str, default_port: int) -> tuple[str, int]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{text} is not an address: [host]:port is meant")
        digits = rest[1:]
    elif text.count(":") > 1:  # a bare IPv6 address
        host, digits = text, ""
    else:
        host, _, digits = text.partition(":")
    if not digits:
        return host or "localhost", default_port
    if not (digits.isascii() and digits.isdigit() and int(digits) <= PORT_MAX):
        raise ValueError(f"{digits} is not a port")
    return host or "localhost", int(digits)
