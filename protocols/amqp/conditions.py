"""Conditions: the broker's error codes in AMQP's words, in one table.

The conditions are those of AMQP 1.0 sections 2.8.15 to 2.8.18 and 4.5.8. The sentence of an error
goes along as the description, for people. Which endpoint carries it (delivery, link, connection) is
decided where the error is raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from proton import Condition, symbol

if TYPE_CHECKING:
    from proton._data import PythonAMQPData

from covey.core.errors import BrokerError

DELIVERY_TAG: Final = "delivery-tag"  # in the info of an error that one delivery has made
Told = bytes | str | bool  # what the info of an error holds

INTERNAL_ERROR: Final = "amqp:internal-error"

CONDITIONS: Final[dict[str, str]] = {
    "invalid": "amqp:invalid-field",
    "not-found": "amqp:not-found",
    "exists": "amqp:not-allowed",
    "denied": "amqp:unauthorized-access",
    "limit": "amqp:resource-limit-exceeded",
    "full": "amqp:resource-limit-exceeded",
    "conflict": "amqp:precondition-failed",
    "protocol-error": "amqp:not-allowed",
    "decode-error": "amqp:decode-error",
    "framing-error": "amqp:connection:framing-error",
    "illegal-state": "amqp:illegal-state",
    "not-implemented": "amqp:not-implemented",
    "timeout": "amqp:resource-limit-exceeded",
    "deleted": "amqp:resource-deleted",
    "locked": "amqp:resource-locked",
    "container-in-use": "amqp:invalid-field",
    "replaced": "amqp:resource-locked",
    "handle-in-use": "amqp:session:handle-in-use",
    "unattached-handle": "amqp:session:unattached-handle",
    "window-violation": "amqp:session:window-violation",
    "stolen": "amqp:link:stolen",
    "no-credit": "amqp:link:transfer-limit-exceeded",
    "too-large": "amqp:link:message-size-exceeded",
    "shutdown": "amqp:connection:forced",
    "unavailable": "amqp:connection:forced",
    "moved": "amqp:connection:forced",
    "no-transaction": "amqp:transaction:unknown-id",
    "group-done": "covey:group-done",
    "rollback": "amqp:transaction:rollback",
}

# What else is told with some of them.
INFO: Final[dict[str, dict[str, Told]]] = {
    "container-in-use": {"invalid-field": symbol("container-id")},
    "replaced": {"sole-connection-enforcement": True},
}

DESCRIPTION_MAX: Final = 320  # bytes: whatever says why must fit the smallest frame, 512


def condition_name(error: BrokerError) -> str:
    """Return the condition that stands for an error."""
    return CONDITIONS.get(error.code, INTERNAL_ERROR)


def condition_of(error: BrokerError, info: Mapping[str, Told] | None = None) -> Condition:
    """Return an error as a link or a connection carries it."""
    info = info or INFO.get(error.code)
    told: PythonAMQPData | None = (
        {symbol(name): value for name, value in info.items()} if info else None
    )
    return Condition(condition_name(error), description_of(error), told)


def description_of(error: BrokerError) -> str:
    """Return an error's sentence, as much of it as can be told."""
    return error.text.encode("utf-8", "replace")[:DESCRIPTION_MAX].decode("utf-8", "ignore")
