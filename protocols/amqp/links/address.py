"""Qpid address strings: `name/subject; {create: always, node: {...}, link: {...}}`.

An address is an address string only if options in braces follow the name. Anything else is a plain
name: clients name queues `orders/eu`, and a `/` alone must not cut such a name in two. Names that
begin with a prefix (`/queue/x`, `topic://x`) have no subject either.

Values are written as in the examples of the Qpid page: numbers, 'text' or "text" with backslash
escapes, bare words, {maps} and [lists]. This file checks what an option may be. Its users decide
what the option does. A policy that is not given is `never`, as in Qpid.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

LENGTH_MAX: Final = 16 * 1024  # characters; the longest real addresses have about 300
DEPTH_MAX: Final = 8  # maps in maps; the syntax itself needs at most 4
ERROR_TEXT_MAX: Final = 40  # how much of a client's text an error repeats

POLICIES: Final = ("always", "sender", "receiver", "never")
MODES: Final = ("consume", "browse")
NODE_TYPES: Final = ("queue", "topic")
RELIABILITIES: Final = ("unreliable", "at-most-once", "at-least-once", "exactly-once")

OPTIONS: Final = ("create", "delete", "assert", "mode", "node", "link")
NODE_OPTIONS: Final = (
    "type", "durable", "x-declare", "x-bindings", "properties", "capabilities"
)  # fmt: skip
LINK_OPTIONS: Final = (
    "name", "durable", "reliability", "x-declare", "x-bindings", "x-subscribe", "selector", "filter"
)  # fmt: skip

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<mark>[{}\[\],:])
      | "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>(?:[^'\\]|\\.)*)'
      | (?P<word>[A-Za-z0-9_.+\-/*\#$]+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class AddressError(ValueError):
    """An address string cannot be read; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed address: the node's name, and what the client asks of node and link."""

    name: str
    subject: str = ""
    has_options: bool = False
    create: str = "never"
    delete: str = "never"
    asserted: str = "never"
    mode: str = "consume"
    node_type: str = ""
    node: Mapping[str, object] = field(default_factory=dict)
    link: Mapping[str, object] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, object]:
        """The queue's declare arguments: those of x-declare, or the node's properties."""
        declare = _map(self.node, "x-declare")
        outer = {key: value for key, value in declare.items() if key in ("durable", "auto-delete")}
        if "durable" in self.node:
            outer["durable"] = self.node["durable"]
        return {**outer, **_map(declare, "arguments"), **_map(self.node, "properties")}

    @property
    def selector(self) -> str:
        """The link's selector, "" if there is none."""
        return str(self.link.get("selector", ""))

    def applies(self, policy: str, *, to_sender: bool) -> bool:
        """Return True if a policy holds for a sending or a receiving client."""
        return policy == "always" or policy == ("sender" if to_sender else "receiver")


def parse_address(text: str) -> Address:
    """Read an address; raises AddressError for options that make no sense."""
    if len(text) > LENGTH_MAX:
        raise AddressError(f"address: {len(text)} characters, at most {LENGTH_MAX}")
    head, semicolon, tail = text.partition(";")
    if not semicolon or not tail.lstrip().startswith("{"):
        return Address(text)
    options = _Reader(tail).whole_map()
    _check_names("address", options, OPTIONS)
    node = _map(options, "node")
    link = _map(options, "link")
    _check_names("address, node", node, NODE_OPTIONS)
    _check_names("address, link", link, LINK_OPTIONS)
    _choice(link, "reliability", RELIABILITIES, "at-least-once")
    name, subject = _split_subject(head.strip())
    return Address(
        name=name,
        subject=subject,
        has_options=True,
        create=_choice(options, "create", POLICIES, "never"),
        delete=_choice(options, "delete", POLICIES, "never"),
        asserted=_choice(options, "assert", POLICIES, "never"),
        mode=_choice(options, "mode", MODES, "consume"),
        node_type=_choice(node, "type", NODE_TYPES, ""),
        node=node,
        link=link,
    )


def _split_subject(head: str) -> tuple[str, str]:
    if head.startswith("/") or "://" in head:
        return head, ""
    name, _, subject = head.partition("/")
    return name, subject


def _map(options: Mapping[str, object], name: str) -> dict[str, object]:
    value = options.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise AddressError(f"address, {name}: a map in braces is needed, not {_shown(value)}")
    return value


def _choice(
    options: Mapping[str, object], name: str, choices: tuple[str, ...], default: str
) -> str:
    value = options.get(name, default)
    if value == default or value in choices:
        return str(value)
    raise AddressError(f"address, {name}: {_shown(value)} is none of {', '.join(choices)}")


def _check_names(place: str, options: Mapping[str, object], known: tuple[str, ...]) -> None:
    for name in options:
        if name not in known:
            raise AddressError(f"{place}: unknown option {_shown(name)}; there are {known}")


def _shown(value: object) -> str:
    return repr(value)[:ERROR_TEXT_MAX]


class _Reader:
    """Reads option values from left to right, one token ahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def whole_map(self) -> dict[str, object]:
        """Read a map that reaches to the end of the text."""
        self._mark("{")
        found = self._map(1)
        if self.text[self.at :].strip():
            raise self._error("something follows the options")
        return found

    def _map(self, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        while not self._skip("}"):
            if found:
                self._mark(",")
                if self._skip("}"):
                    break
            key = self._value(depth)
            if not isinstance(key, str | int) or str(key) in found:
                raise self._error(f"{_shown(key)} cannot be a key here")
            self._mark(":")
            found[str(key)] = self._value(depth)
        return found

    def _list(self, depth: int) -> list[object]:
        found: list[object] = []
        while not self._skip("]"):
            if found:
                self._mark(",")
                if self._skip("]"):
                    break
            found.append(self._value(depth))
        return found

    def _value(self, depth: int) -> object:
        if depth > DEPTH_MAX:
            raise self._error(f"nested deeper than {DEPTH_MAX}")
        if self._skip("{"):
            return self._map(depth + 1)
        if self._skip("["):
            return self._list(depth + 1)
        token = _TOKEN.match(self.text, self.at)
        if token is None or token["mark"]:
            raise self._error("a value is needed")
        self.at = token.end()
        if token["word"] is not None:
            return _word(token["word"])
        quoted = token["double"] if token["double"] is not None else token["single"]
        return _ESCAPE.sub(_unescape, quoted)

    def _skip(self, mark: str) -> bool:
        token = _TOKEN.match(self.text, self.at)
        if token is None or token["mark"] != mark:
            return False
        self.at = token.end()
        return True

    def _mark(self, mark: str) -> None:
        if not self._skip(mark):
            raise self._error(f"{mark!r} is needed")

    def _error(self, cause: str) -> AddressError:
        rest = self.text[self.at : self.at + ERROR_TEXT_MAX]
        return AddressError(f"address options, position {self.at + 1}, at {rest!r}: {cause}")


def _word(word: str) -> object:
    """Read a bare word: a truth value, a number, else text."""
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    try:
        return int(word)
    except ValueError:
        pass
    try:
        return float(word) if any(char.isdigit() for char in word) else word
    except ValueError:
        return word


def _unescape(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    if code:
        return chr(int(code, 16))
    return _ESCAPED.get(found[3], found[3])
