"""Connection: proton's blocking connection to a broker, opened with a login and, if asked, TLS.

Shared by the clients that speak AMQP; whatever proton raises becomes one of `client.errors`.
"""

from __future__ import annotations

import os
import re
import ssl
from ast import literal_eval
from typing import Any, Final

from proton import Condition, ProtonException, SSLDomain
from proton.reactor import Container
from proton.utils import BlockingConnection, ConnectionClosed

from covey.client.errors import AnswerError, ClientError, DeniedError, UnreachableError, asked_again
from covey.client.place import Place
from covey.protocols.amqp.conditions import CONDITIONS

CONDITION: Final = re.compile(r" due to: Condition\((.*)\)$", re.DOTALL)  # in proton's error texts


def connect(place: Place, timeout_s: float | None) -> BlockingConnection:
    """Connect and log in, or raise UnreachableError or DeniedError."""
    try:
        return BlockingConnection(
            f"{'amqps' if place.is_tls else 'amqp'}://{place.address}",
            timeout=timeout_s,
            container=_container(),
            ssl_domain=_tls_domain() if place.is_tls else None,
            user=place.user,
            password=place.password or "",
            virtual_host=place.virtual_host or place.host,
            sni=place.host,  # the certificate's name, for any virtual host
            allowed_mechs="PLAIN",
            allow_insecure_mechs=True,
            reconnect=False,
        )
    except (ProtonException, OSError) as error:
        raise why(error, place) from error


def _container() -> Container:
    """Return proton's container, with a name that identifies it in a list of connections."""
    container = Container()
    container.container_id = f"covey-{os.getpid()}"
    return container


def close(connection: BlockingConnection) -> None:
    """Disconnect; no error if the broker is gone already."""
    try:
        connection.close()
    except (ProtonException, OSError):
        return


def why(error: Exception, place: Place) -> ClientError:
    """Return the error that says why a connection failed."""
    text = str(error)
    if "unauthorized" in text or "Authentication" in text:
        return DeniedError(f"{place.address} refused the login of {place.user}")
    condition = _last_word(error)
    if condition is not None:
        return refusal(condition)
    trusted = "trusted " if place.is_tls else ""
    return asked_again(place, "AMQP") or UnreachableError(
        f"no {trusted}broker answers at {place.address}"
    )


def _last_word(error: Exception) -> Condition | None:
    """Return the condition with which the broker closed the connection; None if it did not.

    proton's connection does not keep the condition, but the text of its error does.
    """
    found = CONDITION.search(str(error)) if isinstance(error, ConnectionClosed) else None
    if found is None:
        return None
    try:
        name, description, *_ = literal_eval(f"({found[1]},)")
    except (SyntaxError, ValueError):
        return None
    return Condition(str(name), str(description))


def refusal(condition: Any) -> ClientError:
    """Return the error for a broker's condition; without one the broker has just closed."""
    if condition is None:
        return AnswerError("the broker did not take the message")
    text = str(condition.description or condition.name)
    return DeniedError(text) if condition.name == CONDITIONS["denied"] else AnswerError(text)


def _tls_domain() -> SSLDomain:
    """Trust the authorities that this system trusts, and check the host's name."""
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    authorities = ssl.get_default_verify_paths().cafile
    if authorities is not None:
        domain.set_trusted_ca_db(authorities)
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    return domain
