"""Sole connection: a container asks to have only one connection at a time.

The peer asks for it by the capability `sole-connection-for-container`. JMS clients do so if they
have a client id. A second connection of the same container, user and virtual host may ask for it,
too. The policy of the first connection decides: the second is refused, or it replaces the first.
Connections that do not ask for the capability are not affected: that is `weak` detection.

Source: AMQP 1.0 "Enforcing Connection Uniqueness".
"""

from __future__ import annotations

from typing import Final

from proton import Connection

from covey.core.broker.broker import Claims, Name
from covey.core.errors import RefusedError

CAPABILITY: Final = "sole-connection-for-container"
ENFORCEMENT: Final = "sole-connection-enforcement-policy"
DETECTION: Final = "sole-connection-detection-policy"
REFUSE, CLOSE_EXISTING = 0, 1  # refuse the second connection; close the first
WEAK: Final = 1


def wished_policy(connection: Connection) -> int | None:
    """Return the policy that a peer asks for; None: it does not ask to be alone."""
    if CAPABILITY not in [str(each) for each in connection.remote_desired_capabilities or ()]:
        return None
    properties = connection.remote_properties
    wish = properties.get(ENFORCEMENT) if isinstance(properties, dict) else None
    return CLOSE_EXISTING if wish == CLOSE_EXISTING else REFUSE


def check_alone(claims: Claims, name: Name) -> None:
    """End the container's other connection, or raise RefusedError if its policy forbids that."""
    if claims.is_kept(name):
        cause = f"the container-id {name[-1]} has a connection already, and wants no other"
        raise RefusedError(cause, "container-in-use")
    claims.evict(name)
