"""Conditions: one table from the broker's error codes to AMQP's conditions.

The conditions are those of AMQP 1.0 sections 2.8.15 to 2.8.18 and 4.5.8. The error's text becomes
the description, for people to read. The code that raises the error decides what carries it (a
delivery, a link or the connection).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from proton import Condition, symbol

if TYPE_CHECKING:
    from proton._data import PythonAMQPData

from covey.core.errors import BrokerError

DELIVERY_TAG: Final = "delivery-tag"  # in the info of an error about one delivery
Told = bytes | str | bool  # a value in the info of an error

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

# The info that goes with some errors.
INFO: Final[dict[str, dict[str, Told]]] = {
    "container-in-use": {"invalid-field": symbol("container-id")},
    "replaced": {"sole-connection-enforcement": True},
}

DESCRIPTION_MAX: Final = 320  # bytes: every frame with a reason must fit the smallest size, 512


def condition_name(error: BrokerError) -> str:
    """Return the condition that stands for an error."""
    return CONDITIONS.get(error.code, INTERNAL_ERROR)


def condition_of(error: BrokerError, info: Mapping[str, Told] | None = None) -> Condition:
    """Return an error in the form that proton's links and connections carry."""
    info = info or INFO.get(error.code)
    told: PythonAMQPData | None = (
        {symbol(name): value for name, value in info.items()} if info else None
    )
    return Condition(condition_name(error), description_of(error), told)


def description_of(error: BrokerError) -> str:
    """Return an error's text, cut to `DESCRIPTION_MAX` bytes."""
    return error.text.encode("utf-8", "replace")[:DESCRIPTION_MAX].decode("utf-8", "ignore")
