"""Bodies: what may stand in a request, checked before anybody acts on it.

Unknown fields are refused, as in the configuration. The models also are the schemas of the OpenAPI
document, so the document promises what is checked.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from covey.config.definitions import Definitions
from covey.core.model.message import DEFAULT_PRIORITY

# Each becomes a header of a STOMP frame, which may have no more by default (`max_headers`).
PROPERTIES_MAX: Final = 1000

# AMQP's long; a larger number becomes a decimal one.
Whole = Annotated[int, Field(strict=True, ge=-(2**63), le=2**63 - 1)]
Decimal = Annotated[float, Field(strict=True, allow_inf_nan=False)]
REASON_MAX = 1024  # characters
Truth = Annotated[bool, Field(strict=True)]
PropertyValue = Truth | Whole | Decimal | str
Arguments = dict[str, PropertyValue | None]


class Body(BaseModel):
    """A JSON object with known fields only."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class QueueBody(Body):
    """How a queue is declared: Qpid's arguments, or ours behind `covey.`."""

    arguments: Arguments = {}


class UserBody(Body):
    """A user: the password is clear text or a SCRAM record; only a record is kept."""

    password: Annotated[str, Field(min_length=1)] | None = None
    roles: tuple[str, ...] = ()


class PermissionBody(Body):
    """What somebody may do, as in `[[permission]]`."""

    who: tuple[str, ...]
    may: tuple[str, ...]
    on: str = "**"


class PolicyBody(Body):
    """The policy of the queues that match, as in `[[queue]]`."""

    settings: dict[str, Any]


class MessageBody(Body):
    """A message to send; its content is `body` (text) or `body_base64`."""

    body: str | None = None
    body_base64: str | None = None
    group: str = ""
    properties: Annotated[
        dict[Annotated[str, Field(min_length=1)], PropertyValue], Field(max_length=PROPERTIES_MAX)
    ] = {}
    persistent: Truth = True
    priority: Annotated[int, Field(strict=True, ge=0, le=9)] = DEFAULT_PRIORITY
    ttl_ms: Annotated[int, Field(strict=True, ge=0, le=2**40)] = 0
    """Time to live; 0 = for ever."""
    message_id: str = ""
    correlation_id: str = ""
    reply_to: str = ""
    subject: str = ""
    content_type: str = ""

    @field_validator("body_base64")
    @classmethod
    def _decodable(cls, text: str | None) -> str | None:
        if text is not None:
            try:
                base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError) as error:
                raise ValueError("is not base64") from error
        return text

    @model_validator(mode="after")
    def _one_body(self) -> MessageBody:
        if self.body is not None and self.body_base64 is not None:
            raise ValueError("body and body_base64 are two bodies")
        return self

    def content(self) -> bytes:
        """Return the bytes of the body."""
        if self.body_base64 is not None:
            return base64.b64decode(self.body_base64)
        return (self.body or "").encode()


class SignInBody(Body):
    """Who signs in."""

    name: Annotated[str, Field(max_length=1024)]
    password: Annotated[str, Field(max_length=1024)]


HeldWord = Literal["leave", "wait"]
Seqs = Annotated[list[Annotated[int, Field(strict=True, ge=1)]], Field(min_length=1)]


class HeldBody(Body):
    """What becomes of a group's messages that a consumer holds: they stay, or are waited for."""

    held: HeldWord = "leave"


class MoveGroupBody(HeldBody):
    """Where a group is moved to."""

    to: Annotated[str, Field(min_length=1)]


class BuryGroupBody(HeldBody):
    """Why a group is dead-lettered."""

    reason: Annotated[str, Field(max_length=REASON_MAX)] = ""


class ReasonBody(Body):
    """Why something is done."""

    reason: Annotated[str, Field(max_length=REASON_MAX)] = ""


class WayBody(Body):
    """Which way of a queue is meant: its producers' (in), its consumers' (out), or both."""

    way: Literal["in", "out", "both"] = "both"


class PauseBody(WayBody):
    """Which way of a queue is to stand still, and why."""

    reason: Annotated[str, Field(max_length=REASON_MAX)] = ""


class MoveSpaceBody(Body):
    """Which broker of the cluster is to serve a virtual host."""

    node: Annotated[str, Field(min_length=1, max_length=200)]


class DrainBody(Body):
    """Whether a broker is to serve nothing, so that it can be stopped."""

    draining: bool = True


class RetryBody(Body):
    """Which dead letters go back: all, of one group, that match, so many, so many a second."""

    group: str = ""
    selector: str = ""
    count: Annotated[int, Field(strict=True, ge=0)] = 0
    """At most so many; 0 = all."""
    rate: Annotated[float, Field(ge=0, le=1_000_000)] = 0
    """At most so many a second; 0 = no limit."""


class SeqsBody(Body):
    """Messages by their numbers."""

    seqs: Seqs


class MoveSeqsBody(SeqsBody):
    """Messages by their numbers, and where they go."""

    to: Annotated[str, Field(min_length=1)]


class BurySeqsBody(SeqsBody):
    """Messages by their numbers, and why they are dead-lettered."""

    reason: Annotated[str, Field(max_length=REASON_MAX)] = ""


class DefinitionsBody(Definitions, Body):
    """Everything that was declared, as exported."""
