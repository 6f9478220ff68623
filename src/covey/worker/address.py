"""Address: where a broker is and who asks, as a URL.

    covey://user:password@host:port/virtual-host        port 61613
    covey+tls://user:password@host                      port 61614, with a checked certificate
    covey://user:password@one,two:61700,three           several brokers, tried in turn

Without a user, the user is `admin` with the password `password`, which a broker accepts from its
own machine only. In a user, a password or a virtual host, special characters are written as %XX.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

PORTS: Final = {"covey": 61613, "covey+tls": 61614}
PORT_MAX: Final = 65535
DEFAULT_LOGIN: Final = ("admin", "password")


@dataclass(frozen=True, slots=True)
class Address:
    """One broker, with a login for it."""

    host: str
    port: int
    user: str
    password: str
    is_tls: bool = False
    virtual_host: str = ""  # "": the one with the broker's address among its names

    def __str__(self) -> str:
        """Return the address without its secret, for people."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(url: str | Sequence[str]) -> list[Address]:
    """Read one URL or several; ValueError says what is wrong, without the password."""
    urls = [url] if isinstance(url, str) else list(url)
    found = [address for each in urls for address in _parse(each)]
    if not found:
        raise ValueError("no broker is named")
    return found


def _parse(url: str) -> list[Address]:
    scheme, mark, rest = url.partition("://")
    if not mark or scheme not in PORTS:
        named = scheme if mark else "no scheme"
        raise ValueError(f"{named}: a broker's URL begins with covey:// or covey+tls://")
    rest, slash, path = rest.partition("/")
    login, at, hosts = rest.rpartition("@")
    user, password = _login(login) if at else DEFAULT_LOGIN
    host_name = unquote(path) if slash else ""
    return [
        Address(*_place(each.strip(), PORTS[scheme]), user, password, scheme != "covey", host_name)
        for each in hosts.split(",")
    ]


def _login(text: str) -> tuple[str, str]:
    user, colon, password = text.partition(":")
    if not user or not colon:
        raise ValueError("before the @ of a broker's URL stands user:password")
    return unquote(user), unquote(password)


def _place(text: str, default_port: int) -> tuple[str, int]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{text} is not an address: [host]:port is meant")
        digits = rest[1:]
    else:
        host, _, digits = text.partition(":")
    if not host:
        raise ValueError("a broker's URL lacks its host")
    if not digits:
        return host, default_port
    if not (digits.isascii() and digits.isdigit() and int(digits) <= PORT_MAX):
        raise ValueError(f"{digits} is not a port")
    return host, int(digits)
