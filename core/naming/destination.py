# Compiled by mypyc: see setup.py.
"""Where messages go: what a destination is, and how its text on the wire is read and written.

A `Destination` is a kind and a canonical name, the same for every protocol and every `Syntax`:
parts joined by `.`, each part in the one form that `path` gives it. Two texts that mean the same
place give equal destinations, so a destination can be a key.

`Syntax` holds the spelling and the limits. The spelling is the attributes of the Apollo STOMP
manual's `stomp` element, plus the prefixes that other brokers' clients use. `Syntax` reads. It does
not know which queues exist, and it does not compile patterns (that is `pattern`).

- `/temp-queue/x` is a name that only its connection can resolve. It is read with `is_temporary`
  set, and `temporary()` gives the real `temp.<broker id>.<connection id>.x`. That real name is an
  ordinary one that anybody may send to, so `is_temporary` is not set on it.
- The name of a durable subscription is one opaque text: no wildcards, dots are ordinary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from covey.core.errors import RefusedError, quoted
from covey.core.naming.path import (
    CANONICAL,
    LISTED_CHARACTERS,
    Atom,
    AtomKind,
    Marks,
    atoms,
    cut,
    encode,
    escape,
    write,
)

TEMPORARY_ROOT = "temp."
"""Every real temporary destination's name starts so."""

DURABLE_PREFIX = "dsub:"
"""How the queue behind a durable subscription is called, before the subscription's name. No other
queue's name begins so: else a queue could hide a subscription from who manages it."""

COMPAT_DESCENDANT_WILDCARDS = (">", "#")
"""How ActiveMQ and RabbitMQ clients write any-descendant."""


class Kind(Enum):
    """The three sorts of places a client can name."""

    QUEUE = "queue"
    TOPIC = "topic"
    DSUB = "dsub"


@dataclass(frozen=True, slots=True)
class Destination:
    """One place: its kind and its canonical name (or canonical pattern)."""

    kind: Kind
    name: str
    is_pattern: bool = False
    is_temporary: bool = False

    def __hash__(self) -> int:
        # Called once a message. The name alone is distinct enough, and Python caches a text's
        # hash. The hash of an Enum member is worked out anew each time.
        return hash(self.name)

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.name}"


def temporary_prefix(broker_id: str, connection_id: str) -> str:
    """Return how the names of one connection's temporary destinations start."""
    return f"{TEMPORARY_ROOT}{encode(broker_id)}.{encode(connection_id)}."


@dataclass(frozen=True)
class Syntax:
    """How destinations are written on one connector, and how large they may be."""

    queue_prefix: str = "/queue/"
    topic_prefix: str = "/topic/"
    dsub_prefix: str = "/dsub/"
    temp_queue_prefix: str = "/temp-queue/"
    temp_topic_prefix: str = "/temp-topic/"
    path_separator: str = "."
    destination_separator: str = ","
    any_child_wildcard: str = "*"
    any_descendant_wildcard: str = "**"
    regex_wildcard_start: str = "{"
    regex_wildcard_end: str = "}"
    strict_names: bool | Literal["manual"] = False
    compat_wildcards: bool = False
    default_kind: Kind | None = Kind.QUEUE
    name_length_max: int = 1024
    levels_max: int = 32
    parts_max: int = 32
    wildcards_max: int = 16
    pattern_length_max: int = 256
    descendant_matches_zero: bool = False
    _marks: Marks = field(init=False, repr=False, compare=False)
    _listed: frozenset[str] | None = field(init=False, repr=False, compare=False)
    _prefixes: tuple[tuple[str, Kind, bool], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        marks = Marks(
            self.path_separator,
            self.any_child_wildcard,
            self.any_descendant_wildcard,
            self.regex_wildcard_start,
            self.regex_wildcard_end,
        )
        _check_marks((*marks, self.destination_separator))
        object.__setattr__(self, "_marks", marks)
        object.__setattr__(self, "_listed", _listed(self.strict_names))
        object.__setattr__(self, "_prefixes", self._prefix_table())

    def parse(self, text: str, *, allow_patterns: bool) -> tuple[Destination, ...]:
        """Read a wire text: one destination, or the distinct ones of a composite, in order."""
        if len(text) > self.parts_max * self.name_length_max:
            raise _refused(text, f"{len(text)} characters are too many to look at", "limit")
        pieces = cut(text, self.destination_separator, self._marks)
        if len(pieces) > self.parts_max:
            cause = f"{len(pieces)} destinations in one composite, at most {self.parts_max}"
            raise _refused(text, cause, "limit")
        found = [self._parse_one(piece.lstrip(" ")) for piece in pieces]
        for destination, piece in zip(found, pieces, strict=True):
            if destination.is_pattern and not allow_patterns:
                raise _refused(piece, "wildcards can only be used to subscribe", "invalid")
        return tuple(dict.fromkeys(found))

    def temporary(self, kind: Kind, name: str, broker_id: str, connection_id: str) -> Destination:
        """Return the real destination behind a connection's temporary name (canonical)."""
        return Destination(kind, temporary_prefix(broker_id, connection_id) + name)

    def durable(self, subscription_id: str) -> Destination:
        """Return the destination of the durable subscription with this `id` header."""
        if not subscription_id:
            raise RefusedError("durable subscription: its id is empty", "invalid")
        return Destination(Kind.DSUB, self._checked(encode(subscription_id, keep=".")))

    def lasting(self, places: tuple[Destination, ...]) -> tuple[Destination, ...]:
        """Return the destinations of a durable subscription, independent of this connector.

        Only on some connectors may `**` match no part at all. There the result also has each
        destination without its `**`, since the subscription outlives the connection.
        """
        if not self.descendant_matches_zero:
            return places
        found = list(places)
        for place in found:  # `found` grows meanwhile
            shorter = dict.fromkeys(_without_descendants(place))
            found += [one for one in shorter if one not in found]
            if len(found) > self.parts_max:
                raise _refused(place.name, f"it means more than {self.parts_max} patterns", "limit")
        return tuple(found)

    def render(self, destination: Destination) -> str:
        """Write a destination in this syntax; parsing the text gives the same destination."""
        prefix = self._prefix_of(destination)
        reserved = "".join(self._marks) + self.destination_separator
        if destination.kind is Kind.DSUB:
            return prefix + escape(destination.name, reserved.replace(".", ""))
        parts: list[str] = []
        for part in cut(destination.name, CANONICAL.separator, CANONICAL):
            written = [
                escape(atom.text, reserved)
                if atom.kind is AtomKind.TEXT
                else write(atom, self._marks)
                for atom in atoms(part, CANONICAL)
            ]
            parts.append("".join(written))
        return prefix + self.path_separator.join(parts)

    def _parse_one(self, text: str) -> Destination:
        kind, is_temporary, name = self._split_prefix(text)
        if not name:
            raise _refused(text, "the name is empty", "invalid")
        if len(name) > self.name_length_max:
            raise _refused(text, f"the name has more than {self.name_length_max} bytes", "limit")
        if kind is Kind.DSUB:
            name = encode(name, listed=self._listed, keep=".")
            return Destination(kind, self._checked(name))
        parts = [list(self._canonical_atoms(part)) for part in self._cut_path(text, name)]
        canonical = CANONICAL.separator.join(
            "".join(write(atom, CANONICAL) for atom in part) for part in parts
        )
        wildcards = sum(atom.kind is not AtomKind.TEXT for part in parts for atom in part)
        self._check_pattern(text, canonical, wildcards)
        if wildcards and is_temporary:
            raise _refused(text, "a temporary destination takes no wildcards", "invalid")
        if kind is Kind.QUEUE and canonical.startswith(DURABLE_PREFIX):
            cause = f"no queue's name begins with {DURABLE_PREFIX}, use {self.dsub_prefix}NAME"
            raise _refused(text, cause, "invalid")
        return Destination(kind, self._checked(canonical), wildcards > 0, is_temporary)

    def _split_prefix(self, text: str) -> tuple[Kind, bool, str]:
        for prefix, kind, is_temporary in self._prefixes:
            if text.startswith(prefix):
                return kind, is_temporary, text[len(prefix) :]
        if text.startswith("/") or "://" in text:
            raise _refused(text, f"unknown prefix, use {self._known_prefixes()}", "invalid")
        if self.default_kind is None:
            raise _refused(text, f"no prefix, use {self._known_prefixes()}", "invalid")
        return self.default_kind, False, text

    def _cut_path(self, text: str, name: str) -> list[str]:
        parts = cut(name, self.path_separator, self._marks)
        if len(parts) > self.levels_max:
            cause = f"{len(parts)} levels in the path, at most {self.levels_max}"
            raise _refused(text, cause, "limit")
        if not all(parts):
            raise _refused(text, "a part of the path is empty", "invalid")
        return parts

    def _canonical_atoms(self, part: str) -> Iterator[Atom]:
        if self.compat_wildcards and part in COMPAT_DESCENDANT_WILDCARDS:
            part = self.any_descendant_wildcard
        for atom in atoms(part, self._marks):
            if atom.kind is AtomKind.TEXT:
                yield Atom(AtomKind.TEXT, encode(atom.text, listed=self._listed))
            else:
                yield atom

    def _check_pattern(self, text: str, canonical: str, wildcards: int) -> None:
        if wildcards > self.wildcards_max:
            cause = f"{wildcards} wildcards in one pattern, at most {self.wildcards_max}"
            raise _refused(text, cause, "limit")
        if wildcards and len(canonical) > self.pattern_length_max:
            cause = f"the pattern has more than {self.pattern_length_max} characters"
            raise _refused(text, cause, "limit")

    def _checked(self, name: str) -> str:
        """Check the encoded name against the limit, too: a raw character can become nine bytes."""
        if len(name) > self.name_length_max:
            raise _refused(name, f"the name has more than {self.name_length_max} bytes", "limit")
        return name

    def _prefix_of(self, destination: Destination) -> str:
        if destination.kind is Kind.DSUB:
            return self.dsub_prefix
        is_queue = destination.kind is Kind.QUEUE
        if destination.is_temporary:
            return self.temp_queue_prefix if is_queue else self.temp_topic_prefix
        return self.queue_prefix if is_queue else self.topic_prefix

    def _prefix_table(self) -> tuple[tuple[str, Kind, bool], ...]:
        """Return all prefixes, the longest first, so that none hides a longer one."""
        own = (
            (self.queue_prefix, Kind.QUEUE, False),
            (self.topic_prefix, Kind.TOPIC, False),
            (self.dsub_prefix, Kind.DSUB, False),
            (self.temp_queue_prefix, Kind.QUEUE, True),
            (self.temp_topic_prefix, Kind.TOPIC, True),
        )
        if len({prefix for prefix, _, _ in own}) < len(own):
            raise RefusedError("destination syntax: two prefixes are the same", "invalid")
        aliases = (
            ("queue://", Kind.QUEUE, False),
            ("topic://", Kind.TOPIC, False),
            ("/queues/", Kind.QUEUE, False),
            ("/topics/", Kind.TOPIC, False),
        )
        return tuple(sorted(own + aliases, key=lambda row: len(row[0]), reverse=True))

    def _known_prefixes(self) -> str:
        own = (self.queue_prefix, self.topic_prefix, self.dsub_prefix)
        return "{}, {} or {}".format(*map(quoted, own))


def _listed(strict_names: bool | Literal["manual"]) -> frozenset[str] | None:
    """Return the characters that need no `%XX` in a name; None means any character.

    The manual's list lacks the `/` that its own examples use.
    """
    if strict_names == "manual":
        return LISTED_CHARACTERS | {"/"}
    return LISTED_CHARACTERS if strict_names else None


def _check_marks(marks: tuple[str, ...]) -> None:
    """Refuse marks that could be mistaken for parts of names or for each other."""
    if len(set(marks)) < len(marks):
        raise RefusedError("destination syntax: two marks are the same", "invalid")
    for mark in marks:
        if not mark or not mark.isascii() or any(char.isalnum() or char == "%" for char in mark):
            cause = "a separator or wildcard is ASCII punctuation other than '%'"
            raise RefusedError(f"destination syntax: {quoted(mark)}: {cause}", "invalid")


def _refused(text: str, cause: str, code: str) -> RefusedError:
    return RefusedError(f"destination {quoted(text)}: {cause}", code)


def _without_descendants(place: Destination) -> Iterator[Destination]:
    """Yield the destination without one of its `**`, for each of them."""
    parts = cut(place.name, CANONICAL.separator, CANONICAL)
    for at, part in enumerate(parts):
        if part == CANONICAL.any_descendant and len(parts) > 1:
            left = parts[:at] + parts[at + 1 :]
            kinds = [atom.kind for one in left for atom in atoms(one, CANONICAL)]
            is_pattern = any([kind is not AtomKind.TEXT for kind in kinds])
            yield Destination(place.kind, CANONICAL.separator.join(left), is_pattern)
