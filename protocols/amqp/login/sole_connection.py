"""Sole connection: a container asks to have one connection at a time.

A peer desires the capability `sole-connection-for-container`. JMS clients do so when they have a
client id. A second connection of the same container, user and virtual host may desire it, too. It
is refused, or it replaces the first: the first one's policy decides. Connections that do not desire
the capability are left alone, which is what `weak` detection means.

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
REFUSE, CLOSE_EXISTING = 0, 1  # the newcomer; the one that is there
WEAK: Final = 1


def wished_policy(connection: Connection) -> int | None:
    """Return how a peer wants to be alone; None: it does not."""
    if CAPABILITY not in [str(each) for each in connection.remote_desired_capabilities or ()]:
        return None
    properties = connection.remote_properties
    wish = properties.get(ENFORCEMENT) if isinstance(properties, dict) else None
    return CLOSE_EXISTING if wish == CLOSE_EXISTING else REFUSE


def check_alone(claims: Claims, name: Name) -> None:
    """Raise RefusedError if a connection is there that lets no other in; end any other."""
    if claims.is_kept(name):
        cause = f"the container-id {name[-1]} has a connection already, and wants no other"
        raise RefusedError(cause, "container-in-use")
    claims.evict(name)
