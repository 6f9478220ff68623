"""Route: one row of the table of all requests, and how the row for a path is found.

Paths are cut into segments before they are decoded, so that a name may hold any character:
`/queues/a%2Fb` is the queue `a/b`. A row drives routing, permission, the checks of query and body,
and the OpenAPI document. So nothing has to be written twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote

from starlette.responses import Response

from covey.protocols.http.answer import HttpError
from covey.protocols.http.schemas import Body

if TYPE_CHECKING:
    from covey.protocols.http.ask import Ask

QUERY_FIELDS_MAX: Final = 32  # no route has a third as many
DIGITS_MAX: Final = 18  # of a number in a query, which then fits into 64 bits

Setting = int | bool | str
Handler = Callable[["Ask"], Awaitable[Response]]


class Need(Enum):
    """Which right a route needs."""

    NOTHING = "nothing"  # health: a probe has no password
    OPEN = "open"  # the console's own files and its sign-in form, before any password
    LOGIN = "login"
    MANAGE = "manage"
    SOME = "some"  # a list: the right to manage some things is enough, and shows just those
    SEND = "send"  # checked by the core, which knows the destination
    BROWSE = "browse"


@dataclass(frozen=True, slots=True)
class Param:
    """A field of the query; the type of its default is its type."""

    name: str
    default: Setting
    text: str
    least: int = 0
    most: int = 2**53

    def read(self, given: str) -> Setting:
        """Read the field's value from a query; raises HttpError if it has the wrong type."""
        if isinstance(self.default, bool):
            if given not in ("true", "false"):
                raise HttpError(f"{self.name}: {given[:40]!r} is neither true nor false", "invalid")
            return given == "true"
        if isinstance(self.default, str):
            return given
        is_number = given.isascii() and given.isdigit() and len(given) <= DIGITS_MAX
        if not is_number or not self.least <= int(given) <= self.most:
            raise HttpError(
                f"{self.name}: {given[:40]!r} is not a number from {self.least} to {self.most}",
                "invalid",
            )
        return int(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The request of one method and path."""

    method: str
    path: str
    need: Need
    handler: Handler
    summary: str
    action: str = ""  # the name of the change in `core.events.audit`; "": no change
    entity: str = ""  # a type of `core.management.describe`, for the handlers that serve several
    query: tuple[Param, ...] = ()
    body: type[Body] | None = None
    status: int = 200
    media_type: str = "application/json"

    @property
    def may_lack_body(self) -> bool:
        """Return True if this is a command whose body has optional fields only."""
        is_command = self.method == "POST" and not self.path.endswith("/messages")
        fields = () if self.body is None else self.body.model_fields.values()
        return is_command and not any(field.is_required() for field in fields)

    @property
    def subject(self) -> str:
        """Return the type of the thing that the path names, for permissions; else the broker.

        `/api/v1/queues/{name}/purge` is about a queue, whatever the answer shows.
        """
        nouns = self.path.partition("/{name}")[0].rpartition("/")
        if "{name}" not in self.path:
            return "broker"
        return "policy" if nouns[2] == "policies" else nouns[2].removesuffix("s")

    def matches(self, segments: Sequence[str]) -> bool:
        """Return True if a path, cut at its slashes, belongs to this route."""
        own = self.path.split("/")
        return len(own) == len(segments) and all(
            (mine.startswith("{") and theirs) or mine == theirs
            for mine, theirs in zip(own, segments, strict=True)
        )

    def names(self, segments: Sequence[str]) -> dict[str, str]:
        """Return the values of the path's placeholders; raises HttpError if one is not UTF-8."""
        own = self.path.split("/")
        try:
            return {
                mine[1:-1]: unquote(theirs, errors="strict")
                for mine, theirs in zip(own, segments, strict=True)
                if mine.startswith("{")
            }
        except UnicodeDecodeError as error:
            raise HttpError("the path is not UTF-8", "invalid") from error

    def settings(self, query: bytes) -> dict[str, Setting]:
        """Return the query's fields, with the defaults of those not given."""
        known = {param.name: param for param in self.query}
        found = {param.name: param.default for param in self.query}
        try:
            fields = parse_qsl(
                query.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=QUERY_FIELDS_MAX,
            )
        except ValueError as error:
            raise HttpError("the query cannot be read", "invalid") from error
        for name, given in fields:
            if name not in known:
                names = ", ".join(known) or "none"
                raise HttpError(
                    f"unknown field {name[:40]!r} in the query; known: {names}", "invalid"
                )
            found[name] = known[name].read(given)
        return found


def find(routes: Sequence[Route], method: str, raw_path: bytes) -> tuple[Route, dict[str, str]]:
    """Return the route and the names in the path; raises HttpError if there is none."""
    segments = raw_path.decode("ascii", "replace").split("/")
    at_path = [route for route in routes if route.matches(segments)]
    if not at_path:
        raise HttpError("there is nothing at this path", "not-found")
    wanted = "GET" if method == "HEAD" else method
    for route in at_path:
        if route.method == wanted:
            return route, route.names(segments)
    allowed = ", ".join(sorted({route.method for route in at_path}))
    raise HttpError(
        f"{method[:20]} is not possible here, only {allowed}", "method", {"allow": allowed}
    )
